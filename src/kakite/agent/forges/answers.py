"""What an answer of a forge's API means: JSON, the next page, or one of our failures. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kakite.agent.forges.forge import ForgeCode, ForgeError
from kakite.visible import visible_name

_TOLD: Final = 500  # characters of what a forge says
_SECONDARY: Final = 60.0  # s; GitHub's advice where it names no time
_CODES: Final[Mapping[int, ForgeCode]] = {
    401: "forge_unauthorized",
    403: "forge_forbidden",
    404: "forge_not_found",
    408: "forge_unavailable",
    409: "forge_conflict",
    410: "forge_not_found",
    429: "forge_rate_limited",
}
_HINTS: Final[Mapping[ForgeCode, str]] = {
    "forge_unauthorized": "give Kakite a token that is valid",
    "forge_forbidden": "give the token the right to read and write code, issues and pull requests",
    "forge_not_found": "check the repository's name, and whether the token may see it",
    "forge_rejected": "the same request will be refused again: look at what the forge says",
    "forge_rate_limited": "wait until the forge answers again, or ask it for higher limits",
    "forge_unavailable": "check the network and the forge's address, or wait until it is up again",
    "forge_bad_reply": "check that the address is the one of the forge's API, of a version that is in use",
    "forge_conflict": "somebody changed it at the same moment: try again",
}
_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^,]*\brel="?next"?')
_TOKENS: Final = re.compile(r"\b(?:gh[a-z]_|github_pat_|glpat-|eyJ)[\w.-]{8,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request."""

    method: str
    path: str
    """Below the base address of the API, quoted."""
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = field(default=None, hash=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str = field(repr=False)


def decode(forge: str, question: Question, answer: Answer) -> Any:
    """Return what an answer says; None if it is empty.

    Raises:
        ForgeError: it says no, or nothing that can be read.
    """
    if not 200 <= answer.status < 300:
        raise refusal(forge, question, answer)
    if not answer.text.strip():
        return None
    try:
        return json.loads(answer.text)
    except ValueError:
        raise failure("forge_bad_reply", forge, question, "an answer that is no JSON") from None


def refusal(forge: str, question: Question, answer: Answer) -> ForgeError:
    """Return the failure that an answer is."""
    retry_after = _retry_after(answer)
    if answer.status == 403 and (retry_after is not None or _speaks_of_limit(answer)):
        code: ForgeCode = "forge_rate_limited"
    elif answer.status >= 500:
        code = "forge_unavailable"
    elif 400 <= answer.status < 500:
        code = _CODES.get(answer.status, "forge_rejected")
    else:
        code = "forge_bad_reply"
    if code == "forge_rate_limited" and retry_after is None:
        retry_after = _SECONDARY
    told = _message(answer)
    return failure(
        code, forge, question, f"{answer.status}{f': {told}' if told else ''}", retry_after=retry_after
    )


def failure(
    code: ForgeCode, forge: str, question: Question, said: str, *, retry_after: float | None = None
) -> ForgeError:
    """Return a failure that names the request, and no secret."""
    return ForgeError(
        code,
        f"{forge} answered `{question.method} {question.path}` with {said}",
        hint=_HINTS[code],
        retry_after=retry_after,
    )


def unreachable(forge: str, question: Question, error: Exception) -> ForgeError:
    """Return the failure of a request that nobody answered."""
    return ForgeError(
        "forge_unavailable",
        f"{forge} did not answer `{question.method} {question.path}`: {type(error).__name__}",
        hint=_HINTS["forge_unavailable"],
    )


@contextmanager
def reading(forge: str, what: str) -> Generator[None]:
    """Take an answer apart; whatever is missing in it is one failure.

    Raises:
        ForgeError: the block met something that is not there, or is something else.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ForgeError(
            "forge_bad_reply",
            f"{forge} told of {what} in a form that is not known: {type(error).__name__} {error}",
            hint=_HINTS["forge_bad_reply"],
        ) from None


def next_page(answer: Answer) -> str | None:
    """Return the address of the next page; None after the last."""
    found = _NEXT.search(answer.headers.get("link", ""))
    return found[1] if found else None


def without_secret(answer: Answer, secret: str) -> Answer:
    """Return an answer that does not hold this secret, as a refusal might."""
    return (
        replace(answer, text=answer.text.replace(secret, "[redacted]")) if secret in answer.text else answer
    )


def without_tokens(text: str) -> str:
    """Return the text with whatever looks like a forge's token taken out."""
    return _TOKENS.sub("[redacted]", text)


def _message(answer: Answer) -> str:
    """Return what a forge says, in one line: GitHub and GitLab have five forms of it between them."""
    try:
        body = json.loads(answer.text)
    except ValueError:
        return ""
    if not isinstance(body, dict):
        return ""
    said = _mapped(body)
    parts = [*_words(said.get("message") or said.get("error")), *_words(said.get("errors"))]
    told = "; ".join(dict.fromkeys(parts))
    return visible_name(without_tokens(told))[:_TOLD]


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [word for each in _listed(value) for word in _words(each)]
    if isinstance(value, dict):
        told = _mapped(value)
        if isinstance(told.get("message"), str):
            return [told["message"]]
        return [f"{key} {word}" for key, each in told.items() for word in _words(each)]
    return []


def _listed(value: Any) -> list[Any]:
    return value


def _mapped(value: Any) -> dict[str, Any]:
    return value


def _speaks_of_limit(answer: Answer) -> bool:
    return "rate limit" in _message(answer).casefold()


def _retry_after(answer: Answer) -> float | None:
    """Return how many seconds a forge asks one to wait, where it does.

    The reset of a limit is told as a time; the forge's own clock, which came with it, is what it counts by.
    """
    told = answer.headers.get("retry-after", "")
    if told.isdigit():
        return float(told)
    prefix = "x-ratelimit" if "x-ratelimit-remaining" in answer.headers else "ratelimit"
    reset = answer.headers.get(f"{prefix}-reset", "")
    if answer.headers.get(f"{prefix}-remaining") != "0" or not reset.isdigit():
        return None
    return max(float(reset) - _told_at(answer), 0.0) + 1.0


def _told_at(answer: Answer) -> float:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return float("inf")  # then one second is all that is known
