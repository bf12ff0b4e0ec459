"""Takes a model's last message as JSON of a given form, and asks for it again where it is not."""

from __future__ import annotations

import json
from typing import Any

from kakite.agent.session.session import Session, TurnResult
from kakite.errors import KakiteError
from kakite.models.messages import UserMessage

MAX_REPAIRS = 2
"""How often the model is asked again for an answer that does not fit the schema."""


class AnswerError(KakiteError):
    """The model's answer does not fit the schema. Code: ``answer_invalid``."""

    code = "answer_invalid"
    exit_code = 1


async def repair_answer(session: Session, result: TurnResult, schema: Any) -> tuple[TurnResult, object]:
    """Return the last turn and the value of its answer, which fits; None if the turn has ended otherwise.

    Raises:
        AnswerError: it does not fit, also after it was asked for again.
    """
    for _ in range(MAX_REPAIRS):
        value, problem = parse_answer(result.text, schema)
        if not problem or result.reason != "answered":
            return result, value
        asked = f"Your answer does not fit the schema: {problem}. Answer again."
        result = await session.prompt(UserMessage(text=asked))
    value, problem = parse_answer(result.text, schema)
    if problem:
        raise AnswerError(f"the model's answer does not fit the schema: {problem}")
    return result, value


def parse_answer(text: str, schema: Any) -> tuple[object, str]:
    """Return the JSON value of an answer, and what is wrong with it: empty for nothing."""
    from jsonschema import Draft202012Validator

    body = text.strip()
    if body.startswith("```") and body.endswith("```") and "\n" in body:
        body = body.split("\n", 1)[1].rsplit("```", 1)[0]
    try:
        value: object = json.loads(body)
    except ValueError as error:
        return None, f"it is not JSON ({error})"
    validator: Any = Draft202012Validator(schema)
    first = next(iter(validator.iter_errors(value)), None)
    if first is None:
        return value, ""
    return value, f"{first.message} (at {first.json_path})"
