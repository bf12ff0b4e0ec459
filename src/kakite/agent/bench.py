"""The tools that work in the checkout: servers in the sandbox, and how a run goes on when they are lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from kakite.agent.forge_servers import forge_by_tools
from kakite.agent.further import unknown
from kakite.agent.instructions import EditorKind
from kakite.agent.tended import TendedServer
from kakite.agent.tooling import EditorChoice
from kakite.errors import OutsideError
from kakite.host import ServerError
from kakite.host.connection import CALL_TIMEOUT
from kakite.host.naming import legal_names
from kakite.processes import Launch
from kakite.tools.toolset import Tool, ToolCall, ToolResult

EDIT_TIMEOUT = 300.0  # s; an edit takes none, and a server that hangs would hold the run for ever
_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


class EditorError(OutsideError):
    """The editor of a run could not be started, or is lost. Code: ``editor_failed``."""

    code = "editor_failed"


class Bench:
    """The editor and the commands of a run. A Toolset, but for ``open`` and ``close``.

    Which tools there are is settled when it is opened: a model is shown the same ones until the end. One that
    is lost meanwhile answers that it is.
    """

    def __init__(
        self,
        choice: EditorChoice,
        launch: Callable[[tuple[str, ...]], Launch],
        serve: Callable[[str], tuple[str, ...]],
        on_trouble: Callable[[EditorError], None],
    ) -> None:
        """Take what starts servers.

        Args:
            choice: which editor.
            launch: how a program is started in the sandbox, asked anew for every start.
            serve: the words that start Kakite's own server with these sets of tools.
            on_trouble: told when the editor is not there and the run goes on.
        """
        self.trouble: EditorError | None = None
        """Why there is no editor, though there should be one."""
        self._choice = choice
        self._launch = launch
        self._serve = serve
        self._on_trouble = on_trouble
        self._editor: TendedServer | None = None
        self._shell: TendedServer | None = None
        """The same one as the editor, where that is Kakite's own."""
        self._routes: dict[str, tuple[TendedServer, str]] = {}
        self._tools: tuple[Tool, ...] = ()

    @property
    def editor(self) -> EditorKind:
        """Which editor there is now."""
        if self._editor is None:
            return "none"
        return "own" if self._editor is self._shell else "other"

    @property
    def name(self) -> str:
        """What the editor's server is called."""
        return self._choice.name

    def editor_tools(self) -> tuple[str, ...]:
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
            self._shell = await self._started("shell")
        elif self._choice.command:
            self._shell = await self._started("shell")
            await self._open_editor()
        else:
            await self._open_both()
        self._tools = await self._route()

    async def close(self) -> None:
        """Stop the servers."""
        for server in (self._editor, self._shell):
            if server:
                await server.stop()

    async def tools(self) -> tuple[Tool, ...]:
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
            try:
                return await server.call(replace(call, name=name))
            except ServerError as error:
                if server is not self._editor:
                    raise
                await self._go_on_without(server, error)
        elif all(tool.name != call.name for tool in self._tools):
            return unknown(call, [tool.name for tool in self._tools])
        return _gone(call)

    async def _open_both(self) -> None:
        try:
            self._editor = self._shell = await self._started("editor,shell")
        except ServerError as error:
            self._lose(error)
            self._shell = await self._started("shell")

    async def _open_editor(self) -> None:
        choice = self._choice
        editor = TendedServer(
            choice.name, lambda: self._launch(choice.command), trusted=True, within=EDIT_TIMEOUT
        )
        try:
            await editor.start()
            if known := forge_by_tools(await editor.tools()):
                told = f"the server `{choice.name}` is no editor: `{known}` says that it is a forge's"
                raise ServerError(told, code="server_failed")
        except ServerError as error:
            await editor.stop()
            self._lose(error)
        else:
            self._editor = editor

    async def _started(self, sets: str) -> TendedServer:
        server = TendedServer(
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

    async def _go_on_without(self, server: TendedServer, error: ServerError) -> None:
        self._lose(error)
        await server.stop()
        self._editor = None
        if server is self._shell:
            self._shell = None
            self._shell = await self._started("shell")
        await self._route()

    async def _offered(self) -> list[tuple[TendedServer, str, Tool]]:
        """Return the tools that there are now, each with its server and the model's name for it."""
        assert self._shell is not None
        commands = await self._shell.tools()
        offered = [(self._shell, tool.name, tool) for tool in commands]
        if self._editor is None or self._editor is self._shell:
            return offered
        edits = await self._editor.tools()
        names = _names(self._choice.name, edits, {tool.name for tool in commands})
        return [*((self._editor, name, tool) for name, tool in zip(names, edits, strict=True)), *offered]

    async def _route(self) -> tuple[Tool, ...]:
        offered = await self._offered()
        self._routes = {name: (server, tool.name) for server, name, tool in offered}
        return tuple(replace(tool, name=name) for _, name, tool in offered)


def _names(server: str, tools: Sequence[Tool], taken: Collection[str]) -> tuple[str, ...]:
    """Return the model's names for tools: their own, where a provider takes them and they are not taken."""
    longer = {pair[1]: name for name, pair in legal_names([(server, tool.name) for tool in tools]).items()}
    return tuple(
        tool.name if _LEGAL.fullmatch(tool.name) and tool.name not in taken else longer[tool.name]
        for tool in tools
    )


def _gone(call: ToolCall) -> ToolResult:
    text = (
        f"Error (editor_failed): the server of `{call.name}` is lost, and with it the editor.\n"
        "What the call did until then is done. Go on with `run_command` alone: look at files and change them "
        "by commands."
    )
    return ToolResult(text=text, is_error=True, code="editor_failed")
