"""Plans replacements in a file's text: `str_replace`, and several at once as `edit`.

Of a notebook the editor shows and edits the cells and writes the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from kakite.edit import (
    ChangeSet,
    Edit,
    EditFailure,
    FieldNames,
    Match,
    Result,
    SourceText,
    render_for_model,
)
from kakite.edit.notebook import BoundaryError, CellType, Notebook, NotInCellError
from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import report_refusal
from kakite.tools.changes.outside_changes import apply_seen
from kakite.tools.edit_plan import EditPlan, FileEdit
from kakite.tools.editor.snippets import render_snippet
from kakite.tools.editor.suggestions import build_accept_words, describe_suggestion, offer_suggestions
from kakite.tools.scope import Scope, decode_text
from kakite.workspace import File

_SUFFIX = ".ipynb"
_CELLS_SHOWN = 50
_HEAD = re.compile(r"--- cell (\d{1,9}), \w+ ---")
_NEW = re.compile(r"--- new cell, (code|markdown|raw) ---(?:\n|$)")


class EditableText:
    """A file's text as the editor shows it, and what an edit of that is in the file."""

    def __init__(self, file: File, path: str) -> None:
        """Raise ``binary_file`` for what is no text."""
        self._file = file
        self._path = path
        self._source = decode_text(file, path)
        self.notebook = Notebook.parse(self._source.text) if path.lower().endswith(_SUFFIX) else None
        self.shown = self._source if self.notebook is None else SourceText(self.notebook.text)

    def edit(self, changes: ChangeSet, made: SourceText | None = None) -> FileEdit:
        """Return what changes of the text that is shown do to the file; ``made`` is what they lead to.

        Raises:
            ToolError: ``not_in_cell``.
        """
        if self.notebook is not None:
            notebook = self.notebook
            return self.edit_file(lambda: notebook.map_text_changes(changes))
        return self._build_file_edit(changes, made)

    def edit_file(self, change: Callable[[], ChangeSet]) -> FileEdit:
        """Return these changes of a notebook's JSON.

        Raises:
            ToolError: ``not_in_cell``.
        """
        try:
            return self._build_file_edit(change(), None)
        except BoundaryError as error:
            raise ToolError(
                f"nothing was done: the line `{error.line}` would become a part of a cell of "
                f"`{self._path}`, and look like the beginning of another one",
                hint="to make a cell, insert a text that begins with the line `--- new cell, code ---`; "
                "to have one in a cell, write it in another way",
                code="not_in_cell",
            ) from error
        except NotInCellError as error:
            count = len(self.notebook.cells) if self.notebook else 0
            raise ToolError(
                f"nothing was done: `{self._path}` is a notebook of {count} cells, and this edits none",
                hint="edit the lines of a cell, not those between; insert a text that begins with the line "
                "`--- new cell, code ---` for a new cell; put nothing in place of the line above a cell to "
                "delete the cell, or that line with another number to move it",
                code="not_in_cell",
            ) from error

    def _build_file_edit(self, changes: ChangeSet, made: SourceText | None) -> FileEdit:
        return FileEdit(
            path=self._path,
            version=self._file.version,
            source=self._source,
            changes=changes,
            before=self._file.data,
            made=made,
        )

    def insert_cell(self, line: int, text: str) -> EditPlan | None:
        """Return what becomes of a notebook when a text that begins with the line of a new cell comes behind
        a line; None if it is another text, or no notebook.

        Raises:
            ToolError: ``not_in_cell``.
        """
        found = _NEW.match(text)
        if self.notebook is None or found is None:
            return None
        notebook, kind = self.notebook, cast("CellType", found.group(1))
        above = sum(notebook.get_line_range(cell.number)[0] - 1 <= line for cell in notebook.cells)
        source = text[found.end() :].removesuffix("\n")
        edit = self.edit_file(lambda: notebook.insert_cell(above, kind, source))
        return _build_plan(edit, f"Inserted cell {above + 1}")


