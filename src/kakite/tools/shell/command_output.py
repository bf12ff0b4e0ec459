"""Formats what a command has printed as plain text for a model, and reads it back. Pure.

The first line says how the command ended, then comes what it printed, as it is: code that is escaped as JSON
takes more tokens and is harder to read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OUTPUT_SHOWN = 10_000
"""Bytes of one stream that an answer has: half from the start, half from the end."""
STDERR = "stderr:"
"""The line above what was written to standard error."""
_WORTH_TELLING = 1.0  # s that a command took


def format_command_output(head: str, stdout: str, stderr: str, hint: str = "") -> str:
    """Return the answer: what there is to say first, both streams where they have anything, and a hint."""
    parts = [head, _end_line(stdout), STDERR if stderr else "", _end_line(stderr)]
    return "\n".join([*filter(None, parts), *([f"hint: {hint}"] if hint else [])])


def format_seconds(seconds: float) -> str:
    """Return a time as it ends the first line; empty where it is not worth a word."""
    return f", {seconds:.1f} s" if seconds >= _WORTH_TELLING else ""


def decode_output(output: bytes, dropped: int, where: str) -> str:
    """Return a stream as text; of one that lost its middle, whole lines of its head and its tail.

    Args:
        output: what was kept, half of it from the start.
        dropped: how many bytes were not.
        where: where to read them, or why they are nowhere.
    """
    if not dropped:
        return output.decode(errors="replace")
    half = len(output) // 2
    head, tail = _cut_last_line(output[:half]), _cut_first_line(output[half:])
    dropped += len(output) - len(head) - len(tail)
    return f"{_end_line(_decode(head))}\n… {dropped:,} bytes left out{where} …\n{_decode(tail)}"


TAIL_BYTES = 1500
"""Bytes of what a command has printed that are shown while it runs."""


class OutputTail:
    """The end of what a command prints, for whoever watches it."""

    def __init__(self) -> None:
        self.received = 0
        """Bytes, of both streams."""
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self.received += len(data)
        self._kept += data[-TAIL_BYTES:]
        del self._kept[:-TAIL_BYTES]

    def get_text(self) -> str:
        """Return its whole lines, or what there is of one; of a line that was drawn again the last state."""
        kept = bytes(self._kept)
        whole = kept if self.received == len(kept) else _cut_first_line(kept)
        lines = _decode(whole).replace("\r\n", "\n").split("\n")
        return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAnswer:
    """An answer about a command, as it was read back."""

    text: str
    """What the command has printed, and what was said about it below."""
    job: str = ""
    """Its name, where it runs in the background."""
    running: bool = False
    exit_code: int | None = None


_HEAD = re.compile(
    r"(?:job (?P<job>[0-9a-f]+)(?: (?P<runs>runs)(?: in the background)?|: ))?"
    r"(?:exit code (?P<code>-?\d+)|ended by .+?)?(?:, limit \w+)?(?:, [\d.]+ s)?"
)


def parse_command_output(text: str) -> CommandAnswer | None:
    """Read an answer of ``run_command`` and the tools for commands in the background; None: it is none."""
    first, _, rest = text.partition("\n")
    found = _HEAD.fullmatch(first) if first.startswith(("exit code ", "job ")) else None
    if found is None:
        return None
    code = found["code"]
    return CommandAnswer(
        text=rest,
        job=found["job"] or "",
        running=found["runs"] is not None,
        exit_code=int(code) if code else None,
    )


def _end_line(text: str) -> str:
    """Return the text without its last line end, which the next line brings."""
    return text.removesuffix("\n")


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


def _cut_last_line(data: bytes) -> bytes:
    """Return the lines that are whole, where that is most of it."""
    end = data.rfind(b"\n") + 1
    return data[:end] if end * 2 >= len(data) else data


def _cut_first_line(data: bytes) -> bytes:
    start = data.find(b"\n") + 1
    return data[start:] if start * 2 <= len(data) else data
