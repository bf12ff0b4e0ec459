"""Further MCP servers that the person gives the model: those of their own files that the settings name.

They run on the host, never in the checkout, and nothing that a repository brings with it counts: no file of
the project is read. What they offer is approved as anywhere, and once the model works it has read texts of
others, so that what sends is asked about unless the person said otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kakite.agent.forge_servers import forge_by_entry, forge_by_tools
from kakite.agent.tooling import Tooling
from kakite.errors import KakiteError, OutsideError
from kakite.host import ApprovedToolset, Approver, Rule, Setting, decide
from kakite.host.approval import auto_approval
from kakite.host.config import load
from kakite.host.entries import ServerEntry
from kakite.host.host import Host, running
from kakite.host.naming import meant_server
from kakite.host.requests import Surroundings
from kakite.host.searching import SearchedToolset
from kakite.host.session import TOKENS, host_state
from kakite.host.trust import Consents
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.toolset import Tool, ToolCall, ToolResult, Toolset


class WithheldError(OutsideError):
    """A server that the person named is not offered.

    Codes: ``forge_withheld`` (it is a forge's, and the editor is on), ``unknown_server`` (the person's own
    files have none of this name).
    """

    code = "forge_withheld"


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """The further servers of a run."""

    toolset: Toolset
    """Approved."""
    servers: tuple[str, ...] = ()
    """Those that have tools."""
    missing: Mapping[str, KakiteError] = field(default_factory=dict[str, KakiteError])
    """Why the others have none, by name."""
    absence: Callable[[str], ToolResult | None] = lambda _name: None
    """Why a tool of that name is not there any more, if that is since its server has none now."""

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool if it is allowed; of one that went, the answer says why."""
        result = await self.toolset.call(call)
        return (result.code == "unknown_tool" and self.absence(call.name)) or result


class WithoutForges:
    """The tools of a host but those of forges: they are neither listed nor called. A Toolset."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listed: tuple[tuple[Tool, ...], tuple[ServerEntry, ...], tuple[Tool, ...]] = ((), (), ())
        self.withheld: dict[str, str] = {}
        """The servers that are left out, each with the tool or word that it was known by."""

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools of the servers that are no forge's."""
        every, entries = await self._host.tools(), self._host.entries
        if self._listed[:2] != (every, entries):
            self.withheld = self._forges(every, entries)
            kept = tuple(tool for tool in every if self._host.naming(tool.name)[0] not in self.withheld)
            self._listed = every, entries, kept
        return self._listed[2]

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool that is listed; any other is unknown, whatever stands behind it."""
        names = [tool.name for tool in await self.tools()]
        if call.name not in names:
            return unknown(call, names)
        return await self._host.call(call)

    def _forges(self, every: Sequence[Tool], entries: Iterable[ServerEntry]) -> dict[str, str]:
        found = {entry.name: word for entry in entries if (word := forge_by_entry(entry))}
        offered: dict[str, list[Tool]] = {}
        for tool in every:
            server, own = self._host.naming(tool.name)
            # Under its own name: the server's, which stands before it, was looked at in the entry.
            offered.setdefault(server, []).append(_under(own, tool))
        for server, tools in offered.items():
            if server not in found and (word := forge_by_tools(tools)):
                found[server] = word
        return found


async def open_further(
    stack: AsyncExitStack,
    tooling: Tooling,
    folder: Path,
    *,
    rules: Sequence[Rule],
    approver: Approver,
    begins: Callable[[], Awaitable[None]],
) -> Further:
    """Make the further servers of a run ready; they end with the stack. One that is not there stops no run.

    ``folder`` is an empty one on the host, out of reach of the sandbox: the servers start in it, and since
    it stands for the project, no project's file of servers is read. ``begins`` is as in ``Setting``.

    Raises:
        StateError: the folder of what hosts keep cannot be used.
    """
    names, missing = _named(tooling, folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240 - once, before anything runs
    state = host_state(tooling.environ)
    surroundings = Surroundings(environ=tooling.environ, project=folder, state=state)
    host = await stack.enter_async_context(running(surroundings, Consents(state), names))
    toolset: Host | WithoutForges = WithoutForges(host) if tooling.editor.enabled else host
    tools = await toolset.tools()
    missing |= {name: error for name, error in host.failures.items() if name in names}
    if isinstance(toolset, WithoutForges):
        missing |= {name: _withheld(name, word) for name, word in toolset.withheld.items()}
    setting = Setting(
        naming=host.naming,
        project=str(folder),
        place=host.place,
        definition=host.digest,
        ask_after_outside=not _allows_everything(rules),
        begins=begins,
    )
    given = (
        rule
        for entry in host.entries
        for rule in (*entry.rules, *auto_approval(entry.name, entry.auto_approve))
    )
    approved = ApprovedToolset(toolset, rules=(*rules, *given), approver=approver, setting=setting)
    approved.came_from("the repository")  # the model reads it before it can call anything
    return Further(
        toolset=SearchedToolset(approved, budget_tokens=TOKENS),
        servers=tuple(dict.fromkeys(host.naming(tool.name)[0] for tool in tools)),
        missing=missing,
        absence=host.missing,
    )


def unknown(call: ToolCall, names: Iterable[str]) -> ToolResult:
    """Return the answer to a call of a tool that there is none of."""
    told = f"there is no tool `{call.name[:100]}`"
    return failed(ToolError(told, hint=nearest(call.name, names), code="unknown_tool"))


def _named(tooling: Tooling, folder: Path) -> tuple[frozenset[str], dict[str, KakiteError]]:
    """Return which of the named servers may be started, and why the others may not."""
    entries = load(folder, tooling.environ).entries
    own = {entry.name: entry for entry in entries if entry.origin.scope == "user"}
    missing: dict[str, KakiteError] = {}
    for name in tooling.servers:
        if name not in own:
            hint = f"{meant_server(name, own)}; `kakite host check` shows which there are"
            told = f"no server `{name}` is in your own files"
            missing[name] = WithheldError(told, hint=hint, code="unknown_server")
        elif tooling.editor.enabled and (word := forge_by_entry(own[name])):
            missing[name] = _withheld(name, word)
    return frozenset(tooling.servers) - missing.keys(), missing


def _withheld(name: str, word: str) -> WithheldError:
    return WithheldError(
        f"the server `{name}` is not offered to the model: `{word}` says that it is a forge's",
        hint="Kakite itself speaks with the forge; without `text_editor_mcp` such servers are offered",
    )


def _allows_everything(rules: Sequence[Rule]) -> bool:
    return decide(rules, ToolCall(id="", name="any__thing", arguments={})) == "allow"


def _under(name: str, tool: Tool) -> Tool:
    return Tool(name=name, title=tool.title, description="", parameters=tool.parameters)
