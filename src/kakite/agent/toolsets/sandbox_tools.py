"""MCP servers in the sandbox for the tools that work in the checkout, and their restarts.

A server that dies is started again, a limited number of times.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from kakite.agent.run.deps import EditorSettings
from kakite.agent.run.prompt import EditorKind
from kakite.agent.toolsets.buffer_editor import BufferEditor
from kakite.agent.toolsets.external import build_unknown_tool_result, detect_forge_tool
from kakite.errors import ExternalError
from kakite.host import ServerError, ServerToolset, connect
from kakite.host.server.connection import CALL_TIMEOUT
from kakite.host.tool_names import assign_tool_names
from kakite.processes import ProcessSpec
from kakite.tools.toolset import Tool, ToolCall, ToolResult

MAX_RESTARTS = 3
"""How often a server is started again before it counts as lost."""


class SupervisedServer:
    """A server, from its start to the end of the run. A Toolset, but for ``start`` and ``stop``."""

    def __init__(self, name: str, launch: Callable[[], ProcessSpec], *, trusted: bool, within: float) -> None:
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
        self._paused = False
        self._turn = asyncio.Lock()  # of several calls that find it dead, one starts it again

    async def start(self) -> None:
        """Start it and learn its tools, which stay these until the run ends.

        Raises:
            ServerError: it did not start, or has no tools.
        """
        async with AsyncExitStack() as begun:
            launch = self._launch()
            server = await begun.enter_async_context(connect(launch, name=self.name, trusted=self._trusted))
            self._tools = self._tools or await server.list_tools()
            if not self._tools:
                raise ServerError(f"the server `{self.name}` has no tools", code="server_failed")
            self._server, self._life = server, begun.pop_all()

    async def stop(self) -> None:
        """Stop it, and all that it started."""
        self._server = None
        await self._life.aclose()

    async def pause(self) -> bool:
        """Stop it, and all that it started, until it is called again, which counts as no restart.

        Returns whether there was anything to stop.
        """
        async with self._turn:
            there = self._server is not None
            self._paused = self._paused or there
            await self.stop()
            return there

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return its tools, as they were when it was started first."""
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool; a server that died is started again. What only looks is then called again.

        Raises:
            ServerError: it is not there any more, and is not started again.
        """
        server = await self._get_running()
        result = await server.call(call, within=self._within)
        if not server.is_closed:
            return result
        server = await self._get_running()
        if self._is_read_only(call):
            return await server.call(call, within=self._within)
        return self._build_interrupted_result(call, result)

    async def _get_running(self) -> ServerToolset:
        """Return the server, started again if it is not there any more."""
        async with self._turn:
            if self._server is None or self._server.is_closed:
                await self._restart()
            assert self._server is not None
            return self._server

    async def _restart(self) -> None:
        await self.stop()
        self._restarts += not self._paused
        self._paused = False
        if self._restarts > MAX_RESTARTS:
            told = f"the server `{self.name}` ended {self._restarts} times, and is not started again"
            raise ServerError(told, code="server_failed")
        await self.start()

    def _is_read_only(self, call: ToolCall) -> bool:
        return any(tool.name == call.name and tool.effect == "read" for tool in self._tools)

    def _build_interrupted_result(self, call: ToolCall, result: ToolResult) -> ToolResult:
        text = (
            f"{result.text}\n"
            f"The server was started again. What `{call.name}` did until then is done, and whatever was "
            "running in the background has ended: look before you repeat it."
        )
        return ToolResult(text=text, is_error=True, code="server_failed")


EDIT_TIMEOUT = 300.0  # s; an edit takes none, and a server that hangs would hold the run for ever
_VALID_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class EditorError(ExternalError):
    """The editor of a run could not be started, or is lost. Code: ``editor_failed``."""

    code = "editor_failed"


class SandboxToolset:
    """The editor and the commands of a run. A Toolset, but for ``open`` and ``close``.

    Which tools there are is settled when it is opened: a model is shown the same ones until the end. One that
    is lost meanwhile answers that it is.
    """

    def __init__(
        self,
        choice: EditorSettings,
        launch: Callable[[tuple[str, ...]], ProcessSpec],
        serve: Callable[[str], tuple[str, ...]],
        on_trouble: Callable[[EditorError], None],
        *,
        in_process: BufferEditor | None = None,
        commands: str = "shell",
    ) -> None:
        """Take what starts servers.

        Args:
            choice: which editor.
            launch: how a program is started in the sandbox, asked anew for every start.
            serve: the words that start Kakite's own server with these sets of tools.
            on_trouble: told when the editor is not there and the run goes on.
            in_process: takes the place of Kakite's own editor in the sandbox.
            commands: the sets of tools of the server that runs commands.
        """
        self.trouble: EditorError | None = None
        """Why there is no editor, though there should be one."""
        self._choice = choice
        self._launch = launch
        self._serve = serve
        self._on_trouble = on_trouble
        self._in_process = in_process
        self._commands = commands
        self._jobs: set[str] = set()
        """Commands in the background: beside them the person's editor is not asked."""
        self._editor: SupervisedServer | BufferEditor | None = None
        self._shell: SupervisedServer | None = None
        """The same one as the editor, where that is Kakite's own."""
        self._routes: dict[str, tuple[SupervisedServer | BufferEditor, str]] = {}
        self._tools: tuple[Tool, ...] = ()

    @property
    def editor(self) -> EditorKind:
        """The editor that is in use now."""
        if self._editor is None:
            return "none"
        return "own" if self._editor in {self._shell, self._in_process} else "other"

    @property
    def name(self) -> str:
        """The name of the editor's server."""
        return self._choice.name

    def list_editor_tools(self) -> tuple[str, ...]:
        """Return the names of the editor's tools; none where it is lost."""
        return tuple(name for name, (server, _) in self._routes.items() if server is self._editor)

    async def open(self) -> None:
        """Start the servers.

        Raises:
            EditorError: the editor did not start, and the run is to stop then.
            ServerError: there is not even a server for commands.
            SandboxError: the sandbox does not work.
        """
        if not self._choice.enabled:
            self._shell = await self._start_server(self._commands)
        elif self._choice.command:
            self._shell = await self._start_server(self._commands)
            await self._open_editor()
        elif self._in_process is not None:
            self._shell = await self._start_server(self._commands)
            await self._open_in_process(self._in_process)
        else:
            await self._open_both()
        self._tools = await self._route()

    async def close(self) -> None:
        """Stop the servers."""
        for server in (self._editor, self._shell):
            if server:
                await server.stop()

    async def pause(self) -> bool:
        """Stop the servers in the sandbox, and all that they started, until a tool is called again.

        Returns whether there was anything to stop.
        """
        servers = {each for each in (self._editor, self._shell) if isinstance(each, SupervisedServer)}
        self._jobs.clear()
        return any([await server.pause() for server in servers])

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same ones every time."""
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool.

        Raises:
            EditorError: the editor is lost, and the run is to stop then.
            ServerError: the server of commands is lost.
        """
        if call.name in self._routes:
            server, name = self._routes[call.name]
            if self._in_process is not None:
                self._in_process.pause(paused=bool(self._jobs))
            try:
                result = await server.call(replace(call, name=name))
            except ServerError as error:
                if server is self._editor:
                    await self._go_on_without(server, error)
                elif server is self._shell or self._editor is not None:
                    raise
            else:
                self._note_job(name, result)
                return result
        elif all(tool.name != call.name for tool in self._tools):
            return build_unknown_tool_result(call, [tool.name for tool in self._tools])
        return _build_lost_result(call)

    def _note_job(self, name: str, result: ToolResult) -> None:
        if name not in {"run_command", "poll_command", "stop_command"} or result.is_error:
            return
        if job := result.details.get("job"):
            (self._jobs.add if result.details.get("running") else self._jobs.discard)(str(job))

    async def _open_both(self) -> None:
        try:
            self._editor = self._shell = await self._start_server(f"editor,{self._commands}")
        except ServerError as error:
            self._lose(error)
            self._shell = await self._start_server(self._commands)

    async def _open_in_process(self, editor: BufferEditor) -> None:
        try:
            await editor.start()
        except ServerError as error:
            self._lose(error)
        else:
            self._editor = editor

    async def _open_editor(self) -> None:
        choice = self._choice
        editor = SupervisedServer(
            choice.name, lambda: self._launch(choice.command), trusted=True, within=EDIT_TIMEOUT
        )
        try:
            await editor.start()
            if known := detect_forge_tool(await editor.list_tools()):
                told = f"the server `{choice.name}` is not an editor: `{known}` says that it is a forge's"
                raise ServerError(told, code="server_failed")
        except ServerError as error:
            await editor.stop()
            self._lose(error)
        else:
            self._editor = editor

    async def _start_server(self, sets: str) -> SupervisedServer:
        server = SupervisedServer(
            "kakite", lambda: self._launch(self._serve(sets)), trusted=True, within=CALL_TIMEOUT
        )
        await server.start()
        return server

    def _lose(self, error: ServerError) -> None:
        """Take note that there is no editor; raise where the run is to stop for it."""
        trouble = EditorError(error.message, hint=error.hint)
        if self._choice.on_failure == "fail":
            raise trouble from error
        self.trouble = trouble
        self._on_trouble(trouble)

    async def _go_on_without(self, server: SupervisedServer | BufferEditor, error: ServerError) -> None:
        self._lose(error)
        self._editor = None  # at once: other calls may find it lost meanwhile
        if server is self._shell:
            self._shell = None
            await server.stop()
            self._shell = await self._start_server(self._commands)
        else:
            await server.stop()
        await self._route()

    async def _list_offered_tools(self) -> list[tuple[SupervisedServer | BufferEditor, str, Tool]]:
        """Return the tools that there are now, each with its server and the model's name for it."""
        assert self._shell is not None
        commands = await self._shell.list_tools()
        offered: list[tuple[SupervisedServer | BufferEditor, str, Tool]]
        offered = [(self._shell, tool.name, tool) for tool in commands]
        if self._editor is None or self._editor is self._shell:
            return offered
        edits = await self._editor.list_tools()
        names = _assign_tool_names(self._choice.name, edits, {tool.name for tool in commands})
        return [*((self._editor, name, tool) for name, tool in zip(names, edits, strict=True)), *offered]

    async def _route(self) -> tuple[Tool, ...]:
        offered = await self._list_offered_tools()
        self._routes = {name: (server, tool.name) for server, name, tool in offered}
        return tuple(replace(tool, name=name) for _, name, tool in offered)


def _assign_tool_names(server: str, tools: Sequence[Tool], taken: Collection[str]) -> tuple[str, ...]:
    """Return the model's names for tools: their own, where a provider takes them and they are not taken."""
    longer = {
        pair[1]: name for name, pair in assign_tool_names([(server, tool.name) for tool in tools]).items()
    }
    return tuple(
        tool.name if _VALID_NAME.fullmatch(tool.name) and tool.name not in taken else longer[tool.name]
        for tool in tools
    )


def _build_lost_result(call: ToolCall) -> ToolResult:
    text = (
        f"Error (editor_failed): the server of `{call.name}` is lost, and with it the editor.\n"
        "What the call did until then is done. Go on with `run_command` alone: look at files and change them "
        "by commands."
    )
    return ToolResult(text=text, is_error=True, code="editor_failed")
