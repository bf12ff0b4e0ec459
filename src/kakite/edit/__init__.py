"""The edit engine: applies edits to a text, or returns every reason why they cannot be applied.

It does no input or output, reads no clock, and needs the standard library only. A part of it is loaded when
you first use a name from it, so that applying edits does not load the parsers for replies.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.edit.changes import Change, ChangeSet
    from kakite.edit.diff_output import unified_diff
    from kakite.edit.edit_batch import apply
    from kakite.edit.errors.model import Candidate, EditError, EditFailure, EditSuggestion
    from kakite.edit.errors.render import FieldNames, render_for_model, render_for_person
    from kakite.edit.formats.format_error import FormatError
    from kakite.edit.formats.parser import Parser, parse
    from kakite.edit.multi_file import apply_to_files
    from kakite.edit.source_text import SourceText
    from kakite.edit.suggestions.model import SuggestionGoneError, accept
    from kakite.edit.types import (
        CreateFile,
        DeleteFile,
        Edit,
        FileChange,
        FilesResult,
        Match,
        MatchOptions,
        MoveFile,
        Operation,
        Result,
    )

__all__ = [
    "Candidate",
    "Change",
    "ChangeSet",
    "CreateFile",
    "DeleteFile",
    "Edit",
    "EditError",
    "EditFailure",
    "EditSuggestion",
    "FieldNames",
    "FileChange",
    "FilesResult",
    "FormatError",
    "Match",
    "MatchOptions",
    "MoveFile",
    "Operation",
    "Parser",
    "Result",
    "SourceText",
    "SuggestionGoneError",
    "accept",
    "apply",
    "apply_to_files",
    "parse",
    "render_for_model",
    "render_for_person",
    "unified_diff",
]

_HOMES = {
    "Candidate": "errors.model",
    "Change": "changes",
    "ChangeSet": "changes",
    "CreateFile": "types",
    "DeleteFile": "types",
    "Edit": "types",
    "EditError": "errors.model",
    "EditFailure": "errors.model",
    "FileChange": "types",
    "FilesResult": "types",
    "FormatError": "formats.format_error",
    "Match": "types",
    "MoveFile": "types",
    "Operation": "types",
    "Parser": "formats.parser",
    "Result": "types",
    "MatchOptions": "types",
    "SourceText": "source_text",
    "EditSuggestion": "errors.model",
    "SuggestionGoneError": "suggestions.model",
    "FieldNames": "errors.render",
    "accept": "suggestions.model",
    "apply": "edit_batch",
    "apply_to_files": "multi_file",
    "parse": "formats.parser",
    "render_for_model": "errors.render",
    "render_for_person": "errors.render",
    "unified_diff": "diff_output",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
