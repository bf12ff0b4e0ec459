"""The file tool ``apply_diffs``: replaces blocks of whole lines, each at the line that the call names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from kakite.edit import Change, ChangeSet, Edit, EditError, SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.changes.outside_changes import get_counted_lines, place_block
from kakite.tools.edit_plan import EditPlan, FileEdit
from kakite.tools.editor.suggestions import describe_suggestion
from kakite.tools.files.file_tools import (
    PREVIEW,
    as_list,
    build_one_or_more_schema,
    build_parameters,
    create_writing_file_tool,
)
from kakite.tools.files.read_files import describe_missing_line
from kakite.tools.files.write_files import count_lines
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, decode_text
from kakite.tools.text_pages import split_lines
from kakite.tools.toolset import JsonObject, Tool

LINE_QUOTED = 100  # characters
PLACES_NAMED = 8
_ELSEWHERE = frozenset({"not_at_line", "not_found", "line_out_of_range"})
"""Why a block may be meant for another line."""

APPLY_DIFFS = Tool(
    name="apply_diffs",
    title="Replace blocks of lines",
    description=(
        "Replace whole lines of a file. search_content must stand exactly at start_line, counted in the "
        "file as it is now. An empty replace_content deletes the lines."
    ),
    parameters=build_parameters(
        {
            "path": {"type": "string"},
            "search_content": build_one_or_more_schema("string"),
            "replace_content": build_one_or_more_schema("string"),
            "start_line": build_one_or_more_schema("integer"),
            "atomic": {"type": "boolean", "default": True, "description": "all diffs or none"},
            "trim": {
                "type": "boolean",
                "default": False,
                "description": "compare without the blanks around each line",
            },
            "preview": PREVIEW,
        },
        "path",
        "search_content",
        "replace_content",
        "start_line",
    ),
    effect="write",
)


def create_apply_diffs_tool(scope: Scope, run: str) -> FunctionTool:
    """Return the tool, working in this scope."""
    return create_writing_file_tool(APPLY_DIFFS, scope, run, _plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Diff:
    """One block and what it becomes."""

    search: str
    replace: str
    line: int

    @property
    def old(self) -> list[str]:
        """The lines to find. A line end at the end of a block ends its last line."""
        return _strip_line_ends(self.search) or [""]

    @property
    def new(self) -> list[str]:
        """The lines to put there: none for an empty text."""
        lines = _strip_line_ends(self.replace)
        if self.replace.endswith(("\n", "\r")) and not self.search.endswith(("\n", "\r")):
            lines.append("")  # exactly as given: the block's own line end stays behind what replaces it
        return lines

    @property
    def last(self) -> int:
        """The number of the last line of the block."""
        return self.line + len(self.old) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """A reason why a diff cannot be applied."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A file's text and its lines, as they are compared."""

    source: SourceText
    lines: list[str]
    """With their ends."""
    starts: list[int]
    trim: bool

    @property
    def compared(self) -> list[str]:
        return [self.fold(line) for line in self.lines]

    def fold(self, line: str) -> str:
        return _fold_line(line, trim=self.trim)


def _plan(scope: Scope, arguments: JsonObject) -> EditPlan:
    path: str = arguments["path"]
    asked = _parse_diffs(arguments)
    present = scope.workspace.read(path)
    source = decode_text(present, path)
    trim: bool = arguments.get("trim", False)
    diffs = [_relocate(scope, path, source, each, trim=trim) for each in asked]
    lines = split_lines(source.text)
    starts = [0, *accumulate(len(line) for line in lines)]
    text = _Text(source=source, lines=lines, starts=starts, trim=trim)
    problems = _find_problems(text, diffs)
    atomic: bool = arguments.get("atomic", True)
    is_batch = not isinstance(arguments["search_content"], str)
    kept = [diff for index, diff in enumerate(diffs) if index not in problems]
    changes = ChangeSet.of(len(source.text), [_build_change(text, diff).narrow(source.text) for diff in kept])
    edit = FileEdit(path=path, version=present.version, source=source, changes=changes, before=present.data)
    if problems and (atomic or len(problems) == len(diffs)):
        refused = _build_refusal(path, diffs, problems, atomic=atomic, is_batch=is_batch)
        suggested = _suggest(scope, text, diffs, problems, edit)
        refused.message += f"\n{suggested}" if suggested else ""
        raise refused
    total = f"File now has {count_lines(edit.to_source().text)} lines."
    if not is_batch:
        replaced = _describe_replacement(diffs[0])
        told = f"Successfully applied diff to {path}: {replaced[0].lower()}{replaced[1:]}. {total}"
        return EditPlan(edits=(edit,), told=told, tells_diff=True)
    head = (
        f"Batch diff operation ({'atomic' if atomic else 'non-atomic'}) completed: "
        f"{len(kept)}/{len(diffs)} diffs applied successfully to {path}. {total}"
    )
    told = f"{head}\n\n{_format_details(diffs, problems)}"
    return EditPlan(edits=(edit,), told=told, tells_diff=True)


