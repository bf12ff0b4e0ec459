"""One MCP server as a toolset: started, asked, stopped without leftovers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from mcp import Client, MCPError

from kakite.errors import OutsideError
from kakite.host.convert import to_meta, to_result, to_tool
from kakite.host.transport import pipe_streams
from kakite.processes import Child, Launch, ProcessError, start
from kakite.tools.toolset import Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

START_TIMEOUT = 30.0  # s; a cold start of a server written in Python on a busy machine takes a few
CALL_TIMEOUT = 1800.0  # s; commands have their own, shorter limits: this one ends what never ends


class ServerError(OutsideError):
    """A server could not be started, or does not answer.

    Code: ``server_not_started``.
    """

    code = "server_not_started"


class ServerToolset:
    """The tools of a running server."""

    def __init__(self, name: str, client: Client, child: Child, *, trusted: bool) -> None:
        self.name = name
        self._client = client
        self._child = child
        self._trusted = trusted
        self._tools: tuple[Tool, ...] | None = None

    async def tools(self) -> tuple[Tool, ...]:
        """Return the server's tools, all pages of them."""
        if self._tools is None:
            self._tools = tuple([tool async for tool in self._list()])
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool. A server that died or is silent gives an error result with the tail of its stderr."""
        try:
            result = await self._client.call_tool(
                call.name, call.arguments, read_timeout_seconds=CALL_TIMEOUT, meta=to_meta(call)
            )
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            return self._broken(str(error) or type(error).__name__)
        return to_result(result)

    async def _list(self) -> AsyncGenerator[Tool]:
        cursor: str | None = None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            for tool in page.tools:
                yield to_tool(tool, trusted=self._trusted)
            cursor = page.next_cursor
            if cursor is None:
                return

    def _broken(self, reason: str) -> ToolResult:
        tail = self._child.stderr_tail().strip()
        said = f"\nit last said:\n{tail}" if tail else ""
        return ToolResult(
            text=f"Error (server_failed): the server `{self.name}` did not answer: {reason}{said}",
            is_error=True,
            code="server_failed",
        )


@asynccontextmanager
async def connect(launch: Launch, *, name: str, trusted: bool = False) -> AsyncGenerator[ServerToolset]:
    """Start a server and yield its toolset; stop it, and all that it started, at the end.

    ``trusted`` is for our own server: then its word on what a tool does is believed.

    Raises:
        ServerError: it could not be started, or did not answer in time.
    """
    # The session lives in a task of its own: what the caller raises then passes by its task groups unwrapped.
    ready: asyncio.Future[ServerToolset] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()
    owner = asyncio.create_task(_own(launch, name, ready, enough, trusted=trusted), name=f"server {name}")
    try:
        yield await ready
    finally:
        enough.set()
        if ready.cancelled():
            owner.cancel()  # nobody waits for this server any more
        await _ended(owner)


async def _own(
    launch: Launch, name: str, ready: asyncio.Future[ServerToolset], enough: asyncio.Event, *, trusted: bool
) -> None:
    try:
        child = await start(launch)
    except ProcessError as error:
        reason = f"the server `{name}` cannot be started: {error.message}"
        if not ready.cancelled():
            ready.set_exception(ServerError(reason, hint=error.hint))
        return
    try:
        async with Client(pipe_streams(child), read_timeout_seconds=START_TIMEOUT) as client:
            if not ready.cancelled():
                ready.set_result(ServerToolset(name, client, child, trusted=trusted))
            await enough.wait()
    except (MCPError, ExceptionGroup):
        if ready.cancelled():
            return
        if ready.done():
            log.warning("the session with the server `%s` broke", name, exc_info=True)
            return
        await child.stop()  # so that its last words are complete
        said = child.stderr_tail().strip() or "nothing"
        reason = f"the server `{name}` ended or did not answer while it started"
        ready.set_exception(ServerError(reason, hint=f"it said: {said}"))
    finally:
        await child.stop()


async def _ended(owner: asyncio.Task[None]) -> None:
    """Wait for the owner to stop its server, also when we are cancelled meanwhile: it is bounded in time."""
    cancelled = False
    while not owner.done():
        try:
            await asyncio.shield(owner)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
