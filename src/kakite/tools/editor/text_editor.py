"""The tool ``text_editor``: view, create, str_replace, edit, insert, accept, undo_edit.

Undo takes back the last write of a file: this session's own first; another session's only with a note.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from kakite.edit import ChangeSet, SourceText
from kakite.tools.arguments import ToolError, collect_paths
from kakite.tools.call_context import compute_digest
from kakite.tools.changes.outside_changes import get_counted_lines, note_undo, note_view, place_gap
from kakite.tools.edit_plan import (
    EditPlan,
    apply_plan,
    build_insertion,
    build_preview_result,
    build_stale_result,
    diff_by_lines,
    is_stale,
    plan_overwrite,
    require_encodable,
    truncate_diff,
)
from kakite.tools.editor.anchors import format_anchored_line
from kakite.tools.editor.edit_formats import DEFAULT, EDITOR_NAME, EditorOptions
from kakite.tools.editor.replacements import (
    EditableText,
    Replacement,
    plan_cell_header_edit,
    plan_replacements,
)
from kakite.tools.editor.snippets import render_change_diff, render_snippet, take_first_hunks
from kakite.tools.editor.suggestions import accept, list_suggestion_paths
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.images import read_image
from kakite.tools.scope import Scope, is_binary
from kakite.tools.text_pages import (
    CHARACTERS_SHOWN,
    draw_number,
    format_ignored,
    format_listing,
    list_tree,
    render_page,
    split_lines,
)
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import run_in_thread
from kakite.workspace import Author, UndoPlan, compute_version


def undo_last(scope: Scope, path: str, *, run: str, preview: bool) -> ToolResult:
    """Take back the last write of a file, or with ``preview`` only show it. ``run`` is this session's.

    Raises:
        WorkspaceError: ``nothing_to_undo``; ``stale`` if the file is not what that write left, or others
            wrote to it after this session did.
    """
    undoing = scope.workspace.plan_undo(path, by=run)
    diff = _render_diff(undoing, path, scope)
    bound = compute_digest(
        [[each.key, _compute_version(each.before), _compute_version(each.after)] for each in undoing]
    )
    if preview:
        return build_preview_result(diff, bound)
    if is_stale(bound):
        return build_stale_result(diff, bound)
    scope.workspace.apply_undo(undoing)
    for each in undoing:
        note_undo(scope, each)
    changed = take_first_hunks(diff) if len(undoing) == 1 and undoing[0].before and undoing[0].after else ""
    text = "\n".join(filter(None, [_format_message(undoing, path, scope), changed]))
    last = undoing[0].last
    details = {"diff": truncate_diff(diff)}
    if last is None or last.run == run:
        return ToolResult(text=text, details=details)
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last.time))
    text += (
        f"\nNo edit of `{path}` by this session was left: this was one of another session, "
        f"by `{last.tool or 'an edit'}` at {when}. Do it again if that was not meant"
    )
    return ToolResult(text=text, details={**details, "run": last.run})


def _format_message(undoing: Sequence[UndoPlan], path: str, scope: Scope) -> str:
    if len(undoing) > 1:
        here, other = undoing
        ends = (path, scope.workspace.to_relative(other.key))
        back, gone = ends if here.after is not None else ends[::-1]
        return f"Undid the move: `{back}` is there again, `{gone}` is not"
    if undoing[0].after is None:
        return f"Removed `{path}`, which the last edit had created"
    if undoing[0].before is None:
        return f"Brought back `{path}`, which was deleted"
    return f"Undid the last edit of `{path}`"


def _render_diff(undoing: Sequence[UndoPlan], path: str, scope: Scope) -> str:
    names = [path, *(scope.workspace.to_relative(each.key) for each in undoing[1:])]
    return "".join(_render_change(each, name) for each, name in zip(undoing, names, strict=True))


def _render_change(undoing: UndoPlan, path: str) -> str:
    before, after = undoing.before or b"", undoing.after or b""
    if is_binary(before) or is_binary(after):
        return f"Binary file {path}: {len(before):,} bytes become {len(after):,}\n"
    now = SourceText.from_bytes(before).text
    return render_change_diff(diff_by_lines(now, SourceText.from_bytes(after).text), now, path)


def _compute_version(data: bytes | None) -> str | None:
    return None if data is None else compute_version(data)


ENTRIES_SHOWN = 1000  # of a folder
MAX_EDITS = 200  # in one call

TEXT_EDITOR = Tool(
    name=EDITOR_NAME,
    title="Text editor",
    description="""\
