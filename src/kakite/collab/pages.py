"""The pages of a folder: which files they are, and those that are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import cast

from pycrdt import TransactionEvent

from kakite.collab.disk import Disk, Sinks
from kakite.collab.file_text import FileText, merged
from kakite.collab.rooms import GOING, LIMITS, Refused, Room, RoomLimits
from kakite.collab.runs import Run
from kakite.collab.shared_text import SharedText
from kakite.collab.store import COMPACT_AFTER, Saving, Store, Stored, StoreError
from kakite.collab.suggestions import Suggestions
from kakite.edit import ChangeSet
from kakite.errors import KakiteError
from kakite.workspace import Author, Workspace, WorkspaceError

log = logging.getLogger(__name__)

SUFFIXES = frozenset((
    *(".md", ".markdown", ".mdown", ".mkd", ".mdx", ".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org"),
    *(".tex", ".bib", ".csv", ".tsv", ".srt", ".vtt", ".textile", ".wiki", ".fountain", ".log"),
))  # fmt: skip
"""Of files that are pages, besides those without any suffix that are called like a text."""
PLAIN = (
    "README*",
    "LICENSE*",
    "LICENCE*",
    "COPYING*",
    "NOTICE*",
    "CHANGES*",
    "CHANGELOG*",
    "AUTHORS*",
    "TODO*",
)

SOFT_SIZE = 256 * 1024
"""Bytes above which a browser grows slow; the page says so."""
MOST_SIZE = 4 * 1024 * 1024
"""Bytes above which a file is no page."""
MOST_LISTED = 5_000
STORE_SOON = 0.02
"""Seconds in which changes are gathered before they are stored."""
LINGER = 20.0
"""Seconds for which a page stays open when nobody is on it any more."""


class NoSuchPageError(KakiteError):
    """There is no page of this name: ``no_such_page``."""

    code = "no_such_page"


class PageTooLargeError(KakiteError):
    """The file is too large to be a page, or no text: ``too_large``, ``not_text``."""

    code = "too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page as the list shows it."""

    name: str
    size: int
    """Bytes of the file."""


