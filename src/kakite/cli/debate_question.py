"""The question at a person's terminal how a debate goes on."""

from __future__ import annotations

import select
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from kakite.cli.asking import forget_typed_ahead, read_line
from kakite.cli.ending import InputEndedError
from kakite.debate import DebateError, Decision
from kakite.debate.protocol import decided

if TYPE_CHECKING:
    from rich.console import Console

    from kakite.debate import Debate
    from kakite.debate.record import DecisionKind

_KEYS: dict[str, tuple[DecisionKind, str]] = {
    "c": ("compromise", "find a compromise that all can sign"),
    "s": ("synthesize", "put the best of all together"),
    "i": ("custom_instruction", "an instruction of your own"),
    "e": ("evidence", "new facts to judge by"),
    "n": ("continue", "another round"),
}
_NEEDS_WORDS = {
    "custom_instruction": "Your instruction (an empty line ends it): ",
    "evidence": "The facts (an empty line ends them): ",
}
_MAY_HAVE_WORDS = "Anything to add? (Enter: no; an empty line ends it) "
_LINE = 4095
"""Bytes of a line that a terminal passes on; it drops what follows without a word."""
_PASTED = 0.1
"""Seconds in which the rest of what is pasted comes after an empty line of it."""


class Question:
    """Asks a person who sees this console; ``show`` prints a text there as a paragraph."""

    def __init__(self, console: Console, show: Callable[[Text], None]) -> None:
        self._console = console
        self._show = show

    async def ask(self, debate: Debate) -> Decision | None:
        """Ask how to go on; None: not any more.

        Raises:
            InputEndedError: the person ended the input.
        """
        choices = dict(_choices(debate))
        self._show(Text())
        self._show(Text("How do you go on?", style="bold yellow"))
        for key, (_, told) in choices.items():
            self._show(Text.assemble("  ", (key, "bold"), f"  {told}"))
        self._show(Text.assemble("  ", ("q", "bold"), "  stop here"))
        while True:
            key = (await self._read("> ")).lower()
            if key in {"q", "quit", "stop"}:
                return None
            if key in choices:
                return await self._worded(choices[key][0])
            self._show(Text("Please answer with one of the keys."))

    async def _worded(self, made: Decision) -> Decision:
        needed = _NEEDS_WORDS.get(made.kind)
        words = await self._words(needed or _MAY_HAVE_WORDS)
        while needed and not words:
            self._show(Text("It takes some words."))
            words = await self._words(needed)
        return Decision(kind=made.kind, side=made.side, text=words)

    async def _words(self, prompt: str) -> str:
        """Return what is typed or pasted, of any number of lines, without blanks around it."""
        while True:
            self._prompt(prompt)
            lines = [line async for line in _lines()]
            if not (lines and _is_cut(lines[-1])):
                return "\n".join(lines).strip()
            told = f"A line of {_LINE:,} bytes is too long for a terminal, which cuts it. Give it as several."
            self._show(Text(told))

    async def _read(self, prompt: str) -> str:
        self._prompt(prompt)
        return (await read_line()).strip()

    def _prompt(self, prompt: str) -> None:
        forget_typed_ahead()
        self._console.print(Text(prompt, style="bold yellow"), end="")


async def _lines() -> AsyncGenerator[str]:
    """Yield lines up to an empty one that is not in the midst of what was pasted, to the end of the input,
    or to one that the terminal cut.

    Raises:
        InputEndedError: there are none, or the terminal is gone.
    """
    began = False
    while True:
        try:
            line = await read_line()
        except InputEndedError:
            if began and sys.stdin.isatty():
                return
            raise
        if not line.strip() and not select.select([sys.stdin], [], [], _PASTED)[0]:
            return
        yield line
        if _is_cut(line):
            return
        began = True


def _is_cut(line: str) -> bool:
    return len(line.encode()) >= _LINE


def _choices(debate: Debate) -> Iterator[tuple[str, tuple[Decision, str]]]:
    if not _may_go_on(debate):
        return
    answered = {name for each in debate.rounds for name in each.answers}
    for number, name in enumerate(debate.terms.names, start=1):
        if name in answered:
            yield str(number), (Decision(kind="adopt", side=name), f"go on from the answer of {name}")
    for key, (kind, told) in _KEYS.items():
        if answered or kind not in {"compromise", "synthesize"}:
            yield key, (Decision(kind=kind), told)


def _may_go_on(debate: Debate) -> bool:
    """Tell whether the budget leaves room for anything."""
    try:
        decided(debate, Decision(kind="continue"))
    except DebateError:
        return False
    return True