View and edit files. An edit lands right or not at all: a refused one changed nothing.
- view: a file with line numbers (they are not part of the text), a picture, or a folder, two levels deep.
- create: a new file with `file_text`; refused if it exists, unless `overwrite` is true.
- str_replace: put `new_str` in place of `old_str`, which must name one place; `replace_all`: in every.
- edit: several `edits`, in one or more files, all or none; each is found in the text as it is now.
- insert: put `insert_text` after line `insert_line` (0: at the top).
- accept: make the edit that a refusal suggested, by its `suggestion` id.
- undo_edit: take back the last edit of this file.""",
    parameters={
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "enum": ["view", "create", "str_replace", "edit", "insert", "accept", "undo_edit"],
            },
            "path": {
                "type": "string",
                "description": "File or folder, relative to the workspace or absolute",
            },
            "view_range": {
                "type": "array",
                "items": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
                "description": "view: [first, last] line, from 1, -1: the end; or several such pairs",
            },
            "file_text": {"type": "string"},
            "overwrite": {"type": "boolean"},
            "old_str": {"type": "string"},
            "new_str": {"type": "string", "description": "str_replace: left out, it deletes"},
            "replace_all": {"type": "boolean"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "if not the `path` above"},
                        "old_str": {"type": "string"},
                        "new_str": {"type": "string"},
                        "replace_all": {"type": "boolean"},
                    },
                    "required": ["old_str"],
                    "additionalProperties": False,
                },
                "maxItems": MAX_EDITS,
            },
            "insert_line": {"type": "integer", "minimum": 0},
            "insert_text": {"type": "string"},
            "suggestion": {"type": "string"},
            "preview": {"type": "boolean", "description": "show the diff, write nothing"},
            "description": {"type": "string", "description": "why, for people"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    effect="write",
)


COMMANDS: dict[str, tuple[str, ...]] = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text", "overwrite", "preview"),
    "str_replace": ("path", "old_str", "new_str", "replace_all", "preview"),
    "edit": ("path", "edits", "preview"),
    "insert": ("path", "insert_line", "insert_text", "new_str", "preview"),
    "accept": ("path", "suggestion", "preview"),
    "undo_edit": ("path", "preview"),
}
"""The commands, and what each of them takes."""


def create_text_editor_tools(
    scope: Scope, options: EditorOptions = DEFAULT, *, read_only: bool = False, run: str = ""
) -> list[FunctionTool]:
    """Return the tool, or one for each command; with ``read_only`` they can only view.

    Where text is named by anchors or patches, it has no commands that quote it, or count its lines.
    """
    name = options.name

    def create(tool: Tool, command: str) -> FunctionTool:
        return FunctionTool(tool, partial(_perform, scope, command, Author(tool=tool.name, run=run)))

    scope.accepted_by = (f"{name}_accept", "") if options.split else (name, "accept")
    left_out = () if options.format == "quote" else _QUOTING
    commands = ["view"] if read_only else [each for each in COMMANDS if each not in left_out]
    if options.split:
        return [create(_split(name, command), command) for command in commands]
    tool = replace(_restrict_commands(commands), name=name)
    return [create(_restrict_to_view(tool) if read_only else tool, "")]


_QUOTING = ("str_replace", "edit", "insert")


def _restrict_commands(commands: Sequence[str]) -> Tool:
    """Return the tool with these commands alone."""
    if len(commands) == len(COMMANDS) or commands == ["view"]:
        return TEXT_EDITOR
    gone = [each for each in COMMANDS if each not in commands]
    described = TEXT_EDITOR.description.split("\n")
    kept = [line for line in described if not line.startswith(tuple(f"- {each}: " for each in gone))]
    taken = {"command", "description", *(name for each in commands for name in COMMANDS[each])}
    properties = {name: each for name, each in TEXT_EDITOR.parameters["properties"].items() if name in taken}
    properties["command"] = {"type": "string", "enum": list(commands)}
    parameters: JsonObject = {**TEXT_EDITOR.parameters, "properties": properties}
    return replace(TEXT_EDITOR, description="\n".join(kept), parameters=parameters)


def _split(name: str, command: str) -> Tool:
    """Return the tool for one command."""
    described = TEXT_EDITOR.description.split("\n")
    (line,) = (line for line in described if line.startswith(f"- {command}: "))
    sentence = line.removeprefix(f"- {command}: ")
    properties = TEXT_EDITOR.parameters["properties"]
    taken = {
        each: _strip_command_name(properties[each], command) for each in (*COMMANDS[command], "description")
    }
    return replace(
        TEXT_EDITOR,
        name=f"{name}_{command}",
        title=f"Text editor: {command}",
        description=sentence[0].upper() + sentence[1:],
        parameters={
            **TEXT_EDITOR.parameters,
            # Whoever knows the tool as one names the command all the same.
            "properties": {**taken, "command": {"type": "string", "enum": [command]}},
            "required": list(_REQUIRED[command]),
        },
        effect="read" if command == "view" else "write",
        idempotent=command == "view",
    )


_REQUIRED = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "edit": ("edits",),
    "insert": ("path", "insert_line"),
    "accept": ("suggestion",),
    "undo_edit": ("path",),
}


def _strip_command_name(schema: JsonObject, command: str) -> JsonObject:
    """Return an argument's schema without the name of the command that it is for."""
    described = str(schema.get("description", "")).removeprefix(f"{command}: ")
    return {**schema, "description": described} if described else schema


