"""The latest suggestions of one session, to be accepted by their ids. Bounded: the oldest go first."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kakite.edit.suggestions import SuggestionGoneError

if TYPE_CHECKING:
    from kakite.edit.suggestions import BatchSuggestion

KEPT_MOST = 64
KEPT_CHARACTERS = 8 * 1024 * 1024
"""That they insert together; a larger one is kept alone."""


class SuggestionStore:
    """Suggestions by their ids. Safe for several threads."""

    def __init__(self, *, most: int = KEPT_MOST, characters: int = KEPT_CHARACTERS) -> None:
        self._most = most
        self._characters = characters
        self._kept: dict[str, BatchSuggestion] = {}
        self._lock = Lock()

    def add(self, suggestion: BatchSuggestion) -> None:
        """Keep a suggestion, as the latest one."""
        with self._lock:
            self._kept.pop(suggestion.id, None)
            self._kept[suggestion.id] = suggestion
            sizes = {each.id: each.size for each in self._kept.values()}
            total = sum(sizes.values())
            for identity in list(self._kept)[:-1]:
                if len(self._kept) <= self._most and total <= self._characters:
                    break
                del self._kept[identity]
                total -= sizes[identity]

    def find(self, identity: str) -> BatchSuggestion:
        """Return the suggestion with this id.

        Raises:
            SuggestionGoneError: there is none.
        """
        with self._lock:
            found = self._kept.get(identity)
        if found is None:
            raise SuggestionGoneError(f"there is no suggestion `{identity[:40]}` to accept, or no longer")
        return found

    def remove(self, identity: str) -> None:
        """Forget a suggestion, if it is there."""
        with self._lock:
            self._kept.pop(identity, None)
