"""Asks a model again when its provider is busy or down, or when a reply breaks off: for minutes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kakite.models.model import ModelError

if TYPE_CHECKING:
    from kakite.models.messages import Message, Reply
    from kakite.models.model import Model, OnText
    from kakite.tools.toolset import Tool

FIRST_WAIT: Final = 1.0  # s
LONGEST_WAIT: Final = 60.0  # s
_NOT_YET_REACHED: Final = 8.0  # s
_MAX_BAD_REPLIES: Final = 5
_BAD_REPLY: Final = "model_bad_reply"
_UNREACHABLE: Final = "model_unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetry:
    """A request that is about to be made again."""

    error: ModelError
    wait: float
    """Seconds until then."""
    streamed: bool
    """Whether a part of the reply had come, which counts no more."""


class RetryingModel:
    """Another model that is asked again where the same request may succeed later. A Model."""

    def __init__(self, model: Model, seconds: float, on_retry: Callable[[ModelRetry], object]) -> None:
        """Wait for so long from a first failure on; ``on_retry`` is called before each wait."""
        self._model = model
        self._seconds = seconds
        self._on_retry = on_retry
        self._has_answered = False
        """Whether its address is one that answers."""

    @property
    def name(self) -> str:
        """That of the model."""
        return self._model.name

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        """See ``Model.reply``. What was streamed before a retry does not count.

        Raises:
            ModelError: trying again does not help, or did not help in this time.
        """
        pieces = _PieceCounter()
        listeners = [each and pieces.count(each) for each in (on_text, on_thought)]
        since, failures, bad = 0.0, 0, 0
        while True:
            try:
                reply = await self._model.reply(instructions, messages, tools, *listeners)
            except ModelError as error:
                self._has_answered |= error.code != _UNREACHABLE
                since = since or time.monotonic()
                failures, bad = failures + 1, bad + (error.code == _BAD_REPLY)
                wait = self._plan_wait(error, time.monotonic() - since, failures)
                if wait is None or bad > _MAX_BAD_REPLIES:
                    raise
                self._on_retry(ModelRetry(error=error, wait=wait, streamed=pieces.number > 0))
                pieces.number = 0
                await asyncio.sleep(wait)
            else:
                self._has_answered = True
                return reply

    def _plan_wait(self, error: ModelError, waited: float, failures: int) -> float | None:
        """Return the seconds until the next request; None: there is to be none."""
        if not error.retryable:
            return None
        is_new = error.code == _UNREACHABLE and not self._has_answered
        most = min(_NOT_YET_REACHED, self._seconds) if is_new else self._seconds
        grown = min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT)
        # Several of ours that were refused together are not to come back together.
        wait = error.retry_after or grown * random.uniform(0.75, 1.0)  # noqa: S311 - no secret
        return wait if waited + wait <= most else None


class _PieceCounter:
    """Counts the pieces that a stream has told."""

    def __init__(self) -> None:
        self.number = 0

    def count(self, listener: OnText) -> OnText:
        """Return a listener that counts, and passes on."""

        def tell(piece: str) -> None:
            self.number += 1
            listener(piece)

        return tell