def _restrict_to_view(tool: Tool) -> Tool:
    """Return the tool that only views."""
    alone = _split(tool.name, "view")
    parameters: JsonObject = {**alone.parameters, "required": ["command", "path"]}
    return replace(alone, name=tool.name, title=tool.title, parameters=parameters)


async def _perform(scope: Scope, command: str, by: Author, arguments: JsonObject) -> ToolResult:
    """Perform a call in a thread, and in its turn if it writes. Without a command, its arguments name it."""
    asked = command or arguments["command"]
    _check_arguments(asked, arguments)
    work = partial(_execute, scope, asked, by)
    if asked == "view":
        return await run_in_thread(work, arguments)
    paths = list_suggestion_paths(scope, arguments) if asked == "accept" else collect_paths(arguments)
    async with scope.turns.acquire(paths):
        return await run_in_thread(work, arguments)


def _execute(scope: Scope, command: str, by: Author, arguments: JsonObject) -> ToolResult:
    path: str = arguments.get("path", "")
    preview: bool = arguments.get("preview", False)
    match command:
        case "view":
            with scope.hold_notes([path]):
                return _view(scope, path, arguments.get("view_range"))
        case "accept":
            return accept(scope, arguments, by=by)
        case "undo_edit":
            return undo_last(scope, path, run=by.run, preview=preview)
        case _:
            plan = partial(_PLANNERS[command], scope, arguments)
            return apply_plan(scope, plan, paths=collect_paths(arguments), by=by, preview=preview)


def _check_arguments(command: str, arguments: JsonObject) -> None:
    """Refuse what the command needs and has not, and what it does not take.

    What says nothing is let pass: some models fill in every argument.
    """
    taken = (*COMMANDS[command], "command", "description")
    for name, value in arguments.items():
        if name not in taken and value:
            takers = [each for each, names in COMMANDS.items() if name in names]
            raise ToolError(
                f"`{command}` takes no `{name}`: nothing was done",
                hint=f"leave it out, or give the command that you mean; {' and '.join(takers)} "
                f"take{'s' * (len(takers) == 1)} `{name}`, {command} takes {', '.join(COMMANDS[command])}",
            )
    for name in _REQUIRED[command]:
        if name not in arguments:
            _raise_missing(name)


def _raise_missing(name: str) -> NoReturn:
    raise ToolError(f"`{name}` is missing", hint=f"this command needs `{name}`")


def _view(scope: Scope, path: str, view_range: list[int] | list[list[int]] | None) -> ToolResult:
    if scope.workspace.is_folder(path):
        if view_range is not None:
            raise ToolError("`view_range` is for files", hint="leave it out to list the folder")
        return ToolResult(text=_view_folder(scope, path))
    file = scope.workspace.read(path)
    if image := read_image(file, path):
        told = f"`{path}` is a picture ({image.mime}, {len(file.data):,} bytes)"
        return ToolResult(text=told, images=(image,))
    opened = EditableText(file, path)
    text = opened.shown.text
    by_anchors = scope.shows_anchors and opened.notebook is None
    seen = render_page(text, path, view_range, format_anchored_line if by_anchors else draw_number)
    if opened.notebook is not None:
        note_view(scope, path, opened.notebook.raw, [])
        return ToolResult(text=seen.text)
    note = note_view(scope, path, text, seen.lines)
    return ToolResult(text=f"{seen.text}\n{note}" if note else seen.text)


