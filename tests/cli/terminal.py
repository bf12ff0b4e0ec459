"""A person at a real pseudo-terminal: reads what appears, presses keys."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bounds import WITHIN
from tests.cli.program import start_at_terminal


class Terminal:
    """A program whose terminal we are."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._screen, inner = pty.openpty()
        self.program = start_at_terminal(command, {**env, "TERM": "xterm", "COLUMNS": "120"}, cwd, inner)
        self.raw = ""
        self._from = 0

    @property
    def seen(self) -> str:
        """What appeared, without the colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw).replace("\r\n", "\n")

    def expect(self, text: str) -> None:
        """Wait until a text appears after the last one that was expected."""
        deadline = time.monotonic() + WITHIN
        while (at := self.seen.find(text, self._from)) < 0:
            assert time.monotonic() < deadline, f"{text!r} did not appear in:\n{self.seen}"
            assert self._read(), f"ended without {text!r}:\n{self.seen}"
        self._from = at + len(text)

    def press(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def answer(self, prompt: str, keys: str) -> None:
        """Wait for a prompt, then press keys: what is typed before it counts for nothing."""
        self.expect(prompt)
        while not self.seen.endswith(prompt):
            assert self._read(), f"ended at {prompt!r}:\n{self.seen}"
        self.press(keys)

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.program.wait(timeout=WITHIN)

    def hang_up(self) -> int:
        """Close the terminal and return the exit code."""
        os.close(self._screen)
        return self.program.wait(timeout=WITHIN)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], WITHIN)
        assert ready, self.seen
        try:
            data = os.read(self._screen, 65536)
        except OSError:  # the other end is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
