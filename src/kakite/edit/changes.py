"""Represents a change of a text as a value: sorted, disjoint spans of the original and their replacements.

Preview, apply, undo and suggestions all use the same value. Offsets count code points of a ``str``. This
module knows nothing of edits, files or encodings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Change:
    """``original[start:end]`` becomes ``insert``. Half-open, ``start <= end``."""

    start: int
    end: int
    insert: str

    def narrow(self, text: str) -> Change:
        """Return the same change of ``text`` without the characters it would keep at either side."""
        old, new = text[self.start : self.end], self.insert
        room = min(len(old), len(new))
        head = count_common_prefix(old, new, room)
        tail = count_common_prefix(old[::-1], new[::-1], room - head)
        return Change(self.start + head, self.end - tail, new[head : len(new) - tail])


class ChangeSetJson(TypedDict):
    """A ChangeSet as JSON: the original's length, and ``[start, end, insert]`` for each change."""

    length: int
    changes: list[tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class _RetainedSpan:
    """A piece of the result that is ``original[start:end]``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All changes of one text at once.

    Invariant: sorted by ``start``, no two overlap or touch, none is empty, all within ``length``, the
    number of
    code points of the original. Build one with ``ChangeSet.of``, which sees to that.
    """

    length: int
    changes: tuple[Change, ...] = ()

    @classmethod
    def of(cls, length: int, changes: Iterable[Change]) -> ChangeSet:
        """Sort and join changes. Insertions at one place keep the order in which they are given.

        Raises:
            ValueError: two changes overlap, or one reaches beyond the text.
        """
        touching: list[list[Change]] = []
        for change in sorted(changes, key=lambda change: (change.start, change.end)):
            if not 0 <= change.start <= change.end <= length:
                raise ValueError(f"change {change.start}..{change.end} is outside of a text of {length}")
            last = touching[-1][-1] if touching else None
            if last is None or last.end < change.start:
                touching.append([change])
            elif last.end == change.start:
                touching[-1].append(change)
            else:
                raise ValueError(f"changes {last.start}..{last.end} and {change.start}..{change.end} overlap")
        joined = map(_join_changes, touching)
        return cls(length, tuple(change for change in joined if change.start < change.end or change.insert))

    @property
    def new_length(self) -> int:
        """The number of code points of the result."""
        return self.length + sum(len(c.insert) - (c.end - c.start) for c in self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def apply(self, text: str) -> str:
        """Return the changed text.

        Raises:
            ValueError: the text has not the length that this change was made for.
        """
        self._check_length(text)
        pieces: list[str] = []
        at = 0
        for change in self.changes:
            pieces += (text[at : change.start], change.insert)
            at = change.end
        pieces.append(text[at:])
        return "".join(pieces)

    def invert(self, text: str) -> ChangeSet:
        """Return the change of the result that brings back ``text``, the original.

        Raises:
            ValueError: the text has not the length that this change was made for.
        """
        self._check_length(text)
        back: list[Change] = []
        moved = 0
        for change in self.changes:
            start = change.start + moved
            back.append(Change(start, start + len(change.insert), text[change.start : change.end]))
            moved += len(change.insert) - (change.end - change.start)
        return ChangeSet(self.new_length, tuple(back))

    def compose(self, later: ChangeSet) -> ChangeSet:
        """Return one change that does this one and then ``later``, which is over the result of this one.

        Raises:
            ValueError: ``later`` was made for a text of another length.
        """
        if later.length != self.new_length:
            raise ValueError(f"a change of {self.new_length} cannot be followed by one of {later.length}")
        pieces = _PieceReader(self._split_pieces())
        result: list[_RetainedSpan | str] = []
        at = 0
        for change in later.changes:
            result += pieces.take(change.start - at)
            pieces.take(change.end - change.start)
            result.append(change.insert)
            at = change.end
        result += pieces.take(later.length - at)
        return _from_pieces(self.length, result)

    def map(self, other: ChangeSet, *, before: bool = False) -> ChangeSet:
        """Return this change, made for the text that ``other`` leads to. Both are over the same original.

        Law: ``a.compose(b.map(a))`` and ``b.compose(a.map(b, before=True))`` give the same text. ``before``
        says whether our insertions come first where both insert at one place.

        Raises:
            ValueError: the two were made for texts of different lengths.
        """
        if other.length != self.length:
            raise ValueError(f"changes of {self.length} and {other.length} do not share an original")
        mapped: list[Change] = []
        for change in self.changes:
            place = other.map_offset(change.start, after=not before)
            mapped.append(Change(place, place, change.insert))
            mapped += other._iter_deletions(change.start, change.end)
        return ChangeSet.of(other.new_length, mapped)

    def map_offset(self, offset: int, *, after: bool = False) -> int:
        """Return where a place of the original is in the result.

        ``after`` says on which side of an insertion at that very place. A place inside of replaced text goes
        behind what replaces it.
        """
        moved = 0
        for change in self.changes:
            if change.start > offset or (change.start == offset and not after):
                break
            if offset <= change.end:
                return change.start + moved + len(change.insert)
            moved += len(change.insert) - (change.end - change.start)
        return offset + moved

    def to_json(self) -> ChangeSetJson:
        """Return the change as plain JSON values."""
        return {"length": self.length, "changes": [(c.start, c.end, c.insert) for c in self.changes]}

    @classmethod
    def from_json(cls, data: ChangeSetJson) -> ChangeSet:
        """Read what ``to_json`` gave.

        Raises:
            ValueError: it is not a sorted, disjoint list of changes.
        """
        try:
            changes = [Change(int(start), int(end), str(insert)) for start, end, insert in data["changes"]]
            return cls.of(int(data["length"]), changes)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a change set: {error}") from error

    def _check_length(self, text: str) -> None:
        if len(text) != self.length:
            raise ValueError(f"made for a text of {self.length}, got one of {len(text)}")

    def _split_pieces(self) -> Iterator[_RetainedSpan | str]:
        at = 0
        for change in self.changes:
            yield _RetainedSpan(at, change.start)
            yield change.insert
            at = change.end
        yield _RetainedSpan(at, self.length)

    def _iter_deletions(self, start: int, end: int) -> Iterator[Change]:
        """Yield deletions, over our result, of what is left there of ``original[start:end]``."""
        moved = 0
        at = start
        for change in self.changes:
            if change.start >= end:
                break
            if change.end > at:
                if change.start > at:
                    yield Change(at + moved, change.start + moved, "")
                at = change.end
            moved += len(change.insert) - (change.end - change.start)
            if at == start and change.end <= start:
                continue
        if at < end:
            yield Change(at + moved, end + moved, "")


def _join_changes(touching: Sequence[Change]) -> Change:
    if len(touching) == 1:
        return touching[0]
    insert = "".join(change.insert for change in touching)
    return Change(touching[0].start, touching[-1].end, insert)


class _PieceReader:
    """Hands out pieces of a text from left to right, cut at any length."""

    def __init__(self, pieces: Iterable[_RetainedSpan | str]) -> None:
        self._pieces = iter(pieces)
        self._rest: _RetainedSpan | str = ""

    def take(self, count: int) -> list[_RetainedSpan | str]:
        taken: list[_RetainedSpan | str] = []
        while count > 0:
            first, self._rest = _cut(self._rest, count)
            taken.append(first)
            count -= _measure_piece(first)
            if count > 0:
                self._rest = next(self._pieces)
        return taken


def _measure_piece(piece: _RetainedSpan | str) -> int:
    return len(piece) if isinstance(piece, str) else piece.end - piece.start


def _cut(piece: _RetainedSpan | str, count: int) -> tuple[_RetainedSpan | str, _RetainedSpan | str]:
    if isinstance(piece, str):
        return piece[:count], piece[count:]
    middle = min(piece.start + count, piece.end)
    return _RetainedSpan(piece.start, middle), _RetainedSpan(middle, piece.end)


def _from_pieces(length: int, pieces: Iterable[_RetainedSpan | str]) -> ChangeSet:
    changes: list[Change] = []
    at = 0
    inserted: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            inserted.append(piece)
        elif piece.start < piece.end:
            changes.append(Change(at, piece.start, "".join(inserted)))
            inserted = []
            at = piece.end
    changes.append(Change(at, length, "".join(inserted)))
    return ChangeSet.of(length, changes)


def count_common_prefix(one: str, other: str, limit: int) -> int:
    """Return how many characters, at most ``limit``, two texts have in common at their start."""
    if one[:limit] == other[:limit]:
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