class Page:
    """One open page: its text, who is there, its file, and what is to be stored of it."""

    def __init__(
        self,
        name: str,
        stored: Stored | None,
        file: FileText | None,
        pages: Pages,
        runs: Callable[[], list[Run]],
    ) -> None:
        """``file`` is what the file holds now; None if there is none."""
        self.name = name
        self._store = pages.store
        self._saving: Saving | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._store_problem: str | None = None
        self._rows = 0
        self.text = SharedText()
        self.suggestions = Suggestions(self.text, page=name)
        self.runs = runs
        """Returns the assistant's runs on this page."""
        self.room = Room(self.text.doc, self.state, limits=pages.limits)
        self.origin: object = None
        """Of the change that is being told of."""
        self.closing = False
        self.used = 0
        """How many hold the page open besides connections."""
        self.idle_since = asyncio.get_running_loop().time()
        self.on_update: Callable[[bytes], None] = lambda _update: None
        """Is told of every change of the document, for other processes."""
        base = self._begin(stored, file)
        sinks = Sinks(
            keep=self.keep, keep_now=self.keep_now, changed=self.room.tell_state, writers=self.room.writers
        )
        self.disk = Disk(name, pages.workspace, self.text, base, sinks)
        if base is None or str(self.text) != base.text:
            self.disk.dirty()
        self.store_now()
        self._stop = self.text.observe(self._note)
        self._observed = self.text.doc.observe(self._changed)
        self.suggestions.changed = self.tell_records
        self.watching = asyncio.create_task(self.disk.watch())

    @property
    def version(self) -> str:
        """The version of the text as it is now."""
        return self.text.version

    @property
    def line_end(self) -> str:
        """What the lines of the file end with, for the most part."""
        return self.disk.base.line_end if self.disk.base is not None else "\n"

    def state(self) -> dict[str, object]:
        """Return what the page shows beside its text."""
        file = self.disk.state.to_json()
        if self._store_problem and not file["problem"]:
            file["problem"] = self._store_problem
        shown = [each.to_json(self.text) for each in self.suggestions.pending()]
        return {"suggestions": shown, "runs": [run.to_json() for run in self.runs()], "file": file}

    def records(self) -> dict[str, object]:
        """Return what is stored beside the document."""
        return {
            "suggestions": self.suggestions.to_json(),
            "runs": [run.to_json() for run in self.runs()],
        }

    def tell_records(self) -> None:
        """Store what is beside the document, and tell everybody."""
        self.keep(Saving(records=self.records()))
        self.room.tell_state()

    def point(self, state: dict[str, object] | None) -> None:
        """Show the assistant's cursor, as that of a person; None: it is not there any more."""
        if state is not None or self.text.doc.client_id in self.room.presence:
            self.room.tell_presence(self.room.presence.set(self.text.doc.client_id, state))

    def keep(self, saving: Saving) -> None:
        """Store this soon, together with whatever else is to be stored of this page."""
        self._saving = saving if self._saving is None else self._saving.then(saving)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STORE_SOON, self._store_soon)

    def keep_now(self, saving: Saving) -> None:
        """Store this and all that waits.

        Raises:
            StoreError: it cannot be.
        """
        self.keep(saving)
        self.store_now()

    def store_now(self) -> None:
        """Store what waits.

        Raises:
            StoreError: it cannot be.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        saving = self._saving
        if saving is not None:
            self._rows = 1 if saving.instead else self._rows + len(saving.updates)
            if self._rows > COMPACT_AFTER:
                self._rows = 1
                saving = replace(saving, updates=(self.text.doc.get_update(),), instead=True)
            self._store.save(self.name, saving)
            self._saving = None
        if self._store_problem is not None:
            self._store_problem = None
            self.room.tell_state()

    async def close(self) -> bool:
        """Write and store all there is, and let everybody go; tell whether the file has all of the text."""
        self.closing = True
        self.watching.cancel()
        with suppress(asyncio.CancelledError):
            await self.watching
        self.room.close(Refused(GOING, "the server ends"))
        saved = await self.disk.save()
        try:
            self.keep_now(Saving(updates=(self.text.doc.get_update(),), instead=True, records=self.records()))
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400 - it says all there is to say
            saved = False
        self._stop()
        self.suggestions.close()
        self.text.doc.unobserve(self._observed)
        return saved

    def _begin(self, stored: Stored | None, file: FileText | None) -> FileText | None:
        """Bring document and file together as they are found; return what they have in common."""
        base = None
        if stored is not None:
            self.text.doc.apply_update(stored.update)
            self._restore(stored)
            base = _common(stored, file)
        if file is not None and base != file:
            before = str(self.text)
            self.text.apply(merged(base.text if base is not None else "", before, file.text), "file")
            base = file
        update = self.text.doc.get_update()
        self.room.written = len(update)
        dirty = base is None or str(self.text) != base.text
        self.keep(Saving(updates=(update,), instead=True, base=_base_of(base), dirty=dirty))
        return base

    def _restore(self, stored: Stored) -> None:
        """Take up the suggestions that were stored."""
        if not (told := stored.records.get("suggestions")):
            return
        try:
            found = Suggestions.from_json(self.text, cast("dict[str, object]", told), page=self.name)
        except (KeyError, TypeError, ValueError):
            log.warning("the suggestions for `%s` cannot be read and are dropped", self.name)
            return
        self.suggestions.close()
        self.suggestions = found

    def _note(self, _changes: ChangeSet, origin: object) -> None:
        self.origin = origin

    def _changed(self, event: TransactionEvent) -> None:
        origin, self.origin = self.origin, None
        update = event.update
        if update == b"\0\0":
            return
        self.keep(Saving(updates=(update,), dirty=True if origin != "file" else None))
        self.room.send_update(update)
        self.on_update(update)
        self.disk.dirty(origin)

    def _store_soon(self) -> None:
        self._timer = None
        try:
            self.store_now()
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400 - it says all there is to say
            self._timer = asyncio.get_running_loop().call_later(2.0, self._store_soon)
            if self._store_problem is None:
                self._store_problem = error.message
                self.room.tell_state()


def _base_of(file: FileText | None) -> tuple[bytes | None, str]:
    return (None, "") if file is None else (file.source.to_bytes(), file.source.encoding)


def _common(stored: Stored, file: FileText | None) -> FileText | None:
    """Return what the stored document and the file last had in common."""
    if file is not None and file.source.to_bytes() == stored.writing:
        return file
    return None if stored.base is None else FileText.of(stored.base, stored.encoding)


def _runs_in(stored: Stored) -> list[Run]:
    told = cast("list[dict[str, object]]", stored.records.get("runs", []))
    found: list[Run] = []
    for each in told:
        with suppress(KeyError, TypeError):
            found.append(Run.from_json(each))
    return found


class Pages:
    """All pages of a folder."""

    def __init__(
        self, workspace: Workspace, store: Store, *, read_only: bool = False, limits: RoomLimits = LIMITS
    ) -> None:
        """With ``read_only`` nobody may write."""
        self.workspace = workspace
        self.store = store
        self.read_only = read_only
        self.limits = limits
        self._open: dict[str, Page] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self.runs_of: Callable[[str], list[Run]] = lambda _page: []
        """Returns the assistant's runs on a page."""
        self.take_runs: Callable[[list[Run]], None] = lambda _runs: None
        """Takes the runs that were stored with a page."""
        self._tidying: asyncio.Task[None] | None = None

    @property
    def open_pages(self) -> Mapping[str, Page]:
        """Those that are open."""
        return self._open

    async def start(self) -> None:
        """Write what a process that was killed left unwritten, and begin to close what nobody uses."""
        for name in self.store.unsaved():
            try:
                await self.open(name)
            except KakiteError as error:
                log.warning("`%s`: %s", name, error)
        self._tidying = asyncio.create_task(self._tidy())

    async def close(self) -> list[str]:
        """Close all pages; return the names of those whose text is not all in its file."""
        if self._tidying is not None:
            self._tidying.cancel()
        names = list(self._open)
        saved = await asyncio.gather(*(self._close(name) for name in names))
        return [name for name, is_saved in zip(names, saved, strict=True) if not is_saved]

    async def listed(self) -> list[Listed]:
        """Return all pages, sorted by name."""
        return await asyncio.to_thread(self._list)

    async def open(self, name: str) -> Page:
        """Return this page, opened.

        Raises:
            NoSuchPageError: there is none.
            PageTooLargeError: the file is too large, or no text.
            StoreError: what is stored of it cannot be read.
        """
        if (page := self._open.get(name)) is not None and not page.closing:
            return page
        if not is_page(name):
            raise NoSuchPageError(f"there is no page `{name}`", hint="ask for the list of pages")
        async with self._opening.setdefault(name, asyncio.Lock()):
            if (page := self._open.get(name)) is None:
                page = await self._opened(name)
                self._open[name] = page
        return page

    async def create(self, name: str, text: str, *, by: str = "") -> None:
        """Write a file that is to be a page.

        Raises:
            WorkspaceError: ``file_exists``, ``bad_path``, ``write_denied``, …
        """
        if self.read_only or not is_page(name):
            hint = "end it with .md or .txt"
            raise WorkspaceError("bad_path", name, f"`{name}` cannot be a page", hint=hint)
        author = Author(tool=f"collab: {by}" if by else "collab")
        await asyncio.to_thread(self.workspace.write, name, text.encode(), expected=None, by=author)

    def is_writable(self, name: str) -> bool:
        """Tell whether anybody may write this page."""
        if self.read_only:
            return False
        try:
            self.workspace.check_writable(name)
        except WorkspaceError:
            return False
        return True

    async def _opened(self, name: str) -> Page:
        stored = self.store.load(name)
        try:
            file = await asyncio.to_thread(self.workspace.read, name)
        except WorkspaceError as error:
            if error.code == "too_large":
                raise PageTooLargeError(error.message) from error
            if stored is None or error.code != "file_not_found" or name not in self.store.unsaved():
                raise NoSuchPageError(
                    f"there is no page `{name}`", hint="ask for the list of pages"
                ) from error
            file = None
        if file is not None and len(file.data) > MOST_SIZE:
            raise PageTooLargeError(f"`{name}` has more than {MOST_SIZE:,} bytes")
        encoding = stored.encoding if stored is not None else ""
        found = FileText.of(file.data, encoding) if file is not None else None
        if found is not None and not found.is_text:
            raise PageTooLargeError(f"`{name}` is no text", code="not_text")
        if stored is not None:
            self.take_runs(_runs_in(stored))
        return Page(name, stored, found, self, lambda: self.runs_of(name))

    async def _close(self, name: str) -> bool:
        async with self._opening.setdefault(name, asyncio.Lock()):
            page = self._open.get(name)
            saved = await page.close() if page is not None else True
            self._open.pop(name, None)
        return saved

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LINGER / 4)
            for name, page in list(self._open.items()):
                if len(page.room) or page.used or not page.disk.state.saved:
                    page.idle_since = loop.time()
                elif loop.time() - page.idle_since > LINGER:
                    await self._close(name)

    def _list(self) -> list[Listed]:
        found: list[Listed] = []
        for file in self.workspace.files():
            if is_page(file.path) and file.size <= MOST_SIZE:
                found.append(Listed(name=file.path, size=file.size))
            if len(found) >= MOST_LISTED:
                break
        return found


def is_page(name: str) -> bool:
    """Tell whether a file of this name may be a page: a relative path to a text."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        return False
    if any(part in {".git", ".hg", ".svn"} for part in path.parts):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    if path.suffix.lower() in SUFFIXES:
        return True
    return not path.suffix and any(fnmatchcase(path.name.upper(), pattern) for pattern in PLAIN)
