"""The servers of a configuration as one toolset: which are let in, under which names, and how each stands."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kakite.errors import KakiteError
from kakite.host.config import Config, Problem, load
from kakite.host.consented import Member, Offered
from kakite.host.entries import ServerEntry
from kakite.host.naming import legal_names
from kakite.host.output import capped
from kakite.host.requests import Surroundings
from kakite.host.server import ServerError, stop_all
from kakite.host.trust import Accepted, Changed, Consents, describe
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.toolset import Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

LOOK_LIMIT = 20.0
"""Seconds for ``Host.look``, whatever the servers' own time-outs are. Stopping them may take 6 more."""
_STALE = 1.0
"""Seconds after which the configuration is looked at again for changes."""

State = Literal["ready", "failed", "needs_consent", "quarantined", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A server as it stands, for a person."""

    entry: ServerEntry
    state: State
    """``quarantined``: the entry, or a tool, is not what was accepted. Accepted tools work all the same."""
    code: str = ""
    """Of the failure."""
    reason: str = ""
    hint: str = ""
    diff: str = ""
    """From what was accepted to what is there now."""
    tools: tuple[Offered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What the person agreed to of one server."""

    entry: ServerEntry
    tools: tuple[str, ...] = ()
    """The server's own names for them."""
    failure: KakiteError | None = None
    """Why its tools could not be seen; the entry is accepted all the same."""


class Host:
    """A toolset over all servers that may be used. Calls are not asked for here: see ``open_host``.

    What is listed are the accepted tools, named for models. A lazy server is listed from what was accepted
    of it, started when it is called, and compared with that then.
    """

    def __init__(
        self, surroundings: Surroundings, consents: Consents, only: Collection[str] | None = None
    ) -> None:
        """Use the servers of the configuration; of these names ``only``, if that is given."""
        self._only = only
        self._surroundings = surroundings
        self._consents = consents
        self._config = Config()
        self._members: dict[str, Member] = {}
        self._stamp: object = None
        self._looked = 0.0
        self._generation = 0
        """Of the configuration: grows whenever servers are exchanged."""
        self._listed: tuple[object, Mapping[str, Offered]] = (None, {})
        self._tools: tuple[Tool, ...] = ()
        self._names: Mapping[str, tuple[str, str]] = {}
        self._reloading = asyncio.Lock()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the configuration."""
        return self._config.problems

    @property
    def entries(self) -> tuple[ServerEntry, ...]:
        """The servers of the configuration, as last read."""
        entries = self._config.entries
        return tuple(entry for entry in entries if self._only is None or entry.name in self._only)

    @property
    def configured(self) -> tuple[str, ...]:
        """The names of all servers of the configuration."""
        return tuple(entry.name for entry in self._config.entries)

    async def tools(self) -> tuple[Tool, ...]:
        """Return the accepted tools of all servers, under names that every provider takes."""
        await self.offered()
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool of a server. What goes wrong with the server is a result."""
        offered = await self.offered()
        if call.name not in offered:
            told = f"there is no tool `{call.name[:100]}`"
            return failed(ToolError(told, hint=nearest(call.name, offered), code="unknown_tool"))
        tool = offered[call.name]
        result = await self._members[tool.server].call(replace(call, name=tool.definition.tool.name))
        return capped(result, self._surroundings.state / "output")

    async def offered(self) -> Mapping[str, Offered]:
        """Return the accepted tools by the name that a model calls them by; servers that fail have none."""
        await self.reload()
        members = tuple(self._members.values())
        # Taken before the tools are: what changes while another server starts is listed again next time.
        stamp = self._generation, tuple(member.stamp for member in members)
        if self._listed[0] != stamp:
            found = await asyncio.gather(*(member.listed() for member in members))
            named = self._named([each for tools in found for each in tools])
            self._listed = (stamp, named)
            self._tools = tuple(replace(each.definition.tool, name=name) for name, each in named.items())
        return self._listed[1]

    def naming(self, name: str) -> tuple[str, str]:
        """Return the server and its own name of a tool, by the name that a model calls it by."""
        return self._names.get(name, ("", name))

    def digest(self, name: str) -> str:
        """Return the digest of a tool's definition, by the name that a model calls it by."""
        tool = self._listed[1].get(name)
        return "" if tool is None else tool.digest

    async def look(self) -> tuple[Seen, ...]:
        """Start every server that may be started, all at once, and return how each stands."""
        await self.reload()
        seen = await asyncio.gather(*(self._seen(member) for member in self._members.values()))
        named = self._named([tool for one in seen for tool in one.tools])
        names = {(each.server, each.definition.tool.name): name for name, each in named.items()}
        return tuple(
            replace(
                one,
                tools=tuple(
                    replace(tool, name=names[tool.server, tool.definition.tool.name]) for tool in one.tools
                ),
            )
            for one in seen
        )

    async def accept(self, names: Sequence[str]) -> tuple[Agreed, ...]:
        """Record that the person agrees to these servers, and to the tools that they have now.

        Raises:
            NotAPersonError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        await self.reload()
        members = [self._members[name] for name in names]
        for member in members:
            self._consents.accept_entry(member.entry, self._surroundings.project)
        return tuple(await asyncio.gather(*map(self._accept_tools, members)))

    async def _accept_tools(self, member: Member) -> Agreed:
        if member.entry.disabled:
            return Agreed(entry=member.entry)
        try:
            async with asyncio.timeout(LOOK_LIMIT):
                tools = await member.present()
        except KakiteError as error:
            return Agreed(entry=member.entry, failure=error)
        except TimeoutError:
            return Agreed(entry=member.entry, failure=_slow())
        raws = [tool.definition.raw for tool in tools]
        self._consents.accept_tools(member.entry, self._surroundings.project, raws)
        return Agreed(entry=member.entry, tools=tuple(str(raw["name"]) for raw in raws))

    async def reload(self) -> None:
        """Read the configuration again if it changed; servers whose entry did are stopped."""
        if time.monotonic() - self._looked < _STALE and self._stamp is not None:
            return
        async with self._reloading:
            stamp = tuple(map(_stamp, self._config.files))
            self._looked = time.monotonic()
            if self._stamp == stamp and stamp:
                return
            self._config = load(self._surroundings.project, self._surroundings.environ)
            self._stamp = tuple(map(_stamp, self._config.files))
            await self._exchange()

    async def member(self, name: str) -> Member | None:
        """Return the server of this name, None if the configuration has none."""
        await self.reload()
        return self._members.get(name)

    async def close(self) -> None:
        """Stop all servers."""
        await stop_all([member.server for member in self._members.values() if member.server])

    async def _exchange(self) -> None:
        old, self._members = self._members, {}
        self._generation += 1
        for entry in self.entries:
            known = old.pop(entry.name, None)
            if known is not None and known.entry == entry:
                self._members[entry.name] = known
                continue
            if known is not None:
                old[entry.name] = known
            self._members[entry.name] = Member(entry, self._surroundings, self._consents)
        await stop_all([member.server for member in old.values() if member.server])

    def _named(self, tools: Sequence[Offered]) -> Mapping[str, Offered]:
        by_pair = {(each.server, each.definition.tool.name): each for each in tools}
        self._names = legal_names(tuple(by_pair))
        return {name: replace(by_pair[pair], name=name) for name, pair in self._names.items()}

    async def _seen(self, member: Member) -> Seen:
        entry = member.entry
        if entry.disabled:
            return Seen(entry=entry, state="disabled", reason="its entry says so")
        try:
            standing = member.standing
            if not isinstance(standing, Accepted):
                return _unaccepted(entry, standing.diff if isinstance(standing, Changed) else "")
            async with asyncio.timeout(LOOK_LIMIT):
                tools = await member.present()
        except KakiteError as error:
            return _failed(entry, error)
        except TimeoutError:
            return _failed(entry, _slow())
        odd = [tool for tool in tools if not isinstance(tool.standing, Accepted)]
        if not odd:
            return Seen(entry=entry, state="ready", tools=tools)
        names = ", ".join(f"`{tool.definition.tool.name}`" for tool in odd)
        diffs = (tool.standing.diff for tool in odd if isinstance(tool.standing, Changed))
        return Seen(
            entry=entry,
            state="quarantined",
            reason=f"new or changed since they were accepted: {names}",
            hint=_accept(entry),
            diff="\n".join(diffs),
            tools=tools,
        )


def _failed(entry: ServerEntry, error: KakiteError) -> Seen:
    return Seen(entry=entry, state="failed", code=error.code, reason=error.message, hint=error.hint)


def _slow() -> ServerError:
    return ServerError(f"it was not ready within {LOOK_LIMIT:g} s", hint="see `kakite host logs`")


def _unaccepted(entry: ServerEntry, diff: str) -> Seen:
    reason = "it changed since it was accepted" if diff else describe(entry)
    state: State = "quarantined" if diff else "needs_consent"
    return Seen(entry=entry, state=state, reason=reason, hint=_accept(entry), diff=diff)


def _accept(entry: ServerEntry) -> str:
    return f"look at it, then `kakite host accept {entry.name}`"


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@asynccontextmanager
async def running(
    surroundings: Surroundings, consents: Consents, only: Collection[str] | None = None
) -> AsyncGenerator[Host]:
    """Yield a host; stop its servers at the end."""
    host = Host(surroundings, consents, only)
    try:
        yield host
    finally:
        await asyncio.shield(host.close())
