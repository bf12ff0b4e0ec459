"""Processes forked from one that has imported what they need: importing takes most of a short program's life.

What is forked is a process of its own, with its own environment, folder and output. Its imports were done
before: tests of what is loaded, or read while loading, start the real program (``tests.cli.program.argv``).
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import io
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "kakite"]
"""What starts the program."""
PROCESSES = multiprocessing.get_context("forkserver")
_LINE = 2**26  # bytes, that a line may have
_STARTED_WITH = ("PYTHON", "LANG", "LC_", "COVERAGE")
"""Variables that Python reads when it starts, or that measure it."""
_OURS = {"LANG": "C.UTF-8"} | {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
"""Those that make no difference: what is forked has begun with them."""


def _command_line() -> list[str]:
    from kakite import cli

    return [f"kakite.cli.{module.name}" for module in pkgutil.iter_modules(cli.__path__)]


PROCESSES.set_forkserver_preload(
    [
        *_command_line(),
        *(
            "kakite.serve",
            "kakite.models.pydantic_ai_model",
            "pydantic_ai.models.openai",
            "dbos",
            "temporalio.worker",
            "kakite.collab.app",
            "kakite.collab.assistant.assistant",
            "kakite.serve.streamable_http",
        ),
        "tests.forking",
        "tests.agent.working",
    ]
)


def replace_environment(environ: Mapping[str, str]) -> None:
    """Let this process have these variables alone."""
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether the program would not differ from one that starts with these variables."""
    return not any(
        name.startswith(_STARTED_WITH) and _OURS.get(name) != value for name, value in environ.items()
    ) and not any(name.startswith("COVERAGE") for name in os.environ)


def run_kakite(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, timeout: float
) -> tuple[int, str, str]:
    """Run the program to its end and return its exit code, and what it wrote to stdout and stderr."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "stdout"), Path(folder, "stderr")
        program = start_kakite(arguments, environ, cwd, (Path(os.devnull), out, err))
        program.join(timeout)
        if program.exitcode is None:
            program.kill()
            program.join()
            raise TimeoutError(
                f"{arguments} took over {timeout} s; stderr: {err.read_text(encoding='utf-8')}"
            )
        texts = [file.read_text(encoding="utf-8") if file.exists() else "" for file in (out, err)]
        return program.exitcode, texts[0], texts[1]


class Descriptor:
    """An open file of this process that a forked one shall have too."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _take_over, (reduction.DupFd(self._number),)


def _take_over(sent: Any) -> int:
    return sent.detach()


Stream = Path | Descriptor
"""A file, a pipe with a name, or what is open already."""


def start_kakite(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    streams: tuple[Stream, Stream, Stream],
    *,
    session: bool = False,
) -> BaseProcess:
    """Start the program with these standard streams.

    With ``session`` it leads a session; a terminal, where its input is one, is then that of the session.
    """
    program = PROCESSES.Process(target=_kakite, args=(list(arguments), dict(environ), cwd, streams, session))
    program.daemon = True  # it does not outlive the tests
    program.start()
    return program


class Program:
    """A forked program: as much of ``subprocess.Popen`` as tests need."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process's number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """A descriptor that can be read once it has ended."""
        return self._process.sentinel

    @property
    def returncode(self) -> int | None:
        """How it has ended, below 0 for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return how it has ended."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raise TimeoutExpired after so many seconds."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self.send_signal(signal.SIGKILL)


class _ForkedPopen(subprocess.Popen[Any]):
    """A forked program: all that ``subprocess.Popen`` has."""

    _forked: BaseProcess

    def _execute_child(self, args: Sequence[str], *how: Any) -> None:
        pipes = how[9:15]
        given = (pipes[0], pipes[3], pipes[5])
        streams = [Descriptor(own if inner < 0 else inner) for own, inner in enumerate(given)]
        environ = os.environ if how[5] is None else how[5]
        self._forked = start_kakite(
            args[len(COMMAND) :],
            environ,
            Path(how[4] or "."),
            (streams[0], streams[1], streams[2]),
            session=how[20],
        )
        self.pid = Program(self._forked).pid
        self._child_created = True  # as the base does: its end is waited for
        self._close_pipe_fds(*pipes)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]

    def _internal_poll(self, *_: Any, **_more: Any) -> int | None:
        self.returncode = self._forked.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._forked.join(timeout)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode


