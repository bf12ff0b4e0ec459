"""Builds the assistant's prompt: all of the pages, or as much around the selection as there is room for.

Room is counted in bytes of UTF-8: four bytes are about one token, in English as in Japanese. Pure, but for
the instructions, which are files in ``prompts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kakite.collab.shared_text import TrackedRange
from kakite.prompt_files import make_prompt_loader

if TYPE_CHECKING:
    from collections.abc import Sequence


load_prompt = make_prompt_loader("kakite.collab", stripped=True)
"""Returns the text of ``prompts/NAME.md``."""


BUDGET: Final = 96_000
"""Bytes of all pages together: about 24,000 tokens."""
_BEFORE: Final = 5
"""Of what is left beside the selection, this part goes to what stands before it."""


@dataclass(frozen=True, slots=True)
class VisibleDocument:
    """A page as the model may see it."""

    name: str
    text: str
    selection: TrackedRange | None = None
    """What the person has selected, in code points; an empty one is where the caret is."""


def build_context(pages: Sequence[VisibleDocument], *, budget: int = BUDGET) -> str:
    """Return the pages for the model. The first is the one that the person is on, and gets at least half."""
    first, *others = pages
    spare = max(budget // 2, budget - _count_bytes(first.text))
    left = budget
    told: list[str] = []
    for number, page in enumerate(others):
        share = spare // (len(others) - number)
        used = min(share, _count_bytes(page.text))
        told.append(_format_document(page, share))
        spare, left = spare - used, left - used
    return "\n\n".join([_format_document(first, left), *told, *_format_selection(first)])


def select_excerpt(text: str, selection: TrackedRange, budget: int) -> TrackedRange:
    """Return the part of a text that is shown: the selection, and what fits on both sides, in whole lines.

    Of a selection that is too long the beginning is shown.
    """
    if _count_bytes(text) <= budget:
        return TrackedRange(0, len(text))
    inside = _truncate_to_bytes(selection.extract(text), budget)
    end = selection.start + len(inside)
    if end < selection.end:
        return TrackedRange(selection.start, end)
    left = budget - _count_bytes(inside)
    before = _truncate_to_bytes(text[: selection.start][::-1], left // _BEFORE)
    after = _truncate_to_bytes(text[end:], left - _count_bytes(before))
    before = _truncate_to_bytes(text[: selection.start][::-1], left - _count_bytes(after))
    return _snap_to_lines(
        text,
        TrackedRange(selection.start - len(before), end + len(after)),
        TrackedRange(selection.start, end),
    )


def _snap_to_lines(text: str, span: TrackedRange, least: TrackedRange) -> TrackedRange:
    start, end = span.start, span.end
    if start > 0 and text[start - 1] != "\n":
        line = text.find("\n", start, least.start)
        start = line + 1 if line >= 0 else start
    if end < len(text) and text[end - 1 : end] != "\n":
        line = text.rfind("\n", least.end, end)
        end = line + 1 if line >= 0 else end
    return TrackedRange(start, end)


def _format_document(page: VisibleDocument, budget: int) -> str:
    span = select_excerpt(page.text, page.selection or TrackedRange(0, 0), budget)
    shown = span.extract(page.text)
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


def _format_selection(page: VisibleDocument) -> list[str]:
    if page.selection is None:
        return []
    line = page.text.count("\n", 0, page.selection.start) + 1
    selected = _truncate_to_bytes(page.selection.extract(page.text), BUDGET // 4)
    if not selected.strip():
        return [f"The caret of the person is in line {line} of {page.name}."]
    last = line + selected.rstrip("\n").count("\n")
    where = f"line {line}" if last == line else f"lines {line} to {last}"
    return [
        f"The person has selected this, in {where} of {page.name}:\n<selection>\n{selected}\n</selection>"
    ]


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _truncate_to_bytes(text: str, budget: int) -> str:
    """Return the beginning of a text that takes no more bytes."""
    return text[:budget].encode("utf-8", "surrogatepass")[:budget].decode("utf-8", "ignore")