def _relocate(scope: Scope, path: str, source: SourceText, diff: _Diff, *, trim: bool) -> _Diff:
    """Return the diff at the line where its block is now, if it stands at its line in what the model saw."""
    counted = get_counted_lines(scope, path, source.text)[max(0, diff.line - 1) : max(0, diff.last)]
    if [_fold_line(line, trim=trim) for line in counted] != [
        _fold_line(line, trim=trim) for line in diff.old
    ]:
        return diff
    return replace(diff, line=place_block(scope, path, source.text, (diff.line - 1, diff.last))[0] + 1)


def _fold_line(line: str, *, trim: bool) -> str:
    return line.strip() if trim else line.rstrip("\r\n")


def _parse_diffs(arguments: JsonObject) -> list[_Diff]:
    given = [as_list(arguments[name]) for name in ("search_content", "replace_content", "start_line")]
    if len({len(values) for values in given}) > 1:
        raise ToolError(
            "Array lengths for search_content, replace_content, and start_line must match",
            hint=f"they have {', '.join(str(len(values)) for values in given)} elements",
        )
    return [_Diff(search=old, replace=new, line=line) for old, new, line in zip(*given, strict=True)]


def _find_problems(text: _Text, diffs: list[_Diff]) -> dict[int, _Problem]:
    """Return what is wrong with which diff, by its index."""
    compared = text.compared
    problems: dict[int, _Problem] = {}
    taken: list[tuple[int, _Diff]] = []
    for index, diff in enumerate(diffs):
        problem = (
            _find_mismatch(text, compared, diff)
            or _find_overlap(diff, taken)
            or _find_unencodable(text, diff)
        )
        if problem:
            problems[index] = problem
        else:
            taken.append((index, diff))
    return problems


def _find_mismatch(text: _Text, compared: list[str], diff: _Diff) -> _Problem | None:
    old = [text.fold(line) for line in diff.old]
    if diff.line >= 1 and compared[diff.line - 1 : diff.last] == old:
        return None
    places = _find_occurrences(compared, old)
    hint = _describe_occurrences(places) or _describe_similar(text, diff)
    if not 1 <= diff.line <= len(compared):
        message = describe_missing_line(diff.line, len(compared))
        return _Problem(code="line_out_of_range", message=message, hint=hint)
    code = "not_at_line" if places else "not_found"
    return _Problem(code=code, message=_describe_difference(text, diff), hint=hint)


def _find_occurrences(compared: list[str], old: list[str]) -> list[int]:
    """Return the numbers of the lines where the block stands."""
    first = [at for at, line in enumerate(compared) if line == old[0]]
    return [at + 1 for at in first if compared[at : at + len(old)] == old]


def _suggest(
    scope: Scope, text: _Text, diffs: list[_Diff], problems: dict[int, _Problem], edit: FileEdit
) -> str:
    """Return what was probably meant by all diffs together; empty where that is not clear for each."""
    meant: list[Change] = []
    for index, problem in problems.items():
        changes = _find_meant_changes(text, diffs[index]) if problem.code in _ELSEWHERE else ()
        if not changes:
            return ""
        meant += changes
    return describe_suggestion(scope, edit, meant)


def _find_meant_changes(text: _Text, diff: _Diff) -> tuple[Change, ...]:
    """Return what a diff would change where its block stands, if that is clear."""
    from kakite.edit import apply

    places = _find_occurrences(text.compared, [text.fold(line) for line in diff.old])
    if places:
        moved = [_build_change(text, replace(diff, line=place)).narrow(text.source.text) for place in places]
        return tuple(moved) if len(moved) == 1 else ()
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (diff.old, diff.new))
    result = apply(text.source, [Edit(search=old, replace=new, line=diff.line)], partial=True)
    if not result.failures:
        return result.changes.changes
    suggestion = result.failures[0].suggestion
    return suggestion.changes.changes if suggestion and not suggestion.is_loss else ()


def _describe_occurrences(places: list[int]) -> str:
    if not places:
        return ""
    if len(places) == 1:
        return f"search_content stands at line {places[0]}: send start_line {places[0]}"
    named = ", ".join(str(place) for place in places[:PLACES_NAMED])
    more = ", …" if len(places) > PLACES_NAMED else ""
    return f"search_content stands at lines {named}{more}: send the start_line that you mean"


