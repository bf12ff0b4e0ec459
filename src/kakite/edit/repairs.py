"""What a model put around the lines it copied: line numbers, a code fence, escapes, entities.

Each repair is undone only if all of SEARCH has it, REPLACE has it in the same way, and what remains matches
on a strict rung. Where REPLACE leaves in doubt what is debris and what is meant, nothing is undone. What was
undone is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from kakite.edit.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kakite.edit.edits import Edit
    from kakite.edit.settings import Settings

_NUMBERED = re.compile(r"[ ]{0,8}(\d{1,7})(?:[ ]?\|[ ]?|:[ ]?|[ ]?→|\t)(.*)", re.DOTALL)
_SEPARATOR = re.compile(r"[ ]{0,8}\d{1,7}([ ]?\|[ ]?|:[ ]?|[ ]?→|\t)")
_LOOKS_NUMBERED = re.compile(
    r"[ ]{0,8}(?:[+*-]|\d{1,7}[a-z+*'-]?)?[ ]?[|→]|[ ]{0,8}(?:[+*]|\d{1,7}[a-z+*'-]?)(?::|[ ]?\t)"
)
"""More than what is undone: marks that models give to lines which they add."""
_FENCE = re.compile(r"(```+|~~~+)[^`]*$")
_PROSE = re.compile(r"\.(?:md|mdx|markdown|qmd|rmd|rst|adoc|txt|ipynb)$", re.IGNORECASE)
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|#39|#x27|nbsp);")
_ENTITIES = {
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "#39": "'",
    "#x27": "'",
    "nbsp": "\u00a0",
}
_ESCAPE = re.compile(r"\\(n|t|r|\"|'|\\|/)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Repaired:
    """SEARCH and REPLACE without what was put around them."""

    search: str
    replace: str
    names: tuple[str, ...]
    line: int | None = None
    """The first line number that was copied."""


def repaired(search: str, replace: str, settings: Settings) -> Iterator[Repaired]:
    """Yield the ways to undo what a model may have put around its lines, the least first."""
    steps: list[Callable[[Repaired], Repaired | None]] = [_without_fence, _without_entities, _without_escapes]
    if settings.strip_line_numbers:
        steps.insert(1, _without_numbers)
    tried: list[Repaired] = [Repaired(search, replace, ())]
    for step in steps:
        for base in tuple(tried):
            found = step(base)
            if found is not None and found.search.strip():
                tried.append(found)
                yield found


def wrapping(edit: Edit) -> str:
    """Return the first line of a REPLACE that has a fence, or line numbers, around all of its lines.

    Only where SEARCH has none, and lines of it stand changed inside: an empty string in any other case, and
    for a text that has fences of its own.
    """
    if _PROSE.search(edit.path):
        return ""
    for bare in (_fence_off(edit.replace), _all_numbers_off(edit.replace)):
        if bare is not None and _all_numbers_off(edit.search) is None and _resembles(edit.search, bare):
            return edit.replace.lstrip("\r\n").partition("\n")[0]
    return ""


def _all_numbers_off(text: str) -> str | None:
    """Remove line numbers, if two lines or more have them, one after the other, before a bar or an arrow."""
    if not _SEPARATOR.match(text):
        return None
    lines = _body(text)
    found = [
        match for match in map(_NUMBERED.fullmatch, lines) if match and _separator(match[0]) in {"|", "→"}
    ]
    numbers = [int(match.group(1)) for match in found]
    if (
        len(lines) < 2
        or len(found) < len(lines)
        or numbers != list(range(numbers[0], numbers[0] + len(lines)))
    ):
        return None
    return "\n".join(match.group(2) for match in found)


def _resembles(search: str, bare: str) -> bool:
    """Tell whether lines are SEARCH with a change, and not other lines or all of SEARCH."""
    if "```" in search or "~~~" in search:
        return False
    sent, new = ([line.strip() for line in split_lines(text) if line.strip()] for text in (search, bare))
    return sent != new and any(len(line) > 3 and line in new for line in sent)


def _without_fence(text: Repaired) -> Repaired | None:
    search, replace = _fence_off(text.search), _fence_off(text.replace)
    if search is None or replace is None:
        return None
    return Repaired(search, replace, (*text.names, "code_fence"), text.line)


def _fence_off(text: str) -> str | None:
    """Remove the fence around a text; None if it has none, or several."""
    if "```" not in text and "~~~" not in text:
        return None
    lines = _body(text.strip("\r\n"))
    fences = [at for at, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))]
    opening = _FENCE.match(lines[0].strip()) if lines else None
    if opening is None or fences != [0, len(lines) - 1] or lines[-1].strip() != opening.group(1):
        return None
    return "\n".join(lines[1:-1]) + ("\n" if text.endswith(("\n", "\r")) and len(lines) > 2 else "")


def _without_numbers(text: Repaired) -> Repaired | None:
    if not _SEPARATOR.match(text.search):
        return None
    lines = _body(text.search)
    found = list(takewhile(bool, map(_NUMBERED.fullmatch, lines)))
    numbers = [int(match.group(1)) for match in found if match]
    if len(numbers) < len(lines) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    separators = {_separator(line) for line in lines}
    if len(separators) != 1:
        return None
    search = _rejoined(text.search, [match.group(2) for match in found if match])
    replace = _numbers_off(text.replace, separators.pop(), range(numbers[0], numbers[-1] + 2))
    return None if replace is None else Repaired(search, replace, (*text.names, "line_numbers"), numbers[0])


def _numbers_off(replace: str, separator: str, first: range) -> str | None:
    """Remove line numbers from REPLACE; None if it is in doubt which lines have one.

    Numbers begin with one of SEARCH's and never go down. New lines may have none behind a bar or an arrow, as
    those do not look like code; every other line that looks numbered in any way is a doubt.
    """
    lines = [line for line in _body(replace) if line.strip()]
    found = [
        match for match in map(_NUMBERED.fullmatch, lines) if match and _separator(match.group()) == separator
    ]
    numbers = [int(match.group(1)) for match in found]
    if any(_LOOKS_NUMBERED.match(line) for line in lines if _separator(line) != separator):
        return None
    if not numbers:
        return replace
    if numbers[0] not in first or numbers != sorted(numbers):
        return None
    if len(numbers) < len(lines) and separator not in {"|", "→"}:
        return None
    return _rejoined(replace, [_number_off(line, separator) for line in _body(replace)])


def _number_off(line: str, separator: str) -> str:
    found = _NUMBERED.fullmatch(line)
    return found.group(2) if found and _separator(line) == separator else line


def _body(text: str) -> list[str]:
    lines = split_lines(text)
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _rejoined(text: str, lines: list[str]) -> str:
    closed = len(split_lines(text)) > len(lines)
    return "\n".join(lines) + ("\n" if closed else "")


def _separator(line: str) -> str:
    found = _SEPARATOR.match(line)
    return (found.group(1).strip(" ") or " ") if found else ""


def _without_entities(text: Repaired) -> Repaired | None:
    if not _ENTITY.search(text.search) or _has_raw(text.search) or _has_raw(text.replace):
        return None
    if "&nbsp;" in text.replace and "&nbsp;" not in text.search:
        return None
    search, replace = (_ENTITY.sub(_entity, part) for part in (text.search, text.replace))
    return Repaired(search, replace, (*text.names, "entities"), text.line)


def _entity(found: re.Match[str]) -> str:
    return _ENTITIES[found.group(1)]


def _has_raw(text: str) -> bool:
    return bool(re.search(r"[<>]", text)) or "&" in _ENTITY.sub("", text)


def _without_escapes(text: Repaired) -> Repaired | None:
    if not _ESCAPE.search(text.search) or not _is_escaped(text.search) or not _is_escaped(text.replace):
        return None
    # Whether a line break or the two characters are meant can only be told by what SEARCH matches.
    if not _controls(text.replace) <= _controls(text.search):
        return None
    search, replace = (_ESCAPE.sub(_unescaped, part) for part in (text.search, text.replace))
    return Repaired(search, replace, (*text.names, "escapes"), text.line)


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found.group(1), found.group(1))


def _controls(text: str) -> set[str]:
    return {found.group(1) for found in _ESCAPE.finditer(text)} & _ESCAPES.keys()


def _is_escaped(text: str) -> bool:
    """Tell whether the text can be the inside of a JSON string: nothing in it would have to be escaped."""
    bare = _ESCAPE.sub("", text)
    breaks = "n" in _controls(text) and "\n" in text.rstrip("\n")
    return '"' not in bare and "\\" not in bare and not breaks
