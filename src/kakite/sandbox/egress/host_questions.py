"""Asks the person about hosts that the network of a sandbox leaves out, while a program waits for one."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kakite.sandbox.egress.policy import Target
    from kakite.sandbox.spec import AskHost

_LOOK = 0.25
"""Seconds after which we look again whether the program is still there."""


class HostQuestions:
    """The answers about hosts, for as long as the sandbox is there. One question is asked at a time."""

    def __init__(self, ask: AskHost) -> None:
        self._ask = ask
        self._one = asyncio.Lock()
        self._answers: dict[Target, bool] = {}
        self._open: dict[Target, asyncio.Task[bool]] = {}
        self._waiting: Counter[Target] = Counter()

    def get_answer(self, target: Target) -> bool | None:
        """Return what the person said about a host; None: they were not asked, or gave no answer."""
        return self._answers.get(target)

    async def ask(self, target: Target, is_gone: Callable[[], bool]) -> bool:
        """Ask, unless it was asked before, and return whether the host may be reached.

        The question is withdrawn once no program waits for it: ``is_gone`` tells that of this one.
        """
        if (known := self._answers.get(target)) is not None:
            return known
        question = self._open.get(target)
        if question is None:
            question = self._open[target] = asyncio.create_task(self._ask_person(target))
        self._waiting[target] += 1
        try:
            while not question.done() and not is_gone():
                await asyncio.wait({question}, timeout=_LOOK)
            return question.done() and not question.cancelled() and question.result()
        finally:
            self._waiting[target] -= 1
            if not self._waiting[target]:
                question.cancel()
                self._open.pop(target, None)

    def close(self) -> None:
        """Withdraw what is asked."""
        for question in self._open.values():
            question.cancel()

    async def _ask_person(self, target: Target) -> bool:
        async with self._one:
            answer = await self._ask(str(target))
        if answer is not None:
            self._answers[target] = answer
        return answer is True
