"""What a step of a task's story is given, and what it says: the JSON of the story as values, and back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kakite.agent.asking import Given
from kakite.agent.durable.seam import Effect, Json, error_value
from kakite.agent.forges.forge import ForgeError
from kakite.agent.run import Run
from kakite.agent.showing import public_of
from kakite.errors import KakiteError
from kakite.models.model import ModelError
from kakite.tools.toolset import JsonObject

_AGAIN = frozenset(
    (
        *("clone_failed", "fetch_failed", "push_failed", "run_busy"),
        *("sandbox_failed", "server_failed", "server_not_started"),
    )
)
"""What may go well later, of errors that do not say so themselves."""


def folder_name(task: str) -> str:
    """Return the name of a task's folder, and of its references on the repository."""
    words = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")[-24:].strip("-")
    return f"{words or 'task'}-{hashlib.sha256(task.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a step of a story is given."""

    start: JsonObject
    begun: JsonObject
    head: str
    first: str
    base: str
    saved: JsonObject
    news: str
    answers: Mapping[str, Given]
    resume: bool
    more: Mapping[str, float] | None
    """With ``resume``: how much more a person allowed."""
    draft: str
    """See ``Run.draft``."""

    @classmethod
    def of(cls, value: Any) -> Order:
        """Read it."""
        opened: JsonObject = value["opened"]
        answers: list[JsonObject] = value.get("answers", [])
        return cls(
            start=value["start"],
            begun=opened["begun"],
            head=value["head"],
            first=opened["head"],
            base=opened["base"],
            saved=value["saved"],
            news=value.get("news", ""),
            answers={
                each["digest"]: Given(allowed=each["allowed"], reason=each["reason"]) for each in answers
            },
            resume=bool(value.get("resume")),
            more=value.get("more"),
            draft=value.get("draft", ""),
        )

    @property
    def id(self) -> str:
        """The task's id."""
        return self.start["id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a step has come to."""

    run: Run
    head: str
    asks: JsonObject | None = None

    def told(self, order: Order, saved: JsonObject) -> JsonObject:
        """Return it as JSON."""
        public = {**public_of(order.begun, self.run, self.head), "asks": self.asks}
        return {
            "head": self.head,
            "public": public,
            "saved": saved,
            "finished": self.run.status,
        }


def telling(effect: Callable[[Any], Awaitable[Any]]) -> Effect:
    """Return the effect with its failures as values, which say whether trying again makes sense."""

    async def told(value: Json) -> Json:
        try:
            return await effect(value)
        except KakiteError as error:
            return _failure(error)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            hint = "make room, or let Kakite write there; nothing is lost"
            return _failure(
                KakiteError(f"the task's folder cannot be used: {reason}", hint=hint, code="io_failed")
            )

    return told


def _failure(error: KakiteError) -> JsonObject:
    told = error_value(error.code, error.message, error.hint)
    again = error.code in _AGAIN or error.code == "io_failed"
    after: float | None = None
    if isinstance(error, ModelError | ForgeError):
        again, after = error.retryable, error.retry_after
    return {**told, "again": again, "after": after}
