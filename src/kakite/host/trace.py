"""What was called, who let it, and how it went: a line of JSON for each call, and spans for OpenTelemetry."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.host.redaction import Redaction
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset
from kakite.workspace import records

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from kakite.host.approval import Settled

FILE_MOST = 10 * 1024 * 1024  # bytes; then the file is put aside
KEPT = 3  # files that are put aside
LINE_MOST = 1024 * 1024  # bytes of one call's line; the arguments go first
LOCK_WAIT = 2.0  # s
_SHOWN = 2000  # characters of a name
_LOOKED_AT = 64 * 1024  # of which they are shown, once no secret is in them

log = logging.getLogger(__name__)


class Trace:
    """A file of JSON lines (mode 0600) that any number of processes write to, one at a time.

    A line tells ``time`` (UTC), ``process``, ``call``, ``server``, ``tool``, ``decision``, ``by``,
    ``seconds``, ``waited``, ``arguments_bytes``, ``result_bytes``, ``is_error`` and ``code``; with
    ``arguments``, those too, without secrets. ``arguments_bytes`` is -1 where they are
    too deep to be counted. Results are never written.
    """

    def __init__(self, file: Path, *, arguments: bool = False, redaction: Redaction | None = None) -> None:
        """Write to this file; its folder is made (0700) if missing.

        ``redaction`` knows what to blank out, also what it learns later.
        """
        self.file = file
        self._arguments = arguments
        self._redaction = redaction or Redaction()
        self._broken = False

    def settled(self, *calls: Settled) -> None:
        """Write down calls, in one go. Never raises: a trace that cannot be written stops no work.

        That is logged then; what goes wrong with one call costs no other.
        """
        lines = [line for each in calls if (line := self._sure_line(each))]
        try:
            self._append(lines)
        except OSError as error:
            if not self._broken:
                reason, hint = records.trouble(error, self.file)
                log.warning("the trace %s cannot be written: %s; %s", self.file, reason, hint)
            self._broken = True
        else:
            self._broken = False

    def _sure_line(self, settled: Settled) -> bytes:
        try:
            return self._line(settled)
        except Exception:  # who embeds us may hand in arguments that are no JSON, and fail in any way
            log.warning("a call of `%s` is missing in the trace", settled.tool, exc_info=True)
            return b""

    def _line(self, settled: Settled) -> bytes:
        told = self._told(settled)
        if self._arguments and (whole := self._whole(told, settled.call.arguments)):
            return whole
        if self._arguments:
            told["arguments_cut"] = True
        return _encoded(told)

    def _whole(self, told: JsonObject, arguments: JsonObject) -> bytes:
        """Return the line with arguments; nothing where they are too long or too deep."""
        if not 0 <= told["arguments_bytes"] <= LINE_MOST:
            return b""
        try:
            whole = _encoded({**told, "arguments": self._redaction.value(arguments)})
        except RecursionError:
            return b""
        return whole if len(whole) <= LINE_MOST else b""

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
            "arguments_bytes": _size(settled.call.arguments),
            "result_bytes": len(result.text.encode(errors="backslashreplace")),
            "is_error": result.is_error,
            "code": result.code,
        }
        return {
            name: self._redaction.text(each[:_LOOKED_AT])[:_SHOWN] if isinstance(each, str) and each else each
            for name, each in told.items()
        }

    def _append(self, lines: Sequence[bytes]) -> None:
        with records.locked(self.file.with_name(f"{self.file.name}.lock"), LOCK_WAIT):
            room = FILE_MOST - self._size()
            for line in lines:
                if len(line) > room:
                    self._rotate()
                    room = FILE_MOST
                room -= len(line)
                records.append(self.file, line)

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


def _size(arguments: JsonObject) -> int:
    """Return the bytes of arguments; -1 where they are too deep to be written at all."""
    try:
        return len(_encoded(arguments)) - 1
    except (RecursionError, ValueError):  # the latter: they hold themselves
        return -1


def _encoded(told: JsonObject) -> bytes:
    return json.dumps(told, default=str).encode() + b"\n"


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
