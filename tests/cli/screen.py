"""A person at a terminal whose screen is drawn: what stands on it now, and what has scrolled up."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte
from pyte.screens import Char

from tests.bounds import WITHIN
from tests.cli.program import start_at_terminal
from tests.forking import Program

ENTER, ESCAPE, CTRL_C, CTRL_D, CTRL_O, BACKSPACE = "\r", "\x1b", "\x03", "\x04", "\x0f", "\x7f"
SHIFT_TAB, ALT_ENTER, UP = "\x1b[Z", "\x1b\r", "\x1b[A"


class Screen:
    """A program whose terminal we are, of so many columns."""

    def __init__(
        self, process: subprocess.Popen[bytes] | Program, terminal: int, columns: int, rows: int
    ) -> None:
        self.process = process
        self.raw = b""
        self._terminal = terminal
        self._screen = pyte.HistoryScreen(columns, rows, history=5000)
        # The program asks where the cursor is, and we are who answers.
        setattr(self._screen, "write_process_input", self.press)  # noqa: B010 - its own parameter has another name
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """All lines: what scrolled up, then what stands on the screen."""
        scrolled = [
            "".join(line[at].data for at in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return [*scrolled, *(line.rstrip() for line in self._screen.display)]

    @property
    def rows(self) -> list[list[Char]]:
        """All lines with their colours."""
        columns = range(self._screen.columns)
        shown = [self._screen.buffer[number] for number in range(self._screen.lines)]
        return [[line[at] for at in columns] for line in (*self._screen.history.top, *shown)]

    @property
    def text(self) -> str:
        """All of it without blanks: where a line was broken does not matter."""
        return squeeze("".join(self.lines))

    @property
    def bottom(self) -> str:
        """The last lines: the prompt, and what stands around it."""
        written = [line for line in self._screen.display if line.strip()]
        return squeeze("".join(written[-5:]))

    def press(self, data: str) -> None:
        os.write(self._terminal, data.encode())

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until a text is there, so many times, on the screen or above it."""
        self.wait_until(lambda: self.text.count(squeeze(text)) >= times, text)

    def wait_for_bottom(self, text: str) -> None:
        """Wait until a text stands at the prompt."""
        self.wait_until(lambda: squeeze(text) in self.bottom, text)

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN
        while not is_so():
            assert time.monotonic() < deadline, f"{what!r} did not appear in:\n{self._show()}"
            assert self._read(), f"ended without {what!r}:\n{self._show()}"

    def resize(self, columns: int, rows: int) -> None:
        _set_size(self._terminal, columns, rows)
        self._screen.resize(rows, columns)
        self.process.send_signal(signal.SIGWINCH)

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=WITHIN)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], WITHIN)
        assert ready, f"nothing more came:\n{self._show()}"
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the other end is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def _show(self) -> str:
        return "\n".join(line for line in self.lines if line)


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


@contextmanager
def open_screen(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, columns: int = 80, rows: int = 40
) -> Generator[Screen]:
    """Start a program at a terminal of this size; it is ended after."""
    terminal, inner = pty.openpty()
    _set_size(inner, columns, rows)
    process = start_at_terminal(command, {"TERM": "xterm-256color", **env}, cwd, inner)
    try:
        yield Screen(process, terminal, columns, rows)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