def plan_cell_header_edit(scope: Scope, wanted: Replacement) -> EditPlan | None:
    """Return what becomes of a notebook when the line above a cell goes, or gets another number.

    That deletes the cell, or moves it there. None if this is another edit.

    Raises:
        ToolError: ``not_in_cell``.
    """
    old, new = wanted.old.strip(), wanted.new.strip()
    head, to = _HEAD.fullmatch(old), _HEAD.fullmatch(new)
    if head is None or (new and to is None) or not wanted.path.lower().endswith(_SUFFIX):
        return None
    opened = EditableText(scope.workspace.read(wanted.path), wanted.path)
    notebook = opened.notebook
    number = int(head.group(1))
    if notebook is None or old not in notebook.text.split("\n"):
        return None
    if to is None:
        return _build_plan(opened.edit_file(lambda: notebook.delete_cell(number)), f"Deleted cell {number}")
    place = int(to.group(1))
    after = place if place > number else place - 1
    return _build_plan(
        opened.edit_file(lambda: notebook.move_cell(number, after)), f"Moved cell {number} to {place}"
    )


def _build_plan(edit: FileEdit, told: str) -> EditPlan:
    after = Notebook.parse(edit.to_source().text)
    assert after is not None
    cells = [
        f"cell {each.number}, {each.type}: {_find_first_line(each.source)}"
        for each in after.cells[:_CELLS_SHOWN]
    ]
    left = len(after.cells) - len(cells)
    more = [f"… and {left} more"] if left else []
    return EditPlan(edits=(edit,), told="\n".join([f"{told} of `{edit.path}`. It has now:", *cells, *more]))


def _find_first_line(source: str) -> str:
    line = next((line.strip() for line in source.split("\n") if line.strip()), "(empty)")
    return line if len(line) <= 60 else f"{line[:60]}…"


_WORDS = FieldNames(search="`old_str`", replace="`new_str`", takes_line=False)

_BARE = "\nnote: no `new_str` came, so the text was removed"

