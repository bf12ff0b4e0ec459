"""The tool ``apply_patch``: files added, updated, moved and deleted by one patch in codex's format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from kakite.edit import CreateFile, Edit, EditFailure, FieldNames, render_for_model
from kakite.edit.types import DeleteFile, MoveFile
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import report_refusal
from kakite.tools.changes.outside_changes import apply_seen, check_removal
from kakite.tools.edit_plan import EMPTY, EditPlan, FileEdit, apply_plan, build_whole_change
from kakite.tools.editor.snippets import render_snippet
from kakite.tools.editor.suggestions import build_accept_words, offer_suggestions
from kakite.tools.files.file_tools import PREVIEW, build_parameters
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, decode_text
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import wrap_in_thread
from kakite.workspace import Author, FileWrite, compute_version

if TYPE_CHECKING:
    from kakite.edit.types import Operation

APPLY_PATCH = Tool(
    name="apply_patch",
    title="Apply a patch",
    description=(
        "Apply a patch to files, whole or not at all: `*** Begin Patch`, then for each file `*** Add File: "
        "PATH` with `+` lines, `*** Delete File: PATH`, or `*** Update File: PATH` (and `*** Move to: PATH`) "
        "with hunks: `@@`, then lines that begin with a blank, `-` or `+`; at last `*** End Patch`."
    ),
    parameters=build_parameters(
        {
            "patch": {"type": "string"},
            "path": {"type": "string", "description": "the only file that the patch may touch"},
            "preview": PREVIEW,
        },
        "patch",
    ),
    effect="write",
)
_WORDS = FieldNames(search="the hunk's old lines", replace="its new lines", takes_line=False)


def create_apply_patch_tool(scope: Scope, run: str) -> FunctionTool:
    """Return the tool, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        operations = _parse_operations(arguments)
        paths = _collect_paths(operations)
        only, canonicalize = arguments.get("path"), scope.workspace.canonicalize
        if only is not None and {*map(canonicalize, paths)} != {canonicalize(only)}:
            raise ToolError(f"the patch is for {', '.join(paths)}, and not for `{only}` alone")
        by, preview = Author(tool=APPLY_PATCH.name, run=run), bool(arguments.get("preview", False))
        return apply_plan(scope, partial(_plan, scope, operations), paths=paths, by=by, preview=preview)

    return FunctionTool(
        APPLY_PATCH,
        wrap_in_thread(perform, scope.turns, lambda given: _collect_paths(_parse_operations(given))),
    )


def _parse_operations(arguments: JsonObject) -> tuple[Operation, ...]:
    from kakite.edit import parse  # takes a while to load: only who sends a patch waits for it

    return parse(arguments["patch"], "apply_patch")


def _collect_paths(operations: Sequence[Operation]) -> list[str]:
    named = [each.path for each in operations]
    named += [each.to for each in operations if isinstance(each, MoveFile)]
    return list(dict.fromkeys(named))


@dataclass(slots=True)
class _FilePatch:
    """The part of a patch for one file."""

    path: str
    edits: list[tuple[int, Edit]] = field(default_factory=list[tuple[int, Edit]])
    to: str = ""
    created: str | None = None
    is_deleted: bool = False


