"""The inputs and results of a task's activities, as values and as JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kakite.agent.forges.base import ForgeError
from kakite.agent.run.approvals import DeferredAnswer
from kakite.agent.run.state import RunState
from kakite.agent.worker.status import build_task_status
from kakite.durable.workflow import ActivityFunction, Json, make_error_value
from kakite.errors import KakiteError
from kakite.models.model import ModelError
from kakite.tools.toolset import JsonObject

_RETRYABLE_CODES = frozenset(
    (
        *("clone_failed", "fetch_failed", "push_failed", "run_busy"),
        *("sandbox_failed", "server_failed", "server_not_started"),
    )
)
"""What may go well later, of errors that do not say so themselves."""


def make_folder_name(task: str) -> str:
    """Return the name of a task's folder, and of its references on the repository."""
    words = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")[-24:].strip("-")
    return f"{words or 'task'}-{hashlib.sha256(task.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """The input of an activity."""

    start: JsonObject
    begun: JsonObject
    head: str
    first: str
    base: str
    saved: JsonObject
    news: str
    answers: Mapping[str, DeferredAnswer]
    resume: bool
    more: Mapping[str, float] | None
    """With ``resume``: how much more a person allowed."""
    draft: str
    """See ``RunState.draft``."""

    @classmethod
    def from_json(cls, value: Any) -> StepInput:
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
                each["digest"]: DeferredAnswer(allowed=each["allowed"], reason=each["reason"])
                for each in answers
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
class StepResult:
    """The result of an activity."""

    run: RunState
    head: str
    asks: JsonObject | None = None

    def to_json(self, order: StepInput, saved: JsonObject) -> JsonObject:
        """Return it as JSON."""
        public = {**build_task_status(order.begun, self.run, self.head), "asks": self.asks}
        return {
            "head": self.head,
            "public": public,
            "saved": saved,
            "finished": self.run.status,
        }


def translate_errors(effect: Callable[[Any], Awaitable[Any]]) -> ActivityFunction:
    """Return the effect with its failures as values, which say whether trying again makes sense."""

    async def wrapper(value: Json) -> Json:
        try:
            return await effect(value)
        except KakiteError as error:
            return _build_error_value(error)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            hint = "free some space, or let Kakite write there; nothing is lost"
            return _build_error_value(
                KakiteError(f"the task's folder cannot be used: {reason}", hint=hint, code="io_failed")
            )

    return wrapper


def _build_error_value(error: KakiteError) -> JsonObject:
    told = make_error_value(error.code, error.message, error.hint)
    again = error.code in _RETRYABLE_CODES or error.code == "io_failed"
    after: float | None = None
    if isinstance(error, ModelError | ForgeError):
        again, after = error.retryable, error.retry_after
    return {**told, "again": again, "after": after}
