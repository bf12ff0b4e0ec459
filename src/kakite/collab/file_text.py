r"""A file as its page shows it, and back: the page has ``\n`` alone, the file keeps what it has.

Line ends, byte order mark, encoding and bytes that are no text stand in the file as they stood, outside of
what was edited. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from kakite.edit import Change, ChangeSet, SourceText
from kakite.workspace import version_of

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""What a page shows for a byte that is no text."""

_MOST_PAIRS = 4_000_000  # of lines that are compared with each other


class UnwritableError(ValueError):
    """The file's encoding cannot hold a character: ``character``, ``encoding``."""

    def __init__(self, character: str, encoding: str) -> None:
        super().__init__(f"the file is in {encoding}, which has no `{character}`")
        self.character = character
        self.encoding = encoding


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's content, as it is and as its page shows it."""

    source: SourceText
    text: str = field(init=False)
    """As the page shows it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", shown(self.source.text))

    @classmethod
    def of(cls, data: bytes, encoding: str = "") -> FileText:
        """Read a file; if it can be read as ``encoding``, it is."""
        found = SourceText.from_bytes(data)
        if encoding and found.encoding != encoding and not found.bom:
            try:
                return cls(SourceText(data.decode(encoding), encoding, b"", data))
            except (UnicodeDecodeError, LookupError):
                pass
        return cls(found)

    @property
    def version(self) -> str:
        """The version of the file, as the workspace counts."""
        return version_of(self.source.to_bytes())

    @property
    def is_text(self) -> bool:
        """Whether there is anything to edit: no file with NUL characters is a text."""
        return "\0" not in self.source.text

    @property
    def line_end(self) -> str:
        r"""What most lines end with; ``\n`` if none does."""
        text = self.source.text
        pairs = text.count("\r\n")
        counts = {"\n": text.count("\n") - pairs, "\r\n": pairs, "\r": text.count("\r") - pairs}
        return max(counts, key=lambda end: counts[end])

    def rewritten(self, text: str) -> FileText:
        """Return the file with this text as what its page shows; what does not differ keeps its bytes.

        Raises:
            UnwritableError: the file's encoding has not all its characters.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        changes = differences(self.text, text)
        if not changes:
            return self
        placed = ChangeSet.of(len(self.source.text), self._placed(changes))
        for change in placed.changes:
            if bad := self.source.unencodable(change.insert):
                raise UnwritableError(bad, self.source.encoding)
        return FileText(self.source.replace(placed))

    def _placed(self, changes: ChangeSet) -> list[Change]:
        source = self.source.text
        if "\r" not in source:
            return list(changes.changes)
        pairs = _pairs(source)
        found: list[Change] = []
        for change in changes.changes:
            start = change.start + bisect_left(pairs, change.start)
            end = change.end + bisect_left(pairs, change.end)
            insert = change.insert.replace("\n", self.source.line_end_at(start))
            found.append(_apart(source, Change(start, end, insert)))
        return found


def _apart(source: str, change: Change) -> Change:
    r"""Return the change such that no ``\r`` that ends a line comes to stand before another's ``\n``.

    One that would is made a ``\r\n``.
    """
    insert = change.insert
    if source[change.start - 1 : change.start] == "\r" and (
        insert or source[change.end : change.end + 1]
    ).startswith("\n"):
        insert = f"\n{insert}"
    if insert.endswith("\r") and source.startswith("\n", change.end):
        insert = f"{insert}\n"
    return Change(change.start, change.end, insert)


def _pairs(source: str) -> list[int]:
    r"""Return where, in the shown text, line ends stand that are two characters in the file."""
    found: list[int] = []
    at = source.find("\r\n")
    while at >= 0:
        found.append(at - len(found))
        at = source.find("\r\n", at + 2)
    return found


def shown(text: str) -> str:
    """Return a file's text as its page shows it: one character for each, and one for each line end."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(UNKNOWN if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def differences(old: str, new: str) -> ChangeSet:
    """Return the changes from one text to another, line by line, without what each keeps at its ends."""
    if old == new:
        return ChangeSet(len(old))
    whole = Change(0, len(old), new).narrowed(old)
    low = old.rfind("\n", 0, whole.start) + 1
    high = old.find("\n", whole.end)
    high = len(old) if high < 0 else high + 1
    before = _lines(old[low:high])
    after = _lines(new[low : len(new) - (len(old) - high)])
    if len(before) * len(after) > _MOST_PAIRS:
        return ChangeSet.of(len(old), [whole])
    found: list[Change] = []
    starts = _starts(before, low)
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            found.append(Change(starts[a], starts[b], "".join(after[c:d])).narrowed(old))
    return ChangeSet.of(len(old), found)


def united(ours: str, theirs: str) -> ChangeSet:
    """Return the changes of ``ours`` that bring in all lines of ``theirs``: nothing is known of before."""
    before, after = _lines(ours), _lines(theirs)
    if ours == theirs:
        return ChangeSet(len(ours))
    if len(before) * len(after) > _MOST_PAIRS:
        return ChangeSet.of(len(ours), [Change(len(ours), len(ours), theirs)])
    starts = _starts(before, 0)
    found = [
        Change(starts[b], starts[b], "".join(after[c:d]))
        for kind, _, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind in {"replace", "insert"}
    ]
    return ChangeSet.of(len(ours), found)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _starts(lines: list[str], at: int) -> list[int]:
    starts = [at]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def merged(base: str, ours: str, theirs: str) -> ChangeSet:
    """Return the changes of ``ours`` that bring in what ``theirs`` changed since ``base``.

    Nothing that either side wrote is lost: where both wrote at one place, both stand there.
    """
    if theirs in {ours, base}:
        return ChangeSet(len(ours))
    local, outside = differences(base, ours), differences(base, theirs)
    same = set(local.changes)
    news = ChangeSet.of(len(base), [change for change in outside.changes if change not in same])
    return news.map(local)
