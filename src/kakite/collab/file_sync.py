r"""Syncs a document's text with its file, in both directions.

Nothing is lost: where both changed, both stand in the text. As long as the file cannot be written, the text
stays in the document and its store, and the page shows the reason.

The text has ``\n`` alone; line ends, byte order mark, encoding and bytes that are no text stay in the file as
they were, outside of what was edited.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from kakite.collab.shared_text import SharedText
from kakite.collab.store import DocumentWrite
from kakite.edit import Change, ChangeSet, SourceText
from kakite.errors import KakiteError
from kakite.workspace import Author, Workspace, WorkspaceError, compute_version

REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""What a page shows for a byte that is no text."""

_MAX_LINE_PAIRS = 4_000_000  # of lines that are compared with each other


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
        object.__setattr__(self, "text", to_document_text(self.source.text))

    @classmethod
    def from_bytes(cls, data: bytes, encoding: str = "") -> FileText:
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
        return compute_version(self.source.to_bytes())

    @property
    def is_text(self) -> bool:
        """Whether there is anything to edit: no file with NUL characters is a text."""
        return "\0" not in self.source.text

    @property
    def line_end(self) -> str:
        r"""The line end that most lines have; ``\n`` if none has one."""
        text = self.source.text
        pairs = text.count("\r\n")
        counts = {"\n": text.count("\n") - pairs, "\r\n": pairs, "\r": text.count("\r") - pairs}
        return max(counts, key=lambda end: counts[end])

    def replace_text(self, text: str) -> FileText:
        """Return the file with this text as what its page shows; what does not differ keeps its bytes.

        Raises:
            UnwritableError: the file's encoding has not all its characters.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        changes = diff_texts(self.text, text)
        if not changes:
            return self
        placed = ChangeSet.of(len(self.source.text), self._map_to_source(changes))
        for change in placed.changes:
            if bad := self.source.find_unencodable(change.insert):
                raise UnwritableError(bad, self.source.encoding)
        return FileText(self.source.replace(placed))

    def _map_to_source(self, changes: ChangeSet) -> list[Change]:
        source = self.source.text
        if "\r" not in source:
            return list(changes.changes)
        pairs = _find_crlf(source)
        found: list[Change] = []
        for change in changes.changes:
            start = change.start + bisect_left(pairs, change.start)
            end = change.end + bisect_left(pairs, change.end)
            insert = change.insert.replace("\n", self.source.find_line_end(start))
            found.append(_separate_line_ends(source, Change(start, end, insert)))
        return found


def _separate_line_ends(source: str, change: Change) -> Change:
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


def _find_crlf(source: str) -> list[int]:
    r"""Return where, in the shown text, line ends stand that are two characters in the file."""
    found: list[int] = []
    at = source.find("\r\n")
    while at >= 0:
        found.append(at - len(found))
        at = source.find("\r\n", at + 2)
    return found


def to_document_text(text: str) -> str:
    """Return a file's text as its page shows it: one character for each, and one for each line end."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(REPLACEMENT_CHARACTER if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def diff_texts(old: str, new: str) -> ChangeSet:
    """Return the changes from one text to another, line by line, without what each keeps at its ends."""
    if old == new:
        return ChangeSet(len(old))
    whole = Change(0, len(old), new).narrow(old)
    low = old.rfind("\n", 0, whole.start) + 1
    high = old.find("\n", whole.end)
    high = len(old) if high < 0 else high + 1
    before = _split_lines(old[low:high])
    after = _split_lines(new[low : len(new) - (len(old) - high)])
    if len(before) * len(after) > _MAX_LINE_PAIRS:
        return ChangeSet.of(len(old), [whole])
    found: list[Change] = []
    starts = _compute_line_starts(before, low)
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            found.append(Change(starts[a], starts[b], "".join(after[c:d])).narrow(old))
    return ChangeSet.of(len(old), found)


