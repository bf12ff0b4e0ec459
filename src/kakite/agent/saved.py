"""Runs in blobs: what was said and done is linked and written once, a step writes only what it added.

A run's head names all of it. Its blob holds the small rest (where the run stands) and follows the last
chapter; a chapter holds the messages and steps that were added since the one before, which it follows.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import cache
from typing import cast

from pydantic import TypeAdapter, ValidationError

from kakite.agent.durable.blobs import Blobs
from kakite.agent.lines import as_json
from kakite.agent.record import RecordError
from kakite.agent.run import Run, Step
from kakite.models.messages import Message

_CHAPTERS = {"messages", "steps"}


def store_run(blobs: Blobs, run: Run, parent: str | None = None) -> str:
    """Keep a run and return its head; when this returns, a power cut does not lose it.

    ``parent`` is the head that the run came out of: of that one only what was added is written.

    Raises:
        BlobError: there is no such parent.
        OSError: the disk is full, or the folder cannot be written.
    """
    before = _head(blobs, parent) if parent else {}
    messages, steps = _count(before, "messages"), _count(before, "steps")
    chapter = blobs.get(parent).parent if parent else None
    if messages > len(run.messages) or steps > len(run.steps):
        chapter, messages, steps = None, 0, 0
    added: list[bytes] = []
    if (len(run.messages), len(run.steps)) != (messages, steps) or chapter is None:
        added.append(_chapter(run, messages, steps))
    rest = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in _CHAPTERS}
    told = {"messages": len(run.messages), "steps": len(run.steps), "run": rest}
    return blobs.put_chain([*added, as_json(told)], chapter)


def load_run(blobs: Blobs, head: str) -> Run:
    """Return the run that a head names.

    Raises:
        BlobError: a part of it is missing or changed.
        RecordError: it was written by another version, or is no run (``run_unreadable``).
    """
    *chapters, last = blobs.chain(head)
    messages: list[Message] = []
    steps: list[Step] = []
    try:
        for blob in chapters:
            added = _chapters().validate_python(json.loads(blob.data))
            messages += added[0]
            steps += added[1]
        run = _runs().validate_python(json.loads(last.data)["run"])
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"the blob `{head[:12]}` is not a run that this version knows") from error
    return replace(run, messages=tuple(messages), steps=tuple(steps))


def _head(blobs: Blobs, head: str) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(blobs.get(head).data))


def _count(head: dict[str, object], what: str) -> int:
    return cast("int", head.get(what, 0))


def _chapter(run: Run, messages: int, steps: int) -> bytes:
    return as_json((run.messages[messages:], run.steps[steps:]))


@cache
def _runs() -> TypeAdapter[Run]:
    return TypeAdapter(Run)


@cache
def _chapters() -> TypeAdapter[tuple[tuple[Message, ...], tuple[Step, ...]]]:
    return TypeAdapter(tuple[tuple[Message, ...], tuple[Step, ...]])
