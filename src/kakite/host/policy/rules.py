"""Parses, stores and evaluates rules: those in files, and the answers that a person gave for always.

Evaluation knows no person, no memory and no clock; only where paths lead is looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, assert_never, cast, get_args

from kakite import state_files
from kakite.errors import KakiteError, UsageError
from kakite.host.policy.matchers import (
    ArgumentMatcher,
    CommandPrefix,
    MatchResult,
    PathContext,
    PathGlob,
    match_all,
    match_any,
    split_chain,
)
from kakite.host.resource_uris import READ_OPERATION, has_parent_segment
from kakite.tools.arguments import suggest_name
from kakite.tools.toolset import Effect, JsonObject, Tool, ToolCall

RUN_COMMAND_TOOL = "run_command"

Decision = Literal["allow", "ask", "deny"]

Mode = Literal["ask", "edits", "all"]
"""How much goes without a question: looking only, edits of the workspace too, or everything."""

AfterOutside = Literal["ask", "own", "any"]
"""What becomes of an allowed call that writes or sends, once text from outside has reached the model: it is
asked again; it passes if that text came from the same server; it passes."""

_EFFECT_RANK: Mapping[Effect, int] = {"read": 0, "write": 1, "execute": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolIdentity:
    """The identity of a called tool, and what we believe of it. Without knowing better: the worst."""

    server: str = ""
    """Empty where there is one server only."""
    tool: str = ""
    """What the server itself calls the tool; empty: as the call does."""
    effect: Effect = "execute"
    open_world: bool = True
    project: str = ""
    """The absolute folder that relative paths are beneath; empty if that is not known."""
    place: PathContext | None = None
    """Where the call's paths lead; None: relative ones start in the project."""
    parameters: JsonObject = field(default_factory=dict, repr=False, compare=False)
    """JSON Schema of the tool's arguments; empty if that is not known."""

    def can_choose(self, argument: str) -> bool:
        """Return whether the server has to choose a value where this argument is left out."""
        properties, required = self.parameters.get("properties"), self.parameters.get("required")
        known = isinstance(properties, Mapping) and argument in properties
        return known and not (isinstance(required, list) and argument in required)

    @property
    def has_side_effects(self) -> bool:
        """Whether a call may change something, or tell somebody outside."""
        return self.effect != "read" or self.open_world


