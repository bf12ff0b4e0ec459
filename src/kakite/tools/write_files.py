"""The file tools that write whole files and whole lines: ``write_files``, ``insert_contents``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kakite.edit import Change, ChangeSet, SourceText
from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError
from kakite.tools.changed import counted_lines, place_gap
from kakite.tools.edits import FileEdit, Plan, check_size, encodable, insertion, overwriting
from kakite.tools.file_tools import (
    PREVIEW,
    as_list,
    fixed_texts,
    one_or_more,
    parameters,
    refuse_batch,
    spread,
    writing_tool,
)
from kakite.tools.listing import split_lines
from kakite.tools.offers import Offer
from kakite.tools.read_files import no_such_line
from kakite.tools.scope import Scope, text_of
from kakite.tools.toolset import JsonObject, Tool

WRITE_FILES = Tool(
    name="write_files",
    title="Write files",
    description="Create files or replace their whole content; of several, all or none are written.",
    parameters=parameters(
        {
            "path": one_or_more("string"),
            "content": one_or_more("string"),
            "line_count": one_or_more("integer"),
            "preview": PREVIEW,
        },
        "path",
        "content",
        "line_count",
    ),
    effect="write",
)

INSERT_CONTENTS = Tool(
    name="insert_contents",
    title="Insert lines",
    description="Insert whole lines before a line of one file or several, all or none.",
    parameters=parameters(
        {
            "path": one_or_more("string"),
            "line": {
                **one_or_more("integer"),
                "description": "line to insert before, from 1; 0: end of file; -1: before the last line",
            },
            "content": one_or_more("string"),
            "preview": PREVIEW,
        },
        "path",
        "line",
        "content",
    ),
    effect="write",
)


def writing_tools(scope: Scope, run: str) -> list[Offer]:
    """Return the tools, working in this scope."""
    return [
        writing_tool(WRITE_FILES, scope, run, _write),
        writing_tool(INSERT_CONTENTS, scope, run, _insert),
    ]


def count_lines(text: str) -> int:
    """Return the number of lines: of line ends, and of what stands after the last one."""
    return len(split_lines(text))


def _write(scope: Scope, arguments: JsonObject) -> Plan:
    paths: list[str] = as_list(arguments["path"])
    contents = spread("content", arguments["content"], len(paths))
    told_counts = spread("line_count", arguments["line_count"], len(paths))
    _check_distinct(scope, paths)
    edits = _all(
        paths, lambda index: overwriting(scope, scope.find(paths[index]), paths[index], contents[index])
    )
    counts = [count_lines(content) for content in contents]
    warnings = [
        f"\nWarning: line_count of {path} is {told}, but its content has {count} lines"
        for path, told, count in zip(paths, told_counts, counts, strict=True)
        if told != count
    ]
    written = [f"{path} ({count} lines)" for path, count in zip(paths, counts, strict=True)]
    if isinstance(arguments["path"], str):
        told = f"File written successfully: {written[0]}"
    else:
        head = f"Successfully wrote {len(paths)} files ({sum(counts)} total lines):"
        told = "\n  - ".join([head, *written])
    return Plan(edits=tuple(edits), told="".join([told, *warnings]), tells_diff=True)


def _check_distinct(scope: Scope, paths: list[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        name = scope.identity(path)
        if name in seen:
            raise ToolError(f"`path` names {path} twice", hint="give each file once")
        seen.add(name)


def _all(paths: Sequence[str], edit_of: Callable[[int], FileEdit]) -> list[FileEdit]:
    """Return the edit of each path; when one of several cannot be made, say what became of each."""
    if len(paths) == 1:
        return [edit_of(0)]
    edits: list[FileEdit] = []
    errors: list[KakiteError] = []
    lines: list[str] = []
    for index, path in enumerate(paths):
        try:
            with fixed_texts("File"):
                edits.append(edit_of(index))
            lines.append(f"➖ {path}: not written, since another file fails")
        except KakiteError as error:
            errors.append(error)
            lines.append(f"❌ {path}: {error.message}")
    if errors:
        raise refuse_batch(lines, errors, len(paths))
    return edits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Insertion:
    """Some lines that go into one file."""

    path: str
    line: int
    text: str


def _insert(scope: Scope, arguments: JsonObject) -> Plan:
    paths: list[str] = as_list(arguments["path"])
    lines = spread("line", arguments["line"], len(paths))
    contents = spread("content", arguments["content"], len(paths))
    wanted = [
        _Insertion(path=path, line=line, text=text)
        for path, line, text in zip(paths, lines, contents, strict=True)
    ]
    by_file: dict[str, list[_Insertion]] = {}
    for each in wanted:
        by_file.setdefault(scope.identity(each.path), []).append(each)
    groups = list(by_file.values())
    edits = _all([group[0].path for group in groups], lambda index: _inserted(scope, groups[index]))
    counts = {name: count_lines(edit.after().text) for name, edit in zip(by_file, edits, strict=True)}
    told = [_told(each, counts[scope.identity(each.path)]) for each in wanted]
    if isinstance(arguments["path"], str):
        return Plan(edits=tuple(edits), told=told[0], tells_diff=True)
    head = f"Successfully processed {len(paths)} file(s):\n"
    shown = [f"✅ {each.path}: {line}" for each, line in zip(wanted, told, strict=True)]
    return Plan(edits=tuple(edits), told="\n".join([head, *shown]), tells_diff=True)


def _inserted(scope: Scope, insertions: list[_Insertion]) -> FileEdit:
    path = insertions[0].path
    present = scope.read(path)
    source = text_of(present, path)
    lines = split_lines(source.text)
    check_size(path, len(source.text) + sum(len(each.text) for each in insertions))
    changes = ChangeSet.of(len(source.text), [_change(scope, source, lines, each) for each in insertions])
    return FileEdit(path=path, version=present.version, source=source, changes=changes, before=present.data)


def _change(scope: Scope, source: SourceText, lines: list[str], wanted: _Insertion) -> Change:
    text = encodable(source, wanted.text, wanted.path)
    return insertion(source, lines, _place(scope, source, wanted, len(lines)), text)


def _place(scope: Scope, source: SourceText, wanted: _Insertion, count: int) -> int:
    """Return after how many lines of the file as it is to insert."""
    if wanted.line == 0:
        return count
    seen = len(counted_lines(scope, wanted.path, source.text))
    before = _lines_before(wanted.line, seen if wanted.line < 0 else max(seen, count))
    return min(count, place_gap(scope, wanted.path, source.text, before, behind=False))


def _lines_before(line: int, count: int) -> int:
    """Return after how many lines to insert."""
    before = line - 1 if line > 0 else count + line
    if not 0 <= before <= count:
        from_end = f", -1 to -{count} from the end up" if count else ""
        hint = f"give a line from 1 to {count + 1}{from_end}, or 0 for the end of the file"
        raise ToolError(no_such_line(line, count), hint=hint, code="line_out_of_range")
    return before


def _told(wanted: _Insertion, count: int) -> str:
    added = max(1, count_lines(wanted.text))
    where = "end of file" if wanted.line == 0 else f"{wanted.line}{' from end' * (wanted.line < 0)}"
    return (
        f"Successfully inserted {added} line(s) at position {where} in {wanted.path}. "
        f"File now has {count} lines."
    )