_TOLERATED_NAMES = {
    "line_ends": "line ends",
    "trailing_blanks": "blanks at the ends of lines",
    "look_alikes": "look-alike characters",
    "inner_blanks": "runs of blanks inside lines",
    "indentation": "indentation",
    "blank_lines": "blank lines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One text of one file, and what is put in its place."""

    path: str
    old: str
    new: str
    all: bool = False
    """Every place, instead of the one that there must be."""
    is_bare: bool = False
    """Whether no new text came, so that the old one goes."""


def plan_replacements(scope: Scope, wanted: Sequence[Replacement]) -> EditPlan:
    """Return what becomes of the files: all of it, each found in the text as it is now.

    Raises:
        KakiteError: what is wrong with all that cannot be done.
    """
    by_file: dict[str, list[int]] = {}
    for index, each in enumerate(wanted):
        by_file.setdefault(scope.workspace.canonicalize(each.path), []).append(index)
    done: list[_ReplacementResult] = []
    failures: list[EditFailure] = []
    errors: list[KakiteError] = []
    for indices in by_file.values():
        few = [wanted[index] for index in indices]
        try:
            replaced = _replace(scope, few, is_alone=len(by_file) == 1)
        except KakiteError as error:
            errors.append(error)
            continue
        path = few[0].path if len(by_file) > 1 else ""
        failures += [_renumber(failure, indices, path) for failure in replaced.result.failures]
        done.append(replaced)
    if failures or errors:
        edits = [each.edit for each in done]
        paths = {each.edit.path for each in done}
        words = build_accept_words(scope, paths.pop() if len(paths) == 1 else "", _WORDS)
        if errors:  # then no suggestion could land all of the call
            told = [replace(failure, suggestion=None) for failure in failures]
        else:
            told = offer_suggestions(scope, edits, failures)
        raise _build_refusal(told, errors, words)
    forgiven = dict.fromkeys(kind for each in done for kind in each.tolerated)
    return EditPlan(
        edits=tuple(each.edit for each in done),
        told="\n\n".join(each.to_message() for each in done),
        forgiven=tuple(forgiven),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplacementResult:
    """One file, with all that is replaced in it."""

    edit: FileEdit
    result: Result
    asked: int
    """How many replacements were."""
    bare: int = 0
    """How many of them came without a new text."""

    @property
    def tolerated(self) -> tuple[str, ...]:
        """In what the quoted texts differed from the file."""
        return tuple(dict.fromkeys(kind for match in self.result.matches for kind in _list_tolerated(match)))

    def to_message(self) -> str:
        """Return what was done, and the lines around it."""
        places = len(self.result.matches)
        many = f" at {places} places" if places > self.asked else f", {places} edits" if places > 1 else ""
        forgiven = ", ".join(self.tolerated)
        how = (
            f" (`old_str` was not exact, forgiven: {forgiven}; check that the result is what you meant)"
            if forgiven
            else ""
        )
        shown = render_snippet(self.result.text, self.result.changes)
        remarks = _format_remarks(self.result.matches) + _BARE * (self.bare > 0)
        return f"Edited `{self.edit.path}`{many}{how}{remarks}\n{shown}".rstrip()


def _replace(scope: Scope, wanted: Sequence[Replacement], *, is_alone: bool) -> _ReplacementResult:
    """Return what becomes of one file; ``is_alone`` says that the call is about no other."""
    from kakite.edit import apply

    path = wanted[0].path
    opened = EditableText(scope.workspace.read(path), path)
    source = opened.shown
    edits = [Edit(search=each.old, replace=each.new, all=each.all, path=path) for each in wanted]
    if opened.notebook is None:
        try:
            result = apply_seen(scope, path, source, edits)
        except ToolError as error:
            if error.code != "changed_since_read" or not is_alone:
                raise
            raise _add_suggestion(scope, opened, edits, error) from error
    else:
        result = apply(source, edits, partial=True)
        result = replace(
            result, failures=tuple(_map_suggestion_to_file(opened, each) for each in result.failures)
        )
    edit = opened.edit(result.changes, result.source)
    bare = sum(each.is_bare for each in wanted)
    return _ReplacementResult(edit=edit, result=result, asked=len(wanted), bare=bare)


def _add_suggestion(
    scope: Scope, opened: EditableText, edits: Sequence[Edit], refused: ToolError
) -> ToolError:
    """Return the refusal of edits whose lines others changed, with what they are for the lines of now."""
    from kakite.edit import apply

    result = apply(opened.shown, edits, partial=True)
    meant = [
        one.suggestion.changes for one in result.failures if one.suggestion and not one.suggestion.is_loss
    ]
    if len(meant) < len(result.failures):
        return refused
    edit = opened.edit(result.changes, result.source)
    told = describe_suggestion(scope, edit, [change for each in meant for change in each.changes])
    if not told:
        return refused
    hint = f"accept the suggestion, or {refused.hint}"
    return ToolError(f"{refused.message}\n{told}", hint=hint, code=refused.code)


def _map_suggestion_to_file(opened: EditableText, failure: EditFailure) -> EditFailure:
    """Return a failure in a notebook's cells with what it suggests for the file."""
    if failure.suggestion is None:
        return failure
    try:
        changes = opened.edit(failure.suggestion.changes).changes
    except ToolError:  # it would edit what is between the cells
        return replace(failure, suggestion=None)
    return replace(failure, suggestion=replace(failure.suggestion, changes=changes))


def _build_refusal(
    failures: Sequence[EditFailure], errors: Sequence[KakiteError], words: FieldNames
) -> KakiteError:
    """Return what is wrong with all of it as one error; it has the code of the first."""
    if not failures and len(errors) == 1:
        return errors[0]
    report_refusal(failures)
    told = [render_for_model(sorted(failures, key=lambda each: each.index), words=words)] if failures else []
    told += [error.message for error in errors]
    code = failures[0].code if failures else errors[0].code
    return ToolError("\n".join(told), hint=errors[0].hint if errors else "", code=code)


def _renumber(failure: EditFailure, indices: Sequence[int], path: str) -> EditFailure:
    """Return a failure of one file's edits with its number among all of them."""
    other = indices[failure.other] if failure.other >= 0 else -1
    return replace(failure, index=indices[failure.index], other=other, path=path)


def _format_remarks(matches: Iterable[Match]) -> str:
    """Return what is told of places where an exact edit may not be what was meant."""
    told: list[str] = []
    for match in matches:
        if match.ends_inside and match.lines > 1:
            told.append(f"`old_str` ends inside line {match.line + match.lines - 1}")
        if match.repeats:
            told.append(f"what it adds stood at line {match.line} already, and stands there twice now")
        if match.left:
            lines = ", ".join(map(str, match.left[:8]))
            told.append(f"places that are a part of a longer word were left, at lines {lines}")
    return "".join(f"\nnote: {each}" for each in dict.fromkeys(told[:8]))


def _list_tolerated(match: Match) -> tuple[str, ...]:
    kinds = match.forgiven or (() if match.level == "exact" else (match.level,))
    return tuple(_TOLERATED_NAMES.get(kind, kind.replace("_", " ")) for kind in kinds)
