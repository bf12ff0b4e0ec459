"""What a model has been shown of a file, and what others changed since: by content, never by time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kakite.edit import ChangeSet
from kakite.tools.layouts import VERBATIM, Layout
from kakite.tools.line_diff import LineDiff, Span, Stretch, blocks_of
from kakite.tools.listing import split_lines

LINE_LONG = 1000  # characters; of a longer line an answer shows a part

Spans = tuple[Span, ...]
"""Lines, from 0: sorted, apart, none empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a model takes a file to be.

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
    def of(cls, now: str, lines: Iterable[Span], layout: Layout = VERBATIM) -> Sight:
        """Return what a model knows that was shown these lines of a file, and nothing before."""
        return cls(text=now, lines=spans_of(lines), counted=now, layout=layout)

    @property
    def size(self) -> int:
        """How much this is to keep, in characters."""
        return len(self.text) + (0 if self.counted is self.text else len(self.counted))

    def changed(self, now: str) -> list[Stretch]:
        """Return what was changed of the lines that the model saw, in more than their form."""
        if self.text == now:
            return []
        diff = LineDiff(self.text, now, self.layout)
        return [each for each in diff.real if self.has_seen(each, diff)]

    def has_seen(self, stretch: Stretch, diff: LineDiff) -> bool:
        """Return whether the model saw of the old lines, or what was around a place where there were none."""
        if stretch.old[0] < stretch.old[1]:
            return bool(_common(self.lines, stretch.old))
        return _surround(self.lines, stretch.old[0], len(diff.old_lines))

    def unseen(self, now: str) -> list[int]:
        """Return which lines (from 0) of the file as it is now it was never shown, and did not write."""
        diff = LineDiff(self.text, now, self.layout)
        seen: set[int] = set()
        at = to = 0
        for each in [*diff.differences, _end(diff)]:
            known = _moved(_common(self.lines, (at, each.old[0])), to - at)
            if each.is_form and _common(self.lines, each.old) == [each.old]:
                known.append(each.new)
            seen.update(line for span in known for line in range(*span))
            at, to = each.old[1], each.new[1]
        return [
            n for n, line in enumerate(diff.new_lines) if n not in seen or line.rstrip("\r\n") in self.cut
        ]

    def show_parts(self, whole: Iterable[str], parts: Iterable[str]) -> Sight:
        """Return what the model knows once these lines were shown, whole or in part."""
        return replace(self, cut=self.cut.difference(whole).union(parts))

    def show(self, now: str, lines: Iterable[Span]) -> Sight:
        """Return what the model knows once it was shown these lines of the file as it is now."""
        shown = spans_of(lines)
        if self.text == now:
            return replace(self, text=now, lines=spans_of([*self.lines, *shown]), counted=now)
        return self._learn(now, now, [(span, span) for span in shown], shown)

    def write(self, now: str, changes: ChangeSet) -> Sight:
        """Return what the model knows once a call of its own changed the file as it was until now."""
        after = changes.apply(now)
        blocks = blocks_of(changes, now)
        return replace(self._written(now, after, blocks), cut=self.cut | self._still_cut(now, after, blocks))

    def _still_cut(self, now: str, after: str, blocks: Sequence[tuple[Span, Span]]) -> set[str]:
        """Return the long lines that were changed of which the model never saw the rest."""
        if len(after) <= LINE_LONG:
            return set()
        lines = split_lines(after)
        long = [
            (old, line.rstrip("\r\n"))
            for old, new in blocks
            for line in lines[slice(*new)]
            if len(line) > LINE_LONG and old[0] < old[1]
        ]
        unseen = set(self.unseen(now)) if long else set[int]()
        return {line for old, line in long if unseen.intersection(range(*old))}

    def _written(self, now: str, after: str, blocks: Sequence[tuple[Span, Span]]) -> Sight:
        if self.text != now:
            return self._learn(now, after, blocks, ())
        at = moved = 0
        known: list[Span] = []
        for (first, last), written in [*blocks, ((len(now) + 1,) * 2, (0, 0))]:
            known += _moved(_common(self.lines, (at, first)), moved)
            known.append(written)
            at, moved = last, written[1] - last
        return replace(self, text=after, lines=spans_of(known), counted=after)

    def _learn(self, now: str, after: str, blocks: Sequence[tuple[Span, Span]], shown: Spans) -> Sight:
        """Return what the model knows once it knows these blocks of lines, as they are in ``after``.

        Everything else is as it takes it to be: where lines that it saw were changed, as it was.
        """
        diff, taken = LineDiff(self.text, now, self.layout), _Taken()
        new = diff.new_lines if after is now else split_lines(after)
        count = len(diff.new_lines)
        at = 0
        for (first, last), written in [*blocks, ((count, count), (0, 0))]:
            self._take(taken, diff, (at, first), shown)
            taken.add(new, written, [written])
            at = last
        text = "".join(taken.pieces)
        return replace(
            self, text=after if text == after else text, lines=spans_of(taken.lines), counted=after
        )

    def _take(self, taken: _Taken, diff: LineDiff, within: Span, shown: Spans) -> None:
        """Add what the model takes these lines of the file, that it is not shown now, to be."""
        at = to = 0
        end = _end(diff)
        for each in [*diff.differences, end]:
            known = _moved(_common(self.lines, (at, each.old[0])), to - at)
            taken.add(diff.new_lines, _cut((to, each.new[0]), within), known)
            at, to = each.old[1], each.new[1]
            new = _cut(each.new, within)
            if new[0] >= new[1] and not (each.new[0] == each.new[1] and new[0] == new[1]):
                continue  # it does not lie within these lines
            if each.is_form or not self.has_seen(each, diff):
                saw = each.is_form and _common(self.lines, each.old)
                taken.add(diff.new_lines, new, [new] if saw else [])
            elif new[0] < new[1]:
                taken.add(diff.old_lines, each.old, self.lines)
            elif each.old[0] not in taken.gone and not _surround(shown, to, end.new[0]):
                taken.gone.add(each.old[0])
                taken.add(diff.old_lines, each.old, self.lines)

    def cause(self, before: str, after: str) -> Sight:
        """Return what the model knows once a command that it ran changed the file.

        It brought that about, so that it stands in no edit's way; it has not been told yet what it is.
        """
        if self.text != before:
            return self
        taken, diff = _Taken(), LineDiff(before, after, self.layout)
        at = to = 0
        for each in diff.differences:
            known = _moved(_common(self.lines, (at, each.old[0])), to - at)
            known += [each.new] if self.has_seen(each, diff) else []
            taken.add(diff.new_lines, (to, each.new[1]), known)
            at, to = each.old[1], each.new[1]
        known = _moved(_common(self.lines, (at, len(diff.old_lines))), to - at)
        return replace(self, text=after, lines=spans_of([*taken.lines, *known]), counted=self.counted)


