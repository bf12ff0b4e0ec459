"""Runs a program to its end, or keeps one alive over pipes, and ends all processes that came of it.

Needs a running asyncio loop. A program gets a session of its own, so that neither Ctrl-C nor a terminal
reaches it, and no file but its three streams. Of an endless stream, the head and the tail are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, cast

from kakite.processes import supervisor
from kakite.processes.spawn import run_in_thread, spawn
from kakite.processes.spawn_server import SpawnedProcess

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Coroutine
    from io import FileIO

    from kakite.processes.spec import ProcessSpec


Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Receives output as it comes. Called inside the event loop: must return soon and not raise."""


class HeadTailCapture(asyncio.Protocol):
    """Receives a stream to its end; keeps its first ``head`` and its last ``tail`` bytes."""

    def __init__(self, stream: Stream, head: int, tail: int, on_output: OnOutput | None = None) -> None:
        self.stream: Stream = stream
        self.closed = asyncio.Event()
        self._head, self._tail = bytearray(), bytearray()
        self._head_size, self._tail_size = head, tail
        self._on_output = on_output
        self._received = 0

    def data_received(self, data: bytes) -> None:
        """Take the next piece."""
        if self._on_output:
            self._on_output(self.stream, data)
        self._received += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_size + len(data):  # not at every piece: moving bytes costs
            self._trim()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        """Note the end of the stream."""
        self.closed.set()

    @property
    def dropped(self) -> int:
        """Bytes that were received and not kept."""
        return self._received - len(self.get_content())

    def get_content(self) -> bytes:
        """Return what was kept, the beginning before the end."""
        self._trim()
        return bytes(self._head + self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_size)]


OUTPUT_LIMIT = 1024 * 1024
"""Bytes of each stream that ``run`` keeps when the caller does not say."""
STDERR_TAIL = 64 * 1024
LINE_LIMIT = 32 * 1024 * 1024
"""Bytes that one line of a long-lived program may have: an MCP message is a line."""
Limit = Literal["", "time", "memory", "processes", "disk", "files"]
STOP_TIMEOUT = 2.0
"""Seconds for each step of ending a program: after its input closed, after SIGTERM."""
_MARGIN = 1.0
_AT_WORK = "RD"  # states of a process: running or ready to, and in the kernel's hands
_POLL = 0.02
_READ_OUT = 1.0
"""Seconds to read what is left in the pipes once every writer is dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedProcess:
    """The exit of a program and its output.

    When bytes were dropped from the middle of a stream, the first half of what is here is its beginning and
    the second half its end.
    """

    exit_code: int | None
    """128 + n when signal n ended it, as in a shell; None when it had to be ended."""
    stdout: bytes
    stderr: bytes
    duration: float
    """Seconds from start to end."""
    timed_out: bool = False
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    limit: Limit = ""
    """The limit that was run into meanwhile, if one was; a program may have gone on in spite of it. ``time``
    is the caller's own; the others are a sandbox's, whose programs share them: another program in the same
    sandbox may have been it."""


async def run(
    launch: ProcessSpec,
    *,
    stdin: bytes = b"",
    timeout: float | None,  # noqa: ASYNC109 - running into it is a result, with the output so far
    limit: int = OUTPUT_LIMIT,
    on_output: OnOutput | None = None,
) -> CompletedProcess:
    """Run a program to its end, ``timeout`` seconds at most; nothing that it started is left after.

    At most ``limit`` bytes of each stream are kept, half from the start and half from the end. What was
    written up to a time-out is returned. When cancelled, the program is ended first.

    Raises:
        ProcessError: the program could not be started.
    """
    began = time.monotonic()
    try:
        async with asyncio.timeout(timeout):
            program = await _start_program(launch, stdin=bool(stdin))
    except TimeoutError:
        waited = time.monotonic() - began
        return CompletedProcess(
            exit_code=None, stdout=b"", stderr=b"", duration=waited, timed_out=True, limit="time"
        )
    left = None if timeout is None else timeout - (time.monotonic() - began)
    done = await complete(lambda: program, stdin=stdin, timeout=left, limit=limit, on_output=on_output)
    return replace(done, duration=time.monotonic() - began)


class RunningProcess(Protocol):
    """A program that runs, wherever that is."""

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + n after signal n; None while it runs."""
        ...

    async def begin(self, stdin: bytes, out: HeadTailCapture, err: HeadTailCapture) -> None:
        """Give it its input, and what it writes to who keeps it."""
        ...

    async def wait(self) -> None:
        """Wait until it ended by itself."""
        ...

    async def end(self) -> None:
        """End it if it runs; nothing is left of it, and all that it wrote is there, after."""
        ...


