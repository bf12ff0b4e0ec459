"""The file tools that look: ``set_workspace``, ``read_files``, ``list_files``."""

from __future__ import annotations

from kakite.errors import KakiteError
from kakite.tools.anchors import anchored
from kakite.tools.arguments import ToolError
from kakite.tools.changed import note_view
from kakite.tools.file_tools import file_tool, fixed_texts, one_or_more, parameters
from kakite.tools.listing import (
    CHARACTERS_SHOWN,
    NAME_SHOWN,
    cut,
    fitting,
    ignored_note,
    listed,
    most_of_a_line,
    shown,
    split_lines,
)
from kakite.tools.offers import Offer
from kakite.tools.scope import Scope, text_of
from kakite.tools.spelling import spelled
from kakite.tools.threads import check_wanted, threaded
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import Entry

ENTRIES_SHOWN = 1000
DEPTH_MOST = 50
UNREAD_NAMED = 20
ROOM_LEAST = CHARACTERS_SHOWN // 10  # characters; with less left no other file is begun

SET_WORKSPACE = Tool(
    name="set_workspace",
    title="Set the workspace",
    description="Narrow to a folder: relative paths start there, and nothing outside can be named.",
    parameters=parameters({"path": {"type": "string"}}, "path"),
    effect="write",  # it writes no file, but says where later calls will
    idempotent=True,
)

READ_FILES = Tool(
    name="read_files",
    title="Read files",
    description="Read one file or several, with line numbers: `12 | text`.",
    parameters=parameters(
        {
            "path": one_or_more("string"),
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
    parameters=parameters(
        {"path": {"type": "string"}, "recursive": {"type": "boolean", "default": False}}, "path"
    ),
    effect="read",
    idempotent=True,
)


def reading_tools(scope: Scope) -> list[Offer]:
    """Return the tools, working in this scope."""

    def narrow(arguments: JsonObject) -> ToolResult:
        with fixed_texts("Directory"):
            folder = scope.narrow(arguments["path"])
        return ToolResult(text=f"Successfully set workspace root to: {folder}", details={"folder": folder})

    def read(arguments: JsonObject) -> ToolResult:
        path: str | list[str] = arguments["path"]
        line_range: str | None = arguments.get("line_range")
        if isinstance(path, str):
            return ToolResult(text=_one(scope, path, line_range))
        if line_range is not None:
            raise ToolError("`line_range` is for a single file", hint="give `path` as a string")
        return _several(scope, path)

    def list_folder(arguments: JsonObject) -> ToolResult:
        return ToolResult(
            text=_listing(scope, arguments["path"], recursive=arguments.get("recursive", False))
        )

    return [
        file_tool(SET_WORKSPACE, threaded(narrow)),
        file_tool(READ_FILES, threaded(read)),
        file_tool(LIST_FILES, threaded(list_folder)),
    ]


def _one(scope: Scope, path: str, line_range: str | None) -> str:
    text = _text(scope, path)
    wanted = _range(line_range, len(split_lines(text)))
    return _page(scope, path, text, wanted, CHARACTERS_SHOWN)


def _text(scope: Scope, path: str) -> str:
    with fixed_texts("File"):
        return text_of(scope.read(path), path).text


def _range(line_range: str | None, count: int) -> tuple[int, int]:
    if line_range is None:
        return 1, count
    first, last = (int(number) for number in line_range.split("-"))
    if 1 <= first <= last and first > max(count, 1):
        raise beyond(first, count)
    if not 1 <= first <= last:
        raise ToolError(
            f"`line_range` {line_range} is no range of lines",
            hint="give the first and the last line, from 1",
            code="line_out_of_range",
        )
    return first, min(last, count)


def beyond(line: int, count: int) -> ToolError:
    """Return the refusal of a line that the file has not."""
    hint = f"give a line from 1 to {count}" if line < 1 else ""
    return ToolError(no_such_line(line, count), hint=hint, code="line_out_of_range")


def no_such_line(line: int, count: int) -> str:
    """Return what is wrong with a line that the file has not: it lies behind it, or before."""
    if line > 0:
        return f"Line number {line} exceeds file length ({count} lines)"
    return f"Line number {line} lies before the first line of the file ({count} lines)"


def _page(scope: Scope, path: str, text: str, wanted: tuple[int, int] | None, room: int) -> str:
    lines = split_lines(text)
    first, last = wanted or (1, len(lines))
    end = fitting(lines, first, last, room) if lines else 0
    most = most_of_a_line(first, last)
    draw = anchored if scope.shows_anchors else _draw
    kept = ((number, lines[number - 1]) for number in range(first, end + 1))
    parts = [draw(number, line, shown(line, most)) for number, line in kept]
    if end < last and lines:
        parts.append(f'… up to line {end} of {len(lines)}; read on with line_range "{end + 1}-{last}"')
    note = note_view(scope, path, text, [(first - 1, end)])
    return "\n".join([*(parts or ["(empty file)"]), *([note] if note else [])])


def _draw(number: int, _line: str, text: str) -> str:
    return f"{number} | {text}"


def _several(scope: Scope, paths: list[str]) -> ToolResult:
    parts: list[str] = []
    errors: list[tuple[str, KakiteError]] = []
    room = CHARACTERS_SHOWN
    distinct = {scope.identity(path): path for path in reversed(paths)}
    left = list(reversed(distinct.values()))
    while left and room > ROOM_LEAST:
        check_wanted()
        path = left.pop(0)
        try:
            text = _text(scope, path)
        except KakiteError as error:
            errors.append((path, error))
            room -= 2 * NAME_SHOWN
            continue
        told = _page(scope, path, text, None, room)
        room -= len(spelled(told)) + NAME_SHOWN
        parts.append(f"=== {cut(path)} ({len(split_lines(text))} lines) ===\n{told}\n")
    if not parts:
        told = _problems("Failed to read file(s)", errors)
        raise ToolError("\n".join([told, *([_unread(left)] if left else [])]), code=errors[0][1].code)
    told = [f"Successfully read {len(parts)} file(s):\n", *parts]
    if errors:
        told.append(_problems("Errors encountered", errors))
    if left:
        told.append(_unread(left))
    return ToolResult(text="\n".join(told))


def _unread(paths: list[str]) -> str:
    told = ", ".join(map(cut, paths[:UNREAD_NAMED]))
    more = f" and {len(paths) - UNREAD_NAMED} more" if len(paths) > UNREAD_NAMED else ""
    return f"… the answer is full; not read, ask for them in another call: {told}{more}"


def _problems(head: str, errors: list[tuple[str, KakiteError]]) -> str:
    return "\n".join([f"{head}:", *(f"  - {cut(path)}: {cut(error.message)}" for path, error in errors)])


def _listing(scope: Scope, path: str, *, recursive: bool) -> str:
    with fixed_texts("Directory"):
        if recursive:
            found, left_out = scope.tree(path, depth=DEPTH_MOST, limit=ENTRIES_SHOWN, size=CHARACTERS_SHOWN)
        else:
            size = CHARACTERS_SHOWN
            found, left_out = scope.walk(path, depth=1, limit=ENTRIES_SHOWN, size=size, ignored=True), []
    way_on = "list one of these, or find files by their names with glob"
    return "\n".join([*listed(found, _kind_and_path, way_on), *ignored_note(left_out)])


def _kind_and_path(entry: Entry) -> str:
    return f"{'directory' if entry.is_folder else 'file'}: {entry.path}"
