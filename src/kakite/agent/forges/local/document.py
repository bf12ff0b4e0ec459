"""Parses and edits the Markdown files of issues and pull requests: front matter, text, comments. Pure.

A document is the file cut into pieces: joined again they are the same bytes. People edit these files too,
so a change here leaves every other byte as it is: comments, the order of keys, quotes and unknown keys.
What Kakite writes is sealed by a digest, and text that a person wrote into it or below is never overwritten.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import yaml

from kakite.agent.forges.labels import format_marker

_MOST = 16 * 1024  # characters
_compose = cast("Callable[..., yaml.Node | None]", yaml.compose)  # pyright: ignore[reportUnknownMemberType] - untyped
_NULL = "tag:yaml.org,2002:null"


class FrontMatterError(ValueError):
    """The settings cannot be understood."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        """Where, counted from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    value: yaml.Node
    line: int
    start: int
    end: int
    """Where its value is; both the same where there is none."""


def parse_front_matter(text: str) -> dict[str, str | list[str]]:
    """Return the settings by their names: as they are written, numbers and words such as ``yes`` too.

    Values that are neither text nor a list of texts are left out: they are somebody else's.

    Raises:
        FrontMatterError: this is no YAML, no mapping, or names something twice.
    """
    values = {name: _to_plain(entry.value) for name, entry in _parse_entries(text).items()}
    return {name: value for name, value in values.items() if value is not None}


def format_front_matter(values: Mapping[str, str | list[str]]) -> str:
    """Return new settings, a line each."""
    return "".join(f"{name}: {_format_value(value)}\n" for name, value in values.items())


def find_line(text: str, name: str) -> int:
    """Return the line of a setting, counted from 0; 0 if there is none."""
    entries = _parse_entries(text)
    return entries[name].line if name in entries else 0


def set_value(text: str, name: str, value: str, newline: str) -> str:
    """Return the text with this setting changed or added, and nothing else.

    Raises:
        FrontMatterError: it is written in a way that cannot be changed, such as an alias.
    """
    if parse_front_matter(text).get(name) == value:
        return text
    return _set(text, name, value, newline)


def set_members(text: str, name: str, members: Collection[str], newline: str) -> str:
    """Return the text with a list that has these members and no others, in the order that it has.

    A single text stands for what it names between commas. What leaves gives its place to what comes.

    Raises:
        FrontMatterError: as ``set_value``.
    """
    present = parse_front_matter(text).get(name, [])
    if isinstance(present, str):
        kept = [item for item in split_members(present) if item in members]
        wanted = [*kept, *sorted(set(members) - set(kept))]
        return text if wanted == split_members(present) else _set(text, name, wanted, newline)
    for wanted in _generate_steps(present, members):
        text = _set(text, name, wanted, newline)
    return text


def split_members(value: str | list[str]) -> list[str]:
    """Return the members of a list, or of a text that names them between commas."""
    named = value.split(",") if isinstance(value, str) else value
    return [item.strip() for item in named if item.strip()]


def format_scalar(value: str) -> str:
    """Return a text as YAML that reads the same as a setting's value and in a list."""
    if re.fullmatch(r"\d{1,15}|true|false", value, re.ASCII) or (value.isprintable() and _is_plain(value)):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def _is_plain(value: str) -> bool:
    try:
        read: Any = yaml.safe_load(f"a: {value}\nb: [{value}, {value}]\n")
    except (yaml.YAMLError, ValueError):
        return False
    return read == {"a": value, "b": [value, value]}


def _generate_steps(present: Sequence[str], members: Collection[str]) -> Iterator[list[str]]:
    """Yield the list after each small change: a member in the place of another, one less, one more."""
    items = list(present)
    come = sorted(set(members) - set(items))
    for gone in [item for item in items if item not in members]:
        place = items.index(gone)
        items[place : place + 1] = [come.pop(0)] if come else []
        yield list(items)
    for item in come:
        items.append(item)
        yield list(items)


def _set(text: str, name: str, value: str | list[str], newline: str) -> str:
    wanted = {**parse_front_matter(text), name: value}
    nothing = {name: value} if not value else {}  # a list that lost its last line reads like no value
    for changed in _generate_candidates(text, name, value, newline):
        try:
            if {**nothing, **parse_front_matter(changed)} == wanted:
                return changed
        except FrontMatterError:
            continue
    raise FrontMatterError(find_line(text, name), f"`{name}` is written in a way that cannot be changed")


