"""Asks the person about hosts that the network of a sandbox leaves out, while a program waits for one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kakite.sandbox.egress.policy import Target
    from kakite.sandbox.spec import AskHost

log = logging.getLogger(__name__)

MAX_QUESTIONS = 20
"""How often one sandbox asks, so that no program floods the person."""


class HostQuestions:
    """The answers about hosts, for as long as the sandbox is there. One question is asked at a time."""

    def __init__(self, ask: AskHost) -> None:
        self._ask = ask
        self._one = asyncio.Lock()
        self._left = MAX_QUESTIONS
        self._answers: dict[Target, bool] = {}
        self._open: dict[Target, asyncio.Task[None]] = {}
        self._waiting: Counter[Target] = Counter()

    def get_answer(self, target: Target) -> bool | None:
        """Return what the person said about a host; None: they were not asked, or gave no answer."""
        return self._answers.get(target)

    async def ask(self, target: Target, wait_until_gone: Callable[[], Awaitable[None]]) -> None:
        """Ask, unless it was asked before, and wait for the answer.

        The question is withdrawn once no program waits for it: ``wait_until_gone`` tells that of this one.
        """
        if target in self._answers:
            return
        question = self._open.get(target)
        if question is None:
            if not self._left:
                return
            self._left -= 1
            question = self._open[target] = asyncio.create_task(self._ask_person(target))
        self._waiting[target] += 1
        leaving = asyncio.ensure_future(wait_until_gone())
        try:
            await asyncio.wait({question, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)  # the connection may have broken off
            self._waiting[target] -= 1
            if not self._waiting[target]:
                question.cancel()
                self._open.pop(target, None)

    def close(self) -> None:
        """Withdraw what is asked."""
        for question in self._open.values():
            question.cancel()

    async def _ask_person(self, target: Target) -> None:
        async with self._one:
            try:
                answer = await self._ask(str(target))
            except Exception as error:  # noqa: BLE001 - the program is refused then, as without an answer
                log.warning("the person could not be asked about a host: %s", type(error).__name__)
                return
        if answer is not None:
            self._answers[target] = answer
