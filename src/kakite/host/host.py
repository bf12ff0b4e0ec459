"""Offers the servers of a configuration as one toolset, each with its consent, its names and its status."""

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
from kakite.host.config.load import Config, ConfigProblem, load_config
from kakite.host.config.model import ServerEntry
from kakite.host.consent.canonical import (
    canonicalize_definition,
    compute_server_digest,
    format_difference,
)
from kakite.host.consent.gate import GatedServer, GatedTool, is_builtin
from kakite.host.consent.store import (
    ConsentGranted,
    ConsentMissing,
    ConsentOutdated,
    ConsentStore,
    compute_entry_digest,
    describe,
    require_user,
)
from kakite.host.policy.matchers import PathContext
from kakite.host.result_limits import remove_old_results, truncate_result
from kakite.host.server.client_features import HostContext
from kakite.host.server.server import STOP_LIMIT, Server, ServerError, stop_all
from kakite.host.tool_names import assign_tool_names, get_server_prefix, suggest_server
from kakite.terminal_text import escape_one_line
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.toolset import Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

INSPECT_TIMEOUT = 20.0
"""Seconds for ``Host.inspect_servers`` when people wait, whatever the servers' own time-outs are."""
RETIRE_TIMEOUT = 10.0
"""Seconds for the calls in flight of a server that is replaced, or gone from the configuration."""
RELOAD_INTERVAL = 1.0
"""Seconds after which the configuration is looked at again for changes."""

_T = TypeVar("_T")
_THREAD_THRESHOLD = 500  # tools, from which on they are put together in a thread

_BOILERPLATE_LINE = re.compile(
    r"(?P<object>\+(?:input|output)Schema\.(?:\S+\.)?)"
    r'(?:\$schema: "https?://json-schema\.org/draft(?:/2019-09|/2020-12|-0[4-7])/schema#?"'
    r'|additionalProperties: (?:true|false)|(?<=Schema\.)type: "object"'
    r'|required\[\d+\]: "(?P<required>[\w.-]+)")'
)
"""Lines of a new definition that tell a person nothing, if other lines have the names in them."""

