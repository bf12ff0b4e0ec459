"""The one tool ``text_editor``: view, create, str_replace, edit, insert, accept, undo_edit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from kakite.edit import ChangeSet
from kakite.tools.accepting import accept, acceptor
from kakite.tools.anchors import anchored
from kakite.tools.arguments import ToolError, paths_in
from kakite.tools.changed import counted_lines, note_view, place_gap
from kakite.tools.edit_formats import DEFAULT, EDITOR_NAME, EditorOptions
from kakite.tools.edits import (
    Plan,
    carry_out,
    encodable,
    insertion,
    overwriting,
)
from kakite.tools.images import image_of
from kakite.tools.listing import CHARACTERS_SHOWN, draw_number, ignored_note, listed, page, split_lines
from kakite.tools.notebooks import OpenText, plan_head
from kakite.tools.offers import Offer
from kakite.tools.replacements import Replacement, plan_replacements
from kakite.tools.scope import Scope
from kakite.tools.snippets import snippet
from kakite.tools.threads import threaded
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.undoing import undo_last
from kakite.workspace import Author

ENTRIES_SHOWN = 1000  # of a folder
EDITS_MOST = 200  # in one call

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
                "maxItems": EDITS_MOST,
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


def text_editor(
    scope: Scope, options: EditorOptions = DEFAULT, *, read_only: bool = False, run: str = ""
) -> list[Offer]:
    """Return the tool, or one for each command; with ``read_only`` they can only view.

    Where text is named by anchors or patches, it has no commands that quote it, or count its lines.
    """
    name = options.name
    editor = _Editor(scope, run)
    scope.accepted_by = (f"{name}_accept", "") if options.split else (name, "accept")
    left_out = () if options.format == "quote" else _QUOTING
    commands = ["view"] if read_only else [each for each in COMMANDS if each not in left_out]
    if options.split:
        return [
            Offer(_split(name, command), editor.performing(f"{name}_{command}", command))
            for command in commands
        ]
    tool = replace(_offering(commands), name=name)
    return [Offer(_viewing(tool) if read_only else tool, editor.performing(name, ""))]


_QUOTING = ("str_replace", "edit", "insert")


def _offering(commands: Sequence[str]) -> Tool:
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
    taken = {each: _alone(properties[each], command) for each in (*COMMANDS[command], "description")}
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


def _alone(schema: JsonObject, command: str) -> JsonObject:
    """Return an argument's schema without the name of the command that it is for."""
    described = str(schema.get("description", "")).removeprefix(f"{command}: ")
    return {**schema, "description": described} if described else schema


def _viewing(tool: Tool) -> Tool:
    """Return the tool that only views."""
    alone = _split(tool.name, "view")
    parameters: JsonObject = {**alone.parameters, "required": ["command", "path"]}
    return replace(alone, name=tool.name, title=tool.title, parameters=parameters)


class _Editor:
    """The commands, on one workspace."""

    def __init__(self, scope: Scope, run: str) -> None:
        self._scope = scope
        self._run = run

    def performing(self, tool: str, command: str) -> Callable[[JsonObject], Awaitable[ToolResult]]:
        """Return what performs calls of this tool; without a command, its arguments name it."""

        def work(arguments: JsonObject) -> ToolResult:
            return self._perform(command or arguments["command"], arguments, Author(tool=tool, run=self._run))

        viewing, writing = threaded(work), threaded(work, self._scope.turns)
        accepting = acceptor(work, self._scope)

        def perform(arguments: JsonObject) -> Awaitable[ToolResult]:
            asked = command or arguments["command"]
            performing = {"view": viewing, "accept": accepting}.get(asked, writing)
            return performing(arguments)

        return perform

    def _perform(self, command: str, arguments: JsonObject, by: Author) -> ToolResult:
        _check_taken(command, arguments)
        scope = self._scope
        for name in _REQUIRED[command]:
            _required(arguments, name)
        if command == "accept":
            return accept(scope, arguments, by=by)
        path: str = arguments.get("path", "")
        preview: bool = arguments.get("preview", False)
        if command == "view":
            return _view(scope, path, arguments.get("view_range"))
        if command == "undo_edit":
            return undo_last(scope, path, run=self._run, preview=preview)
        planning = {"create": _create, "str_replace": _str_replace, "edit": _edit, "insert": _insert}[command]

        def plan() -> Plan:
            return planning(scope, path, arguments)

        return carry_out(scope, plan, paths=paths_in(arguments), by=by, preview=preview)


def _check_taken(command: str, arguments: JsonObject) -> None:
    """Refuse what would pass unheeded, unless it says nothing: some models fill in every argument."""
    taken = (*COMMANDS[command], "command", "description")
    for name, value in arguments.items():
        if name not in taken and value:
            takers = [each for each, names in COMMANDS.items() if name in names]
            raise ToolError(
                f"`{command}` takes no `{name}`: nothing was done",
                hint=f"leave it out, or give the command that you mean; {' and '.join(takers)} "
                f"take{'s' * (len(takers) == 1)} `{name}`, {command} takes {', '.join(COMMANDS[command])}",
            )


