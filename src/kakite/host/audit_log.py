"""Traces calls: a line of JSON for each call, with who allowed it, and spans for OpenTelemetry."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kakite import state_files
from kakite.redaction import Redaction
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from kakite.host.policy.approval import CallOutcome

MAX_FILE_BYTES = 10 * 1024 * 1024  # bytes; then the file is put aside
BACKUP_COUNT = 3  # files that are put aside
MAX_LINE_BYTES = 1024 * 1024  # bytes of one call's line; the arguments go first
LOCK_TIMEOUT = 2.0  # s
_MAX_NAME_CHARS = 2000  # characters of a name
_MAX_SCAN_CHARS = 64 * 1024  # of which they are shown, once no secret is in them

log = logging.getLogger(__name__)


class AuditLog:
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

    def record(self, *calls: CallOutcome) -> None:
        """Write down calls, in one go. Never raises: a trace that cannot be written stops no work.

        That is logged then; what goes wrong with one call costs no other.
        """
        lines = [line for each in calls if (line := self._try_format_line(each))]
        try:
            self._append(lines)
        except OSError as error:
            if not self._broken:
                reason, hint = state_files.explain_os_error(error, self.file)
                log.warning("the trace %s cannot be written: %s; %s", self.file, reason, hint)
            self._broken = True
        else:
            self._broken = False

    def _try_format_line(self, settled: CallOutcome) -> bytes:
        try:
            return self._format_line(settled)
        except Exception:  # who embeds us may hand in arguments that are no JSON, and fail in any way
            log.warning("a call of `%s` is missing in the trace", settled.tool, exc_info=True)
            return b""

    def _format_line(self, settled: CallOutcome) -> bytes:
        told = self._build_record(settled)
        if self._arguments and (whole := self._format_with_arguments(told, settled.call.arguments)):
            return whole
        if self._arguments:
            told["arguments_cut"] = True
        return _encode_line(told)

    def _format_with_arguments(self, told: JsonObject, arguments: JsonObject) -> bytes:
        """Return the line with arguments; nothing where they are too long or too deep."""
        if not 0 <= told["arguments_bytes"] <= MAX_LINE_BYTES:
            return b""
        try:
            whole = _encode_line({**told, "arguments": self._redaction.redact_json(arguments)})
        except RecursionError:
            return b""
        return whole if len(whole) <= MAX_LINE_BYTES else b""

    def _build_record(self, settled: CallOutcome) -> JsonObject:
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
            "arguments_bytes": _measure_arguments(settled.call.arguments),
            "result_bytes": len(result.text.encode(errors="backslashreplace")),
            "is_error": result.is_error,
            "code": result.code,
        }
        return {
            name: self._redaction.redact(each[:_MAX_SCAN_CHARS])[:_MAX_NAME_CHARS]
            if isinstance(each, str) and each
            else each
            for name, each in told.items()
        }

    def _append(self, lines: Sequence[bytes]) -> None:
        with state_files.lock_file(self.file.with_name(f"{self.file.name}.lock"), LOCK_TIMEOUT):
            room = MAX_FILE_BYTES - self._get_size()
            for line in lines:
                if len(line) > room:
                    self._rotate()
                    room = MAX_FILE_BYTES
                room -= len(line)
                state_files.append(self.file, line)

    def _get_size(self) -> int:
        try:
            return self.file.lstat().st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        for number in range(BACKUP_COUNT, 0, -1):
            younger = self.file if number == 1 else self._get_rotated_path(number - 1)
            with suppress(FileNotFoundError):
                younger.replace(self._get_rotated_path(number))

    def _get_rotated_path(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")


def _measure_arguments(arguments: JsonObject) -> int:
    """Return the bytes of arguments; -1 where they are too deep to be written at all."""
    try:
        return len(_encode_line(arguments)) - 1
    except (RecursionError, ValueError):  # the latter: they hold themselves
        return -1


def _encode_line(told: JsonObject) -> bytes:
    return json.dumps(told, default=str).encode() + b"\n"


class TracedToolset:
    """A toolset whose calls are spans of OpenTelemetry, with the MCP library's own spans inside of them.

    Without a tracer provider, which only the program that embeds us or ``opentelemetry-instrument`` sets,
    they cost next to nothing and go nowhere. Goes around the approval, which tells the span what it decided
    through ``annotate``. Arguments and results are never told.
    """

    def __init__(self, toolset: Toolset, tracer: Tracer | None = None) -> None:
        """Use this tracer, or the one of the process."""
        self._toolset = toolset
        self._tracer = tracer

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the toolset's tools."""
        return await self._toolset.list_tools()

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


def annotate(settled: CallOutcome) -> None:
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
