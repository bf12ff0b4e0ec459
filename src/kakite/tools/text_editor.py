"""The one tool ``text_editor``: view, create, str_replace, insert, undo_edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from kakite.edit import (
    Change,
    ChangeSet,
    Edit,
    EditError,
    Match,
    SourceText,
    apply,
    render_for_model,
    unified_diff,
)
from kakite.tools.arguments import ToolError
from kakite.tools.listing import numbered, page, split_lines
from kakite.tools.offers import Offer
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import File, Workspace, WorkspaceError

ENTRIES_SHOWN = 1000  # of a folder
CONTEXT = 4  # lines shown around an edit

_FORGIVEN = {
    "line_ends": "line ends",
    "trailing_blanks": "blanks at the ends of lines",
    "look_alikes": "look-alike characters",
    "inner_blanks": "runs of blanks inside lines",
    "indentation": "indentation",
    "blank_lines": "blank lines",
    "elision": "an elided middle",
    "typo": "a typo",
}

EDITOR_NAME = "text_editor"

TEXT_EDITOR = Tool(
    name=EDITOR_NAME,
    title="Text editor",
    description="""\
View and edit files in the workspace. An edit lands right or not at all: a refused one changed nothing.
- view: a file with line numbers (they are not part of the text), or a folder, two levels deep.
- create: a new file with `file_text`; refused if the file exists, unless `overwrite` is true.
- str_replace: put `new_str` in place of `old_str`, which must name exactly one place.
- insert: put `insert_text` after line `insert_line` (0: at the top).
- undo_edit: take back the last edit of this file.
`preview`: true shows the diff and writes nothing.""",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
            "path": {
                "type": "string",
                "description": "File or folder, relative to the workspace or absolute",
            },
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 2,
                "maxItems": 2,
                "description": "view: first and last line, from 1; -1 for the end",
            },
            "file_text": {"type": "string", "description": "create: the whole content"},
            "overwrite": {"type": "boolean", "description": "create: replace a file that exists"},
            "old_str": {"type": "string", "description": "str_replace: text to replace, from one place"},
            "new_str": {"type": "string", "description": "str_replace: the new text; left out, it deletes"},
            "insert_line": {
                "type": "integer",
                "minimum": 0,
                "description": "insert: the line to insert after",
            },
            "insert_text": {"type": "string", "description": "insert: the new lines"},
            "preview": {"type": "boolean", "description": "show the diff, write nothing"},
            "description": {"type": "string", "description": "why, for people"},
        },
        "required": ["command", "path"],
        "additionalProperties": False,
    },
    effect="write",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """An edit of one file, not yet written."""

    path: str
    version: str | None
    """Of the file as it was read; None if it is to be created."""
    source: SourceText
    changes: ChangeSet
    told: str
    forgiven: tuple[str, ...] = ()
    """In what the quoted text differed from the file."""


def text_editor(workspace: Workspace) -> Offer:
    """Return the tool, working on this workspace."""

    async def perform(arguments: JsonObject) -> ToolResult:
        path: str = arguments["path"]
        preview: bool = arguments.get("preview", False)
        match arguments["command"]:
            case "view":
                return ToolResult(text=_view(workspace, path, arguments.get("view_range")))
            case "create":
                plan = _create(workspace, path, arguments)
            case "str_replace":
                plan = _str_replace(workspace, path, arguments)
            case "insert":
                plan = _insert(workspace, path, arguments)
            case _:
                return _undo(workspace, path, preview=preview)
        return _carry_out(workspace, plan, preview=preview)

    return Offer(TEXT_EDITOR, perform)


def _view(workspace: Workspace, path: str, view_range: list[int] | None) -> str:
    if workspace.is_folder(path):
        if view_range is not None:
            raise ToolError("`view_range` is for files", hint="leave it out to list the folder")
        return _folder(workspace, path)
    return page(_text(workspace.read(path)).text, path, view_range)


def _folder(workspace: Workspace, path: str) -> str:
    entries = workspace.walk(path, depth=2, limit=ENTRIES_SHOWN + 1)
    lines = [f"{entry.path}/" if entry.is_folder else entry.path for entry in entries[:ENTRIES_SHOWN]]
    if len(entries) > ENTRIES_SHOWN:
        lines.append(f"… more than {ENTRIES_SHOWN} entries; view a folder below to see the rest")
    return "\n".join(lines) or "(empty folder)"


def _create(workspace: Workspace, path: str, arguments: JsonObject) -> _Planned:
    text = _required(arguments, "file_text")
    present = _existing(workspace, path) if arguments.get("overwrite") else None
    source = SourceText.from_bytes(present.data) if present else _EMPTY
    return _Planned(
        path=path,
        version=present.version if present else None,
        source=source,
        changes=_whole(source.text, _encodable(source, text, path)),
        told=f"Overwrote `{path}`" if present else f"Created `{path}`",
    )


_EMPTY = SourceText.from_bytes(b"")


def _whole(old: str, new: str) -> ChangeSet:
    return ChangeSet.of(len(old), [Change(0, len(old), new).narrowed(old)])


def _existing(workspace: Workspace, path: str) -> File | None:
    try:
        return workspace.read(path)
    except WorkspaceError as error:
        if error.code != "file_not_found":
            raise
        return None


def _str_replace(workspace: Workspace, path: str, arguments: JsonObject) -> _Planned:
    old = _required(arguments, "old_str")
    present = workspace.read(path)
    source = _text(present)
    try:
        result = apply(source, [Edit(search=old, replace=arguments.get("new_str", ""))])
    except EditError as error:
        raise ToolError(render_for_model(error.failures), code=error.failures[0].code) from error
    return _Planned(
        path=path,
        version=present.version,
        source=source,
        changes=result.changes,
        told=f"Edited `{path}`{_how(result.matches[0])}",
        forgiven=_forgiven(result.matches[0]),
    )


def _how(match: Match) -> str:
    forgiven = ", ".join(_forgiven(match))
    if not forgiven:
        return ""
    return f" (`old_str` was not exact, forgiven: {forgiven}; check that the result is what you meant)"


def _forgiven(match: Match) -> tuple[str, ...]:
    kinds = match.forgiven or (() if match.level == "exact" else (match.level,))
    return tuple(_FORGIVEN.get(kind, kind.replace("_", " ")) for kind in kinds)


def _insert(workspace: Workspace, path: str, arguments: JsonObject) -> _Planned:
    after: int = arguments["insert_line"] if "insert_line" in arguments else _missing("insert_line")
    given = arguments.get("insert_text", arguments.get("new_str"))
    text: str = given if given is not None else _missing("insert_text")
    present = workspace.read(path)
    source = _text(present)
    lines = split_lines(source.text)
    if after > len(lines):
        raise ToolError(
            f"`{path}` has {len(lines)} lines, there is no line {after} to insert after",
            hint=f"`insert_line` goes from 0 to {len(lines)}",
            code="line_out_of_range",
        )
    offset = sum(len(line) for line in lines[:after])
    inserted = Change(offset, offset, _encodable(source, _fitted(source, offset, text), path))
    count = max(1, len(split_lines(text)))
    return _Planned(
        path=path,
        version=present.version,
        source=source,
        changes=ChangeSet.of(len(source.text), [inserted]),
        told=f"Inserted {count} line{'s' * (count > 1)} after line {after} of `{path}`",
    )


def _fitted(source: SourceText, offset: int, text: str) -> str:
    """Return whole lines to insert at this offset, with the line ends in force there."""
    end = source.line_end_at(offset)
    lines = end.join(line.rstrip("\r\n") for line in split_lines(text) or [""])
    unfinished = offset > 0 and source.text[offset - 1] not in "\r\n"
    return end + lines if unfinished else lines + end


def _undo(workspace: Workspace, path: str, *, preview: bool) -> ToolResult:
    before = workspace.undoable(path)
    now = SourceText.from_bytes(workspace.read(path).data).text
    diff = unified_diff(_whole(now, SourceText.from_bytes(before or b"").text), now, path=path)
    if preview:
        return _previewed(diff)
    workspace.undo(path)
    created = f"Removed `{path}`, which the last edit had created"
    return ToolResult(
        text=created if before is None else f"Undid the last edit of `{path}`", details={"diff": diff}
    )


def _carry_out(workspace: Workspace, plan: _Planned, *, preview: bool) -> ToolResult:
    diff = unified_diff(plan.changes, plan.source.text, path=plan.path)
    if preview:
        return _previewed(diff)
    after = plan.source.replace(plan.changes)
    workspace.write(plan.path, after.to_bytes(), expected=plan.version)
    return ToolResult(
        text=f"{plan.told}\n{_snippet(after.text, plan.changes)}".rstrip(),
        details={"diff": diff, "forgiven": list(plan.forgiven)},
    )


def _snippet(text: str, changes: ChangeSet) -> str:
    """Return the numbered lines around the changes, in the new text."""
    if not changes:
        return ""
    lines = split_lines(text)
    start = changes.changes[0].start
    end = changes.changes[-1].end + changes.new_length - changes.length
    first = text.count("\n", 0, start) + 1 - CONTEXT
    last = text.count("\n", 0, max(end - 1, start)) + 1 + CONTEXT
    return numbered(lines, max(1, first), min(len(lines), last))


def _previewed(diff: str) -> ToolResult:
    return ToolResult(text=f"Preview, nothing was written:\n{diff}", details={"diff": diff})


def _text(file: File) -> SourceText:
    source = SourceText.from_bytes(file.data)
    if "\0" in source.text:
        raise ToolError(f"`{file.path}` is a binary file ({len(file.data):,} bytes)", code="binary_file")
    return source


def _encodable(source: SourceText, text: str, path: str) -> str:
    if character := source.unencodable(text):
        raise ToolError(
            f"`{path}` is {source.encoding} and cannot hold {character!a}",
            hint="write it with characters of that encoding",
            code="not_encodable",
        )
    return text


def _required(arguments: JsonObject, name: str) -> str:
    return arguments[name] if name in arguments else _missing(name)


def _missing(name: str) -> NoReturn:
    raise ToolError(f"`{name}` is missing", hint=f"this command needs `{name}`")
