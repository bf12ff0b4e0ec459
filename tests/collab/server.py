"""`kakite collab` as a program, and tabs that are connected to it, for tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from pycrdt import Doc, Text, TransactionEvent
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kakite.collab.auth.policy import AuthPolicy
from kakite.collab.realtime import protocol
from tests.bounds import WITHIN
from tests.forking import AsyncProgram, can_fork, open_kakite

TOKEN = "a-token-of-the-tests"


@dataclass(eq=False)
class Server:
    """A running `kakite collab`."""

    folder: Path
    program: asyncio.subprocess.Process | AsyncProgram
    url: str
    said: list[str] = field(default_factory=list[str])

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    @property
    def reading_token(self) -> str:
        """What readers are given."""
        return AuthPolicy(host="127.0.0.1", port=self.port, token=TOKEN).reading_token

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}", **headers}, timeout=WITHIN
        )

    async def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal and return its exit code."""
        signalled(self.program, number)
        async with asyncio.timeout(WITHIN):
            return await self.program.wait()


@asynccontextmanager
async def serving(
    folder: Path,
    *options: str,
    port: int = 0,
    environ: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> AsyncGenerator[Server]:
    """Start the command on a free port, and end it."""
    words = ["collab", str(folder), "--http", f"127.0.0.1:{port}", *options]
    program = await _start(words, {**os.environ, "KAKITE_TOKEN": TOKEN, **(environ or {})}, before)
    assert program.stdout is not None
    assert program.stderr is not None
    said: list[str] = []
    hearing = asyncio.create_task(_hear(program.stderr, said))
    try:
        async with asyncio.timeout(WITHIN):
            line = (await program.stdout.readline()).decode().strip()
        assert line.startswith("http://"), "".join(said)
        async with httpx.AsyncClient(base_url=line) as client, asyncio.timeout(WITHIN):
            await client.get("/health")
        yield Server(folder, program, line, said)
    finally:
        signalled(program, signal.SIGTERM)
        try:
            async with asyncio.timeout(WITHIN):
                await program.wait()
        except TimeoutError:
            signalled(program, signal.SIGKILL)
            await program.wait()
        hearing.cancel()
        with suppress(asyncio.CancelledError):
            await hearing


async def _start(
    words: Sequence[str], environ: Mapping[str, str], before: Sequence[str]
) -> asyncio.subprocess.Process | AsyncProgram:
    if not before and can_fork(environ):
        return await open_kakite(words, environ, Path.cwd())
    return await asyncio.create_subprocess_exec(
        *(*before, sys.executable, "-m", "kakite", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )


def signalled(program: asyncio.subprocess.Process | AsyncProgram, number: int) -> None:
    """Send a signal to a program and to all that it started."""
    if program.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, number)


async def _hear(stream: asyncio.StreamReader, said: list[str]) -> None:
    while line := await stream.readline():
        said.append(line.decode())


class Tab:
    """A browser's tab: a replica of one page, which is there also while it is not connected."""

    def __init__(self, url: str, page: str, name: str = "Ann", token: str = TOKEN) -> None:
        self.url = f"{url.replace('http', 'ws', 1).rstrip('/')}/ws/{quote(page, safe='')}"
        self.name = name
        self.token = token
        self.page = page
        self.doc: Doc[Text] = Doc()
        self.text = self.doc.get("text", type=Text)
        self.state: dict[str, Any] = {}
        self.people: dict[int, tuple[int, Any]] = {}
        self.synced = False
        self.closed: int | None = None
        self.heard = 0
        self.history = ""
        self.known = b""
        """What the server said last that it has."""
        self._clock = 0
        self._socket: ClientConnection | None = None
        self._listening: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._applying = False
        self._sending: set[asyncio.Task[None]] = set()
        self.doc.observe(self._changed)

    def __str__(self) -> str:
        return str(self.text)

    @property
    def is_connected(self) -> bool:
        return self._socket is not None and self.closed is None

    async def __aenter__(self) -> Tab:
        await self.join()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()

    async def join(self, *, wait: bool = True) -> None:
        """Connect, and become the same as the server."""
        self.synced = False
        self.closed = None
        self.people.clear()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self._socket = await connect(
            f"{self.url}?history={self.history}" if self.history else self.url,
            additional_headers=headers,
            max_size=None,
            open_timeout=WITHIN,
        )
        self._listening = asyncio.create_task(self._listen(self._socket))
        with suppress(ConnectionClosed):  # it is told why
            await self._socket.send(protocol.create_sync_message(protocol.STEP1, self.doc.get_state()))
            await self.tell_cursor({})
        if wait:
            await self.until(lambda: self.synced or self.closed is not None)

    async def leave(self) -> None:
        """Lose the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.transport.abort()
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

    async def settle(self) -> None:
        """Wait until all that was typed is sent."""
        while self._sending:
            await asyncio.gather(*self._sending)

    async def tell_cursor(self, cursor: dict[str, Any]) -> None:
        """Say where the cursor is."""
        self._clock += 1
        state = {"user": {"name": self.name, "color": "#123456"}, "cursor": cursor}
        entry = (
            protocol.write_var_uint(1)
            + protocol.write_var_uint(self.doc.client_id)
            + protocol.write_var_uint(self._clock)
            + protocol.write_var_string(json.dumps(state))
        )
        assert self._socket is not None
        await self._socket.send(protocol.create_awareness_message(entry))

    async def send(self, message: bytes | str) -> None:
        """Send anything."""
        assert self._socket is not None
        await self._socket.send(message)

    def insert(self, at: int, text: str) -> None:
        """Type at an offset in code points."""
        self.text.insert(len(str(self.text)[:at].encode()), text)

    def delete(self, start: int, end: int) -> None:
        """Delete from one offset in code points to another."""
        whole = str(self.text)
        first = len(whole[:start].encode())
        del self.text[first : first + len(whole[start:end].encode())]

    @property
    def lacks(self) -> bool:
        """Whether, by what it said last, the server lacks something."""
        return not self.doc.get_update(self.known).startswith(b"\0")

    async def until(self, holds: Callable[[], bool], patience: float = WITHIN) -> None:
        """Wait until something holds."""
        try:
            async with asyncio.timeout(patience), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            seen = f"{str(self)[:500]!r} {self.state} {self.names()} {self.closed}"
            raise AssertionError(f"waited in vain, and saw {seen}") from None

    def names(self) -> set[str]:
        """Return whose cursors are seen."""
        return {state["user"]["name"] for _, state in self.people.values() if state is not None}

    def _changed(self, event: TransactionEvent) -> None:
        if self._applying or self._socket is None:
            return
        sending = asyncio.ensure_future(self._send_update(self._socket, event.update))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _send_update(self, socket: ClientConnection, update: bytes) -> None:
        with suppress(ConnectionClosed):  # it is sent when we are connected again
            await socket.send(protocol.create_sync_message(protocol.UPDATE, update))

    async def _listen(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for message in socket:
                assert isinstance(message, bytes)
                await self._hear(message, socket)
        self.closed = socket.close_code
        await self._tell()

    async def _hear(self, message: bytes, socket: ClientConnection) -> None:
        reader = protocol.SyncMessageReader(message)
        match reader.read_var_uint():
            case protocol.SYNC:
                kind, payload = reader.read_var_uint(), reader.read_var_bytes()
                if kind == protocol.STEP1:
                    self.known = payload
                    await socket.send(
                        protocol.create_sync_message(protocol.STEP2, self.doc.get_update(payload))
                    )
                else:
                    self._applying = True
                    try:
                        if payload != protocol.EMPTY_UPDATE:
                            self.doc.apply_update(payload)
                    finally:
                        self._applying = False
                    self.synced = self.synced or kind == protocol.STEP2
            case protocol.AWARENESS:
                self._see(protocol.SyncMessageReader(reader.read_var_bytes()))
            case protocol.STATE:
                self.state = json.loads(reader.read_var_string())
                self.history = self.history or self.state.get("history", "")
            case other:
                raise AssertionError(other)
        self.heard += 1
        await self._tell()

    def _see(self, reader: protocol.SyncMessageReader) -> None:
        for _ in range(reader.read_var_uint()):
            client, clock, state = (
                reader.read_var_uint(),
                reader.read_var_uint(),
                json.loads(reader.read_var_string()),
            )
            known = self.people.get(client, (-1, None))
            if clock > known[0] or (clock == known[0] and state is None):
                self.people[client] = (clock, state)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


async def on_disk(file: Path, data: bytes, patience: float = WITHIN) -> None:
    """Wait until a file holds these bytes."""
    async with asyncio.timeout(patience):
        while not file.is_file() or file.read_bytes() != data:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.02)
