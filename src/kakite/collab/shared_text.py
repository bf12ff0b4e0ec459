"""A text that several people change at once, read and changed by ChangeSets.

This is the one module that converts offsets: bytes of UTF-8 in pycrdt, code points here, UTF-16 units in a
browser. pycrdt moves text to the end of the document, or panics, when an offset is no boundary of a
character, and its panics are no ``Exception``. So it is only ever given offsets that were made here.

A ``TrackedRange`` stays with its characters while the text is changed elsewhere. It is a value with offsets
in code points; whoever keeps one moves it by each ChangeSet.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from pycrdt import Doc, Text, UndoManager

from kakite.edit import Change, ChangeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pycrdt import TextEvent


@dataclass(frozen=True, slots=True)
class TrackedRange:
    """``text[start:end]``."""

    start: int
    end: int

    def extract(self, text: str) -> str:
        """Return what stands there."""
        return text[self.start : self.end]

    def map_through(self, changes: ChangeSet) -> TrackedRange:
        """Return where the same characters are after a change of the text.

        What is inserted at either end stays outside, and what is inserted in between, or replaces some of it,
        is inside from then on. Of a stretch that is removed an empty one is left, in its place.
        """
        begins_inside = any(change.start == self.start < change.end for change in changes.changes)
        start = changes.map_offset(self.start, after=not begins_inside or self.start == self.end)
        end = changes.map_offset(self.end)
        # All of it was replaced together with its surroundings, or something came to where it had been.
        return TrackedRange(min(start, end), end)

    def is_touched(self, changes: ChangeSet) -> bool:
        """Tell whether a change reaches into the stretch; at its ends it does not."""
        return any(change.start < self.end and change.end > self.start for change in changes.changes)


def find_again(before: TrackedRange, words: str, changes: ChangeSet, text: str) -> TrackedRange | None:
    """Return where words stand that had been removed from a place, if a change brings them back to it.

    Args:
        before: the place as it was before the change; what surrounds it may come back with the words.
        words: what stood there once.
        changes: the change.
        text: the text after it.
    """
    wide = TrackedRange(changes.map_offset(before.start), changes.map_offset(before.end, after=True))
    at = wide.extract(text).find(words)
    return None if at < 0 else TrackedRange(wide.start + at, wide.start + at + len(words))


_RECENT: Final = 64
"""Changes that a snapshot keeps one by one before it makes one of them."""


class TextSnapshot:
    """A text as it was shown to somebody, and all that was changed since."""

    def __init__(self, shared: SharedText) -> None:
        """Keep the present text, and follow it until ``close``."""
        self.text = str(shared)
        self.version = shared.version
        self._changes = ChangeSet(len(self.text))
        self._recent: list[ChangeSet] = []
        self._stop = shared.observe(self._on_change)

    @property
    def changes(self) -> ChangeSet:
        """What leads from the text that was shown to the present one. What was put back is no change."""
        self._join()
        real = [each for each in self._changes.changes if self.text[each.start : each.end] != each.insert]
        return ChangeSet(len(self.text), tuple(real))

    def include(self, own: ChangeSet, since: ChangeSet, now: str) -> None:
        """Count a change as shown: its author knows of it.

        Law: ``changes`` leads from ``text`` to the present text afterwards, too.

        Args:
            own: the change, which was just made, over the text before.
            since: ``changes`` as they were before.
            now: the present text.
        """
        shown = own.map(since.invert(self.text))
        text, rest = shown.apply(self.text), since.map(shown)
        if rest.apply(text) != now:  # it reaches into what others wrote
            text, rest = now, ChangeSet(len(now))
        self.text, self.version = text, hash_text(text)
        self._changes = rest
        self._recent.clear()

    def close(self) -> None:
        """Follow the text no longer."""
        self._stop()

    def _on_change(self, changes: ChangeSet, _origin: object) -> None:
        self._recent.append(changes)
        if len(self._recent) >= _RECENT:
            self._join()

    def _join(self) -> None:
        for each in self._recent:
            self._changes = self._changes.compose(each)
        self._recent.clear()


NAME: Final = "text"
"""The name of the text in its document. Browsers ask for it by this name."""

_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FOREVER: Final = 10**15  # ms
_UNDOS: Final = 32
"""How many runs can be undone. Each costs a little at every key that is pressed."""


class RelativePosition(TypedDict):
    """A place in the text as Yjs keeps it: behind one character, wherever that moves to."""

    type: None
    tname: str | None
    item: dict[str, int] | None
    assoc: int


def hash_text(text: str) -> str:
    """Return what tells this text from another one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class SharedText:
    r"""The text of one page. Lines end with ``\\n``.

    Everything is done on the thread, and the event loop, that the document belongs to. Nothing here awaits,
    so what is read stays true until the caller awaits something.
    """

    def __init__(self, doc: Doc[Any] | None = None) -> None:
        """Take the text of a document, which may have content already; without one, begin an empty text."""
        _require_bytes()
        self.doc: Doc[Any] = Doc() if doc is None else doc
        self._text = self.doc.get(NAME, type=Text)
        self._seen = str(self._text)
        self._version = ""
        self._listeners: list[Callable[[ChangeSet, object], None]] = []
        self._undos: dict[str, UndoManager] = {}
        self._undoing = ""
        self._wide: list[int] | None = None
        self._subscription = self._text.observe(self._on_text_event)

    def __str__(self) -> str:
        """Return the text as the last transaction left it."""
        return self._seen

    @property
    def version(self) -> str:
        """A hash that tells the present text from another one."""
        if not self._version:
            self._version = hash_text(self._seen)
        return self._version

    def apply(self, changes: ChangeSet, origin: str, *, undoable: bool = False) -> None:
        """Change the text in one transaction.

        Args:
            changes: over the text as it is now.
            origin: what observers here are told. It does not travel to other replicas.
            undoable: whether ``undo`` with this origin takes back this change and all others made so.

        Raises:
            ValueError: the changes are for a text of another length, overlap, or insert half of a character.
                Nothing is changed.
        """
        self._remove_foreign()
        text = str(self._text)
        if changes.length != len(text):
            raise ValueError(f"changes for a text of {changes.length} on one of {len(text)}")
        changes = ChangeSet.of(
            len(text), changes.changes
        )  # whoever made them: no other offset reaches pycrdt
        if any(_SURROGATE.search(change.insert) for change in changes.changes):
            raise ValueError("a change inserts a lone surrogate, which no shared text can hold")
        if undoable:
            self._watch(origin)
        spans = list(_map_to_bytes(text, changes.changes))
        grown = 0
        with self.doc.transaction(origin=origin):
            # From the first to the last: each cuts the block that it is in, and copies what is behind it.
            for (start, end), change in zip(spans, changes.changes, strict=True):
                head = len(text[change.start].encode()) if end > start else 0
                self._replace(start + grown, head, end - start, change.insert)
                grown += len(change.insert.encode()) - (end - start)

    def _replace(self, at: int, head: int, size: int, insert: str) -> None:
        """Replace ``size`` bytes, the first character of which takes ``head``.

        What comes is put behind the first character that goes. So what others type meanwhile right before or
        right behind the stretch stays there; else it would be chance on which side it ends up.
        """
        middle = head if size > head else 0
        if insert:
            self._text.insert(at + middle, insert)
        behind = at + middle + len(insert.encode())
        if size > middle:
            del self._text[behind : behind + size - middle]
        if middle:
            del self._text[at : at + middle]

    def observe(self, told: Callable[[ChangeSet, object], None]) -> Callable[[], None]:
        """Tell of every change, ours and those of other replicas, once it is made; return what stops that.

        It is told the change over the text before, and the origin: what ``apply`` was given, also when it is
        undone, and None for most others. It must not change the text itself.
        """
        self._listeners.append(told)

        def stop() -> None:
            if told in self._listeners:
                self._listeners.remove(told)

        return stop

    def take_snapshot(self) -> TextSnapshot:
        """Return the text as it is now; it follows what is changed from now on."""
        return TextSnapshot(self)

    def undo(self, origin: str) -> bool:
        """Take back all that was made undoable with this origin, in one transaction.

        What others wrote since stays, also inside of what is taken back. Returns False if there is nothing
        to take back.
        """
        undo = self._undos.pop(origin, None)
        if undo is None or not undo.can_undo():
            return False
        self._undoing = origin
        try:
            return undo.undo()
        finally:
            self._undoing = ""
            undo.clear()

    def forget_undo(self, origin: str) -> None:
        """Forget how to take back what was made with this origin."""
        if undo := self._undos.pop(origin, None):
            undo.clear()

    def can_undo(self, origin: str) -> bool:
        """Tell whether ``undo`` would take back something."""
        undo = self._undos.get(origin)
        return undo is not None and undo.can_undo()

    def to_utf16(self, offset: int) -> int:
        """Return where a place (code points, now) is in UTF-16 units, as browsers count."""
        at = min(max(offset, 0), len(self._seen))
        return at + bisect_left(self._find_astral(), at)

    def from_utf16(self, utf16: int) -> int:
        """Return where a browser's place is in code points. Within a character: in front of it."""
        at = max(utf16, 0)
        return min(at - bisect_left(_Utf16Index(self._find_astral()), at), len(self._seen))

    def to_relative_position(self, offset: int) -> RelativePosition:
        """Return a place (code points, now) in the form that browsers keep a caret in."""
        if offset <= 0:
            return {"type": None, "tname": NAME, "item": None, "assoc": -1}
        self._remove_foreign()
        text = str(self)
        # What a new character at the place says of the one on its left is right, in Yjs's own units. pycrdt's
        # own way to ask for it is wrong in every text that is not ASCII.
        other: Doc[Any] = Doc()
        other.apply_update(self.doc.get_update())
        before = other.get_state()
        other.get(NAME, type=Text).insert(len(text[:offset].encode()), "x")
        client, clock = _read_left_origin(other.get_update(before))
        return {"type": None, "tname": None, "item": {"client": client, "clock": clock}, "assoc": -1}

    def _on_text_event(self, event: TextEvent) -> None:
        before, after = self._seen, str(self._text)
        changes = _convert_delta(before, cast("list[dict[str, object]]", event.delta), after)
        self._seen, self._version, self._wide = after, "", None
        if not changes:
            return
        origin = self._undoing or event.transaction.origin
        problems: list[Exception] = []
        for told in tuple(self._listeners):
            try:
                told(changes, origin)
            except Exception as error:  # noqa: BLE001 - one that fails keeps nothing from the others
                problems.append(error)
        if problems:
            raise ExceptionGroup("a listener of a shared text failed", problems)

    def _watch(self, origin: str) -> None:
        if origin in self._undos:
            return
        while len(self._undos) >= _UNDOS:
            self.forget_undo(next(iter(self._undos)))
        undo = UndoManager(scopes=[self._text], capture_timeout_millis=_FOREVER)
        undo.include_origin(origin)
        self._undos[origin] = undo

    def _find_astral(self) -> list[int]:
        """Return where the characters are that take two UTF-16 units."""
        if self._wide is None:
            self._wide = [found.start() for found in _ASTRAL.finditer(self._seen)]
        return self._wide

    def _remove_foreign(self) -> None:
        """Remove what a client put into the text that is no text: it counts as a byte, and shows nowhere."""
        if len(self._text) == len(str(self._text).encode()):
            return
        at = 0
        with self.doc.transaction():
            for piece, _ in self._text.diff():
                if isinstance(piece, str):
                    at += len(piece.encode())
                else:
                    del self._text[at : at + 1]


