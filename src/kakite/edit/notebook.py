"""Presents a Jupyter notebook as text: the sources of its cells, each below a header line.

An edit of that text goes back into the JSON as a ``ChangeSet``: every byte outside of the sources that change
stays as it is, and so do the lines of a source that do not change. An edit must not write a line into a cell
that looks like a header line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from kakite.edit.changes import Change, ChangeSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_BOUNDARY = re.compile(
    r"^--- (?:new cell, \w+|cell \d+, \w+|outputs of cell \d+:.*) ---[ \t]*$", re.MULTILINE
)


class BoundaryError(Exception):
    """A change would put a line into a source that looks like the line above a cell."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


def check_boundaries(old: str, new: str) -> None:
    """Raise ``BoundaryError`` for a new line that a reader would take for one between cells."""
    known = Counter(_BOUNDARY.findall(old))
    if more := Counter(_BOUNDARY.findall(new)) - known:
        raise BoundaryError(next(iter(more)))


CellType = Literal["code", "markdown", "raw"]

_BLANKS = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_SCALAR = re.compile(r"[^\s,\]}]+")
_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])([0-9a-fA-F]{4})")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SHOWN = 60  # characters of an output
_OUTPUTS_SHOWN = 3


class NotInCellError(Exception):
    """A change reaches out of the sources of cells, or there is no such cell."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the JSON, and where it stands."""

    start: int
    end: int
    members: tuple[tuple[str, _Node], ...] = ()
    """Of an object."""
    items: tuple[_Node, ...] = ()
    """Of an array."""

    def get(self, key: str) -> _Node | None:
        """Return the value of a key."""
        return next((node for name, node in self.members if name == key), None)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, and where it stands in the JSON."""

    number: int
    """From 1."""
    type: str
    source: str
    outputs: str
    """A short note; empty if there are none."""
    node: _Node
    source_node: _Node


class Notebook:
    """A notebook's JSON, its cells, and the text that shows them."""

    def __init__(self, raw: str, root: _Node, cells: Sequence[Cell]) -> None:
        self.raw = raw
        self.cells = tuple(cells)
        self._root = root
        self._regions: list[tuple[int, int]] = []
        """Where the source of each cell stands in ``text``, with the line end below it."""
        parts: list[str] = []
        length = 0
        for cell in self.cells:
            head, body = f"--- cell {cell.number}, {cell.type} ---\n", cell.source + "\n"
            foot = f"--- outputs of cell {cell.number}: {cell.outputs} ---\n" if cell.outputs else ""
            self._regions.append((length + len(head), length + len(head) + len(body)))
            parts += [head, body, foot]
            length += len(head) + len(body) + len(foot)
        self.text = "".join(parts)

    @classmethod
    def parse(cls, raw: str) -> Notebook | None:
        """Return the notebook that a text is; None if it is none, or one of another version than 4."""
        try:
            value: object = json.loads(raw, object_pairs_hook=_reject_duplicate_keys)
            if not _is_notebook(value):
                return None
            root = _scan(raw, _BLANKS.match(raw).end())  # pyright: ignore[reportOptionalMemberAccess]
        except (ValueError, RecursionError):
            return None
        nodes = cast("_Node", root.get("cells")).items
        values = cast("list[dict[str, Any]]", cast("dict[str, Any]", value)["cells"])
        return cls(
            raw,
            root,
            [_build_cell(*each) for each in zip(range(1, len(nodes) + 1), nodes, values, strict=True)],
        )

    def get_line_range(self, number: int) -> tuple[int, int]:
        """Return the first and the last line of ``text`` that a cell's source has.

        Raises:
            NotInCellError: there is no such cell.
        """
        start, end = self._regions[self._get_cell(number).number - 1]
        return self.text.count("\n", 0, start) + 1, self.text.count("\n", 0, end)

    def map_source_changes(self, number: int, changes: ChangeSet) -> ChangeSet:
        """Return the changes of the JSON that do these changes in the source of one cell.

        Raises:
            NotInCellError: there is no such cell.
        """
        cell = self._get_cell(number)
        return ChangeSet.of(len(self.raw), self._rewrite_source(cell, changes.apply(cell.source)))

    def map_text_changes(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes of the JSON that do these changes in ``text``.

        Raises:
            NotInCellError: they change more than the sources of cells.
        """
        found: list[Change] = []
        taken = 0
        for cell, (start, end) in zip(self.cells, self._regions, strict=True):
            own = [each for each in changes.changes if start <= each.start and each.end <= end]
            taken += len(own)
            if own:
                moved = [Change(each.start - start, each.end - start, each.insert) for each in own]
                region = self.text[start:end]
                after = ChangeSet.of(len(region), moved).apply(region)
                if after and not after.endswith("\n"):
                    raise NotInCellError
                check_boundaries(cell.source, after[:-1])
                found += self._rewrite_source(cell, after[:-1])
        if taken < len(changes.changes):
            raise NotInCellError
        return ChangeSet.of(len(self.raw), found)

    def insert_cell(self, after: int, kind: CellType, source: str) -> ChangeSet:
        """Return the changes of the JSON that put a new cell behind another one; 0: at the top.

        Raises:
            NotInCellError: there is no such cell.
        """
        if after:
            self._get_cell(after)
        check_boundaries("", source)
        return ChangeSet.of(len(self.raw), [self._place_cell(after, self._format_new_cell(kind, source))])

    def delete_cell(self, number: int) -> ChangeSet:
        """Return the changes of the JSON that remove a cell.

        Raises:
            NotInCellError: there is no such cell.
        """
        return ChangeSet.of(len(self.raw), [self._remove_cell(self._get_cell(number))])

    def move_cell(self, number: int, after: int) -> ChangeSet:
        """Return the changes of the JSON that put a cell behind another one, as it is; 0: at the top.

        Raises:
            NotInCellError: there is no such cell, or it stands there.
        """
        cell = self._get_cell(number)
        if after:
            self._get_cell(after)
        if after in {number, number - 1}:
            raise NotInCellError
        placed = self._place_cell(after, self.raw[cell.node.start : cell.node.end])
        return ChangeSet.of(
            len(self.raw), sorted([placed, self._remove_cell(cell)], key=lambda each: each.start)
        )

    def _get_cell(self, number: int) -> Cell:
        if not 1 <= number <= len(self.cells):
            raise NotInCellError
        return self.cells[number - 1]

    def _rewrite_source(self, cell: Cell, source: str) -> list[Change]:
        """Return the change that gives a cell another source, in the form that the present one has."""
        node = cell.source_node
        if source == cell.source:
            return []
        if not self.raw.startswith("[", node.start):
            pieces = _split_encoded(self.raw[node.start + 1 : node.end - 1])
            text = "".join(_merge_lines(pieces, source, self._encode))
            return [Change(node.start + 1, node.end - 1, text).narrow(self.raw)]
        return [self._rewrite_list(cell, source).narrow(self.raw)]

    def _rewrite_list(self, cell: Cell, source: str) -> Change:
        """Return the change of a source that is a list: of its items in the middle, which do not stay."""
        raw, node, items = self.raw, cell.source_node, cell.source_node.items
        old = [_parse_string(raw, item) for item in items]
        first, last = _count_unchanged(old, source)
        kept = len("".join(old[:first])), len(source) - len("".join(old[len(old) - last :]))
        known = {text: raw[item.start : item.end] for text, item in zip(old, items, strict=True)}
        new = [
            known.get(line) or f'"{self._encode(line)}"' for line in _split_lines(source[kept[0] : kept[1]])
        ]
        if not (first or last or new):
            return Change(node.start, node.end, "[]")
        opening, between, closing = self._find_layout(node, cell.node)
        start = items[first - 1].end if first else node.start + 1
        end = items[-last].start if last else node.end - 1
        head = (between if new else "") if first else opening
        foot = closing
        if last:
            foot = raw[items[-last - 1].end : end] if (first or new) and len(items) > last else ""
            foot = foot or (between if first or new else "")
        return Change(start, end, head + between.join(new) + foot)

    def _encode(self, text: str) -> str:
        """Return a text as the inside of a JSON string, escaped as this notebook does."""
        escaped, capital = self._escapes
        written = json.dumps(text, ensure_ascii=escaped)[1:-1]
        written = _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)
        return _CHARACTER.sub(_uppercase_escape, written) if capital else written

    @cached_property
    def _escapes(self) -> tuple[bool, bool]:
        """Whether characters that are not ASCII are escaped, and whether with capital letters."""
        letters = "".join(_ESCAPED.findall(self.raw))
        return bool(letters) and not _FOREIGN.search(self.raw), letters != letters.lower()

    def _find_layout(self, array: _Node, around: _Node) -> tuple[str, str, str]:
        """Return what stands before the first item of an array, between two, and behind the last one."""
        raw, items = self.raw, array.items
        if items:
            opening = raw[array.start + 1 : items[0].start]
            between = raw[items[0].end : items[1].start] if len(items) > 1 else self._find_separator(opening)
            last = items[len(items) - 1]
            return opening, between, raw[last.end : array.end - 1]
        inner = self._find_indent(around)
        if not inner:
            return "", self._find_separator(""), ""
        opening = f"{inner}{self._indent_step}"
        return opening, f",{opening}", inner

    def _find_separator(self, opening: str) -> str:
        """Return what stands between two items, where ``opening`` stands before the first one."""
        if "\n" in opening:
            return f",{opening}"
        # As between the members of the notebook itself.
        ends = [
            (one.end, two)
            for (_, one), (_, two) in zip(self._root.members, self._root.members[1:], strict=False)
        ]
        first = self.raw[ends[0][0] : ends[0][1].start].partition('"')[0] if ends else ", "
        return ", " if "\n" in first else first

    def _find_indent(self, node: _Node) -> str:
        """Return the line end and the blanks before the members of an object; empty if it is in one line."""
        found = _BLANKS.match(self.raw, node.start + 1)
        return found.group() if found and "\n" in found.group() else ""

    @property
    def _indent_step(self) -> str:
        """One step of indentation."""
        return self._find_indent(self._root).rpartition("\n")[2]

    def _place_cell(self, after: int, text: str) -> Change:
        """Return the insertion of a cell."""
        array = cast("_Node", self._root.get("cells"))
        opening, between, closing = self._find_layout(array, self._root)
        if not array.items:
            return Change(array.start, array.end, f"[{opening}{text}{closing}]")
        if not after:
            return Change(array.items[0].start, array.items[0].start, text + between)
        end = array.items[after - 1].end
        return Change(end, end, between + text)

    def _remove_cell(self, cell: Cell) -> Change:
        array = cast("_Node", self._root.get("cells"))
        items, at = array.items, cell.number - 1
        if len(items) == 1:
            return Change(array.start, array.end, "[]")
        if at:
            return Change(items[at - 1].end, items[at].end, "")
        return Change(items[0].start, items[1].start, "")

    def _format_new_cell(self, kind: CellType, source: str) -> str:
        value: dict[str, object] = {"cell_type": kind}
        if kind == "code":
            value["execution_count"] = None
        if self._has_ids():
            value["id"] = self._generate_id(source)
        value["metadata"] = {}
        if kind == "code":
            value["outputs"] = []
        value["source"] = _split_lines(source)
        array = cast("_Node", self._root.get("cells"))
        opening = self._find_layout(array, self._root)[0]
        if "\n" not in opening:
            comma, colon = self._find_separator("").rstrip(), self._find_colon()
            blank = self._find_separator("")[len(comma) :]
            return self._dump(value, indent=None, separators=(comma + blank, colon))
        text = self._dump(value, indent=self._indent_step or " ", separators=(",", self._find_colon()))
        return text.replace("\n", opening)

    def _dump(self, value: object, *, indent: str | None, separators: tuple[str, str]) -> str:
        text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
        return _STRING.sub(lambda found: f'"{self._encode(json.loads(found.group()))}"', text)

    def _find_colon(self) -> str:
        key, node = self._root.members[0]
        before = self.raw[: node.start].rstrip()
        return ":" + self.raw[len(before) : node.start] if before.endswith(":") and key else ": "

    def _has_ids(self) -> bool:
        if self.cells:
            return any(cell.node.get("id") for cell in self.cells)
        minor = self._root.get("nbformat_minor")
        return (
            minor is not None
            and self.raw[minor.start : minor.end].isdecimal()
            and int(self.raw[minor.start : minor.end]) >= 5
        )

    def _generate_id(self, source: str) -> str:
        """Return an id that no cell has: it follows from the content, so that nothing here is random."""
        ids = [cell.node.get("id") for cell in self.cells]
        used = {_parse_string(self.raw, node) for node in ids if node is not None}
        candidates = (
            hashlib.sha256(f"{nth}\0{source}\0{self.raw}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
            for nth in range(len(used) + 1)
        )
        return next(each for each in candidates if each not in used)


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return value


def _is_notebook(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    notebook = cast("dict[str, Any]", value)
    cells: Any = notebook.get("cells")
    return (
        notebook.get("nbformat") == 4
        and isinstance(cells, list)
        and all(map(_is_cell, cast("list[Any]", cells)))
    )


def _is_cell(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(cast("dict[str, Any]", value).get("cell_type"), str):
        return False
    source: Any = cast("dict[str, Any]", value).get("source")
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in cast("list[Any]", source))
    )


def _build_cell(number: int, node: _Node, value: dict[str, Any]) -> Cell:
    source: str | list[str] = value["source"]
    kind = re.sub(r"\W+", "_", str(value["cell_type"]))[:20]
    outputs: Any = value.get("outputs")
    note = _describe_outputs(cast("list[Any]", outputs)) if isinstance(outputs, list) else ""
    text = source if isinstance(source, str) else "".join(source)
    return Cell(number, kind, text, note, node, cast("_Node", node.get("source")))


def _describe_outputs(outputs: list[Any]) -> str:
    """Return what the outputs of a cell are, without their content."""
    shown = [
        _describe_output(cast("dict[str, Any]", each))
        for each in outputs[:_OUTPUTS_SHOWN]
        if isinstance(each, dict)
    ]
    more = len(outputs) - _OUTPUTS_SHOWN
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _describe_output(output: dict[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        text = _join_text(output.get("text"))
        return f"{output.get('name', 'stream')}, {len(text.splitlines())} lines: {_shorten_first_line(text)}"
    if kind == "error":
        return f"{output.get('ename', 'error')}: {_shorten_first_line(_join_text(output.get('evalue')))}"
    data: Any = output.get("data")
    types = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    plain = _shorten_first_line(_join_text(types.get("text/plain")))
    return ", ".join([*(name for name in types if name != "text/plain"), *([plain] if plain else [])]) or str(
        kind
    )


def _join_text(text: Any) -> str:
    return "".join(map(str, cast("list[Any]", text))) if isinstance(text, list) else str(text or "")


def _shorten_first_line(text: str) -> str:
    line = next(iter(text.split("\n")), "").strip()
    clean = "".join(char if char.isprintable() else "·" for char in line[: _SHOWN + 1])
    return clean if len(clean) <= _SHOWN else f"{clean[:_SHOWN]}…"


def _scan(raw: str, at: int) -> _Node:
    """Return the value that begins here, with where all parts of it stand. The text is valid JSON."""
    if raw[at] == "{":
        return _scan_object(raw, at)
    if raw[at] == "[":
        items: list[_Node] = []
        end = _skip(raw, at + 1)
        while raw[end] != "]":
            items.append(_scan(raw, end))
            end = _skip(raw, items[-1].end)
            end = _skip(raw, end + 1) if raw[end] == "," else end
        return _Node(at, end + 1, items=tuple(items))
    found = (_STRING if raw[at] == '"' else _SCALAR).match(raw, at)
    assert found is not None
    return _Node(at, found.end())


def _scan_object(raw: str, at: int) -> _Node:
    members: list[tuple[str, _Node]] = []
    end = _skip(raw, at + 1)
    while raw[end] != "}":
        key = _scan(raw, end)
        value = _scan(raw, _skip(raw, _skip(raw, key.end) + 1))
        members.append((_parse_string(raw, key), value))
        end = _skip(raw, value.end)
        end = _skip(raw, end + 1) if raw[end] == "," else end
    return _Node(at, end + 1, members=tuple(members))


def _skip(raw: str, at: int) -> int:
    found = _BLANKS.match(raw, at)
    assert found is not None
    return found.end()


def _parse_string(raw: str, node: _Node) -> str:
    return str(json.loads(raw[node.start : node.end]))


def _uppercase_escape(found: re.Match[str]) -> str:
    written = found.group()
    return f"\\u{written[2:].upper()}" if len(written) == 6 else written


def _split_encoded(inside: str) -> list[tuple[str, str]]:
    """Return the lines of a JSON string, each as it reads and as it is written."""
    written = "".join(
        found.group() + ("\0" if found.group() in {"\\n", "\\u000a", "\\u000A"} else "")
        for found in _CHARACTER.finditer(inside)
    )
    return [(str(json.loads(f'"{line}"')), line) for line in written.split("\0") if line]


def _split_lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _count_unchanged(old: Sequence[str], new: str) -> tuple[int, int]:
    """Return how many of the first and of the last items stay as they are in a new source."""
    first = at = 0
    while first < len(old) and old[first].endswith("\n") and new.startswith(old[first], at):
        at += len(old[first])
        first += 1
    last, end = 0, len(new)
    while last < len(old) - first and (item := old[-last - 1]) and new.endswith(item, at, end):
        start = end - len(item)
        if start and new[start - 1] != "\n":
            break
        last, end = last + 1, start
    return first, last


def _merge_lines(old: Sequence[tuple[str, str]], new: str, encode: Any) -> Iterator[str]:
    """Return the lines of a new text as they are to be written: as before, where they stay."""
    lines = _split_lines(new)
    first = _count_equal(old, lines)
    last = min(_count_equal(old[::-1], lines[::-1]), min(len(old), len(lines)) - first)
    known = dict(old)
    yield from (written for _, written in old[:first])
    for line in lines[first : len(lines) - last]:
        yield known.get(line) or encode(line)
    yield from (written for _, written in old[len(old) - last :])


def _count_equal(old: Sequence[tuple[str, str]], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((nth for nth, ((text, _), line) in pairs if text != line), min(len(old), len(new)))