ServerState = Literal["ready", "failed", "needs_consent", "quarantined", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """A server as it stands, for a person."""

    entry: ServerEntry
    state: ServerState
    """``quarantined``: the entry, or a tool, is not what was accepted. Accepted tools work all the same."""
    code: str = ""
    """Of the failure."""
    reason: str = ""
    hint: str = ""
    diff: str = ""
    """From what was accepted to what is there now."""
    tools: tuple[GatedTool, ...] = ()
    digest: str = ""
    """Of all that is shown here: what ``Host.accept`` takes for the person's word. Empty if it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentResult:
    """The consent that the person gave for one server."""

    entry: ServerEntry
    recorded: bool = True
    """Whether anything was: not if its tools are others by now than those that were shown."""
    tools: tuple[str, ...] = ()
    """The server's own names of those that are accepted now."""
    held: tuple[str, ...] = ()
    """Those that stay quarantined: the person did not agree to them yet."""
    look: ServerInfo | None = None
    """How the server stands if something waits: to be shown, then accepted by its digest."""
    failure: KakiteError | None = None
    """Why its tools could not be seen, or were not accepted. An entry that was agreed to is accepted."""


class Host:
    """A toolset over all servers that may be used. Calls are not asked for here: see ``open_host``.

    What is listed are the accepted tools, named for models. A lazy server is listed from what was accepted
    of it, started when it is called, and compared with that then.
    """

    def __init__(
        self,
        surroundings: HostContext,
        consents: ConsentStore,
        only: Collection[str] | None = None,
        given: Sequence[ServerEntry] = (),
    ) -> None:
        """Use the servers of the configuration, of these names ``only`` if that is given, and those given.

        Of a name that both have, the one that is given counts.
        """
        self._only = only
        self._given = tuple(given)
        self._surroundings = surroundings
        self._consents = consents
        self._config = Config()
        self._entries: tuple[ServerEntry, ...] = ()
        self._members: dict[str, GatedServer] = {}
        self._stamp: object = None
        self._looked = 0.0
        self._generation = 0
        """Of the configuration: grows whenever servers are exchanged."""
        self._listed: tuple[object, Mapping[str, GatedTool]] = (None, {})
        self._output = surroundings.state / "output" / secrets.token_hex(6)
        self._starting: set[asyncio.Task[None]] = set()
        self._retiring: dict[asyncio.Task[None], Server] = {}
        self._tools: tuple[Tool, ...] = ()
        self._bound: Mapping[str, str] = {}
        self._prompts: Mapping[str, GatedTool] = {}
        self._reloading = asyncio.Lock()

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """The problems of the configuration."""
        return self._config.problems

    @property
    def entries(self) -> tuple[ServerEntry, ...]:
        """The servers of the configuration, as last read: the same value until it is read again."""
        return self._entries

    @property
    def configured(self) -> tuple[str, ...]:
        """The names of all servers of the configuration."""
        return tuple(entry.name for entry in self._config.entries)

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the accepted tools of all servers, under names that every provider takes."""
        await self.list_accepted_tools()
        return self._tools

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool of a server. What goes wrong with the server is a result."""
        offered = await self.list_accepted_tools()
        if call.name not in offered:
            told = f"there is no tool `{call.name[:100]}`"
            return to_error_result(
                ToolError(told, hint=suggest_name(call.name, offered), code="unknown_tool")
            )
        tool = offered[call.name]
        member = self._members.get(tool.server)
        if member is None:  # its entry went while another server was starting
            return to_error_result(ToolError(f"the server `{tool.server}` is gone", code="unknown_tool"))
        result = await member.call(replace(call, name=tool.definition.tool.name))
        return truncate_result(result, self._output)

    async def list_accepted_prompts(self) -> Mapping[str, GatedTool]:
        """Return the accepted prompts in the same way: the same value until they change."""
        await self.list_accepted_tools()
        return self._prompts

    async def list_accepted_tools(self) -> Mapping[str, GatedTool]:
        """Return the accepted tools by the name that a model calls them by; servers that fail have none."""
        await self.reload()
        members = tuple(self._members.values())
        # Taken before the tools are: what changes while another server starts is listed again next time.
        stamp = self._generation, tuple(member.stamp for member in members)
        if self._listed[0] != stamp:
            found = await asyncio.gather(*(member.list_accepted_tools() for member in members))
            entries = {member.entry.name: compute_entry_digest(member.entry) for member in members}
            tools = [each for tools in found for each in tools]
            listed = await _run_in_thread_if_large(len(tools), partial(_build_listing, tools, entries))
            self._listed = (stamp, listed.named)
            self._bound, self._tools, self._prompts = listed.bound, listed.tools, listed.prompts
        return self._listed[1]

    @property
    def failures(self) -> Mapping[str, KakiteError]:
        """The reasons why servers have no tools now, by name, from the last attempt."""
        members = (member for member in self._members.values() if not member.entry.disabled)
        return {member.entry.name: error for member in members if (error := member.unavailability)}

    def explain_missing_tool(self, name: str) -> ToolResult | None:
        """Return why a model's tool of that name is not there, if that is since its server has none now."""
        for server, error in self.failures.items():
            if name.startswith(get_server_prefix(server)):
                hint = f"go on without `{server}` for now. For the person: {error.hint}"
                return to_error_result(ToolError(error.message, hint=hint, code=error.code))
        return None

    async def start(self, name: str) -> None:
        """Start a server now, also one that failed, rests or was stopped: for a person who has mended it.

        Raises:
            KakiteError: it cannot be started, or may not; or there is none of this name.
        """
        await self.reload()
        await self._require_server(name).start()

    def resolve_tool_name(self, name: str) -> tuple[str, str]:
        """Return the server and its own name of a tool, by the name that a model calls it by."""
        tool = self._listed[1].get(name)
        return ("", name) if tool is None else (tool.server, tool.definition.tool.name)

    def get_tool_digest(self, name: str) -> str:
        """Return what a person's answer for a tool is bound to: its definition, and its server's entry."""
        tool = self._listed[1].get(name)
        return "" if tool is None else self._bound[name]

    def get_path_context(self, server: str) -> PathContext:
        """Return where the paths of a server's calls lead, before any of them moved it."""
        member = self._members.get(server)
        return PathContext(project=str(self._surroundings.project)) if member is None else member.path_context

    async def inspect_servers(
        self, within: float | None = None, *, names: Collection[str] | None = None
    ) -> tuple[ServerInfo, ...]:
        """Start every server that may be started, or those of these names, and return how each stands."""
        await self.reload()
        members = [one for name, one in self._members.items() if names is None or name in names]
        seen = await asyncio.gather(*(self._inspect_server(member, within) for member in members))
        tools = [tool for one in seen for tool in one.tools]
        named = await _run_in_thread_if_large(len(tools), partial(_name_tools, tools))
        prompts = _name_prompts(tools)
        named_by = {
            (each.server, each.definition.tool.name): name
            for name, each in (*named.items(), *prompts.items())
        }
        return tuple(
            replace(
                one,
                tools=tuple(
                    replace(tool, name=named_by[tool.server, tool.definition.tool.name]) for tool in one.tools
                ),
            )
            for one in seen
        )

    async def accept(self, shown: Mapping[str, str]) -> tuple[ConsentResult, ...]:
        """Record that the person agrees to what they saw of these servers, and to nothing else.

        Of a server that waits that is its entry: it is started then, and its tools wait to be looked at. Of
        one that was started that is all its tools. If they are others by now, nothing of it is recorded.

        Args:
            shown: by server the ``digest`` of the ``ServerInfo`` that the person saw.

        Raises:
            ServerError: an entry is not the one that was shown, or gone by now; nothing is recorded then.
            UserRequiredError: no person can be asking for this.
            ConsentError: it cannot be recorded.
        """
        require_user()
        members = {name: self._require_server(name) for name in shown}
        for name, member in members.items():
            as_shown = shown[name] == compute_server_digest(member.entry)
            if not as_shown and not isinstance(member.consent_state, ConsentGranted):
                raise _make_entry_changed_error(name)
        return tuple(
            await asyncio.gather(*(self._accept(member, shown[name]) for name, member in members.items()))
        )

    async def _accept(self, member: GatedServer, digest: str) -> ConsentResult:
        entry = member.entry
        of_entry = digest == compute_server_digest(entry)
        if of_entry:
            self._consents.accept_entry(entry, self._surroundings.project)
        if entry.disabled:
            return ConsentResult(entry=entry, recorded=of_entry)
        try:
            tools = await member.list_tools()
        except KakiteError as error:
            return ConsentResult(entry=entry, recorded=of_entry, failure=error)
        if of_entry:
            return _build_consent_result(entry, tools)
        if digest != _compute_shown_digest(entry, tools):
            failure = _make_tools_changed_error(entry.name)
            return replace(_build_consent_result(entry, tools), recorded=False, failure=failure)
        raws = [tool.definition.raw for tool in tools]
        self._consents.accept_tools(entry, self._surroundings.project, raws)
        return ConsentResult(entry=entry, tools=tuple(str(raw["name"]) for raw in raws))

    async def reload(self) -> None:
        """Read the configuration again if it changed. Servers that are not the same then are replaced."""
        if time.monotonic() - self._looked < RELOAD_INTERVAL and self._stamp is not None:
            return
        async with self._reloading:
            # Taken before the files are read: what changes meanwhile is read again next time.
            stamps = {file: _read_stamp(file) for file in self._config.files}
            self._looked = time.monotonic()
            if self._stamp == stamps and stamps:
                return
            read = load_config(self._surroundings.project, self._surroundings.environ)
            self._config = _keep_unreadable_entries(read, self._config)
            self._stamp = {file: stamps.get(file) for file in self._config.files}
            only = self._only
            before = [(each, each.origin.scope) for each in self._entries]
            names = {each.name for each in self._given}
            read_ones = (each for each in self._config.entries if only is None or each.name in only)
            self._entries = (*(each for each in read_ones if each.name not in names), *self._given)
            self._generation += before != [(each, each.origin.scope) for each in self._entries]
            self._replace_servers()

    async def get_server(self, name: str) -> GatedServer | None:
        """Return the server of this name, None if the configuration has none."""
        await self.reload()
        return self._members.get(name)

    def _require_server(self, name: str) -> GatedServer:
        if name in self._members:
            return self._members[name]
        told = f"no server `{name}` is configured"
        raise ServerError(told, hint=suggest_server(name, self._members), code="unknown_server")

    async def close(self, within: float = STOP_LIMIT) -> None:
        """Stop all servers; those that take longer than those seconds are killed."""
        retiring = dict(self._retiring)
        for task in (*self._starting, *retiring):
            task.cancel()
        servers = (member.server for member in self._members.values() if member.server)
        await stop_all([*servers, *retiring.values()], within=within)

    def _replace_servers(self) -> None:
        old, self._members = self._members, {}
        for entry in self.entries:
            known = old.get(entry.name)
            was_lazy = known is None or known.entry.lifecycle == "lazy"
            if known is not None and known.try_update_entry(entry):
                del old[entry.name]
            else:
                known, was_lazy = GatedServer(entry, self._surroundings, self._consents), True
            self._members[entry.name] = known
            if was_lazy and entry.lifecycle != "lazy":
                self._start_in_background(known)
        for member in old.values():
            self._retire(member)

    def _start_in_background(self, member: GatedServer) -> None:
        starting = asyncio.create_task(self._start(member), name=f"start {member.entry.name}")
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self, member: GatedServer) -> None:
        with suppress(KakiteError):  # told to whoever asks for its tools
            await member.start()

    def _retire(self, member: GatedServer) -> None:
        member.retired = True
        if member.server:
            retiring = asyncio.create_task(
                member.server.retire(RETIRE_TIMEOUT), name=f"retire {member.entry.name}"
            )
            self._retiring[retiring] = member.server
            retiring.add_done_callback(self._retiring.pop)

    def describe_entry(self, entry: ServerEntry) -> str:
        """Return what a person agrees to with an entry; lines safe for a terminal."""
        told = describe(entry)
        if is_builtin(entry, self._surroundings.environ):
            told += (
                "\n  this is Kakite's own server: believed in what it says of its tools, looking goes unasked"
            )
        return told

    def _build_unaccepted_info(self, entry: ServerEntry, diff: str) -> ServerInfo:
        reason = "it changed since it was accepted" if diff else self.describe_entry(entry)
        state: ServerState = "quarantined" if diff else "needs_consent"
        return ServerInfo(
            entry=entry,
            state=state,
            reason=reason,
            hint=_format_accept_hint(entry),
            diff=diff,
            digest=compute_server_digest(entry),
        )

    async def _inspect_server(self, member: GatedServer, within: float | None) -> ServerInfo:
        entry = member.entry
        if entry.disabled:
            return ServerInfo(
                entry=entry, state="disabled", reason="its entry says so", digest=compute_server_digest(entry)
            )
        try:
            standing = member.consent_state
            if not isinstance(standing, ConsentGranted):
                return self._build_unaccepted_info(
                    entry, standing.diff if isinstance(standing, ConsentOutdated) else ""
                )
            async with asyncio.timeout(within):
                tools = await member.list_tools()
        except KakiteError as error:
            return _build_failed_info(entry, error)
        except TimeoutError:
            return _build_failed_info(entry, _make_timeout_error(within or 0))
        return _build_started_info(entry, tools)


