"""Who may do what: rules first, then the person, and with nobody to ask, no."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

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
from kakite.host.places import ANYWHERE, FORGOTTEN, MOVER, Places
from kakite.host.predicates import Place
from kakite.host.previews import bound_by, diff_of, guards, looking, looks, previews, shows
from kakite.host.questions import Answer, Approver, NobodyToAsk, Question, Remember, Settled
from kakite.host.rules import RulesError, SavedRule, SavedRules, exactly, written
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.toolset import Tool, ToolCall, ToolResult, Toolset

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


def _unheard(_settled: Settled) -> None:
    """Listen to nothing."""


async def _unnoted() -> None:
    """Take no note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What surrounds the approval of a session's calls."""

    naming: Naming = plain_naming
    """Which server and tool a name stands for; rules are about those."""
    project: str = ""
    """The absolute folder that path globs without ``/`` begin at, and that saved answers hold for."""
    place: Callable[[str], Place] | None = None
    """Where the paths of a server's calls lead, at its start; None: relative ones start in the project."""
    ask_after_outside: bool = True
    """Whether what writes or sends is asked again after text from outside has reached the model."""
    saved: SavedRules | None = None
    """Where answers for always go, and rules made by hand come from; None: nothing is saved."""
    definition: Callable[[str], str] | None = None
    """A digest of the definition of the tool of this name, empty if it is not listed; None: one is made of
    the tool as it is listed."""
    begins: Callable[[], Awaitable[None]] = _unnoted
    """Awaited when a call was let go, right before it is made: until then nothing of it has had an effect."""
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


class _UnlistedError(Exception):
    """The tool is not listed any more: nobody knows which rules and answers are about it."""


_Identity = tuple[str, str, str | None]
"""A tool's name, its arguments, and where relative paths among those start, if that was moved."""


@dataclass(slots=True, kw_only=True)
class _Session:
    """What the person has said so far, what came in, and where calls lead."""

    places: Places
    calls: dict[_Identity, _Grant] = field(default_factory=dict[_Identity, _Grant])
    tools: dict[str, _Grant] = field(default_factory=dict[str, _Grant])
    outside: Outside = field(default_factory=Outside)


_NOWHERE = Setting()

_WORDS_MOST = 1000  # rules that are kept in words
_encoded = json.JSONEncoder(ensure_ascii=False).encode

_EXCHANGED = "the tool, or its server, changed while the person was asked. See what it is now, and call again"

