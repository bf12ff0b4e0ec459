"""Questions that the model asks the person: a few choices, or an answer in their own words.

Who can show one is a PersonApprover; where nobody can, the tool is not offered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kakite.agent.run.approvals import WaitClock
from kakite.host import Approver
from kakite.tools.arguments import ToolError
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.toolset import JsonObject, Tool, ToolResult

MIN_CHOICES, MAX_CHOICES = 2, 6
_NO_ANSWER = "The person gave no answer. Choose yourself and say what you chose, or ask in your last message."

_ALLOW_HOST = "yes, in this session"
_YES = frozenset((_ALLOW_HOST, "yes", "y"))

ASK_PERSON_TOOL = Tool(
    name="ask_person",
    title="Ask the person",
    description=(
        "Ask the person one question and wait for the answer: one of your choices, or their own words. "
        "Use it where the answer changes what you do next and nothing here tells it; not for permission, "
        "which is asked anyway."
    ),
    parameters={
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": 2000,
                "description": "The question, one",
            },
            "choices": {
                "type": "array",
                "minItems": MIN_CHOICES,
                "maxItems": MAX_CHOICES,
                "description": "The likely answers, the one you would take first",
                "items": {
                    "type": "object",
                    "properties": {
                        "label": {"type": "string", "minLength": 1, "maxLength": 100},
                        "description": {"type": "string", "maxLength": 500},
                    },
                    "required": ["label"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["question", "choices"],
        "additionalProperties": False,
    },
    effect="read",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionChoice:
    """One of the answers to choose from."""

    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonQuestion:
    """What the model wants to know. An answer may also be none of the choices."""

    text: str
    choices: tuple[QuestionChoice, ...]

    def to_answer(self, typed: str) -> str:
        """Return the answer that was typed: the label of a choice's number, or the words themselves."""
        words = typed.strip()
        if words.isascii() and words.isdecimal() and 1 <= int(words[:3]) <= len(self.choices):
            return self.choices[int(words[:3]) - 1].label
        return words


_HOST_CHOICES = (QuestionChoice(label=_ALLOW_HOST), QuestionChoice(label="no"))


@runtime_checkable
class PersonApprover(Approver, Protocol):
    """An approver with a person behind it, who answers questions too."""

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Return the answer, a choice's label or free text; None: the person gives none."""
        ...


def create_host_question(person: PersonApprover, waits: WaitClock) -> Callable[[str], Awaitable[bool | None]]:
    """Return what asks this person whether commands may reach a host, until the session ends.

    Their time counts as waiting, by ``waits``.
    """

    async def ask(host: str) -> bool | None:
        text = f"A command wants to reach {host}, which the network of this session leaves out. Allow it?"
        with waits.wait():
            answer = await person.ask_person(PersonQuestion(text=text, choices=_HOST_CHOICES))
        said = (answer or "").strip().lower()
        return said in _YES if said in {*_YES, "n", "no"} else None

    return ask


def create_ask_person_tool(person: PersonApprover, waits: WaitClock) -> FunctionTool:
    """Return the tool that asks this person. Their time counts as waiting, by ``waits``."""

    async def perform(arguments: JsonObject) -> ToolResult:
        question = _parse_question(arguments)
        with waits.wait():
            answer = await person.ask_person(question)
        return ToolResult(text=answer or _NO_ANSWER, details={"answer": answer or None})

    return FunctionTool(ASK_PERSON_TOOL, perform)


def _parse_question(arguments: JsonObject) -> PersonQuestion:
    choices = tuple(
        QuestionChoice(label=each["label"].strip(), description=each.get("description", ""))
        for each in arguments["choices"]
    )
    labels = {choice.label for choice in choices}
    if len(labels) < len(choices) or "" in labels:
        raise ToolError(
            "two choices have the same label, or one has none", hint="give each choice a different label"
        )
    return PersonQuestion(text=arguments["question"], choices=choices)
