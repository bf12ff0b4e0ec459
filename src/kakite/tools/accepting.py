"""What a refused edit suggests: told with an id that one short call accepts, in the session that was told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from kakite.edit import Change, ChangeSet, Failure, Result, SourceText, Words
from kakite.edit.files import FileChange, FilesResult
from kakite.edit.rendering import render_suggestion
from kakite.edit.suggestions import BatchSuggestion, SuggestionGoneError, accept_batch, refuse, suggest
from kakite.tools.arguments import ToolError
from kakite.tools.edits import FileEdit, Plan, carry_out
from kakite.tools.file_tools import PREVIEW, file_tool, fixed_texts, parameters
from kakite.tools.offers import Offer
from kakite.tools.scope import Scope, is_binary
from kakite.tools.snippets import snippet
from kakite.tools.threads import threaded
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import Author

ACCEPT_SUGGESTION = Tool(
    name="accept_suggestion",
    title="Accept a suggestion",
    description="Make the edit that a refusal suggested.",
    parameters=parameters(
        {
            "suggestion": {"type": "string", "description": "its id"},
            "path": {"type": "string"},
            "preview": PREVIEW,
        },
        "suggestion",
    ),
    effect="write",
)


def accept_suggestion(scope: Scope, run: str) -> Offer:
    """Return the file tool that accepts, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        with fixed_texts("File"):
            return accept(scope, arguments, by=Author(tool=ACCEPT_SUGGESTION.name, run=run))

    scope.accepted_by = ACCEPT_SUGGESTION.name, ""
    return file_tool(ACCEPT_SUGGESTION, acceptor(perform, scope))


def acceptor(
    work: Callable[[JsonObject], ToolResult], scope: Scope
) -> Callable[[JsonObject], Awaitable[ToolResult]]:
    """Return what performs a call that accepts in a thread, in its turn at the files of the suggestion."""

    def paths(arguments: JsonObject) -> list[str]:
        try:
            return [file.path for file in scope.suggestions.find(arguments.get("suggestion", "")).files]
        except SuggestionGoneError:
            return []

    return threaded(work, scope.turns, paths)


def accept(scope: Scope, arguments: JsonObject, *, by: Author) -> ToolResult:
    """Make the edit that a refusal suggested, once, or with ``preview`` show it.

    Raises:
        SuggestionGoneError: there is none with this id in this session, or a file changed since.
        ToolError: ``bad_arguments``, where ``path`` is not the file that it is for.
    """
    identity: str = arguments["suggestion"]
    suggestions, preview = scope.suggestions, bool(arguments.get("preview", False))

    def plan() -> Plan:
        return _plan(scope, suggestions.find(identity), arguments.get("path", ""))

    paths = [file.path for file in suggestions.find(identity).files]
    result = carry_out(scope, plan, paths=paths, by=by, preview=preview)
    if not preview and not result.is_error:
        suggestions.remove(identity)
    return result


def _plan(scope: Scope, suggestion: BatchSuggestion, path: str) -> Plan:
    named = {file.path for file in suggestion.files}
    # Whoever lets calls go by the path that they name must not be told another one.
    if path and {scope.identity(path)} != {scope.identity(each) for each in named}:
        told = ", ".join(f"`{each}`" for each in sorted(named))
        raise ToolError(f"the suggestion is for {told}, not for `{path}`", hint="leave out `path`")
    files = {each: scope.find(each) for each in named}
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
        f"Edited `{each.path}` as suggested\n{snippet(each.after().text, each.changes)}" for each in edits
    ]
    return Plan(edits=tuple(edits), told="\n\n".join(shown).rstrip())


def offer_suggestions(scope: Scope, edits: Sequence[FileEdit], failures: Sequence[Failure]) -> list[Failure]:
    """Return the failures of a call as they are told: what they suggest can be accepted from now on.

    Args:
        scope: whose session keeps the suggestions.
        edits: every file that the call edits, with the changes of those edits that could be made.
        failures: why the others could not; ``path`` is as in ``edits``, or empty if there is one file.
    """
    if not any(failure.suggestion for failure in failures):
        return list(failures)
    alone = edits[0].path if len(edits) == 1 else ""
    changed = tuple(_changed(edit) for edit in edits if edit.changes)
    placed = tuple(replace(failure, path=failure.path or alone) for failure in failures)
    refused = refuse(
        {edit.path: edit.source for edit in edits},
        FilesResult(files=changed, failures=placed),
        place=scope.folder,
    )
    for suggestion in refused.suggestions:
        scope.suggestions.add(suggestion)
    return [
        replace(told, path=failure.path) for told, failure in zip(refused.failures, failures, strict=True)
    ]


def _changed(edit: FileEdit) -> FileChange:
    after = edit.after()
    result = Result(text=after.text, changes=edit.changes, matches=(), source=after)
    return FileChange(path=edit.path, before=edit.source, after=after, result=result)


def describe_meant(scope: Scope, edit: FileEdit, suggested: Sequence[Change]) -> str:
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
    meant = suggest(edit.source.text, changes)
    failure = Failure(index=0, code="not_found", message="", hint="", suggestion=meant)
    (told,) = offer_suggestions(scope, [edit], [failure])
    return (
        ""
        if told.suggestion is None
        else render_suggestion(told.suggestion, acceptance_words(scope, edit.path))
    )


def acceptance_words(scope: Scope, path: str, words: Words | None = None) -> Words:
    """Return the words that say how a suggestion for this file, or with none for several, is accepted."""
    words = words or Words()
    if not scope.accepted_by:
        return words
    tool, command = scope.accepted_by
    arguments = {"command": command, "path": path, "suggestion": "{id}"}
    given = json.dumps({name: value for name, value in arguments.items() if value}, ensure_ascii=False)
    return replace(words, accept=f"`{tool}` {given}")
