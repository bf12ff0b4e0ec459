"""Defines the values that describe a refused edit, and the exception that carries them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kakite.errors import KakiteError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.edit.changes import ChangeSet

FailureCode = Literal[
    "already_applied",
    "ambiguous",
    "bad_path",
    "empty_search",
    "file_exists",
    "file_missing",
    "file_operation",
    "indentation_unclear",
    "near_miss",
    "no_effect",
    "not_encodable",
    "not_found",
    "overlap",
    "placeholder",
    "too_much",
    "wrapped",
]
"""Stable names; each is explained with an example in docs/edit.md."""


OR_LINE = ", or give the line"
"""How a hint ends where a line number would help too; not every face of the engine takes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A place of the text that could have been meant."""

    line: int
    """1-based."""
    lines: int
    score: float
    """How much it resembles SEARCH, 0 to 1."""
    text: str
    """The lines as they stand in the text, cut after some lines if there are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSuggestion:
    """The edit that was probably meant, ready to be accepted as it is."""

    id: str
    """Follows from the text and the changes: it is gone as soon as the text is another."""
    line: int
    """First line that changes (1-based)."""
    diff: str
    """What accepting it would do, as a unified diff."""
    changes: ChangeSet
    """The changes over the text that the edit was refused for."""
    is_loss: bool = False
    """Whether it is the refused edit itself, which loses lines: nobody proposes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFailure:
    """One edit that could not be applied, and what to do about it."""

    index: int
    """Which edit of the batch, from 0."""
    code: FailureCode
    message: str
    """What was expected and what was found: one sentence, no full stop."""
    hint: str
    """What to do next: one sentence, no full stop."""
    candidates: tuple[Candidate, ...] = ()
    line: int = 0
    """The line that differs (1-based), 0 if no single line does."""
    found: str = ""
    """That line as it stands in the text, or another short piece of data: the character, the path."""
    sent: str = ""
    """The same line as SEARCH has it."""
    other: int = -1
    """The other edit, where two edits collide."""
    path: str = ""
    """The file, where the batch has several."""
    suggestion: EditSuggestion | None = None
    """What to accept, where the place is clear."""


class EditError(KakiteError):
    """Edits could not be applied, and nothing was changed. ``failures`` tells why, edit by edit."""

    code = "edit_refused"

    def __init__(self, failures: Iterable[EditFailure]) -> None:
        self.failures = tuple(failures)
        first = self.failures[0]
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        super().__init__(first.message + more, hint=first.hint)
