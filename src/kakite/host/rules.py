"""Rules as people write them, and those that are kept: answers for always, and what was added by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

from kakite.errors import KakiteError, UsageError
from kakite.host.judging import AfterOutside, Decision, Rule, Subject
from kakite.host.predicates import CommandPrefix, PathGlob, Predicate
from kakite.tools.arguments import nearest
from kakite.tools.toolset import Effect, JsonObject
from kakite.workspace import records

LOCK_WAIT = 10.0  # s
FILE_MOST = 4 * 1024 * 1024  # bytes
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
    argument: a text (a glob), ``{"path": GLOB}`` or ``{"begins": WORDS}``.

    Raises:
        UsageError: it is no such thing; the message names what is wrong, the hint the nearest known name.
    """
    rule = _object(given, "a rule")
    decisions = [name for name in get_args(Decision) if name in rule]
    if len(decisions) != 1:
        raise UsageError("a rule has one of `allow`, `ask` and `deny`", hint=_SUCH)
    for name in rule:
        if name not in {*_KEYS, *decisions}:
            hint = nearest(name, (*get_args(Decision), *_KEYS))
            raise UsageError(f"a rule has no `{name[:100]}`", hint=hint)
    decision = cast("Decision", decisions[0])
    if decision != "allow" and (widening := [name for name in ("at_most", "after_outside") if name in rule]):
        raise UsageError(f"`{widening[0]}` is for rules that allow", hint="leave it out")
    return Rule(
        decision=decision,
        tool=_text(rule[decision], f"`{decision}`"),
        server=_text(rule.get("server", ""), "`server`", empty=True),
        arguments={
            name: _predicate(name, each)
            for name, each in _object(rule.get("arguments", {}), "`arguments`").items()
        },
        at_most=cast("Effect", _one_of(rule.get("at_most", "execute"), "at_most", get_args(Effect))),
        after_outside=cast(
            "AfterOutside", _one_of(rule.get("after_outside", "ask"), "after_outside", get_args(AfterOutside))
        ),
    )


def written(rule: Rule) -> JsonObject:
    """Return the rule as ``parse_rule`` takes it, without what goes without saying."""
    told: JsonObject = {rule.decision: rule.tool}
    if rule.server:
        told["server"] = rule.server
    if rule.arguments:
        told["arguments"] = {name: _written(each) for name, each in rule.arguments.items()}
    if rule.at_most != "execute":
        told["at_most"] = rule.at_most
    if rule.after_outside != "ask":
        told["after_outside"] = rule.after_outside
    return told


def exactly(decision: Decision, server: str, tool: str) -> Rule:
    """Return the rule for this one tool, whatever its name is made of."""
    return Rule(decision=decision, server=server, tool=re.sub(r"[*?\[]", r"[\g<0>]", tool))


def _object(given: object, what: str) -> Mapping[str, Any]:
    if not isinstance(given, dict) or not all(
        isinstance(name, str) for name in cast("dict[Any, Any]", given)
    ):
        raise UsageError(f"{what} has to be an object", hint=_SUCH)
    return cast("JsonObject", given)


def _text(given: object, what: str, *, empty: bool = False) -> str:
    if not isinstance(given, str) or not (given or empty):
        raise UsageError(f"{what} has to be a text that is not empty", hint=_SUCH)
    return given


def _one_of(given: object, what: str, known: tuple[str, ...]) -> str:
    if not isinstance(given, str) or given not in known:
        raise UsageError(f"`{what}` is one of {', '.join(known)}", hint=nearest(str(given)[:100], known))
    return given


def _predicate(name: str, given: object) -> Predicate:
    if isinstance(given, str):
        return given
    told = _object(given, f"what is asked of the argument `{name[:100]}`")
    match list(told.items()):
        case [("path", str(glob))] if glob:
            return PathGlob(glob)
        case [("begins", str(words))]:
            return CommandPrefix(words)
        case _:
            raise UsageError(
                f"nothing can be asked of the argument `{name[:100]}` in this way",
                hint='write a glob, {"path": GLOB}, or {"begins": WORDS}',
            )


def _written(predicate: Predicate) -> str | dict[str, str]:
    match predicate:
        case PathGlob(glob):
            return {"path": glob}
        case CommandPrefix(words):
            return {"begins": words}
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


