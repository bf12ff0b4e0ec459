"""The tool ``apply_patch``: files added, updated, moved and deleted by one patch in codex's format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kakite.edit import CreateFile, Edit, Failure, Words, parse, render_for_model
from kakite.edit.edits import DeleteFile, MoveFile
from kakite.tools.accepting import acceptance_words, offer_suggestions
from kakite.tools.arguments import ToolError
from kakite.tools.changed import apply_seen, check_removal
from kakite.tools.edits import EMPTY, FileEdit, Plan, carry_out, whole
from kakite.tools.file_tools import PREVIEW, parameters
from kakite.tools.offers import Offer
from kakite.tools.scope import Scope, text_of
from kakite.tools.snippets import snippet
from kakite.tools.threads import threaded
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import Author, Writing, version_of

if TYPE_CHECKING:
    from kakite.edit.edits import Operation

APPLY_PATCH = Tool(
    name="apply_patch",
    title="Apply a patch",
    description=(
        "Apply a patch to files, whole or not at all: `*** Begin Patch`, then for each file `*** Add File: "
        "PATH` with `+` lines, `*** Delete File: PATH`, or `*** Update File: PATH` (and `*** Move to: PATH`) "
        "with hunks: `@@`, then lines that begin with a blank, `-` or `+`; at last `*** End Patch`."
    ),
    parameters=parameters(
        {
            "patch": {"type": "string"},
            "path": {"type": "string", "description": "the only file that the patch may touch"},
            "preview": PREVIEW,
        },
        "patch",
    ),
    effect="write",
)
_WORDS = Words(search="the hunk's old lines", replace="its new lines", takes_line=False)


def apply_patch(scope: Scope, run: str) -> Offer:
    """Return the tool, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        operations = _operations(arguments)

        def plan() -> Plan:
            return _plan(scope, operations)

        paths = _paths(operations)
        only = arguments.get("path")
        if only is not None and {scope.identity(path) for path in paths} != {scope.identity(only)}:
            raise ToolError(f"the patch is for {', '.join(paths)}, and not for `{only}` alone")
        by, preview = Author(tool=APPLY_PATCH.name, run=run), bool(arguments.get("preview", False))
        return carry_out(scope, plan, paths=paths, by=by, preview=preview)

    return Offer(APPLY_PATCH, threaded(perform, scope.turns, lambda given: _paths(_operations(given))))


def _operations(arguments: JsonObject) -> tuple[Operation, ...]:
    return parse(arguments["patch"], "apply_patch")


def _paths(operations: Sequence[Operation]) -> list[str]:
    named = [each.path for each in operations]
    named += [each.to for each in operations if isinstance(each, MoveFile)]
    return list(dict.fromkeys(named))


@dataclass(slots=True)
class _File:
    """What a patch says of one file."""

    path: str
    edits: list[tuple[int, Edit]] = field(default_factory=list[tuple[int, Edit]])
    to: str = ""
    created: str | None = None
    is_deleted: bool = False


def _plan(scope: Scope, operations: Sequence[Operation]) -> Plan:
    planned: list[FileEdit] = []
    writings: list[Writing] = []
    told: list[str] = []
    diff = ""
    failures: list[Failure] = []
    for file in _by_file(scope, operations):
        if file.created is not None:
            planned.append(_creation(scope, file))
            told.append(f"Created `{file.path}`")
        elif file.is_deleted:
            writings.append(_deletion(scope, file.path))
            told.append(f"Deleted `{file.path}`")
            diff += f"diff --git a/{file.path} b/{file.path}\ndeleted file mode 100644\n"
        else:
            edit, failed = _update(scope, file)
            failures += failed
            shown = snippet(edit.after().text, edit.changes)
            if file.to:
                writings += _move(scope, file, edit)
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
            else [_without_suggestion(each) for each in failures]
        )
        ordered = sorted(failures, key=lambda failure: failure.index)
        text = render_for_model(ordered, words=acceptance_words(scope, "", _WORDS))
        raise ToolError(text, code=ordered[0].code)
    return Plan(edits=tuple(planned), told="\n\n".join(told), writings=tuple(writings), diff=diff)


def _without_suggestion(failure: Failure) -> Failure:
    return replace(failure, suggestion=None)


def _by_file(scope: Scope, operations: Sequence[Operation]) -> list[_File]:
    """Return what the patch says, file by file.

    Raises:
        ToolError: it says two things of one file that do not go together.
    """
    files: dict[str, _File] = {}
    for index, each in enumerate(operations):
        file = files.setdefault(scope.identity(each.path), _File(each.path))
        is_other = file.created is not None or file.is_deleted
        if is_other or (not isinstance(each, Edit | MoveFile) and (file.edits or file.to)):
            told = f"the patch says two things of `{each.path}`: nothing was done"
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


def _creation(scope: Scope, file: _File) -> FileEdit:
    if scope.find(file.path) is not None:
        hint = "nothing was done; view it, and update it instead of adding it"
        raise ToolError(f"`{file.path}` exists already", hint=hint, code="file_exists")
    changes = whole("", file.created or "")
    return FileEdit(path=file.path, version=None, source=EMPTY, changes=changes)


def _deletion(scope: Scope, path: str) -> Writing:
    present = scope.read(path)
    check_removal(scope, path, present)
    return Writing(path=path, data=None, expected=present.version, before=present.data)


def _update(scope: Scope, file: _File) -> tuple[FileEdit, list[Failure]]:
    """Return what becomes of a file's text, and which hunks could not be placed."""
    present = scope.read(file.path)
    source = text_of(present, file.path)
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


def _move(scope: Scope, file: _File, edit: FileEdit) -> list[Writing]:
    if scope.find(file.to) is not None:
        raise ToolError(f"`{file.to}` exists already", hint="nothing was done", code="file_exists")
    data = edit.after().to_bytes()
    return [
        Writing(path=file.path, data=None, expected=edit.version, before=edit.before),
        Writing(path=file.to, data=data, expected=None, mode=scope.mode(file.path), version=version_of(data)),
    ]
