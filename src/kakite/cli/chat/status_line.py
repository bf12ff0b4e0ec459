"""The status line, and other texts of several parts, in the room that a terminal has. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, chop_cells

_BETWEEN = " · "
_NAME_CELLS = 8
"""Cells of the name of a model or a branch that are shown at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLine:
    """What the line at the very bottom says; empty parts are left out."""

    mode: str
    model: str
    context: str = ""
    cost: str = ""
    background: int = 0
    """Commands in the background."""
    branch: str = ""
    hint: str = ""
    short: bool = False
    """Whether the commands in the background are told in short."""

    def format(self, columns: int) -> str:
        """Return the line. Without room for all, names are cut in their middle first, then the hint goes."""
        line = self
        for line in self._narrow(columns):
            if line._count_cells() <= columns:
                break
        return join_to_fit(line.parts, columns)

    @property
    def parts(self) -> list[str]:
        """The parts that there are, in order."""
        running = f"{self.background} {'bg' if self.short else 'in background'}" if self.background else ""
        every = (self.mode, self.model, self.context, self.cost, running, self.branch, self.hint)
        return [part for part in every if part]

    def _narrow(self, columns: int) -> Iterator[StatusLine]:
        yield self
        line = replace(self, model=self.model.partition(":")[2] or self.model)
        yield line
        line = replace(line, model=cut_middle(line.model, line._find_room(line.model, columns)))
        yield line
        line = replace(line, branch=cut_middle(line.branch, line._find_room(line.branch, columns)))
        yield line
        line = replace(line, short=True)
        yield line
        yield replace(line, hint="")

    def _count_cells(self) -> int:
        return cell_len(_BETWEEN.join(self.parts))

    def _find_room(self, part: str, columns: int) -> int:
        """Return how many cells a part may take beside the others, but never too few to know it."""
        return max(columns - self._count_cells() + cell_len(part), _NAME_CELLS)


def cut_middle(text: str, cells: int) -> str:
    """Return a text of so many cells at most, of a longer one its two ends."""
    if cell_len(text) <= cells:
        return text
    for kept in range(len(text) - 1, 1, -1):
        shown = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if cell_len(shown) <= cells:
            return shown
    return "…"


def join_to_fit(parts: Sequence[str], columns: int) -> str:
    """Return the parts of a line, without those before the last that have no room."""
    kept = list(parts)
    while cell_len(text := _BETWEEN.join(kept)) > columns and len(kept) > 2:
        del kept[-2]
    return text


def wrap_parts(text: str, columns: int) -> str:
    """Return a text of several parts in rows that a terminal does not cut: a new row begins at a part."""
    rows = [""]
    for part in text.split(_BETWEEN):
        longer = f"{rows[-1]}{_BETWEEN}{part}" if rows[-1] else part
        if cell_len(longer) < columns:
            rows[-1] = longer
        else:
            rows += chop_cells(part, columns - 1)
    return "\n".join(filter(None, rows))
