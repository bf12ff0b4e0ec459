"""Who may do what: rules first, then the person, and with nobody to ask, no."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from kakite.tools.arguments import ToolError, failed
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult, Toolset

Decision = Literal["allow", "ask", "deny"]

Mode = Literal["ask", "edits", "all"]
"""How much goes without a question: looking only, edits of the workspace too, or everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do with the calls that match."""

    decision: Decision
    tool: str = "*"
    """A glob over the tool's name."""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Globs over arguments that must be there; an argument that is no text never matches."""

    def matches(self, call: ToolCall) -> bool:
        """Return whether this rule speaks of that call."""
        return fnmatchcase(call.name, self.tool) and all(
            isinstance(value := call.arguments.get(name), str) and fnmatchcase(value, glob)
            for name, glob in self.arguments.items()
        )


LOOKING = (Rule(decision="allow", tool="text_editor", arguments={"command": "view"}),)

MODES: Mapping[Mode, tuple[Rule, ...]] = {
    "ask": LOOKING,
    "edits": (Rule(decision="allow", tool="text_editor"),),
    "all": (Rule(decision="allow"),),
}


def decide(rules: Sequence[Rule], call: ToolCall) -> Decision:
    """Return what the rules say: any deny wins, then the first that matches, and without one: ask."""
    matching: list[Decision] = [rule.decision for rule in rules if rule.matches(call)]
    if "deny" in matching:
        return "deny"
    return matching[0] if matching else "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked: the exact call, and for an edit its real diff."""

    call: ToolCall
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the person said."""

    allowed: bool
    reason: str = ""
    """For the model, when not allowed."""
    remember: Literal["once", "same_arguments", "tool"] = "once"
    """How long an allowance holds: for this call, or until the end of the session."""


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
        )


class ApprovedToolset:
    """A toolset whose calls pass the rules and the person first."""

    def __init__(self, toolset: Toolset, *, rules: Sequence[Rule], approver: Approver) -> None:
        self._toolset = toolset
        self._rules = tuple(rules)
        self._approver = approver
        self._allowed_calls: set[tuple[str, str]] = set()

    async def tools(self) -> tuple[Tool, ...]:
        """Return the toolset's tools: which there are needs no approval."""
        return await self._toolset.tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform the call if it is allowed; else the result says why not, and nothing was done."""
        tools = {tool.name: tool for tool in await self._toolset.tools()}
        if call.name not in tools:
            return _unknown(call, tools)
        decision = self._decide(call, tools[call.name])
        if decision == "deny":
            return _denied(call, "a rule forbids it", "denied")
        if decision == "ask":
            diff = await self._diff(call) if _previews(tools[call.name]) else ""
            answer = await self._approver.ask(Question(call=call, diff=diff))
            if not answer.allowed:
                return _denied(call, answer.reason, "approval_required")
            self._remember(call, answer)
        return await self._toolset.call(call)

    def _decide(self, call: ToolCall, tool: Tool) -> Decision:
        decision = decide(self._rules, call)
        if decision != "ask":
            return decision
        only_looks = _previews(tool) and call.arguments.get("preview") is True
        return "allow" if only_looks or _identity(call) in self._allowed_calls else "ask"

    async def _diff(self, call: ToolCall) -> str:
        # Whatever the model said of a preview itself: it has no say in what the person sees.
        preview = replace(call, arguments={**call.arguments, "preview": True})
        result = await self._toolset.call(preview)
        return str(result.details.get("diff", "")) or result.text

    def _remember(self, call: ToolCall, answer: Answer) -> None:
        if answer.remember == "same_arguments":
            self._allowed_calls.add(_identity(call))
        elif answer.remember == "tool":
            self._rules = (*self._rules, Rule(decision="allow", tool=call.name))


def _previews(tool: Tool) -> bool:
    # Only of a tool whose effects we believe: another server might do the deed in spite of the word.
    properties: JsonObject = tool.parameters.get("properties", {})
    return tool.effect == "write" and "preview" in properties


def _unknown(call: ToolCall, known: Iterable[str]) -> ToolResult:
    hint = f"known are {', '.join(known)}"
    return failed(ToolError(f"there is no tool `{call.name}`", hint=hint, code="unknown_tool"))


def _identity(call: ToolCall) -> tuple[str, str]:
    import json

    return call.name, json.dumps(call.arguments, sort_keys=True)


def _denied(call: ToolCall, reason: str, code: str) -> ToolResult:
    why = f": {reason}" if reason else ""
    return ToolResult(
        text=f"Error ({code}): `{call.name}` was not approved, nothing was done{why}",
        is_error=True,
        code=code,
    )
