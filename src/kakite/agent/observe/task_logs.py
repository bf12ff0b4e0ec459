"""Writes a task's events to a file while they happen, one JSON object on a line, for people and programs.

A line has ``time``, ``task`` and ``type``, and the fields of its event (docs/agent-web.md). Secrets are
redacted before a line is written. Long texts are shortened, since an export has all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import quote

from kakite.agent.observe.event_log import redact_events
from kakite.agent.observe.events import ModelTextDelta, ModelThoughtDelta, RunEvent, RunListener
from kakite.agent.observe.renderers.jsonl import to_json_object
from kakite.redaction import Redaction
from kakite.tools.toolset import JsonObject

_MAX_TEXT_CHARS = 500
"""Characters of a text in a line."""
_MAX_FILE_BYTES = 32 * 1024 * 1024
"""Bytes of a task's file; the one before is kept as well."""
_MAX_NAME_BYTES = 200  # bytes of a file's name
_POLL_INTERVAL = 0.2  # s between two looks for new lines


class TaskLogs:
    """The logs of tasks below one folder, a file each."""

    def __init__(self, folder: Path, redaction: Redaction) -> None:
        self._folder = folder
        self._redaction = redaction
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get_path(self, task_id: str) -> Path:
        """Return the file of a task, whatever letters its id has."""
        name = quote(task_id, safe="")
        if len(name) > _MAX_NAME_BYTES:
            name = f"{name[: _MAX_NAME_BYTES - 13]}-{hashlib.sha256(task_id.encode()).hexdigest()[:12]}"
        return self._folder / f"{name}.jsonl"

    def create_listener(self, task_id: str) -> RunListener:
        """Return what writes a line for each event of a task's run, but not for pieces of a text."""

        def write_event(event: RunEvent) -> None:
            if not isinstance(event, ModelTextDelta | ModelThoughtDelta):
                with suppress(OSError):  # a run does not end because its log's disk is full
                    self.write(task_id, event)

        return write_event

    def write(self, task_id: str, event: RunEvent) -> None:
        """Write one line.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        (redacted,) = redact_events([event], self._redaction)
        told = {name: _shorten(value) for name, value in to_json_object(redacted).items()}
        line = json.dumps({"time": now, "task": task_id, **told}, ensure_ascii=False)
        file = self.get_path(task_id)
        if file.exists() and file.stat().st_size > _MAX_FILE_BYTES:
            file.replace(file.with_suffix(".old.jsonl"))
        # In one piece, so that lines of several processes do not mix.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode("utf-8", errors="backslashreplace") + b"\n")
        finally:
            os.close(descriptor)

    def read(self, task_id: str) -> list[JsonObject]:
        """Return what was written of a task, the oldest first; nothing if nothing was."""
        return [*_read_lines(self.get_path(task_id), 0)[1]]

    async def follow(
        self, task_id: str, ended: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[JsonObject]:
        """Yield what was written of a task and what is being written, until ``ended`` says that it is all."""
        file, at = self.get_path(task_id), 0
        while True:
            last = ended()  # asked first: what was written before it said so is read after
            if file.exists() and file.stat().st_size < at:
                at = 0  # another file took its place
            at, found = _read_lines(file, at)
            for line in found:
                yield line
            if last:
                return
            await asyncio.sleep(_POLL_INTERVAL)


def _shorten(value: object) -> object:
    if isinstance(value, str):
        return _truncate(value)
    if isinstance(value, list):
        return [_truncate(str(each)) for each in cast("list[object]", value)]
    return value


def _truncate(text: str) -> str:
    return (
        text
        if len(text) <= _MAX_TEXT_CHARS
        else f"{text[:_MAX_TEXT_CHARS]}… {len(text) - _MAX_TEXT_CHARS} more characters"
    )


def _read_lines(file: Path, at: int) -> tuple[int, Iterator[JsonObject]]:
    """Return where the whole lines after a place end, and what they say."""
    try:
        with file.open("rb") as stream:
            stream.seek(at)
            data = stream.read()
    except FileNotFoundError:
        return at, iter(())
    whole = data[: data.rfind(b"\n") + 1]
    return at + len(whole), (line for raw in whole.splitlines() if (line := _parse_line(raw)) is not None)


def _parse_line(raw: bytes) -> JsonObject | None:
    try:
        found = json.loads(raw)
    except ValueError:  # of a disk that was full in the middle of it
        return None
    return cast("JsonObject", found) if isinstance(found, dict) else None
