"""What a model thinks before it answers, where that is a part of the reply: ``<think>…</think>``.

It drafts edits there, and leaves them unfinished. None of it is meant to be applied.
"""

from __future__ import annotations

import re

_NAMES = "think|thinking|thought|reasoning"
_OPEN = re.compile(rf"[ \t]*<({_NAMES})>")
_MAY_OPEN = re.compile(r"[ \t]*(?:<[a-z]{0,9})?")
_LONE_CLOSE = re.compile(rf"[ \t]*</(?:{_NAMES})>[ \t]*")


def begins_reasoning(text: str) -> str | None:
    """Return the name of the tag that a line begins with; None if more of it is needed to tell."""
    if found := _OPEN.match(text):
        return found.group(1)
    return None if _MAY_OPEN.fullmatch(text) else ""


def ends_reasoning(line: str) -> bool:
    """Tell whether a line ends reasoning, whose beginning stood in the prompt already."""
    return _LONE_CLOSE.fullmatch(line) is not None


class Reasoning:
    """Skips to the closing tag, character by character."""

    def __init__(self, name: str, line: int) -> None:
        """Start behind the opening tag of this name, in this line of the reply."""
        self.line = line
        self.lines = 0
        """How many lines ended in it."""
        self._close = f"</{name}>"
        self._tail = ""
        self._parts: list[str] = []

    def skip(self, text: str) -> str | None:
        """Take more of the reply; return what stands behind the closing tag, None if it has not come yet."""
        joined = self._tail + text
        _, tag, rest = joined.partition(self._close)
        taken = text[: len(text) - len(rest)] if tag else text
        self.lines += taken.count("\n")
        self._parts.append(taken)
        self._tail = "" if tag else joined[-len(self._close) :]
        return rest if tag else None

    @property
    def text(self) -> str:
        """What was skipped."""
        return "".join(self._parts)
