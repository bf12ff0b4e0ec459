"""Lines as the terminal itself gives them: for screen readers, and terminals that can do nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kakite.cli.chat.line_input import edit_text

if TYPE_CHECKING:
    from kakite.tools.toolset import Image

_CHUNK = 65_536


class PlainInput:
    """Reads lines from standard input; draws nothing. A LineInput."""

    has_draft = False

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        """Lines that came; None: the end."""
        self._rest = b""

    @contextmanager
    def open(self) -> Generator[None]:
        """Read standard input."""
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._take)
        try:
            yield
        finally:
            loop.remove_reader(sys.stdin.fileno())

    async def read_line(self) -> str:
        """Return the next line; one that ends in a backslash goes on with the next."""
        lines: list[str] = []
        while True:
            line = await self._lines.get()
            if line is None:
                raise EOFError
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])

    async def read_answer(self, question: str) -> str:
        """Print the question, and return the next line."""
        sys.stdout.write(f"{question}\n")
        sys.stdout.flush()
        with suppress(EOFError):
            return (await self.read_line()).strip()
        return ""

    async def edit(self, text: str) -> str:
        """Let the person change a text in their editor."""
        reading, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        loop.remove_reader(reading)  # the keys are the editor's
        try:
            return await edit_text(text)
        finally:
            loop.add_reader(reading, self._take)

    def add_draft(self, text: str) -> None:
        """Do nothing: a line that was read cannot be changed."""

    def clear_draft(self) -> None:
        """Forget what was typed and not read yet, also the line that has no end so far."""
        with suppress(termios.error):  # no terminal: lines of a program
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def find_images(self, line: str) -> Sequence[Image]:  # noqa: ARG002 - of the protocol
        """Return none: only a line editor knows what was pasted."""
        return ()

    def refresh(self) -> None:
        """Do nothing: nothing is shown."""

    def stop(self) -> None:
        """Give an empty line."""
        self._lines.put_nowait("")

    def _take(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), _CHUNK)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._lines.put_nowait(None)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace").rstrip("\r"))
