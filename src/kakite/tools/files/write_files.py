"""The file tools that write whole files or lines: ``write_files``, ``insert_contents``; and move or delete.

``move_file`` and ``delete_file`` handle whole files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kakite.edit import Change, ChangeSet, SourceText
from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError
from kakite.tools.changes.outside_changes import check_removal, get_counted_lines, place_gap
from kakite.tools.edit_plan import (
    EditPlan,
    FileEdit,
    build_insertion,
    check_size,
    plan_overwrite,
    require_encodable,
)
from kakite.tools.editor.snippets import render_change_diff
from kakite.tools.files.file_tools import (
    PREVIEW,
    as_list,
    build_one_or_more_schema,
    build_parameters,
    create_writing_file_tool,
    refuse_batch,
    spread,
    translate_path_errors,
)
from kakite.tools.files.read_files import describe_missing_line
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, decode_text, is_binary
from kakite.tools.text_pages import join_names, split_lines
from kakite.tools.toolset import JsonObject, Tool
from kakite.workspace import File, FileWrite, WorkspaceError

NAMES_TOLD = 20

MOVE_FILE = Tool(
    name="move_file",
    title="Move a file",
    description="Move or rename a file; refused if the destination exists. undo_edit takes it back.",
    parameters=build_parameters(
        {"source": {"type": "string"}, "destination": {"type": "string"}, "preview": PREVIEW},
        "source",
        "destination",
    ),
    effect="write",
)

DELETE_FILE = Tool(
    name="delete_file",
    title="Delete files",
    description="Delete one file or several, all or none; no folders. undo_edit brings one back.",
    parameters=build_parameters({"path": build_one_or_more_schema("string"), "preview": PREVIEW}, "path"),
    effect="write",
)


def create_move_tools(scope: Scope, run: str) -> list[FunctionTool]:
    """Return the tools, working in this scope."""
    return [
        create_writing_file_tool(MOVE_FILE, scope, run, _move),
        create_writing_file_tool(DELETE_FILE, scope, run, _delete),
    ]


def _move(scope: Scope, arguments: JsonObject) -> EditPlan:
    source: str = arguments["source"]
    destination: str = arguments["destination"]
    present = _read_present(scope, source)
    if scope.workspace.canonicalize(source) == scope.workspace.canonicalize(destination):
        raise ToolError(f"`{source}` is there already", hint="nothing was done; give another destination")
    _require_free(scope, destination)
    mode = scope.workspace.get_mode(source)
    writings = (
        FileWrite(path=source, data=None, expected=present.version, before=present.data),
        FileWrite(path=destination, data=present.data, expected=None, mode=mode, version=present.version),
    )
    diff = f"diff --git a/{source} b/{destination}\nrename from {source}\nrename to {destination}\n"
    return EditPlan(told=f"Successfully moved {source} to {destination}", writings=writings, diff=diff)


def _require_free(scope: Scope, destination: str) -> None:
    hint = "nothing was moved; take another name"
    try:
        taken = scope.workspace.find(destination) is not None
    except WorkspaceError as error:
        if error.code == "is_a_directory":
            error.hint = "give the name that the file is to have in it"
        raise
    if taken or destination.endswith("/"):
        what = "exists already" if taken else "names a folder"
        raise ToolError(f"`{destination}` {what}", hint=hint, code="file_exists" if taken else "bad_path")


def _delete(scope: Scope, arguments: JsonObject) -> EditPlan:
    paths: dict[str, str] = {scope.workspace.canonicalize(path): path for path in as_list(arguments["path"])}
    found = {path: _read_present(scope, path) for path in paths.values()}
    for path, file in found.items():
        check_removal(scope, path, file)
    writings = tuple(
        FileWrite(path=path, data=None, expected=file.version, before=file.data)
        for path, file in found.items()
    )
    told = (
        f"{len(found)} files: {join_names(list(found), NAMES_TOLD)}" if len(found) > 1 else next(iter(found))
    )
    diff = "".join(_render_deletion(path, file) for path, file in found.items())
    return EditPlan(told=f"Successfully deleted {told}", writings=writings, diff=diff)


def _read_present(scope: Scope, path: str) -> File:
    """Return the file of this name, which must be a file itself: what a link leads to is not meant by it."""
    with translate_path_errors("File"):
        present = scope.workspace.read(path)
    if scope.workspace.is_link(path):
        raise ToolError(
            f"`{path}` is a link to `{present.path}`",
            hint="nothing was done; name the file itself, or use `run_command` for the link if it is offered",
            code="not_a_file",
        )
    return present


def _render_deletion(path: str, file: File) -> str:
    """Return the diff of the removal of a file; of a binary one, or an empty one, what git says of it."""
    head = f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n"
    if is_binary(file.data):
        return f"{head}Binary files a/{path} and /dev/null differ\n"
    text = SourceText.from_bytes(file.data).text
    removal = ChangeSet.of(len(text), [Change(0, len(text), "")])
    return head + render_change_diff(removal, text, path).replace(f"+++ b/{path}\n", "+++ /dev/null\n", 1)


WRITE_FILES = Tool(
    name="write_files",
    title="Write files",
    description="Create files or replace their whole content; of several, all or none are written.",
    parameters=build_parameters(
        {
            "path": build_one_or_more_schema("string"),
            "content": build_one_or_more_schema("string"),
            "line_count": build_one_or_more_schema("integer"),
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
    parameters=build_parameters(
        {
            "path": build_one_or_more_schema("string"),
            "line": {
                **build_one_or_more_schema("integer"),
                "description": "line to insert before, from 1; 0: end of file; -1: before the last line",
            },
            "content": build_one_or_more_schema("string"),
            "preview": PREVIEW,
        },
        "path",
        "line",
        "content",
    ),
    effect="write",
)


def create_write_tools(scope: Scope, run: str) -> list[FunctionTool]:
    """Return the tools, working in this scope."""
    return [
        create_writing_file_tool(WRITE_FILES, scope, run, _write),
        create_writing_file_tool(INSERT_CONTENTS, scope, run, _insert),
    ]


def count_lines(text: str) -> int:
    """Return the number of lines: of line ends, and of what stands after the last one."""
    return len(split_lines(text))


def _write(scope: Scope, arguments: JsonObject) -> EditPlan:
    paths: list[str] = as_list(arguments["path"])
    contents = spread("content", arguments["content"], len(paths))
    told_counts = spread("line_count", arguments["line_count"], len(paths))
    _check_distinct(scope, paths)
    edits = _build_edits(
        paths,
        lambda index: plan_overwrite(
            scope, scope.workspace.find(paths[index]), paths[index], contents[index]
        ),
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
    return EditPlan(edits=tuple(edits), told="".join([told, *warnings]), tells_diff=True)


def _check_distinct(scope: Scope, paths: list[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        name = scope.workspace.canonicalize(path)
        if name in seen:
            raise ToolError(f"`path` names {path} twice", hint="give each file once")
        seen.add(name)


def _build_edits(paths: Sequence[str], edit_of: Callable[[int], FileEdit]) -> list[FileEdit]:
    """Return the edit of each path; when one of several cannot be made, say what became of each."""
    if len(paths) == 1:
        return [edit_of(0)]
    edits: list[FileEdit] = []
    errors: list[KakiteError] = []
    lines: list[str] = []
    for index, path in enumerate(paths):
        try:
            with translate_path_errors("File"):
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


def _insert(scope: Scope, arguments: JsonObject) -> EditPlan:
    paths: list[str] = as_list(arguments["path"])
    lines = spread("line", arguments["line"], len(paths))
    contents = spread("content", arguments["content"], len(paths))
    wanted = [
        _Insertion(path=path, line=line, text=text)
        for path, line, text in zip(paths, lines, contents, strict=True)
    ]
    by_file: dict[str, list[_Insertion]] = {}
    for each in wanted:
        by_file.setdefault(scope.workspace.canonicalize(each.path), []).append(each)
    groups = list(by_file.values())
    edits = _build_edits(
        [group[0].path for group in groups], lambda index: _build_insert_edit(scope, groups[index])
    )
    counts = {name: count_lines(edit.to_source().text) for name, edit in zip(by_file, edits, strict=True)}
    told = [_format_message(each, counts[scope.workspace.canonicalize(each.path)]) for each in wanted]
    if isinstance(arguments["path"], str):
        return EditPlan(edits=tuple(edits), told=told[0], tells_diff=True)
    head = f"Successfully processed {len(paths)} file(s):\n"
    shown = [f"✅ {each.path}: {line}" for each, line in zip(wanted, told, strict=True)]
    return EditPlan(edits=tuple(edits), told="\n".join([head, *shown]), tells_diff=True)


def _build_insert_edit(scope: Scope, insertions: list[_Insertion]) -> FileEdit:
    path = insertions[0].path
    present = scope.workspace.read(path)
    source = decode_text(present, path)
    lines = split_lines(source.text)
    check_size(path, len(source.text) + sum(len(each.text) for each in insertions))
    changes = ChangeSet.of(
        len(source.text), [_build_change(scope, source, lines, each) for each in insertions]
    )
    return FileEdit(path=path, version=present.version, source=source, changes=changes, before=present.data)


def _build_change(scope: Scope, source: SourceText, lines: list[str], wanted: _Insertion) -> Change:
    text = require_encodable(source, wanted.text, wanted.path)
    return build_insertion(source, lines, _find_insert_position(scope, source, wanted, len(lines)), text)


def _find_insert_position(scope: Scope, source: SourceText, wanted: _Insertion, count: int) -> int:
    """Return after how many lines of the file as it is to insert."""
    if wanted.line == 0:
        return count
    seen = len(get_counted_lines(scope, wanted.path, source.text))
    before = _count_lines_before(wanted.line, seen if wanted.line < 0 else max(seen, count))
    return min(count, place_gap(scope, wanted.path, source.text, before, behind=False))


def _count_lines_before(line: int, count: int) -> int:
    """Return after how many lines to insert."""
    before = line - 1 if line > 0 else count + line
    if not 0 <= before <= count:
        from_end = f", -1 to -{count} from the end up" if count else ""
        hint = f"give a line from 1 to {count + 1}{from_end}, or 0 for the end of the file"
        raise ToolError(describe_missing_line(line, count), hint=hint, code="line_out_of_range")
    return before


def _format_message(wanted: _Insertion, count: int) -> str:
    added = max(1, count_lines(wanted.text))
    where = "end of file" if wanted.line == 0 else f"{wanted.line}{' from end' * (wanted.line < 0)}"
    return (
        f"Successfully inserted {added} line(s) at position {where} in {wanted.path}. "
        f"File now has {count} lines."
    )
