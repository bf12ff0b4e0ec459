"""Notebooks in the editor: their cells are what it shows and edits, their JSON is what it writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from kakite.edit import ChangeSet, SourceText
from kakite.edit.cell_boundaries import BoundaryError
from kakite.edit.notebook import CellType, Notebook, NotInCellError
from kakite.tools.arguments import ToolError
from kakite.tools.edits import FileEdit, Plan
from kakite.tools.scope import Scope, text_of
from kakite.workspace import File

_SUFFIX = ".ipynb"
_CELLS_SHOWN = 50
_HEAD = re.compile(r"--- cell (\d{1,9}), \w+ ---")
_NEW = re.compile(r"--- new cell, (code|markdown|raw) ---(?:\n|$)")


class OpenText:
    """A file's text as the editor shows it, and what an edit of that is in the file."""

    def __init__(self, file: File, path: str) -> None:
        """Raise ``binary_file`` for what is no text."""
        self._file = file
        self._path = path
        self._source = text_of(file, path)
        self.notebook = Notebook.parse(self._source.text) if path.lower().endswith(_SUFFIX) else None
        self.shown = self._source if self.notebook is None else SourceText(self.notebook.text)

    def edit(self, changes: ChangeSet, made: SourceText | None = None) -> FileEdit:
        """Return what changes of the text that is shown do to the file; ``made`` is what they lead to.

        Raises:
            ToolError: ``not_in_cell``.
        """
        if self.notebook is not None:
            notebook = self.notebook
            return self.edit_file(lambda: notebook.text_changes(changes))
        return self._file_edit(changes, made)

    def edit_file(self, change: Callable[[], ChangeSet]) -> FileEdit:
        """Return these changes of a notebook's JSON.

        Raises:
            ToolError: ``not_in_cell``.
        """
        try:
            return self._file_edit(change(), None)
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

    def _file_edit(self, changes: ChangeSet, made: SourceText | None) -> FileEdit:
        return FileEdit(
            path=self._path,
            version=self._file.version,
            source=self._source,
            changes=changes,
            before=self._file.data,
            made=made,
        )

    def insert_cell(self, line: int, text: str) -> Plan | None:
        """Return what becomes of a notebook when a text that begins with the line of a new cell comes behind
        a line; None if it is another text, or no notebook.

        Raises:
            ToolError: ``not_in_cell``.
        """
        found = _NEW.match(text)
        if self.notebook is None or found is None:
            return None
        notebook, kind = self.notebook, cast("CellType", found.group(1))
        above = sum(notebook.lines_of(cell.number)[0] - 1 <= line for cell in notebook.cells)
        source = text[found.end() :].removesuffix("\n")
        edit = self.edit_file(lambda: notebook.insertion(above, kind, source))
        return _planned(edit, f"Inserted cell {above + 1}")


def plan_head(scope: Scope, path: str, old: str, new: str) -> Plan | None:
    """Return what becomes of a notebook when the line above a cell goes, or gets another number.

    That deletes the cell, or moves it there. None if this is another edit.

    Raises:
        ToolError: ``not_in_cell``.
    """
    head, to = _HEAD.fullmatch(old.strip()), _HEAD.fullmatch(new.strip())
    if head is None or (new.strip() and to is None) or not path.lower().endswith(_SUFFIX):
        return None
    opened = OpenText(scope.read(path), path)
    notebook = opened.notebook
    number = int(head.group(1))
    if notebook is None or old.strip() not in notebook.text.split("\n"):
        return None
    if to is None:
        return _planned(opened.edit_file(lambda: notebook.deletion(number)), f"Deleted cell {number}")
    place = int(to.group(1))
    after = place if place > number else place - 1
    return _planned(opened.edit_file(lambda: notebook.move(number, after)), f"Moved cell {number} to {place}")


def _planned(edit: FileEdit, told: str) -> Plan:
    after = Notebook.parse(edit.after().text)
    assert after is not None
    cells = [f"cell {each.number}, {each.type}: {_head(each.source)}" for each in after.cells[:_CELLS_SHOWN]]
    left = len(after.cells) - len(cells)
    more = [f"… and {left} more"] if left else []
    return Plan(edits=(edit,), told="\n".join([f"{told} of `{edit.path}`. It has now:", *cells, *more]))


def _head(source: str) -> str:
    line = next((line.strip() for line in source.split("\n") if line.strip()), "(empty)")
    return line if len(line) <= 60 else f"{line[:60]}…"
