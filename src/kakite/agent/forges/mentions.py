"""Finds mentions in a text of Markdown. They count only in prose: not in code, in a quote or in a link."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_QUOTE = re.compile(r" {0,3}>")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_TICKS = re.compile(r"`+")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[a-z][a-z+.-]*:[^<>\s]*>", re.IGNORECASE)
_LINK = re.compile(r"\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\]|:)")
_URL = re.compile(r"(?:https?://|www\.)\S*", re.IGNORECASE)
_HIDING = ("pre", "code", "blockquote", "a")  # elements that quote what is in them


def has_mention(text: str, name: str) -> bool:
    """Return whether ``@name`` stands in a text of Markdown as a word: not in code, a quote or a link.

    Upper and lower case are the same. Takes time in proportion to the text.
    """
    if f"@{name}".casefold() not in text.casefold():
        return False
    said = _strip_elements("\n\n".join(map(_strip_code, _split_paragraphs(text))))
    for hidden in (_COMMENT, _LINK, _LINK, _TAG, _URL):  # an image may be the text of a link
        said = hidden.sub(" ", said)
    # Names may have dashes and, elsewhere, dots; `@name/team` is a team. Other alphabets need no blank.
    called = rf"(?<![A-Za-z0-9_+@/\\-])@{re.escape(name)}(?![A-Za-z0-9_@-]|[./][A-Za-z0-9])"
    return re.search(called, said, re.IGNORECASE) is not None


def extract_prose(text: str) -> str:
    """Return what a text says in its author's own words, line by line: no code, quotes or hidden comments."""
    said = "\n\n".join(map(_strip_code, _split_paragraphs(_COMMENT.sub(" ", text))))
    return _strip_elements(said)


def _split_paragraphs(text: str) -> Iterator[str]:
    """Yield what stands between blank lines and blocks, without blocks of code and quotes."""
    lines: list[str] = []
    fence = ""
    quoted = False
    for line in text.splitlines():
        opened = _FENCE.match(line)
        if fence:
            fence = "" if opened and _is_closing(opened, fence) else fence
            continue
        if opened and not (opened[1][0] == "`" and "`" in opened[2]):
            fence = opened[1]
        elif not line.strip():
            quoted = False
        elif quoted or _QUOTE.match(line):
            quoted = True  # until a blank line: what follows a quote belongs to it
        elif lines or not _INDENTED.match(line) or _ITEM.match(line):
            lines.append(line)
            continue
        yield "\n".join(lines)
        lines = []
    yield "\n".join(lines)


def _is_closing(line: re.Match[str], fence: str) -> bool:
    return line[1][0] == fence[0] and len(line[1]) >= len(fence) and not line[2].strip()


def _strip_code(paragraph: str) -> str:
    runs = list(_TICKS.finditer(paragraph))
    closing: dict[int, int] = {}
    last: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index][0])
        if length in last:
            closing[index] = last[length]
        last[length] = index
    kept: list[str] = []
    place = index = 0
    while index < len(runs):
        if index in closing:
            kept.append(paragraph[place : runs[index].start()])
            index = closing[index]
            place = runs[index].end()
        index += 1
    return " ".join([*kept, paragraph[place:]])


def _strip_elements(text: str) -> str:
    for name in _HIDING:
        ends = [found.end() for found in re.finditer(f"</{name}>", text, re.IGNORECASE)]
        element = re.compile(rf"<{name}(?:\s[^<>]*)?>.*?</{name}>", re.IGNORECASE | re.DOTALL)
        if ends:  # what is opened after the last end is not looked at, time and again, for one
            text = element.sub(" ", text[: ends[-1]]) + text[ends[-1] :]
    return text
