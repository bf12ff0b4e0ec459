"""Reads Markdown files that people write for models: text, with or without front matter. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kakite.agent.front_matter import FrontMatterError, find_line, format_scalar, parse_front_matter

_FENCE = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")  # as editors count them
_HINT = re.compile(r"^(argument-hint:[ \t]+)(\[[^\r\n]*)", re.MULTILINE)
_LOOSE = re.compile(r"([A-Za-z][\w-]*):[ \t]+([^\s\"'|>\[{&*!#%@`][^\n\r]*: [^\n\r]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownDocument:
    """A Markdown file in its two parts."""

    settings: Mapping[str, str | list[str]] = field(default_factory=dict[str, str | list[str]])
    """What the front matter says, as it is written there; what is neither text nor a list is left out."""
    body: str
    body_line: int = 1
    """The line of the file in which the body begins, counted from 1."""
    header: str = ""

    def get(self, name: str) -> str:
        """Return a setting as one line; that of a list, its items with blanks between. Empty: not there."""
        value = self.settings.get(name, "")
        return " ".join((value if isinstance(value, str) else " ".join(value)).split())

    def is_on(self, name: str) -> bool:
        """Return whether a setting says yes."""
        return self.get(name).casefold() in {"true", "yes", "on"}

    def find_line(self, name: str) -> int:
        """Return the line of the file that a setting stands in, counted from 1."""
        return find_line(self.header, name) + 2 if self.header else 1


def parse_markdown(text: str) -> MarkdownDocument:
    """Cut a file into front matter and body. Without front matter, all is body.

    Raises:
        FrontMatterError: it cannot be read; its ``line`` is that of the file, counted from 1.
    """
    text = text.removeprefix("\ufeff")
    lines: list[str] = _LINES.findall(text) if _FENCE.match(text) else []
    end = next((at for at, line in enumerate(lines[1:], start=1) if _FENCE.fullmatch(line)), 0)
    if not lines:
        return MarkdownDocument(body=text)
    if not end:
        raise FrontMatterError(1, "the front matter does not end: a line `---` is missing")
    header, settings = _parse_header("".join(lines[1:end]))
    return MarkdownDocument(
        settings=settings, body="".join(lines[end + 1 :]), body_line=end + 2, header=header
    )


def _parse_header(header: str) -> tuple[str, Mapping[str, str | list[str]]]:
    """Read it as YAML; if that fails, once more with values quoted that have a colon in them.

    Other programs read such lines, so people write them, and they mean `[file]` as it stands there.
    """
    header = _HINT.sub(lambda hint: f"{hint[1]}{format_scalar(hint[2].rstrip())}", header)
    try:
        return header, parse_front_matter(header)
    except FrontMatterError as error:
        loose = "".join(_quote_value(line) for line in _LINES.findall(header))
        try:
            return loose, parse_front_matter(loose)
        except FrontMatterError:
            raise FrontMatterError(error.line + 2, str(error)) from error


def _quote_value(line: str) -> str:
    bare = line.rstrip("\r\n")
    found = _LOOSE.fullmatch(bare)
    return line if found is None else f"{found[1]}: {format_scalar(found[2].rstrip())}{line[len(bare) :]}"
