"""Defines an edit as a transcript tells it, and the texts of files as far as a transcript shows them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kakite.edit import Operation

Ending = Literal["applied", "failed", "not_tried"]
"""How the client's own call ended: ``failed`` if it did not find one place for the edit, ``not_tried`` if
it stopped for any other reason."""

_MAX_TEXTS = 64 * 1024 * 1024  # characters of a transcript's files that are remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEdit:
    """One call of a client's edit tool, and the files that it was for."""

    key: str
    """What tells it from other calls: a session that was continued repeats the calls of the one before."""
    operations: tuple[Operation, ...]
    """What it asked for; empty if it cannot be read, which the client told as well."""
    before: Mapping[str, str] | None
    """The files before the call; None if a text is not known exactly."""
    after: Mapping[str, str] | None
    """The files as the client left them; None if it left them alone, or this is not known exactly."""
    ending: Ending


class KnownTexts:
    """The texts of files that a transcript has shown whole."""

    def __init__(self) -> None:
        """Know nothing."""
        self._texts: dict[str, str] = {}
        self._size = 0

    def get(self, path: str) -> str | None:
        """Return a file's text, or None if it is not known."""
        return self._texts.get(posixpath.normpath(path))

    def set(self, path: str, text: str | None) -> None:
        """Remember a file's text, or forget it; the oldest are forgotten if there is too much."""
        path = posixpath.normpath(path)
        self._size -= len(self._texts.pop(path, ""))
        if text is not None:
            self._texts[path] = text
            self._size += len(text)
        while self._size > _MAX_TEXTS:
            self._size -= len(self._texts.pop(next(iter(self._texts))))

    def clear(self) -> None:
        """Forget all: a program ran, which may have changed any file."""
        self._texts.clear()
        self._size = 0


def replay_hunks(text: str, hunks: list[tuple[int, list[str]]]) -> str | None:
    """Return a text after a diff's hunks, each with its first line (1-based); None if they do not fit."""
    lines, made, at = re.findall(r"[^\n]*\n|[^\n]+", text), list[str](), 0
    for start, hunk in hunks:
        made += lines[at : max(start - 1, at)]
        at = max(start - 1, at)
        for line in hunk:
            sign, content = line[:1], line[1:]
            if sign in {" ", "-"}:
                if at >= len(lines) or lines[at].rstrip("\n") != content:
                    return None
                made += [lines[at]] if sign == " " else []
                at += 1
            elif sign == "+":
                made.append(f"{content}\n")
            else:
                return None
    return "".join(made + lines[at:])
