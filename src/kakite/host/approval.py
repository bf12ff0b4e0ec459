"""Who may do what: rules first, then the person, and with nobody to ask, no."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, Protocol

from kakite.host.judging import (
    LOOKING,
    MODES,
    Decision,
    Mode,
    Naming,
    Rule,
    Subject,
    Verdict,
    allowances,
    auto_approval,
    decide,
    judge,
    plain_naming,
)
from kakite.host.outside import Outside
from kakite.host.rules import RulesError, SavedRule, SavedRules, exactly, written
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

log = logging.getLogger(__name__)

__all__ = [
    "LOOKING",
    "MODES",
    "Answer",
    "ApprovedToolset",
    "Approver",
    "Decision",
    "Mode",
    "NobodyToAsk",
    "Question",
    "Rule",
    "Setting",
    "Settled",
    "Subject",
    "Verdict",
    "auto_approval",
    "decide",
    "judge",
]

Remember = Literal["once", "same_arguments", "tool", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked: the exact call, and for an edit its real diff."""

    call: ToolCall
    """All arguments are the call's own, whole. Whoever shows them makes odd characters visible."""
    diff: str = ""
    server: str = ""
    """Empty where there is one server only."""
    tool: str = ""
    """What the server calls the tool; empty: as the call does."""
    outside: tuple[str, ...] = ()
    """Servers whose text from outside reached the model since this tool was last let go: why it is asked
    although a rule or an answer would let it pass."""
    saves: bool = False
    """Whether the answer can be ``always``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the person said."""

    allowed: bool
    reason: str = ""
    """For the model, when not allowed."""
    remember: Remember = "once"
    """How long an allowance holds: for this call, until the end of the session, or until it is removed. The
    last is as ``tool`` where nothing can be saved."""
    nobody: bool = False
    """Whether there was nobody to answer."""


class Approver(Protocol):
    """A person, or something that answers in a person's place."""

    async def ask(self, question: Question) -> Answer:
        """Answer the question. May take hours."""
        ...


