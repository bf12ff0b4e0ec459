"""Pictures of figures, as SVG: a grid of bars, bars, and lines in powers of ten.

Each has a ground of its own, so that it can be read on a light page and on a dark one.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

INK, FAINT, GRID, GOOD, OTHER = "#1f2328", "#59636e", "#e3e7eb", "#1a7f4b", "#b3403a"
UNKNOWN = "#c9a227"
COLOURS = (GOOD, "#2563a8", OTHER, "#8a5a00")
FONT = "system-ui,-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"


class Cell(NamedTuple):
    """Of a group's edits by one engine, in percent: right, wrong, and not judged. The rest was refused."""

    right: float
    wrong: float
    unjudged: float


class Row(NamedTuple):
    """A group of edits: its name, how many, whether it is real, and a cell for each engine."""

    name: str
    told: str
    real: bool
    cells: tuple[Cell, ...]


class Bar(NamedTuple):
    """A bar of that length, and what is written behind it."""

    name: str
    value: float
    told: str


def grid(title: str, rows: list[Row], columns: list[str], *, notes: list[str]) -> str:
    """Return a bar for each row and column: right, refused, wrong. A line parts real rows from others."""
    left, top, wide, each = 318, 92, 92, 30
    marks: list[str] = []
    legend = ((GOOD, "right"), (GRID, "refused"), (OTHER, "wrong file"), (UNKNOWN, "not judged"))
    for nth, (colour, name) in enumerate(legend):
        x = left + 110 * nth
        marks.append(f'<rect x="{x}" y="48" width="14" height="12" rx="2" fill="{colour}"/>')
        marks.append(_text(x + 20, 58.5, name, "start", INK, 12))
    for nth, name in enumerate(columns):
        first, _, second = name.partition(" (")
        x = left + wide * nth
        colour = GOOD if name == "Kakite" else INK
        marks.append(_text(x, top - 4, first, "start", colour, 11.5, bold=name == "Kakite"))
        if second:
            marks.append(_text(x, top + 9, f"({second}", "start", FAINT, 10))
    top += 18
    for nth, row in enumerate(rows):
        y = top + each * nth
        if nth and rows[nth - 1].real and not row.real:
            end = left + wide * len(columns)
            marks.append(f'<path d="M24 {y - 4}H{end}" stroke="{FAINT}" stroke-dasharray="4 3"/>')
        marks.append(_text(24, y + 15, row.name, "start", INK, 12.5, bold=row.real))
        marks.append(_text(left - 14, y + 15, row.told, "end", FAINT, 11))
        for column, cell in enumerate(row.cells):
            marks += _stacked(left + wide * column, y + 3, wide - 14, cell)
    bottom = top + each * len(rows)
    for nth, note in enumerate(notes):
        marks.append(_text(24, bottom + 22 + 17 * nth, note, "start", FAINT, 12))
    return _picture(title, left + wide * len(columns) + 14, bottom + 22 + 17 * len(notes), marks)


def _stacked(x: float, y: float, wide: float, cell: Cell) -> list[str]:
    """Return a bar of one cell: right from the left, wrong from the right; what is wrong is always seen."""
    marks = [f'<rect x="{x:.1f}" y="{y}" width="{wide}" height="16" rx="2" fill="{GRID}"/>']
    right = cell.right / 100 * wide
    wrong = max(cell.wrong / 100 * wide, 1.5 if cell.wrong else 0)
    unjudged = cell.unjudged / 100 * wide
    for start, length, colour in (
        (x, right, GOOD),
        (x + wide - wrong - unjudged, unjudged, UNKNOWN),
        (x + wide - wrong, wrong, OTHER),
    ):
        if length > 0.05:
            marks.append(
                f'<rect x="{start:.1f}" y="{y}" width="{length:.1f}" height="16" rx="2" fill="{colour}"/>'
            )
    return marks


