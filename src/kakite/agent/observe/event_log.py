"""Writes a task's events to a file, one JSON object on a line, for people and programs.

A line has ``time``, ``task`` and ``event``, and the fields of its event (docs/agent-web.md). Secrets are
redacted before a line is written. Tool output is shortened, since the trajectory has all of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import quote

from kakite.agent.observe import events
from kakite.agent.run.machine import describe
from kakite.agent.run.state import RunStep
from kakite.redaction import Redaction
from kakite.tools.toolset import JsonObject, ToolCall

_MAX_TEXT_CHARS = 500
"""Characters of a text in a line."""
_MAX_FILE_BYTES = 32 * 1024 * 1024
"""Bytes of a task's file; the one before is kept as well."""
_MAX_LINE_CHARS = 200
_MAX_NAME_BYTES = 200  # bytes of a file's name
_POLL_INTERVAL = 0.2  # s between two looks for new lines


class EventLog:
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

    def create_listener(self, task_id: str) -> events.RunListener:
        """Return what writes a line for each event of a task's run."""

        def write_event(event: events.RunEvent) -> None:
            if told := encode_event(event):
                with suppress(OSError):  # a run does not end because its log's disk is full
                    self.write(task_id, *told)

        return write_event

    def write(self, task_id: str, event: str, fields: Mapping[str, object]) -> None:
        """Write one line: also for what is no event of a run, such as a task taken up.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        shown = {name: self._redact_field(name, value) for name, value in fields.items()}
        line = json.dumps({"time": now, "task": task_id, "event": event, **shown}, ensure_ascii=False)
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

    def _redact_field(self, name: str, value: object) -> object:
        """Our own names are no hints of secrets; those of arguments are."""
        if name == "arguments":
            return self._redaction.redact_json(value)
        if isinstance(value, str):
            return _truncate(self._redaction.redact(value))
        if isinstance(value, tuple):
            texts = cast("tuple[object, ...]", value)
            return [_truncate(self._redaction.redact(str(each))) for each in texts]
        return value


def format_line(line: Mapping[str, object]) -> str:
    """Return a line of a log as people read it: when, what, and what of it."""
    at = str(line.get("time", ""))[:19]
    return " ".join(filter(None, [at, _FORMATTERS.get(str(line.get("event")), _format_plain)(line)]))


def encode_event(event: events.RunEvent) -> tuple[str, JsonObject] | None:
    """Return an event's name and fields; None for what is no news to a log."""
    match event:
        case events.PreparationStarted(what=what):
            return "preparing", {"what": what}
        case events.ModelRequestStarted(turn=turn):
            return "asking_model", {"turn": turn}
        case events.ModelReplyFinished(text=text) if text.strip():
            return "said", {"text": text}
        case events.PlanCreated(plan=plan):
            return "planned", {"goal": plan.goal, "steps": plan.steps, "check": plan.check}
        case events.ToolCallStarted(call=call):
            return "calling", {"call": call.id, "tool": call.name, "arguments": call.arguments}
        case events.ToolCallFinished(call=call, result=result, seconds=seconds):
            done = {"ok": not result.is_error, "code": result.code, "seconds": round(seconds, 3)}
            return "called", {"call": call.id, "tool": call.name, **done, "text": result.text}
        case _:
            return _encode_other_event(event)


def _encode_other_event(event: events.RunEvent) -> tuple[str, JsonObject] | None:
    match event:
        case events.ResourceMissing(what=what, error=error):
            return "lacking", {"what": what, "code": error.code, "message": error.message}
        case events.FindingsReported(findings=findings):
            return "found", {"findings": findings}
        case events.StepFinished(step=step):
            return "step", _encode_step(step)
        case events.PushRejected(branch=branch):
            return "rejected", {"branch": branch}
        case events.AgentRunFinished(run=run):
            used = {"input_tokens": run.usage.input_tokens, "output_tokens": run.usage.output_tokens}
            ended = {
                "status": run.status,
                "commit": run.commit,
                "pushed": run.pushed,
                "turns": run.usage.requests,
            }
            return "finished", {**ended, **used, "cost_usd": run.usage.cost_usd}
        case _:
            return None


def _format_plain(line: Mapping[str, object]) -> str:
    said = [str(line[name]) for name in ("code", "message", "branch", "status") if line.get(name)]
    return ": ".join(filter(None, [str(line.get("event", "")), " ".join(said)]))


def _format_called(line: Mapping[str, object]) -> str:
    outcome = "done" if line.get("ok") else f"failed ({line.get('code') or 'error'})"
    return f"{outcome}: {line.get('tool')}, {line.get('seconds')} s"


def _format_calling(line: Mapping[str, object]) -> str:
    arguments = cast("JsonObject", line.get("arguments") or {})
    return (
        f"calls {_to_single_line(describe(ToolCall(id='', name=str(line.get('tool')), arguments=arguments)))}"
    )


_FORMATTERS: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "preparing": lambda line: f"prepares the {line.get('what')}",
    "asking_model": lambda line: f"asks the model ({line.get('turn')})",
    "said": lambda line: f"says: {_to_single_line(str(line.get('text')))}",
    "planned": lambda line: f"plans: {_to_single_line(str(line.get('goal')))}",
    "calling": _format_calling,
    "called": _format_called,
    "found": lambda line: (
        f"finds to mend: {_to_single_line(' | '.join(map(str, _to_list(line.get('findings')))))}"
    ),
    "step": lambda line: f"{line.get('kind')}: {_to_single_line(str(line.get('text')))}",
    "rejected": lambda line: f"somebody else pushed to {line.get('branch')} first: rebases",
}


def _to_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _to_single_line(text: str) -> str:
    short = " ".join(text.split())
    return short if len(short) <= _MAX_LINE_CHARS else f"{short[: _MAX_LINE_CHARS - 1]}…"


def _encode_step(step: RunStep) -> JsonObject:
    told = {"kind": step.kind, "text": step.text, "ok": step.ok, "code": step.code}
    return {**told, "seconds": round(step.seconds, 3)}


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
