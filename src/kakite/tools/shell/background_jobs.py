"""Runs commands in the background: started by ``run_command``, read and stopped by tools of their own."""

from __future__ import annotations

import asyncio
import secrets
import time
from codecs import getincrementaldecoder
from contextlib import ExitStack
from dataclasses import replace

from kakite.processes import CompletedProcess, ProcessSpec, Stream, run
from kakite.tools.arguments import ToolError
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope
from kakite.tools.shell.command_output import OUTPUT_SHOWN, format_command_output, format_seconds
from kakite.tools.shell.failure_hints import find_limit_hit, get_limit_hint, read_limit_counts
from kakite.tools.shell.overflow_files import MAX_FILE, OverflowFile
from kakite.tools.toolset import JsonObject, Tool, ToolResult

MAX_RUNNING = 8
MAX_KEPT = 32
"""Jobs that are remembered, the ended ones among them; the oldest of these are forgotten first."""
MAX_WAIT = 60  # s
MAX_UNREAD = OUTPUT_SHOWN
"""Bytes of each stream that wait to be read; older ones are only in the file."""

_JOB: JsonObject = {"type": "string", "description": "as run_command answered"}

POLL_COMMAND = Tool(
    name="poll_command",
    title="Look at a background command",
    description=f"""\
Read what a command in the background has printed since you looked last, and whether it still runs.
Answers as `run_command`; the exit code comes once it has ended.
`wait`: seconds to wait for its end, 0 by default, {MAX_WAIT} at most.""",
    parameters={
        "type": "object",
        "properties": {"job": _JOB, "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT}},
        "required": ["job"],
        "additionalProperties": False,
    },
    effect="read",
    open_world=True,
)

STOP_COMMAND = Tool(
    name="stop_command",
    title="Stop a background command",
    description="End a command in the background and all that it started. Answers as `poll_command`.",
    parameters={
        "type": "object",
        "properties": {"job": _JOB},
        "required": ["job"],
        "additionalProperties": False,
    },
    effect="write",
    open_world=True,
)


class _UnreadOutput:
    """The latest of one stream that nobody has read yet."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._lost = 0

    def append(self, data: bytes) -> None:
        self._data += data
        if (beyond := len(self._data) - MAX_UNREAD) > 0:
            del self._data[:beyond]
            self._lost += beyond

    def read(self, where: str, *, more: bool) -> str:
        """Return it all, and what is missing before it; from then on it counts as read.

        While ``more`` may come, a character that is not yet all there waits for the rest.
        """
        gap = ""
        if self._lost:
            gap = self._decoder.decode(b"", final=True) + f"… {self._lost:,} bytes left out{where} …\n"
        text = gap + self._decoder.decode(bytes(self._data), final=not more)
        self._data.clear()
        self._lost = 0
        return text


class _Job:
    """One command in the background."""

    def __init__(self, launch: ProcessSpec, timeout: float | None, root: int, opened: ExitStack) -> None:
        self.name = secrets.token_hex(3)
        self.timeout = timeout
        self.unread: dict[Stream, _UnreadOutput] = {"stdout": _UnreadOutput(), "stderr": _UnreadOutput()}
        self.spills: dict[Stream, OverflowFile] = {
            "stdout": OverflowFile(root, "stdout", MAX_UNREAD),
            "stderr": OverflowFile(root, "stderr", MAX_UNREAD),
        }
        self.began = self.ended = time.monotonic()
        self.task = asyncio.create_task(self._work(launch, opened))
        self.task.add_done_callback(_retrieve_exception)

    @property
    def running(self) -> bool:
        return not self.task.done()

    @property
    def seconds(self) -> float:
        return (time.monotonic() if self.running else self.ended) - self.began

    async def _work(self, launch: ProcessSpec, opened: ExitStack) -> CompletedProcess:
        try:
            with opened:
                before = await asyncio.to_thread(read_limit_counts)
                done = await run(launch, timeout=self.timeout, limit=0, on_output=self._on_output)
            limit = done.limit or await asyncio.to_thread(find_limit_hit, before, done.exit_code)
            return replace(done, limit=limit)
        finally:
            self.ended = time.monotonic()
            for spill in self.spills.values():
                spill.close()

    def _on_output(self, stream: Stream, data: bytes) -> None:
        self.unread[stream].append(data)
        self.spills[stream].write(data)


class Jobs:
    """The commands in the background of one toolset. They end with the event loop that they run in."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._jobs: dict[str, _Job] = {}

    def begin(self, launch: ProcessSpec, timeout: float | None, root: int, opened: ExitStack) -> ToolResult:
        """Begin a command; ``opened`` holds what it needs and is closed at its end.

        Raises:
            ToolError: ``too_many_jobs``.
        """
        running = [job.name for job in self._jobs.values() if job.running]
        if len(running) >= MAX_RUNNING:
            hint = f"stop one with stop_command: {', '.join(running)}"
            raise ToolError(f"{len(running)} commands run already", hint=hint, code="too_many_jobs")
        job = _Job(launch, timeout, root, opened.pop_all())
        self._jobs[job.name] = job
        self._forget()
        details: JsonObject = {"job": job.name, "running": True}
        return ToolResult(text=f"job {job.name} runs in the background", details=details)

    def create_tools(self) -> list[FunctionTool]:
        """Return the tools that look at them and stop them."""
        return [FunctionTool(POLL_COMMAND, self._poll), FunctionTool(STOP_COMMAND, self._stop)]

    async def _poll(self, arguments: JsonObject) -> ToolResult:
        job = self._find(arguments["job"])
        await asyncio.wait([job.task], timeout=arguments.get("wait", 0))
        return self._build_result(job)

    async def _stop(self, arguments: JsonObject) -> ToolResult:
        job = self._find(arguments["job"])
        job.task.cancel()
        await asyncio.wait([job.task])
        return self._build_result(job)

    def _find(self, name: str) -> _Job:
        if name not in self._jobs:
            known = ", ".join(self._jobs) or "none; start one with run_command and `background`"
            raise ToolError(f"there is no job `{name[:100]}`", hint=f"jobs: {known}", code="unknown_job")
        return self._jobs[name]

    def _forget(self) -> None:
        ended = [job.name for job in self._jobs.values() if not job.running]
        for name in ended[: max(0, len(self._jobs) - MAX_KEPT)]:
            del self._jobs[name]

    def _build_result(self, job: _Job) -> ToolResult:
        where: dict[Stream, str] = {
            stream: self._describe_overflow(spill) for stream, spill in job.spills.items()
        }
        running, end = job.running, {} if job.running else _describe_exit(job)
        stdout = job.unread["stdout"].read(where["stdout"], more=running)
        stderr = job.unread["stderr"].read(where["stderr"], more=running)
        state = " runs" if running else f": {_format_end(end)}"
        head = f"job {job.name}{state}{format_seconds(job.seconds)}"
        details: JsonObject = {
            "job": job.name,
            "running": running,
            **end,
            "duration_ms": round(job.seconds * 1000),
        }
        return ToolResult(
            text=format_command_output(head, stdout, stderr, str(end.get("hint", ""))), details=details
        )

    def _describe_overflow(self, spill: OverflowFile) -> str:
        if not spill.path:
            return ""
        much = f"the first {MAX_FILE >> 20} MiB of all are" if spill.is_cut else "all of it is"
        return f"; {much} in {self._scope.workspace.to_relative(spill.path)}"


def _retrieve_exception(task: asyncio.Task[CompletedProcess]) -> None:
    """Let a program that could not be started be told when it is asked for, not in a log before."""
    if not task.cancelled():
        task.exception()


def _format_end(end: JsonObject) -> str:
    if by := end.get("ended_by"):
        return f"ended by {by}"
    limit = f", limit {end['limit']}" if "limit" in end else ""
    return f"exit code {end['exit_code']}{limit}"


def _describe_exit(job: _Job) -> JsonObject:
    if job.task.cancelled():
        return {"exit_code": None, "ended_by": "stop_command"}
    done = job.task.result()
    if done.timed_out:
        return {"exit_code": None, "ended_by": f"its `timeout` of {job.timeout:.0f} s"}
    told: JsonObject = {"exit_code": done.exit_code}
    if done.limit:
        told["limit"] = done.limit
    if done.exit_code and (hint := get_limit_hint(done.limit)):
        told["hint"] = hint
    return told
