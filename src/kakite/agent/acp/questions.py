"""Puts a question of the model into a form, or a request for permission where an editor has none. Pure."""

from __future__ import annotations

from typing import Any

from acp import schema

from kakite.agent.acp.edited_files import text_content
from kakite.agent.session.person_questions import PersonQuestion

_NO_ANSWER = "none"


def build_question_form(
    question: PersonQuestion, session_id: str, call_id: str
) -> schema.ElicitationFormSessionMode:
    """Return the form of a question: one of the choices, or the person's own words."""
    options = [
        schema.EnumOption(const=choice.label, title=choice.label, description=choice.description or None)
        for choice in question.choices
    ]
    choice = schema.ElicitationStringPropertySchema(type="string", title="Answer", one_of=options)
    own = schema.ElicitationStringPropertySchema(type="string", title="Or in your own words")
    return schema.ElicitationFormSessionMode(
        session_id=session_id,
        tool_call_id=call_id or None,
        requested_schema=schema.ElicitationSchema(properties={"choice": choice, "text": own}),
    )


def parse_form_answer(answer: Any) -> str | None:
    """Return what was filled in; None: nothing was."""
    if not isinstance(answer, schema.AcceptElicitationResponse):
        return None
    content = answer.content or {}
    given = (content.get(name) for name in ("text", "choice"))
    return next((each.strip() for each in given if isinstance(each, str) and each.strip()), None)


def build_question_call(question: PersonQuestion, call_id: str) -> schema.ToolCallUpdate:
    """Return the call that a request for permission shows: the question, and what the choices mean."""
    told = [f"- {each.label}: {each.description}" for each in question.choices if each.description]
    return schema.ToolCallUpdate(
        tool_call_id=call_id,
        title=question.text,
        kind="other",
        status="pending",
        content=[text_content("\n".join((question.text, *told)))],
    )


def build_question_options(question: PersonQuestion) -> list[schema.PermissionOption]:
    """Return the choices as options, and one that gives no answer."""
    choices = [
        schema.PermissionOption(option_id=str(number), name=each.label, kind="allow_once")
        for number, each in enumerate(question.choices, start=1)
    ]
    return [*choices, schema.PermissionOption(option_id=_NO_ANSWER, name="No answer", kind="reject_once")]


def parse_option_answer(question: PersonQuestion, answer: schema.RequestPermissionResponse) -> str | None:
    """Return the choice of an option; None: none was chosen."""
    match answer.outcome:
        case schema.AllowedOutcome(option_id=chosen) if chosen != _NO_ANSWER:
            return question.to_answer(chosen)
        case _:
            return None
