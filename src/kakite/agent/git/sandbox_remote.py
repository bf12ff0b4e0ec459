"""Serves ``origin`` to programs in the sandbox: the mirror, with the real repository behind it.

A connection from the sandbox begins with a line that names the wanted git program; git's own protocol with
that program follows, run on the mirror. Before that the mirror is updated, and a push is accepted only once
the real repository has it. The programs know no credentials, read no user's settings and run only our hook.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

from kakite.agent.git import pre_receive
from kakite.agent.git.mirror import (
    BIG_FILE_THRESHOLD,
    CHUNK_SIZE,
    MAX_PUSH_BYTES,
    GitError,
    Mirror,
    PushResult,
    copy_stream,
    limit_memory,
)
from kakite.errors import KakiteError
from kakite.processes import ProcessSpec, start

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 4
"""Served at a time; others wait."""
TIMEOUT = 1800.0
"""Seconds that one connection may take, all in all."""
_REQUEST_TIMEOUT = 30.0
"""Seconds until a connection must have said what it wants."""
_FINISH_TIMEOUT = 60.0  # s, for what git still has to do once a push was taken
_UNWATCHED_TIMEOUT = 60.0  # s, for a push on its way to the repository that nobody inside waits for any more
_PROGRAMS = {"git-upload-pack", "git-receive-pack"}
_SOCKET = "ask"
_ACCEPTED, _REFUSED = "+", "-"

_SETTINGS = {
    # What is neither branch nor tag is our own book-keeping.
    "transfer.hideRefs": ("refs", "!refs/heads", "!refs/tags"),
    "gc.auto": ("0",),
    "maintenance.auto": ("false",),
    "pack.threads": ("1",),
}
_RECEIVE_SETTINGS = {
    **_SETTINGS,
    "receive.autogc": ("false",),
    # What is sent stays packed, is looked at object by object, and has limits.
    "receive.unpackLimit": ("1",),
    "receive.fsckObjects": ("true",),
    "core.bigFileThreshold": (str(BIG_FILE_THRESHOLD),),
    "receive.denyDeletes": ("true",),
    "receive.denyNonFastForwards": ("true",),
}


class SandboxRemote:
    """Serves the mirror to a sandbox; only one branch may be pushed, and nothing is forced."""

    def __init__(self, mirror: Mirror, branch: str, *, read_only: bool = False) -> None:
        self._mirror = mirror
        self._branch = branch
        self._read_only = read_only
        self._accepts_pushes = not read_only
        self._arrived: list[str] = []
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        # Held by whoever receives: what comes in waits on the host's disk until it is judged.
        self._receiving = asyncio.Lock()
        self._room = MAX_PUSH_BYTES
        """Bytes that may still come in, all pushes of the run together."""
        # Held while branches of the mirror move: two at a time would each see the other's as an accident.
        self._moving = asyncio.Lock()

    def take_pushed_commits(self) -> tuple[str, ...]:
        """Return the commits that came from inside, and are real, since this was asked last."""
        arrived, self._arrived = tuple(self._arrived), []
        return arrived

    async def accept_pushes(self, *, accepted: bool) -> None:
        """Take pushes from inside from now on, or refuse them; one that is being judged is waited for."""
        async with self._moving:
            self._accepts_pushes = accepted and not self._read_only

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        with closing(writer), suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(TIMEOUT), self._places:
                try:
                    await self._serve(reader, writer)
                except KakiteError as error:
                    writer.write(_encode_pkt_line(f"ERR {error.message}"))
                    await writer.drain()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        program = await _read_requested_program(reader)
        async with self._moving:
            await self._mirror.refresh()
        if program == "git-receive-pack":
            await self._receive(reader, writer)
        else:
            argv = ("git", "upload-pack", "--strict", str(self._mirror.folder))
            await _run_connected(self._mirror.build_server_spec(argv, _SETTINGS), reader, writer)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._receiving:
            await self._run_receive_pack(reader, writer)

    async def _run_receive_pack(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with _open_hook_folder(self._mirror.folder) as hooks, _open_hook_socket(hooks) as asked:
            most = str(max(self._room, 1))  # 0 would be no limit
            settings = {**_RECEIVE_SETTINGS, "core.hooksPath": (str(hooks),), "receive.maxInputSize": (most,)}
            argv = ("git", "receive-pack", str(self._mirror.folder))
            async with asyncio.timeout(None) as limit, _run_in_background(self._answer(asked, limit)):
                await _run_connected(
                    limit_memory(self._mirror.build_server_spec(argv, settings)), reader, writer
                )

    async def _answer(self, asked: socket.socket, limit: asyncio.Timeout) -> None:
        """Answer our hook; then keep everybody else from the mirror's branches until cancelled."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(asked)
        asking, telling = await asyncio.open_unix_connection(sock=connection)
        with closing(telling):
            question = await asking.read()
            await self._moving.acquire()
            # The model may end its own git at any time: what is on its way arrives all the same.
            judging = asyncio.create_task(self._handle_push(question))
            try:
                telling.write(await asyncio.shield(judging))
                telling.close()
                limit.reschedule(loop.time() + _FINISH_TIMEOUT)
                await asyncio.Event().wait()
            finally:
                self._release_moving(judging)

    def _release_moving(self, judging: asyncio.Task[bytes]) -> None:
        """Let the mirror's branches move again, once what was on its way has arrived, or took too long."""
        timer = asyncio.get_running_loop().call_later(_UNWATCHED_TIMEOUT, judging.cancel)

        def release(judged: asyncio.Task[bytes]) -> None:
            timer.cancel()
            self._moving.release()
            if not judged.cancelled() and (error := judged.exception()):
                log.warning("a push from the sandbox failed: %s", error)

        judging.add_done_callback(release)

    async def _handle_push(self, question: bytes) -> bytes:
        objects, alternates, moves = question.split(b"\0", 2)
        waiting = {
            "GIT_OBJECT_DIRECTORY": os.fsdecode(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(alternates),
        }
        commit, refusal = self._parse_push(moves.decode(errors="replace"))
        if refusal:
            return f"{_REFUSED}{refusal}\n".encode()
        size = _compute_folder_size(Path(os.fsdecode(objects)))
        # Before it is sent: whatever ends this task, or this process, the commit may arrive.
        is_new = self._mirror.note_sent(commit)
        try:
            verdict = await self._mirror.push_commit(commit, self._branch, waiting)
        except KakiteError as error:
            return f"{_REFUSED}{error.message}\n".encode()
        if verdict.outcome == "pushed":
            self._room -= size
            self._arrived.append(commit)
        elif is_new and verdict.is_certain:
            self._mirror.forget_sent(commit)
        return _format_hook_answer(verdict, self._branch)

    def _parse_push(self, moves: str) -> tuple[str, str]:
        """Return the commit to be pushed, or why nothing is."""
        if self._read_only:
            return "", "nothing is pushed in this run: commit the work, and leave it here"
        if not self._accepts_pushes:
            return "", "Kakite is checking and pushing the work: nothing else is pushed meanwhile"
        lines = [line.split(" ") for line in moves.splitlines()]
        if len(lines) != 1 or lines[0][-1] != f"refs/heads/{self._branch}":
            return "", f"only `{self._branch}` may be pushed from here: git push origin HEAD:{self._branch}"
        commit = lines[0][1]
        return commit, "" if commit.strip("0") else f"`{self._branch}` cannot be deleted from here"


def _compute_folder_size(folder: Path) -> int:
    """Return the bytes of the files below."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _format_hook_answer(verdict: PushResult, branch: str) -> bytes:
    """Return what our hook is to say, after the sign for its outcome."""
    lines = list(verdict.told)
    if verdict.outcome == "rejected":
        way_on = "`git pull --rebase`, then push again"
        lines.append(f"`{branch}` has other commits by now, and nothing is forced from here: {way_on}")
    elif verdict.outcome == "refused":
        lines.append(f"the repository did not take it: {verdict.reason}")
    sign = _ACCEPTED if verdict.outcome == "pushed" else _REFUSED
    return sign.encode() + "".join(f"{line}\n" for line in lines).encode()


async def _read_requested_program(reader: asyncio.StreamReader) -> str:
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            line = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        line = b""
    program = line.decode(errors="replace").strip()
    if program not in _PROGRAMS:
        raise GitError("origin only allows fetch and push")
    return program


def _encode_pkt_line(text: str) -> bytes:
    """Return a line as git's protocol has it; this one git shows to its user."""
    data = text.encode()[:_MAX_LINE_BYTES]
    return f"{len(data) + 4:04x}".encode() + data


_MAX_LINE_BYTES = 2000  # bytes


async def _run_connected(
    launch: ProcessSpec, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Run a program that talks to the other side, until it has ended."""
    async with AsyncExitStack() as stack:
        program = await start(launch, limit=CHUNK_SIZE)
        stack.push_async_callback(program.stop)
        await stack.enter_async_context(_run_in_background(_send(reader, program.stdin)))
        await copy_stream(program.stdout, writer)


async def _send(reader: asyncio.StreamReader, stdin: asyncio.StreamWriter) -> None:
    await copy_stream(reader, stdin)
    stdin.close()


@asynccontextmanager
async def _run_in_background(work: Coroutine[object, object, None]) -> AsyncGenerator[None]:
    """Do the work beside the block, at most to the block's end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@contextmanager
def _open_hook_folder(mirror: Path) -> Generator[Path]:
    """Yield a folder with our hook for one push.

    Raises:
        GitError: git could not start it there, and would then go on without it.
    """
    folder = Path(tempfile.mkdtemp(prefix="relay-", dir=mirror))
    try:
        hook = folder / "pre-receive"
        words = (sys.executable, "-I", "-S", pre_receive.__file__, str(folder / _SOCKET))
        hook.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
        hook.chmod(0o700)
        if not os.access(hook, os.X_OK):
            raise GitError(
                "nothing can be pushed from here: the host's disk does not allow programs to start"
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _open_hook_socket(folder: Path) -> Generator[socket.socket]:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A socket's address has room for 107 bytes only, and the folder may have a long name.
        short = Path(f"/proc/self/fd/{opened}")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.setblocking(False)  # noqa: FBT003 - the library's own
            listening.bind(str((short if short.exists() else folder) / _SOCKET))
            listening.listen(1)
            yield listening
    finally:
        os.close(opened)
