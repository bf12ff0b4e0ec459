"""The file tool ``search_and_replace``: replaces every match of a text or an expression in one file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from kakite.edit import Change, ChangeSet, Edit, SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.changes.outside_changes import check_lines, get_counted_lines, place_block
from kakite.tools.edit_plan import EditPlan, FileEdit, check_size, require_encodable
from kakite.tools.editor.suggestions import describe_suggestion
from kakite.tools.files.file_tools import PREVIEW, build_parameters, create_writing_file_tool
from kakite.tools.files.read_files import build_line_error
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, decode_text
from kakite.tools.search.regex_search import (
    LfText,
    Pattern,
    SearchDeadline,
    SearchSpec,
    compile_replacement,
    normalize_line_ends,
    run_with_timeout_in_thread,
)
from kakite.tools.text_pages import split_lines
from kakite.tools.toolset import JsonObject, Tool

if TYPE_CHECKING:
    import regex

SEARCH_AND_REPLACE = Tool(
    name="search_and_replace",
    title="Search and replace",
    description=(
        "Replace every occurrence in a file. With use_regex, $1, $<name> and $& in `replace` stand for what "
        "was found, ^ and $ for ends of lines."
    ),
    parameters=build_parameters(
        {
            "path": {"type": "string"},
            "search": {"type": "string"},
            "replace": {"type": "string"},
            "use_regex": {"type": "boolean", "default": False},
            "ignore_case": {"type": "boolean", "default": False},
            "start_line": {"type": "integer", "minimum": 1},
            "end_line": {"type": "integer", "minimum": 1},
            "preview": PREVIEW,
        },
        "path",
        "search",
        "replace",
    ),
    effect="write",
)


def create_search_and_replace_tool(scope: Scope, run: str) -> FunctionTool:
    """Return the tool, working in this scope."""
    return create_writing_file_tool(SEARCH_AND_REPLACE, scope, run, _plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request to replace text in a file."""

    path: str
    wanted: SearchSpec
    replace: str
    first: int | None
    last: int | None


def _plan(scope: Scope, arguments: JsonObject) -> EditPlan:
    path: str = arguments["path"]
    request = _Request(
        path=path,
        wanted=SearchSpec(
            search=arguments["search"],
            is_regex=arguments.get("use_regex", False),
            ignore_case=arguments.get("ignore_case", False),
        ),
        replace=arguments["replace"],
        first=arguments.get("start_line"),
        last=arguments.get("end_line"),
    )
    present = scope.workspace.read(path)
    source = decode_text(present, path)
    require_encodable(source, request.replace, path)
    placed = _relocate(scope, source, request)
    changes, count = run_with_timeout_in_thread(lambda clock: _find_changes(source, placed, clock))
    if request.wanted.is_regex:  # what it replaces was never quoted, and may be another's
        check_lines(scope, path, source.text, changes)
    edit = FileEdit(path=path, version=present.version, source=source, changes=changes, before=present.data)
    if not count:
        told = "\n".join(filter(None, (f"No occurrences found in {path}", _suggest(scope, edit, request))))
        raise ToolError(told, hint=_build_hint(request), code="not_found")
    _check_notebook(edit)
    told = f"Successfully replaced {count} occurrence(s) in {path}{_describe_mode(request)}"
    return EditPlan(edits=(edit,), told=told, tells_diff=True)


def _check_notebook(edit: FileEdit) -> None:
    """Raise ``broken_notebook`` if a notebook would no longer be JSON: no program could open it."""
    if not edit.path.lower().endswith(".ipynb") or not _is_json(edit.source.text):
        return
    if not _is_json(edit.to_source().text):
        raise ToolError(
            f"nothing was done: `{edit.path}` would no longer be valid JSON",
            hint="edit the text of the cell with `text_editor`, which writes the JSON",
            code="broken_notebook",
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _suggest(scope: Scope, edit: FileEdit, request: _Request) -> str:
    """Return what was probably meant by a text that stands nowhere to the letter, if that is clear."""
    from kakite.edit import apply

    wanted = request.wanted
    if wanted.is_regex or wanted.ignore_case or request.first is not None or request.last is not None:
        return ""
    result = apply(edit.source, [Edit(search=wanted.search, replace=request.replace)], partial=True)
    if not result.failures:
        return describe_suggestion(scope, edit, result.changes.changes)
    suggestion = result.failures[0].suggestion
    if suggestion is None or suggestion.is_loss:
        return ""
    return describe_suggestion(scope, edit, suggestion.changes.changes)


def _relocate(scope: Scope, source: SourceText, request: _Request) -> _Request:
    """Return the request with the lines that it names where they are now."""
    first, last = request.first, request.last
    count = len(get_counted_lines(scope, request.path, source.text))
    start, end = (first or 1) - 1, min(last or count, count)
    if (first is None and last is None) or start >= end:
        return request
    low, _ = place_block(scope, request.path, source.text, (start, start + 1))
    _, high = place_block(scope, request.path, source.text, (end - 1, end))
    return replace(request, first=first and low + 1, last=last and high)


def _find_changes(source: SourceText, request: _Request, clock: SearchDeadline) -> tuple[ChangeSet, int]:
    """Return the changes and how many places they are. Runs in a worker thread."""
    pattern = Pattern(request.wanted, clock)
    replacing = _build_replacer(request, pattern)
    folded = LfText.of(source.text)
    start, end = _find_span(folded.text, request)
    changes: list[Change] = []
    length = len(source.text)
    for found in pattern.find(folded.text, start, end):
        at, to = folded.to_original_offset(found.start()), folded.to_original_offset(found.end())
        text = replacing(found)
        if "\n" in text and "\r" in source.text:
            text = text.replace("\n", source.find_line_end(at))
        length += len(text) - (to - at)
        check_size(request.path, length)
        changes.append(Change(at, to, text))
    kept = (change for change in changes if source.text[change.start : change.end] != change.insert)
    return ChangeSet.of(len(source.text), kept), len(changes)


def _build_replacer(request: _Request, pattern: Pattern) -> Callable[[regex.Match[str]], str]:
    replace = normalize_line_ends(request.replace)
    if request.wanted.is_regex:
        return compile_replacement(replace, pattern.groups, request.path)
    return lambda _found: replace


def _find_span(text: str, request: _Request) -> tuple[int, int]:
    """Return the offsets of the lines that are searched."""
    if request.first is None and request.last is None:
        return 0, len(text)
    starts = [0, *accumulate(len(line) for line in split_lines(text))]
    first, last = request.first or 1, request.last or len(starts)
    if first >= len(starts) and first > 1:
        raise build_line_error(first, len(starts) - 1)
    if last < first:
        raise ToolError(f"end_line {last} lies before start_line {first}", code="line_out_of_range")
    return starts[first - 1], starts[min(last, len(starts) - 1)]


def _describe_mode(request: _Request) -> str:
    how = " using regex pattern" if request.wanted.is_regex else ""
    if request.wanted.ignore_case:
        how += " (case-insensitive)"
    if request.first is not None and request.last is not None:
        return f"{how} (lines {request.first}-{request.last})"
    if request.first is not None:
        return f"{how} (from line {request.first})"
    return how if request.last is None else f"{how} (up to line {request.last})"


def _build_hint(request: _Request) -> str:
    tries = [] if request.wanted.ignore_case else ["`ignore_case`"]
    tries += [] if request.wanted.is_regex else ["part of the text"]
    tries += ["all lines"] if request.first is not None or request.last is not None else []
    return f"nothing was changed; read the file, or try {', or '.join(tries) or 'another expression'}"