def _view_folder(scope: Scope, path: str) -> str:
    found, left_out = list_tree(scope.workspace, path, depth=2, limit=ENTRIES_SHOWN, size=CHARACTERS_SHOWN)
    lines = format_listing(found, lambda entry: f"{entry.path}{'/' * entry.is_folder}", "view one of these")
    return "\n".join([*lines, *format_ignored(left_out)])


def _create(scope: Scope, arguments: JsonObject) -> EditPlan:
    path: str = arguments["path"]
    text: str = arguments["file_text"]
    present = scope.workspace.find(path)
    if present is not None and not arguments.get("overwrite"):
        raise ToolError(
            f"`{path}` exists already",
            hint="view it, then change it; `overwrite` true puts the new text in its place",
            code="file_exists",
        )
    edit = plan_overwrite(scope, present, path, text)
    count = len(split_lines(text))
    lines = f"{count} line{'s' * (count != 1)}"
    told = f"{'Overwrote' if present else 'Created'} `{path}` ({lines})"
    return EditPlan(edits=(edit,), told=told, tells_diff=True)


def _str_replace(scope: Scope, arguments: JsonObject) -> EditPlan:
    wanted = _parse_replacement(arguments["path"], arguments)
    return plan_cell_header_edit(scope, wanted) or plan_replacements(scope, [wanted])


def _edit(scope: Scope, arguments: JsonObject) -> EditPlan:
    path: str = arguments.get("path", "")
    edits: list[JsonObject] = arguments["edits"] or _raise_missing("edits")
    bare = next((nth for nth, each in enumerate(edits, 1) if not (path or each.get("path"))), 0)
    if bare:
        told = f"edit {bare} has no `path`, and the call has none"
        raise ToolError(told, hint="give the file as `path` of the call, or of each edit")
    return plan_replacements(scope, [_parse_replacement(path, each) for each in edits])


def _parse_replacement(path: str, arguments: JsonObject) -> Replacement:
    return Replacement(
        path=arguments.get("path", path),
        old=arguments["old_str"],
        new=arguments.get("new_str", ""),
        all=arguments.get("replace_all", False),
        is_bare="new_str" not in arguments,
    )


def _insert(scope: Scope, arguments: JsonObject) -> EditPlan:
    path: str = arguments["path"]
    after: int = arguments["insert_line"]
    given = arguments.get("insert_text", arguments.get("new_str"))
    if arguments.get("new_str", "") not in {"", given}:
        told = "`insert_text` and `new_str` are different texts: nothing was done"
        raise ToolError(told, hint="give `insert_text` alone")
    text: str = given if given is not None else _raise_missing("insert_text")
    opened = EditableText(scope.workspace.read(path), path)
    source = opened.shown
    lines = split_lines(source.text)
    if planned := opened.insert_cell(after, text):
        return planned
    counted = 0 if opened.notebook else len(get_counted_lines(scope, path, source.text))
    if after > max(len(lines), counted):
        raise ToolError(
            f"`{path}` has {len(lines)} lines, there is no line {after} to insert after",
            hint=f"`insert_line` goes from 0 to {len(lines)}",
            code="line_out_of_range",
        )
    place = after if opened.notebook else place_gap(scope, path, source.text, after, behind=True)
    changes = ChangeSet.of(
        len(source.text), [build_insertion(source, lines, place, require_encodable(source, text, path))]
    )
    count = max(1, len(split_lines(text)))
    made = source.replace(changes)
    edit = opened.edit(changes, made)
    moved = f" (line {after} when you saw it)" if place != after else ""
    told = f"Inserted {count} line{'s' * (count > 1)} after line {place}{moved} of `{path}`"
    return EditPlan(edits=(edit,), told=f"{told}\n{render_snippet(made.text, changes)}".rstrip())


_PLANNERS: dict[str, Callable[[Scope, JsonObject], EditPlan]] = {
    "create": _create,
    "str_replace": _str_replace,
    "edit": _edit,
    "insert": _insert,
}