def merge_two_way(ours: str, theirs: str) -> ChangeSet:
    """Return the changes of ``ours`` that bring in all lines of ``theirs``: nothing is known of before."""
    before, after = _split_lines(ours), _split_lines(theirs)
    if ours == theirs:
        return ChangeSet(len(ours))
    if len(before) * len(after) > _MAX_LINE_PAIRS:
        return ChangeSet.of(len(ours), [Change(len(ours), len(ours), theirs)])
    starts = _compute_line_starts(before, 0)
    found = [
        Change(starts[b], starts[b], "".join(after[c:d]))
        for kind, _, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind in {"replace", "insert"}
    ]
    return ChangeSet.of(len(ours), found)


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _compute_line_starts(lines: list[str], at: int) -> list[int]:
    starts = [at]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def merge_three_way(base: str, ours: str, theirs: str) -> ChangeSet:
    """Return the changes of ``ours`` that bring in what ``theirs`` changed since ``base``.

    Nothing that either side wrote is lost: where both wrote at one place, both stand there.
    """
    if theirs in {ours, base}:
        return ChangeSet(len(ours))
    local, outside = diff_texts(base, ours), diff_texts(base, theirs)
    same = set(local.changes)
    news = ChangeSet.of(len(base), [change for change in outside.changes if change not in same])
    return news.map(local)


POLL_INTERVAL = 0.4
"""Seconds between two looks at the file of an open page."""
WRITE_DELAY = 0.6
"""Seconds without a change after which a text is written."""
MAX_WRITE_DELAY = 1.2
"""Seconds after which it is written at the latest."""
RETRY = 2.0
"""Seconds until a file that could not be written is tried again."""
FILE_ORIGIN = "file"
"""The origin of changes that came from the file."""

_Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """The state of a document's file."""

    saved: bool
    problem: str | None

    def to_json(self) -> dict[str, object]:
        """Return it as the page is told."""
        return {"saved": self.saved, "problem": self.problem}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCallbacks:
    """The callbacks of a sync."""

    keep: Callable[[DocumentWrite], None]
    """Takes what is to be stored, with whatever else happened in this turn of the event loop."""
    keep_now: Callable[[DocumentWrite], None]
    """Stores this and all that is to be stored before it returns; raises StoreError."""
    settled: Callable[[], Awaitable[None]]
    """Waits until what was to be stored is where it outlives this process; raises KakiteError if it is not,
    or if another process has the file by now."""
    may_act: Callable[[], bool]
    """Tells whether the file is this process's to read and write at this moment."""
    changed: Callable[[], None]
    """Is called when ``FileSync.state`` changes."""
    writers: Callable[[], Collection[str]]
    """Returns the names of those who changed the text since it was last asked."""


