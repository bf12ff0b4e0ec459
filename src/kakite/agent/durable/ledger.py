"""Where stories are noted: given in, looked at and steered, from any process, also while no worker lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from kakite.agent.durable.seam import Json
from kakite.errors import KakiteError, OutsideError

State = Literal["queued", "running", "waiting", "paused", "stuck", "done", "failed", "cancelled"]
"""``waiting`` for a signal or a time; ``stuck``: its journal does not fit its code; the last three are
ends."""

ENDS: frozenset[State] = frozenset(("done", "failed", "cancelled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A story as it stands."""

    id: str
    story: str
    """Its label, ``name@version``."""
    state: State
    topic: str = ""
    """What it waits for."""
    published: Json = None
    error: str = ""
    """Why it is ``failed`` or ``stuck``."""
    unheard: bool = False
    """Whether it was told something that no worker has told it yet: it may stand otherwise soon."""
    created: datetime
    updated: datetime


class StoryError(KakiteError):
    """A story cannot be had, or did not end well.

    Codes: ``story_unknown``, ``story_taken`` (the id is another story's), ``story_failed``,
    ``story_cancelled``,
    ``story_crashes`` (it was given up, since its workers died again and again), ``story_late`` (it has no
    result
    yet).
    """

    code = "story_unknown"


class LedgerError(OutsideError):
    """Stories cannot be kept: ``ledger_unavailable``."""

    code = "ledger_unavailable"


class Ledger(Protocol):
    """The same for every engine."""

    async def submit(self, story_id: str, label: str, start: Json) -> None:
        """Note a story to be told, once: the same id again changes nothing.

        Raises:
            StoryError: the id is that of another story (``story_taken``).
            UsageError: the id or the label cannot be used.
        """
        ...

    async def list(self) -> Sequence[Standing]:
        """Return all stories, the newest first."""
        ...

    async def status(self, story_id: str) -> Standing:
        """Return how a story stands.

        Raises:
            StoryError: there is none.
        """
        ...

    async def signal(self, story_id: str, topic: str, value: Json, key: str = "") -> None:
        """Give a story a value on a topic, which it gets when it waits for it; with a ``key`` only once.

        Raises:
            StoryError: there is no such story.
        """
        ...

    async def cancel(self, story_id: str) -> None:
        """End a story: the step under way is cancelled, and no other begins. An ended one stays as it is."""
        ...

    async def pause(self, story_id: str) -> None:
        """Let a story rest at its next step until it is resumed."""
        ...

    async def resume(self, story_id: str) -> None:
        """Let a paused story go on."""
        ...

    async def result(self, story_id: str, seconds: float) -> Json:
        """Return a story's end value, waiting for it for so many ``seconds``.

        Raises:
            StoryError: it failed, was cancelled, is unknown, or is not at its end yet (``story_late``).
        """
        ...


def unknown(story_id: str) -> StoryError:
    """Return the error for an id that nothing was submitted under."""
    return StoryError(f"there is no story `{story_id}`", hint="list them to see which there are")


def taken(story_id: str, label: str) -> StoryError:
    """Return the error for an id that is used already."""
    return StoryError(
        f"`{story_id}` is another story's id: a `{label}`", hint="use another id", code="story_taken"
    )


def failed(story_id: str, reason: str, code: str = "story_failed") -> StoryError:
    """Return the error for a story that ended badly."""
    return StoryError(f"`{story_id}` failed: {reason}", hint="see what it published", code=code)


def cancelled(story_id: str) -> StoryError:
    """Return the error for a story that was cancelled."""
    return StoryError(
        f"`{story_id}` was cancelled", hint="submit it under another id", code="story_cancelled"
    )


def late(story_id: str, seconds: float) -> StoryError:
    """Return the error for a result that is not there yet."""
    return StoryError(
        f"`{story_id}` has no result after {seconds:g} s",
        hint="ask again later; its state tells what it waits for",
        code="story_late",
    )


async def ended(ledger: Ledger, story_id: str, seconds: float, pause: float = 0.1) -> Standing:
    """Return how a story stands at its end, looking every ``pause`` s.

    Raises:
        StoryError: it is unknown, or not at its end after so many ``seconds``.
    """
    until = time.monotonic() + seconds
    while (standing := await ledger.status(story_id)).state not in ENDS:
        if time.monotonic() > until:
            raise late(story_id, seconds)
        await asyncio.sleep(pause)
    return standing
