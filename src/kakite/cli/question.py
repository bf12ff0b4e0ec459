"""A question about a call, as a person sees it: every argument whole, and none of it like another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from kakite.cli.screen import rows, told_value, visible, visible_name

if TYPE_CHECKING:
    from kakite.host import Question

DIFF_BELOW = "  What it changes:"
"""Before the diff. No argument begins so: a name with blanks is quoted."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_STYLES: Mapping[str, str] = {"+": "green", "-": "red", "@": "cyan"}


def question_rows(question: Question, width: int, note: str = "") -> Iterator[Text]:
    """Yield what is asked, in rows of a terminal with so many cells; ``note`` is what we say of the call."""
    name = question.tool or question.call.name
    of = f"  of the server {visible_name(question.server)}" if question.server else ""
    head, *further = rows(f"{visible_name(name)}{of}", width, first="")
    yield Text.assemble((head, "bold"))
    yield from map(Text, further)
    for argument, value in question.call.arguments.items():
        yield from _argument_rows(argument, value, width)
    for line in note.splitlines():
        yield from _note(line, width)
    if question.folder is not None:
        where = visible_name(question.folder) or "a folder that is not known"
        yield from _note(f"Relative paths start in {where}: an earlier call moved there.", width)
    if question.outside:
        names = ", ".join(map(visible_name, question.outside))
        yield from _note(f"It is asked again since text from outside came in through {names}.", width)
    if question.diff:
        yield Text(DIFF_BELOW, style="cyan")
        yield from _diff_rows(question.diff, width)


def text_rows(text: str, width: int) -> Iterator[Text]:
    """Yield a text from elsewhere in rows that nobody takes for ours."""
    for line in visible(text).split("\n"):
        yield from map(Text, rows(line.expandtabs(), width))


def named_rows(name: str, lines: list[str], width: int) -> Iterator[Text]:
    """Yield a name and what it stands for: on one row if that is possible, else below."""
    beside = [*rows(f"{name}: {lines[0]}", width, first="  ")]
    if len(lines) == len(beside) == 1 and lines[0][:1] != " ":
        yield Text.assemble((f"  {name}: ", "cyan"), lines[0])
        return
    for row in rows(f"{name}:", width, first="  "):
        yield Text(row, style="cyan")
    for line in lines:
        yield from map(Text, rows(line, width))


def _argument_rows(name: str, value: object, width: int) -> Iterator[Text]:
    plain = _PLAIN_NAME.fullmatch(name)
    shown = name if plain else visible_name(json.dumps(name, ensure_ascii=False))
    yield from named_rows(shown, told_value(value), width)


def _diff_rows(diff: str, width: int) -> Iterator[Text]:
    for line in visible(diff).split("\n"):
        style = _STYLES.get(line[:1], "")
        yield from (Text(row, style=style) for row in rows(line.expandtabs(), width))


def _note(text: str, width: int) -> Iterator[Text]:
    return (Text(row, style="yellow") for row in rows(text, width, first="  "))
