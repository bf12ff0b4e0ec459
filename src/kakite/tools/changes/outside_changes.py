"""Handles what others changed in a file since the model saw it: edits are fitted to it or refused.

An outside change is always reported. It is never lost silently, and never blocks an edit elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from kakite.edit import Change, ChangeSet, Edit, Result, SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.changes.layouts import find_layout
from kakite.tools.changes.line_diff import DiffHunk, LineDiff, Span, find_changed_lines, is_overlapping
from kakite.tools.changes.seen_content import SeenContent, merge_spans
from kakite.tools.scope import Scope, is_binary
from kakite.tools.text_pages import CHARACTERS_SHOWN, get_line_limit, slice_lines, split_lines
from kakite.workspace import File, FileWrite, UndoPlan

CONTEXT = 2  # lines shown around a change
NOTE_LINES = 40  # of a change that stood in nobody's way
REFUSAL_LINES = 160
LINE_SHOWN = 1000  # characters; of a longer line nothing is shown here
PLACES_NAMED = 8
MAX_PLACES = 100  # where a quote may stand in what the model saw
_SHIFTED = frozenset({"not_found", "near_miss", "ambiguous", "indentation_unclear"})
"""Why an edit may fail that would land in what the model saw."""
_BINARY = "\0"
"""What the view of a binary file begins with."""


def _create_seen(path: str, now: str, lines: Sequence[Span]) -> SeenContent:
    return SeenContent.of(now, lines, find_layout(path))


def note_view(scope: Scope, path: str, now: str, shown: Sequence[Span], most: int = 0) -> str:
    """Remember that these lines were shown; return what is to be said of changes elsewhere since, if any.

    ``most`` is how many characters of a line; 0 stands for as many as a view shows.
    """
    before = _note_truncated_lines(scope.get_seen(path) or _create_seen(path, now, []), now, shown, most)
    if before.counted == now:
        scope.remember(path, before.mark_shown(now, shown))
        return ""
    sight = before.mark_shown(now, shown)
    diff = LineDiff(before.counted, now, before.layout)
    seen = merge_spans(shown)
    others = [each for each in diff.real if not _is_shown(each.new, seen)]
    told = _build_report(diff, others, NOTE_LINES)
    scope.remember(path, sight.mark_shown(now, told.shown))
    return f"… `{path}` changed since you last saw it, elsewhere too:\n{told.text}" if others else ""


def _note_truncated_lines(sight: SeenContent, now: str, shown: Sequence[Span], most: int) -> SeenContent:
    """Return what the model knows of those of these lines that are too long to be shown whole."""
    if len(now) <= LINE_SHOWN:
        return sight
    told = [
        (number, line, most or get_line_limit(low + 1, high))
        for low, high in shown
        for number, line in enumerate((line.rstrip("\r\n") for line in slice_lines(now, low, high)), low)
        if len(line) > LINE_SHOWN
    ]
    lines = merge_spans((number, number + 1) for number, _, _ in told)
    unseen = set(sight.find_unseen(now, lines) if lines else [])
    parts = [line for number, line, room in told if len(line) > room and number in unseen]
    return sight.mark_parts_shown([line for _, line, room in told if len(line) <= room], parts)


def _is_shown(span: Span, seen: Sequence[Span]) -> bool:
    """Return whether these lines are shown, or those around a place that has none."""
    start, end = span if span[0] < span[1] else (max(0, span[0] - 1), span[1] + 1)
    return any(low <= start and end <= high for low, high in seen)


def note_write(scope: Scope, path: str, now: str, changes: ChangeSet) -> str:
    """Remember a write; return what is to be said of what others had changed before, if anything."""
    sight = scope.get_seen(path)
    if sight is not None and sight.text.startswith(_BINARY):
        sight = None  # it was a binary file
    told = ""
    if sight is not None and sight.counted != now:
        diff = LineDiff(sight.counted, now, sight.layout)
        account = _build_report(diff, diff.real, NOTE_LINES)
        sight = sight.mark_shown(now, account.shown)
        if account.text:
            told = f"`{path}` had changed since you last saw it; that is kept:\n{account.text}"
        else:
            told = f"`{path}` had been reformatted since you last saw it (blanks, line breaks or quotes)."
            if len(diff.old_lines) != len(diff.new_lines):
                told += " Its lines have other numbers now: view it before you count lines."
    scope.remember(path, (sight or _create_seen(path, now, [])).mark_written(now, changes))
    return told


def note_creation(scope: Scope, path: str, now: str) -> bool:
    """Remember a file that was made where there was none; return whether the model took it to be there."""
    was_known = scope.get_seen(path) is not None
    scope.remember(path, _create_seen(path, now, [(0, len(split_lines(now)))]))
    return was_known


def note_undo(scope: Scope, undoing: UndoPlan) -> None:
    """Remember that a write was taken back: the model knows what it wrote over."""
    before, after = undoing.before, undoing.after
    if before is None or after is None or is_binary(before) or is_binary(after):
        scope.remember(undoing.key, None)
        return
    now, then = SourceText.from_bytes(before).text, SourceText.from_bytes(after).text
    change = Change(0, len(now), then).narrow(now)
    note_write(scope, undoing.key, now, ChangeSet.of(len(now), [change]))


def note_moves(scope: Scope, writings: Sequence[FileWrite]) -> None:
    """Remember that files were moved or removed: what was seen of one goes where it went."""
    gone = {each.expected: scope.get_seen(each.path) for each in writings if each.data is None}
    for each in writings:
        sight = None if each.data is None else gone.get(each.version)
        scope.remember(each.path, sight and replace(sight, layout=find_layout(each.path)))


def check_removal(scope: Scope, path: str, file: File) -> None:
    """Refuse to remove a file of which others changed what the model saw.

    Raises:
        ToolError: ``changed_since_read``.
    """
    sight = scope.get_seen(path)
    if sight is not None and not is_binary(file.data):
        _check_lost(scope, path, sight, LineDiff(SourceText.from_bytes(file.data).text, "", sight.layout))


def check_read(scope: Scope, path: str) -> None:
    """Refuse the edit of a file that this session has not seen, where the settings demand it.

    Raises:
        ToolError: ``not_read``.
    """
    if scope.require_read and scope.get_seen(path) is None:
        raise ToolError(
            f"`{path}` has not been read in this session, and has to be before it is edited",
            hint="view it, then send the edit again",
            code="not_read",
        )


def check_whole(scope: Scope, path: str, now: str, new: str) -> None:
    """Refuse to replace a whole file with what the model has not seen in it.

    Raises:
        ToolError: ``changed_since_read``, ``not_read``.
    """
    if now == new or not now.strip():
        return
    sight = scope.get_seen(path)
    if sight is None or sight.text.startswith(_BINARY):
        further = LineDiff(now, new, find_layout(path))
        gone = [each.old for each in further.differences if each.old[0] < each.old[1]]
        if gone:  # else it keeps every line
            _refuse_unread(
                scope, path, further, gone, f"`{path}` exists and has not been read in this session"
            )
        return
    further = LineDiff(now, new, sight.layout)
    _check_lost(scope, path, sight, further)
    _check_unseen(scope, path, sight, further)


def _check_lost(scope: Scope, path: str, sight: SeenContent, further: LineDiff) -> None:
    """Refuse what drops changes of others that the model was not shown."""
    diff = LineDiff(sight.text, further.old, sight.layout)
    lost = [each for each in diff.real if not _is_kept(each, diff, further)]
    if lost:
        raise _build_refusal(scope, path, diff, lost)


def _check_unseen(scope: Scope, path: str, sight: SeenContent, further: LineDiff) -> None:
    """Refuse what drops lines of a file that the model was never shown."""
    unseen = set(sight.find_unseen(further.old, [(0, len(further.old_lines))]))
    kept = {"", *(line.strip() for line in further.new_lines)}
    dropped = [
        line
        for each in further.real
        for line in range(*each.old)
        if line in unseen and further.old_lines[line].strip() not in kept
    ]
    if dropped:
        spans = merge_spans((line, line + 1) for line in dropped)
        places = ", ".join(map(_format_span, spans[:PLACES_NAMED])) + (
            ", …" if len(spans) > PLACES_NAMED else ""
        )
        what = f"`{path}` would lose what was not shown in this session: {places}"
        _refuse_unread(scope, path, further, spans, what)


def check_binary(scope: Scope, path: str, file: File) -> None:
    """Refuse to replace a binary file, which cannot be viewed, until it is said again.

    Raises:
        ToolError: ``not_read``.
    """
    mark = f"{_BINARY}{file.version}"
    sight = scope.get_seen(path)
    if sight is None or sight.text != mark:
        scope.workspace.check_writable(path)
        scope.remember(path, SeenContent.of(mark, []))
        raise ToolError(
            f"`{path}` is a binary file ({len(file.data):,} bytes) that was not written in this session; "
            "nothing was written",
            hint="send it again if all of it may go",
            code="not_read",
        )


def _is_kept(stretch: DiffHunk, diff: LineDiff, further: LineDiff) -> bool:
    """Return whether what becomes of a file further keeps what others made of it, so that nothing is lost."""
    if stretch.new[0] < stretch.new[1]:
        return not any(is_overlapping(each.old, stretch.new) for each in further.real)
    return "".join(diff.old_lines[slice(*stretch.old)]) not in further.new


def check_lines(scope: Scope, path: str, now: str, changes: ChangeSet) -> None:
    """Refuse changes on lines that others changed since the model saw them.

    Raises:
        ToolError: ``changed_since_read``.
    """
    sight = scope.get_seen(path)
    if sight is None or sight.text == now:
        return
    changed = sight.find_changes(now)
    touched = find_changed_lines(changes, now)
    hit = [each for each in changed if any(_is_touching(span, each.new) for span in touched)]
    if hit:
        raise _build_refusal(scope, path, LineDiff(sight.text, now, sight.layout), hit)


def place_gap(scope: Scope, path: str, now: str, at: int, *, behind: bool) -> int:
    """Return before which line (from 0) to insert what the model would put before line ``at`` as it counts.

    ``behind`` says that it named the line before that place, not the one after it.

    Raises:
        ToolError: ``changed_since_read``: just that line changed.
    """
    sight = scope.get_seen(path)
    if sight is None or (sight.counted == now and sight.text == now):
        return at
    diff = LineDiff(sight.counted, now, sight.layout)
    if at > len(diff.old_lines):
        return at  # it knows more lines than it was told of
    place = diff.map_gap(at, behind=behind)
    named = (at - 1, at) if behind else (at, at + 1)
    is_line = named[0] >= 0 and named[1] <= len(diff.old_lines)
    if place is None or (is_line and not diff.is_recognizable(*named)):
        raise _build_refusal(scope, path, diff, _find_nearest(diff, named))
    named = (place - 1, place) if behind else (place, place + 1)
    hit = [each for each in sight.find_changes(now) if is_overlapping(each.new, named)]
    if hit:
        raise _build_refusal(scope, path, LineDiff(sight.text, now, sight.layout), hit)
    return place


def place_block(scope: Scope, path: str, now: str, lines: Span) -> Span:
    """Return where lines (from 0) stand now that the model names by the numbers that it knows.

    Raises:
        ToolError: ``changed_since_read``: they changed.
    """
    sight = scope.get_seen(path)
    if sight is None or sight.counted == now:
        return lines
    diff = LineDiff(sight.counted, now, sight.layout)
    if lines[1] > len(diff.old_lines):
        return lines
    found = diff.map_block(*lines)
    if found is None or not diff.is_recognizable(*lines):
        raise _build_refusal(scope, path, diff, _find_nearest(diff, lines))
    return found


def _find_nearest(diff: LineDiff, lines: Span) -> list[DiffHunk]:
    """Return what changed at these lines, or else the nearest changes above and below."""
    found = [each for each in diff.differences if _is_adjacent(each.old, lines)]
    above = [each for each in diff.differences if each.old[1] < lines[0]]
    below = [each for each in diff.differences if each.old[0] > lines[1]]
    return found or above[-1:] + below[:1]


def get_counted_lines(scope: Scope, path: str, now: str) -> list[str]:
    """Return the lines by whose numbers the model names places."""
    sight = scope.get_seen(path)
    return LineDiff(now if sight is None else sight.counted, now).old_lines


def apply_seen(scope: Scope, path: str, source: SourceText, edits: Sequence[Edit]) -> Result:
    """Apply edits that quote the file, each where the model saw what it quotes.

    What quotes lines that others changed beside the edit's own ones is merged with that. Like ``apply`` with
    ``partial`` otherwise.

    Raises:
        ToolError: ``changed_since_read``: others changed lines that an edit is about.
    """
    from kakite.edit import apply

    result = apply(source, edits, partial=True)
    sight = scope.get_seen(path)
    if sight is None or sight.text == source.text:
        return result
    diff = LineDiff(sight.text, source.text, sight.layout)
    changed = [each for each in diff.real if sight.has_seen(each, diff)]
    if not changed:
        return result
    hit: dict[DiffHunk, None] = {}
    merged: dict[int, ChangeSet] = {}
    failures = {failure.index: failure for failure in result.failures}
    for index, edit in enumerate(edits):
        failure = failures.get(index)
        if edit.all or not edit.search or (failure and failure.code not in _SHIFTED):
            continue
        quoted = [
            each
            for each in changed
            if any(is_overlapping(each.old, at) for at in _find_quoted_lines(sight, edit))
        ]
        if failure is None:
            hit |= dict.fromkeys(quoted)
            continue
        fitted = _merge_edit(sight.text, diff, edit)
        if fitted is not None:
            merged[index] = fitted
        else:
            hit |= dict.fromkeys(quoted)
    if hit:
        raise _build_refusal(scope, path, diff, list(hit))
    return _join_merged(source, result, merged) if merged else result


def _find_quoted_lines(sight: SeenContent, edit: Edit) -> list[Span]:
    """Return the lines of each place that the edit quotes, in what the model saw."""
    text, quote = sight.text, edit.search
    if quote not in text and "\r\n" in text:
        quote = quote.replace("\r\n", "\n").replace("\n", "\r\n")
    found: list[Change] = []
    at = text.find(quote)
    while at >= 0 and len(found) < MAX_PLACES:
        found.append(Change(at, at + len(quote), ""))
        at = text.find(quote, at + len(quote))
    if not found:
        from kakite.edit import apply

        found = [Change(match.start, match.end, "") for match in apply(text, [edit], partial=True).matches]
    return find_changed_lines(ChangeSet(len(text), tuple(found)), text)


def _merge_edit(text: str, diff: LineDiff, edit: Edit) -> ChangeSet | None:
    """Return the edit, made for the text that the model saw, over the one of now; None if they clash."""
    from kakite.edit import apply

    result = apply(text, [edit], partial=True)
    if result.failures:
        return None
    return merge_changes(diff, result.changes.changes)


def merge_changes(diff: LineDiff, made: Sequence[Change]) -> ChangeSet | None:
    """Return changes of the old text of a comparison as those of the new one; None if they clash."""
    text = diff.old
    changes = [change.narrow(text) for change in made]
    spans = find_changed_lines(ChangeSet(len(text), tuple(changes)), text)
    if any(_is_touching(span, each.old) for span in spans for each in diff.differences):
        return None
    others = diff.to_changes()
    mapped: list[Change] = []
    for change, span in zip(changes, spans, strict=True):
        # Whole lines go before what others made of the next one; a change inside of a line stays in it.
        is_place = span[0] == span[1]
        mapped += ChangeSet(len(text), (change,)).map(others, before=is_place).changes
    return ChangeSet.of(others.new_length, mapped)


def _join_merged(source: SourceText, result: Result, merged: dict[int, ChangeSet]) -> Result:
    """Return the result with the merged edits in it, too."""
    every = [result.changes, *merged.values()]
    try:
        changes = ChangeSet.of(len(source.text), (change for each in every for change in each.changes))
    except ValueError:  # two of the edits change the same
        return result
    new = source.replace(changes)
    left = tuple(failure for failure in result.failures if failure.index not in merged)
    return replace(result, text=new.text, changes=changes, source=new, failures=left)


def _is_touching(one: Span, other: Span) -> bool:
    return is_overlapping(one, other) or (one == other and one[0] == one[1])


def _is_adjacent(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _build_refusal(scope: Scope, path: str, diff: LineDiff, hit: Sequence[DiffHunk]) -> ToolError:
    """Return the refusal of an edit where others changed what the model saw; it tells all that they changed.

    What it shows is seen by then, so that the same edit lands when it is sent again.
    """
    scope.workspace.check_writable(path)
    now, sight = diff.new, scope.get_seen(path)
    account = _build_report(diff, hit, REFUSAL_LINES)
    told = account.text
    if sight is not None:
        news = LineDiff(sight.counted, now, sight.layout)
        others = [each for each in news.real if not any(_is_adjacent(each.new, every.new) for every in hit)]
        more = _build_report(news, others, NOTE_LINES)
        told += f"\nand elsewhere:\n{more.text}" if others else ""
        scope.remember(path, sight.mark_shown(now, [*account.shown, *more.shown]))
    first = "" if account.is_whole else "view what is not shown here; "
    return ToolError(
        f"`{path}` changed since you last saw it, where this edit is; nothing was written. "
        f"What changed (- as you saw it, + as it is now):\n{told}",
        hint=f"{first}send the edit again if it is right for the file as it is now, else change it",
        code="changed_since_read",
    )


def _refuse_unread(scope: Scope, path: str, further: LineDiff, lost: Sequence[Span], what: str) -> NoReturn:
    """Refuse to replace these lines of a file, and show what would become of them."""
    gone = [each for each in further.differences if any(is_overlapping(each.old, span) for span in lost)]
    scope.workspace.check_writable(path)
    told = _build_report(further, gone, REFUSAL_LINES)
    now, lines = further.old, further.old_lines
    left = [number for each in told.left for number in range(*each.old)]
    endless = [number for number in left if len(lines[number]) > CHARACTERS_SHOWN]  # nobody can view these
    sight = scope.get_seen(path) or _create_seen(path, now, [])
    if told.is_whole or (endless and len(endless) == len(left)):
        hint = "send it again if all of this may go"
        sight = sight.mark_shown(now, [each.old for each in gone])
    else:
        hint = "view the file, then send it again"
    if endless or told.is_whole:
        sight = sight.mark_parts_shown([lines[number].rstrip("\r\n") for number in endless], [])
        scope.remember(path, sight)
    raise ToolError(
        f"{what}; nothing was written. "
        f"What would be replaced (- as it is now, + as you sent it):\n{told.text}",
        hint=hint,
        code="not_read",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangeReport:
    """Differences, as they are told."""

    text: str
    shown: tuple[Span, ...]
    """The new lines that the text shows."""
    left: tuple[DiffHunk, ...]
    """What the text does not show."""

    @property
    def is_whole(self) -> bool:
        """Whether it shows all."""
        return not self.left


def _build_report(diff: LineDiff, stretches: Sequence[DiffHunk], room: int) -> _ChangeReport:
    """Return differences as text, as many as fit into so many lines."""
    parts: list[str] = []
    spans: list[Span] = []
    left: list[DiffHunk] = []
    for each in stretches:
        lines, span = _render_hunk(diff, each) if room > 0 else ([], (0, 0))
        if not lines or len(lines) > room or max(map(len, lines)) > LINE_SHOWN:
            left.append(each)
            continue
        room -= len(lines)
        parts += [f"@@ line {span[0] + 1} @@", *lines]
        spans.append(span)
    if left:
        places = ", ".join(_format_span(each.new) for each in left[:PLACES_NAMED])
        more = ", …" if len(left) > PLACES_NAMED else ""
        parts.append(f"… not shown here: what changed at {places}{more}")
    return _ChangeReport(text="\n".join(parts), shown=tuple(spans), left=tuple(left))


def _render_hunk(diff: LineDiff, stretch: DiffHunk) -> tuple[list[str], Span]:
    """Return the lines of one difference, and some around it, and which new lines these are."""
    start, end = stretch.new
    low = max([0, start - CONTEXT, *(each.new[1] for each in diff.differences if each.new[1] <= start)])
    high = min(
        [
            len(diff.new_lines),
            end + CONTEXT,
            *(each.new[0] for each in diff.differences if each.new[0] >= end),
        ]
    )
    sides = (
        (" ", diff.new_lines[low:start]),
        ("-", diff.old_lines[slice(*stretch.old)]),
        ("+", diff.new_lines[start:end]),
        (" ", diff.new_lines[end:high]),
    )
    return [mark + line.rstrip("\r\n") for mark, lines in sides for line in lines], (low, high)


def _format_span(span: Span) -> str:
    first, last = span[0] + 1, span[1]
    return f"line {first}" if last <= first else f"lines {first}-{last}"
