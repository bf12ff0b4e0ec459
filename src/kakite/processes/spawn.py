"""Starts one program, directly or through a spawn server, without blocking the event loop.

A program that shares a task's limits may take its time to start.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kakite.processes import supervisor
from kakite.processes.bytecode import find_bytecode
from kakite.processes.spawn_server import SpawnedProcess, start_by
from kakite.processes.spec import ProcessError, ProcessSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kakite.processes.spawn_server import DelegatedSpawn

T = TypeVar("T")
_LOOK = 0.5
"""Seconds after which a thread looks whether the loop that its result is for has ended."""
SpawnResult = tuple[subprocess.Popen[bytes] | SpawnedProcess, FileIO]
"""A program, and what its supervisor lives by."""


async def spawn(launch: ProcessSpec, *, stdin: bool) -> SpawnResult:
    """Start a program; one that is begun when nobody waits for it any more is ended at once.

    Raises:
        ProcessError: it could not be started.
    """
    if not launch.by:
        return _spawn_now(launch, stdin=stdin)
    with _wrap_errors(launch.argv[0]):
        own = _duplicate_files(launch, launch.by)
    future = run_in_thread(lambda: own(stdin), _forget)
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and not future.exception():
            _start_thread(lambda: _forget(future.result()))
        raise


def _duplicate_files(launch: ProcessSpec, by: DelegatedSpawn) -> Callable[[bool], SpawnResult]:
    """Return what starts it, once, also when the caller's files are closed meanwhile."""
    closing = contextlib.ExitStack()
    files: dict[int, int] = {}
    with contextlib.ExitStack() as undoing:
        undoing.callback(closing.close)
        for number, file in by.files.items():
            files[number] = os.dup(file)
            closing.callback(os.close, files[number])
        undoing.pop_all()

    def start(stdin: bool) -> SpawnResult:  # noqa: FBT001 - passed on
        with closing:
            return _spawn_now(replace(launch, by=replace(by, files=files)), stdin=stdin)

    return start


def run_in_thread(work: Callable[[], T], unwanted: Callable[[T], None]) -> asyncio.Future[T]:
    """Do it in a thread of its own; a result that nobody waits for any more is given to ``unwanted``, there.

    Not in one of the event loop's: work that never ends would keep other work from it, and us from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    delivered = threading.Event()

    def act() -> None:
        done: asyncio.Future[T] = asyncio.Future(loop=loop)
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        if not _give(loop, lambda: deliver(done), delivered):
            drop(done)

    def deliver(done: asyncio.Future[T]) -> None:
        delivered.set()
        error = done.exception()
        if future.cancelled():
            _start_thread(lambda: drop(done))
        elif error:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def drop(done: asyncio.Future[T]) -> None:
        if not done.exception():
            unwanted(done.result())

    try:
        _start_thread(act)
    except OSError as error:
        future.set_exception(error)
    return future


def _give(loop: asyncio.AbstractEventLoop, deliver: Callable[[], None], delivered: threading.Event) -> bool:
    """Let the loop do something, and wait until it has begun; False: it has ended before."""
    try:
        loop.call_soon_threadsafe(deliver)
    except RuntimeError:
        return False
    while not delivered.wait(_LOOK):
        if loop.is_closed():  # it has thrown away what it was still to do
            return False
    return True


def _start_thread(work: Callable[[], None]) -> None:
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError as error:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from error


def _forget(spawned: SpawnResult) -> None:
    program, lifeline = spawned
    lifeline.close()
    for pipe in (program.stdin, program.stdout, program.stderr):
        if pipe:
            pipe.close()
    if isinstance(program, SpawnedProcess):
        program.line.drop(program.pid)


def _check(launch: ProcessSpec) -> None:
    """Raise for what is commonly wrong, since a supervised program could only tell by its exit code."""
    if launch.by:
        return
    program = launch.argv[0] if launch.argv else ""
    named = str(Path(launch.cwd, program)) if "/" in program else program
    path = launch.env.get("PATH")
    if not Path(launch.cwd).is_dir():
        raise ProcessError(
            f"folder `{launch.cwd}` to start `{program}` in does not exist", code="folder_missing"
        )
    if shutil.which(named, path=path):
        return
    is_there = "/" in program and os.path.exists(named)  # noqa: PTH110 - Path raises for what it may not look at
    if is_there or shutil.which(named, os.F_OK, path):
        raise ProcessError(
            f"`{program}` exists, but you may not start it as a program",
            hint="a script needs its executable bit (`chmod +x`), or its interpreter before it",
            code="not_executable",
        )
    raise ProcessError(
        f"program `{program}` was not found",
        hint="install it, or give its full path; it must be executable",
        code="program_missing",
    )


def _spawn_now(launch: ProcessSpec, *, stdin: bool) -> SpawnResult:
    _check(launch)
    with _wrap_errors(launch.argv[0]):
        theirs, ours = os.pipe()
        lifeline = FileIO(ours, "wb")
        _lifelines.add(lifeline)
        try:
            if launch.by:
                return start_by(launch.by, launch.argv, launch.env, with_input=stdin), lifeline
            return _popen(launch, theirs, subprocess.PIPE if stdin else subprocess.DEVNULL), lifeline
        except BaseException:
            lifeline.close()
            raise
        finally:
            os.close(theirs)


@contextlib.contextmanager
def _wrap_errors(program: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a zero byte, or a character that no argument holds
        raise ProcessError(f"program `{program}` could not be started: {error}") from error


def _popen(launch: ProcessSpec, lifeline: int, stdin: int) -> subprocess.Popen[bytes]:
    supervised = (
        sys.executable,
        "-I",
        "-S",
        str(find_bytecode(Path(supervisor.__file__))),
        str(lifeline),
        launch.env.get("LC_CTYPE", ""),
    )
    return subprocess.Popen(
        launch.argv if launch.contained else supervised + launch.argv,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=launch.cwd,
        env=dict(launch.env),
        start_new_session=True,
        pass_fds=() if launch.contained else (lifeline,),
    )


_lifelines: weakref.WeakSet[FileIO] = weakref.WeakSet()


def _drop_lifelines() -> None:
    """A fork of ours without exec must not keep our programs alive when we die."""
    for lifeline in _lifelines:
        lifeline.close()


os.register_at_fork(after_in_child=_drop_lifelines)
