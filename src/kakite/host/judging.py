"""What the rules say of a call. No person, no memory, no clock; only where paths lead is looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, cast

from kakite.host.predicates import CommandPrefix, Fit, Place, Predicate, all_fit, any_fits
from kakite.tools.toolset import Effect, JsonObject, Tool, ToolCall

Decision = Literal["allow", "ask", "deny"]

Mode = Literal["ask", "edits", "all"]
"""How much goes without a question: looking only, edits of the workspace too, or everything."""

AfterOutside = Literal["ask", "own", "any"]
"""What becomes of an allowed call that writes or sends, once text from outside has reached the model: it is
asked again; it passes if that text came from the same server; it passes."""

_HARM: Mapping[Effect, int] = {"read": 0, "write": 1, "execute": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose tool a call is for, and what we believe of that tool. Without knowing better: the worst."""

    server: str = ""
    """Empty where there is one server only."""
    tool: str = ""
    """What the server itself calls the tool; empty: as the call does."""
    effect: Effect = "execute"
    open_world: bool = True
    project: str = ""
    """The absolute folder that relative paths are beneath; empty if that is not known."""
    place: Place | None = None
    """Where the call's paths lead; None: relative ones start in the project."""
    parameters: JsonObject = field(default_factory=dict, repr=False, compare=False)
    """JSON Schema of the tool's arguments; empty if that is not known."""

    def may_choose(self, argument: str) -> bool:
        """Return whether the server has to choose a value where this argument is left out."""
        properties, required = self.parameters.get("properties"), self.parameters.get("required")
        known = isinstance(properties, Mapping) and argument in properties
        return known and not (isinstance(required, list) and argument in required)

    @property
    def sends(self) -> bool:
        """Whether a call may change something, or tell somebody outside."""
        return self.effect != "read" or self.open_world


