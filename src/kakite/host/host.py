"""The servers of a configuration as one toolset: which are let in, under which names, and how each stands."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from kakite.errors import KakiteError
from kakite.host.config import Config, Problem, load
from kakite.host.consented import Member, Offered
from kakite.host.entries import ServerEntry
from kakite.host.forms import definition_form, difference
from kakite.host.naming import legal_names, meant_server, prefix
from kakite.host.ours import is_ours
from kakite.host.output import capped, forget_old
from kakite.host.predicates import Place
from kakite.host.requests import Surroundings
from kakite.host.server import STOP_LIMIT, Server, ServerError, stop_all
from kakite.host.trust import Accepted, Changed, Consents, New, describe, entry_digest
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.toolset import Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

LOOK_LIMIT = 20.0
"""Seconds for ``Host.look`` to people who wait, whatever the servers' own time-outs are."""
GRACE = 10.0
"""Seconds for the calls in flight of a server that is replaced, or gone from the configuration."""
STALE = 1.0
"""Seconds after which the configuration is looked at again for changes."""

_T = TypeVar("_T")
_MANY = 500  # tools, from which on they are put together in a thread

_SAYS_SOMETHING = re.compile(r"\+(?:name|title|annotations\.|(?:\S+\.)?description:|\S+: .{60})")
"""Lines of a new definition that a person wants to see: its words, not the types of its arguments."""

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
    held: tuple[str, ...] = ()
    """Those that stay quarantined: they are not what the person was shown."""
    changes: str = ""
    """What is new or changed in the tools that were agreed to; lines safe for a terminal."""
    first: tuple[Offered, ...] = ()
    """The tools that were agreed to, if none of this server ever was before: all of them are new."""
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
        self._entries: tuple[ServerEntry, ...] = ()
        self._members: dict[str, Member] = {}
        self._stamp: object = None
        self._looked = 0.0
        self._generation = 0
        """Of the configuration: grows whenever servers are exchanged."""
        self._listed: tuple[object, Mapping[str, Offered]] = (None, {})
        self._output = surroundings.state / "output" / secrets.token_hex(6)
        self._starting: set[asyncio.Task[None]] = set()
        self._retiring: dict[asyncio.Task[None], Server] = {}
        self._tools: tuple[Tool, ...] = ()
        self._bound: Mapping[str, str] = {}
        self._reloading = asyncio.Lock()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the configuration."""
        return self._config.problems

    @property
    def entries(self) -> tuple[ServerEntry, ...]:
        """The servers of the configuration, as last read: the same value until it is read again."""
        return self._entries

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
        member = self._members.get(tool.server)
        if member is None:  # its entry went while another server was starting
            return failed(ToolError(f"the server `{tool.server}` is gone", code="unknown_tool"))
        result = await member.call(replace(call, name=tool.definition.tool.name))
        return capped(result, self._output)

    async def offered(self) -> Mapping[str, Offered]:
        """Return the accepted tools by the name that a model calls them by; servers that fail have none."""
        await self.reload()
        members = tuple(self._members.values())
        # Taken before the tools are: what changes while another server starts is listed again next time.
        stamp = self._generation, tuple(member.stamp for member in members)
        if self._listed[0] != stamp:
            found = await asyncio.gather(*(member.listed() for member in members))
            entries = {member.entry.name: entry_digest(member.entry) for member in members}
            tools = [each for tools in found for each in tools]
            listed = await _meanwhile(len(tools), partial(_listing, tools, entries))
            self._listed = (stamp, listed.named)
            self._bound, self._tools = listed.bound, listed.tools
        return self._listed[1]

    @property
    def failures(self) -> Mapping[str, KakiteError]:
        """Why servers have no tools now, by name: as told when they were last tried."""
        members = (member for member in self._members.values() if not member.entry.disabled)
        return {member.entry.name: error for member in members if (error := member.absence)}

    def missing(self, name: str) -> ToolResult | None:
        """Return why a model's tool of that name is not there, if that is since its server has none now."""
        for server, error in self.failures.items():
            if name.startswith(prefix(server)):
                hint = f"go on without `{server}` for now. For the person: {error.hint}"
                return failed(ToolError(error.message, hint=hint, code=error.code))
        return None

    async def start(self, name: str) -> None:
        """Start a server now, also one that failed, rests or was stopped: for a person who has mended it.

        Raises:
            KakiteError: it cannot be started, or may not; or there is none of this name.
        """
        await self.reload()
        await self._known(name).start()

    def naming(self, name: str) -> tuple[str, str]:
        """Return the server and its own name of a tool, by the name that a model calls it by."""
        tool = self._listed[1].get(name)
        return ("", name) if tool is None else (tool.server, tool.definition.tool.name)

    def digest(self, name: str) -> str:
        """Return what a person's answer for a tool is bound to: its definition, and its server's entry."""
        tool = self._listed[1].get(name)
        return "" if tool is None else self._bound[name]

    def place(self, server: str) -> Place:
        """Return where the paths of a server's calls lead, before any of them moved it."""
        member = self._members.get(server)
        return Place(project=str(self._surroundings.project)) if member is None else member.place

    async def look(self, within: float | None = None) -> tuple[Seen, ...]:
        """Start every server that may be started, all at once, and return how each stands."""
        await self.reload()
        seen = await asyncio.gather(*(self._seen(member, within) for member in self._members.values()))
        tools = [tool for one in seen for tool in one.tools]
        named = await _meanwhile(len(tools), partial(_named, tools))
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

    async def accept(
        self,
        names: Sequence[str],
        shown: Mapping[str, Collection[str]] | None = None,
        *,
        entries: Sequence[ServerEntry] | None = None,
    ) -> tuple[Agreed, ...]:
        """Record that the person agrees to these servers, and to the tools that they have now.

        The entries are those last read, which the person was shown: what files say by now does not count.

        Args:
            names: of servers.
            shown: by server the digests of the tools that the person was shown; others are not agreed to. Of
                a server without them its tools are, if none was ever accepted. None: all tools are.
            entries: that the person was shown. None: those last read.

        Raises:
            ServerError: a server is not the one that was shown, or gone by now; nothing is recorded then.
            NotAPersonError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        members = [self._known(name) for name in names]
        if entries is not None:
            seen = {entry.name: _shape(entry) for entry in entries}
            for member in members:
                if seen.get(member.entry.name) != _shape(member.entry):
                    raise _other(member.entry.name)
        for member in members:
            self._consents.accept_entry(member.entry, self._surroundings.project)
        return tuple(await asyncio.gather(*(self._accept_tools(member, shown) for member in members)))

    async def _accept_tools(self, member: Member, shown: Mapping[str, Collection[str]] | None) -> Agreed:
        if member.entry.disabled:
            return Agreed(entry=member.entry)
        try:
            tools = await member.present()
        except KakiteError as error:
            return Agreed(entry=member.entry, failure=error)
        taken = _agreed_to(tools, shown, member.entry.name)
        raws = [tool.definition.raw for tool in taken]
        changes = "\n".join(filter(None, map(_novelty, taken)))
        self._consents.accept_tools(member.entry, self._surroundings.project, raws)
        return Agreed(
            entry=member.entry,
            tools=tuple(str(raw["name"]) for raw in raws),
            held=tuple(tool.definition.tool.name for tool in tools if tool not in taken),
            changes=changes,
            first=tuple(taken) if all(isinstance(tool.standing, New) for tool in tools) else (),
        )

    async def reload(self) -> None:
        """Read the configuration again if it changed. Servers that are not the same then are replaced."""
        if time.monotonic() - self._looked < STALE and self._stamp is not None:
            return
        async with self._reloading:
            # Taken before the files are read: what changes meanwhile is read again next time.
            stamps = {file: _stamp(file) for file in self._config.files}
            self._looked = time.monotonic()
            if self._stamp == stamps and stamps:
                return
            read = load(self._surroundings.project, self._surroundings.environ)
            self._config = _without_gaps(read, self._config)
            self._stamp = {file: stamps.get(file) for file in self._config.files}
            only = self._only
            before = [(each, each.origin.scope) for each in self._entries]
            self._entries = tuple(each for each in self._config.entries if only is None or each.name in only)
            self._generation += before != [(each, each.origin.scope) for each in self._entries]
            self._exchange()

    async def member(self, name: str) -> Member | None:
        """Return the server of this name, None if the configuration has none."""
        await self.reload()
        return self._members.get(name)

    def _known(self, name: str) -> Member:
        if name in self._members:
            return self._members[name]
        told = f"no server `{name}` is configured"
        raise ServerError(told, hint=meant_server(name, self._members), code="unknown_server")

    def difference(self, name: str) -> str:
        """Return what changed in a server's entry since it was accepted; empty if nothing, or it never was.

        It is the entry last read, as in ``entries``: the files are not looked at.

        Raises:
            ConsentError: what was accepted cannot be read.
        """
        member = self._members.get(name)
        standing = None if member is None else member.standing
        return standing.diff if isinstance(standing, Changed) else ""

    async def close(self, within: float = STOP_LIMIT) -> None:
        """Stop all servers; those that take longer than those seconds are killed."""
        retiring = dict(self._retiring)
        for task in (*self._starting, *retiring):
            task.cancel()
        servers = (member.server for member in self._members.values() if member.server)
        await stop_all([*servers, *retiring.values()], within=within)

    def _exchange(self) -> None:
        old, self._members = self._members, {}
        for entry in self.entries:
            known = old.get(entry.name)
            was_lazy = known is None or known.entry.lifecycle == "lazy"
            if known is not None and known.adopts(entry):
                del old[entry.name]
            else:
                known, was_lazy = Member(entry, self._surroundings, self._consents), True
            self._members[entry.name] = known
            if was_lazy and entry.lifecycle != "lazy":
                self._begin(known)
        for member in old.values():
            self._retire(member)

    def _begin(self, member: Member) -> None:
        starting = asyncio.create_task(self._start(member), name=f"start {member.entry.name}")
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self, member: Member) -> None:
        with suppress(KakiteError):  # told to whoever asks for its tools
            await member.start()

    def _retire(self, member: Member) -> None:
        member.retired = True
        if member.server:
            retiring = asyncio.create_task(member.server.retire(GRACE), name=f"retire {member.entry.name}")
            self._retiring[retiring] = member.server
            retiring.add_done_callback(self._retiring.pop)

    def described(self, entry: ServerEntry) -> str:
        """Return what a person agrees to with an entry; lines safe for a terminal."""
        told = describe(entry)
        if is_ours(entry, self._surroundings.environ):
            told += (
                "\n  this is Kakite's own server: believed in what it says of its tools, looking goes unasked"
            )
        return told

    def _unaccepted(self, entry: ServerEntry, diff: str) -> Seen:
        reason = "it changed since it was accepted" if diff else self.described(entry)
        state: State = "quarantined" if diff else "needs_consent"
        return Seen(entry=entry, state=state, reason=reason, hint=_accept(entry), diff=diff)

    async def _seen(self, member: Member, within: float | None) -> Seen:
        entry = member.entry
        if entry.disabled:
            return Seen(entry=entry, state="disabled", reason="its entry says so")
        try:
            standing = member.standing
            if not isinstance(standing, Accepted):
                return self._unaccepted(entry, standing.diff if isinstance(standing, Changed) else "")
            async with asyncio.timeout(within):
                tools = await member.present()
        except KakiteError as error:
            return _failed(entry, error)
        except TimeoutError:
            return _failed(entry, _slow(within or 0))
        odd = [tool for tool in tools if not isinstance(tool.standing, Accepted)]
        if not odd:
            return Seen(entry=entry, state="ready", tools=tools)
        names = ", ".join(f"`{tool.definition.tool.name}`" for tool in odd)
        diffs = map(_novelty, odd)
        return Seen(
            entry=entry,
            state="quarantined",
            reason=f"new or changed since they were accepted: {names}",
            hint=_accept(entry),
            diff="\n".join(diffs),
            tools=tools,
        )


def _named(tools: Sequence[Offered]) -> Mapping[str, Offered]:
    by_pair = {(each.server, each.definition.tool.name): each for each in tools}
    names = legal_names(tuple(by_pair))
    return {name: replace(by_pair[pair], name=name) for name, pair in names.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The tools of all servers by the names that a model calls them by."""

    named: Mapping[str, Offered]
    bound: Mapping[str, str]
    """What a person's answer for each is bound to."""
    tools: tuple[Tool, ...]


