"""The file tools that read: ``set_workspace``, ``read_files``, ``list_files``."""

from __future__ import annotations

from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import raise_if_cancelled
from kakite.tools.changes.outside_changes import note_view
from kakite.tools.editor.anchors import format_anchored_line
from kakite.tools.files.file_tools import (
    build_one_or_more_schema,
    build_parameters,
    create_file_tool,
    translate_path_errors,
)
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, decode_text
from kakite.tools.text_pages import (
    CHARACTERS_SHOWN,
    NAME_SHOWN,
    escape_bytes,
    find_last_fitting_line,
    format_ignored,
    format_listing,
    get_line_limit,
    list_folder,
    list_tree,
    split_lines,
    truncate_line,
    truncate_name,
)
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import wrap_in_thread
from kakite.workspace import Entry

ENTRIES_SHOWN = 1000
MAX_DEPTH = 50
UNREAD_NAMED = 20
ROOM_LEAST = CHARACTERS_SHOWN // 10  # characters; with less left no other file is begun

SET_WORKSPACE = Tool(
    name="set_workspace",
    title="Set the workspace",
    description="Narrow to a folder: relative paths start there, and nothing outside can be named.",
    parameters=build_parameters({"path": {"type": "string"}}, "path"),
    effect="write",  # it writes no file, but says where later calls will
    idempotent=True,
)

READ_FILES = Tool(
    name="read_files",
    title="Read files",
    description="Read one file or several, with line numbers: `12 | text`.",
    parameters=build_parameters(
        {
            "path": build_one_or_more_schema("string"),
            "line_range": {
                "type": "string",
                "pattern": "^[0-9]{1,9}-[0-9]{1,9}$",
                "description": "one file only: first-last, as 3-7",
            },
        },
        "path",
    ),
    effect="read",
    idempotent=True,
)

LIST_FILES = Tool(
    name="list_files",
    title="List a folder",
    description="List a folder, hidden files too; `recursive` leaves out what .gitignore names.",
    parameters=build_parameters(
        {"path": {"type": "string"}, "recursive": {"type": "boolean", "default": False}}, "path"
    ),
    effect="read",
    idempotent=True,
)


def create_read_tools(scope: Scope) -> list[FunctionTool]:
    """Return the tools, working in this scope."""

    def narrow(arguments: JsonObject) -> ToolResult:
        with translate_path_errors("Directory"):
            folder = scope.narrow(arguments["path"])
        return ToolResult(text=f"Successfully set workspace root to: {folder}", details={"folder": folder})

    def read(arguments: JsonObject) -> ToolResult:
        path: str | list[str] = arguments["path"]
        line_range: str | None = arguments.get("line_range")
        if isinstance(path, str):
            return ToolResult(text=_read_one(scope, path, line_range))
        if line_range is not None:
            raise ToolError("`line_range` is for a single file", hint="give `path` as a string")
        return _read_several(scope, path)

    def list_files(arguments: JsonObject) -> ToolResult:
        return ToolResult(
            text=_list_folder(scope, arguments["path"], recursive=arguments.get("recursive", False))
        )

    return [
        create_file_tool(SET_WORKSPACE, wrap_in_thread(narrow)),
        create_file_tool(READ_FILES, wrap_in_thread(read)),
        create_file_tool(LIST_FILES, wrap_in_thread(list_files)),
    ]


def _read_one(scope: Scope, path: str, line_range: str | None) -> str:
    with scope.hold_notes([path]):
        text = _read_text(scope, path)
        wanted = _parse_range(line_range, len(split_lines(text)))
        return _render_page(scope, path, text, wanted, CHARACTERS_SHOWN)


def _read_text(scope: Scope, path: str) -> str:
    with translate_path_errors("File"):
        return decode_text(scope.workspace.read(path), path).text


def _parse_range(line_range: str | None, count: int) -> tuple[int, int]:
    if line_range is None:
        return 1, count
    first, last = (int(number) for number in line_range.split("-"))
    if 1 <= first <= last and first > max(count, 1):
        raise build_line_error(first, count)
    if not 1 <= first <= last:
        raise ToolError(
            f"`line_range` {line_range} is not a range of lines",
            hint="give the first and the last line, from 1",
            code="line_out_of_range",
        )
    return first, min(last, count)


