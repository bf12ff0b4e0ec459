"""Lets one server's tools through only as the person accepted them.

It also knows Kakite's own server, which needs no consent.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import shutil
import sysconfig
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from mcp import Client

from kakite.errors import KakiteError
from kakite.host.config.model import ServerEntry, StdioServer, Timeouts
from kakite.host.config.variables import collect_variable_values, expand
from kakite.host.consent.store import ConsentGranted, ConsentState, ConsentStore
from kakite.host.policy.matchers import PathContext
from kakite.host.server.client_features import HostContext
from kakite.host.server.server import Server, ServerError
from kakite.host.server.tools import (
    BATCH_SIZE,
    ServerToolDefinition,
    get_prompt,
    is_included,
    is_operation,
    parse_definition,
)
from kakite.tools.arguments import ToolError, to_error_result
from kakite.tools.toolset import ToolCall, ToolResult

_T = TypeVar("_T")
_HARMLESS = "KAKITE_"
_ROOT = "--root"


def is_builtin(entry: ServerEntry, environ: Mapping[str, str]) -> bool:
    """Return whether an entry starts ``kakite serve`` of this very installation, unchanged by what it sets.

    Its word then counts as that of a trusted server: its previews are asked for, and show what an edit does.
    Whoever believes it has to start it by ``harden_entry``: what the name stands for may be another program
    by then.
    """
    reached = entry.reached
    if not isinstance(reached, StdioServer) or reached.args[:1] != ("serve",):
        return False
    if any(not name.startswith(_HARMLESS) for name in reached.env):
        return False  # PYTHONPATH, LD_PRELOAD and their like
    found = shutil.which(reached.command, path=environ.get("PATH"))
    own = _get_own_program()
    if found is None or not Path(found).is_absolute():
        return False  # it is looked up from the server's folder, not from ours
    return own.is_file() and Path(found).samefile(own)


def harden_entry(entry: ServerEntry) -> ServerEntry:
    """Return an entry that is ours so that nothing but our own program can be started by it."""
    assert isinstance(entry.reached, StdioServer)
    return replace(entry, trusted=True, reached=replace(entry.reached, command=str(_get_own_program())))


def get_initial_folder(program: StdioServer, folder: str) -> str:
    """Return where relative paths of calls start in our own server that is started in an absolute folder.

    Empty if it has no folder at all.
    """
    root = next(_iter_roots(program.args), "")
    return os.path.realpath(posixpath.join(folder, root)) if root else ""


def _iter_roots(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word == _ROOT:
            yield from words[at + 1 : at + 2]
        elif word.startswith(f"{_ROOT}="):
            yield word.removeprefix(f"{_ROOT}=")


def _get_own_program() -> Path:
    return Path(sysconfig.get_path("scripts")) / "kakite"


_RETRY_WAIT = 2.0
"""Seconds that a turn waits for a server that is tried again; what comes up later is there in the next."""


_DEFAULT_TIMEOUTS = Timeouts()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedTool:
    """A tool of a server."""

    server: str
    definition: ServerToolDefinition
    standing: ConsentState
    digest: str
    name: str = ""
    """What a model calls it by."""


class NotAcceptedError(KakiteError):
    """A server may not be started: the person did not agree to it as it is. Code: ``needs_consent``."""

    code = "needs_consent"


class GatedServer:
    """A server that is started only if the person accepted it; its tools are compared with what that was."""

    def __init__(self, entry: ServerEntry, surroundings: HostContext, consents: ConsentStore) -> None:
        self.entry = entry
        """As written: nothing is expanded."""
        self._ours = is_builtin(entry, surroundings.environ)
        self._trusted = entry.trusted or self._ours
        self.server: Server | None = None
        self.failure: KakiteError | None = None
        """Why its tools could not be listed last time."""
        self.retired = False
        """Whether it is out of the configuration: nobody would stop what it starts from now on."""
        self._surroundings = surroundings
        surroundings.redaction.add_secrets(collect_variable_values(entry, surroundings.environ))
        self._consents = consents
        self._place: PathContext | None = None
        self._compared: tuple[object, object, tuple[GatedTool, ...]] = (None, None, ())
        self._by_name: dict[str, GatedTool] = {}

    @property
    def consent_state(self) -> ConsentState:
        """Whether it may be started."""
        return self._consents.get_entry_state(self.entry, self._surroundings.project)

    @property
    def stamp(self) -> object:
        """Changes whenever what is listed may have changed."""
        server = self.server
        changed = (0, False) if server is None else (server.changed, server.is_retry_due)
        return self._consents.read_stamp(), self._compared[0] is None, changed

    @property
    def unavailability(self) -> KakiteError | None:
        """The reason why it has no tools now; None where it has."""
        if not isinstance(self.consent_state, ConsentGranted):
            return self._make_not_accepted_error()
        return (self.server.startup_error if self.server else None) or self.failure

    def try_update_entry(self, entry: ServerEntry) -> bool:
        """Take a changed entry over, if that needs no other server; else change nothing, and say no."""
        if _strip_runtime_settings(entry) != _strip_runtime_settings(self.entry):
            return False
        before, self.entry = self.entry, entry
        if self.server is None or (entry == before and entry.origin.scope == before.origin.scope):
            return True
        try:
            accepted = isinstance(self.consent_state, ConsentGranted)
            if accepted and entry != before:
                self.server.update_entry(self.expand_entry()[0])
        except KakiteError:
            accepted = False
        if not accepted:
            self.entry = before
        return accepted

    async def start(self) -> None:
        """Start it now, whatever became of it before.

        Raises:
            KakiteError: it cannot be started, is disabled, or not accepted.
        """
        if self.entry.disabled:
            raise ServerError(f"the server `{self.entry.name}` is disabled by its entry", code="disabled")
        if not isinstance(self.consent_state, ConsentGranted):
            raise self._make_not_accepted_error()
        await self._get_or_create_server().start()
        await self.list_tools()

    async def list_accepted_tools(self) -> Sequence[GatedTool]:
        """Return its accepted tools; without starting it, where it was seen before and is lazy."""
        if self.entry.disabled or not isinstance(self.consent_state, ConsentGranted):
            return ()
        try:
            tools = await self._load_accepted_tools() or await self._list_available_tools()
        except KakiteError as error:
            self.failure = error
            return ()
        return [tool for tool in tools if isinstance(tool.standing, ConsentGranted)]

    async def _list_available_tools(self) -> tuple[GatedTool, ...]:
        """Return its tools for a turn: one that waits for the first start, and a moment for further ones."""
        server = self._get_or_create_server()
        trouble = server.startup_error
        if trouble is None:
            return await self.list_tools()
        if not server.is_retry_due:
            raise trouble
        try:
            async with asyncio.timeout(_RETRY_WAIT):
                return await self.list_tools()
        except TimeoutError:
            raise server.startup_error or trouble from None

    async def list_tools(self) -> tuple[GatedTool, ...]:
        """Return the tools that it has now, started if need be, each with how it stands.

        Raises:
            KakiteError: it cannot be started, or a variable that it needs is not set.
        """
        tools = self._compare_with_consent(await self._get_or_create_server().list_definitions())
        self.failure = None
        return tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call one of its tools, by its own name for it, if that is what was accepted when it is sent."""
        try:
            standing = self.consent_state
            server = self._get_or_create_server() if isinstance(standing, ConsentGranted) else None
        except KakiteError as error:
            return to_error_result(ToolError(error.message, hint=error.hint, code=error.code))
        if server is None:
            return _make_quarantined_result(
                self.entry, f"the server `{self.entry.name}` is not accepted any more"
            )
        return await server.call(call, permit=lambda definitions: self._check_consent(definitions, call))

    async def get_prompt(self, call: ToolCall) -> ToolResult:
        """Return the text of a prompt, by its name among the definitions, if that is what was accepted.

        Raises:
            KakiteError: the server may not be used, cannot be started, does not answer, or says no.
        """
        if not isinstance(self.consent_state, ConsentGranted):
            raise self._make_not_accepted_error()
        definitions = await self._get_or_create_server().list_definitions()
        if refusal := self._check_consent(definitions, call):
            return refusal
        found = self._by_name.get(call.name)
        if found is None or not found.definition.prompt:
            raise ServerError(f"the server `{self.entry.name}` has no `{call.name}`", code="unknown_prompt")
        name = found.definition.prompt
        return await self.request(lambda client: get_prompt(client, name, call.arguments))

    async def request(self, send: Callable[[Client], Awaitable[_T]]) -> _T:
        """Send it what is no call of a tool, if the person accepted it.

        Raises:
            KakiteError: they did not; or it cannot be started, does not answer, or says no.
        """
        if not isinstance(self.consent_state, ConsentGranted):
            raise self._make_not_accepted_error()
        return await self._get_or_create_server().request(send)

    def _check_consent(
        self, definitions: tuple[ServerToolDefinition, ...], call: ToolCall
    ) -> ToolResult | None:
        self._compare_with_consent(definitions)
        tool = self._by_name.get(call.name)
        if tool is None or isinstance(tool.standing, ConsentGranted):
            return None  # the server itself says that there is none
        return _make_quarantined_result(
            self.entry, f"the tool `{call.name}` of `{self.entry.name}` is not what was accepted"
        )

    def expand_entry(self) -> tuple[ServerEntry, HostContext]:
        """Return the entry with its variables, and what its server lives in, if the person accepted it.

        Raises:
            NotAcceptedError: the person did not.
            ExpansionError: a variable that it needs is not set.
        """
        if not isinstance(self.consent_state, ConsentGranted):
            raise self._make_not_accepted_error()
        entry = expand(self.entry, self._surroundings.environ, project=self._surroundings.project)
        return harden_entry(entry) if self._ours else entry, self._surroundings

    @property
    def path_context(self) -> PathContext:
        """The folders that its calls' paths start from, before any of them moved it."""
        if self._place is None:
            self._place = self._resolve_path_context()
        return self._place

    def _resolve_path_context(self) -> PathContext:
        project = str(self._surroundings.project)
        reached = self.entry.reached
        if not isinstance(reached, StdioServer) or not (reached.cwd or self._ours):
            return PathContext(project=project)
        try:
            entry = expand(self.entry, self._surroundings.environ, project=self._surroundings.project)
        except KakiteError:  # it cannot be started either
            return PathContext(project=project, folders=("",))
        assert isinstance(entry.reached, StdioServer)
        folder = posixpath.join(project, entry.reached.cwd)
        return PathContext(
            project=project, folders=(get_initial_folder(entry.reached, folder) if self._ours else folder,)
        )

    def _make_not_accepted_error(self) -> NotAcceptedError:
        hint = f"look at it, then `kakite host accept {self.entry.name}`"
        return NotAcceptedError(f"the server `{self.entry.name}` is not accepted", hint=hint)

    def _get_or_create_server(self) -> Server:
        if self.server is None:
            if self.retired:
                raise ServerError(
                    f"the server `{self.entry.name}` is gone, or another one by now",
                    hint="look at its tools again",
                    code="server_stopped",
                )
            self.server = Server(*self.expand_entry())
        return self.server

    async def _load_accepted_tools(self) -> tuple[GatedTool, ...]:
        if self.entry.lifecycle != "lazy" or self._compared[0] is not None:
            return ()  # what it said in this session counts more
        known = self._consents.get_definitions(self.entry, self._surroundings.project)
        tools: list[GatedTool] = []
        for at, raw in enumerate(known, 1):
            if is_included(str(raw.get("name", "")), self.entry):
                definition = parse_definition(raw, trusted=self._trusted)
                if definition.prompt or not is_operation(definition.tool.name):
                    tools.append(self._build_tool(definition, ConsentGranted()))
            if not at % BATCH_SIZE:
                await asyncio.sleep(0)
        return tuple(tools)

    def _build_tool(self, definition: ServerToolDefinition, standing: ConsentState) -> GatedTool:
        return GatedTool(
            server=self.entry.name, definition=definition, standing=standing, digest=definition.digest
        )

    def _compare_with_consent(self, definitions: tuple[ServerToolDefinition, ...]) -> tuple[GatedTool, ...]:
        stamp = self._consents.read_stamp()
        before, stamped, tools = self._compared
        if before is definitions and stamped == stamp:
            return tools
        found: Mapping[str, ConsentState] = self._consents.get_tool_states(
            self.entry,
            self._surroundings.project,
            [each.raw for each in definitions],
            [each.digest for each in definitions],
        )
        tools = tuple(self._build_tool(each, found[str(each.raw["name"])]) for each in definitions)
        self._compared = (definitions, self._consents.read_stamp(), tools)
        self._by_name = {each.definition.tool.name: each for each in tools}
        return tools


def _strip_runtime_settings(entry: ServerEntry) -> ServerEntry:
    """Return what of an entry makes a server another one: all else can change while it runs."""
    return replace(
        entry,
        auto_approve=False,
        rules=(),
        lifecycle="lazy",
        idle_stop=0.0,
        timeouts=_DEFAULT_TIMEOUTS,
        tool_timeouts={},
        include=(),
        exclude=(),
    )


def _make_quarantined_result(entry: ServerEntry, why: str) -> ToolResult:
    hint = f"go on without it; the person can look at it with `kakite host accept {entry.name}`"
    return to_error_result(ToolError(why, hint=hint, code="quarantined"))
