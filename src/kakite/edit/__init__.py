"""The edit engine: text in, edits in, text or every failure out. Right or not at all.

No input, no output, no clock. It needs the standard library only, and loads a part of itself when a name
of it is asked for: whoever applies edits does not wait for what reads replies.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.edit.changes import Change, ChangeSet
    from kakite.edit.diffing import unified_diff
    from kakite.edit.edits import CreateFile, DeleteFile, Edit, Match, MoveFile, Operation, Result
    from kakite.edit.failures import Candidate, EditError, Failure, Suggestion
    from kakite.edit.files import FileChange, FilesResult, apply_to_files
    from kakite.edit.formats.format_error import FormatError
    from kakite.edit.formats.reply import Parser, parse
    from kakite.edit.planning import apply
    from kakite.edit.rendering import Words, render_for_model, render_for_person
    from kakite.edit.settings import Settings
    from kakite.edit.source_text import SourceText
    from kakite.edit.suggestions import SuggestionGoneError, accept

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
    "Suggestion",
    "SuggestionGoneError",
    "Words",
    "accept",
    "apply",
    "apply_to_files",
    "parse",
    "render_for_model",
    "render_for_person",
    "unified_diff",
]

_HOMES = {
    "Candidate": "failures",
    "Change": "changes",
    "ChangeSet": "changes",
    "CreateFile": "edits",
    "DeleteFile": "edits",
    "Edit": "edits",
    "EditError": "failures",
    "Failure": "failures",
    "FileChange": "files",
    "FilesResult": "files",
    "FormatError": "formats.format_error",
    "Match": "edits",
    "MoveFile": "edits",
    "Operation": "edits",
    "Parser": "formats.reply",
    "Result": "edits",
    "Settings": "settings",
    "SourceText": "source_text",
    "Suggestion": "failures",
    "SuggestionGoneError": "suggestions",
    "Words": "rendering",
    "accept": "suggestions",
    "apply": "planning",
    "apply_to_files": "files",
    "parse": "formats.reply",
    "render_for_model": "rendering",
    "render_for_person": "rendering",
    "unified_diff": "diffing",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