def bars(
    title: str, rows: list[Bar], *, notes: list[str], powers: bool = False, mark: float | None = None
) -> str:
    """Return horizontal bars; `powers` draws them in powers of ten, `mark` a line at a value."""
    left, top, wide, each = 268, 62, 380, 27
    values = [row.value for row in rows] + ([mark] if mark else [])
    low = floor(log10(min(values))) if powers else 0.0
    high = log10(max(values)) if powers else max(values)

    def length(value: float) -> float:
        return ((log10(value) if powers else value) - low) / (high - low) * wide

    marks: list[str] = []
    bottom = top + each * len(rows)
    if mark is not None:
        x = left + length(mark)
        marks.append(f'<path d="M{x:.0f} {top - 6}V{bottom}" stroke="{FAINT}" stroke-dasharray="4 3"/>')
    for nth, row in enumerate(rows):
        y = top + each * nth
        marks.append(_text(left - 10, y + 15, row.name, "end", INK, 12.5))
        long = max(length(row.value), 2)
        marks.append(f'<rect x="{left}" y="{y + 3}" width="{long:.0f}" height="17" rx="3" fill="{GOOD}"/>')
        marks.append(_text(left + length(row.value) + 8, y + 16, row.told, "start", INK, 12))
    for nth, note in enumerate(notes):
        marks.append(_text(24, bottom + 24 + 17 * nth, note, "start", FAINT, 12))
    return _picture(title, left + wide + 150, bottom + 20 + 17 * len(notes), marks)


def lines(
    title: str, found: dict[str, list[tuple[float, float]]], *, across: str, up: str, notes: list[str]
) -> str:
    """Return lines over a plane, both ways in powers of ten; each has its name at its end."""
    left, top, wide, high = 76, 62, 500, 300
    every = [point for line in found.values() for point in line]
    ends = [(floor(log10(min(each))), ceil(log10(max(each)))) for each in zip(*every, strict=True)]
    (x0, x1), (y0, y1) = ends

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (log10(x) - x0) / (x1 - x0) * wide, top + high - (log10(y) - y0) / (y1 - y0) * high

    marks: list[str] = []
    for power in range(x0, x1 + 1):
        x, _ = place(10.0**power, 10.0**y0)
        marks.append(f'<path d="M{x:.0f} {top}V{top + high}" stroke="{GRID}"/>')
        marks.append(_text(x, top + high + 19, f"{10**power:,}".replace(",", " "), "middle", FAINT, 12))
    for power in range(y0, y1 + 1):
        _, y = place(10.0**x0, 10.0**power)
        marks.append(f'<path d="M{left} {y:.0f}H{left + wide}" stroke="{GRID}"/>')
        marks.append(_text(left - 9, y + 4, f"{10.0**power:g}", "end", FAINT, 12))
    last = [place(*line[-1])[1] for line in found.values()]
    order = sorted(range(len(last)), key=last.__getitem__)
    heights = dict(zip(order, _spread([last[nth] for nth in order], 17, top, top + high), strict=True))
    for nth, (name, line) in enumerate(found.items()):
        colour = COLOURS[nth % len(COLOURS)]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in (place(*point) for point in line))
        marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for point in line:
            x, y = place(*point)
            marks.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="{colour}"/>')
        marks.append(_text(left + wide + 10, heights[nth] + 4, name, "start", colour, 13, bold=True))
    marks.append(_text(left + wide / 2, top + high + 44, across, "middle", INK, 13))
    marks.append(
        f'<text transform="translate(24 {top + high / 2:.0f}) rotate(-90)" text-anchor="middle" '
        f'fill="{INK}" font-size="13">{escape(up)}</text>'
    )
    for nth, note in enumerate(notes):
        marks.append(_text(left, top + high + 68 + 17 * nth, note, "start", FAINT, 12))
    return _picture(title, left + wide + 110, top + high + 64 + 17 * len(notes), marks)


def _spread(heights: list[float], apart: float, top: float, bottom: float) -> list[float]:
    """Return ascending heights moved so that each is `apart` from the next, and all between the ends."""
    placed = [max(height, top) for height in heights]
    for nth in range(1, len(placed)):
        placed[nth] = max(placed[nth], placed[nth - 1] + apart)
    over = max(0.0, placed[-1] - bottom) if placed else 0.0
    if over:
        placed[-1] -= over
        for nth in range(len(placed) - 2, -1, -1):
            placed[nth] = min(placed[nth], placed[nth + 1] - apart)
    assert all(after - before >= apart - 0.01 for before, after in pairwise(placed))
    return placed


def _text(x: float, y: float, said: str, anchor: str, colour: str, size: float, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}" font-size="{size:g}"{weight}>'
        f"{escape(said)}</text>"
    )


def _picture(title: str, width: float, height: float, marks: list[str]) -> str:
    ground = (
        f'<rect x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="12" fill="#ffffff" '
        'stroke="#d1d9e0"/>'
    )
    head = _text(24, 34, title, "start", INK, 16, bold=True)
    inside = "\n".join([f"<title>{escape(title)}</title>", ground, head, *marks])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'font-family="{FONT}">\n{inside}\n</svg>\n'
    )
