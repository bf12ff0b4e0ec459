"""One server of a configuration, between what the person accepted of it and what it says now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mcp_types as mcp

from kakite.errors import KakiteError
from kakite.host.definitions import Definition, is_included, to_definition
from kakite.host.entries import ServerEntry
from kakite.host.expansion import expand
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


class Member:
    """A server that is started only if the person accepted it, and whose tools are compared with what was accepted."""

    def __init__(self, entry: ServerEntry, surroundings: Surroundings, consents: Consents) -> None:
        self.entry = entry
        """As written: nothing is expanded."""
        self.server: Server | None = None
        self.failure: KakiteError | None = None
        """Why its tools could not be listed last time."""
        self._surroundings = surroundings
        self._consents = consents
        self._compared: tuple[object, tuple[Offered, ...]] = (None, ())

    @property
    def standing(self) -> Standing:
        """Whether it may be started."""
        return self._consents.entry_standing(self.entry, self._surroundings.project)

    @property
    def stamp(self) -> object:
        """Changes whenever what is listed may have changed."""
        return (self._consents.stamp(), self.server and self.server.changed)

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
        server = self._started()
        definitions = await server.definitions()
        key = (server.changed, self._consents.stamp(), id(definitions))
        if self._compared[0] != key:
            self._compared = (key, self._compare(definitions))
        self.failure = None
        return self._compared[1]

    async def call(self, call: ToolCall) -> ToolResult:
        """Call one of its tools, by its own name for it, if that is still what was accepted."""
        try:
            tools = await self.present()
        except KakiteError as error:
            return failed(ToolError(error.message, hint=error.hint, code=error.code))
        tool = next((each for each in tools if each.definition.tool.name == call.name), None)
        if tool is None:
            return _refused(self.entry, call, "is not there any more", "unknown_tool")
        if not isinstance(tool.standing, Accepted):
            return _refused(self.entry, call, "is not what was accepted", "quarantined")
        return await self._started().call(call)

    def _started(self) -> Server:
        if self.server is None:
            project = self._surroundings.project
            entry = expand(self.entry, self._surroundings.environ, project=project)
            self.server = Server(entry, self._surroundings)
        return self.server

    def _remembered(self) -> tuple[Offered, ...]:
        if self.entry.lifecycle != "lazy" or (self.server is not None and self.server.status.kind == "ready"):
            return ()
        known = self._consents.definitions(self.entry, self._surroundings.project)
        return tuple(
            Offered(
                server=self.entry.name,
                definition=to_definition(mcp.Tool.model_validate(raw), trusted=self.entry.trusted),
                standing=Accepted(),
                digest=definition_digest(raw),
            )
            for raw in known
            if is_included(str(raw["name"]), self.entry)
        )

    def _compare(self, definitions: Sequence[Definition]) -> tuple[Offered, ...]:
        raws = [each.raw for each in definitions]
        found: Mapping[str, Standing] = self._consents.tool_standing(
            self.entry, self._surroundings.project, raws
        )
        return tuple(
            Offered(
                server=self.entry.name,
                definition=each,
                standing=found[str(each.raw["name"])],
                digest=definition_digest(each.raw),
            )
            for each in definitions
        )


def _refused(entry: ServerEntry, call: ToolCall, why: str, code: str) -> ToolResult:
    hint = f"go on without it; the person can look at it with `kakite host accept {entry.name}`"
    return failed(ToolError(f"the tool `{call.name}` of `{entry.name}` {why}", hint=hint, code=code))
