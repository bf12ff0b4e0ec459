"""What a model is shown of the pages: all of it, or as much around the selection as there is room for. Pure.

Room is counted in bytes of UTF-8: four bytes are about one token, in English as in Japanese.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kakite.collab.anchors import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

BUDGET: Final = 96_000
"""Bytes of all pages together: about 24,000 tokens."""
_BEFORE: Final = 5
"""Of what is left beside the selection, this part goes to what stands before it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page as the model may see it."""

    name: str
    text: str
    selection: Span | None = None
    """What the person has selected, in code points; an empty one is where the caret is."""


def context(pages: Sequence[Shown], *, budget: int = BUDGET) -> str:
    """Return the pages for the model. The first is the one that the person is on, and gets at least half."""
    first, *others = pages
    spare = max(budget // 2, budget - _size(first.text))
    left = budget
    told: list[str] = []
    for number, page in enumerate(others):
        share = spare // (len(others) - number)
        used = min(share, _size(page.text))
        told.append(_page(page, share))
        spare, left = spare - used, left - used
    return "\n\n".join([_page(first, left), *told, *_selected(first)])


def excerpt(text: str, selection: Span, budget: int) -> Span:
    """Return the part of a text that is shown: the selection, and what fits on both sides, in whole lines.

    Of a selection that is too long the beginning is shown.
    """
    if _size(text) <= budget:
        return Span(0, len(text))
    inside = _fitting(selection.of(text), budget)
    end = selection.start + len(inside)
    if end < selection.end:
        return Span(selection.start, end)
    left = budget - _size(inside)
    before = _fitting(text[: selection.start][::-1], left // _BEFORE)
    after = _fitting(text[end:], left - _size(before))
    before = _fitting(text[: selection.start][::-1], left - _size(after))
    return _whole_lines(
        text, Span(selection.start - len(before), end + len(after)), Span(selection.start, end)
    )


def _whole_lines(text: str, span: Span, least: Span) -> Span:
    start, end = span.start, span.end
    if start > 0 and text[start - 1] != "\n":
        line = text.find("\n", start, least.start)
        start = line + 1 if line >= 0 else start
    if end < len(text) and text[end - 1 : end] != "\n":
        line = text.rfind("\n", least.end, end)
        end = line + 1 if line >= 0 else end
    return Span(start, end)


def _page(page: Shown, budget: int) -> str:
    span = excerpt(page.text, page.selection or Span(0, 0), budget)
    shown = span.of(page.text)
    lines = page.text.count("\n") + (not page.text.endswith("\n"))
    if not page.text:
        return f'<page name="{page.name}" (empty)>\n</page>'
    part = ""
    if len(shown) < len(page.text):
        first = page.text.count("\n", 0, span.start) + 1
        last = first + shown.rstrip("\n").count("\n")
        part = f" (lines {first} to {last} of {lines}; the rest is left out)"
    end = "" if shown.endswith("\n") else "\n"
    return f'<page name="{page.name}"{part}>\n{shown}{end}</page>'


def _selected(page: Shown) -> list[str]:
    if page.selection is None:
        return []
    line = page.text.count("\n", 0, page.selection.start) + 1
    selected = _fitting(page.selection.of(page.text), BUDGET // 4)
    if not selected.strip():
        return [f"The caret of the person is in line {line} of {page.name}."]
    last = line + selected.rstrip("\n").count("\n")
    where = f"line {line}" if last == line else f"lines {line} to {last}"
    return [
        f"The person has selected this, in {where} of {page.name}:\n<selection>\n{selected}\n</selection>"
    ]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _fitting(text: str, budget: int) -> str:
    """Return the beginning of a text that takes no more bytes."""
    return text[:budget].encode("utf-8", "surrogatepass")[:budget].decode("utf-8", "ignore")