class _Utf16Index:
    """The positions of wide characters in UTF-16 units, from those in code points."""

    def __init__(self, places: Sequence[int]) -> None:
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: int) -> int:
        return self._places[at] + at


def _map_to_bytes(text: str, changes: Iterable[Change]) -> Iterator[tuple[int, int]]:
    seen = at = 0
    for change in changes:
        start = at + len(text[seen : change.start].encode())
        at = start + len(text[change.start : change.end].encode())
        seen = change.end
        yield start, at


def _convert_delta(before: str, delta: Iterable[dict[str, object]], after: str) -> ChangeSet:
    """Return a change that leads from one text to the other: the one that is told, unless it cannot be so."""
    try:
        changes = ChangeSet.of(len(before), _parse_delta(before.encode(), delta))
        if changes.apply(before) == after:
            return changes
    except ValueError:  # offsets of what is no text
        pass
    change = Change(0, len(before), after).narrow(before)
    return ChangeSet.of(len(before), [change])


def _parse_delta(before: bytes, delta: Iterable[dict[str, object]]) -> Iterator[Change]:
    at_byte = at = 0
    for step in delta:
        insert = step.get("insert")
        if isinstance(insert, str):
            yield Change(at, at, insert)
            continue
        size = step.get("retain", step.get("delete"))
        if not isinstance(size, int):
            raise ValueError("not a step over text")  # noqa: TRY004 - caught above
        passed = len(before[at_byte : at_byte + size].decode())
        if "delete" in step:
            yield Change(at, at + passed, "")
        at, at_byte = at + passed, at_byte + size


def _read_left_origin(update: bytes) -> tuple[int, int]:
    """Return the (client, clock) that the only new character of an update has on its left.

    The update begins with four numbers: clients, structs, the client, its clock. Then comes the struct: a
    byte that says what it is, and, since something is on its left, what that is.
    """
    numbers = _VarIntReader(update)
    for _ in range(4):
        numbers.read_var_uint()
    numbers.at += 1
    return numbers.read_var_uint(), numbers.read_var_uint()


class _VarIntReader:
    """Reads numbers that are written with 7 bits a byte, the lowest first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read_var_uint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


@cache
def _require_bytes() -> None:
    """Refuse a pycrdt that counts in something else: every edit would land in the wrong place.

    Raises:
        RuntimeError: it does.
    """
    text = Doc[Any]().get(NAME, type=Text)
    text.insert(0, "日")
    if len(text) != 3:
        raise RuntimeError("this version of pycrdt does not count texts in bytes; install pycrdt>=0.14,<0.15")
