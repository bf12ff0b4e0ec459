"""External MCP servers for a run: only those of the person's own files that the settings name.

They run on the host, never in the work tree, and no file of the project configures them. Their tools need
approval as usual; once the model works it has read untrusted text, so tools that send data are asked about
unless the person allowed them.

While the editor is on, the model works in its checkout and Kakite talks to the forge. So a server through
which the model could write to the forge, without commits and their inspection, is not offered. People
rename, wrap and move servers, so the tools of a server are examined as well as its name and address. In
doubt a server is taken for a forge's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kakite.agent.run.deps import ToolSettings
from kakite.errors import ExternalError, KakiteError
from kakite.host import ApprovalConfig, ApprovedToolset, Approver, Rule, decide
from kakite.host.config.load import load_config
from kakite.host.config.model import ServerEntry, StdioServer
from kakite.host.consent.store import ConsentGranted, ConsentState, ConsentStore
from kakite.host.host import Host, run_host
from kakite.host.open import DEFAULT_TOKEN_BUDGET, ensure_host_folder
from kakite.host.policy.approval import build_auto_approve_rules
from kakite.host.server.client_features import HostContext
from kakite.host.tool_names import suggest_server
from kakite.host.tool_search import ToolSearchToolset
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

FORGE_NAMES = ("github", "gitlab", "gitea", "forgejo", "codeberg", "bitbucket", "gogs")
"""Words that name a forge, wherever they stand in a server's entry or in a tool's name."""

_FORGE = re.compile("|".join(FORGE_NAMES), re.IGNORECASE)
_PACKAGE_SOURCE = re.compile(
    r"(?:git\+)?(?:https?|ssh|git)://(?:[^/@\s]*@)?(?:www\.)?(?:github\.com|gitlab\.com|codeberg\.org|bitbucket\.org)/"
    r"|\b(?:github|gitlab|bitbucket):(?!//)|\bgit@(?:github\.com|gitlab\.com|codeberg\.org|bitbucket\.org):",
    re.IGNORECASE,
)
"""Where a package is fetched from: half of all servers lie on a forge, and have nothing to do with it."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PLURAL = re.compile(r"(?<=[a-z]{2})s\Z")

_FORGE_ACTIONS: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split())
    for words in (
        *("pull request", "merge request", "push file", "create or update file", "fork repository"),
        *("fork repo", "fork project", "create repository", "pull req", "merge req"),
        *("create pr", "merge pr", "create mr", "merge mr", "list pr", "list mr"),
    )
)
"""Words in one tool's name, in any order, that only a forge's tools have."""

_FORGE_ARGUMENTS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"owner", "repo"}), frozenset()),
    (frozenset({"owner", "repository"}), frozenset()),
    (
        frozenset({"projectid"}),
        frozenset({"mergerequestiid", "issueiid", "sourcebranch", "ref", "branch", "filepath", "iid"}),
    ),
    (frozenset({"mergerequestiid"}), frozenset()),
    (frozenset({"issueiid"}), frozenset()),
    (frozenset({"pullnumber"}), frozenset()),
)
"""Arguments that a tool of a forge takes: all of the first, and of the second, if there are any, one."""


def detect_forge_entry(entry: ServerEntry) -> str:
    """Return what of an entry says that its server is a forge's; empty if nothing does.

    Looked at are the server's name, command, arguments, names of variables, and address. Of what is only the
    place that a package is fetched from, the forge's own address does not count.
    """
    return next((word for text in _iter_entry_texts(entry) if (word := _find_forge_word(text))), "")


def detect_forge_tool(tools: Iterable[Tool]) -> str:
    """Return the name of a tool that says that its server is a forge's; empty if none does."""
    return next((tool.name for tool in tools if _is_forge_tool(tool)), "")


def _iter_entry_texts(entry: ServerEntry) -> Iterator[str]:
    yield entry.name
    reached = entry.reached
    if isinstance(reached, StdioServer):
        yield from (_PACKAGE_SOURCE.sub(" ", word) for word in (reached.command, *reached.args))
        yield from reached.env
        yield from reached.env.values()
        yield reached.cwd
    else:
        yield reached.url
        yield from reached.headers
        yield from reached.headers.values()


