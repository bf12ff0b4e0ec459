"""One server of a configuration, between what the person accepted of it and what it says now."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import mcp_types as mcp

from kakite.errors import KakiteError
from kakite.host.definitions import SLICE, Definition, is_included, to_definition
from kakite.host.entries import Program, ServerEntry, Timeouts
from kakite.host.expansion import expand, values_of
from kakite.host.ours import as_ours, first_folder, is_ours
from kakite.host.predicates import Place
from kakite.host.requests import Surroundings
from kakite.host.server import Server, ServerError
from kakite.host.trust import Accepted, Consents, Standing
from kakite.tools.arguments import ToolError, failed
from kakite.tools.toolset import ToolCall, ToolResult

_MOMENT = 2.0
"""Seconds that a turn waits for a server that is tried again; what comes up later is there in the next."""


_ANY = Timeouts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A tool of a server."""

    server: str
    definition: Definition
    standing: Standing
    digest: str
    name: str = ""
    """What a model calls it by."""


class NotAcceptedError(KakiteError):
    """A server may not be started: the person did not agree to it as it is. Code: ``needs_consent``."""

    code = "needs_consent"


class Member:
    """A server that is started only if the person accepted it; its tools are compared with what that was."""

    def __init__(self, entry: ServerEntry, surroundings: Surroundings, consents: Consents) -> None:
        self.entry = entry
        """As written: nothing is expanded."""
        self._ours = is_ours(entry, surroundings.environ)
        self._trusted = entry.trusted or self._ours
        self.server: Server | None = None
        self.failure: KakiteError | None = None
        """Why its tools could not be listed last time."""
        self.retired = False
        """Whether it is out of the configuration: nobody would stop what it starts from now on."""
        self._surroundings = surroundings
        surroundings.redaction.learn(values_of(entry, surroundings.environ))
        self._consents = consents
        self._place: Place | None = None
        self._compared: tuple[object, object, tuple[Offered, ...]] = (None, None, ())
        self._by_name: dict[str, Offered] = {}

    @property
    def standing(self) -> Standing:
        """Whether it may be started."""
        return self._consents.entry_standing(self.entry, self._surroundings.project)

    @property
    def stamp(self) -> object:
        """Changes whenever what is listed may have changed."""
        server = self.server
        changed = (0, False) if server is None else (server.changed, server.due)
        return self._consents.stamp(), self._compared[0] is None, changed

    @property
    def absence(self) -> KakiteError | None:
        """Why it has no tools now; None where it has."""
        if not isinstance(self.standing, Accepted):
            return self._unaccepted()
        return (self.server.trouble if self.server else None) or self.failure

    def adopts(self, entry: ServerEntry) -> bool:
        """Take a changed entry over, if that needs no other server; else change nothing, and say no."""
        if _identity(entry) != _identity(self.entry):
            return False
        before, self.entry = self.entry, entry
        if self.server is None or (entry == before and entry.origin.scope == before.origin.scope):
            return True
        try:
            accepted = isinstance(self.standing, Accepted)
            if accepted and entry != before:
                self.server.adopt(self.expanded()[0])
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
        if not isinstance(self.standing, Accepted):
            raise self._unaccepted()
        await self._started().start()
        await self.present()

    async def listed(self) -> Sequence[Offered]:
        """Return its accepted tools; without starting it, where it was seen before and is lazy."""
        if self.entry.disabled or not isinstance(self.standing, Accepted):
            return ()
        try:
            tools = await self._remembered() or await self._at_hand()
        except KakiteError as error:
            self.failure = error
            return ()
        return [tool for tool in tools if isinstance(tool.standing, Accepted)]

    async def _at_hand(self) -> tuple[Offered, ...]:
        """Return its tools for a turn: one that waits for the first start, and a moment for further ones."""
        server = self._started()
        trouble = server.trouble
        if trouble is None:
            return await self.present()
        if not server.due:
            raise trouble
        try:
            async with asyncio.timeout(_MOMENT):
                return await self.present()
        except TimeoutError:
            raise server.trouble or trouble from None

    async def present(self) -> tuple[Offered, ...]:
        """Return the tools that it has now, started if need be, each with how it stands.

        Raises:
            KakiteError: it cannot be started, or a variable that it needs is not set.
        """
        tools = self._compare(await self._started().definitions())
        self.failure = None
        return tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call one of its tools, by its own name for it, if that is what was accepted when it is sent."""
        try:
            standing = self.standing
            server = self._started() if isinstance(standing, Accepted) else None
        except KakiteError as error:
            return failed(ToolError(error.message, hint=error.hint, code=error.code))
        if server is None:
            return _refused(self.entry, f"the server `{self.entry.name}` is not accepted any more")
        return await server.call(call, permit=lambda definitions: self._judge(definitions, call))

    def _judge(self, definitions: tuple[Definition, ...], call: ToolCall) -> ToolResult | None:
        self._compare(definitions)
        tool = self._by_name.get(call.name)
        if tool is None or isinstance(tool.standing, Accepted):
            return None  # the server itself says that there is none
        return _refused(self.entry, f"the tool `{call.name}` of `{self.entry.name}` is not what was accepted")

    def expanded(self) -> tuple[ServerEntry, Surroundings]:
        """Return the entry with its variables, and what its server lives in, if the person accepted it.

        Raises:
            NotAcceptedError: the person did not.
            ExpansionError: a variable that it needs is not set.
        """
        if not isinstance(self.standing, Accepted):
            raise self._unaccepted()
        entry = expand(self.entry, self._surroundings.environ, project=self._surroundings.project)
        return as_ours(entry) if self._ours else entry, self._surroundings

    @property
    def place(self) -> Place:
        """Where the paths of its calls lead, before any of them moved it."""
        if self._place is None:
            self._place = self._found_place()
        return self._place

    def _found_place(self) -> Place:
        project = str(self._surroundings.project)
        reached = self.entry.reached
        if not isinstance(reached, Program) or not (reached.cwd or self._ours):
            return Place(project=project)
        try:
            entry = expand(self.entry, self._surroundings.environ, project=self._surroundings.project)
        except KakiteError:  # it cannot be started either
            return Place(project=project, folders=("",))
        assert isinstance(entry.reached, Program)
        folder = posixpath.join(project, entry.reached.cwd)
        return Place(
            project=project, folders=(first_folder(entry.reached, folder) if self._ours else folder,)
        )

    def _unaccepted(self) -> NotAcceptedError:
        hint = f"look at it, then `kakite host accept {self.entry.name}`"
        return NotAcceptedError(f"the server `{self.entry.name}` is not accepted", hint=hint)

    def _started(self) -> Server:
        if self.server is None:
            if self.retired:
                raise ServerError(
                    f"the server `{self.entry.name}` is gone, or another one by now",
                    hint="look at its tools again",
                    code="server_stopped",
                )
            self.server = Server(*self.expanded())
        return self.server

    async def _remembered(self) -> tuple[Offered, ...]:
        if self.entry.lifecycle != "lazy" or self._compared[0] is not None:
            return ()  # what it said in this session counts more
        known = self._consents.definitions(self.entry, self._surroundings.project)
        tools: list[Offered] = []
        for at, raw in enumerate(known, 1):
            if is_included(str(raw.get("name", "")), self.entry):
                definition = to_definition(mcp.Tool.model_validate(raw), trusted=self._trusted)
                tools.append(self._offered(definition, Accepted()))
            if not at % SLICE:
                await asyncio.sleep(0)
        return tuple(tools)

    def _offered(self, definition: Definition, standing: Standing) -> Offered:
        return Offered(
            server=self.entry.name, definition=definition, standing=standing, digest=definition.digest
        )

    def _compare(self, definitions: tuple[Definition, ...]) -> tuple[Offered, ...]:
        stamp = self._consents.stamp()
        before, stamped, tools = self._compared
        if before is definitions and stamped == stamp:
            return tools
        found: Mapping[str, Standing] = self._consents.tool_standing(
            self.entry,
            self._surroundings.project,
            [each.raw for each in definitions],
            [each.digest for each in definitions],
        )
        tools = tuple(self._offered(each, found[str(each.raw["name"])]) for each in definitions)
        self._compared = (definitions, self._consents.stamp(), tools)
        self._by_name = {each.definition.tool.name: each for each in tools}
        return tools


def _identity(entry: ServerEntry) -> ServerEntry:
    """Return what of an entry makes a server another one: all else can change while it runs."""
    return replace(
        entry,
        auto_approve=False,
        rules=(),
        lifecycle="lazy",
        idle_stop=0.0,
        timeouts=_ANY,
        tool_timeouts={},
        include=(),
        exclude=(),
    )


def _refused(entry: ServerEntry, why: str) -> ToolResult:
    hint = f"go on without it; the person can look at it with `kakite host accept {entry.name}`"
    return failed(ToolError(why, hint=hint, code="quarantined"))
