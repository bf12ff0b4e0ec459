"""Approves calls: rules first, then the person, and with nobody to ask, no.

A session keeps the answers so far, the text from outside that has reached the model, and the folder where
each server's relative paths start, also after a call moved it. Edits by our own editor are shown as a
preview, and the call is bound to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from weakref import WeakKeyDictionary

from kakite.host.policy.approver import (
    ApprovalRequest,
    ApprovalResponse,
    Approver,
    CallOutcome,
    DenyingApprover,
    RememberScope,
)
from kakite.host.policy.matchers import PathContext, suggest_chain_prefix, suggest_command_prefix
from kakite.host.policy.rules import (
    MODES,
    READ_ONLY_RULES,
    RUN_COMMAND_TOOL,
    Decision,
    Mode,
    PolicyDecision,
    Rule,
    RulesError,
    RuleStore,
    SavedRule,
    ToolIdentity,
    ToolNameResolver,
    build_auto_approve_rules,
    decide,
    evaluate_rules,
    find_matching_allows,
    list_narrower_rules,
    make_exact_rule,
    parse_tool_name,
    serialize_rule,
)
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.call_context import current_call
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

_FAILED_BINDING = "fails"
"""Binds a call to a preview that failed: what would do something by now, was never shown."""


def has_preview(tool: Tool) -> bool:
    """Return whether a tool can show what it would do, and is believed to do no more than that."""
    # Only of a tool whose effects we believe: another server might do the deed in spite of the word.
    properties: JsonObject = tool.parameters.get("properties", {})
    return tool.effect == "write" and "preview" in properties


def is_view(tool: Tool, call: ToolCall) -> bool:
    """Return whether this call of a tool that can write only looks: our editor's ``view``."""
    return has_preview(tool) and call.arguments.get("command") == "view"


def can_show_preview(tool: Tool, call: ToolCall) -> bool:
    """Return whether a preview can show the person what the call would do."""
    return has_preview(tool) and not is_view(tool, call)


def to_view_arguments(call: ToolCall) -> JsonObject:
    """Return the arguments of the call that would look at what this one would change."""
    given = call.arguments
    return {**given, "command": "view"} if "command" in given else given


def is_blocking(rule: Rule | None) -> bool:
    """Return whether it is this rule that keeps the call from going without a question."""
    return rule is not None and rule.decision != "allow"


def get_diff(preview: ToolResult | None) -> str:
    """Return what a preview shows the person; nothing of one that failed."""
    if preview is None or preview.is_error:
        return ""
    return str(preview.details.get("diff", "")) or preview.text


def get_binding(preview: ToolResult | None) -> str:
    """Return what binds a call to its preview."""
    if preview is None:
        return ""
    return _FAILED_BINDING if preview.is_error else str(preview.details.get("bound", ""))


class TaintTracker:
    """The outside text that has come in during one session.

    Whoever wrote a page, an issue or a mail may have written it for the model to obey. So a call that writes
    or sends is put to the person again, once for each tool after something new came in, not for ever.
    """

    def __init__(self) -> None:
        self._count = 0
        self._latest: dict[str, int] = {}
        self._weighed: dict[str, int] = {}

    def record_source(self, source: str) -> None:
        """Take note that a result from this server has reached the model."""
        self._count += 1
        self._latest[source] = self._count

    def find_new_sources(self, tool: str, *, but: Collection[str] = ()) -> tuple[str, ...]:
        """Return who has said something since the person last let this tool go; without those of ``but``."""
        last = self._weighed.get(tool, 0)
        return tuple(source for source, at in self._latest.items() if at > last and source not in but)

    def get_mark(self) -> int:
        """Return what stands for all that has come in up to now."""
        return self._count

    def record_review(self, tool: str, mark: int) -> None:
        """Take note that the person let this tool go, knowing what had come in up to that mark."""
        self._weighed[tool] = max(mark, self._weighed.get(tool, 0))


