"""Keeps who wrote which passage of a text.

It follows every change of the text: what comes has the author of the change, and what was removed and comes
back has its own again. A text that was changed without being watched is compared with the one that was known:
what is new there is nobody's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from kakite.collab.shared_text import hash_text
from kakite.collab.suggestions.minimal_diff import compute_minimal_diff

if TYPE_CHECKING:
    from kakite.edit import ChangeSet

AuthorKind = Literal["person", "assistant", "agent", "file"]
"""``agent``: a program that is connected over MCP; ``file``: whoever wrote the page's file."""

_MAX_REMOVED: Final = 200
"""Removals of which it is remembered who wrote what went."""
_LARGE: Final = 100_000
"""Characters of a removal beyond which it is not remembered."""


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
        self._removed: deque[tuple[str, list[_Run]]] = deque(maxlen=_MAX_REMOVED)

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

        Law: what stays keeps its author; what comes is the change's, unless it was just removed: then it is
        whose it was.
        """
        reader, made, at = _Reader(self._runs), list[_Run](), 0
        for change in changes.changes:
            made += reader.read(change.start - at)
            gone = reader.read(change.end - change.start)
            words = self._text[change.start : change.end]
            made += self._find_authors(change.insert, words, gone, author)
            if words and len(words) <= _LARGE:
                self._removed.append((words, gone))
            at = change.end
        made += reader.read(len(self._text) - at)
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

    def _find_authors(
        self, insert: str, words: str, gone: list[_Run], author: Author | None
    ) -> Iterator[_Run]:
        """Yield whose the characters are that come."""
        if insert == words:
            yield from gone
            return
        for removed, authors in reversed(self._removed):
            if removed and removed == insert:
                yield from authors
                return
        yield (len(insert), author)


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