def _find_forge_word(text: str) -> str:
    found = _FORGE.search(text)
    return found[0].lower() if found else ""


def _is_forge_tool(tool: Tool) -> bool:
    if _find_forge_word(tool.name) or _find_forge_word(tool.title):
        return True
    words = _split_words(tool.name)
    return any(deed <= words for deed in _FORGE_ACTIONS) or _has_forge_arguments(
        _collect_argument_names(tool)
    )


def _split_words(name: str) -> frozenset[str]:
    return frozenset(_to_singular(word.lower()) for word in _WORD.findall(name))


def _to_singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else _PLURAL.sub("", word)


def _collect_argument_names(tool: Tool) -> frozenset[str]:
    properties: Any = tool.parameters.get("properties")
    names: Sequence[str] = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
    return frozenset("".join(_WORD.findall(name)).lower() for name in names)


def _has_forge_arguments(arguments: frozenset[str]) -> bool:
    return any(
        every <= arguments and (not some or bool(some & arguments)) for every, some in _FORGE_ARGUMENTS
    )


class ServerWithheldError(ExternalError):
    """A server that the person named is not offered.

    Codes: ``forge_withheld`` (it is a forge's, and the editor is on), ``unknown_server`` (the person's own
    files have none of this name).
    """

    code = "forge_withheld"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalServers:
    """The further servers of a run."""

    toolset: Toolset
    """Approved."""
    approved: ApprovedToolset | None = None
    """What approves its calls; None: there are no servers."""
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


class ForgeFilterToolset:
    """The tools of a host but those of forges: they are neither listed nor called. A Toolset."""

    def __init__(self, host: Host, exempt: Iterable[str] = ()) -> None:
        """Leave out the forges' servers of a host, but for those whose names are exempt."""
        self._host = host
        self._exempt = frozenset(exempt)
        self._listed: tuple[tuple[Tool, ...], tuple[ServerEntry, ...], tuple[Tool, ...]] = ((), (), ())
        self.withheld: dict[str, str] = {}
        """The servers that are left out, each with the tool or word that it was known by."""

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools of the servers that are no forge's."""
        every, entries = await self._host.list_tools(), self._host.entries
        if self._listed[:2] != (every, entries):
            self.withheld = self._find_forge_servers(every, entries)
            kept = tuple(
                tool for tool in every if self._host.resolve_tool_name(tool.name)[0] not in self.withheld
            )
            self._listed = every, entries, kept
        return self._listed[2]

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool that is listed; any other is unknown, whatever stands behind it."""
        names = [tool.name for tool in await self.list_tools()]
        if call.name not in names:
            return build_unknown_tool_result(call, names)
        return await self._host.call(call)

    def _find_forge_servers(self, every: Sequence[Tool], entries: Iterable[ServerEntry]) -> dict[str, str]:
        found = {entry.name: word for entry in entries if (word := detect_forge_entry(entry))}
        offered: dict[str, list[Tool]] = {}
        for tool in every:
            server, own = self._host.resolve_tool_name(tool.name)
            # Under its own name: the server's, which stands before it, was looked at in the entry.
            offered.setdefault(server, []).append(_rename_tool(own, tool))
        for server, tools in offered.items():
            if server not in found and (word := detect_forge_tool(tools)):
                found[server] = word
        return {name: word for name, word in found.items() if name not in self._exempt}


class _SessionConsents(ConsentStore):
    """The person's consent, and that to the servers of their editor, of which nothing is kept."""

    def __init__(self, folder: Path, given: Iterable[str]) -> None:
        super().__init__(folder)
        self._given = frozenset(given)

    def get_tool_states(
        self,
        entry: ServerEntry,
        project: Path,
        definitions: Sequence[JsonObject],
        digests: Sequence[str] | None = None,
    ) -> Mapping[str, ConsentState]:
        if entry.name in self._given:
            return {str(each.get("name", "")): ConsentGranted() for each in definitions}
        return super().get_tool_states(entry, project, definitions, digests)

    def get_definitions(self, entry: ServerEntry, project: Path) -> tuple[JsonObject, ...]:
        return () if entry.name in self._given else super().get_definitions(entry, project)


