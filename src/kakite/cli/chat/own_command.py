"""Runs a command of the person's own (``!command``), and keeps its output for the model."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from kakite.processes import ProcessSpec, run

MODEL_BYTES = 20_000
"""Bytes of a command's output that the model is given: the first and the last half of them."""
SHOWN_LINES = 2_000
"""Lines of it that are shown."""
_LINE_CHARS = 10_000
# Both streams in one, in the order in which they were written.
_SCRIPT = 'exec 2>&1; eval "$1"'


async def run_own_command(command: str, folder: Path, show: Callable[[str], None]) -> tuple[str, int | None]:
    """Run a command as the person, in their folder, and return what the model is to know, and the exit code.

    The command has no input. Cancelling this ends it, with all that it started.

    Args:
        command: for the shell.
        folder: where it runs.
        show: is given each line of the output as it comes.

    Raises:
        ProcessError: there is no shell.
    """
    lines = _LinePrinter(show)
    spec = ProcessSpec(argv=("/bin/sh", "-c", _SCRIPT, "sh", command), env=dict(os.environ), cwd=str(folder))
    done = await run(spec, timeout=None, limit=MODEL_BYTES, on_output=lambda _, data: lines.write(data))
    lines.close()
    text = done.stdout.decode("utf-8", "replace")
    if done.stdout_dropped:
        half = done.stdout[: MODEL_BYTES // 2].decode("utf-8", "replace")
        rest = done.stdout[MODEL_BYTES // 2 :].decode("utf-8", "replace")
        text = f"{half}\n[… {done.stdout_dropped:,} bytes left out …]\n{rest}"
    return format_for_model(command, text, done.exit_code, os.environ), done.exit_code


def format_for_model(command: str, output: str, exit_code: int | None, environ: Mapping[str, str]) -> str:
    """Return what the model is told of a command: without the secrets of the environment."""
    from kakite.redaction import build_redaction  # loads all of the host

    told = f"I ran this command myself. Exit code: {exit_code}\n$ {command}\n{output.rstrip()}".rstrip()
    return build_redaction(environ).redact(told)


class _LinePrinter:
    """Cuts output into lines and shows them, up to a limit."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._shown = 0
        self._hidden = 0

    def write(self, data: bytes) -> None:
        """Take the next piece."""
        *lines, rest = (self._rest + self._decoder.decode(data)).split("\n")
        self._rest = rest[-_LINE_CHARS:]
        shown = lines[: SHOWN_LINES - self._shown]
        if shown:
            self._show("\n".join(line[-_LINE_CHARS:] for line in shown))
        self._shown += len(shown)
        self._hidden += len(lines) - len(shown)

    def close(self) -> None:
        """Show what is left."""
        rest = self._rest + self._decoder.decode(b"", final=True)
        if rest:
            self._show(rest)
        if self._hidden:
            self._show(f"… {self._hidden:,} more lines")