def identify_tool(call: ToolCall, tool: Tool | None, *, project: str = "") -> ToolIdentity:
    """Return the subject of a call by its name alone, ``server__tool`` or just the tool's."""
    server, found, own = call.name.partition("__")
    named = ToolIdentity(server=server, tool=own, project=project) if found else ToolIdentity(project=project)
    if tool is None:
        return named
    return ToolIdentity(
        server=named.server,
        tool=named.tool,
        effect=tool.effect,
        open_world=tool.open_world,
        project=project,
        parameters=tool.parameters,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for the calls that match."""

    decision: Decision
    tool: str = "*"
    """A glob over ``server__tool``; with ``server``, over the tool's own name."""
    arguments: Mapping[str, ArgumentMatcher] = field(default_factory=dict[str, ArgumentMatcher])
    """What must hold for arguments, also for those of a call's edits; what is about ``path`` also holds for
    ``source`` and ``destination``. One that is missing fits nothing; for a rule that asks or denies perhaps
    anything, where the tool has such an argument and chooses for itself what is meant then."""
    server: str = ""
    """Only tools of the server of exactly this name; empty: of any."""
    at_most: Effect = "execute"
    """Only tools of which we believe that they do no more than this; for allowing."""
    after_outside: AfterOutside = "ask"
    """For allowing: whether it holds after text from outside."""

    def match(self, call: ToolCall, subject: ToolIdentity) -> MatchResult:
        """Return how well this rule fits the call.

        What allows fits if every value of every argument that it names surely does; what asks or denies, if
        one value of each does, and perhaps if one cannot be judged.
        """
        if not self._is_applicable(call, subject):
            return MatchResult.NO
        if not self.arguments:
            return MatchResult.YES
        fits = (self._match_argument(name, call, subject) for name in self.arguments)
        return min(fits, default=MatchResult.YES)

    def _match_argument(self, name: str, call: ToolCall, subject: ToolIdentity) -> MatchResult:
        predicate = self.arguments[name]
        place = subject.place or PathContext(project=subject.project)
        value = _collect_values(call, name, predicate)
        # Where an address with `..` leads, only the server knows.
        leaves = subject.tool == READ_OPERATION and has_parent_segment(str(value))
        if self.decision == "allow":
            return MatchResult.NO if leaves else match_all(predicate, value, place)
        doubted = leaves or (value is None and subject.can_choose(name))
        return max(match_any(predicate, value, place), MatchResult.PERHAPS if doubted else MatchResult.NO)

    def is_match(self, call: ToolCall) -> bool:
        """Return whether this rule surely speaks of that call, whoever's the tool is."""
        return self.match(call, identify_tool(call, None)) is MatchResult.YES

    def _is_applicable(self, call: ToolCall, subject: ToolIdentity) -> bool:
        if self.server and self.server != subject.server:
            return False
        if self.decision == "allow" and _EFFECT_RANK[subject.effect] > _EFFECT_RANK[self.at_most]:
            return False
        own = subject.tool or call.name
        if self.decision == "allow" and subject.server and not self.server and "__" in self.tool:
            # Apart, so that `a__b__c` cannot be read as another server's tool.
            server, _, tool = self.tool.partition("__")
            return fnmatchcase(subject.server, server) and fnmatchcase(own, tool)
        name = own if self.server or not subject.server else f"{subject.server}__{own}"
        return fnmatchcase(name, self.tool)


_MOVE_ARGUMENTS = ("source", "destination")
"""A call with both moves or copies a file: what a rule says of ``path`` is about these two."""


def _collect_values(call: ToolCall, name: str, predicate: ArgumentMatcher) -> object:
    """Return what a call gives for an argument: a value, or all of several, also those of its edits.

    An object in a list may have a value of its own for an argument of this name; without, that of the call
    holds for it.
    """
    given = call.arguments.get(name)
    if isinstance(predicate, CommandPrefix):
        return given
    moved = [call.arguments.get(each) for each in _MOVE_ARGUMENTS] if name == "path" else []
    objects = [
        cast("Mapping[str, object]", each)
        for value in call.arguments.values()
        if isinstance(value, list)
        for each in cast("list[object]", value)
        if isinstance(each, Mapping)
    ]
    own = [each[name] for each in objects if each.get(name) is not None]
    further = [*own, *(moved if None not in moved else [])]
    if not further:
        return given
    several = [*further, given] if given is not None or len(own) < len(objects) else further
    return [
        one for each in several for one in (cast("list[object]", each) if isinstance(each, list) else [each])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDecision:
    """The decision of the rules, and the rule that made it."""

    decision: Decision
    rule: Rule | None = None
    """None: no rule speaks of this call."""


READ_ONLY_RULES = (
    Rule(decision="allow", tool="text_editor", arguments={"command": "view"}),
    Rule(decision="allow", tool="*__text_editor", arguments={"command": "view"}, at_most="write"),
    Rule(decision="allow", at_most="read"),
)
"""Lets go without a question what only looks, as far as we believe the server."""

MODES: Mapping[Mode, tuple[Rule, ...]] = {
    "ask": READ_ONLY_RULES,
    "edits": (
        Rule(decision="allow", tool="text_editor"),
        Rule(decision="allow", at_most="write"),
    ),
    "all": (Rule(decision="allow"),),
}


def evaluate_rules(
    rules: Sequence[Rule], call: ToolCall, subject: ToolIdentity | None = None
) -> PolicyDecision:
    """Return what the rules say of a call.

    A rule that denies wins wherever it stands; else the first that matches; without one: ask. Where a rule
    that denies cannot be judged, nothing is allowed without a question, and it is this rule that asks. So a
    further rule that denies never allows more, and only the order among those that allow and those that ask
    counts. A plain chain of commands of which no rule speaks is allowed if each command alone is.
    """
    about = subject or identify_tool(call, None)
    doubted: Rule | None = None
    for rule in rules:
        if rule.decision == "deny" and (fit := rule.match(call, about)) is not MatchResult.NO:
            if fit is MatchResult.YES:
                return PolicyDecision(decision="deny", rule=rule)
            doubted = doubted or rule
    first = next((rule for rule in rules if rule.decision != "deny" and rule.match(call, about)), None)
    if doubted is not None:
        return PolicyDecision(decision="ask", rule=doubted)
    if first is None and (allowing := _find_chain_allow(rules, call, about)):
        return PolicyDecision(decision="allow", rule=allowing)
    return PolicyDecision(decision=first.decision if first else "ask", rule=first)


_MOVING = frozenset(("cd", "chdir", "pushd", "popd"))
"""Commands of a shell that go to another folder."""


def _find_chain_allow(rules: Sequence[Rule], call: ToolCall, subject: ToolIdentity) -> Rule | None:
    """Return a rule that allows a command of a chain, where others allow all the rest of them.

    It is one of those that hold the least after text from outside.
    """
    if (subject.tool or call.name) != RUN_COMMAND_TOOL:
        return None
    allowing: list[Rule] = []
    moved = False
    for part in split_chain(call.arguments.get("command")) or ():
        alone = replace(call, arguments={**call.arguments, "command": part})
        verdict = evaluate_rules(rules, alone, subject)
        if verdict.decision != "allow" or verdict.rule is None:
            return None
        if moved and "cwd" in verdict.rule.arguments:  # which folder that is, nobody knows
            return None
        moved = moved or part.split(maxsplit=1)[0] in _MOVING
        allowing.append(verdict.rule)
    return min(allowing, key=lambda rule: get_args(AfterOutside).index(rule.after_outside), default=None)


def find_matching_allows(
    rules: Sequence[Rule], call: ToolCall, subject: ToolIdentity, first: Rule
) -> Iterator[Rule]:
    """Yield every rule that allows the call before the first that asks: each is reason enough.

    ``first`` is the one that ``evaluate_rules`` found.
    """
    yield first
    others = iter(rules)
    while next(others) is not first:
        pass
    for rule in others:
        if rule.decision != "deny" and rule.match(call, subject):
            if rule.decision == "ask":
                return
            yield rule


def decide(rules: Sequence[Rule], call: ToolCall, subject: ToolIdentity | None = None) -> Decision:
    """Return the decision of ``evaluate_rules``."""
    return evaluate_rules(rules, call, subject).decision


def build_auto_approve_rules(server: str, auto_approve: bool | Sequence[str]) -> tuple[Rule, ...]:  # noqa: FBT001 - as the configuration has it
    """Return the rules that a server's ``autoApprove`` stands for: all of its tools, or those of these globs.

    They hold after text from that server itself: else a server that is let go would ask at every second call.
    """
    globs: Sequence[str] = ("*",) if auto_approve is True else auto_approve or ()
    return tuple(Rule(decision="allow", server=server, tool=glob, after_outside="own") for glob in globs)


ToolNameResolver = Callable[[str], tuple[str, str]]
"""Which server and which tool of it a name that the model uses stands for."""


def parse_tool_name(name: str) -> tuple[str, str]:
    """Read ``server__tool`` as what it says; any other name is that of a tool where there is one server."""
    server, found, tool = name.partition("__")
    return (server, tool) if found else ("", "")


LOCK_TIMEOUT = 10.0  # s
MAX_FILE_BYTES = 4 * 1024 * 1024  # bytes
_SUCH = 'such as {"allow": "files__read_*"}'
_KEYS = ("server", "arguments", "at_most", "after_outside")


class RulesError(KakiteError):
    """The saved rules cannot be read or written, so that nobody knows what they forbid.

    Codes: ``rules_unusable``, ``no_such_rule``.
    """

    code = "rules_unusable"


def parse_rule(given: object) -> Rule:
    """Return the rule that a configuration or a person wrote.

    ``{"allow" | "ask" | "deny": GLOB, "server"?, "arguments"?, "at_most"?, "after_outside"?}``; of an
    argument: a text (a glob), ``{"path": GLOB}``, ``{"begins": WORDS}`` or a list of such words.

    Raises:
        UsageError: it is no such thing; the message names what is wrong, the hint the nearest known name.
    """
    rule = _check_object(given, "a rule")
    decisions = [name for name in get_args(Decision) if name in rule]
    if len(decisions) != 1:
        raise UsageError("a rule has one of `allow`, `ask` and `deny`", hint=_SUCH)
    for name in rule:
        if name not in {*_KEYS, *decisions}:
            hint = suggest_name(name, (*get_args(Decision), *_KEYS))
            raise UsageError(f"a rule has no `{name[:100]}`", hint=hint)
    decision = cast("Decision", decisions[0])
    if decision != "allow" and (widening := [name for name in ("at_most", "after_outside") if name in rule]):
        raise UsageError(f"`{widening[0]}` is for rules that allow", hint="leave it out")
    return Rule(
        decision=decision,
        tool=_check_text(rule[decision], f"`{decision}`"),
        server=_check_text(rule.get("server", ""), "`server`", empty=True),
        arguments={
            name: _parse_matcher(name, each)
            for name, each in _check_object(rule.get("arguments", {}), "`arguments`").items()
        },
        at_most=cast("Effect", _check_choice(rule.get("at_most", "execute"), "at_most", get_args(Effect))),
        after_outside=cast(
            "AfterOutside",
            _check_choice(rule.get("after_outside", "ask"), "after_outside", get_args(AfterOutside)),
        ),
    )


def serialize_rule(rule: Rule) -> JsonObject:
    """Return the rule as ``parse_rule`` takes it, without what goes without saying."""
    told: JsonObject = {rule.decision: rule.tool}
    if rule.server:
        told["server"] = rule.server
    if rule.arguments:
        told["arguments"] = {name: _serialize_matcher(each) for name, each in rule.arguments.items()}
    if rule.at_most != "execute":
        told["at_most"] = rule.at_most
    if rule.after_outside != "ask":
        told["after_outside"] = rule.after_outside
    return told


def make_exact_rule(decision: Decision, server: str, tool: str) -> Rule:
    """Return the rule for this one tool, whatever its name is made of."""
    return Rule(decision=decision, server=server, tool=_escape(tool))


def describe_scope(rule: Rule) -> str:
    """Return what a rule that an answer saves is about, in a few words: ``pytest … in this project``."""
    what = ", ".join(_describe_argument(name, matcher) for name, matcher in rule.arguments.items())
    command = rule.arguments.get("command")
    if isinstance(command, CommandPrefix) and len(rule.arguments) == 1:
        what = _describe_beginnings(command)
    else:
        what = f"{_unescape(rule.tool)} with {what or 'any arguments'}"
    return f"{what} of {rule.server} in this project" if rule.server else f"{what} in this project"


def _describe_argument(name: str, matcher: ArgumentMatcher) -> str:
    match matcher:
        case PathGlob(glob):
            return f"the path {json.dumps(_unescape(glob), ensure_ascii=False)}"
        case CommandPrefix():
            return f"{name}: {_describe_beginnings(matcher)}"
        case str():
            return f"{name} = {json.dumps(_unescape(matcher), ensure_ascii=False)}"
        case _:
            assert_never(matcher)


def _describe_beginnings(prefix: CommandPrefix) -> str:
    return " and ".join(f"{words} …" for words in prefix.beginnings)


def list_narrower_rules(rule: Rule, call: ToolCall, subject: ToolIdentity) -> tuple[Rule, ...]:
    """Return rules for less than all calls of a tool: with this very path, and with these very texts."""
    texts = {name: value for name, value in call.arguments.items() if isinstance(value, str)}
    given: list[Mapping[str, ArgumentMatcher]] = []
    if "path" in texts:
        given.append({"path": PathGlob(_escape(texts["path"]))})
    if texts and len(texts) == len(call.arguments) and sum(map(len, texts.values())) <= _MAX_RULE_CHARS:
        given.append({name: _escape(text) for name, text in texts.items()})
    found = (replace(rule, arguments=arguments) for arguments in given)
    return tuple(each for each in found if each.match(call, subject) is MatchResult.YES)


_MAX_RULE_CHARS = 2000  # characters of arguments that a rule repeats


def _escape(text: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def _unescape(glob: str) -> str:
    return re.sub(r"\[([*?\[])\]", r"\1", glob)


def _check_object(given: object, what: str) -> Mapping[str, Any]:
    if not isinstance(given, dict) or not all(
        isinstance(name, str) for name in cast("dict[Any, Any]", given)
    ):
        raise UsageError(f"{what} has to be an object", hint=_SUCH)
    return cast("JsonObject", given)


def _check_text(given: object, what: str, *, empty: bool = False) -> str:
    if not isinstance(given, str) or not (given or empty):
        raise UsageError(f"{what} has to be a text that is not empty", hint=_SUCH)
    return given


def _check_choice(given: object, what: str, known: tuple[str, ...]) -> str:
    if not isinstance(given, str) or given not in known:
        raise UsageError(f"`{what}` is one of {', '.join(known)}", hint=suggest_name(str(given)[:100], known))
    return given


def _parse_matcher(name: str, given: object) -> ArgumentMatcher:
    if isinstance(given, str):
        return given
    told = _check_object(given, f"what is asked of the argument `{name[:100]}`")
    match list(told.items()):
        case [("path", str(glob))] if glob:
            return PathGlob(glob)
        case [("begins", str(words))]:
            return CommandPrefix(words)
        case [("begins", [str(first), *others])] if all(isinstance(each, str) for each in others):
            return CommandPrefix(first, tuple(others))
        case _:
            raise UsageError(
                f"nothing can be asked of the argument `{name[:100]}` in this way",
                hint='write a glob, {"path": GLOB}, or {"begins": WORDS}',
            )


def _serialize_matcher(predicate: ArgumentMatcher) -> str | dict[str, str | list[str]]:
    match predicate:
        case PathGlob(glob):
            return {"path": glob}
        case CommandPrefix(words, others):
            return {"begins": [words, *others] if others else words}
        case str():
            return predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRule:
    """A rule that is kept."""

    number: int
    """By which it is removed; never given twice."""
    rule: Rule
    project: str
    """The absolute folder that it holds for; empty: everywhere."""
    made: str
    """When: UTC, ISO 8601."""
    definition: str = ""
    """Of an answer: the digest of the tool's definition that it was given for. Empty: whatever it is."""


class RuleStore:
    """The rules in a file of the user's state folder, shared by all processes that name the same folder."""

    def __init__(self, folder: Path) -> None:
        """Keep them in this folder, which is made with mode 0700 when something is saved."""
        self._folder = folder
        self.file = folder / "rules.json"
        self.on_add: Callable[[SavedRule], None] | None = None
        """Told of each rule that this object has saved."""
        self._seen: tuple[object, tuple[SavedRule, ...]] = (None, ())

    def list_rules(self) -> tuple[SavedRule, ...]:
        """Return all of them, in the order in which they were made.

        Raises:
            RulesError: the file cannot be read, or is none of ours.
        """
        stamp = self._read_stamp()
        if stamp is None:
            return ()
        if self._seen[0] != stamp:
            self._seen = (stamp, self._load()[1])
        return self._seen[1]

    def find_applicable(self, subject: ToolIdentity, name: str, definition: str) -> tuple[SavedRule, ...]:
        """Return those that hold in the subject's project for a tool with this definition (empty: with none).

        Answers that were given for another definition of the same tool are removed: they said nothing of it.

        Raises:
            RulesError: as ``all``.
        """
        here = [each for each in self.list_rules() if each.project in {"", subject.project}]
        if not here:
            return ()
        about = make_exact_rule("allow", subject.server, subject.tool or name)
        stale = {
            each.number
            for each in here
            if definition
            and each.definition not in {"", definition}
            and (each.rule.server, each.rule.tool) == (about.server, about.tool)
        }
        if stale:
            self._update(lambda rules: tuple(each for each in rules if each.number not in stale))
        return tuple(each for each in here if each.definition in {"", definition})

    def add(self, rule: Rule, *, project: str = "", definition: str = "") -> SavedRule:
        """Keep a rule; one that is kept already is not kept twice.

        Raises:
            RulesError: as ``all``, or the file cannot be written.
        """
        added: list[SavedRule] = []

        def append_rule(rules: tuple[SavedRule, ...], number: int) -> tuple[SavedRule, ...]:
            made = datetime.now(UTC).isoformat(timespec="seconds")
            new = SavedRule(number=number, rule=rule, project=project, made=made, definition=definition)
            same = [
                each
                for each in rules
                if (each.rule, each.project, each.definition) == (rule, project, definition)
            ]
            added[:] = same or [new]
            return rules if same else (*rules, new)

        self._update_numbered(append_rule)
        if self.on_add is not None:
            self.on_add(added[0])
        return added[0]

    def remove(self, *numbers: int) -> tuple[SavedRule, ...]:
        """Remove the rules with these numbers, all or none, and return them.

        Raises:
            RulesError: ``no_such_rule``: one of them is not there, and all are kept; else as ``add``.
        """
        found: list[SavedRule] = []

        def drop_rules(rules: tuple[SavedRule, ...]) -> tuple[SavedRule, ...]:
            by_number = {each.number: each for each in rules}
            if missing := [number for number in dict.fromkeys(numbers) if number not in by_number]:
                raise _make_no_such_rule_error(missing, by_number)
            found[:] = [by_number[number] for number in dict.fromkeys(numbers)]
            return tuple(each for each in rules if each.number not in numbers)

        self._update(drop_rules)
        return tuple(found)

    def _read_stamp(self) -> object:
        try:
            return state_files.read_stamp(self.file)
        except OSError as error:
            raise self._make_unusable_error(error) from error

    def _load(self) -> tuple[int, tuple[SavedRule, ...]]:
        """Return the number that comes next, and the rules."""
        try:
            data = state_files.read(self.file, MAX_FILE_BYTES)
            if data is None:
                return 1, ()
            told = json.loads(data)
            rules = tuple(_parse_saved_rule(each) for each in told["rules"])
            return max([int(told["next"]), *(each.number + 1 for each in rules)]), rules
        except OSError as error:
            raise self._make_unusable_error(error) from error
        except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
            raise self._make_unusable_error(OSError(0, "Kakite did not write it")) from error

    def _update(self, changing: _RulesUpdate) -> None:
        self._update_numbered(lambda rules, _number: changing(rules))

    def _update_numbered(self, changing: _NumberedRulesUpdate) -> None:
        try:
            with state_files.lock_file(self._folder / "rules.lock", LOCK_TIMEOUT):
                self._update_locked(changing)
        except OSError as error:
            raise self._make_unusable_error(error) from error

    def _update_locked(self, changing: _NumberedRulesUpdate) -> None:
        number, before = self._load()
        after = changing(before, number)
        if after == before:
            return
        number = max([number, *(each.number + 1 for each in after)])
        told = {"next": number, "rules": [_serialize_saved_rule(each) for each in after]}
        state_files.replace(self.file, json.dumps(told, ensure_ascii=False, indent=1).encode())

    def _make_unusable_error(self, error: OSError) -> RulesError:
        reason, hint = state_files.explain_os_error(error, self.file)
        if not error.errno:
            hint = "Kakite must know what is forbidden: repair or remove the file"
        return RulesError(f"the saved rules in `{self.file}` cannot be used: {reason}", hint=hint)


def _make_no_such_rule_error(missing: Sequence[int], known: Iterable[int]) -> RulesError:
    told = ", ".join(map(str, missing))
    what = f"is not a saved rule {told}" if len(missing) == 1 else f"are not saved rules {told}"
    there = ", ".join(map(str, known)) or "none"
    return RulesError(
        f"there {what}; nothing was removed", hint=f"those that are saved: {there}", code="no_such_rule"
    )


_RulesUpdate = Callable[[tuple[SavedRule, ...]], tuple[SavedRule, ...]]
_NumberedRulesUpdate = Callable[[tuple[SavedRule, ...], int], tuple[SavedRule, ...]]


def _parse_saved_rule(told: JsonObject) -> SavedRule:
    return SavedRule(
        number=int(told["number"]),
        rule=parse_rule(told["rule"]),
        project=str(told["project"]),
        made=str(told["made"]),
        definition=str(told["definition"]),
    )


def _serialize_saved_rule(saved: SavedRule) -> JsonObject:
    return {
        "number": saved.number,
        "rule": serialize_rule(saved.rule),
        "project": saved.project,
        "made": saved.made,
        "definition": saved.definition,
    }
