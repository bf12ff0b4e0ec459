"""What people ask of the assistant, and what is known of each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from kakite.collab.anchors import Span
from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.collab.events import RunStatus
    from kakite.collab.reply import ReplyFormat
    from kakite.collab.suggestions import Suggestions

Mode = Literal["review", "auto"]


class RunError(KakiteError):
    """Something was asked of a run that is not possible.

    Codes: ``no_such_run``, ``not_revertable`` (it was kept or reverted, or the server has been started anew
    since).
    """

    code = "no_such_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person asks for."""

    message: str
    page: str
    """The page that the person is on."""
    selection: Span | None = None
    """In code points of that page's present text."""
    mode: Mode = "review"
    pages: tuple[str, ...] = ()
    """Other pages that the run is about."""
    format: ReplyFormat = "search_replace"

    @classmethod
    def of_json(cls, page: str, data: Mapping[str, Any], pages: Mapping[str, Suggestions]) -> Request:
        """Read ``{message, selection?: {start, end} in UTF-16 units, mode?, pages?, format?}``.

        Raises:
            UsageError: it is something else (``bad_request``).
        """
        message = data.get("message")
        if not isinstance(message, str) or not message.strip():
            raise _bad("`message` says what is asked for")
        mode, format_ = data.get("mode") or "review", data.get("format") or "search_replace"
        if mode not in {"review", "auto"} or format_ not in {"search_replace", "json"}:
            raise _bad("`mode` is review or auto, `format` is search_replace or json")
        others = cast("list[object]", data.get("pages") or [])
        if not isinstance(data.get("pages") or [], list) or not all(isinstance(name, str) for name in others):
            raise _bad("`pages` is a list of names")
        return cls(
            message=message,
            page=page,
            selection=_selection(data.get("selection"), pages[page]),
            mode=cast("Mode", mode),
            pages=tuple(name for name in dict.fromkeys(cast("list[str]", others)) if name != page),
            format=cast("ReplyFormat", format_),
        )


@dataclass(slots=True, kw_only=True)
class Run:
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
    def from_json(cls, data: Mapping[str, Any]) -> Run:
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


def _selection(data: object, suggestions: Suggestions) -> Span | None:
    if data is None:
        return None
    places = cast("dict[str, object]", data if isinstance(data, dict) else {})
    start, end = places.get("start"), places.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        raise _bad("`selection` is {start, end} in UTF-16 units")
    low, high = sorted((start, end))
    return Span(suggestions.text.offset(low), suggestions.text.offset(high))


def _bad(message: str) -> UsageError:
    return UsageError(message, code="bad_request")
