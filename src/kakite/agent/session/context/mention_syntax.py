"""Finds what ``@`` may name in a text. Pure.

Whether it names something, only the files tell: of a word such as ``@src/a.py).`` all readings are given, the
longest first. An address such as ``me@example.org`` is none, and what a person quotes is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_MENTIONS = 100
"""Words with ``@`` of one text that are looked at."""
_MAX_READINGS = 12
_MENTION = re.compile(
    r"(?<![A-Za-z0-9_.%+\-@/\\])@"
    r'(?:"(?P<quoted>(?:[^"\\\n]|\\.){1,4096})"(?P<after>#L\d{1,9}(?:-L?\d{1,9})?(?![A-Za-z0-9_]))?|(?P<word>[^\s"@][^\s"]{0,4095}))'
)
_LINES = re.compile(r"(?P<path>.+)#L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?")
_CLOSING = ".,;:!?)]}>'`*_…。、，；：！？）」』】》"
_ASCII = re.compile(r"[!-~]+")
_PATH = re.compile(r"[\w./~+-]+")
_DOTTED = re.compile(r"\w[\w-]*(?:\.[\w-]+)*\.[A-Za-z]\w{0,7}")


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines of a file, counted from 1, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MentionReading:
    """One way to read a mention."""

    path: str
    lines: LineRange | None
    end: int
    """Where it ends in the text."""


@dataclass(frozen=True, slots=True)
class MentionCandidate:
    """Something in a text that may name a file or folder."""

    start: int
    readings: tuple[MentionReading, ...]
    """The first one that there is, is meant."""
    is_path: bool
    """Whether it looks so much like a path that it is told if there is none."""


def find_candidates(text: str) -> tuple[MentionCandidate, ...]:
    """Return what may be mentions, in the order of the text."""
    found: list[MentionCandidate] = []
    for match in _MENTION.finditer(text):
        if len(found) == MAX_MENTIONS:
            break
        found.append(_read_quoted(match) if match["quoted"] else _read_word(match, text))
    return tuple(found)


def format_mention(path: str) -> str:
    """Return how a path is written in a message, so that it names just that."""
    (whole, *rest) = find_candidates(f"@{path}") or (None,)
    if whole and not rest and whole.readings[0] == MentionReading(path, None, len(path) + 1):
        return f"@{path}"
    return '@"' + re.sub(r'(["\\])', r"\\\1", path) + '"'


def _read_quoted(match: re.Match[str]) -> MentionCandidate:
    path = re.sub(r"\\(.)", r"\1", match["quoted"])
    lines = _LINES.fullmatch(f"-{match['after']}") if match["after"] else None
    return MentionCandidate(
        match.start(), (MentionReading(path, _to_range(lines), match.end()),), is_path=True
    )


def _read_word(match: re.Match[str], text: str) -> MentionCandidate:
    word, start = match["word"], match.start("word")
    readings: list[MentionReading] = []
    for path in _list_endings(word):
        readings.append(MentionReading(path, None, start + len(path)))
        if lines := _LINES.fullmatch(path):
            readings.append(MentionReading(lines["path"], _to_range(lines), start + len(path)))
    return MentionCandidate(match.start(), tuple(readings), is_path=_looks_like_path(readings, match, text))


def _list_endings(word: str) -> Iterator[str]:
    """Yield the word, then shorter ones: without what closes a sentence, and what another script adds."""
    for whole in dict.fromkeys((word, _get_ascii_start(word))):
        for count in range(_MAX_READINGS):
            path = whole[: len(whole) - count]
            if path.strip("./") or path in {"./", "../"}:
                yield path
            if whole[: len(whole) - count][-1:] not in _CLOSING:
                break


def _get_ascii_start(word: str) -> str:
    ascii_part = _ASCII.match(word)
    return ascii_part[0] if ascii_part else word


def _to_range(lines: re.Match[str] | None) -> LineRange | None:
    if lines is None:
        return None
    first = max(int(lines["first"]), 1)
    return LineRange(first, max(int(lines["last"] or first), first))


def _looks_like_path(readings: list[MentionReading], match: re.Match[str], text: str) -> bool:
    """Return whether a person would say that this is a file: a slash, lines, or an ending.

    A dotted name alone in its line may be a decorator, and is none.
    """
    if not readings:
        return False
    shortest = readings[-1]
    if not _PATH.fullmatch(shortest.path):
        return False
    if "/" in shortest.path.strip("/") or shortest.lines:
        return True
    line_start = text.rfind("\n", 0, match.start()) + 1
    ends = (text.find("\n", match.end()) + 1 or len(text) + 1) - 1
    is_alone = not text[line_start : match.start()].strip() and not text[match.end() : ends].strip()
    is_alone = is_alone and (line_start > 0 or ends < len(text))  # a message that is one word is no code
    return not is_alone and _DOTTED.fullmatch(shortest.path) is not None
