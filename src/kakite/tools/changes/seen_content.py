"""Tracks what each session has seen of which files, and what others changed since. Pure.

Changes are found by content, never by time. The store is bounded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from kakite.edit import ChangeSet
from kakite.tools.changes.layouts import VERBATIM, Layout
from kakite.tools.changes.line_diff import DiffHunk, LineDiff, Span, find_changed_blocks
from kakite.tools.text_pages import slice_lines, split_lines

LINE_LONG = 1000  # characters; of a longer line an answer shows a part

Spans = tuple[Span, ...]
"""Lines, from 0: sorted, apart, none empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenContent:
    """The content of a file as a model last saw it.

    Laws: what was changed of lines that the model saw is not forgotten until it is shown, or written over;
    what was changed elsewhere stands in nobody's way.
    """

    text: str
    """The file as the model takes it to be: as it was, where lines that it saw were changed and not shown."""
    lines: Spans
    """The lines of ``text`` that it was shown, or wrote."""
    counted: str
    """The content by which it counts lines: the file when it was last told of it."""
    layout: Layout = VERBATIM
    """How the file is written: it says which changes are none."""
    cut: frozenset[str] = frozenset()
    """Lines that it was shown in part alone."""

    @classmethod
    def of(cls, now: str, lines: Iterable[Span], layout: Layout = VERBATIM) -> SeenContent:
        """Return what a model knows that was shown these lines of a file, and nothing before."""
        return cls(text=now, lines=merge_spans(lines), counted=now, layout=layout)

    @property
    def size(self) -> int:
        """The memory that this takes, in characters."""
        return len(self.text) + (0 if self.counted is self.text else len(self.counted))

    def find_changes(self, now: str) -> list[DiffHunk]:
        """Return what was changed of the lines that the model saw, in more than their form."""
        if self.text == now:
            return []
        diff = LineDiff(self.text, now, self.layout)
        return [each for each in diff.real if self.has_seen(each, diff)]

    def has_seen(self, stretch: DiffHunk, diff: LineDiff) -> bool:
        """Return whether the model saw of the old lines, or what was around a place where there were none."""
        if stretch.old[0] < stretch.old[1]:
            return bool(_intersect_spans(self.lines, stretch.old))
        return _is_surrounded(self.lines, stretch.old[0], len(diff.old_lines))

    def find_unseen(self, now: str, lines: Iterable[Span]) -> list[int]:
        """Return which of these lines of the file as it is now it was never shown, and did not write."""
        known = self._find_seen(now)
        unseen: list[int] = []
        for span in lines:
            seen = {number for part in _intersect_spans(known, span) for number in range(*part)}
            unseen += [
                number
                for number, line in enumerate(slice_lines(now, *span), span[0])
                if number not in seen or line.rstrip("\r\n") in self.cut
            ]
        return unseen

    def _find_seen(self, now: str) -> Sequence[Span]:
        """Return which lines of the file as it is now it was shown, or wrote."""
        if self.text == now:
            return self.lines
        diff = LineDiff(self.text, now, self.layout)
        seen: list[Span] = []
        at = to = 0
        for each in [*diff.differences, _build_end_hunk(diff)]:
            seen += _shift_spans(_intersect_spans(self.lines, (at, each.old[0])), to - at)
            if each.is_form and _intersect_spans(self.lines, each.old) == [each.old]:
                seen.append(each.new)
            at, to = each.old[1], each.new[1]
        return seen

    def mark_parts_shown(self, whole: Iterable[str], parts: Iterable[str]) -> SeenContent:
        """Return what the model knows once these lines were shown, whole or in part."""
        return replace(self, cut=self.cut.difference(whole).union(parts))

    def mark_shown(self, now: str, lines: Iterable[Span]) -> SeenContent:
        """Return what the model knows once it was shown these lines of the file as it is now."""
        shown = merge_spans(lines)
        if self.text == now:
            return replace(self, text=now, lines=merge_spans([*self.lines, *shown]), counted=now)
        return self._learn(now, now, [(span, span) for span in shown], shown)

    def mark_written(self, now: str, changes: ChangeSet) -> SeenContent:
        """Return what the model knows once a call of its own changed the file as it was until now."""
        after = changes.apply(now)
        blocks = find_changed_blocks(changes, now)
        return replace(
            self._apply_write(now, after, blocks), cut=self.cut | self._find_still_cut(now, after, blocks)
        )

    def _find_still_cut(self, now: str, after: str, blocks: Sequence[tuple[Span, Span]]) -> set[str]:
        """Return the long lines that were changed of which the model never saw the rest."""
        if len(after) <= LINE_LONG:
            return set()
        long = [
            (old, line.rstrip("\r\n"))
            for old, new in blocks
            if old[0] < old[1]
            for line in slice_lines(after, *new)
            if len(line) > LINE_LONG
        ]
        unseen = set(self.find_unseen(now, [old for old, _ in long]) if long else [])
        return {line for old, line in long if unseen.intersection(range(*old))}

    def _apply_write(self, now: str, after: str, blocks: Sequence[tuple[Span, Span]]) -> SeenContent:
        if self.text != now:
            return self._learn(now, after, blocks, ())
        at = moved = 0
        known: list[Span] = []
        for (first, last), written in [*blocks, ((len(now) + 1,) * 2, (0, 0))]:
            known += _shift_spans(_intersect_spans(self.lines, (at, first)), moved)
            known.append(written)
            at, moved = last, written[1] - last
        return replace(self, text=after, lines=merge_spans(known), counted=after)

    def _learn(self, now: str, after: str, blocks: Sequence[tuple[Span, Span]], shown: Spans) -> SeenContent:
        """Return what the model knows once it knows these blocks of lines, as they are in ``after``.

        Everything else is as it takes it to be: where lines that it saw were changed, as it was.
        """
        diff, taken = LineDiff(self.text, now, self.layout), _SeenBuilder()
        new = diff.new_lines if after is now else split_lines(after)
        count = len(diff.new_lines)
        at = 0
        for (first, last), written in [*blocks, ((count, count), (0, 0))]:
            self._add_unshown(taken, diff, (at, first), shown)
            taken.add(new, written, [written])
            at = last
        text = "".join(taken.pieces)
        return replace(
            self, text=after if text == after else text, lines=merge_spans(taken.lines), counted=after
        )

    def _add_unshown(self, taken: _SeenBuilder, diff: LineDiff, within: Span, shown: Spans) -> None:
        """Add what the model takes these lines of the file, that it is not shown now, to be."""
        at = to = 0
        end = _build_end_hunk(diff)
        for each in [*diff.differences, end]:
            known = _shift_spans(_intersect_spans(self.lines, (at, each.old[0])), to - at)
            taken.add(diff.new_lines, _cut((to, each.new[0]), within), known)
            at, to = each.old[1], each.new[1]
            new = _cut(each.new, within)
            if new[0] >= new[1] and not (each.new[0] == each.new[1] and new[0] == new[1]):
                continue  # it does not lie within these lines
            if each.is_form or not self.has_seen(each, diff):
                saw = each.is_form and _intersect_spans(self.lines, each.old)
                taken.add(diff.new_lines, new, [new] if saw else [])
            elif new[0] < new[1]:
                taken.add(diff.old_lines, each.old, self.lines)
            elif each.old[0] not in taken.gone and not _is_surrounded(shown, to, end.new[0]):
                taken.gone.add(each.old[0])
                taken.add(diff.old_lines, each.old, self.lines)

    def mark_command_change(self, before: str, after: str) -> SeenContent:
        """Return what the model knows once a command that it ran changed the file.

        It brought that about, so that it stands in no edit's way; it has not been told yet what it is.
        """
        if self.text != before:
            return self
        taken, diff = _SeenBuilder(), LineDiff(before, after, self.layout)
        at = to = 0
        for each in diff.differences:
            known = _shift_spans(_intersect_spans(self.lines, (at, each.old[0])), to - at)
            known += [each.new] if self.has_seen(each, diff) else []
            taken.add(diff.new_lines, (to, each.new[1]), known)
            at, to = each.old[1], each.new[1]
        known = _shift_spans(_intersect_spans(self.lines, (at, len(diff.old_lines))), to - at)
        return replace(self, text=after, lines=merge_spans([*taken.lines, *known]), counted=self.counted)