_UNMOVED = frozenset(("bad_arguments", "bad_path", "path_escapes", "file_not_found", "not_a_directory"))
"""Codes of a refusal to move that surely moved nothing."""


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
        project = Place(project=setting.project)
        self._session = _Session(places=Places(setting.place or (lambda _server: project)))
        self._digests: dict[str, tuple[Tool, str]] = {}
        self._words: dict[int, tuple[Rule, str]] = {}
        self._known: tuple[tuple[Tool, ...], dict[str, Tool]] = ((), {})
        self._turn = asyncio.Lock()  # a person answers one question at a time

    async def tools(self) -> tuple[Tool, ...]:
        """Return the toolset's tools: which there are needs no approval."""
        return await self._toolset.tools()

    def came_from(self, source: str) -> None:
        """Take note that the model was told something in a server's own words, other than by a call here."""
        self._session.outside.came_from(source)

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform the call if it is allowed; else the result says why not, and nothing was done."""
        tools = await self._by_name()
        if call.name not in tools:
            return _unknown(call, tools)
        server, own = self._setting.naming(call.name)
        moving = (own or call.name) == MOVER
        async with self._session.places.kept(server, moving=moving):
            return await self._settled(_in_folder(call, ""), tools[call.name], moving=moving)

    async def _by_name(self) -> dict[str, Tool]:
        tools = await self._toolset.tools()
        if self._known[0] is not tools:
            self._known = tools, {tool.name: tool for tool in tools}
        return self._known[1]

    async def _settled(self, call: ToolCall, tool: Tool, *, moving: bool) -> ToolResult:
        began = time.monotonic()
        subject = self._subject(call, tool, moving=moving)
        try:
            ruling = await self._rule(call, tool, subject)
        except RulesError as error:  # rules that cannot be read may forbid it
            ruling = _Ruling(by="rules", refusal=failed(error))
        except _UnlistedError:
            ruling = _Ruling(by="definition", refusal=_unknown(call, ()))
        decided = time.monotonic()

        def tell(result: ToolResult) -> None:
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

        try:
            result = await self._made(ruling, call, subject, moving=moving)
        except BaseException as error:  # cancelled too: it was sent, and may have done anything
            tell(_broken(error))
            raise
        tell(result)
        return result

    async def _made(self, ruling: _Ruling, call: ToolCall, subject: Subject, *, moving: bool) -> ToolResult:
        if ruling.call is None:
            return ruling.refusal or _denied(call, "", "denied")
        await self._setting.begins()
        if moving:
            return await self._move(ruling.call, subject)
        return await self._perform(self._there(ruling.call, subject), subject)

    async def _move(self, call: ToolCall, subject: Subject) -> ToolResult:
        """Perform a call that says where later ones start; where that is not sure, it may be anywhere."""
        places, server = self._session.places, subject.server
        before = places.moved_to(server)
        places.move(server, ANYWHERE)
        result = await self._perform(call, subject)
        believed = subject.effect == "write"  # only of a server that is trusted
        if believed and result.is_error and result.code in _UNMOVED:
            places.move(server, before)
        elif believed and not result.is_error:
            places.move(server, str(result.details.get("folder") or ANYWHERE))
        return result

    def _there(self, call: ToolCall, subject: Subject) -> ToolCall:
        """Return the call so that it is refused where a server that was started again forgot its folder."""
        return _in_folder(call, self._session.places.moved_to(subject.server) or "")

    async def _perform(self, call: ToolCall, subject: Subject) -> ToolResult:
        result = await self._toolset.call(call)
        if result.code == FORGOTTEN:
            self._session.places.move(subject.server, None)
        if subject.open_world:
            self._session.outside.came_from(subject.server or call.name)
        return result

    def _subject(self, call: ToolCall, tool: Tool, *, moving: bool) -> Subject:
        server, own = self._setting.naming(call.name)
        return Subject(
            server=server,
            tool=own,
            effect=tool.effect,
            open_world=tool.open_world,
            project=self._setting.project,
            place=self._session.places.of(server, moving=moving),
            parameters=tool.parameters,
        )

    async def _rule(self, call: ToolCall, tool: Tool, subject: Subject) -> _Ruling:
        if (standing := self._standing(self._asked(call, tool, subject))).decision == "ask":
            async with self._turn:  # an answer meanwhile may cover this call too
                mark = self._session.outside.mark()  # what comes in from now on, the question does not tell
                asked = self._asked(call, tool, subject)
                if (standing := self._standing(asked)).decision == "ask":
                    return await self._ask(asked, standing, mark)
        if standing.decision == "allow":
            return _Ruling(by=standing.by, call=call)
        return _Ruling(by=standing.by, refusal=_denied(call, "a rule forbids it", "denied"))

    def _asked(self, call: ToolCall, tool: Tool, subject: Subject) -> _Asked:
        definition = self._definition(call, tool)
        if not definition:
            raise _UnlistedError
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
            return _Standing(decision="deny", by=self._by(verdict.rule, asked.saved), rule=verdict.rule)
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
        if previews(asked.tool) and call.arguments.get("preview") is True and self._may_look(asked, rule):
            yield "preview", None
        if verdict.decision == "allow" and rule is not None:
            for each in allowances(self._rules(asked), call, asked.subject, rule):
                covered = {"ask": (), "own": (asked.subject.server,), "any": None}[each.after_outside]
                yield self._by(each, asked.saved), covered
        exact = self._session.calls.get(self._identity(asked))
        if exact and exact.definition == asked.definition:
            yield "session same_arguments", exact.outside
        whole = self._session.tools.get(call.name)
        holds = whole and whole.definition == asked.definition and not doubted
        if whole and holds and (verdict.decision == "allow" or whole.rule == rule):
            yield "session tool", whole.outside

    def _may_look(self, asked: _Asked, rule: Rule | None) -> bool:
        """Return whether the model may see unasked what is in a file, as a preview tells of it.

        Not where a rule asks or might forbid the call; and only where the rules would let it look there.
        """
        if guards(rule):
            return False
        look = replace(asked.call, arguments=looking(asked.call))
        verdict = judge(self._rules(asked), look, replace(asked.subject, effect="read"))
        return verdict.decision == "allow"

    def _by(self, rule: Rule | None, saved: Iterable[SavedRule]) -> str:
        number = next((each.number for each in saved if each.rule is rule), None)
        if number is not None:
            return f"saved {number}"
        return "" if rule is None else self._told(rule)

    def _told(self, rule: Rule) -> str:
        """Return the rule in words, which are found once: most calls go by one of a few rules."""
        known = self._words.get(id(rule))
        if known is None or known[0] is not rule:
            if len(self._words) >= _WORDS_MOST:
                self._words.clear()
            known = self._words[id(rule)] = rule, f"rule {_encoded(written(rule))}"
        return known[1]

    def _identity(self, asked: _Asked) -> _Identity:
        folder = self._session.places.moved_to(asked.subject.server)
        return asked.call.name, json.dumps(asked.call.arguments, sort_keys=True), folder

    def _new_outside(self, asked: _Asked, covered: Collection[str]) -> tuple[str, ...]:
        if not self._setting.ask_after_outside or not asked.subject.sends or looks(asked.tool, asked.call):
            return ()
        return self._session.outside.since(asked.call.name, but=covered)

    async def _ask(self, asked: _Asked, standing: _Standing, mark: int) -> _Ruling:
        call = asked.call
        preview = await self._preview(asked) if shows(asked.tool, call) else None
        if preview is not None and preview.is_error and self._may_look(asked, standing.rule):
            return _Ruling(by="preview", refusal=preview)  # it would fail: nobody need be asked
        question = Question(
            call=call,
            diff=diff_of(preview),
            server=asked.subject.server,
            tool=asked.subject.tool,
            outside=standing.outside,
            saves=self._setting.saved is not None and standing.rule is None,
            folder=self._session.places.moved_to(asked.subject.server),
            definition=asked.definition,
            bound=bound_by(preview),
        )
        answer = await self._approver.ask(question)
        if not answer.allowed:
            by = "nobody" if answer.nobody else "answer no"
            return _Ruling(by=by, refusal=_refusal(asked, standing, answer))
        if exchanged := await self._exchanged(asked):
            return _Ruling(by="definition", refusal=exchanged)
        self._session.outside.weighed(call.name, mark)
        remembered = self._remember(asked, standing, answer, saves=question.saves)
        return _Ruling(by=f"answer {remembered}", call=replace(call, bound=question.bound or call.bound))

    async def _exchanged(self, asked: _Asked) -> ToolResult | None:
        """Return why a yes counts for nothing: what was asked about is something else by now."""
        call = asked.call
        tools = await self._by_name()
        tool = tools.get(call.name)
        if tool is None:
            return _unknown(call, tools)
        if self._definition(call, tool) != asked.definition:
            return _denied(call, _EXCHANGED, "approval_required")
        return None

    async def _preview(self, asked: _Asked) -> ToolResult:
        # Whatever the model said of a preview itself: it has no say in what the person sees.
        call = self._there(asked.call, asked.subject)
        return await self._toolset.call(replace(call, arguments={**call.arguments, "preview": True}))

    def _remember(self, asked: _Asked, standing: _Standing, answer: Answer, *, saves: bool) -> Remember:
        call, session = asked.call, self._session
        reason = standing.rule if guards(standing.rule) else None
        match answer.remember:
            case "once":
                return "once"
            case "same_arguments":
                key = self._identity(asked)
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


def _in_folder(call: ToolCall, folder: str) -> ToolCall:
    return call if call.folder == folder else replace(call, folder=folder)


def _granted(asked: _Asked, standing: _Standing, reason: Rule | None, before: _Grant | None) -> _Grant:
    known = before.outside if before and before.definition == asked.definition else frozenset[str]()
    return _Grant(definition=asked.definition, rule=reason, outside=known.union(standing.outside))


def _definition(tool: Tool) -> str:
    told = json.dumps(asdict(tool), sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def _broken(error: BaseException) -> ToolResult:
    code = "tool_failed" if isinstance(error, Exception) else "cancelled"
    return ToolResult(text="", is_error=True, code=code)


def _unknown(call: ToolCall, known: Iterable[str]) -> ToolResult:
    told = f"there is no tool `{call.name[:100]}`"
    return failed(ToolError(told, hint=nearest(call.name, known), code="unknown_tool"))


def _refusal(asked: _Asked, standing: _Standing, answer: Answer) -> ToolResult:
    refused = _denied(asked.call, answer.reason, "approval_required")
    if not answer.nobody:
        return refused
    subject = asked.subject
    rule = exactly("allow", subject.server, subject.tool or asked.call.name)
    told = written(replace(rule, after_outside="any") if standing.outside else rule)
    hint = f"\nhint: a rule that lets it go without a question: {_encoded(told)}"
    return replace(refused, text=refused.text + hint, details={"rule": told})


def _denied(call: ToolCall, reason: str, code: str) -> ToolResult:
    why = f": {reason}" if reason else ""
    return ToolResult(
        text=f"Error ({code}): `{call.name}` was not approved, nothing was done{why}",
        is_error=True,
        code=code,
    )