class SavedRules:
    """The rules in a file of the user's state folder, shared by all processes that name the same folder."""

    def __init__(self, folder: Path) -> None:
        """Keep them in this folder, which is made with mode 0700 when something is saved."""
        self._folder = folder
        self.file = folder / "rules.json"
        self._seen: tuple[object, tuple[SavedRule, ...]] = (None, ())

    def all(self) -> tuple[SavedRule, ...]:
        """Return all of them, in the order in which they were made.

        Raises:
            RulesError: the file cannot be read, or is none of ours.
        """
        stamp = self._stamp()
        if stamp is None:
            return ()
        if self._seen[0] != stamp:
            self._seen = (stamp, self._load()[1])
        return self._seen[1]

    def holding(self, subject: Subject, name: str, definition: str) -> tuple[SavedRule, ...]:
        """Return those that hold in the subject's project for a tool with this definition (empty: with none).

        Answers that were given for another definition of the same tool are removed: they said nothing of it.

        Raises:
            RulesError: as ``all``.
        """
        here = [each for each in self.all() if each.project in {"", subject.project}]
        if not here:
            return ()
        about = exactly("allow", subject.server, subject.tool or name)
        stale = {
            each.number
            for each in here
            if definition
            and each.definition not in {"", definition}
            and (each.rule.server, each.rule.tool) == (about.server, about.tool)
        }
        if stale:
            self._change(lambda rules: tuple(each for each in rules if each.number not in stale))
        return tuple(each for each in here if each.definition in {"", definition})

    def add(self, rule: Rule, *, project: str = "", definition: str = "") -> SavedRule:
        """Keep a rule; one that is kept already is not kept twice.

        Raises:
            RulesError: as ``all``, or the file cannot be written.
        """
        added: list[SavedRule] = []

        def put(rules: tuple[SavedRule, ...], number: int) -> tuple[SavedRule, ...]:
            made = datetime.now(UTC).isoformat(timespec="seconds")
            new = SavedRule(number=number, rule=rule, project=project, made=made, definition=definition)
            same = [
                each
                for each in rules
                if (each.rule, each.project, each.definition) == (rule, project, definition)
            ]
            added[:] = same or [new]
            return rules if same else (*rules, new)

        self._change_numbered(put)
        return added[0]

    def remove(self, *numbers: int) -> tuple[SavedRule, ...]:
        """Remove the rules with these numbers, all or none, and return them.

        Raises:
            RulesError: ``no_such_rule``: one of them is not there, and all are kept; else as ``add``.
        """
        found: list[SavedRule] = []

        def without(rules: tuple[SavedRule, ...]) -> tuple[SavedRule, ...]:
            by_number = {each.number: each for each in rules}
            if missing := [number for number in dict.fromkeys(numbers) if number not in by_number]:
                raise _no_such(missing, by_number)
            found[:] = [by_number[number] for number in dict.fromkeys(numbers)]
            return tuple(each for each in rules if each.number not in numbers)

        self._change(without)
        return tuple(found)

    def _stamp(self) -> object:
        try:
            return records.stamp(self.file)
        except OSError as error:
            raise self._unusable(error) from error

    def _load(self) -> tuple[int, tuple[SavedRule, ...]]:
        """Return the number that comes next, and the rules."""
        try:
            data = records.read(self.file, FILE_MOST)
            if data is None:
                return 1, ()
            told = json.loads(data)
            rules = tuple(_saved(each) for each in told["rules"])
            return max([int(told["next"]), *(each.number + 1 for each in rules)]), rules
        except OSError as error:
            raise self._unusable(error) from error
        except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
            raise self._unusable(OSError(0, "it is none that Kakite wrote")) from error

    def _change(self, changing: _Changing) -> None:
        self._change_numbered(lambda rules, _number: changing(rules))

    def _change_numbered(self, changing: _Numbered) -> None:
        try:
            with records.locked(self._folder / "rules.lock", LOCK_WAIT):
                self._change_alone(changing)
        except OSError as error:
            raise self._unusable(error) from error

    def _change_alone(self, changing: _Numbered) -> None:
        number, before = self._load()
        after = changing(before, number)
        if after == before:
            return
        number = max([number, *(each.number + 1 for each in after)])
        told = {"next": number, "rules": [_told(each) for each in after]}
        records.replace(self.file, json.dumps(told, ensure_ascii=False, indent=1).encode())

    def _unusable(self, error: OSError) -> RulesError:
        reason, hint = records.trouble(error, self.file)
        if not error.errno:
            hint = "nothing goes without knowing what is forbidden: mend or remove the file"
        return RulesError(f"the saved rules in `{self.file}` cannot be used: {reason}", hint=hint)


def _no_such(missing: Sequence[int], known: Iterable[int]) -> RulesError:
    told = ", ".join(map(str, missing))
    what = f"is no saved rule {told}" if len(missing) == 1 else f"are no saved rules {told}"
    there = ", ".join(map(str, known)) or "none"
    return RulesError(
        f"there {what}; nothing was removed", hint=f"those that are saved: {there}", code="no_such_rule"
    )


_Changing = Callable[[tuple[SavedRule, ...]], tuple[SavedRule, ...]]
_Numbered = Callable[[tuple[SavedRule, ...], int], tuple[SavedRule, ...]]


def _saved(told: JsonObject) -> SavedRule:
    return SavedRule(
        number=int(told["number"]),
        rule=parse_rule(told["rule"]),
        project=str(told["project"]),
        made=str(told["made"]),
        definition=str(told["definition"]),
    )


def _told(saved: SavedRule) -> JsonObject:
    return {
        "number": saved.number,
        "rule": written(saved.rule),
        "project": saved.project,
        "made": saved.made,
        "definition": saved.definition,
    }