def _plan(scope: Scope, operations: Sequence[Operation]) -> EditPlan:
    planned: list[FileEdit] = []
    writings: list[FileWrite] = []
    told: list[str] = []
    diff = ""
    failures: list[EditFailure] = []
    for file in _group_by_file(scope, operations):
        if file.created is not None:
            planned.append(_plan_creation(scope, file))
            told.append(f"Created `{file.path}`")
        elif file.is_deleted:
            writings.append(_plan_deletion(scope, file.path))
            told.append(f"Deleted `{file.path}`")
            diff += f"diff --git a/{file.path} b/{file.path}\ndeleted file mode 100644\n"
        else:
            edit, failed = _plan_update(scope, file)
            failures += failed
            shown = render_snippet(edit.to_source().text, edit.changes)
            if file.to:
                writings += _plan_move(scope, file, edit)
                told.append(f"Moved `{file.path}` to `{file.to}`\n{shown}".rstrip())
                diff += f"rename from {file.path}\nrename to {file.to}\n{edit.diff}"
            else:
                planned.append(edit)
                told.append(f"Edited `{file.path}`\n{shown}".rstrip())
    if failures:
        # What moves and goes besides could not be suggested with it.
        alone = not writings and all(each.version is not None for each in planned)
        failures = (
            offer_suggestions(scope, planned, failures)
            if alone
            else [_drop_suggestion(each) for each in failures]
        )
        ordered = sorted(failures, key=lambda failure: failure.index)
        report_refusal(ordered)
        text = render_for_model(ordered, words=build_accept_words(scope, "", _WORDS))
        raise ToolError(text, code=ordered[0].code)
    return EditPlan(edits=tuple(planned), told="\n\n".join(told), writings=tuple(writings), diff=diff)


def _drop_suggestion(failure: EditFailure) -> EditFailure:
    return replace(failure, suggestion=None)


def _group_by_file(scope: Scope, operations: Sequence[Operation]) -> list[_FilePatch]:
    """Return what the patch says, file by file.

    Raises:
        ToolError: it says two things of one file that do not go together.
    """
    files: dict[str, _FilePatch] = {}
    for index, each in enumerate(operations):
        file = files.setdefault(scope.workspace.canonicalize(each.path), _FilePatch(each.path))
        is_other = file.created is not None or file.is_deleted
        if is_other or (not isinstance(each, Edit | MoveFile) and (file.edits or file.to)):
            told = f"the patch has two parts for `{each.path}`: nothing was done"
            raise ToolError(told, hint="put all hunks of a file under one `*** Update File:`", code="overlap")
        match each:
            case Edit():
                file.edits.append((index, each))
            case CreateFile():
                file.created = each.text
            case MoveFile():
                file.to = each.to
            case DeleteFile():
                file.is_deleted = True
    return list(files.values())


def _plan_creation(scope: Scope, file: _FilePatch) -> FileEdit:
    if scope.workspace.find(file.path) is not None:
        hint = "nothing was done; view it, and update it instead of adding it"
        raise ToolError(f"`{file.path}` exists already", hint=hint, code="file_exists")
    changes = build_whole_change("", file.created or "")
    return FileEdit(path=file.path, version=None, source=EMPTY, changes=changes)


def _plan_deletion(scope: Scope, path: str) -> FileWrite:
    present = scope.workspace.read(path)
    check_removal(scope, path, present)
    return FileWrite(path=path, data=None, expected=present.version, before=present.data)


def _plan_update(scope: Scope, file: _FilePatch) -> tuple[FileEdit, list[EditFailure]]:
    """Return what becomes of a file's text, and which hunks could not be placed."""
    present = scope.workspace.read(file.path)
    source = decode_text(present, file.path)
    result = apply_seen(scope, file.path, source, [replace(edit, path="") for _, edit in file.edits])
    edit = FileEdit(
        path=file.path,
        version=present.version,
        source=source,
        changes=result.changes,
        before=present.data,
        made=result.source,
    )
    indices = [index for index, _ in file.edits]
    failures = [
        replace(
            failure,
            index=indices[failure.index],
            other=indices[failure.other] if failure.other >= 0 else -1,
            path=file.path,
        )
        for failure in result.failures
    ]
    return edit, failures


def _plan_move(scope: Scope, file: _FilePatch, edit: FileEdit) -> list[FileWrite]:
    if scope.workspace.find(file.to) is not None:
        raise ToolError(f"`{file.to}` exists already", hint="nothing was done", code="file_exists")
    data = edit.to_source().to_bytes()
    return [
        FileWrite(path=file.path, data=None, expected=edit.version, before=edit.before),
        FileWrite(
            path=file.to,
            data=data,
            expected=None,
            mode=scope.workspace.get_mode(file.path),
            version=compute_version(data),
        ),
    ]
