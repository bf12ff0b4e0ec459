"""A page's text and its file, kept the same: what people write goes to the file, what changes there comes in.

Neither is ever lost: where both changed, both stand in the text. As long as the file cannot be written, the
text stays in the page and its store, and the page says why.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from kakite.collab.file_text import FileText, UnwritableError, merged
from kakite.collab.shared_text import SharedText
from kakite.collab.store import Saving
from kakite.errors import KakiteError
from kakite.workspace import Author, Workspace, WorkspaceError

LOOK_EVERY = 0.4
"""Seconds between two looks at the file of an open page."""
QUIET = 0.6
"""Seconds without a change after which a text is written."""
LATEST = 1.2
"""Seconds after which it is written at the latest."""
RETRY = 2.0
"""Seconds until a file that could not be written is tried again."""
FILE = "file"
"""The origin of changes that came from the file."""

_Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """How a page's file stands."""

    saved: bool
    problem: str | None

    def to_json(self) -> dict[str, object]:
        """Return it as the page is told."""
        return {"saved": self.saved, "problem": self.problem}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """Who is told what."""

    keep: Callable[[Saving], None]
    """Takes what is to be stored, with whatever else happened in this turn of the event loop."""
    keep_now: Callable[[Saving], None]
    """Stores this and all that is to be stored before it returns; raises StoreError."""
    settled: Callable[[], Awaitable[None]]
    """Waits until what was to be stored is where it outlives this process; raises KakiteError if it is not,
    or if another process has the file by now."""
    may_act: Callable[[], bool]
    """Tells whether the file is this process's to read and write at this moment."""
    changed: Callable[[], None]
    """Is called when ``Disk.state`` is another one."""
    writers: Callable[[], Collection[str]]
    """Returns the names of those who changed the text since it was last asked."""


class Disk:
    """The file of one page."""

    def __init__(
        self, name: str, workspace: Workspace, text: SharedText, base: FileText | None, sinks: Sinks
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
        """How the file stands."""
        return FileState(saved=not self._first, problem=self._problem)

    def dirty(self, origin: object = None) -> None:
        """Say that the text changed."""
        if origin == FILE:
            return
        now = time.monotonic()
        self._first = self._first or now
        self._last = now
        if isinstance(origin, str) and origin.startswith("run:"):
            self._runs.add(origin.removeprefix("run:"))
        self._news.set()
        self._tell()

    async def watch(self) -> None:
        """Keep both the same, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._news.wait()
            self._news.clear()
            async with self._alone():
                await self._look()
                if self._first and self._is_due() and self._sinks.may_act():
                    await self._write()

    async def save(self) -> bool:
        """Write what is not written now; tell whether all of it is on disk."""
        async with self._alone():
            await self._look()
            for _ in range(5):
                if not self._first or not self._sinks.may_act():
                    break
                await self._write()
                if self._problem:
                    break
        return not self._first

    async def look(self) -> None:
        """Take in now what changed in the file."""
        async with self._alone():
            await self._look()

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Be the only one at the file: also a write whose watch was cancelled is waited for.

        What such a write brings into the file would be taken for others, and come in a second time.
        """
        async with self._busy:
            if self._writing is not None and not self._writing.done():
                await asyncio.wait({self._writing})
            yield

    def _pause(self) -> float:
        if not self._first or not self._sinks.may_act():
            return LOOK_EVERY
        return min(LOOK_EVERY, max(0.01, self._due() - time.monotonic()))

    def _due(self) -> float:
        return max(min(self._first + LATEST, self._last + QUIET), self._again)

    def _is_due(self) -> bool:
        return time.monotonic() >= self._due()

    async def _look(self) -> None:
        try:
            seen = await asyncio.to_thread(self._signature)
            if seen is not None and seen == self._seen:
                return
            if seen is None and self._seen is None and not self._there:
                return
            file = await asyncio.to_thread(self._workspace.read, self.name)
        except WorkspaceError as error:
            if self._sinks.may_act():
                self._missed(error)
            return
        if not self._sinks.may_act():  # it was read a while ago, and the text may be another owner's by now
            return
        self._seen = seen
        self._there = True
        if self._base is None or self._base.source.to_bytes() != file.data:
            self._take_in(FileText.of(file.data))
        elif self._problem and not self._first:
            self._problem = None
            self._tell()

    def _missed(self, error: WorkspaceError) -> None:
        self._seen = None
        if error.code == "file_not_found":
            if self._there:
                self._there = False
                self._problem = "the file was removed or renamed; the next change writes it again"
                self._tell()
        elif self._problem != error.message:
            self._problem = error.message
            self._tell()

    def _take_in(self, found: FileText) -> None:
        """Bring into the text what others wrote into the file."""
        if not found.is_text:
            self._problem = "the file is no text any more; the text that was here stays in this page"
            self._tell()
            return
        before = str(self._text)
        common = self._base.text if self._base is not None else ""
        changes = merged(common, before, found.text)
        if changes:
            self._text.apply(changes, FILE)
        self._set_base(found)
        self._problem = None
        self._settle()

    def _set_base(self, base: FileText) -> None:
        self._base = base
        self._sinks.keep(Saving(base=(base.source.to_bytes(), base.source.encoding)))

    def _settle(self) -> None:
        """See whether anything is left to write."""
        assert self._base is not None
        same = str(self._text) == self._base.text
        if same:
            self._first = 0.0
            self._runs.clear()
        elif not self._first:
            self._first = self._last = time.monotonic()
        self._sinks.keep(Saving(dirty=not same))
        self._tell()

    async def _write(self) -> None:
        self._writing = asyncio.create_task(self._write_whole())
        await asyncio.shield(self._writing)

    async def _write_whole(self) -> None:
        text = str(self._text)
        first, self._first = self._first, 0.0
        runs, self._runs = self._runs, set()
        names = self._sinks.writers()
        try:
            written = await self._written(text, _author(names, runs))
        except (KakiteError, UnwritableError) as error:
            self._first, self._runs = first, runs | self._runs
            self._again = time.monotonic() + RETRY
            stale = isinstance(error, WorkspaceError) and error.code in {"stale", "file_exists"}
            if stale:
                self._seen, self._again = None, 0.0
                await self._look()
            else:
                self._problem = str(error)
                self._tell()
            return
        self._there, self._seen, self._again, self._problem = True, None, 0.0, None
        self._set_base(written)
        self._settle()

    async def _written(self, text: str, by: Author) -> FileText:
        base = self._base
        new = FileText.of(text.encode()) if base is None else base.rewritten(text)
        data = new.source.to_bytes()
        expected = base.version if base is not None and self._there else None
        if base is not None and self._there and data == base.source.to_bytes():
            return new
        self._sinks.keep_now(Saving(writing=data))  # so that after a crash it is known as ours
        await self._sinks.settled()
        await asyncio.to_thread(self._workspace.write, self.name, data, expected=expected, by=by)
        return new

    def _signature(self) -> _Signature | None:
        try:
            found = os.stat(os.path.join(self._workspace.roots[0], self.name))  # noqa: PTH116, PTH118 - names need not be text
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _tell(self) -> None:
        if self.state != self._told:
            self._told = self.state
            self._sinks.changed()


def _author(names: Collection[str], runs: Collection[str]) -> Author:
    shown = ", ".join(sorted(names)[:3]) + (" and others" if len(names) > 3 else "")
    (run,) = runs if len(runs) == 1 else ("",)
    return Author(tool=f"collab: {shown}" if shown else "collab", run=run)
