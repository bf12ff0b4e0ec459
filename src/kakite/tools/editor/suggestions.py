"""Offers the suggestions of a refused edit, and accepts one by its id in the same session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kakite.edit import Change, ChangeSet, EditFailure, FieldNames, Result, SourceText
from kakite.edit.errors.render import render_suggestion
from kakite.edit.suggestions.model import (
    BatchSuggestion,
    SuggestionGoneError,
    accept_batch,
    create_suggestion,
    refuse,
)
from kakite.edit.types import FileChange, FilesResult
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import report_refusal
from kakite.tools.edit_plan import EditPlan, FileEdit, apply_plan
from kakite.tools.editor.snippets import render_snippet
from kakite.tools.files.file_tools import PREVIEW, build_parameters, create_file_tool, translate_path_errors
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, is_binary
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import wrap_in_thread
from kakite.workspace import Author

ACCEPT_SUGGESTION = Tool(
    name="accept_suggestion",
    title="Accept a suggestion",
    description="Make the edit that a refusal suggested.",
    parameters=build_parameters(
        {
            "suggestion": {"type": "string", "description": "its id"},
            "path": {"type": "string"},
            "preview": PREVIEW,
        },
        "suggestion",
    ),
    effect="write",
)


def create_accept_suggestion_tool(scope: Scope, run: str) -> FunctionTool:
    """Return the file tool that accepts, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        with translate_path_errors("File"):
            return accept(scope, arguments, by=Author(tool=ACCEPT_SUGGESTION.name, run=run))

    scope.accepted_by = ACCEPT_SUGGESTION.name, ""
    work = wrap_in_thread(perform, scope.turns, partial(list_suggestion_paths, scope))
    return create_file_tool(ACCEPT_SUGGESTION, work)


def list_suggestion_paths(scope: Scope, arguments: JsonObject) -> list[str]:
    """Return the paths of the files of the suggestion that a call names; none if there is none."""
    try:
        return [file.path for file in scope.suggestions.find(arguments.get("suggestion", "")).files]
    except SuggestionGoneError:
        return []


def accept(scope: Scope, arguments: JsonObject, *, by: Author) -> ToolResult:
    """Make the edit that a refusal suggested, once, or with ``preview`` show it.

    Raises:
        SuggestionGoneError: there is none with this id in this session, or a file changed since.
        ToolError: ``bad_arguments``, where ``path`` is not the file that it is for.
    """
    identity: str = arguments["suggestion"]
    suggestions, preview = scope.suggestions, bool(arguments.get("preview", False))

    def plan() -> EditPlan:
        return _plan(scope, suggestions.find(identity), arguments.get("path", ""))

    paths = [file.path for file in suggestions.find(identity).files]
    result = apply_plan(scope, plan, paths=paths, by=by, preview=preview)
    if not preview and not result.is_error:
        suggestions.remove(identity)
    return result


def _plan(scope: Scope, suggestion: BatchSuggestion, path: str) -> EditPlan:
    named = {file.path for file in suggestion.files}
    # Whoever lets calls go by the path that they name must not be told another one.
    if path and {scope.workspace.canonicalize(path)} != {
        scope.workspace.canonicalize(each) for each in named
    }:
        told = ", ".join(f"`{each}`" for each in sorted(named))
        raise ToolError(f"the suggestion is for {told}, not for `{path}`", hint="leave out `path`")
    files = {each: scope.workspace.find(each) for each in named}
    sources = {
        each: SourceText.from_bytes(file.data)
        for each, file in files.items()
        if file is not None and not is_binary(file.data)
    }
    edits = [
        FileEdit(
            path=each.path,
            version=file.version,
            source=each.before,
            changes=each.result.changes,
            before=file.data,
            made=each.after,
        )
        for each in accept_batch(suggestion, sources)
        if each.before and each.result and (file := files[each.path])
    ]
    shown = [
        f"Edited `{each.path}` as suggested\n{render_snippet(each.to_source().text, each.changes)}"
        for each in edits
    ]
    return EditPlan(edits=tuple(edits), told="\n\n".join(shown).rstrip())


def offer_suggestions(
    scope: Scope, edits: Sequence[FileEdit], failures: Sequence[EditFailure]
) -> list[EditFailure]:
    """Return the failures of a call as they are told: what they suggest can be accepted from now on.

    Args:
        scope: whose session keeps the suggestions.
        edits: every file that the call edits, with the changes of those edits that could be made.
        failures: why the others could not; ``path`` is as in ``edits``, or empty if there is one file.
    """
    if not any(failure.suggestion for failure in failures):
        return list(failures)
    alone = edits[0].path if len(edits) == 1 else ""
    changed = tuple(_to_file_change(edit) for edit in edits if edit.changes)
    placed = tuple(replace(failure, path=failure.path or alone) for failure in failures)
    refused = refuse(
        {edit.path: edit.source for edit in edits},
        FilesResult(files=changed, failures=placed),
        place=scope.workspace.folder,
    )
    for suggestion in refused.suggestions:
        scope.suggestions.add(suggestion)
    return [
        replace(told, path=failure.path) for told, failure in zip(refused.failures, failures, strict=True)
    ]


def _to_file_change(edit: FileEdit) -> FileChange:
    after = edit.to_source()
    result = Result(text=after.text, changes=edit.changes, matches=(), source=after)
    return FileChange(path=edit.path, before=edit.source, after=after, result=result)


def describe_suggestion(scope: Scope, edit: FileEdit, suggested: Sequence[Change]) -> str:
    """Return what a tool that does not quote the engine says of what was probably meant; empty if nothing.

    Args:
        scope: whose session keeps the suggestion.
        edit: the file, with the changes of those edits that could be made.
        suggested: what was probably meant by the others.
    """
    try:
        changes = ChangeSet.of(len(edit.source.text), suggested)
    except ValueError:  # two of them collide
        return ""
    if not changes:
        return ""
    meant = create_suggestion(edit.source.text, changes)
    failure = EditFailure(index=0, code="not_found", message="", hint="", suggestion=meant)
    (told,) = offer_suggestions(scope, [edit], [failure])
    if told.suggestion is None:
        return ""
    report_refusal([told])
    return render_suggestion(told.suggestion, build_accept_words(scope, edit.path))


def build_accept_words(scope: Scope, path: str, words: FieldNames | None = None) -> FieldNames:
    """Return the words that say how a suggestion for this file, or with none for several, is accepted."""
    words = words or FieldNames()
    if not scope.accepted_by:
        return words
    tool, command = scope.accepted_by
    arguments = {"command": command, "path": path, "suggestion": "{id}"}
    given = json.dumps({name: value for name, value in arguments.items() if value}, ensure_ascii=False)
    return replace(words, accept=f"`{tool}` {given}")
