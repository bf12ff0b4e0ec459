"""Answers made so that nothing tells who gave them. Pure.

Who follows an answer because of its author is no check of it, so that no side learns whose answer it reads,
its own included. This takes out names, introductions and signatures, not style. What is
said of others by their names stays, with another word for the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from kakite.debate.record import Side

SOMEBODY = "[assistant]"
"""What stands for a name in an answer."""

_AFTER_NAME = r"(?:[ _-](?:code|cli|opus|sonnet|haiku|turbo|mini|v?\d+\.\d+)|-\d+)*"
"""What makes a longer name of a name: ``Claude Code``, ``gpt-5.1``."""
_ME = rf"(?:NAME){_AFTER_NAME}(?:\s*\([^)\n]{{0,40}}\))?"
_MODEL = r"an?\s+(?:AI|(?:AI\s+|large\s+)?language)\s+(?:model|assistant)"
_MADE = r"(?:,?\s+(?:made|developed|trained|created|built|by|from)\b[^,.;\n]{0,60})?"
_FIRST_PERSON = r"(?=(?:I|my|me|we|our)\b)"
_INTRODUCTIONS = (
    # As Claude, I …; As an AI model made by …, I …
    rf"\b(?:speaking\s+)?as\s+(?:{_ME}|{_MODEL}{_MADE}),\s*{_FIRST_PERSON}",
    rf"\b(?:I\s+am|I['’]m|my\s+name\s+is)\s+(?:{_ME}|{_MODEL})\b{_MADE}(?:[,.;:!]\s*|$)",
    rf"(?:^|(?<=[.!?]\s)){_ME}\s+here(?:[.:!]\s*|,\s*{_FIRST_PERSON})",  # Claude here.
)
_END = r"(?:\]|\([^)\n]*\)|<[^>\n]*>|[ \t.!*_])*"
"""What may stand behind a name in a signature, and a link around it."""
_BY = r"[^\w\n]*(?:generated|written|created|made|authored)[ \t]+(?:by|with)[ \t]+[\[*_]*"
_SIGNATURES = (
    rf"{_BY}(?:NAME){_AFTER_NAME}{_END}",
    r"[ \t>*_]*(?:(?:co-)?authored-by|signed-off-by)[ \t]*:.*(?<![a-z0-9])(?:NAME)(?![a-z0-9]).*",
)
_DASHED = rf"[ \t]*(?:—|–|--|~)[ \t]*[*_]*(?:the[ \t]+)?(?:NAME){_AFTER_NAME}(?:,.{{0,40}}|{_END})"
"""— Claude"""
_MOST_SIGNATURES = 5


def free_words(sides: Collection[Side], question: str) -> frozenset[str]:
    """Return the words of sides that the question itself speaks of: in an answer they give nobody away."""
    words = {word for side in sides for word in _words(side)}
    return frozenset(word for word in words if re.search(_bounded(re.escape(word)), question, re.IGNORECASE))


def scrubbed(text: str, sides: Collection[Side], free: Collection[str] = ()) -> str:
    """Return an answer without signatures, introductions and names.

    A word that is ``free`` stays where it stands, except where somebody says that it is who he is.
    """
    everyone = _any(word for side in sides for word in _words(side))
    hidden = [word for side in sides for word in _words(side) if word not in free]
    text = _unsigned(text, everyone, _any(hidden))
    for form in _INTRODUCTIONS:
        text = re.sub(form.replace("NAME", everyone), "", text, flags=re.IGNORECASE | re.MULTILINE)
    return _replaced(text, hidden, lambda _: SOMEBODY) if hidden else text


def _unsigned(text: str, everyone: str, hidden: str) -> str:
    """Return the text without the signatures at its end; anywhere else a line like one is content.

    So it is with a name that the question speaks of, unless it stands behind a dash and apart.
    """
    forms = [re.compile(form.replace("NAME", hidden), re.IGNORECASE) for form in _SIGNATURES if hidden]
    dashed = re.compile(_DASHED.replace("NAME", everyone), re.IGNORECASE)
    for _ in range(_MOST_SIGNATURES):
        lines = text.rstrip().splitlines(keepends=True) or [""]
        last, apart = lines[-1], len(lines) == 1 or not lines[-2].strip()
        if not (apart and dashed.fullmatch(last)) and not any(form.fullmatch(last) for form in forms):
            break
        text = "".join(lines[:-1])
    return text


def addressed(text: str, shown_as: Mapping[str, str]) -> str:
    """Return a person's words with ``Answer A`` for each side's name, as who reads them knows it.

    A side without a letter is ``[assistant]``.
    """
    if not shown_as:
        return text
    letters = {name.casefold(): letter for name, letter in shown_as.items()}

    def told(word: str) -> str:
        letter = letters.get(word.casefold(), "")
        return f"Answer {letter}" if letter else SOMEBODY

    return _replaced(text, list(shown_as), told)


def _replaced(text: str, words: Collection[str], by: Callable[[str], str]) -> str:
    pattern = _bounded(f"({_any(words)}){_AFTER_NAME}")
    return re.sub(pattern, lambda found: by(found[1]), text, flags=re.IGNORECASE)


def _bounded(pattern: str) -> str:
    # Not \b: a name beside Japanese has none, and `codex_output` is to be found.
    return rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])"


def _any(words: Iterable[str]) -> str:
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(map(re.escape, longest_first))


def _words(side: Side) -> tuple[str, ...]:
    return tuple(word.casefold() for word in (side.name, *side.aliases))