async def complete(
    begin: Callable[[], RunningProcess],
    *,
    stdin: bytes,
    timeout: float | None,  # noqa: ASYNC109 - as run
    limit: int,
    on_output: OnOutput | None,
) -> CompletedProcess:
    """Start a program by calling ``begin`` and see it to its end, as ``run`` does."""
    began = time.monotonic()
    out = HeadTailCapture("stdout", limit // 2, limit // 2, on_output)
    err = HeadTailCapture("stderr", limit // 2, limit // 2, on_output)
    program = begin()
    timed_out = False
    try:
        await program.begin(stdin, out, err)
        async with asyncio.timeout(timeout):
            await program.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await _run_shielded(program.end())
    return CompletedProcess(
        exit_code=None if timed_out else program.exit_code,
        stdout=out.get_content(),
        stderr=err.get_content(),
        duration=time.monotonic() - began,
        timed_out=timed_out,
        limit="time" if timed_out else "",
        stdout_dropped=out.dropped,
        stderr_dropped=err.dropped,
    )


async def start(
    launch: ProcessSpec, *, limit: int = LINE_LIMIT, on_stderr: OnOutput | None = None
) -> ManagedProcess:
    """Start a program that stays; ``limit`` is what a line of its output may have in bytes.

    The caller must stop it. If the caller dies instead, the program is killed. What it writes to stderr is
    given to ``on_stderr`` as well.

    Raises:
        ProcessError: the program could not be started.
    """
    program = await _start_program(launch, stdin=True)
    tail = HeadTailCapture("stderr", 0, STDERR_TAIL, on_stderr)
    try:
        stdin = await program.open_stdin()
        stdout = await program.open_stdout(limit)
        await program.keep(tail)
    except BaseException:
        await _run_shielded(program.end())
        raise
    return ManagedProcess(program, stdin, stdout, tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuActivity:
    """The processor time that processes use."""

    cpu: int
    """Time on a processor, in ticks of the kernel."""
    running: bool
    """Whether one of them is at work at this moment, or waits for a processor or a disk."""


class ManagedProcess:
    """A program that lives as long as its starter wants, at most as long as its starter."""

    def __init__(
        self,
        program: _ProcessHandle,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        tail: HeadTailCapture,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self._program = program
        self._tail = tail

    @property
    def pid(self) -> int:
        """The process to look for: the program's supervisor, or the program itself if it is contained."""
        return self._program.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, 128 + n after signal n; None while the program lives."""
        return self._program.exit_code

    def get_stderr_tail(self) -> str:
        """Return the last 64 KiB that it wrote to stderr."""
        return self._tail.get_content().decode(errors="backslashreplace")

    async def wait(self) -> int:
        """Wait until it ended by itself, return the exit code."""
        await self._program.ended.wait()
        return cast("int", self.returncode)

    async def stop(self, patience: float = STOP_TIMEOUT) -> None:
        """End it: close its input, 2 s later SIGTERM to all that came of it, 2 s later SIGKILL, then reap.

        ``patience`` are the seconds of each of the two steps, 2 at most. Takes 10 seconds at worst, also when
        cancelled meanwhile. Does nothing the second time.
        """
        await _run_shielded(self._program.end(self.stdin, patience))

    def measure_activity(self) -> CpuActivity:
        """Return how busy it and all that came of it are; where that cannot be seen, they seem idle."""
        stats = [stat for pid in supervisor.list_descendants(self.pid) if (stat := _read_stat(pid))]
        return CpuActivity(
            cpu=sum(int(stat[11]) + int(stat[12]) for stat in stats),
            running=any(stat[0] in _AT_WORK for stat in stats),
        )

    def count_unread(self) -> int:
        """Return how many bytes of its input wait to be read; 0 where that cannot be seen."""
        return self._program.count_unread() + self.stdin.transport.get_write_buffer_size()

    def kill(self) -> None:
        """Kill it and all that came of it, now; ``stop`` still has to be awaited."""
        self._program.kill()


def _read_stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    return stat.rpartition(b")")[2].decode("ascii").split()  # its name may hold brackets and blanks


async def _start_program(launch: ProcessSpec, *, stdin: bool) -> _ProcessHandle:
    return _ProcessHandle(launch, *await spawn(launch, stdin=stdin))


def _send(stdin: asyncio.StreamWriter, data: bytes) -> None:
    stdin.write(data)
    stdin.close()  # after the last byte is out


class _ProcessHandle:
    """A program, its supervisor unless it is contained, and our ends of its pipes."""

    def __init__(
        self, launch: ProcessSpec, popen: subprocess.Popen[bytes] | SpawnedProcess, lifeline: FileIO
    ) -> None:
        self.ended = asyncio.Event()
        self._contained = launch.contained
        self._elsewhere = launch.end is not None
        self._end_elsewhere = launch.end or (lambda: None)
        self._loop = asyncio.get_running_loop()
        self._kept: list[HeadTailCapture] = []
        self._transports: list[tuple[asyncio.BaseTransport, IO[bytes]]] = []
        self._popen, self._lifeline = popen, lifeline
        self._gone = False
        self.pid = self._popen.pid
        self._watch()

    @property
    def exit_code(self) -> int | None:
        code = self._popen.returncode
        return code if code is None or code >= 0 else 128 - code

    async def begin(self, stdin: bytes, out: HeadTailCapture, err: HeadTailCapture) -> None:
        await self.keep(out)
        await self.keep(err)
        if stdin:
            _send(await self.open_stdin(), stdin)

    async def wait(self) -> None:
        await self.ended.wait()

    async def open_stdin(self) -> asyncio.StreamWriter:
        reader, pipe = asyncio.StreamReader(), cast("IO[bytes]", self._popen.stdin)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_write_pipe(lambda: protocol, pipe)
        self._transports.append((transport, pipe))
        return asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def open_stdout(self, limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit)
        await self._receive("stdout", asyncio.StreamReaderProtocol(reader))
        return reader

    async def keep(self, kept: HeadTailCapture) -> None:
        await self._receive(kept.stream, kept)
        self._kept.append(kept)

    async def _receive(self, stream: Stream, protocol: asyncio.Protocol) -> None:
        pipe = cast("IO[bytes]", self._popen.stdout if stream == "stdout" else self._popen.stderr)
        transport, _ = await self._loop.connect_read_pipe(lambda: protocol, pipe)
        self._transports.append((transport, pipe))

    async def end(self, stdin: asyncio.StreamWriter | None = None, patience: float = STOP_TIMEOUT) -> None:
        """End it step by step, with its input first if that is given, and let go of everything."""
        try:
            if stdin:
                stdin.close()
                await self._wait_for_exit(patience)
            if not self.ended.is_set():
                asked = self._ask()
                # A supervisor kills by itself after its own grace, here or elsewhere: a little more lets it.
                supervised = self._elsewhere or not self._contained
                waits = supervised and patience >= supervisor.GRACE
                await self._wait_for_exit(patience + (_MARGIN if waits else 0) if asked else 0)
        finally:
            self._lifeline.close()  # its supervisor kills all at that
        if self._contained or not await self._wait_for_exit(supervisor.LIMIT + _MARGIN):
            self._kill()
            await self._wait_for_exit(STOP_TIMEOUT)
        await self._close_pipes()

    def count_unread(self) -> int:
        pipe = self._popen.stdin
        try:
            told = b"" if pipe is None else fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
        except (OSError, ValueError):  # no such question here, or it is closed
            told = b""
        return int.from_bytes(told, sys.byteorder)

    def kill(self) -> None:
        self._lifeline.close()  # its supervisor kills all at that
        self._end_elsewhere()
        if self._contained:
            self._kill()

    async def _wait_for_exit(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)
        return self.ended.is_set()

    def _ask(self) -> bool:
        """Ask all to end; tell whether anybody was there to ask."""
        self._end_elsewhere()
        if self._elsewhere:
            return True  # here is only what carries its output, and ends once that has come
        # Contained: not the outermost process, which would die and take the others along at once.
        if self._gone:
            return False
        told = supervisor.list_descendants(self.pid) if self._contained else [self.pid]
        for number in (signal.SIGTERM, signal.SIGCONT):
            supervisor.send_all(told, number)
        return bool(told)

    def _kill(self) -> None:
        if not self._gone:
            supervisor.send_all([*supervisor.list_descendants(self.pid), -self.pid], signal.SIGKILL)

    def _watch(self) -> None:
        try:
            pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or a kernel before 5.3
            self._loop.call_later(_POLL, self._look)
        else:
            self._loop.add_reader(pidfd, self._on_exit, pidfd)

    def _look(self) -> None:
        if isinstance(self._popen, SpawnedProcess):
            self._learn(self._popen)
        elif self._popen.poll() is None:
            self._loop.call_later(_POLL, self._look)
        else:
            self._reap()

    def _on_exit(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._reap()

    def _reap(self) -> None:
        self._gone = True
        if isinstance(self._popen, SpawnedProcess):
            self._learn(self._popen)
            return
        # Before it is reaped: until then no stranger can get the number of the group.
        supervisor.send_all([-self.pid], signal.SIGKILL)
        self._popen.wait()
        self._on_ended()

    def _learn(self, started: SpawnedProcess) -> None:
        """Ask who started it how it ended: it kills the group and reaps."""
        run_in_thread(started.poll, lambda _: None).add_done_callback(lambda _: self._on_status(started))

    def _on_status(self, started: SpawnedProcess) -> None:
        if started.returncode is None:
            self._loop.call_later(_POLL, self._look)
        else:
            self._gone = True
            self._on_ended()

    def _on_ended(self) -> None:
        self._lifeline.close()
        self._end_elsewhere()
        self.ended.set()

    async def _close_pipes(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READ_OUT):
                for kept in self._kept:
                    await kept.closed.wait()
        for transport, pipe in self._transports:
            if not pipe.closed:
                _abort(transport)
        await asyncio.sleep(0)  # the loop closes the pipes
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe:
                pipe.close()


def _abort(transport: asyncio.BaseTransport) -> None:
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()  # close() would wait for a reader
    else:
        transport.close()


async def _run_shielded(work: Coroutine[Any, Any, None]) -> None:
    """Do the work to its end, also when cancelled meanwhile; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
    task.result()