def _generate_candidates(text: str, name: str, value: str | list[str], newline: str) -> Iterator[str]:
    """Yield the text changed, in ways that change as little as possible first. Each has to be looked at."""
    entry = _parse_entries(text).get(name)
    whole = _format_value(value)
    if entry is None:
        yield f"{text}{name}: {whole}{newline}"
        return
    if isinstance(value, list) and isinstance(entry.value, yaml.SequenceNode):
        yield from _generate_item_changes(text, entry.value, value, newline)
    if entry.start == entry.end:
        colon = text.rfind(":", 0, entry.start + 1) + 1
        yield f"{text[:colon]} {whole}{text[colon:]}"
    yield text[: entry.start] + whole + text[_find_value_end(text, entry) :]


def _generate_item_changes(
    text: str, node: yaml.SequenceNode, value: Sequence[str], newline: str
) -> Iterator[str]:
    """Yield the text with one item put in the place of another, taken out, or added at the end."""
    items = cast("list[yaml.Node]", node.value)
    at = next((i for i, item in enumerate(items) if i >= len(value) or _text(item) != value[i]), len(items))
    if len(value) == len(items):
        yield text[: _start(items[at])] + format_scalar(value[at]) + text[_end(items[at]) :]
    elif len(value) < len(items):
        yield _remove_item(text, items, at) if node.flow_style else _remove_line(text, items[at])
    elif node.flow_style:
        place = _end(items[-1]) if items else _start(node) + 1
        yield f"{text[:place]}{', ' if items else ''}{format_scalar(value[at])}{text[place:]}"
    else:
        yield _insert_line(text, items[-1], format_scalar(value[at]), newline)


def _remove_item(text: str, items: Sequence[yaml.Node], at: int) -> str:
    if at:
        return text[: _end(items[at - 1])] + text[_end(items[at]) :]
    after = _start(items[1]) if len(items) > 1 else _end(items[0])
    return text[: _start(items[0])] + text[after:]


def _remove_line(text: str, item: yaml.Node) -> str:
    return text[: text.rfind("\n", 0, _start(item)) + 1] + text[_find_line_end(text, item) :]


def _insert_line(text: str, item: yaml.Node, value: str, newline: str) -> str:
    start = text.rfind("\n", 0, _start(item)) + 1
    dash = text.find("-", start) + 1
    end = _find_line_end(text, item)
    return f"{text[:end]}{text[start:dash]} {value}{newline}{text[end:]}"


def _find_line_end(text: str, item: yaml.Node) -> int:
    return text.find("\n", _end(item)) + 1 or len(text)


def _start(node: yaml.Node) -> int:
    return node.start_mark.index


def _end(node: yaml.Node) -> int:
    return node.end_mark.index


def _find_value_end(text: str, entry: _Entry) -> int:
    """Return where a value ends: YAML counts the blank lines after a block to it."""
    return entry.start + len(text[entry.start : entry.end].rstrip())


def _format_value(value: str | list[str]) -> str:
    return format_scalar(value) if isinstance(value, str) else f"[{', '.join(map(format_scalar, value))}]"


@lru_cache(maxsize=64)  # a change looks several times at what was there
def _parse_entries(text: str) -> Mapping[str, _Entry]:
    if len(text) > _MOST:
        raise FrontMatterError(0, f"the settings are longer than {_MOST >> 10} Ki characters")
    node = _compose_node(text)
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise FrontMatterError(
            _count_lines(text, node.start_mark), "these are not settings (one `name: value` per line)"
        )
    entries: dict[str, _Entry] = {}
    for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        name = _text(key)
        if name is None or name in entries:
            told = f"`{name}` is there twice" if name else "the name of a setting is a word"
            raise FrontMatterError(_count_lines(text, key.start_mark), told)
        entries[name] = _Entry(
            value=value,
            line=_count_lines(text, key.start_mark),
            start=_start(value),
            end=_end(value),
        )
    return entries


def _compose_node(text: str) -> yaml.Node | None:
    try:
        return _compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = error.problem or error.context or "this is not YAML"
        raise FrontMatterError(_count_lines(text, mark) if mark else 0, told) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise FrontMatterError(line, "it contains a character that YAML does not allow") from error
    except RecursionError as error:
        raise FrontMatterError(0, "the settings are nested too deeply") from error


def _count_lines(text: str, mark: yaml.Mark) -> int:
    return text.count("\n", 0, mark.index)  # what YAML counts as lines is not what editors do


def _to_plain(node: yaml.Node) -> str | list[str] | None:
    if isinstance(node, yaml.SequenceNode):
        items = [_text(item) for item in cast("list[yaml.Node]", node.value)]
        return [item for item in items if item is not None] if None not in items else None
    return None if node.tag == _NULL else _text(node)


def _text(node: yaml.Node) -> str | None:
    return cast("str", node.value) if isinstance(node, yaml.ScalarNode) else None


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