def _name_tools(tools: Sequence[GatedTool]) -> Mapping[str, GatedTool]:
    by_pair = {(each.server, each.definition.tool.name): each for each in tools if not each.definition.prompt}
    names = assign_tool_names(tuple(by_pair))
    return {name: replace(by_pair[pair], name=name) for name, pair in names.items()}


def _name_prompts(tools: Sequence[GatedTool]) -> Mapping[str, GatedTool]:
    by_pair = {(each.server, each.definition.prompt): each for each in tools if each.definition.prompt}
    names = assign_tool_names(tuple(by_pair))
    return {name: replace(by_pair[pair], name=name) for name, pair in names.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolListing:
    """The tools of all servers by the names that a model calls them by."""

    named: Mapping[str, GatedTool]
    bound: Mapping[str, str]
    """What a person's answer for each is bound to."""
    tools: tuple[Tool, ...]
    prompts: Mapping[str, GatedTool]


def _build_listing(tools: Sequence[GatedTool], entries: Mapping[str, str]) -> _ToolListing:
    named = _name_tools(tools)
    return _ToolListing(
        named=named,
        bound={name: _combine_digests(entries[each.server], each.digest) for name, each in named.items()},
        tools=tuple(replace(each.definition.tool, name=name) for name, each in named.items()),
        prompts=_name_prompts(tools),
    )


async def _run_in_thread_if_large(size: int, making: Callable[[], _T]) -> _T:
    """Return what is made of so many tools; of many in a thread, so that other work goes on."""
    return await asyncio.to_thread(making) if size > _THREAD_THRESHOLD else making()


def _combine_digests(entry: str, definition: str) -> str:
    return hashlib.sha256(f"{entry} {definition}".encode()).hexdigest()


def list_waiting_tools(one: ServerInfo) -> Sequence[GatedTool]:
    """Return those tools of a server that the person did not agree to as they are."""
    return [tool for tool in one.tools if not isinstance(tool.standing, ConsentGranted)]


def describe_changes(tool: GatedTool) -> str:
    """Return what the person did not agree to before: what changed, or all that a new tool says."""
    match tool.standing:
        case ConsentGranted():
            return ""
        case ConsentOutdated(diff):
            return diff
        case ConsentMissing():
            lines = format_difference({}, canonicalize_definition(tool.definition.raw)).splitlines()
            return "\n".join(_list_telling_lines([line for line in lines[2:] if line.startswith("+")]))


def _list_telling_lines(added: list[str]) -> list[str]:
    """Return the lines without those that tell nothing new: every word of the definition stays in one."""
    found = {line: _BOILERPLATE_LINE.fullmatch(line) for line in added}
    told = "\n".join(["", *(line for line, boilerplate in found.items() if boilerplate is None)])

    def is_told(line: str) -> bool:
        boilerplate = found[line]
        if boilerplate is None:
            return True
        place, required = boilerplate["object"], boilerplate["required"]
        if required is not None:
            return not re.search(rf"\n{re.escape(f'{place}properties.{required}')}[.:\[]", told)
        return place.count(".") > 1 and f"\n{place}" not in told

    return [line for line in added if is_told(line)]


def _compute_shown_digest(entry: ServerEntry, tools: Sequence[GatedTool]) -> str:
    return compute_server_digest(entry, [tool.digest for tool in tools])


def _build_started_info(entry: ServerEntry, tools: tuple[GatedTool, ...]) -> ServerInfo:
    one = ServerInfo(entry=entry, state="ready", tools=tools, digest=_compute_shown_digest(entry, tools))
    odd = list_waiting_tools(one)
    if not odd:
        return one
    names = ", ".join(f"`{escape_one_line(tool.definition.tool.name)}`" for tool in odd)
    at_first = all(isinstance(tool.standing, ConsentMissing) for tool in tools)
    told = "you did not agree to its tools yet" if at_first else "new or changed since they were accepted"
    return replace(
        one,
        state="quarantined",
        reason=f"{told}: {names}",
        hint=_format_accept_hint(entry),
        diff="\n".join(map(describe_changes, odd)),
    )


def _build_consent_result(entry: ServerEntry, tools: tuple[GatedTool, ...]) -> ConsentResult:
    look = _build_started_info(entry, tools)
    held = tuple(tool.definition.tool.name for tool in list_waiting_tools(look))
    return ConsentResult(
        entry=entry,
        tools=tuple(name for tool in tools if (name := tool.definition.tool.name) not in held),
        held=held,
        look=look if held else None,
    )


def _build_failed_info(entry: ServerEntry, error: KakiteError) -> ServerInfo:
    return ServerInfo(entry=entry, state="failed", code=error.code, reason=error.message, hint=error.hint)


def _make_timeout_error(within: float) -> ServerError:
    return ServerError(f"it was not ready within {within:.0f} s", hint="see `kakite host logs`")


def _make_entry_changed_error(name: str) -> ServerError:
    return ServerError(
        f"the entry of `{name}` changed while you looked at it; nothing was accepted",
        hint=f"look at it as it is now, then `kakite host accept {name}`",
        code="entry_changed",
    )


def _make_tools_changed_error(name: str) -> ServerError:
    return ServerError(
        f"the tools of `{name}` are not those that you were shown; none was accepted",
        hint=f"look at them as they are now, then `kakite host accept {name}`",
        code="tools_changed",
    )


def _format_accept_hint(entry: ServerEntry) -> str:
    return f"look at it, then `kakite host accept {entry.name}`"


def _keep_unreadable_entries(read: Config, before: Config) -> Config:
    """Return what was read, with the former entries of files that cannot be read, perhaps half written."""
    there = {entry.name for entry in read.entries}
    kept = (entry for entry in before.entries if entry.origin.file in read.unreadable)
    return replace(read, entries=(*read.entries, *(entry for entry in kept if entry.name not in there)))


def _read_stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@asynccontextmanager
async def run_host(
    surroundings: HostContext,
    consents: ConsentStore,
    only: Collection[str] | None = None,
    given: Sequence[ServerEntry] = (),
) -> AsyncGenerator[Host]:
    """Yield a host, as ``Host`` says; stop its servers at the end."""
    remove_old_results(surroundings.state / "output")
    host = Host(surroundings, consents, only, given)
    try:
        yield host
    finally:
        await asyncio.shield(host.close())
