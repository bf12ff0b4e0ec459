"""One MCP server as a toolset: started, asked, stopped without leftovers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from mcp import Client, MCPError

from kakite.errors import OutsideError
from kakite.host.convert import to_result, to_tool
from kakite.host.transport import pipe_streams
from kakite.processes import Child, Launch, ProcessError, start
from kakite.tools.toolset import Tool, ToolCall, ToolResult

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
                call.name, call.arguments, read_timeout_seconds=CALL_TIMEOUT
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
    try:
        child = await start(launch)
    except ProcessError as error:
        raise ServerError(f"the server `{name}` cannot be started: {error.message}", hint=error.hint) from error
    async with AsyncExitStack() as stack:
        stack.push_async_callback(child.stop)
        client = Client(pipe_streams(child), read_timeout_seconds=START_TIMEOUT)
        try:
            await stack.enter_async_context(client)
        except (MCPError, ExceptionGroup) as error:
            await child.stop()  # so that its last words are complete
            said = child.stderr_tail().strip() or "nothing"
            raise ServerError(
                f"the server `{name}` ended or did not answer while it started", hint=f"it said: {said}"
            ) from error
        yield ServerToolset(name, client, child, trusted=trusted)
