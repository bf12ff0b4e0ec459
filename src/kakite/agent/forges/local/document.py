"""Parses and edits the Markdown files of issues and pull requests: front matter, text, comments. Pure.

A document is the file cut into pieces: joined again they are the same bytes. People edit these files too,
so a change here leaves every other byte as it is: comments, the order of keys, quotes and unknown keys.
What Kakite writes is sealed by a digest, and text that a person wrote into it or below is never overwritten.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise

from kakite.agent.forges.labels import format_marker
from kakite.agent.front_matter import (
    FrontMatterError,
    format_front_matter,
    parse_front_matter,
    set_members,
    set_value,
)

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


class DocumentError(ValueError):
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
class IssueDocument:
    """A file in its pieces. ``format_document`` puts them together again."""

    opening: str
    header: str
    closing: str
    text: str
    sections: tuple[Section, ...]

    @property
    def newline(self) -> str:
        """The line end of added lines."""
        return "\r\n" if self.opening.endswith("\r\n") else "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserComment:
    """A comment that a person wrote."""

    id: str
    """The same as long as its heading is."""
    author: str
    """Empty: they did not sign it."""
    text: str
    created: datetime | None
    """None: they did not say when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnComment:
    """A comment that Kakite has put, and nobody has changed since."""

    key: str
    text: str
    rest: str = field(repr=False)
    """What a person has written below it."""


