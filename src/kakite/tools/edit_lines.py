"""The tool ``edit_lines``: lines named by the anchors that a view shows, instead of being quoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kakite.edit import Change, ChangeSet, SourceText
from kakite.tools.accepting import describe_meant
from kakite.tools.anchors import TOP, Anchor, anchored
from kakite.tools.arguments import ToolError
from kakite.tools.changed import counted_lines, merged, place_block, place_gap
from kakite.tools.copied import check_no_anchors
from kakite.tools.edits import FileEdit, Plan, carry_out, encodable, insertion
from kakite.tools.file_tools import PREVIEW, parameters
from kakite.tools.line_diff import LineDiff, Span, blocks_of
from kakite.tools.listing import shown, split_lines
from kakite.tools.offers import Offer
from kakite.tools.scope import Scope, text_of
from kakite.tools.seen import Sight
from kakite.tools.threads import threaded
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import Author

EDITS_MOST = 200  # in one call
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
    parameters=parameters(
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
                "maxItems": EDITS_MOST,
            },
            "preview": PREVIEW,
        },
        "path",
        "edits",
    ),
    effect="write",
)


def edit_lines(scope: Scope, run: str) -> Offer:
    """Return the tool, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        def plan() -> Plan:
            return _plan(scope, arguments["path"], arguments["edits"])

        preview = bool(arguments.get("preview", False))
        by = Author(tool=EDIT_LINES.name, run=run)
        return carry_out(scope, plan, paths=[arguments["path"]], by=by, preview=preview)

    return Offer(EDIT_LINES, threaded(perform, scope.turns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
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


def _plan(scope: Scope, path: str, given: Sequence[JsonObject]) -> Plan:
    wanted = [_wanted(each) for each in given]
    present = scope.read(path)
    source = text_of(present, path)
    lines = split_lines(source.text)
    counted = counted_lines(scope, path, source.text)
    for each in wanted:
        encodable(source, each.text, path)
        check_no_anchors(each.text)
    edit = FileEdit(
        path=path, version=present.version, source=source, changes=ChangeSet(0), before=present.data
    )
    lost = [
        anchor
        for each in wanted
        for anchor in each.anchors
        if not anchor.stands_in(counted) and not anchor.stands_in(lines)
    ]
    if lost:
        raise _refusal(scope, edit, wanted, lost)
    known = scope.sight(path)
    try:
        spans = [_span(scope, path, source, counted, each) for each in wanted]
    except ToolError as error:
        if error.code != "changed_since_read" or known is None:
            raise
        raise _suggesting(scope, edit, wanted, known, error) from error
    edit = _edited(edit, spans, wanted)
    if not edit.changes:
        return Plan(edits=(edit,), told=f"Nothing to change: `{path}` has just these lines already")
    count = len(wanted)
    told = f"Edited `{path}`, {count} edit{'s' * (count > 1)}"
    return Plan(edits=(edit,), told=f"{told}\n{_around(edit)}".rstrip())


def _wanted(given: JsonObject) -> _Wanted:
    after, first = given.get("after"), given.get("first")
    if (after is None) == (first is None) or (after is not None and given.get("last") is not None):
        raise ToolError(
            "an edit has either `first`, and `last` if there are several lines, or `after`: nothing was done"
        )
    if after is not None:
        anchor = None if after.strip() in {TOP, ""} else _anchor(after)
        return _Wanted(first=anchor, last=None, text=given["text"], is_insertion=True)
    begin, end = _anchor(first or ""), _anchor(given.get("last") or first or "")
    if end.number < begin.number:
        raise ToolError(f"`last` {end} stands above `first` {begin}: nothing was done")
    return _Wanted(first=begin, last=end, text=given["text"], is_insertion=False)


def _anchor(written: str) -> Anchor:
    anchor = Anchor.parse(written)
    if anchor is None:
        raise ToolError(
            f"`{shown(written, 60)}` is no anchor: nothing was done",
            hint="an anchor is what stands before a line where the file is shown, as `12:abc`; view the file",
        )
    return anchor


def _span(scope: Scope, path: str, source: SourceText, counted: Sequence[str], wanted: _Wanted) -> Span:
    """Return which lines of the file as it is now an edit replaces, or the place where it inserts.

    The letters tell which numbers are meant: those that were shown, or those of now.
    """
    is_old = all(anchor.stands_in(counted) for anchor in wanted.anchors)
    if wanted.is_insertion:
        after = wanted.first.number if wanted.first else 0
        place = place_gap(scope, path, source.text, after, behind=True) if is_old else after
        return place, place
    first, last = wanted.first, wanted.last
    if first is None or last is None:
        raise AssertionError("what is replaced has a first and a last line")
    block = (first.number - 1, last.number)
    return place_block(scope, path, source.text, block) if is_old else block


def _edited(edit: FileEdit, spans: Sequence[Span], wanted: Sequence[_Wanted]) -> FileEdit:
    source = edit.source
    lines = split_lines(source.text)
    changes = [_change(source, lines, span, each) for span, each in zip(spans, wanted, strict=True)]
    try:
        together = ChangeSet.of(len(source.text), changes)
    except ValueError as error:
        told = "two of the edits change the same lines: nothing was done"
        raise ToolError(told, hint="join them into one", code="overlap") from error
    return FileEdit(
        path=edit.path,
        version=edit.version,
        source=source,
        changes=ChangeSet.of(len(source.text), (each.narrowed(source.text) for each in together.changes)),
        before=edit.before,
    )


def _change(source: SourceText, lines: list[str], span: Span, wanted: _Wanted) -> Change:
    if wanted.is_insertion:
        return insertion(source, lines, span[0], wanted.text)
    start = sum(map(len, lines[: span[0]]))
    old = "".join(lines[slice(*span)])
    if not wanted.text:
        return Change(start, start + len(old), "")
    end = source.line_end_at(start)
    new = end.join(line.rstrip("\r\n") for line in split_lines(wanted.text))
    last = lines[span[1] - 1]
    return Change(start, start + len(old), new + last[len(last.rstrip("\r\n")) :])


def _around(edit: FileEdit) -> str:
    """Return the new lines of the edits and some around them, each after its anchor."""
    lines = split_lines(edit.after().text)
    numbers = {
        number
        for _, (start, end) in blocks_of(edit.changes, edit.source.text)
        for number in range(max(start - CONTEXT, 0), min(max(end, start + 1) + CONTEXT, len(lines)))
    }
    told: list[str] = []
    for count, number in enumerate(sorted(numbers)):
        if count == LINES_SHOWN:
            return "\n".join([*told, "… view the file for the anchors of the other lines"])
        if told and number - 1 not in numbers:
            told.append("…")
        told.append(anchored(number + 1, lines[number], shown(lines[number])))
    return "\n".join(told)


def _refusal(scope: Scope, edit: FileEdit, wanted: Sequence[_Wanted], lost: Sequence[Anchor]) -> ToolError:
    """Return the refusal of anchors whose lines changed: with the lines that are there, and what is meant."""
    lines = split_lines(edit.source.text)
    parts: list[str] = []
    for anchor in dict.fromkeys(lost):
        moved = anchor.moved_to(lines)
        where = f"; a line with these letters is {moved}" if moved else ""
        parts.append(f"`{edit.path}` has no line {anchor} any more{where}. Around it there is now:")
        at = min(moved.number if moved else anchor.number, len(lines))
        near = range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)
        parts += [anchored(number, lines[number - 1], shown(lines[number - 1])) for number in near]
    meant = _meant(edit, wanted, lines)
    told = describe_meant(scope, edit, meant.changes.changes) if meant else ""
    return ToolError(
        "\n".join([*parts, *([told] if told else [])]),
        hint="nothing was written; send the edits again with anchors of the lines as they are now",
        code="anchor_changed",
    )


def _suggesting(
    scope: Scope, edit: FileEdit, wanted: Sequence[_Wanted], known: Sight, refused: ToolError
) -> ToolError:
    """Return the refusal of edits whose lines others changed, with what they are for the lines of now."""
    changes = [change for each in wanted for change in _fitted(edit.source, known, each)]
    told = describe_meant(scope, edit, changes)
    way = "accept the suggestion, or " if told else "view the lines, and "
    return ToolError(
        "\n".join(filter(None, [refused.message, told])),
        hint=f"{way}send the edits again with anchors of the lines as they are now",
        code=refused.code,
    )


def _fitted(source: SourceText, known: Sight, wanted: _Wanted) -> Sequence[Change]:
    """Return an edit merged with what others changed in its lines; where they clash, in place of these."""
    lines = split_lines(source.text)
    diff = LineDiff(known.counted, source.text, known.layout)
    first = wanted.first.number if wanted.first else 0
    span = (
        (first, first) if wanted.is_insertion else (first - 1, wanted.last.number if wanted.last else first)
    )
    if not all(anchor.stands_in(diff.old_lines) for anchor in wanted.anchors):
        return [_change(source, lines, span, wanted)]  # it names lines of now
    if wanted.is_insertion:
        place = diff.region(first - 1, first)[1] if first else 0
        return [_change(source, lines, (place, place), wanted)]
    old = _change(SourceText(diff.old), diff.old_lines, span, wanted)
    block = LineDiff(diff.old[old.start : old.end], old.insert)
    own = [
        Change(old.start + each.start, old.start + each.end, each.insert) for each in block.changes().changes
    ]
    together = merged(diff, own)
    if together is not None:
        return together.changes
    low, high = diff.region(*span)
    if low < high:
        return [_change(source, lines, (low, high), wanted).narrowed(source.text)]
    return [insertion(source, lines, low, wanted.text)] if wanted.text else []


def _meant(edit: FileEdit, wanted: Sequence[_Wanted], lines: list[str]) -> FileEdit | None:
    """Return the edits at the lines where their anchors went, if each of them went to one alone."""
    spans: list[Span] = []
    for each in wanted:
        places = [anchor if anchor.stands_in(lines) else anchor.moved_to(lines) for anchor in each.anchors]
        numbers = [place.number for place in places if place]
        if len(numbers) < len(places) or numbers != sorted(numbers):
            return None
        if each.first and each.last and numbers[-1] - numbers[0] != each.last.number - each.first.number:
            return None
        after = numbers[0] if numbers else 0
        spans.append((after, after) if each.is_insertion else (numbers[0] - 1, numbers[-1]))
    try:
        return _edited(edit, spans, wanted)
    except ToolError:
        return None