async def open_external_servers(
    stack: AsyncExitStack,
    tooling: ToolSettings,
    folder: Path,
    *,
    rules: Sequence[Rule],
    approver: Approver,
    begins: Callable[[], Awaitable[None]],
    given: Sequence[ServerEntry] = (),
) -> ExternalServers:
    """Make the further servers of a run ready; they end with the stack. One that is not there stops no run.

    ``folder`` is an empty one on the host, out of reach of the sandbox: the servers start in it, and since
    it stands for the project, no project's file of servers is read. ``begins`` is as in ``ApprovalConfig``.
    Those ``given`` are of the person's editor: used as they are, forges too, and forgotten afterwards.

    Raises:
        StateError: the folder of what hosts keep cannot be used.
    """
    names, missing = _select_servers(tooling, folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240 - once, before anything runs
    state = ensure_host_folder(tooling.environ)
    surroundings = HostContext(environ=tooling.environ, project=folder, state=state)
    offered = [entry.name for entry in given]
    consents = _SessionConsents(state, offered)
    host = await stack.enter_async_context(run_host(surroundings, consents, names, given))
    toolset: Host | ForgeFilterToolset = ForgeFilterToolset(host, offered) if tooling.editor.enabled else host
    tools = await toolset.list_tools()
    missing |= {name: error for name, error in host.failures.items() if name in names.union(offered)}
    if isinstance(toolset, ForgeFilterToolset):
        missing |= {name: _build_withheld_error(name, word) for name, word in toolset.withheld.items()}
    setting = ApprovalConfig(
        naming=host.resolve_tool_name,
        project=str(folder),
        place=host.get_path_context,
        definition=host.get_tool_digest,
        ask_after_outside=not _is_allow_all(rules),
        begins=begins,
    )
    every = (*rules, *_iter_entry_rules(host))
    approved = ApprovedToolset(toolset, rules=every, approver=approver, setting=setting)
    approved.record_untrusted_source("the repository")  # the model reads it before it can call anything
    return ExternalServers(
        toolset=ToolSearchToolset(approved, budget_tokens=DEFAULT_TOKEN_BUDGET),
        approved=approved,
        servers=tuple(dict.fromkeys(host.resolve_tool_name(tool.name)[0] for tool in tools)),
        missing=missing,
        absence=host.explain_missing_tool,
    )


def _iter_entry_rules(host: Host) -> Iterator[Rule]:
    for entry in host.entries:
        yield from (*entry.rules, *build_auto_approve_rules(entry.name, entry.auto_approve))


def build_unknown_tool_result(call: ToolCall, names: Iterable[str]) -> ToolResult:
    """Return the answer to a call of a tool that there is none of."""
    told = f"there is no tool `{call.name[:100]}`"
    return to_error_result(ToolError(told, hint=suggest_name(call.name, names), code="unknown_tool"))


def _select_servers(tooling: ToolSettings, folder: Path) -> tuple[frozenset[str], dict[str, KakiteError]]:
    """Return which of the named servers may be started, and why the others may not."""
    entries = load_config(folder, tooling.environ).entries
    own = {entry.name: entry for entry in entries if entry.origin.scope == "user"}
    missing: dict[str, KakiteError] = {}
    for name in tooling.servers:
        if name not in own:
            hint = f"{suggest_server(name, own)}; `kakite host check` lists them"
            told = f"no server `{name}` is in your own files"
            missing[name] = ServerWithheldError(told, hint=hint, code="unknown_server")
        elif tooling.editor.enabled and (word := detect_forge_entry(own[name])):
            missing[name] = _build_withheld_error(name, word)
    return frozenset(tooling.servers) - missing.keys(), missing


def _build_withheld_error(name: str, word: str) -> ServerWithheldError:
    return ServerWithheldError(
        f"the server `{name}` is not offered to the model: `{word}` says that it is a forge's",
        hint="Kakite itself speaks with the forge; without `text_editor_mcp` such servers are offered",
    )


def _is_allow_all(rules: Sequence[Rule]) -> bool:
    return decide(rules, ToolCall(id="", name="any__thing", arguments={})) == "allow"


def _rename_tool(name: str, tool: Tool) -> Tool:
    return Tool(name=name, title=tool.title, description="", parameters=tool.parameters)
