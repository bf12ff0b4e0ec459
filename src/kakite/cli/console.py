"""Prints untrusted text safely in a terminal. Imports nothing heavy, since errors are printed with it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kakite.terminal_text import escape_control, escape_one_line

__all__ = ["escape_control", "escape_one_line", "format_value", "print_json", "wrap_rows"]

LINE_MARK = "  | "
"""Before each line of a text from elsewhere."""
CONTINUATION_MARK = "  > "
"""Before what goes on from the row above: a terminal's own breaks could be taken for new lines."""
_MIN_WIDTH = 20  # cells in a row


def print_json(value: object) -> None:
    """Print a value as one line of JSON that no terminal obeys."""
    import typer

    typer.echo(escape_control(json.dumps(value, ensure_ascii=False)))


def wrap_rows(text: str, width: int, *, first: str = LINE_MARK) -> Iterator[str]:
    """Yield one line in rows that no terminal of so many cells breaks; each begins with a mark of ours.

    Terminals differ in how wide they draw what is not ASCII: all of that is taken to be wide.
    """
    room = max(width, _MIN_WIDTH) - 1
    if text.isascii() and len(first) + len(text) <= room:
        yield first + text
        return
    row, used = first, len(first)
    for character in text:
        cells = 1 if character.isascii() else 2
        if used + cells > room:
            yield row
            row, used = CONTINUATION_MARK, len(CONTINUATION_MARK)
        row += character
        used += cells
    yield row


def format_value(value: object) -> list[str]:
    """Return an argument's value as the lines that show it, no two values as the same.

    A text stands as it is, where it cannot be taken for anything else; else as JSON, line by line.
    """
    if not isinstance(value, str):
        return [escape_one_line(json.dumps(value, ensure_ascii=False))]
    lines = value.split("\n")
    if all(map(_is_plain, lines)) and not all(map(_is_json, lines)):
        return lines
    pieces = _split_lines(value) or [""]
    return [escape_one_line(json.dumps(piece, ensure_ascii=False)) for piece in pieces]


def _split_lines(value: str) -> list[str]:
    *whole, last = value.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def _is_plain(line: str) -> bool:
    """Return whether a line shows all that it holds; blanks at its end do not."""
    return escape_one_line(line) == line == line.rstrip()


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except RecursionError:
        return True
    except ValueError:
        return not line
    return True
