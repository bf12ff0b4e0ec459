"""The edit engine: text in, edits in, text or every failure out. Right or not at all.

No input, no output, no clock. Importing it loads the standard library only.
"""

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.diffing import unified_diff
from kakite.edit.edits import CreateFile, DeleteFile, Edit, Match, MoveFile, Operation, Result
from kakite.edit.failures import Candidate, EditError, Failure
from kakite.edit.files import FileChange, FilesResult, apply_to_files
from kakite.edit.formats.format_error import FormatError
from kakite.edit.formats.reply import Parser, parse
from kakite.edit.planning import apply
from kakite.edit.rendering import Words, render_for_model, render_for_person
from kakite.edit.settings import Settings
from kakite.edit.source_text import SourceText

__all__ = [
    "Candidate",
    "Change",
    "ChangeSet",
    "CreateFile",
    "DeleteFile",
    "Edit",
    "EditError",
    "Failure",
    "FileChange",
    "FilesResult",
    "FormatError",
    "Match",
    "MoveFile",
    "Operation",
    "Parser",
    "Result",
    "Settings",
    "SourceText",
    "Words",
    "apply",
    "apply_to_files",
    "parse",
    "render_for_model",
    "render_for_person",
    "unified_diff",
]