@dataclass(slots=True)
class _SeenBuilder:
    """A text that is put together from lines, and which of these were seen."""

    pieces: list[str] = field(default_factory=list[str])
    lines: list[Span] = field(default_factory=list[Span])
    gone: set[int] = field(default_factory=set[int])
    """Where old lines began that were kept though none stand for them any more."""
    _count: int = 0

    def add(self, lines: Sequence[str], span: Span, seen: Iterable[Span]) -> None:
        """Add these lines; of them, those were seen."""
        self.pieces += lines[span[0] : span[1]]
        self.lines += _shift_spans(_intersect_spans(seen, span), self._count - span[0])
        self._count += max(0, span[1] - span[0])


def _build_end_hunk(diff: LineDiff) -> DiffHunk:
    """Return the place behind all lines."""
    olds, news = len(diff.old_lines), len(diff.new_lines)
    return DiffHunk(old=(olds, olds), new=(news, news), is_form=True)


def merge_spans(spans: Iterable[Span]) -> Spans:
    """Return these lines, sorted and joined."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif start < end:
            joined.append((start, end))
    return tuple(joined)


def _intersect_spans(spans: Iterable[Span], within: Span) -> list[Span]:
    cut = (_cut(span, within) for span in spans)
    return [(start, end) for start, end in cut if start < end]


def _shift_spans(spans: Iterable[Span], by: int) -> list[Span]:
    return [(start + by, end + by) for start, end in spans]


def _is_surrounded(spans: Spans, at: int, count: int) -> bool:
    """Return whether the lines on both sides of a place, as far as there are any, are among these."""
    around = (max(at - 1, 0), min(at + 1, count))
    return _intersect_spans(spans, around) == ([around] if around[0] < around[1] else [])


def _cut(span: Span, within: Span) -> Span:
    return max(span[0], within[0]), min(span[1], within[1])


ROOM = 64 * 1024 * 1024  # characters, of all files and sessions together


class SeenContentStore:
    """Remembers sights by session and file. When the room is full, who holds most forgets its oldest one."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._sessions: WeakKeyDictionary[object, _SessionViews] = WeakKeyDictionary()

    def get(self, session: object, path: str) -> SeenContent | None:
        """Return what this session knows of the file at this path."""
        with self._lock:
            held = self._sessions.get(session)
            return held.files.get(path) if held else None

    def list_paths(self, session: object) -> list[str]:
        """Return the files that this session has seen, the latest first."""
        with self._lock:
            held = self._sessions.get(session)
            return list(reversed(held.files)) if held else []

    def put(self, session: object, path: str, sight: SeenContent | None) -> None:
        """Remember what this session knows of a file; None: nothing any more."""
        with self._lock:
            held = self._sessions.setdefault(session, _SessionViews())
            held.put(path, sight)
            if sight is not None:
                self._evict(held)

    def _evict(self, newest: _SessionViews) -> None:
        sessions = list(self._sessions.values())
        total = sum(held.size for held in sessions)
        while total > self._room:
            # The view that was just taken stays: without it nothing could be edited where reading is a must.
            others = [held for held in sessions if len(held.files) > (held is newest)]
            if not others:
                return
            total -= max(others, key=lambda held: held.size).drop_oldest()


@dataclass(slots=True, eq=False)
class _SessionViews:
    """The sights of one session, the oldest first."""

    files: OrderedDict[str, SeenContent] = field(default_factory=OrderedDict[str, SeenContent])
    size: int = 0

    def put(self, path: str, sight: SeenContent | None) -> None:
        """Put this view in place of that of the file, as the newest; None: nothing."""
        before = self.files.pop(path, None)
        self.size -= before.size if before else 0
        if sight is not None:
            self.files[path] = sight
            self.size += sight.size

    def drop_oldest(self) -> int:
        """Forget the oldest view; return how much room that gives."""
        sight = self.files.popitem(last=False)[1]
        self.size -= sight.size
        return sight.size
