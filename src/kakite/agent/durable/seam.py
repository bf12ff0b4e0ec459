"""What a story may do. Pure values and protocols; each engine stands behind them.

A story is an async function of a seam and a start value. It decides, and does nothing else: no clock, no
random
numbers, no input or output, so that it can be told again from its first word, with the recorded outcome of
each step in place of the step. Whatever has an effect is a step: a registered function of JSON that may be
begun
again when a process dies in the middle of it, and that tells failures as values.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from kakite.errors import KakiteError, UsageError

Json: TypeAlias = Mapping[str, object] | Sequence[object] | str | int | float | bool | None
"""What JSON can say, and says the same when it is read again."""

Effect: TypeAlias = Callable[[Json], Awaitable[Json]]
"""What a step does. Begun again when a process dies meanwhile, so a second time must do no more than one."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ID = re.compile(r"[\w.:#/@+-]{1,200}", re.ASCII)


class Seam(Protocol):
    """All that a story reaches of the world."""

    async def step(self, kind: str, value: Json, unless: str = "") -> Json:
        """Do what is registered as ``kind``, or return what it returned when it was done.

        Never raises for what the effect raises: see ``error_of``. ``unless`` is a topic: once there is a
        signal on it, the step is not begun, and one under way is cancelled; it says ``step_stopped`` then.
        """
        ...

    async def publish(self, state: Json) -> None:
        """Show this as the story's state to whoever looks, in place of what it showed before."""
        ...

    async def wait(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        """Return the next signal on a topic, in the order they came; None when ``seconds`` have passed.

        None as well once there is a signal on ``unless``, another topic.

        Signals that came earlier count. While a story waits it takes up no worker, and the time goes on while
        there is none. 0 s only look; on a topic that nobody signals, this is a pause.
        """
        ...

    async def patched(self, change: str) -> bool:
        """Return whether this story takes the new way at this change: no if it was further when the change
        came.

        ``change`` is a name, used once in a story, at the same place for ever.
        """
        ...


Tell: TypeAlias = Callable[[Seam, Json], Awaitable[Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A story under its name and version.

    A worker that is given several versions tells each to its end: what was begun by an older version of
    Kakite
    is drained by the old version of the story, or stays where it is until a worker comes that knows it.
    """

    name: str
    tell: Tell
    version: int = 1

    @property
    def label(self) -> str:
        """What the story is submitted as."""
        return f"{self.name}@{self.version}"


def labelled(stories: Sequence[Story]) -> dict[str, Story]:
    """Return the stories by their labels.

    Raises:
        UsageError: a name cannot be used (code ``bad_story``), or two are the same.
    """
    found: dict[str, Story] = {}
    for story in stories:
        if checked_label(story.label) in found:
            raise UsageError(f"there are two stories `{story.label}`", code="bad_story")
        found[story.label] = story
    return found


def checked_label(label: str) -> str:
    """Return a story's label.

    Raises:
        UsageError: it is none (code ``bad_story``).
    """
    name, _, version = label.partition("@")
    if not _NAME.fullmatch(name) or not version.isdecimal():
        raise UsageError(
            f"`{label}` is no story: expected `name@1`",
            hint="a name has small letters, digits, `-` and `_`",
            code="bad_story",
        )
    return label


def checked_id(story_id: str) -> str:
    """Return the id that a story is submitted under.

    Raises:
        UsageError: it cannot be used (code ``bad_story``).
    """
    if not _ID.fullmatch(story_id):
        raise UsageError(
            f"{story_id!r} cannot be a story's id",
            hint="use up to 200 letters, digits and `.:#/@+-_`",
            code="bad_story",
        )
    return story_id


def plain(value: object) -> Json:
    """Return a value as it will be read again after it was recorded.

    Raises:
        TypeError, ValueError: JSON cannot say it.
    """
    return cast("Json", json.loads(json.dumps(value, allow_nan=False)))


def error_value(code: str, message: str, hint: str = "") -> dict[str, object]:
    """Return a failure as a step's value."""
    return {"error": {"code": code, "message": message, "hint": hint}}


def stopped(kind: str) -> dict[str, object]:
    """Return what a step says that was cut short, or not begun, for the sake of a signal."""
    return error_value("step_stopped", f"the step `{kind}` was stopped")


def is_stopped(value: Json) -> bool:
    """Tell whether a step was stopped by a signal."""
    error = error_of(value)
    return error is not None and error["code"] == "step_stopped"


def error_of(value: Json) -> Mapping[str, str] | None:
    """Return the failure that a step's value tells (``code``, ``message``, ``hint``); None if it was done."""
    if isinstance(value, dict) and isinstance(found := value.get("error"), dict):
        return cast("Mapping[str, str]", found)
    return None


async def attempt(effects: Mapping[str, Effect], kind: str, value: Json) -> Json:
    """Perform a step, for an engine; what fails becomes a value.

    An error of ours keeps its code. Any other is a fault of the step: ``step_broken``, with its type and
    place,
    not its text, which could hold a secret. ``step_unknown``: nothing is registered as ``kind``.
    """
    effect = effects.get(kind)
    if effect is None:
        return error_value("step_unknown", f"there is no step `{kind}`", "a newer worker may know it")
    try:
        return plain(await effect(plain(value)))
    except KakiteError as error:
        return error_value(error.code, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - recorded as a failed step, any error would end the task for ever
        return error_value("step_broken", f"the step `{kind}` failed with {fault(error)}")


def fault(error: Exception) -> str:
    """Return an unexpected error's type and place, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
