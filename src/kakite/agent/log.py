"""What a task does, one line of JSON an event, in a file of its own: for people who follow, and for programs.

A line has ``time``, ``task`` and ``event``, and the fields of its event (docs/agent-web.md). Secrets are
taken out before a line is written; what a tool gave is shortened, since the trajectory has all of it.
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

from kakite.agent import events
from kakite.agent.flow import describe
from kakite.agent.run import Step
from kakite.host.redaction import Redaction
from kakite.tools.toolset import JsonObject, ToolCall

_TEXT = 500
"""Characters of a text in a line."""
_MOST = 32 * 1024 * 1024
"""Bytes of a task's file; the one before is kept as well."""
_SPOKEN_MOST = 200
_NAME = 200  # bytes of a file's name
_PAUSE = 0.2  # s between two looks for new lines


class Log:
    """The logs of tasks below one folder, a file each."""

    def __init__(self, folder: Path, redaction: Redaction) -> None:
        self._folder = folder
        self._redaction = redaction
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def file(self, task_id: str) -> Path:
        """Return the file of a task, whatever letters its id has."""
        name = quote(task_id, safe="")
        if len(name) > _NAME:
            name = f"{name[: _NAME - 13]}-{hashlib.sha256(task_id.encode()).hexdigest()[:12]}"
        return self._folder / f"{name}.jsonl"

    def listener(self, task_id: str) -> events.Listener:
        """Return what writes a line for each event of a task's run."""

        def hear(event: events.Event) -> None:
            if told := told_of(event):
                with suppress(OSError):  # a run does not end because its log's disk is full
                    self.write(task_id, *told)

        return hear

    def write(self, task_id: str, event: str, fields: Mapping[str, object]) -> None:
        """Write one line: also for what is no event of a run, such as a task taken up.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        shown = {name: self._shown(name, value) for name, value in fields.items()}
        line = json.dumps({"time": now, "task": task_id, "event": event, **shown}, ensure_ascii=False)
        file = self.file(task_id)
        if file.exists() and file.stat().st_size > _MOST:
            file.replace(file.with_suffix(".old.jsonl"))
        # In one piece, so that lines of several processes do not mix.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode("utf-8", errors="backslashreplace") + b"\n")
        finally:
            os.close(descriptor)

    def read(self, task_id: str) -> list[JsonObject]:
        """Return what was written of a task, the oldest first; nothing if nothing was."""
        return [*_lines(self.file(task_id), 0)[1]]

    async def follow(
        self, task_id: str, ended: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[JsonObject]:
        """Yield what was written of a task and what is being written, until ``ended`` says that it is all."""
        file, at = self.file(task_id), 0
        while True:
            last = ended()  # asked first: what was written before it said so is read after
            if file.exists() and file.stat().st_size < at:
                at = 0  # another file took its place
            at, found = _lines(file, at)
            for line in found:
                yield line
            if last:
                return
            await asyncio.sleep(_PAUSE)

    def _shown(self, name: str, value: object) -> object:
        """Our own names are no hints of secrets; those of arguments are."""
        if name == "arguments":
            return self._redaction.value(value)
        if isinstance(value, str):
            return _short(self._redaction.text(value))
        if isinstance(value, tuple):
            texts = cast("tuple[object, ...]", value)
            return [_short(self._redaction.text(str(each))) for each in texts]
        return value


def spoken(line: Mapping[str, object]) -> str:
    """Return a line of a log as people read it: when, what, and what of it."""
    at = str(line.get("time", ""))[:19]
    return " ".join(filter(None, [at, _SPOKEN.get(str(line.get("event")), _plainly)(line)]))


def told_of(event: events.Event) -> tuple[str, JsonObject] | None:
    """Return an event's name and fields; None for what is no news to a log."""
    match event:
        case events.Preparing(what=what):
            return "preparing", {"what": what}
        case events.Thinking(turn=turn):
            return "asking_model", {"turn": turn}
        case events.Said(text=text) if text.strip():
            return "said", {"text": text}
        case events.Planned(plan=plan):
            return "planned", {"goal": plan.goal, "steps": plan.steps, "check": plan.check}
        case events.Calling(call=call):
            return "calling", {"call": call.id, "tool": call.name, "arguments": call.arguments}
        case events.Called(call=call, result=result, seconds=seconds):
            done = {"ok": not result.is_error, "code": result.code, "seconds": round(seconds, 3)}
            return "called", {"call": call.id, "tool": call.name, **done, "text": result.text}
        case _:
            return _rest(event)


def _rest(event: events.Event) -> tuple[str, JsonObject] | None:
    match event:
        case events.Lacking(what=what, error=error):
            return "lacking", {"what": what, "code": error.code, "message": error.message}
        case events.Found(findings=findings):
            return "found", {"findings": findings}
        case events.Progressed(step=step):
            return "step", _step(step)
        case events.Rejected(branch=branch):
            return "rejected", {"branch": branch}
        case events.Finished(run=run):
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


def _plainly(line: Mapping[str, object]) -> str:
    said = [str(line[name]) for name in ("code", "message", "branch", "status") if line.get(name)]
    return ": ".join(filter(None, [str(line.get("event", "")), " ".join(said)]))


def _called(line: Mapping[str, object]) -> str:
    outcome = "done" if line.get("ok") else f"failed ({line.get('code') or 'error'})"
    return f"{outcome}: {line.get('tool')}, {line.get('seconds')} s"


def _calling(line: Mapping[str, object]) -> str:
    arguments = cast("JsonObject", line.get("arguments") or {})
    return f"calls {_in_a_line(describe(ToolCall(id='', name=str(line.get('tool')), arguments=arguments)))}"


_SPOKEN: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "preparing": lambda line: f"prepares the {line.get('what')}",
    "asking_model": lambda line: f"asks the model ({line.get('turn')})",
    "said": lambda line: f"says: {_in_a_line(str(line.get('text')))}",
    "planned": lambda line: f"plans: {_in_a_line(str(line.get('goal')))}",
    "calling": _calling,
    "called": _called,
    "found": lambda line: f"finds to mend: {_in_a_line(' | '.join(map(str, _listed(line.get('findings')))))}",
    "step": lambda line: f"{line.get('kind')}: {_in_a_line(str(line.get('text')))}",
    "rejected": lambda line: f"somebody else pushed to {line.get('branch')} first: rebases",
}


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _in_a_line(text: str) -> str:
    short = " ".join(text.split())
    return short if len(short) <= _SPOKEN_MOST else f"{short[: _SPOKEN_MOST - 1]}…"


def _step(step: Step) -> JsonObject:
    told = {"kind": step.kind, "text": step.text, "ok": step.ok, "code": step.code}
    return {**told, "seconds": round(step.seconds, 3)}


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}… {len(text) - _TEXT} more characters"


def _lines(file: Path, at: int) -> tuple[int, Iterator[JsonObject]]:
    """Return where the whole lines after a place end, and what they say."""
    try:
        with file.open("rb") as stream:
            stream.seek(at)
            data = stream.read()
    except FileNotFoundError:
        return at, iter(())
    whole = data[: data.rfind(b"\n") + 1]
    return at + len(whole), (line for raw in whole.splitlines() if (line := _parsed(raw)) is not None)


def _parsed(raw: bytes) -> JsonObject | None:
    try:
        found = json.loads(raw)
    except ValueError:  # of a disk that was full in the middle of it
        return None
    return cast("JsonObject", found) if isinstance(found, dict) else None
