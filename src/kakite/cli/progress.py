"""Shows the progress of a call on one line of a terminal. Elsewhere nothing is written."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len, set_cell_size

from kakite.cli.console import escape_one_line

if TYPE_CHECKING:
    from kakite.cli.prompts import TerminalPrompter
    from kakite.host import ApprovalRequest, ApprovalResponse
    from kakite.host.server.client_features import Elicitation, ElicitationResult

DRAW_INTERVAL = 0.1
"""Seconds between two drawings, however often something is told."""
_ERASE = "\r\x1b[2K"


class ProgressLine:
    """The line. Does nothing where ``stream`` is no terminal, or one that cannot erase."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._able = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._latest = ""
        self._drawn = ""
        self._timer: asyncio.TimerHandle | None = None
        self._hidden = 0

    def update(self, progress: float, total: float | None, message: str) -> None:
        """Show how far it is, of how much, and what the server says to it: at once, or a moment later."""
        whole = f"/{total:g}" if total is not None else ""
        self._latest = escape_one_line(f"{self._name}  {progress:g}{whole}  {message}".rstrip())
        if self._timer is None:
            self._draw()

    @contextmanager
    def hide(self) -> Generator[None]:
        """Leave the terminal to somebody else."""
        self._hidden += 1
        self._erase()
        try:
            yield
        finally:
            self._hidden -= 1

    def close(self) -> None:
        """Leave nothing of it."""
        self._erase()
        self._able = False
        if self._timer:
            self._timer.cancel()

    def _draw(self) -> None:
        self._timer = None
        if not self._able or self._hidden or self._latest == self._drawn:
            return
        self._drawn = self._latest
        # Never the last column: a terminal would go on in the next line, which is not erased.
        room = max(shutil.get_terminal_size().columns - 1, 1)
        shown = self._latest if cell_len(self._latest) <= room else set_cell_size(self._latest, room)
        self._write(_ERASE + shown)
        self._timer = asyncio.get_running_loop().call_later(DRAW_INTERVAL, self._draw)

    def _erase(self) -> None:
        if self._able and self._drawn:
            self._drawn = ""
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone; the call goes on
            self._able = False


class ProgressPausingPrompter:
    """A person who is asked while the line is not there. An Approver and an Elicitor."""

    def __init__(self, asker: TerminalPrompter, line: ProgressLine) -> None:
        self._asker = asker
        self._line = line

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask about a call."""
        with self._line.hide():
            return await self._asker.ask(question)

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        """Ask what a server wants to know."""
        with self._line.hide():
            return await self._asker.elicit(asked)
