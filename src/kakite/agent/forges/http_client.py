"""Sends requests to a forge's API in a thread, one after the other, and reads the responses.

A forge's library sends a single request; this module decides what its response means: JSON, a next page,
or an error. Reading requests are retried here where that helps. Writing requests are retried by the
operation that they belong to, which first checks whether it has been done. Knows no particular forge.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from kakite.agent.forges.base import ForgeCode, ForgeError
from kakite.terminal_text import escape_one_line

_MAX_MESSAGE: Final = 500  # characters of what a forge says
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
    "forge_unauthorized": "give Kakite a valid token",
    "forge_forbidden": "give the token the right to read and write code, issues and pull requests",
    "forge_not_found": "check the repository's name, and whether the token may see it",
    "forge_rejected": "the forge will refuse the same request again: read what it says",
    "forge_rate_limited": "wait until the forge answers again, or ask it for higher limits",
    "forge_unavailable": "check the network and the forge's address, or wait until it is up again",
    "forge_bad_reply": "check that the address is the one of the forge's API, of a version that is in use",
    "forge_conflict": "somebody changed it at the same moment: try again",
}
_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^,]*\brel="?next"?')
_TOKENS: Final = re.compile(r"\b(?:gh[a-z]_|github_pat_|glpat-|eyJ)[\w.-]{8,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request."""

    method: str
    path: str
    """Below the base address of the API, quoted."""
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = field(default=None, hash=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


_NO_REQUEST: Final = ApiRequest(method="GET", path="/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """A response of a forge's API."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str = field(repr=False)


def decode(forge: str, question: ApiRequest, answer: ApiResponse) -> Any:
    """Return what an answer says; None if it is empty.

    Raises:
        ForgeError: it says no, or nothing that can be read.
    """
    if not 200 <= answer.status < 300:
        raise make_response_error(forge, question, answer)
    if not answer.text.strip():
        return None
    try:
        return json.loads(answer.text)
    except ValueError:
        raise make_forge_error("forge_bad_reply", forge, question, "an answer that is not JSON") from None


def make_response_error(forge: str, question: ApiRequest, answer: ApiResponse) -> ForgeError:
    """Return the failure that an answer is."""
    retry_after, told = _parse_retry_after(answer), _extract_message(answer)
    if answer.status == 403 and (retry_after is not None or "rate limit" in told.casefold()):
        code: ForgeCode = "forge_rate_limited"
    elif answer.status >= 500:
        code = "forge_unavailable"
    elif 400 <= answer.status < 500:
        code = _CODES.get(answer.status, "forge_rejected")
    else:
        code = "forge_bad_reply"
    if code == "forge_rate_limited" and retry_after is None:
        retry_after = _SECONDARY
    return make_forge_error(
        code, forge, question, f"{answer.status}{f': {told}' if told else ''}", retry_after=retry_after
    )


def make_forge_error(
    code: ForgeCode, forge: str, question: ApiRequest, said: str, *, retry_after: float | None = None
) -> ForgeError:
    """Return a failure that names the request, and no secret."""
    return ForgeError(
        code,
        f"{forge} answered `{question.method} {question.path}` with {said}",
        hint=_HINTS[code],
        retry_after=retry_after,
    )


@contextmanager
def guard_parsing(forge: str, what: str) -> Generator[None]:
    """Take an answer apart; whatever is missing in it is one failure.

    Raises:
        ForgeError: the block met something that is not there, or is something else.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ForgeError(
            "forge_bad_reply",
            f"{forge} told of {what} in an unknown form: {type(error).__name__} {error}",
            hint=_HINTS["forge_bad_reply"],
        ) from None


def find_next_page(answer: ApiResponse) -> str | None:
    """Return the address of the next page; None after the last."""
    found = _NEXT.search(answer.headers.get("link", ""))
    return found[1] if found else None


def redact_secret(answer: ApiResponse, secret: str) -> ApiResponse:
    """Return an answer that does not hold this secret, as a refusal might."""
    return (
        replace(answer, text=answer.text.replace(secret, "[redacted]")) if secret in answer.text else answer
    )


def redact_tokens(text: str) -> str:
    """Return the text with whatever looks like a forge's token taken out."""
    return _TOKENS.sub("[redacted]", text)


def _extract_message(answer: ApiResponse) -> str:
    """Return what a forge says, in one line: GitHub and GitLab have five forms of it between them."""
    try:
        body = json.loads(answer.text)
    except ValueError:
        return ""
    if not isinstance(body, dict):
        return ""
    said = cast("dict[str, Any]", body)
    parts = [*_collect_words(said.get("message") or said.get("error")), *_collect_words(said.get("errors"))]
    told = "; ".join(dict.fromkeys(parts))
    return escape_one_line(redact_tokens(told))[:_MAX_MESSAGE]


def _collect_words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [word for each in cast("list[Any]", value) for word in _collect_words(each)]
    if isinstance(value, dict):
        told = cast("dict[str, Any]", value)
        if isinstance(told.get("message"), str):
            return [told["message"]]
        return [f"{key} {word}" for key, each in told.items() for word in _collect_words(each)]
    return []


def _parse_retry_after(answer: ApiResponse) -> float | None:
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
    return max(float(reset) - _parse_date(answer), 0.0) + 1.0


def _parse_date(answer: ApiResponse) -> float:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return float("inf")  # then one second is all that is known


_CACHE_SIZE: Final = 512  # answers; asking whether one still holds costs nothing of the limit
_MAX_PAGES: Final = 100

T = TypeVar("T")

Parser = Callable[[Any], T]
"""Takes the JSON of an answer apart. Whatever it misses there becomes ``forge_bad_reply``."""

Send = Callable[[ApiRequest], ApiResponse]
"""Sends one request and waits for the answer, whatever its status. Raises OSError where none came."""


def ignore(_body: Any) -> None:
    """Parse nothing: what the forge says of a change is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The time to retry requests to a forge. What takes longer is an error, and up to the caller."""

    attempts: int = 4
    pause: float = 0.5
    """Seconds before the second attempt; each further one waits twice as long."""
    longest: float = 60.0
    """Seconds that a forge may ask one to wait."""
    timeout: float = 30.0
    """Seconds without a byte after which a request has failed."""


class ForgeClient:
    """Asks one forge. Safe to use from several tasks and event loops."""

    def __init__(self, forge: str, send: Send, patience: RetryPolicy) -> None:
        self._forge = forge
        self._send = send
        self._patience = patience
        self._sending = threading.Lock()
        self._answers: OrderedDict[ApiRequest, ApiResponse] = OrderedDict()

    async def get(self, path: str, parse: Parser[T], **query: str) -> T:
        """Return what is there.

        Raises:
            ForgeError: it cannot be had, or ``parse`` does not know its form.
        """
        question = ApiRequest(method="GET", path=path, query=tuple(query.items()))
        return self._parse(question, await self._read(question), parse)

    async def get_all(self, path: str, parse: Parser[T], **query: str) -> list[T]:
        """Return a whole list, each item parsed, however many pages it has.

        Raises:
            ForgeError: it cannot be had or has no end, or ``parse`` does not know the form of an item.
        """
        question = ApiRequest(method="GET", path=path, query=(*query.items(), ("per_page", "100")))
        found: list[T] = []
        for _ in range(_MAX_PAGES):
            answer = await self._read(question)
            found += self._parse(question, answer, lambda body: list(map(parse, body or [])))
            following = find_next_page(answer)
            if following is None:
                return found
            # The path stays ours: an answer cannot send us, and our token, anywhere else.
            question = replace(question, query=tuple(parse_qsl(urlsplit(following).query)))
        raise ForgeError(
            "forge_bad_reply",
            f"`{path}` of {self._forge} has more than {_MAX_PAGES} pages",
            hint="close finished items, or give Kakite a separate repository",
        )

    async def write(self, method: str, path: str, parse: Parser[T], body: dict[str, Any] | None = None) -> T:
        """Change something and return what the forge says of it; see ``ignore``.

        Raises:
            ForgeError: it was not done; with ``forge_unavailable`` or ``forge_bad_reply`` it may have been.
        """
        question = ApiRequest(method=method, path=path, body=body)
        return self._parse(question, await self._send_with_retry(question, reads=False), parse)

    async def run_exclusive(self, work: Callable[[], T]) -> T:
        """Do something else that asks the forge, in a thread and apart from all requests.

        Raises:
            ForgeError: nobody answers.
        """
        return await asyncio.to_thread(self._run_locked, work)

    async def retry(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do what may be repeated, and do it again where it failed in a way that may pass.

        Raises:
            ForgeError: it failed each time, or in a way that does not pass.
        """
        for attempt in range(1, self._patience.attempts):
            try:
                return await operation()
            except ForgeError as error:
                if error.code not in {"forge_unavailable", "forge_conflict"}:
                    raise
            await asyncio.sleep(self._patience.pause * 2 ** (attempt - 1))
        return await operation()

    def _parse(self, question: ApiRequest, answer: ApiResponse, parse: Parser[T]) -> T:
        body = decode(self._forge, question, answer)
        with guard_parsing(self._forge, f"`{question.path}`"):
            return parse(body)

    async def _read(self, question: ApiRequest) -> ApiResponse:
        known = self._answers.get(question)
        tag = known.headers.get("etag", "") if known else ""
        asked = replace(question, headers={"If-None-Match": tag}) if tag else question
        answer = await self._send_with_retry(asked, reads=True)
        if answer.status == 304 and known is not None:
            self._answers.move_to_end(question)
            return known
        if answer.status == 200 and "etag" in answer.headers:
            self._answers[question] = answer
            if len(self._answers) > _CACHE_SIZE:
                self._answers.popitem(last=False)
        return answer

    async def _send_with_retry(self, question: ApiRequest, *, reads: bool) -> ApiResponse:
        """Ask until there is an answer that waiting would not make better, or patience ends."""
        for attempt in range(1, self._patience.attempts):
            try:
                return await asyncio.to_thread(self._send_locked, question)
            except ForgeError as error:
                wait = self._compute_delay(error, attempt, reads=reads)
                if wait is None:
                    raise
            await asyncio.sleep(wait)
        return await asyncio.to_thread(self._send_locked, question)

    def _compute_delay(self, error: ForgeError, attempt: int, *, reads: bool) -> float | None:
        """Return for how long to wait before one asks again; None if one does not."""
        if error.retry_after is not None and error.retryable:  # it has not been done, and will be later
            return error.retry_after if error.retry_after <= self._patience.longest else None
        again = error.code == "forge_unavailable" and reads
        return self._patience.pause * 2 ** (attempt - 1) if again else None

    def _run_locked(self, work: Callable[[], T], question: ApiRequest = _NO_REQUEST) -> T:
        # The libraries keep a connection between a request and its answer. Who does not wait any more leaves
        # a thread that still does, and the next one comes after it.
        with self._sending:
            try:
                return work()
            except OSError as error:
                asked = f"`{question.method} {question.path}`"
                raise ForgeError(
                    "forge_unavailable",
                    f"{self._forge} did not answer {asked}: {type(error).__name__}",
                    hint=_HINTS["forge_unavailable"],
                ) from None

    def _send_locked(self, question: ApiRequest) -> ApiResponse:
        answer = self._run_locked(lambda: self._send(question), question)
        if answer.status >= 400:
            raise make_response_error(self._forge, question, answer)
        return answer