def build_line_error(line: int, count: int) -> ToolError:
    """Return the refusal of a line that the file has not."""
    hint = f"give a line from 1 to {count}" if line < 1 else ""
    return ToolError(describe_missing_line(line, count), hint=hint, code="line_out_of_range")


def describe_missing_line(line: int, count: int) -> str:
    """Return what is wrong with a line that the file has not: it lies behind it, or before."""
    if line > 0:
        return f"Line number {line} exceeds file length ({count} lines)"
    return f"Line number {line} lies before the first line of the file ({count} lines)"


def _render_page(scope: Scope, path: str, text: str, wanted: tuple[int, int] | None, room: int) -> str:
    lines = split_lines(text)
    first, last = wanted or (1, len(lines))
    end = find_last_fitting_line(lines, first, last, room) if lines else 0
    most = get_line_limit(first, last)
    draw = format_anchored_line if scope.shows_anchors else _draw
    kept = ((number, lines[number - 1]) for number in range(first, end + 1))
    parts = [draw(number, line, truncate_line(line, most)) for number, line in kept]
    if end < last and lines:
        parts.append(f'… up to line {end} of {len(lines)}; read on with line_range "{end + 1}-{last}"')
    note = note_view(scope, path, text, [(first - 1, end)])
    return "\n".join([*(parts or ["(empty file)"]), *([note] if note else [])])


def _draw(number: int, _line: str, text: str) -> str:
    return f"{number} | {text}"


def _read_several(scope: Scope, paths: list[str]) -> ToolResult:
    parts: list[str] = []
    errors: list[tuple[str, KakiteError]] = []
    room = CHARACTERS_SHOWN
    distinct = {scope.workspace.canonicalize(path): path for path in reversed(paths)}
    left = list(reversed(distinct.values()))
    while left and room > ROOM_LEAST:
        raise_if_cancelled()
        path = left.pop(0)
        try:
            with scope.hold_notes([path]):
                text = _read_text(scope, path)
                told = _render_page(scope, path, text, None, room)
        except KakiteError as error:
            errors.append((path, error))
            room -= 2 * NAME_SHOWN
            continue
        room -= len(escape_bytes(told)) + NAME_SHOWN
        parts.append(f"=== {truncate_name(path)} ({len(split_lines(text))} lines) ===\n{told}\n")
    if not parts:
        told = _format_problems("Failed to read file(s)", errors)
        raise ToolError("\n".join([told, *([_format_unread(left)] if left else [])]), code=errors[0][1].code)
    told = [f"Successfully read {len(parts)} file(s):\n", *parts]
    if errors:
        told.append(_format_problems("Errors encountered", errors))
    if left:
        told.append(_format_unread(left))
    return ToolResult(text="\n".join(told))


def _format_unread(paths: list[str]) -> str:
    told = ", ".join(map(truncate_name, paths[:UNREAD_NAMED]))
    more = f" and {len(paths) - UNREAD_NAMED} more" if len(paths) > UNREAD_NAMED else ""
    return f"… the answer is full; not read, ask for them in another call: {told}{more}"


def _format_problems(head: str, errors: list[tuple[str, KakiteError]]) -> str:
    return "\n".join(
        [
            f"{head}:",
            *(f"  - {truncate_name(path)}: {truncate_name(error.message)}" for path, error in errors),
        ]
    )


def _list_folder(scope: Scope, path: str, *, recursive: bool) -> str:
    with translate_path_errors("Directory"):
        if recursive:
            found, left_out = list_tree(
                scope.workspace, path, depth=MAX_DEPTH, limit=ENTRIES_SHOWN, size=CHARACTERS_SHOWN
            )
        else:
            found, left_out = (
                list_folder(scope.workspace, path, limit=ENTRIES_SHOWN, size=CHARACTERS_SHOWN),
                [],
            )
    way_on = "list one of these, or find files by their names with glob"
    return "\n".join([*format_listing(found, _format_entry, way_on), *format_ignored(left_out)])


def _format_entry(entry: Entry) -> str:
    return f"{'directory' if entry.is_folder else 'file'}: {entry.path}"
