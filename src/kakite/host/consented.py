"""One server of a configuration, between what the person accepted of it and what it says now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import mcp_types as mcp

from kakite.errors import KakiteError
from kakite.host.definitions import Definition, is_included, to_definition
from kakite.host.entries import ServerEntry
from kakite.host.expansion import expand
from kakite.host.ours import is_ours
from kakite.host.requests import Surroundings
from kakite.host.server import Server
from kakite.host.trust import Accepted, Consents, Standing, definition_digest
from kakite.tools.arguments import ToolError, failed
from kakite.tools.toolset import ToolCall, ToolResult


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
        self._trusted = entry.trusted or is_ours(entry, surroundings.environ)
        self.server: Server | None = None
        self.failure: KakiteError | None = None
        """Why its tools could not be listed last time."""
        self._surroundings = surroundings
        self._consents = consents
        self._compared: tuple[object, object, tuple[Offered, ...]] = (None, None, ())

    @property
    def standing(self) -> Standing:
        """Whether it may be started."""
        return self._consents.entry_standing(self.entry, self._surroundings.project)

    @property
    def stamp(self) -> object:
        """Changes whenever what is listed may have changed."""
        changed = 0 if self.server is None else self.server.changed
        return self._consents.stamp(), self._compared[0] is None, changed

    async def listed(self) -> Sequence[Offered]:
        """Return its accepted tools; without starting it, where it was seen before and is lazy."""
        if self.entry.disabled or not isinstance(self.standing, Accepted):
            return ()
        try:
            tools = self._remembered() or await self.present()
        except KakiteError as error:
            self.failure = error
            return ()
        return [tool for tool in tools if isinstance(tool.standing, Accepted)]

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
        tools = self._compare(definitions)
        tool = next((each for each in tools if each.definition.tool.name == call.name), None)
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
            hint = f"look at it, then `kakite host accept {self.entry.name}`"
            raise NotAcceptedError(f"the server `{self.entry.name}` is not accepted", hint=hint)
        entry = expand(self.entry, self._surroundings.environ, project=self._surroundings.project)
        return replace(entry, trusted=self._trusted), self._surroundings

    def _started(self) -> Server:
        if self.server is None:
            self.server = Server(*self.expanded())
        return self.server

    def _remembered(self) -> tuple[Offered, ...]:
        if self.entry.lifecycle != "lazy" or self._compared[0] is not None:
            return ()  # what it said in this session counts more
        known = self._consents.definitions(self.entry, self._surroundings.project)
        return tuple(
            Offered(
                server=self.entry.name,
                definition=to_definition(mcp.Tool.model_validate(raw), trusted=self._trusted),
                standing=Accepted(),
                digest=definition_digest(raw),
            )
            for raw in known
            if is_included(str(raw.get("name", "")), self.entry)
        )

    def _compare(self, definitions: tuple[Definition, ...]) -> tuple[Offered, ...]:
        stamp = self._consents.stamp()
        before, stamped, tools = self._compared
        if before is definitions and stamped == stamp:
            return tools
        raws = [each.raw for each in definitions]
        project = self._surroundings.project
        found: Mapping[str, Standing] = self._consents.tool_standing(self.entry, project, raws)
        tools = tuple(
            Offered(
                server=self.entry.name,
                definition=each,
                standing=found[str(each.raw["name"])],
                digest=definition_digest(each.raw),
            )
            for each in definitions
        )
        self._compared = (definitions, self._consents.stamp(), tools)
        return tools


def _refused(entry: ServerEntry, why: str) -> ToolResult:
    hint = f"go on without it; the person can look at it with `kakite host accept {entry.name}`"
    return failed(ToolError(why, hint=hint, code="quarantined"))