def _describe_similar(text: _Text, diff: _Diff) -> str:
    """Return what in the file resembles the block most, as the engine tells it."""
    from kakite.edit import apply

    try:
        result = apply(text.source, [Edit(search=diff.search, replace=f"{diff.search}\0", line=diff.line)])
    except EditError as error:
        failure = error.failures[0]
        near = failure.candidates[0].line if failure.candidates else failure.line
        return (
            f"the most similar lines begin at line {near}: read them again" if near else "read the file again"
        )
    match = result.matches[0]
    differing = ", ".join(match.forgiven) or match.level
    return f"at line {match.line} the text differs in {differing}; copy it exactly"


def _describe_difference(text: _Text, diff: _Diff) -> str:
    found = text.lines[diff.line - 1 : diff.last]
    for at, sent in enumerate(diff.old):
        number = diff.line + at
        if at >= len(found):
            return f"Content mismatch at line {number}: the file ends before it, expected {_quote(sent)}"
        if text.fold(found[at]) != text.fold(sent):
            there = _quote(found[at])
            return f"Content mismatch at line {number}: expected {_quote(sent)}, the file has {there}"
    raise AssertionError("a block that matches is no mismatch")


def _quote(line: str) -> str:
    return f"`{line.rstrip(chr(10) + chr(13))[:LINE_QUOTED]}`"


def _find_overlap(diff: _Diff, taken: list[tuple[int, _Diff]]) -> _Problem | None:
    for index, other in taken:
        if diff.line <= other.last and other.line <= diff.last:
            return _Problem(
                code="overlap",
                message=f"Overlaps diff {index + 1}, which replaces lines {other.line}-{other.last}",
                hint="join the two into one diff",
            )
    return None


def _find_unencodable(text: _Text, diff: _Diff) -> _Problem | None:
    character = text.source.find_unencodable(diff.replace)
    if not character:
        return None
    message = f"The file is {text.source.encoding} and cannot hold {character!a}"
    return _Problem(code="not_encodable", message=message, hint="write it with characters of that encoding")


def _build_change(text: _Text, diff: _Diff) -> Change:
    start, new = text.starts[diff.line - 1], diff.new
    if not new:
        return Change(start, text.starts[diff.last], "")
    ends = [line[len(line.rstrip("\r\n")) :] for line in text.lines[diff.line - 1 : diff.last]]
    in_force = text.source.find_line_end(start)
    joined = "".join(
        line + ((ends[at] if at < len(ends) - 1 else "") or in_force) for at, line in enumerate(new[:-1])
    )
    return Change(start, text.starts[diff.last] - len(ends[-1]), joined + new[-1])


def _describe_replacement(diff: _Diff) -> str:
    old, grown = len(diff.old), len(diff.new) - len(diff.old)
    changed = "" if not grown else f" ({'added' if grown > 0 else 'removed'} {abs(grown)} line(s))"
    return f"Replaced {old} line(s) at line {diff.line}{changed}"


def _build_refusal(
    path: str, diffs: list[_Diff], problems: dict[int, _Problem], *, atomic: bool, is_batch: bool
) -> ToolError:
    first = problems[min(problems)]
    if not is_batch:
        return ToolError(f"{path}: {first.message}", hint=first.hint, code=first.code)
    if atomic:
        head = f"Atomic operation failed: {len(problems)}/{len(diffs)} diffs would fail. No changes applied."
    else:
        head = f"None of the {len(diffs)} diffs could be applied to {path}. No changes applied."
    return ToolError(f"{head}\n\n{_format_details(diffs, problems, aborted=True)}", code=first.code)


def _format_details(diffs: list[_Diff], problems: dict[int, _Problem], *, aborted: bool = False) -> str:
    blocks = ["Detailed results:"]
    for index, diff in enumerate(diffs):
        problem = problems.get(index)
        status = "fail" if problem else "aborted" if aborted else "success"
        message = (
            _format_problem(problem) if problem else "Not applied" if aborted else _describe_replacement(diff)
        )
        blocks.append(
            f"Diff {index + 1}:\n  Status: {status}\n  Start Line: {diff.line}\n  Message: {message}"
        )
    return "\n\n".join(blocks)


def _format_problem(problem: _Problem) -> str:
    return f"{problem.message}\n  Hint: {problem.hint}" if problem.hint else problem.message


def _strip_line_ends(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in split_lines(text)]
