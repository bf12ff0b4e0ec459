"""Texts of models and strangers as Markdown in which they can do nothing but be read. Pure.

On a forge a text may call people (``@name``), close issues (``fixes #3``), run commands (``/close``), hide
what stands in it, load pictures, or look like a note that Kakite has left for itself. Here it stays words,
lists and code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kakite.visible import visible, visible_name

APART: Final = "\u200b"  # takes no room, and ends what a forge would take for a name or a number
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[ \t]*")
_ITEM = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(\S.*)")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+(\S.*?)[ \t#]*")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ACTIVE = re.compile(r"[\\`*\[\]<>|~$]")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITY = re.compile(r"&(?=#?[A-Za-z0-9]+;)")
_NUMBER = re.compile(r"\A(\d{1,9})([.)])(?=\s|\Z)")
_PAGE: Final = r"\b(?:issues|pulls?|merge_requests|work_items)/(?=\d)"
_REFERENCE = re.compile(rf"[@#!](?=[\w\\])|\bGH-(?=\d)|{_PAGE}", re.IGNORECASE)
_CLOSABLE = re.compile(rf"[#!](?=\d)|\bGH-(?=\d)|{_PAGE}", re.IGNORECASE)
_HIDING = re.compile(r"<!(?=--)")
_CUT: Final = "[…]"


def cut(text: str, most: int) -> str:
    """Return the text with at most so many characters; where some are missing, it says so."""
    if len(text) <= most:
        return text
    return text[: max(most - len(_CUT) - 1, 0)].rstrip() + " " + _CUT


def plain(text: str, most: int) -> str:
    """Return one line for where no Markdown is read, as a title: it refers to nothing and calls nobody."""
    return _apart(cut(_one_line(text, most), most))


def line(text: str, most: int) -> str:
    """Return one line of words and code in backticks."""
    return _inline(cut(_one_line(text, most), most))


def span(text: str, most: int = 200) -> str:
    """Return one line as code."""
    told = _tame(cut(_one_line(text, most), most)) or " "
    ticks = "`" * (max((len(run) for run in re.findall("`+", told)), default=0) + 1)
    room = " " if told.startswith("`") or told.endswith("`") else ""
    return f"{ticks}{room}{told}{room}{ticks}"


def block(text: str, most: int, kind: str = "") -> str:
    """Return a block of code, in a quote: no line of it begins with a character of its own."""
    return _quote(_fenced(_lines(text, most), kind))


def quoted(text: str, most: int) -> str:
    """Return a quote in which words, lists and code are shown as such. Empty for no text."""
    lines = _lines(text.strip(), most)
    return _quote("\n".join(_prose(lines))) if any(each.strip() for each in lines) else ""


def _one_line(text: str, most: int) -> str:
    return visible_name(" ".join(text[: 8 * most + 8].split()))


def _lines(text: str, most: int) -> list[str]:
    ended = text[: 2 * most + 2].replace("\r\n", "\n").replace("\r", "\n")
    return cut(visible(ended).expandtabs(4), most).split("\n")


def _quote(text: str) -> str:
    return "\n".join(f"> {each}".rstrip() for each in text.split("\n"))


def _prose(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = _end_of_fence(lines, at)
        if end is None:
            yield _prose_line(lines[at])
            at += 1
            continue
        opened = _FENCE.fullmatch(lines[at])
        yield _fenced(lines[at + 1 : end], opened[2] if opened else "")
        at = end + 1


def _end_of_fence(lines: list[str], at: int) -> int | None:
    opened = _FENCE.fullmatch(lines[at])
    if opened is None:
        return None
    for index in range(at + 1, len(lines)):
        closing = lines[index].strip()
        if closing.startswith(opened[1]) and not closing.strip(opened[1][0]):
            return index
    return None


def _fenced(lines: list[str], kind: str) -> str:
    text = _tame("\n".join(lines))
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{ticks}{re.sub(r'[^A-Za-z0-9+-]', '', kind)[:20]}\n{text}\n{ticks}"


def _prose_line(text: str) -> str:
    if heading := _HEADING.fullmatch(text):
        return f"**{_inline(heading[1])}**"
    if item := _ITEM.fullmatch(text):
        depth = min(len(item[1]) // 2, 4)
        return f"{'  ' * depth}{'-' if item[2] in '-*+' else item[2]} {_inline(item[3])}"
    return _inline(text.strip())


def _inline(text: str) -> str:
    parts: list[str] = []
    at = 0
    for found in _CODE.finditer(text):
        parts += [_escaped(text[at : found.start()]), span(found[1], len(found[1]))]
        at = found.end()
    whole = "".join([*parts, _escaped(text[at:])])
    # What begins a line could be a heading, a list, a rule, or a command to the forge.
    whole = _NUMBER.sub(r"\1\\\2", whole)
    return f"\\{whole}" if whole.startswith(("#", "/", "=", "+", "-")) else whole


def _escaped(text: str) -> str:
    text = _ACTIVE.sub(r"\\\g<0>", text)
    text = _EMPHASIS.sub(r"\\_", text)
    return _apart(_HIDING.sub(f"<!{APART}", _ENTITY.sub(r"\\&", text)))


def _apart(text: str) -> str:
    return _REFERENCE.sub(rf"\g<0>{APART}", text)


def _tame(text: str) -> str:
    """Return code that no program takes for a note of ours or for an issue to close."""
    hidden = _HIDING.sub(f"<!{APART}", text)
    return _CLOSABLE.sub(rf"\g<0>{APART}", hidden)