"""A server's own name for a tool that runs the command in its argument ``command``."""

SET_WORKSPACE_TOOL = "set_workspace"
"""A server's own name for a tool that says where relative paths start from then on."""

WORKSPACE_MOVED_CODE = "workspace_moved"
"""The code of a result that says that nothing was done, since the server forgot where it was moved to."""

UNKNOWN_FOLDER = ""
"""Stands for a folder that is not known."""


class WorkingDirs:
    """The working folder of each server's calls in one session."""

    def __init__(self, first: Callable[[str], PathContext]) -> None:
        """Start with what ``first`` says of a server."""
        self._first = first
        self._moved: dict[str, str] = {}
        self._gates: dict[str, _ReadWriteLock] = {}

    def get_context(self, server: str, *, moving: bool = False) -> PathContext:
        """Return where the paths of a call lead; ``moving``: of one that says where later ones do."""
        place = self._first(server)
        if moving:  # it is read from the first folder each time, and looks at nothing beneath
            return replace(place, reaches=False)
        return replace(place, folders=(self._moved[server],)) if server in self._moved else place

    def get_moved_folder(self, server: str) -> str | None:
        """Return the folder that a server was moved to, ``UNKNOWN_FOLDER`` if not known; None: it was not."""
        return self._moved.get(server)

    def move(self, server: str, folder: str | None) -> None:
        """Note where relative paths start now; None: where they did at first."""
        if folder is None:
            self._moved.pop(server, None)
        else:
            self._moved[server] = folder

    def lock(self, server: str, *, moving: bool) -> AbstractAsyncContextManager[None]:
        """Let nothing move a server while a call of it is judged and made; or move it while none is."""
        gate = self._gates.get(server) or self._gates.setdefault(server, _ReadWriteLock())
        return gate.lock_exclusively() if moving else gate


