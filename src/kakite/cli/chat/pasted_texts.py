"""Long texts that were pasted into the line: each is one word there, and whole once the line is sent."""

from __future__ import annotations

import re

PASTED_LINES = 8
"""Lines of a pasted text that are shown where it is typed; a longer one is a word there."""
_WORD = re.compile(r"\[pasted text \d+: \d+ lines\]")


class PastedTexts:
    """The long texts that were pasted so far."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return what stands in the line for a pasted text: itself, if it is short."""
        lines = text.count("\n") + 1
        if lines <= PASTED_LINES:
            return text
        word = f"[pasted text {len(self._texts) + 1}: {lines} lines]"
        self._texts[word] = text
        return word

    def unfold(self, line: str) -> str:
        """Return a line with the texts that stand in it."""
        return _WORD.sub(lambda found: self._texts.get(found[0], found[0]), line)

    def find_word(self, before: str) -> str:
        """Return the word of a pasted text that ends here; empty: none does."""
        return next((word for word in self._texts if before.endswith(word)), "")
