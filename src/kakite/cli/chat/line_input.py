"""How a person's lines come in: what the conversation needs of a line editor, or of plain lines."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kakite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.tools.toolset import Image

_EDITORS = ("editor", "nano", "vi", "emacs")


class LineInput(Protocol):
    """Reads lines from a terminal."""

    @property
    def has_draft(self) -> bool:
        """Whether a line was begun and not sent."""
        ...

    def open(self) -> AbstractContextManager[None]:
        """Take the terminal; what is written to standard output meanwhile does not disturb the line."""
        ...

    async def read_line(self) -> str:
        """Return the next line.

        Raises:
            EOFError: the person ended the input.
            KeyboardInterrupt: they pressed Ctrl-C, and no line is under way any more.
        """
        ...

    async def read_answer(self, question: str) -> str:
        """Ask for one line beside the conversation; empty where the person gives none."""
        ...

    async def edit(self, text: str) -> str:
        """Let the person change a text in their editor.

        Raises:
            UsageError: there is no editor, or it failed.
        """
        ...

    def add_draft(self, text: str) -> None:
        """Put a text into the line, before what stands there."""
        ...

    def clear_draft(self) -> None:
        """Empty the line that was begun; what is more than a short answer stays in the history."""
        ...

    def find_images(self, line: str) -> Sequence[Image]:
        """Return the pictures that were pasted into a line."""
        ...

    def refresh(self) -> None:
        """Show the state again, if it is shown."""
        ...

    def stop(self) -> None:
        """Let ``read_line`` return at once, with an empty line."""
        ...


async def edit_text(text: str) -> str:
    """Let the person change a text in their editor, and return it.

    Raises:
        UsageError: there is no editor, or it failed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or next(filter(shutil.which, _EDITORS), "")
    if not editor:
        raise UsageError(
            "Kakite found no editor", hint="set EDITOR to the command of your editor", code="editor_missing"
        )
    with tempfile.TemporaryDirectory(prefix="kakite-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(f"{text}\n" if text else "", encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(*shlex.split(editor), str(file))
        except (OSError, ValueError) as error:
            raise UsageError(f"`{editor}` cannot be started: {error}", code="editor_missing") from error
        if await process.wait():
            raise UsageError(f"`{editor}` failed; nothing was sent", code="editor_failed")
        return file.read_text(encoding="utf-8", errors="replace").strip("\n")