class NobodyToAsk:
    """Says no to all: what runs without a person."""

    async def ask(self, question: Question) -> Answer:  # noqa: ARG002 - the Protocol's parameter
        """Say no."""
        return Answer(
            allowed=False,
            reason="nobody is here to be asked. Go on without this call, or say what you would have done",
            nobody=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One call and what became of it: for whoever keeps a trace."""

    call: ToolCall
    server: str
    tool: str
    decision: Literal["allow", "deny"]
    by: str
    """What decided: ``rule {…}``, ``saved 3``, ``session tool``, ``answer once``, ``preview``, ``nobody``…"""
    result: ToolResult
    seconds: float
    """That the call took; 0 if it was not made."""
    waited: float
    """Seconds until it was decided: most of it a person's thinking."""


def _unheard(_settled: Settled) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What surrounds the approval of a session's calls."""

    naming: Naming = plain_naming
    """Which server and tool a name stands for; rules are about those."""
    project: str = ""
    """The absolute folder that path globs without ``/`` begin at, and that saved answers hold for."""
    ask_after_outside: bool = True
    """Whether what writes or sends is asked again after text from outside has reached the model."""
    saved: SavedRules | None = None
    """Where answers for always go, and rules made by hand come from; None: nothing is saved."""
    definition: Callable[[str], str] | None = None
    """A digest of the definition of the tool of this name; None: one is made of the tool as it is listed."""
    listener: Callable[[Settled], None] = _unheard
    """Told of every call once it is settled. Must not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """A person's yes for the rest of the session."""

    definition: str
    rule: Rule | None = None
    """The rule that made us ask: the answer holds where the same one, or none, does."""
    outside: frozenset[str] = frozenset()
    """Whose text from outside the person knew of when saying so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A call that is being decided."""

    call: ToolCall
    tool: Tool
    subject: Subject
    definition: str
    saved: tuple[SavedRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What is decided without the person."""

    decision: Decision
    by: str
    rule: Rule | None = None
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ruling:
    """What is decided at last: the call to make, or the result that says why not."""

    by: str
    call: ToolCall | None = None
    refusal: ToolResult | None = None


@dataclass(slots=True)
class _Session:
    """What the person has said so far, and what came in."""

    calls: dict[tuple[str, str], _Grant] = field(default_factory=dict[tuple[str, str], _Grant])
    tools: dict[str, _Grant] = field(default_factory=dict[str, _Grant])
    outside: Outside = field(default_factory=Outside)


_NOWHERE = Setting()


class ApprovedToolset:
    """A toolset whose calls pass the rules and the person first."""

    def __init__(
        self, toolset: Toolset, *, rules: Sequence[Rule], approver: Approver, setting: Setting = _NOWHERE
    ) -> None:
        self.rules = tuple(rules)
        """May be exchanged at any time; holds from the next call on."""
        self._toolset = toolset
        self._approver = approver
        self._setting = setting
        self._session = _Session()
        self._digests: dict[str, tuple[Tool, str]] = {}
        self._turn = asyncio.Lock()  # a person answers one question at a time

    async def tools(self) -> tuple[Tool, ...]:
        """Return the toolset's tools: which there are needs no approval."""
        return await self._toolset.tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform the call if it is allowed; else the result says why not, and nothing was done."""
        began = time.monotonic()
        tools = {tool.name: tool for tool in await self._toolset.tools()}
        if call.name not in tools:
            return _unknown(call, tools)
        subject = self._subject(call, tools[call.name])
        try:
            ruling = await self._rule(call, tools[call.name], subject)
        except RulesError as error:  # rules that cannot be read may forbid it
            ruling = _Ruling(by="rules", refusal=failed(error))
        decided = time.monotonic()
        if ruling.call is not None:
            result = await self._perform(ruling.call, subject)
        else:
            result = ruling.refusal or _denied(call, "", "denied")
        self._setting.listener(
            Settled(
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
        return result

    async def _perform(self, call: ToolCall, subject: Subject) -> ToolResult:
        result = await self._toolset.call(call)
        if subject.open_world:
            self._session.outside.came_from(subject.server or call.name)
        return result

    def _subject(self, call: ToolCall, tool: Tool) -> Subject:
        server, own = self._setting.naming(call.name)
        return Subject(
            server=server,
            tool=own,
            effect=tool.effect,
            open_world=tool.open_world,
            project=self._setting.project,
        )

    async def _rule(self, call: ToolCall, tool: Tool, subject: Subject) -> _Ruling:
        if (standing := self._standing(self._asked(call, tool, subject))).decision == "ask":
            async with self._turn:  # an answer meanwhile may cover this call too
                asked = self._asked(call, tool, subject)
                if (standing := self._standing(asked)).decision == "ask":
                    return await self._ask(asked, standing)
        if standing.decision == "allow":
            return _Ruling(by=standing.by, call=call)
        return _Ruling(by=standing.by, refusal=_denied(call, "a rule forbids it", "denied"))

    def _asked(self, call: ToolCall, tool: Tool, subject: Subject) -> _Asked:
        definition = self._definition(call, tool)
        saved = self._setting.saved
        held = () if saved is None else saved.holding(subject, call.name, definition)
        return _Asked(call=call, tool=tool, subject=subject, definition=definition, saved=held)

    def _definition(self, call: ToolCall, tool: Tool) -> str:
        if self._setting.definition:
            return self._setting.definition(call.name)
        known = self._digests.get(call.name)
        if known is None or known[0] is not tool:
            known = self._digests[call.name] = tool, _definition(tool)
        return known[1]

    def _standing(self, asked: _Asked) -> _Standing:
        verdict = judge(self._rules(asked), asked.call, asked.subject)
        if verdict.decision == "deny":
            return _Standing(decision="deny", by=_by(verdict.rule, asked.saved), rule=verdict.rule)
        outside: tuple[str, ...] = ()
        for by, covered in self._passes(asked, verdict):
            outside = () if covered is None else self._new_outside(asked, covered)
            if not outside:
                return _Standing(decision="allow", by=by, rule=verdict.rule)
        return _Standing(decision="ask", by="", rule=verdict.rule, outside=outside)

    def _rules(self, asked: _Asked) -> tuple[Rule, ...]:
        return (*self.rules, *(each.rule for each in asked.saved))

    def _passes(self, asked: _Asked, verdict: Verdict) -> Iterator[tuple[str, Collection[str] | None]]:
        """Yield what lets the call go, and whose text from outside does not count then; None: nobody's."""
        call, rule = asked.call, verdict.rule
        doubted = rule is not None and rule.decision == "deny"
        if _previews(asked.tool) and call.arguments.get("preview") is True and not doubted:
            yield "preview", None
        if verdict.decision == "allow":
            for each in allowances(self._rules(asked), call, asked.subject):
                covered = {"ask": (), "own": (asked.subject.server,), "any": None}[each.after_outside]
                yield _by(each, asked.saved), covered
        exact = self._session.calls.get(_identity(call))
        if exact and exact.definition == asked.definition:
            yield "session same_arguments", exact.outside
        whole = self._session.tools.get(call.name)
        holds = whole and whole.definition == asked.definition and not doubted
        if whole and holds and (verdict.decision == "allow" or whole.rule == rule):
            yield "session tool", whole.outside

    def _new_outside(self, asked: _Asked, covered: Collection[str]) -> tuple[str, ...]:
        if not self._setting.ask_after_outside or not asked.subject.sends or _looks(asked.tool, asked.call):
            return ()
        return self._session.outside.since(asked.call.name, but=covered)

    async def _ask(self, asked: _Asked, standing: _Standing) -> _Ruling:
        call = asked.call
        preview = await self._preview(call) if _shows(asked.tool, call) else None
        if preview is not None and preview.is_error:
            return _Ruling(by="preview", refusal=preview)  # it would fail: nobody need be asked
        question = Question(
            call=call,
            diff="" if preview is None else str(preview.details.get("diff", "")) or preview.text,
            server=asked.subject.server,
            tool=asked.subject.tool,
            outside=standing.outside,
            saves=self._setting.saved is not None and standing.rule is None,
        )
        mark = self._session.outside.mark()
        answer = await self._approver.ask(question)
        if not answer.allowed:
            by = "nobody" if answer.nobody else "answer no"
            return _Ruling(by=by, refusal=_refusal(asked, standing, answer))
        self._session.outside.weighed(call.name, mark)
        remembered = self._remember(asked, standing, answer, saves=question.saves)
        bound = "" if preview is None else str(preview.details.get("bound", ""))
        return _Ruling(by=f"answer {remembered}", call=replace(call, bound=bound or call.bound))

    async def _preview(self, call: ToolCall) -> ToolResult:
        # Whatever the model said of a preview itself: it has no say in what the person sees.
        return await self._toolset.call(replace(call, arguments={**call.arguments, "preview": True}))

    def _remember(self, asked: _Asked, standing: _Standing, answer: Answer, *, saves: bool) -> Remember:
        call, session = asked.call, self._session
        reason = standing.rule if standing.rule and standing.rule.decision != "allow" else None
        match answer.remember:
            case "once":
                return "once"
            case "same_arguments":
                key = _identity(call)
                session.calls[key] = _granted(asked, standing, reason, session.calls.get(key))
                return "same_arguments"
            case "tool" | "always":
                session.tools[call.name] = _granted(asked, standing, reason, session.tools.get(call.name))
                return "always" if answer.remember == "always" and saves and self._save(asked) else "tool"

    def _save(self, asked: _Asked) -> bool:
        assert self._setting.saved is not None
        subject, project = asked.subject, self._setting.project
        rule = exactly("allow", subject.server, subject.tool or asked.call.name)
        try:
            self._setting.saved.add(rule, project=project, definition=asked.definition)
        except RulesError:
            log.warning("an answer for always could not be saved, and holds for this session", exc_info=True)
            return False
        return True


def _granted(asked: _Asked, standing: _Standing, reason: Rule | None, before: _Grant | None) -> _Grant:
    known = before.outside if before and before.definition == asked.definition else frozenset[str]()
    return _Grant(definition=asked.definition, rule=reason, outside=known.union(standing.outside))


def _by(rule: Rule | None, saved: Iterable[SavedRule]) -> str:
    number = next((each.number for each in saved if each.rule is rule), None)
    if number is not None:
        return f"saved {number}"
    return "" if rule is None else f"rule {json.dumps(written(rule), ensure_ascii=False)}"


def _definition(tool: Tool) -> str:
    told = json.dumps(asdict(tool), sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def _previews(tool: Tool) -> bool:
    # Only of a tool whose effects we believe: another server might do the deed in spite of the word.
    properties: JsonObject = tool.parameters.get("properties", {})
    return tool.effect == "write" and "preview" in properties


def _looks(tool: Tool, call: ToolCall) -> bool:
    """Return whether this call of a tool that can write only looks: our editor's ``view``."""
    return _previews(tool) and call.arguments.get("command") == "view"


def _shows(tool: Tool, call: ToolCall) -> bool:
    return _previews(tool) and not _looks(tool, call)


def _unknown(call: ToolCall, known: Iterable[str]) -> ToolResult:
    told = f"there is no tool `{call.name[:100]}`"
    return failed(ToolError(told, hint=nearest(call.name, known), code="unknown_tool"))


def _identity(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(call.arguments, sort_keys=True)


def _refusal(asked: _Asked, standing: _Standing, answer: Answer) -> ToolResult:
    refused = _denied(asked.call, answer.reason, "approval_required")
    if not answer.nobody:
        return refused
    subject = asked.subject
    rule = exactly("allow", subject.server, subject.tool or asked.call.name)
    told = written(replace(rule, after_outside="any") if standing.outside else rule)
    hint = f"\nhint: a rule that lets it go without a question: {json.dumps(told, ensure_ascii=False)}"
    return replace(refused, text=refused.text + hint, details={"rule": told})


def _denied(call: ToolCall, reason: str, code: str) -> ToolResult:
    why = f": {reason}" if reason else ""
    return ToolResult(
        text=f"Error ({code}): `{call.name}` was not approved, nothing was done{why}",
        is_error=True,
        code=code,
    )
