"""Stores the suggestions for refused replies in the user's state folder, for a week or until accepted."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kakite.edit.suggestions.model import BatchSuggestion, SuggestionGoneError
from kakite.workspace import ensure_state_folder

MAX_AGE_DAYS = 7
MAX_COUNT = 200
MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""Of all of them; a larger one is not kept."""

_ID = re.compile(r"[0-9a-f]{1,64}")
_DAY = 24 * 60 * 60


class SuggestionFiles:
    """The suggestions for files below one folder, each in a file of its own that nobody else may read."""

    def __init__(self, environ: Mapping[str, str], root: str) -> None:
        """Name the state folder of this environment; it is made when something is kept."""
        self._environ = environ
        self._root = root

    def add(self, suggestion: BatchSuggestion) -> bool:
        """Keep a suggestion; return whether that could be done."""
        written = json.dumps({"root": self._root, "suggestion": suggestion.to_json()}).encode("ascii")
        if len(written) > MAX_TOTAL_BYTES:
            return False
        try:
            folder = self._ensure_folder()
            descriptor, name = tempfile.mkstemp(dir=folder, suffix=".new")  # mode 0600
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(written)
                Path(name).replace(folder / f"{suggestion.id}.json")
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            _prune(folder)
        except OSError:
            return False
        return True

    def find(self, identity: str) -> BatchSuggestion:
        """Return the suggestion with this id.

        Raises:
            SuggestionGoneError: there is none, or none for this folder.
        """
        gone = SuggestionGoneError(f"there is no suggestion `{identity[:80]}`, or it is gone")
        if not _ID.fullmatch(identity):
            raise gone
        try:
            _prune(self._ensure_folder())
            told = json.loads((self._ensure_folder() / f"{identity}.json").read_bytes())
            root, suggestion = str(told["root"]), BatchSuggestion.from_json(told["suggestion"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise gone from error
        if root != self._root:
            raise SuggestionGoneError(
                f"the suggestion `{identity}` is for files below `{root}`: run the command there"
            )
        return suggestion

    def remove(self, identity: str) -> None:
        """Forget a suggestion, if it is there."""
        with suppress(OSError):
            (self._ensure_folder() / f"{identity}.json").unlink(missing_ok=True)

    def _ensure_folder(self) -> Path:
        folder = ensure_state_folder(self._environ) / "suggestions"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def _prune(folder: Path) -> None:
    """Remove what is old, what a crash left, and the oldest of what is too many or too much."""
    oldest, room, count = time.time() - MAX_AGE_DAYS * _DAY, MAX_TOTAL_BYTES, 0
    for file, modified, size in _list_latest_first(folder):
        count, room = count + 1, room - size
        if modified < oldest or count > MAX_COUNT or room < 0:
            with suppress(OSError):
                file.unlink()


def _list_latest_first(folder: Path) -> list[tuple[Path, float, int]]:
    found: list[tuple[Path, float, int]] = []
    for file in folder.iterdir():
        with suppress(OSError):
            told = file.lstat()
            found.append((file, told.st_mtime, told.st_size))
    return sorted(found, key=lambda each: each[1], reverse=True)
