"""Pictures of figures, as SVG: a plane of points, bars, and lines in powers of ten.

Each has a ground of its own, so that it can be read on a light page and on a dark one.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

INK, FAINT, GRID, GOOD, OTHER = "#1f2328", "#59636e", "#e3e7eb", "#1a7f4b", "#b3403a"
COLOURS = (GOOD, "#2563a8", OTHER, "#8a5a00")
FONT = "system-ui,-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"


class Point(NamedTuple):
    """A point of a plane; `part` is how much of `y` counts in any case, drawn as a ring below it.

    A baseline is drawn fainter than the others.
    """

    name: str
    x: float
    y: float
    part: float
    ours: bool = False
    baseline: bool = False


class Bar(NamedTuple):
    """A bar of that length, and what is written behind it."""

    name: str
    value: float
    told: str


def plane(title: str, points: list[Point], *, across: str, up: str, notes: list[str]) -> str:
    """Return points on a plane whose best corner is below on the right. Labels stand in one column."""
    left, top, wide, high = 70, 66, 620, 340
    most = max(20, 10 * ceil(max(point.y for point in points) / 10))
    step = 10 if most <= 60 else 20

    def place(x: float, y: float) -> tuple[float, float]:
        return left + x / 100 * wide, top + high - y / most * high

    marks = [
        *_grid(place, most, step),
        f'<rect x="{left + wide * 0.87:.0f}" y="{top + high * 0.87:.0f}" width="{wide * 0.13:.0f}" '
        f'height="{high * 0.13:.0f}" rx="6" fill="{GOOD}" fill-opacity=".1" stroke="{GOOD}" '
        'stroke-dasharray="4 3"/>',
        _text(left + wide, top + high * 0.87 - 7, "ideal corner", "end", GOOD, 12),
    ]
    others = sorted((point for point in points if not point.ours), key=lambda point: -point.y)
    column = place(max(point.x for point in others) + 9, 0)[0]
    heights = _spread([place(0, point.y)[1] for point in others], 19, top + 8, top + high - 6)
    for point, height in zip(others, heights, strict=True):
        x, y = place(point.x, point.y)
        marks.append(
            f'<path d="M{x + 6:.0f} {y:.0f}L{column - 6:.0f} {height:.0f}" stroke="{FAINT}" '
            'stroke-opacity=".55" fill="none"/>'
        )
        marks.append(_text(column, height + 4, point.name, "start", INK, 12.5))
    for point in points:
        x, y = place(point.x, point.y)
        below = place(point.x, point.part)[1]
        colour = GOOD if point.ours else FAINT if point.baseline else OTHER
        if below - y > 4:
            marks.append(
                f'<path d="M{x:.0f} {y:.0f}V{below - 3.5:.0f}" stroke="{colour}" stroke-opacity=".5"/>'
            )
            marks.append(f'<circle cx="{x:.0f}" cy="{below:.0f}" r="3.5" fill="white" stroke="{colour}"/>')
        marks.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{7 if point.ours else 5.5}" fill="{colour}"/>')
        if point.ours:
            marks.append(_text(x - 14, y - 8, point.name, "end", GOOD, 14, bold=True))
    bottom = top + high
    marks.append(_text(left + wide / 2, bottom + 42, across, "middle", INK, 13))
    marks.append(
        f'<text transform="translate(24 {top + high / 2:.0f}) rotate(-90)" text-anchor="middle" '
        f'fill="{INK}" font-size="13">{escape(up)}</text>'
    )
    for nth, note in enumerate(notes):
        marks.append(_text(left, bottom + 68 + 17 * nth, note, "start", FAINT, 12))
    return _picture(title, left + wide + 40, bottom + 68 + 17 * len(notes), marks)


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


def _grid(place, most: float, step: int) -> list[str]:
    marks: list[str] = []
    for at in range(0, 101, 20):
        (x, y), (_, above) = place(at, 0), place(at, most)
        marks.append(f'<path d="M{x:.0f} {above:.0f}V{y:.0f}" stroke="{GRID}"/>')
        marks.append(_text(x, y + 19, f"{at} %", "middle", FAINT, 12))
    for at in range(0, int(most) + 1, step):
        (x, y), (right, _) = place(0, at), place(100, at)
        marks.append(f'<path d="M{x:.0f} {y:.0f}H{right:.0f}" stroke="{GRID}"/>')
        marks.append(_text(x - 9, y + 4, f"{at} %", "end", FAINT, 12))
    return marks


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
