"""Replays recorded edits with Kakite's engine, and counts what came of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kakite.cli.replay.recorded_edit import RecordedEdit

if TYPE_CHECKING:
    from kakite.edit import FilesResult

Outcome = Literal["same", "different", "landed", "suggested", "refused", "text_unknown"]
"""What Kakite makes of an edit: ``same`` and ``different`` compare with the text that the client wrote, and
``landed`` has nothing to compare with. ``suggested`` is a refusal that shows what was probably meant."""

OUTCOMES: tuple[Outcome, ...] = ("same", "different", "landed", "suggested", "refused", "text_unknown")


@dataclass(slots=True)
class ClientCounts:
    """The edits in the transcripts of one client."""

    logs: int = 0
    applied: Counter[Outcome] = field(default_factory=Counter["Outcome"])
    failed: Counter[Outcome] = field(default_factory=Counter["Outcome"])
    not_tried: int = 0
    repeated: int = 0
    """Calls that stood in another transcript already."""

    def add(self, edit: RecordedEdit) -> None:
        """Replay an edit and count it."""
        if edit.ending == "not_tried":
            self.not_tried += 1
        else:
            counter = self.applied if edit.ending == "applied" else self.failed
            counter[replay_edit(edit)] += 1


def replay_edit(edit: RecordedEdit) -> Outcome:
    """Return what Kakite makes of an edit."""
    from kakite.edit import SourceText, apply_to_files
    from kakite.edit.suggestions.model import refuse

    if not edit.operations:
        return "refused"
    if edit.before is None:
        return "text_unknown"
    sources = {path: SourceText(text) for path, text in edit.before.items()}
    result = apply_to_files(sources, edit.operations, partial=True)
    if result.failures:
        failures = refuse(sources, result).failures
        return "suggested" if all(each.suggestion for each in failures) else "refused"
    if edit.after is None:
        return "landed"
    return "same" if _list_texts(edit, result) == edit.after else "different"


def _list_texts(edit: RecordedEdit, result: FilesResult) -> dict[str, str]:
    """Return the texts of the files that the client has left, after Kakite's edit."""
    texts = {path: text for path, text in (edit.before or {}).items() if path in (edit.after or {})}
    for change in result.files:
        if change.after is not None:
            texts[change.to or change.path] = change.after.text
    return texts