def parse_document(data: bytes) -> IssueDocument:
    """Cut a file into its pieces.

    Raises:
        DocumentError: this is no UTF-8, or has no settings at its top that can be read.
    """
    try:
        lines: list[str] = _LINES.findall(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(line, "this is not UTF-8", "save the file as UTF-8") from error
    end = _find_front_matter_end(lines)
    header = "".join(lines[1:end])
    with _translate_errors():
        parse_front_matter(header)
    starts = [index for index in range(end + 1, len(lines)) if _HEADING.fullmatch(lines[index])]
    return IssueDocument(
        opening=lines[0],
        header=header,
        closing=lines[end],
        text="".join(lines[end + 1 : starts[0] if starts else None]),
        sections=tuple(
            Section(heading=lines[start], text="".join(lines[start + 1 : stop]))
            for start, stop in pairwise([*starts, len(lines)])
        ),
    )


def format_document(page: IssueDocument) -> bytes:
    """Return the file."""
    parts = [page.opening, page.header, page.closing, page.text]
    parts += [part for section in page.sections for part in (section.heading, section.text)]
    return "".join(parts).encode("utf-8")


def create_document(values: dict[str, str | list[str]], text: str) -> IssueDocument:
    """Return a page with these settings and this text."""
    page = IssueDocument(
        opening="---\n", header=format_front_matter(values), closing="---\n", text="", sections=()
    )
    return with_text(page, text)


def get_settings(page: IssueDocument) -> dict[str, str | list[str]]:
    """Return the settings by their names."""
    with _translate_errors():
        return parse_front_matter(page.header)


def get_text(page: IssueDocument) -> str:
    """Return the text as it was meant, see ``normalize_text``."""
    return _unescape(page.text)


def with_value(page: IssueDocument, name: str, value: str) -> IssueDocument:
    """Return the page with this setting.

    Raises:
        DocumentError: it is written in a way that cannot be changed.
    """
    with _translate_errors():
        return replace(page, header=set_value(page.header, name, value, page.newline))


def with_members(page: IssueDocument, name: str, members: Collection[str]) -> IssueDocument:
    """Return the page with a list of these.

    Raises:
        DocumentError: it is written in a way that cannot be changed.
    """
    with _translate_errors():
        return replace(page, header=set_members(page.header, name, members, page.newline))


def with_text(page: IssueDocument, text: str) -> IssueDocument:
    """Return the page with this text; what stands already is left as it is."""
    if get_text(page) == normalize_text(text):
        return page
    written = _escape(text, page.newline)
    after = page.newline if page.sections else ""
    closing = page.closing if page.closing.endswith("\n") else page.closing + page.newline
    return replace(page, closing=closing, text=f"{page.newline}{written}{after}" if written else after)


def with_comment(page: IssueDocument, key: str, text: str, *, author: str, at: datetime) -> IssueDocument:
    """Return the page with this comment of ours, in place of the one with its key, if nobody touched that."""
    for index in range(len(page.sections) - 1, -1, -1):
        section = page.sections[index]
        own = _parse_own_comment(section)
        if own is None or own.key != key:
            continue
        if own.text == normalize_text(text):
            return page
        fresh = replace(section, text=page.newline + _format_own_comment(key, text, page.newline) + own.rest)
        return replace(page, sections=(*page.sections[:index], fresh, *page.sections[index + 1 :]))
    when = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    heading = f"## comment by {author}, {when}{page.newline}"
    fresh = Section(heading=heading, text=page.newline + _format_own_comment(key, text, page.newline))
    ended = _with_blank_line(page)
    return replace(ended, sections=(*ended.sections, fresh))


def collect_own_texts(page: IssueDocument) -> list[str]:
    """Return what Kakite has put, each beginning with its marker."""
    found = [_parse_own_comment(section) for section in page.sections]
    return [f"{format_marker(own.key)}\n{own.text}" for own in found if own is not None]


def collect_user_comments(page: IssueDocument) -> list[UserComment]:
    """Return what people wrote, in the order of the file. An empty comment is one that is still to come."""
    count: dict[str, int] = {}
    notes: list[UserComment] = []
    for section in page.sections:
        name, created = _parse_signature(section.heading)
        digest = _digest(name, created.isoformat() if created else "")
        count[digest] = count.get(digest, 0) + 1
        number = digest if count[digest] == 1 else f"{digest}-{count[digest]}"
        own = _parse_own_comment(section)
        note = (
            _parse_comment_below(own, f"{number}-below")
            if own
            else _parse_user_comment(section, number, name, created)
        )
        notes += [note] if note.text else []
    return notes


def normalize_text(text: str) -> str:
    """Return a text without blank lines around it, its lines ended as in Python, and fit to be stored."""
    whole = text.encode("utf-8", "replace").decode("utf-8")  # a model may send half a character
    lines = whole.replace("\r\n", "\n").replace("\r", "\n").rstrip().split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    return "\n".join(lines[first:])


def _find_front_matter_end(lines: Sequence[str]) -> int:
    if not lines or lines[0].removeprefix(_BOM).rstrip() != "---":
        hint = "begin the file with settings between two lines `---`: `title: …`, `labels: […]`"
        raise DocumentError(1, "the settings at the top are missing", hint)
    for index in range(1, len(lines)):
        if lines[index].rstrip() == "---":
            return index
    raise DocumentError(1, "the settings at the top do not end", "end them with a line `---`")


@contextmanager
def _translate_errors() -> Generator[None]:
    """Tell of settings that cannot be read or changed by the line of the file."""
    try:
        yield
    except FrontMatterError as error:
        hint = "put quotes around a value that contains `: ` or ` #`"
        raise DocumentError(error.line + 2, str(error), hint) from error


def _parse_user_comment(section: Section, number: str, name: str, created: datetime | None) -> UserComment:
    touched = re.match(r"\s*<!-- kakite:", section.text) is not None
    text = _HIDDEN.sub("", section.text) if touched else section.text
    return UserComment(id=number, author="" if touched else name, text=_unescape(text), created=created)


def _parse_comment_below(own: _OwnComment, number: str) -> UserComment:
    return UserComment(id=number, author="", text=_unescape(own.rest), created=None)


def _parse_own_comment(section: Section) -> _OwnComment | None:
    found = _OWN.fullmatch(section.text)
    if found is None:
        return None
    text = _unescape(found["text"])
    if found["seal"] != _compute_seal(found["key"], text):
        return None
    return _OwnComment(key=found["key"], text=text, rest=found["rest"])


def _format_own_comment(key: str, text: str, newline: str) -> str:
    seal = _compute_seal(key, normalize_text(text))
    return f"{format_marker(key)}{newline}{_escape(text, newline)}<!-- /kakite {seal} -->{newline}"


def _compute_seal(key: str, text: str) -> str:
    # Blanks at the ends of lines are no change: many editors take them away.
    return _digest(key, *(line.rstrip() for line in text.split("\n")))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _escape(text: str, newline: str) -> str:
    """Return a text none of whose lines begins a comment: else a model could speak as a person."""
    lines = _TO_ESCAPE.sub(r"\\", normalize_text(text))
    return lines.replace("\n", newline) + newline if lines else ""


def _unescape(text: str) -> str:
    return _ESCAPED.sub("", normalize_text(text))


def _parse_signature(heading: str) -> tuple[str, datetime | None]:
    found = _HEADING.fullmatch(heading)
    signed = found[1].strip() if found else ""
    name, _, when = signed.rpartition(",")
    created = parse_time(when)
    return (name.strip(), created) if name.strip() and created else (signed, None)


def parse_time(text: str) -> datetime | None:
    """Return a time as people write it; without a zone it is this machine's. None if it is no time."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _with_blank_line(page: IssueDocument) -> IssueDocument:
    """Return the page so that a section may follow."""
    whole = format_document(page).decode("utf-8")
    ended = whole.endswith("\n")
    blank = re.search(r"\n[ \t]*\r?\n\Z", whole) is not None
    added = "" if blank else page.newline if ended else page.newline * 2
    if not page.sections:
        return replace(page, text=page.text + added)
    *before, last = page.sections
    return replace(page, sections=(*before, replace(last, text=last.text + added)))