@dataclass(slots=True)
class _Taken:
    """A text that is put together from lines, and which of these were seen."""

    pieces: list[str] = field(default_factory=list[str])
    lines: list[Span] = field(default_factory=list[Span])
    gone: set[int] = field(default_factory=set[int])
    """Where old lines began that were kept though none stand for them any more."""
    _count: int = 0

    def add(self, lines: Sequence[str], span: Span, seen: Iterable[Span]) -> None:
        """Add these lines; of them, those were seen."""
        self.pieces += lines[span[0] : span[1]]
        self.lines += _moved(_common(seen, span), self._count - span[0])
        self._count += max(0, span[1] - span[0])


def _end(diff: LineDiff) -> Stretch:
    """Return the place behind all lines."""
    olds, news = len(diff.old_lines), len(diff.new_lines)
    return Stretch(old=(olds, olds), new=(news, news), is_form=True)


def spans_of(spans: Iterable[Span]) -> Spans:
    """Return these lines, sorted and joined."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif start < end:
            joined.append((start, end))
    return tuple(joined)


def _common(spans: Iterable[Span], within: Span) -> list[Span]:
    cut = (_cut(span, within) for span in spans)
    return [(start, end) for start, end in cut if start < end]


def _moved(spans: Iterable[Span], by: int) -> list[Span]:
    return [(start + by, end + by) for start, end in spans]


def _surround(spans: Spans, at: int, count: int) -> bool:
    """Return whether the lines on both sides of a place, as far as there are any, are among these."""
    around = (max(at - 1, 0), min(at + 1, count))
    return _common(spans, around) == ([around] if around[0] < around[1] else [])


def _cut(span: Span, within: Span) -> Span:
    return max(span[0], within[0]), min(span[1], within[1])
