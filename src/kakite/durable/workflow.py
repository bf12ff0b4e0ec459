"""The interface between workflows and the engines that run them. Pure values and protocols.

A workflow is an async function of a WorkflowContext and a start value. It only decides: no clock, no random
numbers, no input or output, so that it can be replayed from its beginning with the recorded result of each
activity. Whatever has an effect is an activity: a registered function of JSON that may be repeated when a
process dies in the middle of it, and that returns failures as values.
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

ActivityFunction: TypeAlias = Callable[[Json], Awaitable[Json]]
"""What a step does. Begun again when a process dies meanwhile, so a second time must do no more than one."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ID = re.compile(r"[\w.:#/@+-]{1,200}", re.ASCII)


class WorkflowContext(Protocol):
    """The operations that a workflow may use."""

    async def execute_activity(self, kind: str, value: Json, unless: str = "") -> Json:
        """Do what is registered as ``kind``, or return what it returned when it was done.

        Never raises for what the effect raises: see ``get_error``. ``unless`` is a topic: once there is a
        signal on it, the step is not begun, and one under way is cancelled; it says ``activity_stopped``.
        """
        ...

    async def publish(self, state: Json) -> None:
        """Show this as the workflow's state to whoever looks, in place of what it showed before."""
        ...

    async def wait_for_signal(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        """Return the next signal on a topic, in the order they came; None when ``seconds`` have passed.

        None as well once there is a signal on ``unless``, another topic.

        Signals that came earlier count. While a workflow waits it takes up no worker, and the time goes on
        while there is none. 0 s only look; on a topic that nobody signals, this is a pause.
        """
        ...

    async def patched(self, change: str) -> bool:
        """Return whether this workflow takes the new way at this change: no if it was further when the change
        came.

        ``change`` is a name, used once in a workflow, at the same place for ever.
        """
        ...


WorkflowFunction: TypeAlias = Callable[[WorkflowContext, Json], Awaitable[Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow under its name and version.

    A worker that is given several versions runs each to its end: what was begun by an older version of
    Kakite
    is drained by the old version of the workflow, or stays where it is until a worker comes that knows it.
    """

    name: str
    tell: WorkflowFunction
    version: int = 1

    @property
    def label(self) -> str:
        """The name and version under which a workflow is submitted."""
        return f"{self.name}@{self.version}"


def index_by_label(workflows: Sequence[Workflow]) -> dict[str, Workflow]:
    """Return the workflows by their labels.

    Raises:
        UsageError: a name cannot be used (code ``bad_workflow``), or two are the same.
    """
    found: dict[str, Workflow] = {}
    for workflow in workflows:
        if check_label(workflow.label) in found:
            raise UsageError(f"there are two workflows `{workflow.label}`", code="bad_workflow")
        found[workflow.label] = workflow
    return found


def check_label(label: str) -> str:
    """Return a workflow's label.

    Raises:
        UsageError: it is none (code ``bad_workflow``).
    """
    name, _, version = label.partition("@")
    if not _NAME.fullmatch(name) or not version.isdecimal():
        raise UsageError(
            f"`{label}` is not a workflow label: expected `name@1`",
            hint="a name has small letters, digits, `-` and `_`",
            code="bad_workflow",
        )
    return label


def check_id(workflow_id: str) -> str:
    """Return the id that a workflow is submitted under.

    Raises:
        UsageError: it cannot be used (code ``bad_workflow``).
    """
    if not _ID.fullmatch(workflow_id):
        raise UsageError(
            f"{workflow_id!r} cannot be a workflow's id",
            hint="use up to 200 letters, digits and `.:#/@+-_`",
            code="bad_workflow",
        )
    return workflow_id


def to_json_value(value: object) -> Json:
    """Return a value as it will be read again after it was recorded.

    Raises:
        TypeError, ValueError: JSON cannot say it.
    """
    return cast("Json", json.loads(json.dumps(value, allow_nan=False)))


def make_error_value(code: str, message: str, hint: str = "") -> dict[str, object]:
    """Return a failure as a step's value."""
    return {"error": {"code": code, "message": message, "hint": hint}}


def make_stopped_value(kind: str) -> dict[str, object]:
    """Return what a step says that was cut short, or not begun, for the sake of a signal."""
    return make_error_value("activity_stopped", f"the step `{kind}` was stopped")


def is_stopped(value: Json) -> bool:
    """Return whether a step was stopped by a signal."""
    error = get_error(value)
    return error is not None and error["code"] == "activity_stopped"


def get_error(value: Json) -> Mapping[str, str] | None:
    """Return the failure that a step's value tells (``code``, ``message``, ``hint``); None if it was done."""
    if isinstance(value, dict) and isinstance(found := value.get("error"), dict):
        return cast("Mapping[str, str]", found)
    return None


async def run_activity(effects: Mapping[str, ActivityFunction], kind: str, value: Json) -> Json:
    """Perform a step, for an engine; what fails becomes a value.

    An error of ours keeps its code. Any other is a fault of the step: ``activity_failed``, with its type and
    place,
    not its text, which could hold a secret. ``activity_unknown``: nothing is registered as ``kind``.
    """
    effect = effects.get(kind)
    if effect is None:
        return make_error_value(
            "activity_unknown", f"there is no step `{kind}`", "a newer worker may have it"
        )
    try:
        return to_json_value(await effect(to_json_value(value)))
    except KakiteError as error:
        return make_error_value(error.code, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - recorded as a failed step, any error would end the task for ever
        return make_error_value("activity_failed", f"the step `{kind}` failed with {describe_error(error)}")


def describe_error(error: Exception) -> str:
    """Return an unexpected error's type and place, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
