"""The inputs and results of a task's workflow and its activities: values, and how JSON carries them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from kakite.agent.forges.base import ForgeError
from kakite.agent.git.remote_checkpoints import SavedWork
from kakite.agent.issues.triage import AcceptedTask
from kakite.agent.worker.status import ErrorView, HumanInputRequest, PullRequestView, TaskOrigin, TaskStatus
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
class EarlierTask:
    """A task of the same issue that has ended, and whose conversation goes on."""

    id: str
    head: str
    """Its run's head at the end."""
    started: str
    """When it was accepted, ISO 8601: what was written since may be new to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """The input of a task's workflow: with a text and a repository, or with what triggered it."""

    id: str
    forge: Mapping[str, str]
    """kind, path and url: how any worker opens it; the kind ``none``: there is none."""
    settings: JsonObject
    """The fields of ``Task`` that come from settings."""
    on_ask: str
    """``deny`` or ``pause``."""
    trigger: JsonObject | None = None
    title: str = ""
    text: str = ""
    repository: str = ""
    branch: str = ""
    draft: str = ""
    """``early``: a pull request is opened with the first change."""
    earlier: EarlierTask | None = None
    """What it goes on with, where a comment asks for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInput:
    """The input of ``open``."""

    start: TaskInput


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRefused:
    """The result of ``open`` for a task that is not worked on."""

    refused: ErrorView


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTask:
    """The result of ``open``: a task that was accepted."""

    head: str
    base: str
    """The commit that the work begins on."""
    begun: TaskOrigin
    public: TaskStatus
    accepted: AcceptedTask | None
    """None: it comes from no forge."""
    early: bool = False
    """Whether a draft is wanted with the first change."""
    carried: str | None = None
    """The blobs of the run, for other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """Whether a call may be made, by the digest of what was asked."""

    digest: str
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """The input of ``advance``, ``announce`` and ``salvage``."""

    start: TaskInput
    opened: OpenedTask
    head: str
    saved: SavedWork
    news: str = ""
    """For the model, from people."""
    answers: tuple[CallAnswer, ...] = ()
    resume: bool = False
    more: Mapping[str, float] | None = None
    """With ``resume``: how much more a person allowed."""
    draft: str | None = None
    """See ``RunState.draft``; None: it was not tried yet."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self.start.id


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """The result of ``advance``."""

    head: str
    public: TaskStatus
    saved: SavedWork
    finished: str | None
    reports: bool = True
    """Whether a report would do anything now; older workers did not say."""
    carried: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOutput:
    """The result of ``announce``."""

    draft: str
    """The commit that a draft can be opened with; empty: others have the branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPush:
    """The result of ``salvage``."""

    commit: str
    pushed: bool
    kept: str = ""
    """The reference beside the branch that has the work, where the branch did not take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanInput:
    """The input of ``clean``."""

    start: TaskInput
    done: bool
    repository: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInput:
    """The input of ``request``, ``news`` and ``close``: a task, and how it stands."""

    start: TaskInput
    accepted: AcceptedTask | None
    public: TaskStatus
    ids: tuple[str, ...] = ()
    """What was taken up since it was accepted."""
    seen: tuple[str, ...] = ()
    """What was read up to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput(ThreadInput):
    """The input of ``report``."""

    urgent: bool
    turn: Literal["", "pause", "go_on"]
    """Whether the task begins to wait, or goes on again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutput:
    """The result of ``report``."""

    reported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOutput:
    """The result of ``close``."""

    request: PullRequestView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """The result of what has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAnswer:
    """A person's answer to what a task asks: the signal that its workflow waits for."""

    answer: str
    """``yes``, ``no`` or ``more``."""
    reason: str
    by: str
    via: str
    """``terminal``, ``web`` or ``comment``."""
    budget: Mapping[str, float] | None
    """With ``more``: how much more."""
    seen: tuple[str, ...] = ()
    """The comments that said so: they answer nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQuestion:
    """What a workflow that waits for a person publishes for the worker that reads answers at the forge."""

    start: TaskInput
    accepted: AcceptedTask
    asks: HumanInputRequest
    seen: tuple[str, ...] = ()
    request: PullRequestView | None = None
    error: ErrorView | None = None


T = TypeVar("T")
InputT = TypeVar("InputT")


def to_payload(value: object) -> Json:
    """Return a value as JSON: an object of its fields, without those that have their default."""
    if is_dataclass(value):
        told = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
        return {name: to_payload(now) for name, (now, default) in told.items() if now != default}
    if isinstance(value, list | tuple):
        return [to_payload(each) for each in cast("Sequence[object]", value)]
    return cast("Json", value)


def from_payload(kind: type[T], value: Json) -> T:
    """Return the value of a dataclass that JSON tells. What newer versions have added to it is left out.

    Raises:
        TypeError, AttributeError: it is another kind's.
    """
    told = cast("JsonObject", value)
    readers = _get_readers(kind)
    return kind(**{name: read(told[name]) for name, read in readers.items() if name in told})


@cache
def _get_readers(kind: type[Any]) -> Mapping[str, Callable[[Any], Any]]:
    return {name: _build_reader(hint) for name, hint in get_type_hints(kind).items()}


def _build_reader(hint: Any) -> Callable[[Any], Any]:
    if is_dataclass(hint):
        return partial(from_payload, cast("type[Any]", hint))
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        each = _build_reader(arguments[0])
        return lambda values: tuple(map(each, values))
    inner = cast("type[Any] | None", next(filter(is_dataclass, arguments), None))
    if inner is not None:  # or None
        return partial(_read_optional, inner)
    return lambda found: found


def _read_optional(kind: type[T], found: Json) -> T | None:
    return None if found is None else from_payload(kind, found)


def to_activity(kind: type[InputT], effect: Callable[[InputT], Awaitable[object]]) -> ActivityFunction:
    """Return the effect as a function of JSON, with its failures as values.

    Those say whether trying again makes sense.
    """

    async def wrapper(value: Json) -> Json:
        try:
            return to_payload(await effect(from_payload(kind, value)))
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
