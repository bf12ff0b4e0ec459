"""Pictures whose files were pasted into the line: each is a word there, and goes along with the message.

A terminal passes on only text. Where somebody drops a picture on its window, or copies one in a file manager,
it pastes the path of that file.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.agent.session.context import ContextProblem
    from kakite.tools.toolset import Image

_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp"))
_MAX_CHARS = 16_000  # of a pasted text in which paths are looked for
_MAX_BYTES = 50 << 20
"""Of a file that is read at all; how much of a picture a model takes, is asked of its bytes."""


class PastedPictures:
    """The pictures that were pasted so far."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}

    def fold(self, text: str) -> tuple[str, Sequence[ContextProblem]]:
        """Return the words for a pasted text that names pictures alone, and what is wrong with those.

        Of any other text the words are empty.
        """
        from kakite.agent.session.context import ContextProblem, build_image

        made: list[tuple[Path, Image]] = []
        problems: list[ContextProblem] = []
        for path in _find_pictures(text):
            image = build_image(_read(path), str(path))
            if isinstance(image, ContextProblem):
                problems.append(image)
            else:
                made.append((path, image))
        if problems:
            return "", problems
        return " ".join(self._add(path.name, image) for path, image in made), ()

    def _add(self, name: str, image: Image) -> str:
        shown = "".join(each if each.isprintable() and each not in "[]" else "_" for each in name)
        word = f"[picture {len(self._images) + 1}: {shown}]"
        self._images[word] = image
        return word

    def find_images(self, line: str) -> tuple[Image, ...]:
        """Return the pictures whose words stand in a line, in the order in which they were pasted."""
        return tuple(image for word, image in self._images.items() if word in line)

    def find_word(self, before: str) -> str:
        """Return the word of a picture that ends here; empty: none does."""
        return next((word for word in self._images if before.endswith(word)), "")


def _find_pictures(text: str) -> Sequence[Path]:
    """Return the files that a text names, where it names pictures by whole paths and nothing else."""
    whole = _to_picture(text.strip())
    if whole is not None:
        return (whole,)
    try:
        words = shlex.split(text) if len(text) <= _MAX_CHARS else []
    except ValueError:
        return ()
    found = [_to_picture(word) for word in words]
    return [path for path in found if path is not None] if None not in found else ()


def _to_picture(word: str) -> Path | None:
    if word.startswith("file://"):
        try:
            word = unquote(urlsplit(word).path)
        except ValueError:  # it is no address
            return None
    if "\0" in word or not word.startswith(("/", "~/")):
        return None
    path = Path(word).expanduser()
    try:
        is_picture = path.suffix.lower() in _SUFFIXES and path.is_file() and path.stat().st_size <= _MAX_BYTES
    except OSError:
        return None
    return path if is_picture else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