def _view(scope: Scope, path: str, view_range: list[int] | list[list[int]] | None) -> ToolResult:
    if scope.is_folder(path):
        if view_range is not None:
            raise ToolError("`view_range` is for files", hint="leave it out to list the folder")
        return ToolResult(text=_folder(scope, path))
    file = scope.read(path)
    if image := image_of(file, path):
        told = f"`{path}` is a picture ({image.mime}, {len(file.data):,} bytes)"
        return ToolResult(text=told, images=(image,))
    opened = OpenText(file, path)
    text = opened.shown.text
    by_anchors = scope.shows_anchors and opened.notebook is None
    seen = page(text, path, view_range, anchored if by_anchors else draw_number)
    if opened.notebook is not None:
        note_view(scope, path, opened.notebook.raw, [])
        return ToolResult(text=seen.text)
    note = note_view(scope, path, text, seen.lines)
    return ToolResult(text=f"{seen.text}\n{note}" if note else seen.text)


def _folder(scope: Scope, path: str) -> str:
    found, left_out = scope.tree(path, depth=2, limit=ENTRIES_SHOWN, size=CHARACTERS_SHOWN)
    lines = listed(found, lambda entry: f"{entry.path}{'/' * entry.is_folder}", "view one of these")
    return "\n".join([*lines, *ignored_note(left_out)])


def _create(scope: Scope, path: str, arguments: JsonObject) -> Plan:
    text = _required(arguments, "file_text")
    present = scope.find(path)
    if present is not None and not arguments.get("overwrite"):
        raise ToolError(
            f"`{path}` exists already",
            hint="view it, then change it; `overwrite` true puts the new text in its place",
            code="file_exists",
        )
    edit = overwriting(scope, present, path, text)
    count = len(split_lines(text))
    lines = f"{count} line{'s' * (count != 1)}"
    told = f"{'Overwrote' if present else 'Created'} `{path}` ({lines})"
    return Plan(edits=(edit,), told=told, tells_diff=True)


def _str_replace(scope: Scope, path: str, arguments: JsonObject) -> Plan:
    old = _required(arguments, "old_str")
    if planned := plan_head(scope, path, old, arguments.get("new_str", "")):
        return planned
    return plan_replacements(scope, [_replacement(path, arguments)])


def _edit(scope: Scope, path: str, arguments: JsonObject) -> Plan:
    edits: list[JsonObject] = arguments.get("edits") or _missing("edits")
    bare = next((nth for nth, each in enumerate(edits, 1) if not (path or each.get("path"))), 0)
    if bare:
        told = f"edit {bare} has no `path`, and the call has none"
        raise ToolError(told, hint="give the file as `path` of the call, or of each edit")
    return plan_replacements(scope, [_replacement(path, each) for each in edits])


def _replacement(path: str, arguments: JsonObject) -> Replacement:
    return Replacement(
        path=arguments.get("path", path),
        old=arguments["old_str"],
        new=arguments.get("new_str", ""),
        all=arguments.get("replace_all", False),
        is_bare="new_str" not in arguments,
    )


def _insert(scope: Scope, path: str, arguments: JsonObject) -> Plan:
    after: int = arguments["insert_line"] if "insert_line" in arguments else _missing("insert_line")
    given = arguments.get("insert_text", arguments.get("new_str"))
    if arguments.get("new_str", "") not in {"", given}:
        told = "`insert_text` and `new_str` are different texts: nothing was done"
        raise ToolError(told, hint="give `insert_text` alone")
    text: str = given if given is not None else _missing("insert_text")
    opened = OpenText(scope.read(path), path)
    source = opened.shown
    lines = split_lines(source.text)
    if planned := opened.insert_cell(after, text):
        return planned
    counted = 0 if opened.notebook else len(counted_lines(scope, path, source.text))
    if after > max(len(lines), counted):
        raise ToolError(
            f"`{path}` has {len(lines)} lines, there is no line {after} to insert after",
            hint=f"`insert_line` goes from 0 to {len(lines)}",
            code="line_out_of_range",
        )
    place = after if opened.notebook else place_gap(scope, path, source.text, after, behind=True)
    changes = ChangeSet.of(len(source.text), [insertion(source, lines, place, encodable(source, text, path))])
    count = max(1, len(split_lines(text)))
    made = source.replace(changes)
    edit = opened.edit(changes, made)
    moved = f" (line {after} when you saw it)" if place != after else ""
    told = f"Inserted {count} line{'s' * (count > 1)} after line {place}{moved} of `{path}`"
    return Plan(edits=(edit,), told=f"{told}\n{snippet(made.text, changes)}".rstrip())


def _required(arguments: JsonObject, name: str) -> str:
    return arguments[name] if name in arguments else _missing(name)


def _missing(name: str) -> NoReturn:
    raise ToolError(f"`{name}` is missing", hint=f"this command needs `{name}`")
