"""Runs in blobs: what was said and done is linked and written once, a step writes only what it added.

A run's head names all of it: a blob that follows that of the step before. Its first line holds the messages
and steps that were added since, its second one the small rest: where the run stands. One blob a step, since
what a step costs is mostly waiting for the disk.
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

_ADDED = {"messages", "steps"}


def store_run(blobs: Blobs, run: Run, parent: str | None = None) -> str:
    """Keep a run and return its head; when this returns, a power cut does not lose it.

    ``parent`` is the head that the run came out of: of that one only what was added is written.

    Raises:
        BlobError: there is no such parent.
        OSError: the disk is full, or the folder cannot be written.
    """
    last = blobs.get(parent).data if parent else b""
    before = _told(last) if last else {}
    messages, steps = _count(before, "messages"), _count(before, "steps")
    if messages > len(run.messages) or steps > len(run.steps):
        parent, messages, steps = None, 0, 0
    rest = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in _ADDED}
    told = {"messages": len(run.messages), "steps": len(run.steps), "run": rest}
    added, stands = (run.messages[messages:], run.steps[steps:]), as_json(told)
    if parent and added == ((), ()) and last.endswith(b"\n" + stands):
        return parent  # nothing has changed
    return blobs.put(as_json(added) + b"\n" + stands, parent)


def load_run(blobs: Blobs, head: str) -> Run:
    """Return the run that a head names.

    Raises:
        BlobError: a part of it is missing or changed.
        RecordError: it was written by another version, or is no run (``run_unreadable``).
    """
    chain = blobs.chain(head)
    messages: list[Message] = []
    steps: list[Step] = []
    try:
        for blob in chain:
            added = _additions().validate_python(json.loads(blob.data.partition(b"\n")[0]))
            messages += added[0]
            steps += added[1]
        run = _runs().validate_python(_told(chain[-1].data)["run"])
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"the blob `{head[:12]}` is not a run that this version knows") from error
    return replace(run, messages=tuple(messages), steps=tuple(steps))


def _told(data: bytes) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(data.partition(b"\n")[2]))


def _count(head: dict[str, object], what: str) -> int:
    return cast("int", head.get(what, 0))


@cache
def _runs() -> TypeAdapter[Run]:
    return TypeAdapter(Run)


@cache
def _additions() -> TypeAdapter[tuple[tuple[Message, ...], tuple[Step, ...]]]:
    return TypeAdapter(tuple[tuple[Message, ...], tuple[Step, ...]])
