"""What happens in a run of the assistant, one by one. Each has a name and a JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from kakite.collab.suggestion import Suggestion
    from kakite.models.messages import Usage

RunStatus = Literal["running", "done", "cut", "refused", "cancelled", "failed"]
"""``cut``: the reply ran into the model's limit. ``refused``: the model would not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """A run began."""

    name: ClassVar[str] = "run"
    run: str

    def to_json(self) -> dict[str, Any]:
        """Return ``{id}``."""
        return {"id": self.run}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
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
class Problem:
    """The model could not answer, or not to the end."""

    name: ClassVar[str] = "error"
    code: str
    message: str
    hint: str

    def to_json(self) -> dict[str, Any]:
        """Return ``{code, message, hint}``."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
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


Event = Began | Message | EditFound | EditFailed | Problem | Done
