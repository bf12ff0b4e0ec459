"""Defines a person's request to the assistant, its run, and the events of a run with their JSON forms."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from kakite.collab.shared_text import TrackedRange
from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.collab.assistant.conversation import ChatTurn
    from kakite.collab.assistant.reply_parser import ReplyFormat
    from kakite.collab.suggestions.store import Suggestion, Suggestions
    from kakite.models.messages import Usage


RunStatus = Literal["running", "done", "cut", "refused", "cancelled", "failed"]
"""``cut``: the reply ran into the model's limit. ``refused``: the model would not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantRunStarted:
    """A run began."""

    name: ClassVar[str] = "run"
    run: str

    def to_json(self) -> dict[str, Any]:
        """Return ``{id}``."""
        return {"id": self.run}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta:
    """More of what the model says."""

    name: ClassVar[str] = "message"
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return ``{text}``: what is new of it."""
        return {"text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFound:
    """An edit found its place: it is a suggestion, or, in a run that applies them at once, in the text."""

    name: ClassVar[str] = "edit"
    index: int
    """Which edit of the reply, from 0. One that is for all places is told several times."""
    page: str
    suggestion: Suggestion
    shown: dict[str, Any]
    """The suggestion as clients see it."""

    def to_json(self) -> dict[str, Any]:
        """Return ``{index, page, suggestion}``."""
        return {"index": self.index, "page": self.page, "suggestion": self.shown}


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFailed:
    """An edit has no place, or cannot be read. It changed nothing."""

    name: ClassVar[str] = "failure"
    index: int
    page: str
    code: str
    """Of the engine (``not_found``, ``ambiguous``, …), of its formats, or ``bad_json``, ``no_such_page``,
    ``page_unclear``, ``changed``, ``too_many_edits``.
    """
    message: str
    hint: str
    candidates: tuple[dict[str, Any], ...] = ()
    """Places that could have been meant: ``{line, lines, score, text}``."""

    def to_json(self) -> dict[str, Any]:
        """Return ``{index, page, code, message, hint, candidates}``."""
        return {
            "index": self.index,
            "page": self.page,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "candidates": list(self.candidates),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantRunFailed:
    """The model could not answer, or not to the end."""

    name: ClassVar[str] = "error"
    code: str
    message: str
    hint: str

    def to_json(self) -> dict[str, Any]:
        """Return ``{code, message, hint}``."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantRunFinished:
    """The run is over. Always the last event."""

    name: ClassVar[str] = "done"
    status: RunStatus
    usage: Usage
    edits: int
    failures: int

    def to_json(self) -> dict[str, Any]:
        """Return ``{status, usage, counts: {edits, failures}}``."""
        return {
            "status": self.status,
            "usage": asdict(self.usage),
            "counts": {"edits": self.edits, "failures": self.failures},
        }


AssistantEvent = (
    AssistantRunStarted | MessageDelta | EditFound | EditFailed | AssistantRunFailed | AssistantRunFinished
)


Mode = Literal["review", "auto"]


class RunError(KakiteError):
    """Something was asked of a run that is not possible.

    Codes: ``no_such_run``, ``not_revertable`` (it was kept or reverted, or the server has been started anew
    since).
    """

    code = "no_such_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantRequest:
    """A person's request to the assistant."""

    message: str
    page: str
    """The page that the person is on."""
    selection: TrackedRange | None = None
    """In code points of that page's present text."""
    mode: Mode = "review"
    pages: tuple[str, ...] = ()
    """Other pages that the run is about."""
    format: ReplyFormat = "search_replace"
    by: str = ""
    """Who asks, as the others see them."""
    past: tuple[ChatTurn, ...] = ()
    """Earlier turns that the model is told, as far as there is room."""

    @classmethod
    def from_json(
        cls, page: str, data: Mapping[str, Any], pages: Mapping[str, Suggestions]
    ) -> AssistantRequest:
        """Read ``{message, selection?: {start, end} in UTF-16 units, mode?, pages?, format?}``.

        Raises:
            UsageError: it is something else (``bad_request``).
        """
        message = data.get("message")
        if not isinstance(message, str) or not message.strip():
            raise _bad_request_error("`message` says what is asked for")
        mode, format_ = data.get("mode") or "review", data.get("format") or "search_replace"
        if mode not in {"review", "auto"} or format_ not in {"search_replace", "json"}:
            raise _bad_request_error("`mode` is review or auto, `format` is search_replace or json")
        others = cast("list[object]", data.get("pages") or [])
        if not isinstance(data.get("pages") or [], list) or not all(isinstance(name, str) for name in others):
            raise _bad_request_error("`pages` is a list of names")
        return cls(
            message=message,
            page=page,
            selection=_parse_selection(data.get("selection"), pages[page]),
            mode=cast("Mode", mode),
            pages=tuple(name for name in dict.fromkeys(cast("list[str]", others)) if name != page),
            format=cast("ReplyFormat", format_),
        )


@dataclass(slots=True, kw_only=True)
class AssistantRun:
    """One request, and what became of it."""

    id: str
    by: str
    page: str
    mode: Mode
    status: RunStatus = "running"
    edits: int = 0
    failures: int = 0
    edited: dict[str, int] = field(default_factory=dict[str, int])
    """How many of the edits are on which page."""
    reverted: bool = False
    kept: bool = False
    reply: str = ""
    """What the model wrote so far, with its edits; not kept."""

    @property
    def pages(self) -> tuple[str, ...]:
        """The page that it was asked on, and those others that it has edited."""
        return tuple(dict.fromkeys((self.page, *self.edited)))

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it, and as it is stored."""
        return {
            "id": self.id,
            "by": self.by,
            "page": self.page,
            "mode": self.mode,
            "status": self.status,
            "counts": {"edits": self.edits, "failures": self.failures},
            "pages": self.edited,
            "reverted": self.reverted,
            "kept": self.kept,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AssistantRun:
        """Read what ``to_json`` gave. A run that was going on then is cancelled.

        Raises:
            KeyError, TypeError: it is something else.
        """
        status = "cancelled" if data["status"] == "running" else data["status"]
        return cls(
            **{name: data[name] for name in ("id", "by", "page", "mode", "reverted", "kept")},
            **data["counts"],
            edited=dict(data.get("pages", {})),
            status=status,
        )


def _parse_selection(data: object, suggestions: Suggestions) -> TrackedRange | None:
    if data is None:
        return None
    places = cast("dict[str, object]", data if isinstance(data, dict) else {})
    start, end = places.get("start"), places.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        raise _bad_request_error("`selection` is {start, end} in UTF-16 units")
    low, high = sorted((start, end))
    return TrackedRange(suggestions.text.from_utf16(low), suggestions.text.from_utf16(high))


def _bad_request_error(message: str) -> UsageError:
    return UsageError(message, code="bad_request")
