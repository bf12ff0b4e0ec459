"""Lines that look like those between a notebook's cells: none is put into a cell."""

from __future__ import annotations

import re
from collections import Counter

_BOUNDARY = re.compile(
    r"^--- (?:new cell, \w+|cell \d+, \w+|outputs of cell \d+:.*) ---[ \t]*$", re.MULTILINE
)


class BoundaryError(Exception):
    """A change would put a line into a source that looks like the line above a cell."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


def check_boundaries(old: str, new: str) -> None:
    """Raise ``BoundaryError`` for a new line that a reader would take for one between cells."""
    known = Counter(_BOUNDARY.findall(old))
    if more := Counter(_BOUNDARY.findall(new)) - known:
        raise BoundaryError(next(iter(more)))
