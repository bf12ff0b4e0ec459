"""Text of strangers, made so that a terminal shows all of it and obeys none of it."""

from __future__ import annotations

import re
import shlex

# What prints as nothing although Python counts it as printable: fillers, variation selectors, a joiner.
_BLANKS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    r"""Return the text on one line, with each character that does not show as itself written ``\u202e``."""
    return "".join(character if _shows(character) else _escaped(character) for character in text)


def shell_words(words: tuple[str, ...]) -> str:
    """Return a command line that a POSIX shell would read as these words; what does not show is escaped.

    Only the quotes ``$'…'``, used for words with such characters, take bash or zsh.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if visible(word) == word:
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{visible(escaped)}'"


def _shows(character: str) -> bool:
    return character.isprintable() and not _BLANKS.match(character)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
