"""Sessions over HTTP make room for newcomers, whatever their clients do and in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.serve.test_limits import HEADERS, INITIALIZE, error_of

from kakite.serve import build_server
from kakite.serve.streamable_http import ServerLimits, build_mountable_app
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolResult

MOST = 3
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class World:
    """A server, its clients, and what they have to find: which session was used when, and which works."""

    def __init__(self, client: httpx2.AsyncClient, turn: Turnstile) -> None:
        self.client = client
        self.turn = turn
        self.all: list[str] = []
        self.open: list[str] = []
        """Those that are open; the one that was idle for the longest time first."""
        self.calls: dict[str, asyncio.Task[httpx2.Response]] = {}
        self.streams: dict[str, asyncio.Task[httpx2.Response]] = {}

    async def ask(self, method: str, session: str = "", message: object = None) -> httpx2.Response:
        ids = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"} if session else {}
        return await self.client.request(method, "/mcp", json=message, headers=ids)

    async def add(self) -> None:
        """Open a session: the one that is idle for the longest time goes for it, if one has to."""
        idle = [each for each in self.open if each not in self.calls]
        answer = await self.ask("POST", message=INITIALIZE)
        if len(self.open) == MOST:
            if not idle:
                status, error = error_of(answer)
                assert (status, "all are working" in error["message"]) == (503, True)
                return
            self.open.remove(idle[0])
            if stream := self.streams.pop(idle[0], None):
                await stream  # it ends
        assert answer.status_code == 200
        self.open.append(answer.headers["mcp-session-id"])
        self.all.append(self.open[-1])

    async def use(self, session: str) -> None:
        answer = await self.ask("POST", session, PING)
        if session in self.open:
            assert answer.status_code == 200
            self._touch(session)
        else:
            status, error = error_of(answer)
            assert (status, "send `initialize`" in error["message"]) == (404, True)

    async def begin(self, session: str) -> None:
        """Call a tool that does not end by itself."""
        if session in self.open and session not in self.calls:
            params = {"name": "wait", "arguments": {"for": session}}
            call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
            self.calls[session] = asyncio.create_task(self.ask("POST", session, call))
            await self.turn.began(session)

    async def end(self, session: str) -> None:
        if session in self.calls:
            self.turn.let_pass(session)
            assert (await self.calls.pop(session)).status_code == 200
            self._touch(session)

    async def listen(self, session: str) -> None:
        """Keep a stream open, as clients do all the time: that is no use."""
        if session in self.open and session not in self.streams:
            self.streams[session] = asyncio.create_task(self.ask("GET", session))

    async def leave(self, session: str) -> None:
        if session not in self.calls:
            answer = await self.ask("DELETE", session)
            assert answer.status_code == (200 if session in self.open else 404)
            if session in self.open:
                self.open.remove(session)
            if stream := self.streams.pop(session, None):
                await stream

    def _touch(self, session: str) -> None:
        self.open.remove(session)
        self.open.append(session)


class Turnstile:
    """A tool whose calls wait until they are let pass."""

    def __init__(self) -> None:
        self._began: dict[str, asyncio.Event] = {}
        self._passes: dict[str, asyncio.Event] = {}

    async def wait(self, arguments: Mapping[str, Any]) -> ToolResult:
        who = arguments["for"]
        self._passes[who] = asyncio.Event()
        self._began.setdefault(who, asyncio.Event()).set()
        await self._passes[who].wait()
        return ToolResult(text="passed")

    async def began(self, who: str) -> None:
        await self._began.setdefault(who, asyncio.Event()).wait()
        self._began[who].clear()

    def let_pass(self, who: str) -> None:
        self._passes[who].set()


@asynccontextmanager
async def connected(limits: ServerLimits) -> AsyncGenerator[World]:
    turn = Turnstile()
    tool = Tool(name="wait", description="", parameters={"type": "object"})
    server = build_server(FunctionToolset(FunctionTool(tool, turn.wait)))
    app, running = build_mountable_app(server, limits)
    transport = httpx2.ASGITransport(app)
    async with (
        running(),
        httpx2.AsyncClient(transport=transport, headers=HEADERS, base_url="http://x") as client,
    ):
        world = World(client, turn)
        yield world
        for session in [*world.calls]:
            await world.end(session)
        for task in world.streams.values():
            task.cancel()


steps = st.lists(
    st.one_of(
        st.just(("add", 0)),
        st.tuples(st.sampled_from(["use", "begin", "end", "listen", "leave"]), st.integers(0, 9)),
    ),
    max_size=30,
)


@given(steps=steps)
def test_the_session_that_is_idle_for_the_longest_time_makes_room(steps: Sequence[tuple[str, int]]) -> None:
    async def follow() -> None:
        async with connected(ServerLimits(sessions=MOST, unused_time=1e9)) as world:
            for step, which in steps:
                if step == "add":
                    await world.add()
                elif world.all:
                    await getattr(world, step)(world.all[which % len(world.all)])

    asyncio.run(asyncio.wait_for(follow(), WITHIN))


@given(before=st.integers(0, MOST), newcomers=st.integers(1, MOST))
def test_newcomers_at_the_same_time_all_find_room(before: int, newcomers: int) -> None:
    async def follow() -> None:
        async with connected(ServerLimits(sessions=MOST, unused_time=1e9)) as world:
            for _ in range(before):
                await world.add()
            answers = await asyncio.gather(*(world.ask("POST", message=INITIALIZE) for _ in range(newcomers)))
            assert {answer.status_code for answer in answers} == {200}
            for answer in answers:  # none took the place of another
                used = await world.ask("POST", answer.headers["mcp-session-id"], PING)
                assert used.status_code == 200

    asyncio.run(asyncio.wait_for(follow(), WITHIN))


def test_only_who_opens_a_session_takes_the_place_of_another() -> None:
    async def follow() -> None:
        async with connected(ServerLimits(sessions=1)) as world:
            await world.add()
            for message in (PING, {**PING, "method": "tools/list"}):
                await world.ask("POST", message=message)
            assert (await world.ask("POST", "strange", PING)).status_code == 404
            await world.use(world.all[0])

    asyncio.run(asyncio.wait_for(follow(), WITHIN))