def subject_of(call: ToolCall, tool: Tool | None, *, project: str = "") -> Subject:
    """Return the subject of a call by its name alone, ``server__tool`` or just the tool's."""
    server, found, own = call.name.partition("__")
    named = Subject(server=server, tool=own, project=project) if found else Subject(project=project)
    if tool is None:
        return named
    return Subject(
        server=named.server,
        tool=named.tool,
        effect=tool.effect,
        open_world=tool.open_world,
        project=project,
        parameters=tool.parameters,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do with the calls that match."""

    decision: Decision
    tool: str = "*"
    """A glob over ``server__tool``; with ``server``, over the tool's own name."""
    arguments: Mapping[str, Predicate] = field(default_factory=dict[str, Predicate])
    """What must hold for arguments, also for those of a call's edits; what is about ``path`` also holds for
    ``source`` and ``destination``. One that is missing fits nothing; for a rule that asks or denies perhaps
    anything, where the tool has such an argument and chooses for itself what is meant then."""
    server: str = ""
    """Only tools of the server of exactly this name; empty: of any."""
    at_most: Effect = "execute"
    """Only tools of which we believe that they do no more than this; for allowing."""
    after_outside: AfterOutside = "ask"
    """For allowing: whether it holds after text from outside."""

    def fit(self, call: ToolCall, subject: Subject) -> Fit:
        """Return how well this rule fits the call.

        What allows fits if every value of every argument that it names surely does; what asks or denies, if
        one value of each does, and perhaps if one cannot be judged.
        """
        if not self._is_for(call, subject):
            return Fit.NO
        if not self.arguments:
            return Fit.YES
        place = subject.place or Place(project=subject.project)
        fits = (
            self._argument_fits(
                predicate, _values_of(call, name, predicate), place, chosen=subject.may_choose(name)
            )
            for name, predicate in self.arguments.items()
        )
        return min(fits, default=Fit.YES)

    def _argument_fits(self, predicate: Predicate, value: object, place: Place, *, chosen: bool) -> Fit:
        if self.decision == "allow":
            return all_fit(predicate, value, place)
        return Fit.PERHAPS if value is None and chosen else any_fits(predicate, value, place)

    def matches(self, call: ToolCall) -> bool:
        """Return whether this rule surely speaks of that call, whoever's the tool is."""
        return self.fit(call, subject_of(call, None)) is Fit.YES

    def _is_for(self, call: ToolCall, subject: Subject) -> bool:
        if self.server and self.server != subject.server:
            return False
        if self.decision == "allow" and _HARM[subject.effect] > _HARM[self.at_most]:
            return False
        own = subject.tool or call.name
        if self.decision == "allow" and subject.server and not self.server and "__" in self.tool:
            # Apart, so that `a__b__c` cannot be read as another server's tool.
            server, _, tool = self.tool.partition("__")
            return fnmatchcase(subject.server, server) and fnmatchcase(own, tool)
        name = own if self.server or not subject.server else f"{subject.server}__{own}"
        return fnmatchcase(name, self.tool)


_MOVING = ("source", "destination")
"""A call with both moves or copies a file: what a rule says of ``path`` is about these two."""


def _values_of(call: ToolCall, name: str, predicate: Predicate) -> object:
    """Return what a call gives for an argument: a value, or all of several, also those of its edits.

    An object in a list may have a value of its own for an argument of this name; without, that of the call
    holds for it.
    """
    given = call.arguments.get(name)
    if isinstance(predicate, CommandPrefix):
        return given
    moved = [call.arguments.get(each) for each in _MOVING] if name == "path" else []
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
class Verdict:
    """What the rules say, and which of them said it."""

    decision: Decision
    rule: Rule | None = None
    """None: no rule speaks of this call."""


LOOKING = (
    Rule(decision="allow", tool="text_editor", arguments={"command": "view"}),
    Rule(decision="allow", tool="*__text_editor", arguments={"command": "view"}, at_most="write"),
    Rule(decision="allow", at_most="read"),
)
"""Lets go without a question what only looks, as far as we believe the server."""

MODES: Mapping[Mode, tuple[Rule, ...]] = {
    "ask": LOOKING,
    "edits": (Rule(decision="allow", tool="text_editor"), Rule(decision="allow", at_most="write")),
    "all": (Rule(decision="allow"),),
}


def judge(rules: Sequence[Rule], call: ToolCall, subject: Subject | None = None) -> Verdict:
    """Return what the rules say of a call.

    A rule that denies wins wherever it stands; else the first that matches; without one: ask. Where a rule
    that denies cannot be judged, nothing is allowed without a question, and it is this rule that asks. So a
    further rule that denies never allows more, and only the order among those that allow and those that ask
    counts.
    """
    about = subject or subject_of(call, None)
    doubted: Rule | None = None
    for rule in rules:
        if rule.decision == "deny" and (fit := rule.fit(call, about)) is not Fit.NO:
            if fit is Fit.YES:
                return Verdict(decision="deny", rule=rule)
            doubted = doubted or rule
    first = next((rule for rule in rules if rule.decision != "deny" and rule.fit(call, about)), None)
    if doubted is not None:
        return Verdict(decision="ask", rule=doubted)
    return Verdict(decision=first.decision if first else "ask", rule=first)


def allowances(rules: Sequence[Rule], call: ToolCall, subject: Subject, first: Rule) -> Iterator[Rule]:
    """Yield every rule that allows the call before the first that asks: each is reason enough.

    ``first`` is the one that ``judge`` found.
    """
    yield first
    others = iter(rules)
    while next(others) is not first:
        pass
    for rule in others:
        if rule.decision != "deny" and rule.fit(call, subject):
            if rule.decision == "ask":
                return
            yield rule


def decide(rules: Sequence[Rule], call: ToolCall, subject: Subject | None = None) -> Decision:
    """Return the decision of ``judge``."""
    return judge(rules, call, subject).decision


def auto_approval(server: str, auto_approve: bool | Sequence[str]) -> tuple[Rule, ...]:  # noqa: FBT001 - as the configuration has it
    """Return the rules that a server's ``autoApprove`` stands for: all of its tools, or those of these globs.

    They hold after text from that server itself: else a server that is let go would ask at every second call.
    """
    globs: Sequence[str] = ("*",) if auto_approve is True else auto_approve or ()
    return tuple(Rule(decision="allow", server=server, tool=glob, after_outside="own") for glob in globs)


Naming = Callable[[str], tuple[str, str]]
"""Which server and which tool of it a name that the model uses stands for."""


def plain_naming(name: str) -> tuple[str, str]:
    """Read ``server__tool`` as what it says; any other name is that of a tool where there is one server."""
    server, found, tool = name.partition("__")
    return (server, tool) if found else ("", "")