def popen(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, **how: Any
) -> subprocess.Popen[Any]:
    """Start a program as ``subprocess.Popen`` does; Kakite is forked where that makes no difference."""
    is_ours = [*command[: len(COMMAND)]] == COMMAND and can_fork(os.environ if env is None else env)
    return (_ForkedPopen if is_ours else subprocess.Popen)(command, env=env, **how)


def run(
    command: Sequence[str],
    *,
    timeout: float,
    given: bytes | str | None = None,
    check: bool = False,
    **how: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, and take what it writes; it is ``given`` its input."""
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    with popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how) as program:
        try:
            out, err = program.communicate(given, timeout)
        except BaseException:
            program.kill()
            raise
    done = subprocess.CompletedProcess(program.args, program.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class AsyncProgram:
    """A forked program whose output is read while it runs: as much of asyncio's ``Process`` as tests need."""

    def __init__(
        self,
        program: Program,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.stdin = stdin
        self.stdout: asyncio.StreamReader | None = stdout
        self.stderr: asyncio.StreamReader | None = stderr
        self.pid = program.pid
        self._program = program
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(program.sentinel, self._end)

    @property
    def returncode(self) -> int | None:
        """How it has ended, below 0 for a signal; None while it runs."""
        return self._program.returncode

    async def wait(self) -> int:
        """Wait for its end and return how it was."""
        await self._ended.wait()
        return self._program.wait()

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self._program.kill()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._program.sentinel)
        self._ended.set()


async def open_kakite(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, *, is_told: bool = False
) -> AsyncProgram:
    """Start the program in a session of its own, with pipes for what it says, and for what it ``is_told``."""
    loop = asyncio.get_running_loop()
    readers: list[asyncio.StreamReader] = []
    theirs: list[int] = []
    for _ in range(2):
        reading, writing = os.pipe()
        reader = asyncio.StreamReader(limit=_LINE)
        await loop.connect_read_pipe(
            lambda reader=reader: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        readers.append(reader)
        theirs.append(writing)
    told: Stream = Path(os.devnull)
    stdin: asyncio.StreamWriter | None = None
    if is_told:
        reading, writing = os.pipe()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(writing, "wb")
        )
        stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        theirs.append(reading)
        told = Descriptor(reading)
    streams = (told, Descriptor(theirs[0]), Descriptor(theirs[1]))
    try:
        program = Program(start_kakite(arguments, environ, cwd, streams, session=True))
        return AsyncProgram(program, stdin, *readers)
    finally:
        for number in theirs:
            os.close(number)


def open_at_terminal(arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, inner: int) -> Program:
    """Start the program with a terminal of its own, of which ``inner`` is its end."""
    streams = (Descriptor(inner), Descriptor(inner), Descriptor(inner))
    return Program(start_kakite(arguments, environ, cwd, streams, session=True))


def _kakite(
    arguments: list[str],
    environ: Mapping[str, str],
    cwd: Path,
    streams: tuple[Path | int, Path | int, Path | int],
    session: bool,
) -> None:
    """Become the program: as ``python -m kakite`` begins and ends."""
    gc.freeze()  # nothing of what was there before is looked through for garbage
    if session:
        os.setsid()
    for number, stream in enumerate(streams):
        file = (
            stream
            if isinstance(stream, int)
            else os.open(stream, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600)
        )
        os.dup2(file, number)
        os.close(file)
    if session and os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8", errors="surrogateescape")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8", errors="surrogateescape"
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    replace_environment(environ)
    os.chdir(cwd)
    from kakite import __main__ as program

    sys.argv = [str(program.__file__), *arguments]
    try:
        program.main()
    finally:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
