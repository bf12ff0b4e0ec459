"""Questions to a forge's API: in a thread, one after the other, with patience. Knows no forge.

A forge's library sends one request; what becomes of the answer is decided here, for all forges alike. What
only reads is asked again by itself where that helps. What writes is asked again by the operation that it
belongs to, which first looks whether it has been done.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from kakite.agent.forges.answers import Answer, Question, decode, next_page, refusal, unreachable
from kakite.agent.forges.forge import ForgeError

_KEPT: Final = 512  # answers; asking whether one still holds costs nothing of the limit
_MOST_PAGES: Final = 100

T = TypeVar("T")

Send = Callable[[Question], Answer]
"""Sends one request and waits for the answer, whatever its status. Raises OSError where none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one waits for a forge by oneself. What takes longer is told, and is up to who asked."""

    attempts: int = 4
    pause: float = 0.5
    """Seconds before the second attempt; each further one waits twice as long."""
    longest: float = 60.0
    """Seconds that a forge may ask one to wait."""
    timeout: float = 30.0
    """Seconds without a byte after which a request has failed."""


class Exchange:
    """Asks one forge. Safe to use from several tasks and event loops."""

    def __init__(self, forge: str, send: Send, patience: Patience) -> None:
        self._forge = forge
        self._send = send
        self._patience = patience
        self._sending = threading.Lock()
        self._answers: OrderedDict[Question, Answer] = OrderedDict()

    async def get(self, path: str, **query: str) -> Any:
        """Return what is there.

        Raises:
            ForgeError: it cannot be had.
        """
        question = Question(method="GET", path=path, query=tuple(query.items()))
        return decode(self._forge, question, await self._read(question))

    async def pages(self, path: str, **query: str) -> list[Any]:
        """Return a whole list, however many pages it has.

        Raises:
            ForgeError: it cannot be had, or has no end.
        """
        question = Question(method="GET", path=path, query=(*query.items(), ("per_page", "100")))
        found: list[Any] = []
        for _ in range(_MOST_PAGES):
            answer = await self._read(question)
            found += decode(self._forge, question, answer) or []
            following = next_page(answer)
            if following is None:
                return found
            # The path stays ours: an answer cannot send us, and our token, anywhere else.
            question = replace(question, query=tuple(parse_qsl(urlsplit(following).query)))
        raise ForgeError(
            "forge_bad_reply",
            f"`{path}` of {self._forge} has more than {_MOST_PAGES} pages",
            hint="close what is done, or give Kakite a repository of its own",
        )

    async def write(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Change something and return what the forge says of it.

        Raises:
            ForgeError: it was not done; with ``forge_unavailable`` it may have been.
        """
        question = Question(method=method, path=path, body=body)
        return decode(self._forge, question, await self._patiently(question, reads=False))

    async def alone(self, work: Callable[[], T]) -> T:
        """Do something else that asks the forge, in a thread and apart from all requests.

        Raises:
            ForgeError: nobody answers.
        """
        return await asyncio.to_thread(self._work_alone, work)

    async def repeat(self, operation: Callable[[], Awaitable[T]]) -> T:
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
            await self._rest(attempt)
        return await operation()

    async def _read(self, question: Question) -> Answer:
        known = self._answers.get(question)
        tag = known.headers.get("etag", "") if known else ""
        asked = replace(question, headers={"If-None-Match": tag}) if tag else question
        answer = await self._patiently(asked, reads=True)
        if answer.status == 304 and known is not None:
            self._answers.move_to_end(question)
            return known
        if answer.status == 200 and "etag" in answer.headers:
            self._answers[question] = answer
            if len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        return answer

    async def _patiently(self, question: Question, *, reads: bool) -> Answer:
        """Ask until there is an answer that waiting would not make better, or patience ends."""
        for attempt in range(1, self._patience.attempts):
            result = await asyncio.to_thread(self._try_alone, question)
            if isinstance(result, Answer) and result.status < 400:
                return result
            wait = self._wait(self._failure(question, result), attempt, reads=reads)
            if wait is None:
                return self._answer(question, result)
            await asyncio.sleep(wait)
        return self._answer(question, await asyncio.to_thread(self._try_alone, question))

    def _failure(self, question: Question, result: Answer | OSError) -> ForgeError:
        if isinstance(result, Answer):
            return refusal(self._forge, question, result)
        return unreachable(self._forge, question, result)

    def _answer(self, question: Question, result: Answer | OSError) -> Answer:
        if isinstance(result, Answer):
            return result
        raise unreachable(self._forge, question, result)

    def _wait(self, error: ForgeError, attempt: int, *, reads: bool) -> float | None:
        """Return for how long to wait before one asks again; None if one does not."""
        if error.retry_after is not None and error.retryable:  # it has not been done, and will be later
            return error.retry_after if error.retry_after <= self._patience.longest else None
        again = error.code == "forge_unavailable" and reads
        return self._patience.pause * 2 ** (attempt - 1) if again else None

    async def _rest(self, attempt: int) -> None:
        await asyncio.sleep(self._patience.pause * 2 ** (attempt - 1))

    def _work_alone(self, work: Callable[[], T]) -> T:
        with self._sending:
            try:
                return work()
            except OSError as error:
                raise unreachable(self._forge, Question(method="GET", path="/"), error) from None

    def _try_alone(self, question: Question) -> Answer | OSError:
        # The libraries keep a connection between a request and its answer. Who does not wait any more leaves
        # a thread that still does, and the next one comes after it.
        with self._sending:
            try:
                return self._send(question)
            except OSError as error:
                return error