def _listing(tools: Sequence[Offered], entries: Mapping[str, str]) -> _Listing:
    named = _named(tools)
    return _Listing(
        named=named,
        bound={name: _both(entries[each.server], each.digest) for name, each in named.items()},
        tools=tuple(replace(each.definition.tool, name=name) for name, each in named.items()),
    )


async def _meanwhile(size: int, making: Callable[[], _T]) -> _T:
    """Return what is made of so many tools; of many in a thread, so that other work goes on."""
    return await asyncio.to_thread(making) if size > _MANY else making()


def _both(entry: str, definition: str) -> str:
    return hashlib.sha256(f"{entry} {definition}".encode()).hexdigest()


def _agreed_to(
    tools: Sequence[Offered], shown: Mapping[str, Collection[str]] | None, server: str
) -> Sequence[Offered]:
    if shown is None:
        return tools
    if server in shown:
        return [tool for tool in tools if tool.digest in shown[server]]
    return tools if all(isinstance(tool.standing, New) for tool in tools) else []


def _novelty(tool: Offered) -> str:
    """Return what the person did not agree to before: what changed, or all that a new tool says."""
    match tool.standing:
        case Accepted():
            return ""
        case Changed(diff):
            return diff
        case New():
            lines = difference({}, definition_form(tool.definition.raw)).splitlines()
            return "\n".join(line for line in lines if _SAYS_SOMETHING.match(line))