class FileSync:
    """The file of one page."""

    def __init__(
        self, name: str, workspace: Workspace, text: SharedText, base: FileText | None, sinks: SyncCallbacks
    ) -> None:
        """``base`` is the content that text and file last had in common; None if there was no file."""
        self.name = name
        self._workspace = workspace
        self._text = text
        self._base = base
        self._sinks = sinks
        self._there = base is not None
        """Whether the file was there when it was last looked at."""
        self._seen: _Signature | None = None
        self._first = self._last = 0.0
        """When the first and the last change came that are not written; 0: there are none."""
        self._runs: set[str] = set()
        self._problem: str | None = None
        self._again = 0.0
        self._told = FileState(saved=True, problem=None)
        self._busy = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._wanted = False

    @property
    def base(self) -> FileText | None:
        """The content that text and file last had in common."""
        return self._base

    @property
    def state(self) -> FileState:
        """The state of the file."""
        return FileState(saved=not self._first, problem=self._problem)

    def mark_dirty(self, origin: object = None) -> None:
        """Say that the text changed."""
        if origin == FILE_ORIGIN:
            return
        now = time.monotonic()
        self._first = self._first or now
        self._last = now
        if isinstance(origin, str) and origin.startswith("run:"):
            self._runs.add(origin.removeprefix("run:"))
        self._news.set()
        self._notify_state()

    async def watch(self) -> None:
        """Keep both the same, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._compute_wait()):
                    await self._news.wait()
            self._news.clear()
            async with self._lock_file():
                await self._reload()
                if self._first and self._is_due() and self._sinks.may_act():
                    await self._write()

    async def save(self) -> bool:
        """Write what is not written now; tell whether all of it is on disk."""
        async with self._lock_file():
            await self._reload()
            for _ in range(5):
                if not self._first or not self._sinks.may_act():
                    break
                await self._write()
                if self._problem:
                    break
        return not self._first

    async def reload(self) -> None:
        """Take in now what changed in the file."""
        async with self._lock_file():
            await self._reload()

    @asynccontextmanager
    async def _lock_file(self) -> AsyncGenerator[None]:
        """Be the only one at the file: also a write whose watch was cancelled is waited for.

        What such a write brings into the file would be taken for others, and come in a second time.
        """
        async with self._busy:
            if self._writing is not None and not self._writing.done():
                await asyncio.wait({self._writing})
            yield

    def _compute_wait(self) -> float:
        if not self._first or not self._sinks.may_act():
            return POLL_INTERVAL
        return min(POLL_INTERVAL, max(0.01, self._compute_due_time() - time.monotonic()))

    def _compute_due_time(self) -> float:
        return max(min(self._first + MAX_WRITE_DELAY, self._last + WRITE_DELAY), self._again)

    def _is_due(self) -> bool:
        return time.monotonic() >= self._compute_due_time()

    async def _reload(self) -> None:
        try:
            seen = await asyncio.to_thread(self._stat_file)
            if seen is not None and seen == self._seen:
                return
            if seen is None and self._seen is None and not self._there:
                return
            file = await asyncio.to_thread(self._workspace.read, self.name)
        except WorkspaceError as error:
            if self._sinks.may_act():
                self._on_read_error(error)
            return
        if not self._sinks.may_act():  # it was read a while ago, and the text may be another owner's by now
            return
        self._seen = seen
        self._there = True
        if self._base is None or self._base.source.to_bytes() != file.data:
            self._merge_file(FileText.from_bytes(file.data))
        elif self._problem and not self._first:
            self._problem = None
            self._notify_state()

    def _on_read_error(self, error: WorkspaceError) -> None:
        self._seen = None
        if error.code == "file_not_found":
            if self._there:
                self._there = False
                self._problem = "the file was removed or renamed; the next change writes it again"
                self._notify_state()
        elif self._problem != error.message:
            self._problem = error.message
            self._notify_state()

    def _merge_file(self, found: FileText) -> None:
        """Bring into the text what others wrote into the file."""
        if not found.is_text:
            self._problem = "the file is not text any more; the text that was here stays in this page"
            self._notify_state()
            return
        before = str(self._text)
        common = self._base.text if self._base is not None else ""
        changes = merge_three_way(common, before, found.text)
        if changes:
            self._text.apply(changes, FILE_ORIGIN)
        self._set_base(found)
        self._problem = None
        self._update_dirty()

    def _set_base(self, base: FileText) -> None:
        self._base = base
        self._sinks.keep(DocumentWrite(base=(base.source.to_bytes(), base.source.encoding)))

    def _update_dirty(self) -> None:
        """See whether anything is left to write."""
        assert self._base is not None
        same = str(self._text) == self._base.text
        if same:
            self._first = 0.0
            self._runs.clear()
        elif not self._first:
            self._first = self._last = time.monotonic()
        self._sinks.keep(DocumentWrite(dirty=not same))
        self._notify_state()

    async def _write(self) -> None:
        self._writing = asyncio.create_task(self._write_whole())
        await asyncio.shield(self._writing)

    async def _write_whole(self) -> None:
        text = str(self._text)
        first, self._first = self._first, 0.0
        runs, self._runs = self._runs, set()
        names = self._sinks.writers()
        try:
            written = await self._write_file(text, _build_author(names, runs))
        except (KakiteError, UnwritableError) as error:
            self._first, self._runs = first, runs | self._runs
            self._again = time.monotonic() + RETRY
            stale = isinstance(error, WorkspaceError) and error.code in {"stale", "file_exists"}
            if stale:
                self._seen, self._again = None, 0.0
                await self._reload()
            else:
                self._problem = str(error)
                self._notify_state()
            return
        self._there, self._seen, self._again, self._problem = True, None, 0.0, None
        self._set_base(written)
        self._update_dirty()

    async def _write_file(self, text: str, by: Author) -> FileText:
        base = self._base
        new = FileText.from_bytes(text.encode()) if base is None else base.replace_text(text)
        data = new.source.to_bytes()
        expected = base.version if base is not None and self._there else None
        if base is not None and self._there and data == base.source.to_bytes():
            return new
        self._sinks.keep_now(DocumentWrite(writing=data))  # so that after a crash it is known as ours
        await self._sinks.settled()
        await asyncio.to_thread(self._workspace.write, self.name, data, expected=expected, by=by)
        return new

    def _stat_file(self) -> _Signature | None:
        try:
            found = os.stat(os.path.join(self._workspace.roots[0], self.name))  # noqa: PTH116, PTH118 - names need not be text
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _notify_state(self) -> None:
        if self.state != self._told:
            self._told = self.state
            self._sinks.changed()


def _build_author(names: Collection[str], runs: Collection[str]) -> Author:
    shown = ", ".join(sorted(names)[:3]) + (" and others" if len(names) > 3 else "")
    (run,) = runs if len(runs) == 1 else ("",)
    return Author(tool=f"collab: {shown}" if shown else "collab", run=run)
