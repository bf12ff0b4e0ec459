"""Defines the engine's input and output: edits and file operations, options, matches and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from kakite.edit.changes import ChangeSet
    from kakite.edit.errors.model import EditFailure
    from kakite.edit.source_text import SourceText


Level = Literal[
    "exact",
    "line_ends",
    "trailing_blanks",
    "look_alikes",
    "inner_blanks",
    "indentation",
    "blank_lines",
    "line_numbers",
]
"""The levels of matching, from the strictest to the loosest."""

LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace the one place that reads ``search`` with ``replace``."""

    search: str
    replace: str
    line: int | None = None
    """Where SEARCH starts (1-based). It picks the one of equal places that starts there, nothing else."""
    all: bool = False
    """Replace every place instead of refusing when there are several. Places that cut a word are left."""
    whole_lines: bool = False
    """Whether SEARCH means whole lines, as in a format of lines: a hit within a line is none then."""
    path: str = ""
    """The file that is meant, where a reply names one."""
    mentioned: tuple[str, ...] = ()
    """Files that the prose above an edit without a path mentions, at most the 100 nearest: it is for one of
    them, or for none."""
    scope: tuple[str, ...] = ()
    """Lines that the place must stand below, outermost first, and inside of the blocks that they open."""
    heading: str = ""
    """A line that may stand above the place. It breaks ties only: tools and models name the wrong one."""
    at_end: bool = False
    """Among several places, the one at the end of the text is meant."""
    hunk_line: int | None = None
    """Where a diff says that SEARCH starts (1-based), as far as its other hunks bear that out. Like ``line``
    it picks the one of equal places that starts there, nothing else."""
    drops_line_end: bool = False
    """Whether the text ends with REPLACE, without a line end, if SEARCH is at its end."""
    must_exist: bool = False
    """Whether an empty SEARCH is a mistake even for a file that is not there, instead of creating it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFile:
    """Write a file that is not there yet, or the whole of one that is."""

    path: str
    text: str
    overwrite: Literal["never", "if_most_stays", "always"] = "never"
    """Whether a file that is there gets this text; ``if_most_stays`` if most of its lines are in it."""
    is_executable: bool = False
    """Whether it is a program: a new file that may be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """Remove a file."""

    path: str
    text: str | None = None
    """All of its lines, where the reply has them: the file is kept if it has others. None for any content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFile:
    """Give a file another path; edits of the same batch name it by the old one."""

    path: str
    to: str


Operation = Edit | CreateFile | DeleteFile | MoveFile
"""What a reply can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The location of an applied edit, and how it was matched."""

    index: int
    """Which edit of the batch, from 0."""
    line: int
    """First line of the place (1-based)."""
    lines: int
    start: int
    """Half-open span of the place, in code points of the original."""
    end: int
    level: Level
    """The loosest level that was needed."""
    forgiven: tuple[str, ...] = ()
    """Every kind of difference that was forgiven, the strictest level first; empty for an exact match."""
    starts_inside: bool = False
    """Whether other text than blanks stands before the place on its first line."""
    ends_inside: bool = False
    """Whether other text than blanks stands behind the place on its last line."""
    repeats: bool = False
    """Whether what the edit adds around SEARCH stood there already: it stands there twice now."""
    left: tuple[int, ...] = ()
    """With ``all``: the lines (1-based) of places that were left, since they cut a word in two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of applying a batch."""

    text: str
    changes: ChangeSet
    """The changes over the original that lead to ``text``."""
    matches: tuple[Match, ...]
    """In the order of the edits; several for an edit with ``all``."""
    source: SourceText
    """The new text with its encoding and byte order mark: ``source.to_bytes()`` is what a file gets."""
    failures: tuple[EditFailure, ...] = ()
    """What was left out; always empty unless ``partial`` was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The change of one file."""

    path: str
    """Where it is, or where it is created."""
    before: SourceText | None
    """None for a file that is created."""
    after: SourceText | None
    """None for a file that is deleted."""
    to: str = ""
    """Where it moves; empty if it stays."""
    result: Result | None = None
    """How its edits matched; None if it has none."""
    indices: tuple[int, ...] = ()
    """Which operations of the batch it comes from."""
    is_executable: bool = False
    """Whether a file that is created may be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesResult:
    """The result of applying a batch to files."""

    files: tuple[FileChange, ...]
    """The files that change, in an order in which they can be written one after the other: a file is gone
    before another one takes its place."""
    failures: tuple[EditFailure, ...] = ()
    """What was left out; always empty unless ``partial`` was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchOptions:
    """The settings of one batch. The defaults suit a coding agent as well as a page of prose."""

    loosest: Level = "line_numbers"
    """The loosest level that may decide; ``exact`` forgives nothing."""
    preserve_indentation: bool = True
    """Whether SEARCH may stand in another indentation, which REPLACE then takes over. Otherwise the level of
    indentation is off."""
    strip_line_numbers: bool = True
    """Whether copied line numbers are removed from SEARCH and REPLACE."""


DEFAULT_OPTIONS = MatchOptions()
