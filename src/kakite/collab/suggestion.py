"""A suggestion as a value, and the ways in which settling one fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from kakite.collab.anchors import Span
from kakite.edit import Edit
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.collab.shared_text import SharedText

Status = Literal["pending", "accepted", "rejected", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change of one place that somebody proposes. A value: what was true when it was asked for."""

    id: str
    page: str
    run: str
    """What it belongs to; ``run:RUN`` is the origin of the change that accepting it makes."""
    by: str
    reason: str
    search: str
    """What stands in the place. For ``changed``: what stood there when it was proposed."""
    replace: str
    """What would stand there, as the engine fitted it to the text."""
    match: str
    """How the place was found: ``exact``, or the loosest of what was forgiven."""
    forgiven: tuple[str, ...] = ()
    version: str
    """Of the text for which it was proposed."""
    asked: Edit
    """The edit as it was asked for."""
    status: Status = "pending"
    """``changed``: pending, but people have changed its place."""
    span: Span
    """Where it is in the text, in code points; of a settled one, where it was then."""
    line: int
    """Where it starts, from 1."""

    def to_json(self, text: SharedText) -> dict[str, Any]:
        """Return it as clients see it; ``range`` is in UTF-16 units of the present text."""
        return {
            "id": self.id,
            "page": self.page,
            "run": self.run,
            "search": self.search,
            "replace": self.replace,
            "status": self.status,
            "line": self.line,
            "range": {"start": text.utf16(self.span.start), "end": text.utf16(self.span.end)},
            "reason": self.reason,
            "by": self.by,
            "match": self.match,
            "forgiven": list(self.forgiven),
            "version": self.version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a suggestion could become in a place that people have changed."""

    search: str
    replace: str
    line: int
    span: Span

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        return {"search": self.search, "replace": self.replace, "line": self.line}


class SuggestionError(KakiteError):
    """A suggestion could not be settled. Nothing was changed.

    Codes: ``changed`` (see ``Changed``), ``no_such_suggestion``, ``settled``.
    """

    code = "settled"

    def __init__(self, message: str, *, suggestion: str, hint: str = "", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.suggestion = suggestion
        """Its id."""

    @property
    def data(self) -> dict[str, Any]:
        """Further fields for whoever asked."""
        return {"id": self.suggestion}


class NotFound(SuggestionError):  # noqa: N818 - the name of the state
    """There is no such suggestion."""

    code = "no_such_suggestion"


class Settled(SuggestionError):  # noqa: N818 - the name of the state
    """It was accepted or rejected before."""

    code = "settled"


class Changed(SuggestionError):  # noqa: N818 - the name of the state
    """People have changed the place since."""

    code = "changed"

    def __init__(self, suggestion: str, text: str, candidate: Candidate | None) -> None:
        hint = "look at the present text, then accept the candidate, or reject the suggestion"
        if candidate is None:
            hint = "look at the present text, then reject the suggestion, or ask for it anew"
        super().__init__("the place was changed since this was suggested", suggestion=suggestion, hint=hint)
        self.text = text
        """What stands in the place now."""
        self.candidate = candidate
        """What accepting it with ``candidate=True`` would do; None if it has no sure place any more."""

    @property
    def data(self) -> dict[str, Any]:
        """What stands there now, and the candidate."""
        candidate = self.candidate.to_json() if self.candidate else None
        return {"id": self.suggestion, "text": self.text, "candidate": candidate}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of several suggestions."""

    accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    failed: tuple[SuggestionError, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        failed = [
            {"code": error.code, "message": error.message, "hint": error.hint, **error.data}
            for error in self.failed
        ]
        return {"accepted": list(self.accepted), "rejected": list(self.rejected), "failed": failed}


def suggestion_of(data: Mapping[str, Any]) -> Suggestion:
    """Read what ``dataclasses.asdict`` gave of a suggestion, also after a way through JSON.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    asked: dict[str, Any] = {**data["asked"]}
    for name in ("mentioned", "scope"):
        asked[name] = tuple(cast("list[str]", asked[name]))
    fields: dict[str, Any] = {
        **data,
        "asked": Edit(**asked),
        "span": Span(**data["span"]),
        "forgiven": tuple(cast("list[str]", data["forgiven"])),
    }
    return Suggestion(**fields)
