"""A unified diff cut to what fits: to the lines around its changes, long ones to what differs in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_END = "\\"


@dataclass(slots=True)
class _Hunk:
    """One hunk of one file; ``name`` is told above the first one of each file."""

    head: str
    name: str = ""
    lines: list[str] = field(default_factory=list[str])


def cut_diff(diff: str, *, context: int, columns: int, lines: int) -> list[str]:
    """Return the lines of a diff as far as they fit, each with its mark.

    Args:
        diff: as ``unified_diff`` gives it; of several files their names are kept.
        context: how many unchanged lines stay beside a changed one.
        columns: how much of a line is shown, with the place where it differs.
        lines: how many lines are shown; the last one says how many are left out.
    """
    hunks = list(_hunks(diff))
    several = sum(bool(hunk.name) for hunk in hunks) > 1
    shown: list[str] = []
    for hunk in hunks:
        if several and hunk.name:
            shown.append(hunk.name)
        shown += [hunk.head, *_near(_shortened(hunk.lines, columns), context)]
    if len(shown) <= lines:
        return shown
    return [*shown[: lines - 1], f"… {len(shown) - lines + 1} more lines"]


def _hunks(diff: str) -> Iterator[_Hunk]:
    name, left = "", (0, 0)
    hunk: _Hunk | None = None
    for line in diff.split("\n"):
        if hunk is not None and (any(left) or line.startswith(_NO_END)):
            hunk.lines.append(line)
            left = left[0] - (line[:1] in {" ", "-"}), left[1] - (line[:1] in {" ", "+"})
            continue
        if hunk is not None:
            yield hunk
            hunk = None
        if found := _HUNK.match(line):
            hunk = _Hunk(head=line, name=name)
            name, left = "", (int(found[1] or 1), int(found[2] or 1))
        elif line.startswith("+++ ") or (line.startswith("--- ") and not name):
            name = line
    if hunk is not None:
        yield hunk


def _shortened(lines: Sequence[str], columns: int) -> list[str]:
    """Return the lines cut to so many columns: changed ones around where old and new differ first."""
    lines = _without_returns(lines)
    result: list[str] = []
    at = 0
    while at < len(lines):
        removed = _run(lines, at, "-")
        added = _run(lines, at + len(removed), "+")
        if removed or added:
            places = [_first_difference(old, new) for old, new in zip_longest(removed, added, fillvalue="")]
            pairs = [*zip(removed, places, strict=False), *zip(added, places, strict=False)]
            result += [line[:1] + cut_line(line[1:], place, columns) for line, place in pairs]
            at += len(pairs)
        else:
            result.append(lines[at][:1] + cut_line(lines[at][1:], 0, columns))
            at += 1
    return result


def _without_returns(lines: Sequence[str]) -> list[str]:
    """Return the lines without the carriage returns that all of them end with; else make those visible."""
    text = [line for line in lines if not line.startswith(_NO_END)]
    everywhere = all(line.endswith("\r") for line in text)
    return [line[:-1] if everywhere and line.endswith("\r") else line.replace("\r", "␍") for line in lines]


def _run(lines: Sequence[str], start: int, mark: str) -> list[str]:
    end = start
    while end < len(lines) and lines[end].startswith(mark):
        end += 1
    return list(lines[start:end])


def _first_difference(old: str, new: str) -> int:
    """Return the column where two lines differ behind their marks; 0 where there is only one."""
    if not old or not new:
        return 0
    pairs = enumerate(zip(old[1:], new[1:], strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)) - 1)


def cut_line(line: str, place: int, columns: int) -> str:
    """Return so many columns of a line, with this place among them; ``…`` stands for what is left out."""
    if len(line) <= columns:
        return line
    start = max(min(place - columns // 3, len(line) - columns), 0)
    before = "…" if start else ""
    after = "…" if start + columns < len(line) else ""
    return f"{before}{line[start : start + columns]}{after}"


def _near(lines: Sequence[str], context: int) -> Iterator[str]:
    """Yield the changed lines, and those at most so far from one; ``…`` stands for what lies between."""
    changed = [at for at, line in enumerate(lines) if line[:1] in {"-", "+", _NO_END}]
    kept = sorted(
        {at for each in changed for at in range(each - context, each + context + 1) if 0 <= at < len(lines)}
    )
    for before, at in zip([None, *kept], kept, strict=False):
        if before is not None and at > before + 1:
            yield "…"
        yield lines[at]