class _ReadWriteLock:
    """Lets many in together, as a context, or one alone; who waits to be alone lets nobody in before."""

    def __init__(self) -> None:
        self._inside = 0
        self._turn = asyncio.Lock()
        self._empty = asyncio.Event()
        self._empty.set()

    async def __aenter__(self) -> None:
        async with self._turn:
            self._inside += 1
            self._empty.clear()

    async def __aexit__(self, *_error: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @asynccontextmanager
    async def lock_exclusively(self) -> AsyncGenerator[None]:
        async with self._turn:
            await self._empty.wait()
            yield


log = logging.getLogger(__name__)

__all__ = [
    "MODES",
    "READ_ONLY_RULES",
    "ApprovalConfig",
    "ApprovalRequest",
    "ApprovalResponse",
    "ApprovedToolset",
    "Approver",
    "CallOutcome",
    "Decision",
    "DenyingApprover",
    "Mode",
    "PolicyDecision",
    "Rule",
    "ToolIdentity",
    "build_auto_approve_rules",
    "decide",
    "evaluate_rules",
]


def _ignore_outcome(_settled: CallOutcome) -> None:
    """Listen to nothing."""


async def _ignore_start() -> None:
    """Take no note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalConfig:
    """The configuration for approving a session's calls."""

    naming: ToolNameResolver = parse_tool_name
    """Which server and tool a name stands for; rules are about those."""
    project: str = ""
    """The absolute folder that path globs without ``/`` begin at, and that saved answers hold for."""
    place: Callable[[str], PathContext] | None = None
    """Where the paths of a server's calls lead, at its start; None: relative ones start in the project."""
    ask_after_outside: bool = True
    """Whether what writes or sends is asked again after text from outside has reached the model."""
    saved: RuleStore | None = None
    """Where answers for always go, and rules made by hand come from; None: nothing is saved."""
    definition: Callable[[str], str] | None = None
    """A digest of the definition of the tool of this name, empty if it is not listed; None: one is made of
    the tool as it is listed."""
    begins: Callable[[], Awaitable[None]] = _ignore_start
    """Awaited when a call was let go, right before it is made: until then nothing of it has had an effect."""
    previews: frozenset[str] = frozenset()
    """Tools of this process that show what they would do where they get ``preview``, beside those that write
    files."""
    listener: Callable[[CallOutcome], None] = _ignore_outcome
    """Told of every call once it is settled. Must not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionGrant:
    """A person's yes for the rest of the session."""

    definition: str
    rule: Rule | None = None
    """The rule that made us ask: the answer holds where the same one, or none, does."""
    outside: frozenset[str] = frozenset()
    """Whose text from outside the person knew of when saying so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingCall:
    """A call that is being decided."""

    call: ToolCall
    tool: Tool
    subject: ToolIdentity
    definition: str
    saved: tuple[SavedRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AutomaticDecision:
    """The decision made without the person."""

    decision: Decision
    by: str
    rule: Rule | None = None
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _FinalDecision:
    """The final decision: the call to make, or the result that says why not."""

    by: str
    call: ToolCall | None = None
    refusal: ToolResult | None = None


class _UnlistedError(Exception):
    """The tool is not listed any more: nobody knows which rules and answers are about it."""


_CallKey = tuple[str, str, str | None]
"""A tool's name, its arguments, and where relative paths among those start, if that was moved."""


@dataclass(slots=True, kw_only=True)
class _ApprovalSession:
    """The state of a session: the person's answers, what came in, and where calls lead."""

    places: WorkingDirs
    calls: dict[_CallKey, _SessionGrant] = field(default_factory=dict[_CallKey, _SessionGrant])
    tools: dict[str, _SessionGrant] = field(default_factory=dict[str, _SessionGrant])
    outside: TaintTracker = field(default_factory=TaintTracker)


_DEFAULT_CONFIG = ApprovalConfig()

_MAX_FORMATTED_RULES = 1000  # rules that are kept in words
_encode_json = json.JSONEncoder(ensure_ascii=False).encode

_CHANGED_MESSAGE = (
    "the tool, or its server, changed while the person was asked. See what it is now, and call again"
)

_READ_ONLY_MESSAGE = "only calls that look are let go now"

_UNMOVED_CODES = frozenset(("bad_arguments", "bad_path", "path_escapes", "file_not_found", "not_a_directory"))
"""Codes of a refusal to move that surely moved nothing."""


class ApprovedToolset:
    """A toolset whose calls pass the rules and the person first."""

    def __init__(
        self,
        toolset: Toolset,
        *,
        rules: Sequence[Rule],
        approver: Approver,
        setting: ApprovalConfig = _DEFAULT_CONFIG,
    ) -> None:
        self.rules = tuple(rules)
        """May be exchanged at any time; holds from the next call on."""
        self.read_only = False
        """Whether every call that does more than look is refused, whatever rules and answers say."""
        self._toolset = toolset
        self._approver = approver
        self._setting = setting
        project = PathContext(project=setting.project)
        self._session = _ApprovalSession(places=WorkingDirs(setting.place or (lambda _server: project)))
        self._digests: dict[str, tuple[Tool, str]] = {}
        self._words: dict[int, tuple[Rule, str]] = {}
        self._known: tuple[tuple[Tool, ...], dict[str, Tool]] = ((), {})
        self._turns = WeakKeyDictionary[object, asyncio.Lock]()  # by client: one question at a time

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the toolset's tools: which there are needs no approval."""
        return await self._toolset.list_tools()

    def record_untrusted_source(self, source: str) -> None:
        """Take note that the model was told something in a server's own words, other than by a call here."""
        self._session.outside.record_source(source)

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform the call if it is allowed; else the result says why not, and nothing was done."""
        tools = await self._get_tools_by_name()
        if call.name not in tools:
            return _make_unknown_tool_result(call, tools)
        server, own = self._setting.naming(call.name)
        moving = (own or call.name) == SET_WORKSPACE_TOOL
        async with self._session.places.lock(server, moving=moving):
            return await self._decide_and_call(_set_folder(call, ""), tools[call.name], moving=moving)

    async def is_unasked_view(self, call: ToolCall) -> bool:
        """Return whether a call only looks, at nothing outside, and goes without a question as things are."""
        tool = (await self._get_tools_by_name()).get(call.name)
        if tool is None or tool.open_world or not (tool.effect == "read" or is_view(tool, call)):
            return False
        try:
            asked = self._build_pending_call(call, tool, self._identify_tool(call, tool, moving=False))
            return self._decide_automatically(asked).decision == "allow"
        except (RulesError, _UnlistedError):
            return False

    async def _get_tools_by_name(self) -> dict[str, Tool]:
        tools = await self._toolset.list_tools()
        if self._known[0] is not tools:
            self._known = tools, {tool.name: tool for tool in tools}
        return self._known[1]

    async def _decide_and_call(self, call: ToolCall, tool: Tool, *, moving: bool) -> ToolResult:
        began = time.monotonic()
        subject = self._identify_tool(call, tool, moving=moving)
        try:
            ruling = await self._decide(call, tool, subject)
        except RulesError as error:  # rules that cannot be read may forbid it
            ruling = _FinalDecision(by="rules", refusal=to_error_result(error))
        except _UnlistedError:
            ruling = _FinalDecision(by="definition", refusal=_make_unknown_tool_result(call, ()))
        decided = time.monotonic()

        def report(result: ToolResult) -> None:
            self._setting.listener(
                CallOutcome(
                    call=call,
                    server=subject.server,
                    tool=subject.tool or call.name,
                    decision="allow" if ruling.call else "deny",
                    by=ruling.by,
                    result=result,
                    seconds=time.monotonic() - decided if ruling.call else 0.0,
                    waited=decided - began,
                )
            )

        try:
            result = await self._execute(ruling, call, subject, moving=moving)
        except BaseException as error:  # cancelled too: it was sent, and may have done anything
            report(_make_broken_result(error))
            raise
        report(result)
        return result

    async def _execute(
        self, ruling: _FinalDecision, call: ToolCall, subject: ToolIdentity, *, moving: bool
    ) -> ToolResult:
        if ruling.call is None:
            return ruling.refusal or _make_denied_result(call, "", "denied")
        await self._setting.begins()
        if moving:
            return await self._perform_move(ruling.call, subject)
        return await self._perform(self._bind_folder(ruling.call, subject), subject)

    async def _perform_move(self, call: ToolCall, subject: ToolIdentity) -> ToolResult:
        """Perform a call that says where later ones start; where that is not sure, it may be anywhere."""
        places, server = self._session.places, subject.server
        before = places.get_moved_folder(server)
        places.move(server, UNKNOWN_FOLDER)
        result = await self._perform(call, subject)
        believed = subject.effect == "write"  # only of a server that is trusted
        if believed and result.is_error and result.code in _UNMOVED_CODES:
            places.move(server, before)
        elif believed and not result.is_error:
            places.move(server, str(result.details.get("folder") or UNKNOWN_FOLDER))
        return result

    def _bind_folder(self, call: ToolCall, subject: ToolIdentity) -> ToolCall:
        """Return the call so that it is refused where a server that was started again forgot its folder."""
        return _set_folder(call, self._session.places.get_moved_folder(subject.server) or "")

    async def _perform(self, call: ToolCall, subject: ToolIdentity) -> ToolResult:
        result = await self._toolset.call(call)
        if result.code == WORKSPACE_MOVED_CODE:
            self._session.places.move(subject.server, None)
        if subject.open_world:
            self._session.outside.record_source(subject.server or call.name)
        return result

    def _identify_tool(self, call: ToolCall, tool: Tool, *, moving: bool) -> ToolIdentity:
        server, own = self._setting.naming(call.name)
        return ToolIdentity(
            server=server,
            tool=own,
            effect=tool.effect,
            open_world=tool.open_world,
            project=self._setting.project,
            place=self._session.places.get_context(server, moving=moving),
            parameters=tool.parameters,
        )

    async def _decide(self, call: ToolCall, tool: Tool, subject: ToolIdentity) -> _FinalDecision:
        if self.read_only and subject.effect != "read" and not is_view(tool, call):
            refusal = _make_denied_result(call, _READ_ONLY_MESSAGE, "read_only")
            return _FinalDecision(by="read-only", refusal=refusal)
        if (
            standing := self._decide_automatically(self._build_pending_call(call, tool, subject))
        ).decision == "ask":
            turn = self._turns.setdefault(current_call().session_key, asyncio.Lock())
            async with turn:  # an answer meanwhile may cover this call too
                mark = (
                    self._session.outside.get_mark()
                )  # what comes in from now on, the question does not tell
                asked = self._build_pending_call(call, tool, subject)
                if (standing := self._decide_automatically(asked)).decision == "ask":
                    return await self._ask(asked, standing, mark)
        if standing.decision == "allow":
            return _FinalDecision(by=standing.by, call=call)
        return _FinalDecision(
            by=standing.by, refusal=_make_denied_result(call, "a rule forbids it", "denied")
        )

    def _build_pending_call(self, call: ToolCall, tool: Tool, subject: ToolIdentity) -> _PendingCall:
        definition = self._get_definition_digest(call, tool)
        if not definition:
            raise _UnlistedError
        saved = self._setting.saved
        held = () if saved is None else saved.find_applicable(subject, call.name, definition)
        return _PendingCall(call=call, tool=tool, subject=subject, definition=definition, saved=held)

    def _get_definition_digest(self, call: ToolCall, tool: Tool) -> str:
        if self._setting.definition:
            return self._setting.definition(call.name)
        known = self._digests.get(call.name)
        if known is None or known[0] is not tool:
            known = self._digests[call.name] = tool, _compute_definition_digest(tool)
        return known[1]

    def _decide_automatically(self, asked: _PendingCall) -> _AutomaticDecision:
        verdict = evaluate_rules(self._collect_rules(asked), asked.call, asked.subject)
        if verdict.decision == "deny":
            return _AutomaticDecision(
                decision="deny", by=self._describe_rule(verdict.rule, asked.saved), rule=verdict.rule
            )
        outside: tuple[str, ...] = ()
        for by, covered in self._find_allowances(asked, verdict):
            outside = () if covered is None else self._find_new_sources(asked, covered)
            if not outside:
                return _AutomaticDecision(decision="allow", by=by, rule=verdict.rule)
        return _AutomaticDecision(decision="ask", by="", rule=verdict.rule, outside=outside)

    def _collect_rules(self, asked: _PendingCall) -> tuple[Rule, ...]:
        return (*self.rules, *(each.rule for each in asked.saved))

    def _find_allowances(
        self, asked: _PendingCall, verdict: PolicyDecision
    ) -> Iterator[tuple[str, Collection[str] | None]]:
        """Yield what lets the call go, and whose text from outside does not count then; None: nobody's."""
        call, rule = asked.call, verdict.rule
        doubted = rule is not None and rule.decision == "deny"
        if (
            (has_preview(asked.tool) or asked.tool.name in self._setting.previews)
            and call.arguments.get("preview") is True
            and self._can_view_unasked(asked, rule)
        ):
            yield "preview", None
        if verdict.decision == "allow" and rule is not None:
            for each in find_matching_allows(self._collect_rules(asked), call, asked.subject, rule):
                covered = {"ask": (), "own": (asked.subject.server,), "any": None}[each.after_outside]
                yield self._describe_rule(each, asked.saved), covered
        exact = self._session.calls.get(self._build_call_key(asked))
        if exact and exact.definition == asked.definition:
            yield "session same_arguments", exact.outside
        whole = self._session.tools.get(call.name)
        holds = whole and whole.definition == asked.definition and not doubted
        if whole and holds and (verdict.decision == "allow" or whole.rule == rule):
            yield "session tool", whole.outside

    def _can_view_unasked(self, asked: _PendingCall, rule: Rule | None) -> bool:
        """Return whether the model may see unasked what is in a file, as a preview tells of it.

        Not where a rule asks or might forbid the call; and only where the rules would let it look there.
        """
        if is_blocking(rule):
            return False
        look = replace(asked.call, arguments=to_view_arguments(asked.call))
        verdict = evaluate_rules(self._collect_rules(asked), look, replace(asked.subject, effect="read"))
        return verdict.decision == "allow"

    def _describe_rule(self, rule: Rule | None, saved: Iterable[SavedRule]) -> str:
        number = next((each.number for each in saved if each.rule is rule), None)
        if number is not None:
            return f"saved {number}"
        return "" if rule is None else self._format_rule(rule)

    def _format_rule(self, rule: Rule) -> str:
        """Return the rule in words, which are found once: most calls go by one of a few rules."""
        known = self._words.get(id(rule))
        if known is None or known[0] is not rule:
            if len(self._words) >= _MAX_FORMATTED_RULES:
                self._words.clear()
            known = self._words[id(rule)] = rule, f"rule {_encode_json(serialize_rule(rule))}"
        return known[1]

    def _build_call_key(self, asked: _PendingCall) -> _CallKey:
        folder = self._session.places.get_moved_folder(asked.subject.server)
        return asked.call.name, json.dumps(asked.call.arguments, sort_keys=True), folder

    def _find_new_sources(self, asked: _PendingCall, covered: Collection[str]) -> tuple[str, ...]:
        if (
            not self._setting.ask_after_outside
            or not asked.subject.has_side_effects
            or is_view(asked.tool, asked.call)
        ):
            return ()
        return self._session.outside.find_new_sources(asked.call.name, but=covered)

    async def _ask(self, asked: _PendingCall, standing: _AutomaticDecision, mark: int) -> _FinalDecision:
        call = asked.call
        preview = await self._run_preview(asked) if self._can_show_preview(asked) else None
        if preview is not None and preview.is_error and self._can_view_unasked(asked, standing.rule):
            return _FinalDecision(by="preview", refusal=preview)  # it would fail: nobody need be asked
        saves = self._suggest_rule(asked) if standing.rule is None else None
        question = ApprovalRequest(
            call=call,
            diff=get_diff(preview),
            server=asked.subject.server,
            tool=asked.subject.tool,
            outside=standing.outside,
            saves=saves,
            narrower=() if saves is None else list_narrower_rules(saves, call, asked.subject),
            folder=self._session.places.get_moved_folder(asked.subject.server),
            definition=asked.definition,
            bound=get_binding(preview),
        )
        answer = await self._approver.ask(question)
        if not answer.allowed:
            by = "nobody" if answer.nobody else "answer no"
            return _FinalDecision(by=by, refusal=_make_refused_result(asked, standing, answer))
        if exchanged := await self._check_unchanged(asked):
            return _FinalDecision(by="definition", refusal=exchanged)
        self._session.outside.record_review(call.name, mark)
        chosen = answer.rule if answer.rule in question.narrower else question.saves
        remembered = self._remember(asked, standing, answer, chosen)
        return _FinalDecision(
            by=f"answer {remembered}", call=replace(call, bound=question.bound or call.bound)
        )

    async def _check_unchanged(self, asked: _PendingCall) -> ToolResult | None:
        """Return why a yes counts for nothing: what was asked about is something else by now."""
        call = asked.call
        tools = await self._get_tools_by_name()
        tool = tools.get(call.name)
        if tool is None:
            return _make_unknown_tool_result(call, tools)
        if self._get_definition_digest(call, tool) != asked.definition:
            return _make_denied_result(call, _CHANGED_MESSAGE, "approval_required")
        return None

    def _can_show_preview(self, asked: _PendingCall) -> bool:
        return can_show_preview(asked.tool, asked.call) or asked.tool.name in self._setting.previews

    async def _run_preview(self, asked: _PendingCall) -> ToolResult:
        # Whatever the model said of a preview itself: it has no say in what the person sees.
        call = self._bind_folder(asked.call, asked.subject)
        return await self._toolset.call(replace(call, arguments={**call.arguments, "preview": True}))

    def _remember(
        self,
        asked: _PendingCall,
        standing: _AutomaticDecision,
        answer: ApprovalResponse,
        saves: Rule | None,
    ) -> RememberScope:
        call, session = asked.call, self._session
        reason = standing.rule if is_blocking(standing.rule) else None
        match answer.remember:
            case "once":
                return "once"
            case "same_arguments":
                key = self._build_call_key(asked)
                session.calls[key] = _build_grant(asked, standing, reason, session.calls.get(key))
                return "same_arguments"
            case "always" if saves and self._save_rule(asked, saves):
                return "always"
            case "tool" | "always":
                session.tools[call.name] = _build_grant(asked, standing, reason, session.tools.get(call.name))
                return "tool"

    def _suggest_rule(self, asked: _PendingCall) -> Rule | None:
        """Return the rule that an answer for always saves: of a command, for those that begin as it does."""
        if self._setting.saved is None:
            return None
        subject, call = asked.subject, asked.call
        rule = make_exact_rule("allow", subject.server, subject.tool or call.name)
        if (subject.tool or call.name) != RUN_COMMAND_TOOL:
            return rule
        command = call.arguments.get("command")
        prefix = suggest_command_prefix(command) or suggest_chain_prefix(command)
        return None if prefix is None else replace(rule, arguments={"command": prefix})

    def _save_rule(self, asked: _PendingCall, rule: Rule) -> bool:
        assert self._setting.saved is not None
        try:
            self._setting.saved.add(rule, project=self._setting.project, definition=asked.definition)
        except RulesError:
            log.warning("an answer for always could not be saved, and holds for this session", exc_info=True)
            return False
        return True


def _set_folder(call: ToolCall, folder: str) -> ToolCall:
    return call if call.folder == folder else replace(call, folder=folder)


def _build_grant(
    asked: _PendingCall, standing: _AutomaticDecision, reason: Rule | None, before: _SessionGrant | None
) -> _SessionGrant:
    known = before.outside if before and before.definition == asked.definition else frozenset[str]()
    return _SessionGrant(definition=asked.definition, rule=reason, outside=known.union(standing.outside))


def _compute_definition_digest(tool: Tool) -> str:
    told = json.dumps(asdict(tool), sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def _make_broken_result(error: BaseException) -> ToolResult:
    code = "tool_failed" if isinstance(error, Exception) else "cancelled"
    return ToolResult(text="", is_error=True, code=code)


def _make_unknown_tool_result(call: ToolCall, known: Iterable[str]) -> ToolResult:
    told = f"there is no tool `{call.name[:100]}`"
    return to_error_result(ToolError(told, hint=suggest_name(call.name, known), code="unknown_tool"))


def _make_refused_result(
    asked: _PendingCall, standing: _AutomaticDecision, answer: ApprovalResponse
) -> ToolResult:
    refused = _make_denied_result(asked.call, answer.reason, "approval_required")
    if not answer.nobody:
        return refused
    subject = asked.subject
    rule = make_exact_rule("allow", subject.server, subject.tool or asked.call.name)
    told = serialize_rule(replace(rule, after_outside="any") if standing.outside else rule)
    hint = f"\nhint: a rule that lets it go without a question: {_encode_json(told)}"
    return replace(refused, text=refused.text + hint, details={"rule": told})


def _make_denied_result(call: ToolCall, reason: str, code: str) -> ToolResult:
    why = f": {reason}" if reason else ""
    return ToolResult(
        text=f"Error ({code}): `{call.name}` was not approved, nothing was done{why}",
        is_error=True,
        code=code,
    )
