"""What was called, who let it, and how it went: a line of JSON for each call, and spans for OpenTelemetry."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.host.redaction import Redaction
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from kakite.host.approval import Settled

FILE_MOST = 10 * 1024 * 1024  # bytes; then the file is put aside
KEPT = 3  # files that are put aside
LINE_MOST = 1024 * 1024  # bytes of one call's line; the arguments go first
LOCK_WAIT = 2.0  # s

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

log = logging.getLogger(__name__)


class Trace:
    """A file of JSON lines (mode 0600) that any number of processes write to, one at a time.

    A line tells ``time`` (UTC), ``process``, ``call``, ``server``, ``tool``, ``decision``, ``by``,
    ``seconds``, ``waited``, ``arguments_bytes``, ``result_bytes``, ``is_error`` and ``code``; with
    ``arguments``, those too, without secrets. Results are never written.
    """

    def __init__(self, file: Path, *, arguments: bool = False, secrets: Iterable[str] = ()) -> None:
        """Write to this file; its folder is made (0700) if missing. ``secrets`` are values to blank out."""
        self.file = file
        self._arguments = arguments
        self._redaction = Redaction(secrets)
        self._broken = False

    def settled(self, settled: Settled) -> None:
        """Write down a call. Never raises: a trace that cannot be written stops no work, and is logged."""
        line = self._line(settled)
        try:
            self._append(line)
        except OSError as error:
            if not self._broken:
                log.warning("the trace %s cannot be written: %s", self.file, error.strerror or error)
            self._broken = True
        else:
            self._broken = False

    def _line(self, settled: Settled) -> bytes:
        told = self._told(settled)
        if self._arguments and told["arguments_bytes"] <= LINE_MOST:
            whole = _encoded({**told, "arguments": self._redaction.value(settled.call.arguments)})
            if len(whole) <= LINE_MOST:
                return whole
        if self._arguments:
            told["arguments_cut"] = True
        return _encoded(told)

    def _told(self, settled: Settled) -> JsonObject:
        result = settled.result
        told: JsonObject = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "process": os.getpid(),
            "call": settled.call.id,
            "server": settled.server,
            "tool": settled.tool,
            "decision": settled.decision,
            "by": settled.by,
            "seconds": round(settled.seconds, 4),
            "waited": round(settled.waited, 4),
            "arguments_bytes": len(_encoded(settled.call.arguments)) - 1,
            "result_bytes": len(result.text.encode(errors="backslashreplace")),
            "is_error": result.is_error,
            "code": result.code,
        }
        return {
            name: self._redaction.text(each[:2000]) if isinstance(each, str) else each
            for name, each in told.items()
        }

    def _append(self, line: bytes) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.file.with_name(f"{self.file.name}.lock"), _APPEND, 0o600)
        try:
            _wait_for(lock)
            if self._size() + len(line) > FILE_MOST:
                self._rotate()
            self._write(line)
        finally:
            os.close(lock)  # which frees it

    def _write(self, line: bytes) -> None:
        opened = os.open(self.file, _APPEND, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise OSError(0, "it is no file")
            os.fchmod(opened, 0o600)
            while line:
                line = line[os.write(opened, line) :]
        finally:
            os.close(opened)

    def _size(self) -> int:
        try:
            return self.file.lstat().st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        for number in range(KEPT, 0, -1):
            younger = self.file if number == 1 else self._aside(number - 1)
            with suppress(FileNotFoundError):
                younger.replace(self._aside(number))

    def _aside(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")


def _encoded(told: JsonObject) -> bytes:
    return json.dumps(told, default=str).encode() + b"\n"


def _wait_for(lock: int) -> None:
    until = time.monotonic() + LOCK_WAIT
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > until:
            raise OSError(0, "another process holds it all the time")
        time.sleep(0.005)


class SpannedToolset:
    """A toolset whose calls are spans of OpenTelemetry, with the MCP library's own spans inside of them.

    Without a tracer provider, which only the program that embeds us or ``opentelemetry-instrument`` sets,
    they cost next to nothing and go nowhere. Goes around the approval, which tells the span what it decided
    through ``annotate``. Arguments and results are never told.
    """

    def __init__(self, toolset: Toolset, tracer: Tracer | None = None) -> None:
        """Use this tracer, or the one of the process."""
        self._toolset = toolset
        self._tracer = tracer

    async def tools(self) -> tuple[Tool, ...]:
        """Return the toolset's tools."""
        return await self._toolset.tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform the call in a span named ``execute_tool`` and the tool."""
        try:
            from opentelemetry import trace
        except ImportError:  # it comes with the MCP library, as long as that wants it
            return await self._toolset.call(call)
        if self._tracer is None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return await self._toolset.call(call)  # nobody wants spans
        tracer = self._tracer or trace.get_tracer("kakite.host")
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
        }
        with tracer.start_as_current_span(f"execute_tool {call.name}", attributes=attributes) as span:
            result = await self._toolset.call(call)
            if result.is_error:
                span.set_attribute("error.type", result.code or "tool_failed")
                span.set_status(trace.StatusCode.ERROR, result.code)
            return result


def annotate(settled: Settled) -> None:
    """Tell the span that is open now what was decided of a call, and by what kind of thing."""
    try:
        from opentelemetry import trace
    except ImportError:
        return
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN:
        return
    span.set_attributes(
        {
            "kakite.server": settled.server,
            "kakite.tool": settled.tool,
            "kakite.decision": settled.decision,
            "kakite.by": settled.by.partition(" ")[0],
            "kakite.waited": settled.waited,
        }
    )
