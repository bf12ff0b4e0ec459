"""Keeps who wrote which passage of a text.

It follows every change of the text: what comes has the author of the change, and what was removed and comes
back has its own again. A text that was changed without being watched is compared with the one that was known:
what is new there is nobody's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from kakite.collab.shared_text import hash_text
from kakite.collab.suggestions.minimal_diff import compute_minimal_diff

if TYPE_CHECKING:
    from kakite.edit import Change, ChangeSet

AuthorKind = Literal["person", "assistant", "agent", "file"]
"""``agent``: a program that is connected over MCP; ``file``: whoever wrote the page's file."""

_MAX_REMOVED: Final = 200
"""Removals of which it is remembered who wrote what went."""
_LARGE: Final = 100_000
"""Characters of all that is remembered."""
_PART: Final = 2
"""Characters that come back of a longer removal at once; a single one is somebody's typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who wrote something."""

    kind: AuthorKind
    name: str = ""
    model: str = ""
    """Of an assistant."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text by one author, in code points."""

    start: int
    end: int
    author: Author | None
    """None: it is not known."""


_Run = tuple[int, "Author | None"]
"""So many characters, and their author."""


class Authorship:
    """Who wrote which passage of one text."""

    def __init__(self, text: str, author: Author | None = None) -> None:
        """Begin with a text that is all by one author."""
        self._text = text
        self._runs: list[_Run] = _join([(len(text), author)])
        self._removed: list[_Removal] = []

    def list_passages(self) -> list[Passage]:
        """Return all passages, in the order of the text."""
        found: list[Passage] = []
        at = 0
        for length, author in self._runs:
            found.append(Passage(at, at + length, author))
            at += length
        return found

    def follow(self, changes: ChangeSet, after: str, author: Author | None) -> None:
        """Go on with a change of the text, which somebody made.

        Law: what stays keeps its author; what comes is the change's, unless it was removed at this very
        place: then it is whose it was.
        """
        reader, made, at = _Reader(self._runs), list[_Run](), 0
        removed, new = list(self._removed), list[_Removal]()
        for change in changes.changes:
            made += reader.read(change.start - at)
            gone = reader.read(change.end - change.start)
            words = self._text[change.start : change.end]
            if change.insert == words:
                made += gone
            else:
                made += _take_back(removed, change, author)
                new.append(_Removal(change.start, words, tuple(gone), change.insert == ""))
            at = change.end
        made += reader.read(len(self._text) - at)
        self._removed = _remember(removed, new, changes)
        self._text, self._runs = after, _join(made)

    def to_json(self) -> dict[str, Any]:
        """Return all of it, to be stored."""
        authors = list(dict.fromkeys(author for _, author in self._runs if author is not None))
        number = {author: at for at, author in enumerate(authors)}
        runs = [[length, -1 if author is None else number[author]] for length, author in self._runs]
        return {"text": hash_text(self._text), "authors": [asdict(each) for each in authors], "runs": runs}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], known: Sequence[str]) -> Authorship:
        """Go on with what was stored.

        Args:
            data: what ``to_json`` gave; anything else is as if nothing were known.
            known: the present text, and others of which one may be what it was stored for.
        """
        now = known[0]
        try:
            authors = [Author(**each) for each in cast("list[dict[str, Any]]", data["authors"])]
            stored = cast("list[tuple[int, int]]", data["runs"])
            runs: list[_Run] = [(length, authors[at] if at >= 0 else None) for length, at in stored]
            text = next(each for each in known if hash_text(each) == data["text"])
        except (KeyError, TypeError, IndexError, StopIteration):
            return cls(now)
        if sum(length for length, _ in runs) != len(text):
            return cls(now)
        self = cls(text)
        self._runs = _join(runs)
        self.follow(compute_minimal_diff(text, now), now, None)
        return self


@dataclass(frozen=True, slots=True)
class _Removal:
    """What was removed, and whose it was."""

    at: int
    """Where it stood, in the present text."""
    words: str
    runs: tuple[_Run, ...]
    joins: bool = True
    """Whether what is removed beside it belongs to it: nothing took its place."""
    behind: bool = False
    """Whether what comes at its place now comes before it."""

    def cut(self, start: int, end: int) -> _Removal:
        """Return a part of it."""
        reader = _Reader(self.runs)
        reader.read(start)
        return replace(self, words=self.words[start:end], runs=tuple(reader.read(end - start)))


def _take_back(removed: list[_Removal], change: Change, author: Author | None) -> tuple[_Run, ...]:
    """Return whose the characters are that come; what comes back is remembered no longer."""
    size = len(change.insert)
    for place in reversed(range(len(removed) if size else 0)):
        found = removed[place]
        if found.at != change.start:
            continue
        if found.words == change.insert:
            del removed[place]
            return found.runs
        rest = len(found.words)
        if size >= _PART and found.words.startswith(change.insert):
            removed[place] = replace(found.cut(size, rest), behind=True)
            return found.cut(0, size).runs
        if size >= _PART and found.words.endswith(change.insert):
            removed[place] = found.cut(0, rest - size)
            return found.cut(rest - size, rest).runs
    return ((size, author),)


def _remember(removed: Sequence[_Removal], new: Sequence[_Removal], changes: ChangeSet) -> list[_Removal]:
    """Return the removals after a change, those that touch as one, the latest last."""
    kept = list(removed)
    for each in new:
        if not each.words:
            continue
        whole = each
        for other in removed if each.joins else ():
            if other.joins and other.at == each.at + len(each.words) and other in kept:  # with Backspace
                whole = replace(whole, words=whole.words + other.words, runs=(*whole.runs, *other.runs))
                kept.remove(other)
            elif other.joins and other.at == each.at and other in kept:  # with Delete
                whole = replace(whole, words=other.words + whole.words, runs=(*other.runs, *whole.runs))
                kept.remove(other)
        kept.append(whole)
    moved = [replace(each, at=_move(each, changes), behind=False) for each in kept[-_MAX_REMOVED:]]
    room, last = _LARGE, list[_Removal]()
    for each in reversed(moved):
        room -= len(each.words)
        if room < 0:
            break
        last.append(each)
    return last[::-1]


def _move(removal: _Removal, changes: ChangeSet) -> int:
    """Return where it stands after a change: before what comes at its place, as a rule."""
    shift = 0
    for change in changes.changes:
        if removal.at < change.start or (removal.at == change.start and not removal.behind):
            break
        if change.start < removal.at < change.end:
            return change.start + shift
        shift += len(change.insert) - (change.end - change.start)
    return removal.at + shift


class _Reader:
    """Reads runs piece by piece."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self._rest = deque(runs)

    def read(self, length: int) -> list[_Run]:
        """Return the authors of the next characters."""
        read: list[_Run] = []
        while length > 0:
            size, author = self._rest.popleft()
            taken = min(size, length)
            read.append((taken, author))
            if size > taken:
                self._rest.appendleft((size - taken, author))
            length -= taken
        return read


def _join(runs: Sequence[_Run]) -> list[_Run]:
    """Return the same with as few runs as possible."""
    joined: list[_Run] = []
    for length, author in runs:
        if joined and joined[-1][1] == author:
            joined[-1] = (joined[-1][0] + length, author)
        elif length:
            joined.append((length, author))
    return joined
