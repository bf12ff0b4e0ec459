"""Whether new lines can be meant at the columns that they have as sent, coarsely."""

from __future__ import annotations

OPENERS = (
    *(":", "{", "(", "[", ",", ">", "=", "\\", "|", "&", "+", "-", ".", "?", "^", "%", "*", "/", "<<"),
    *("then", "do", "else", "begin"),
)
"""How a line may end above a deeper one."""
CODE = {"python", "javascript", "typescript", "go", "rust", "java", "c", "c++", "ruby", "shell", "php", "css"}


def can_be_literal(language: str, below: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Tell whether new lines as sent can stand above the lines below: not if those are deeper than the last
    new line, which opens nothing.
    """
    if language not in CODE:
        return True
    after = next((line for line in below if line.strip()), "")
    last = new[-1]
    opens = last.rstrip().lower().endswith(OPENERS) or last.lstrip().startswith(("- ", "* ", "#", "//"))
    return opens or _depth(after) <= _depth(last)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
