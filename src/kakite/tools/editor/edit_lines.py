"""The tool ``edit_lines``: edits lines named by the anchors that a view shows, instead of quoting them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from kakite.edit import Change, ChangeSet, SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.changes.line_diff import LineDiff, Span, find_changed_blocks
from kakite.tools.changes.outside_changes import get_counted_lines, merge_changes, place_block, place_gap
from kakite.tools.changes.seen_content import SeenContent
from kakite.tools.edit_plan import EditPlan, FileEdit, apply_plan, build_insertion, require_encodable
from kakite.tools.editor.anchors import TOP, Anchor, check_no_anchors, format_anchored_line
from kakite.tools.editor.suggestions import describe_suggestion
from kakite.tools.files.file_tools import PREVIEW, build_parameters
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, decode_text
from kakite.tools.text_pages import split_lines, truncate_line
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import wrap_in_thread
from kakite.workspace import Author

MAX_EDITS = 200  # in one call
CONTEXT = 2  # lines shown around an edit
LINES_SHOWN = 60
AROUND = 3  # lines shown around an anchor that is not there any more

EDIT_LINES = Tool(
    name="edit_lines",
    title="Edit lines",
    description=(
        "Change lines of a file, named by the anchors that stand before each line where a file is shown "
        '(`12:abc`). Lines `first` to `last` become `text` ("" deletes them), or `text` goes in after the '
        "line `after` (0: at the top). All edits or none; anchors are those from before the call."
    ),
    parameters=build_parameters(
        {
            "path": {"type": "string"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "first": {"type": "string"},
                        "last": {"type": "string", "description": "left out: `first` alone"},
                        "after": {"type": "string"},
                        "text": {"type": "string", "description": "whole lines, without anchors"},
                    },
                    "required": ["text"],
                    "additionalProperties": False,
                },
                "minItems": 1,
                "maxItems": MAX_EDITS,
            },
            "preview": PREVIEW,
        },
        "path",
        "edits",
    ),
    effect="write",
)


def create_edit_lines_tool(scope: Scope, run: str) -> FunctionTool:
    """Return the tool, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        plan = partial(_plan, scope, arguments["path"], arguments["edits"])
        preview = bool(arguments.get("preview", False))
        by = Author(tool=EDIT_LINES.name, run=run)
        return apply_plan(scope, plan, paths=[arguments["path"]], by=by, preview=preview)

    return FunctionTool(EDIT_LINES, wrap_in_thread(perform, scope.turns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LineEdit:
    """One edit, as it was asked for."""

    first: Anchor | None
    """None: at the top."""
    last: Anchor | None
    text: str
    is_insertion: bool

    @property
    def anchors(self) -> list[Anchor]:
        """The lines that it names."""
        return [each for each in dict.fromkeys((self.first, self.last)) if each]


def _plan(scope: Scope, path: str, given: Sequence[JsonObject]) -> EditPlan:
    wanted = [_parse_edit(each) for each in given]
    present = scope.workspace.read(path)
    source = decode_text(present, path)
    lines = split_lines(source.text)
    counted = get_counted_lines(scope, path, source.text)
    for each in wanted:
        require_encodable(source, each.text, path)
        check_no_anchors(each.text)
    edit = FileEdit(
        path=path, version=present.version, source=source, changes=ChangeSet(0), before=present.data
    )
    lost = [
        anchor
        for each in wanted
        for anchor in each.anchors
        if not anchor.matches(counted) and not anchor.matches(lines)
    ]
    if lost:
        raise _build_refusal(scope, edit, wanted, lost)
    known = scope.get_seen(path)
    try:
        spans = [_locate_edit(scope, path, source, counted, each) for each in wanted]
    except ToolError as error:
        if error.code != "changed_since_read" or known is None:
            raise
        raise _add_suggestion(scope, edit, wanted, known, error) from error
    edit = _build_file_edit(edit, spans, wanted)
    if not edit.changes:
        return EditPlan(edits=(edit,), told=f"Nothing to change: `{path}` has just these lines already")
    count = len(wanted)
    told = f"Edited `{path}`, {count} edit{'s' * (count > 1)}"
    return EditPlan(edits=(edit,), told=f"{told}\n{_render_context(edit)}".rstrip())


def _parse_edit(given: JsonObject) -> _LineEdit:
    after, first = given.get("after"), given.get("first")
    if (after is None) == (first is None) or (after is not None and given.get("last") is not None):
        raise ToolError(
            "an edit has either `first`, and `last` if there are several lines, or `after`: nothing was done"
        )
    if after is not None:
        anchor = None if after.strip() in {TOP, ""} else _parse_anchor(after)
        return _LineEdit(first=anchor, last=None, text=given["text"], is_insertion=True)
    begin, end = _parse_anchor(first or ""), _parse_anchor(given.get("last") or first or "")
    if end.number < begin.number:
        raise ToolError(f"`last` {end} stands above `first` {begin}: nothing was done")
    return _LineEdit(first=begin, last=end, text=given["text"], is_insertion=False)


def _parse_anchor(written: str) -> Anchor:
    anchor = Anchor.parse(written)
    if anchor is None:
        raise ToolError(
            f"`{truncate_line(written, 60)}` is not an anchor: nothing was done",
            hint="an anchor is what stands before a line where the file is shown, as `12:abc`; view the file",
        )
    return anchor


def _locate_edit(
    scope: Scope, path: str, source: SourceText, counted: Sequence[str], wanted: _LineEdit
) -> Span:
    """Return which lines of the file as it is now an edit replaces, or the place where it inserts.

    The letters tell which numbers are meant: those that were shown, or those of now.
    """
    is_old = all(anchor.matches(counted) for anchor in wanted.anchors)
    if wanted.is_insertion:
        after = wanted.first.number if wanted.first else 0
        place = place_gap(scope, path, source.text, after, behind=True) if is_old else after
        return place, place
    first, last = wanted.first, wanted.last
    if first is None or last is None:
        raise AssertionError("what is replaced has a first and a last line")
    block = (first.number - 1, last.number)
    return place_block(scope, path, source.text, block) if is_old else block


def _build_file_edit(edit: FileEdit, spans: Sequence[Span], wanted: Sequence[_LineEdit]) -> FileEdit:
    source = edit.source
    lines = split_lines(source.text)
    changes = [_build_change(source, lines, span, each) for span, each in zip(spans, wanted, strict=True)]
    try:
        together = ChangeSet.of(len(source.text), changes)
    except ValueError as error:
        told = "two of the edits change the same lines: nothing was done"
        raise ToolError(told, hint="join them into one", code="overlap") from error
    return FileEdit(
        path=edit.path,
        version=edit.version,
        source=source,
        changes=ChangeSet.of(len(source.text), (each.narrow(source.text) for each in together.changes)),
        before=edit.before,
    )


def _build_change(source: SourceText, lines: list[str], span: Span, wanted: _LineEdit) -> Change:
    if wanted.is_insertion:
        return build_insertion(source, lines, span[0], wanted.text)
    start = sum(map(len, lines[: span[0]]))
    old = "".join(lines[slice(*span)])
    if not wanted.text:
        return Change(start, start + len(old), "")
    end = source.find_line_end(start)
    new = end.join(line.rstrip("\r\n") for line in split_lines(wanted.text))
    last = lines[span[1] - 1]
    return Change(start, start + len(old), new + last[len(last.rstrip("\r\n")) :])


def _render_context(edit: FileEdit) -> str:
    """Return the new lines of the edits and some around them, each after its anchor."""
    lines = split_lines(edit.to_source().text)
    numbers = {
        number
        for _, (start, end) in find_changed_blocks(edit.changes, edit.source.text)
        for number in range(max(start - CONTEXT, 0), min(max(end, start + 1) + CONTEXT, len(lines)))
    }
    told: list[str] = []
    for count, number in enumerate(sorted(numbers)):
        if count == LINES_SHOWN:
            return "\n".join([*told, "… view the file for the anchors of the other lines"])
        if told and number - 1 not in numbers:
            told.append("…")
        told.append(format_anchored_line(number + 1, lines[number], truncate_line(lines[number])))
    return "\n".join(told)


def _build_refusal(
    scope: Scope, edit: FileEdit, wanted: Sequence[_LineEdit], lost: Sequence[Anchor]
) -> ToolError:
    """Return the refusal of anchors whose lines changed: with the lines that are there, and what is meant."""
    lines = split_lines(edit.source.text)
    parts: list[str] = []
    for anchor in dict.fromkeys(lost):
        moved = anchor.find_moved(lines)
        where = f"; a line with these letters is {moved}" if moved else ""
        parts.append(f"`{edit.path}` has no line {anchor} any more{where}. Around it there is now:")
        at = min(moved.number if moved else anchor.number, len(lines))
        near = range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)
        parts += [
            format_anchored_line(number, lines[number - 1], truncate_line(lines[number - 1]))
            for number in near
        ]
    meant = _follow_moved_anchors(edit, wanted, lines)
    told = describe_suggestion(scope, edit, meant.changes.changes) if meant else ""
    return ToolError(
        "\n".join([*parts, *([told] if told else [])]),
        hint="nothing was written; send the edits again with anchors of the lines as they are now",
        code="anchor_changed",
    )


def _add_suggestion(
    scope: Scope, edit: FileEdit, wanted: Sequence[_LineEdit], known: SeenContent, refused: ToolError
) -> ToolError:
    """Return the refusal of edits whose lines others changed, with what they are for the lines of now."""
    changes = [change for each in wanted for change in _merge_edit(edit.source, known, each)]
    told = describe_suggestion(scope, edit, changes)
    way = "accept the suggestion, or " if told else "view the lines, and "
    return ToolError(
        "\n".join(filter(None, [refused.message, told])),
        hint=f"{way}send the edits again with anchors of the lines as they are now",
        code=refused.code,
    )


def _merge_edit(source: SourceText, known: SeenContent, wanted: _LineEdit) -> Sequence[Change]:
    """Return an edit merged with what others changed in its lines; where they clash, in place of these."""
    lines = split_lines(source.text)
    diff = LineDiff(known.counted, source.text, known.layout)
    first = wanted.first.number if wanted.first else 0
    span = (
        (first, first) if wanted.is_insertion else (first - 1, wanted.last.number if wanted.last else first)
    )
    if not all(anchor.matches(diff.old_lines) for anchor in wanted.anchors):
        return [_build_change(source, lines, span, wanted)]  # it names lines of now
    if wanted.is_insertion:
        place = diff.map_region(first - 1, first)[1] if first else 0
        return [_build_change(source, lines, (place, place), wanted)]
    old = _build_change(SourceText(diff.old), diff.old_lines, span, wanted)
    block = LineDiff(diff.old[old.start : old.end], old.insert)
    own = [
        Change(old.start + each.start, old.start + each.end, each.insert)
        for each in block.to_changes().changes
    ]
    together = merge_changes(diff, own)
    if together is not None:
        return together.changes
    low, high = diff.map_region(*span)
    if low < high:
        return [_build_change(source, lines, (low, high), wanted).narrow(source.text)]
    return [build_insertion(source, lines, low, wanted.text)] if wanted.text else []


def _follow_moved_anchors(edit: FileEdit, wanted: Sequence[_LineEdit], lines: list[str]) -> FileEdit | None:
    """Return the edits at the lines where their anchors went, if each of them went to one alone."""
    spans: list[Span] = []
    for each in wanted:
        places = [anchor if anchor.matches(lines) else anchor.find_moved(lines) for anchor in each.anchors]
        numbers = [place.number for place in places if place]
        if len(numbers) < len(places) or numbers != sorted(numbers):
            return None
        if each.first and each.last and numbers[-1] - numbers[0] != each.last.number - each.first.number:
            return None
        after = numbers[0] if numbers else 0
        spans.append((after, after) if each.is_insertion else (numbers[0] - 1, numbers[-1]))
    try:
        return _build_file_edit(edit, spans, wanted)
    except ToolError:
        return None