def _failed(entry: ServerEntry, error: KakiteError) -> Seen:
    return Seen(entry=entry, state="failed", code=error.code, reason=error.message, hint=error.hint)


def _slow(within: float) -> ServerError:
    return ServerError(f"it was not ready within {within:.0f} s", hint="see `kakite host logs`")


def _shape(entry: ServerEntry) -> tuple[str, str]:
    return entry.origin.scope, entry_digest(entry)


def _other(name: str) -> ServerError:
    return ServerError(
        f"the entry of `{name}` changed while you looked at it; nothing was accepted",
        hint=f"look at it as it is now, then `kakite host accept {name}`",
        code="entry_changed",
    )


def _accept(entry: ServerEntry) -> str:
    return f"look at it, then `kakite host accept {entry.name}`"


def _without_gaps(read: Config, before: Config) -> Config:
    """Return what was read, with the former entries of files that cannot be read, perhaps half written."""
    there = {entry.name for entry in read.entries}
    kept = (entry for entry in before.entries if entry.origin.file in read.unreadable)
    return replace(read, entries=(*read.entries, *(entry for entry in kept if entry.name not in there)))


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
    forget_old(surroundings.state / "output")
    host = Host(surroundings, consents, only)
    try:
        yield host
    finally:
        await asyncio.shield(host.close())
