"""The edit engine: text in, edits in, text or every failure out. Right or not at all.

No input, no output, no clock. Importing it loads the standard library only.
"""

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.diffing import unified_diff
from kakite.edit.edits import Edit, Match, Result
from kakite.edit.failures import Candidate, EditError, Failure
from kakite.edit.planning import apply
from kakite.edit.rendering import render_for_model, render_for_person
from kakite.edit.source_text import SourceText

__all__ = [
    "Candidate",
    "Change",
    "ChangeSet",
    "Edit",
    "EditError",
    "Failure",
    "Match",
    "Result",
    "SourceText",
    "apply",
    "render_for_model",
    "render_for_person",
    "unified_diff",
]
