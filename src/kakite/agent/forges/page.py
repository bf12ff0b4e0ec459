"""Issues and pull requests as Markdown files: settings, a text, and comments as sections. Pure.

A page is the file cut into pieces: put together again they are the same bytes. People keep these files with
their editors, so a change of ours leaves every other byte as it is, and text that a person wrote into, or
below, what Kakite has put is never written over: what Kakite puts is sealed by its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise

from kakite.agent.forges.header import HeaderError, read_header, set_members, set_value, write_header
from kakite.agent.forges.names import marker

_BOM = "\ufeff"
_LINES = re.compile(r"[^\n]*\n|[^\n]+\Z")
_HEADING = re.compile(r"##[ \t]+comment by[ \t]+(\S[^\n]*)\n?", re.IGNORECASE)
_OWN = re.compile(
    r"\s*<!-- kakite:(?P<key>[A-Za-z0-9_.:/=+-]+) -->[ \t]*\r?\n(?P<text>.*?)"
    r"^<!-- /kakite (?P<seal>[0-9a-f]{12}) -->[ \t]*\r?(?:\n|\Z)(?P<rest>.*)",
    re.DOTALL | re.MULTILINE,
)
_MEANT = r"(?:##[ \t]+comment by[ \t]|<!-- /kakite )"
_TO_ESCAPE = re.compile(rf"^(?=\\*{_MEANT})", re.IGNORECASE | re.MULTILINE)
_ESCAPED = re.compile(rf"^\\(?=\\*{_MEANT})", re.IGNORECASE | re.MULTILINE)
_HIDDEN = re.compile(r"^<!-- /?kakite[ :][^\n]*-->[ \t]*\r?\n?", re.MULTILINE)


class PageError(ValueError):
    """A file is no page."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = line
        """Where, counted from 1."""
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A comment as it stands in the file."""

    heading: str
    """The line that begins it, with its end."""
    text: str
    """All that follows, up to the next heading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A file in its pieces. ``format_page`` puts them together again."""

    opening: str
    header: str
    closing: str
    text: str
    sections: tuple[Section, ...]

    @property
    def newline(self) -> str:
        """What ends the lines that are added."""
        return "\r\n" if self.opening.endswith("\r\n") else "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A comment that a person wrote."""

    id: str
    """The same as long as its heading is."""
    author: str
    """Empty: they did not sign it."""
    text: str
    created: datetime | None
    """None: they did not say when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """A comment that Kakite has put, and nobody has changed since."""

    key: str
    text: str
    rest: str = field(repr=False)
    """What a person has written below it."""


def parse_page(data: bytes) -> Page:
    """Cut a file into its pieces.

    Raises:
        PageError: this is no UTF-8, or has no settings at its top that can be read.
    """
    try:
        lines: list[str] = _LINES.findall(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PageError(line, "this is not UTF-8", "save the file as UTF-8") from error
    end = _closing(lines)
    header = "".join(lines[1:end])
    with _naming_lines():
        read_header(header)
    starts = [index for index in range(end + 1, len(lines)) if _HEADING.fullmatch(lines[index])]
    return Page(
        opening=lines[0],
        header=header,
        closing=lines[end],
        text="".join(lines[end + 1 : starts[0] if starts else None]),
        sections=tuple(
            Section(heading=lines[start], text="".join(lines[start + 1 : stop]))
            for start, stop in pairwise([*starts, len(lines)])
        ),
    )


def format_page(page: Page) -> bytes:
    """Return the file."""
    parts = [page.opening, page.header, page.closing, page.text]
    parts += [part for section in page.sections for part in (section.heading, section.text)]
    return "".join(parts).encode("utf-8")


def new_page(values: dict[str, str | list[str]], text: str) -> Page:
    """Return a page with these settings and this text."""
    page = Page(opening="---\n", header=write_header(values), closing="---\n", text="", sections=())
    return with_text(page, text)


def settings_of(page: Page) -> dict[str, str | list[str]]:
    """Return the settings by their names."""
    with _naming_lines():
        return read_header(page.header)


def text_of(page: Page) -> str:
    """Return the text as it was meant, see ``normal``."""
    return _unescaped(page.text)


def with_value(page: Page, name: str, value: str) -> Page:
    """Return the page with this setting.

    Raises:
        PageError: it is written in a way that cannot be changed.
    """
    with _naming_lines():
        return replace(page, header=set_value(page.header, name, value, page.newline))


def with_members(page: Page, name: str, members: Collection[str]) -> Page:
    """Return the page with a list of these.

    Raises:
        PageError: it is written in a way that cannot be changed.
    """
    with _naming_lines():
        return replace(page, header=set_members(page.header, name, members, page.newline))


def with_text(page: Page, text: str) -> Page:
    """Return the page with this text; what stands already is left as it is."""
    if text_of(page) == normal(text):
        return page
    written = _escaped(text, page.newline)
    after = page.newline if page.sections else ""
    closing = page.closing if page.closing.endswith("\n") else page.closing + page.newline
    return replace(page, closing=closing, text=f"{page.newline}{written}{after}" if written else after)


def with_comment(page: Page, key: str, text: str, *, author: str, at: datetime) -> Page:
    """Return the page with this comment of ours, in place of the one with its key, if nobody touched that."""
    for index in range(len(page.sections) - 1, -1, -1):
        section = page.sections[index]
        own = _own(section)
        if own is None or own.key != key:
            continue
        if own.text == normal(text):
            return page
        fresh = replace(section, text=page.newline + _sealed(key, text, page.newline) + own.rest)
        return replace(page, sections=(*page.sections[:index], fresh, *page.sections[index + 1 :]))
    when = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    heading = f"## comment by {author}, {when}{page.newline}"
    fresh = Section(heading=heading, text=page.newline + _sealed(key, text, page.newline))
    ended = _with_blank_line(page)
    return replace(ended, sections=(*ended.sections, fresh))


def own_texts(page: Page) -> list[str]:
    """Return what Kakite has put, each beginning with its marker."""
    found = [_own(section) for section in page.sections]
    return [f"{marker(own.key)}\n{own.text}" for own in found if own is not None]


def notes_of(page: Page) -> list[Note]:
    """Return what people wrote, in the order of the file. An empty comment is one that is still to come."""
    count: dict[str, int] = {}
    notes: list[Note] = []
    for section in page.sections:
        name, created = _signature(section.heading)
        digest = _digest(name, created.isoformat() if created else "")
        count[digest] = count.get(digest, 0) + 1
        number = digest if count[digest] == 1 else f"{digest}-{count[digest]}"
        own = _own(section)
        note = _note_below(own, f"{number}-below") if own else _note(section, number, name, created)
        notes += [note] if note.text else []
    return notes


def normal(text: str) -> str:
    """Return a text without blank lines around it, its lines ended as in Python, and fit to be stored."""
    whole = text.encode("utf-8", "replace").decode("utf-8")  # a model may send half a character
    lines = whole.replace("\r\n", "\n").replace("\r", "\n").rstrip().split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    return "\n".join(lines[first:])


def _closing(lines: Sequence[str]) -> int:
    if not lines or lines[0].removeprefix(_BOM).rstrip() != "---":
        hint = "begin the file with settings between two lines `---`: `title: …`, `labels: […]`"
        raise PageError(1, "there are no settings at the top", hint)
    for index in range(1, len(lines)):
        if lines[index].rstrip() == "---":
            return index
    raise PageError(1, "the settings at the top do not end", "end them with a line `---`")


@contextmanager
def _naming_lines() -> Generator[None]:
    """Tell of settings that cannot be read or changed by the line of the file."""
    try:
        yield
    except HeaderError as error:
        hint = "a value with `: ` or ` #` in it stands in quotes"
        raise PageError(error.line + 2, str(error), hint) from error


def _note(section: Section, number: str, name: str, created: datetime | None) -> Note:
    touched = re.match(r"\s*<!-- kakite:", section.text) is not None
    text = _HIDDEN.sub("", section.text) if touched else section.text
    return Note(id=number, author="" if touched else name, text=_unescaped(text), created=created)


def _note_below(own: _Own, number: str) -> Note:
    return Note(id=number, author="", text=_unescaped(own.rest), created=None)


def _own(section: Section) -> _Own | None:
    found = _OWN.fullmatch(section.text)
    if found is None:
        return None
    text = _unescaped(found["text"])
    if found["seal"] != _seal(found["key"], text):
        return None
    return _Own(key=found["key"], text=text, rest=found["rest"])


def _sealed(key: str, text: str, newline: str) -> str:
    seal = _seal(key, normal(text))
    return f"{marker(key)}{newline}{_escaped(text, newline)}<!-- /kakite {seal} -->{newline}"


def _seal(key: str, text: str) -> str:
    # Blanks at the ends of lines are no change: many editors take them away.
    return _digest(key, *(line.rstrip() for line in text.split("\n")))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _escaped(text: str, newline: str) -> str:
    """Return a text none of whose lines begins a comment: else a model could speak as a person."""
    lines = _TO_ESCAPE.sub(r"\\", normal(text))
    return lines.replace("\n", newline) + newline if lines else ""


def _unescaped(text: str) -> str:
    return _ESCAPED.sub("", normal(text))


def _signature(heading: str) -> tuple[str, datetime | None]:
    found = _HEADING.fullmatch(heading)
    signed = found[1].strip() if found else ""
    name, _, when = signed.rpartition(",")
    created = read_time(when)
    return (name.strip(), created) if name.strip() and created else (signed, None)


def read_time(text: str) -> datetime | None:
    """Return a time as people write it; without a zone it is this machine's. None if it is no time."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _with_blank_line(page: Page) -> Page:
    """Return the page so that a section may follow."""
    whole = format_page(page).decode("utf-8")
    ended = whole.endswith("\n")
    blank = re.search(r"\n[ \t]*\r?\n\Z", whole) is not None
    added = "" if blank else page.newline if ended else page.newline * 2
    if not page.sections:
        return replace(page, text=page.text + added)
    *before, last = page.sections
    return replace(page, sections=(*before, replace(last, text=last.text + added)))
