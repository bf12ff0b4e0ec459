"""A server in the sandbox that is started again when it dies, so many times and no more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from kakite.host import ServerError, ServerToolset, connect
from kakite.processes import Launch
from kakite.tools.toolset import Tool, ToolCall, ToolResult

RESTARTS = 3
"""How often a server is started again before it counts as lost."""


class TendedServer:
    """A server, from its start to the end of the run. A Toolset, but for ``start`` and ``stop``.

    One task at a time may use it.
    """

    def __init__(self, name: str, launch: Callable[[], Launch], *, trusted: bool, within: float) -> None:
        """Take what starts it. ``within`` is how many seconds a call may take.

        ``launch`` is asked anew for each start; what it returns may be good for one.
        """
        self.name = name
        self._launch = launch
        self._trusted = trusted
        self._within = within
        self._life = AsyncExitStack()
        self._server: ServerToolset | None = None
        self._tools: tuple[Tool, ...] = ()
        self._restarts = 0

    async def start(self) -> None:
        """Start it and learn its tools, which stay these until the run ends.

        Raises:
            ServerError: it did not start, or has no tools.
        """
        async with AsyncExitStack() as begun:
            launch = self._launch()
            server = await begun.enter_async_context(connect(launch, name=self.name, trusted=self._trusted))
            self._tools = self._tools or await server.tools()
            if not self._tools:
                raise ServerError(f"the server `{self.name}` has no tools", code="server_failed")
            self._server, self._life = server, begun.pop_all()

    async def stop(self) -> None:
        """Stop it, and all that it started."""
        self._server = None
        await self._life.aclose()

    async def tools(self) -> tuple[Tool, ...]:
        """Return its tools, as they were when it was started first."""
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool; a server that died is started again. What only looks is then called again.

        Raises:
            ServerError: it is not there any more, and is not started again.
        """
        if self._server is None or self._server.gone:
            await self._again()
        result = await self._sent(call)
        if not self._lost():
            return result
        await self._again()
        if self._only_looks(call):
            return await self._sent(call)
        return self._cut_short(call, result)

    async def _sent(self, call: ToolCall) -> ToolResult:
        assert self._server is not None
        return await self._server.call(call, within=self._within)

    def _lost(self) -> bool:
        return self._server is None or self._server.gone

    async def _again(self) -> None:
        await self.stop()
        self._restarts += 1
        if self._restarts > RESTARTS:
            told = f"the server `{self.name}` ended {self._restarts} times, and is not started again"
            raise ServerError(told, code="server_failed")
        await self.start()

    def _only_looks(self, call: ToolCall) -> bool:
        return any(tool.name == call.name and tool.effect == "read" for tool in self._tools)

    def _cut_short(self, call: ToolCall, result: ToolResult) -> ToolResult:
        text = (
            f"{result.text}\n"
            f"The server was started again. What `{call.name}` did until then is done, and whatever was "
            "running in the background has ended: look before you repeat it."
        )
        return ToolResult(text=text, is_error=True, code="server_failed")
