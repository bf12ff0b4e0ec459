"""JSON that comes in character by character, kept as it is but for commas that mean nothing."""

from __future__ import annotations


class JsonText:
    """The text of one value so far, and whether it has come into a string."""

    def __init__(self) -> None:
        self._chars: list[str] = []
        self._in_string = False
        self._escaped = False

    def __len__(self) -> int:
        return len(self._chars)

    def part(self, start: int = 0, end: int | None = None) -> str:
        """Return the text between two places; without them all of it."""
        return "".join(self._chars[start:end])

    def take(self, char: str) -> bool:
        """Add a character; return whether it is outside of all strings. Quotes count as part of theirs."""
        self._chars.append(char)
        if not self._in_string:
            self._in_string = char == '"'
            return not self._in_string
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False
        return False

    def drop_comma(self) -> None:
        """Remove a comma before the bracket that was taken last: models put one, and it means nothing."""
        at = len(self._chars) - 2
        while at >= 0 and self._chars[at].isspace():
            at -= 1
        if at >= 0 and self._chars[at] == ",":
            del self._chars[at]
