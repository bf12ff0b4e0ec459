"""Keeps the documents of a folder: which files they are, and those that are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import cast

from kakite.collab.assistant.runs import AssistantRun
from kakite.collab.document import SERVER_STOPPING, OpenDocument, decode_text, merge_file_changes
from kakite.collab.file_sync import FileText
from kakite.collab.realtime.room import (
    DEFAULT_LIMITS,
    DOCUMENT_RESET,
    NO_SUCH_DOCUMENT,
    ConnectionRejected,
    RoomLimits,
)
from kakite.collab.redis.cluster import RENEW, ClusterError, ClusterNode, DocumentStream, cancel_and_wait
from kakite.collab.store import DocumentRecord, DocumentStore, DocumentWrite, merge_updates
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
MAX_SIZE = 4 * 1024 * 1024
"""Bytes above which a file is no page."""
MAX_LISTED = 5_000
IDLE_TIMEOUT = 20.0
"""Seconds for which a page stays open when nobody is on it any more."""
_TRIES = 20
_MAX_HANDOVER_TRIES = 3
_DOCUMENT_GONE = ConnectionRejected(NO_SUCH_DOCUMENT, "there is no page of this name any more")
_DOCUMENT_RESET = ConnectionRejected(DOCUMENT_RESET, "the document has begun anew")


class DocumentNotFoundError(KakiteError):
    """There is no page of this name: ``no_such_page``."""

    code = "no_such_page"


class DocumentBusyError(KakiteError):
    """A page cannot be removed or renamed at this moment: ``busy``."""

    code = "busy"


class DocumentTooLargeError(KakiteError):
    """The file is too large to be a page, or no text: ``too_large``, ``not_text``."""

    code = "too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo:
    """A page as the list shows it."""

    name: str
    size: int
    """Bytes of the file."""


def _decode_runs(stored: DocumentRecord) -> list[AssistantRun]:
    told = cast("list[dict[str, object]]", stored.records.get("runs", []))
    found: list[AssistantRun] = []
    for each in told:
        with suppress(KeyError, TypeError):
            found.append(AssistantRun.from_json(each))
    return found


class DocumentRegistry:
    """All pages of a folder."""

    def __init__(
        self,
        workspace: Workspace,
        store: DocumentStore,
        *,
        relay: ClusterNode | None = None,
        read_only: bool = False,
        limits: RoomLimits = DEFAULT_LIMITS,
    ) -> None:
        """With ``read_only`` nobody may write. With a ``relay`` other processes serve them too."""
        self.relay = relay
        self.workspace = workspace
        self.store = store
        self.read_only = read_only
        self.limits = limits
        self._open: dict[str, OpenDocument] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self.runs_of: Callable[[str], list[AssistantRun]] = lambda _page: []
        """Returns the assistant's runs on a page."""
        self.take_runs: Callable[[list[AssistantRun]], None] = lambda _runs: None
        """Takes the runs that were stored with a page."""
        self.leave_runs: Callable[[OpenDocument], None] = lambda _page: None
        """Ends the assistant's runs on a page that is another process's from now on."""
        self.ask_for: Callable[[str, str], Awaitable[bool]] = _decline_handover
        """Asks the process at an address to hand over a page; returns whether it does."""
        self._tasks: list[asyncio.Task[None]] = []
        self._replacing: dict[str, asyncio.Task[None]] = {}

    @property
    def open_documents(self) -> Mapping[str, OpenDocument]:
        """Those that are open."""
        return self._open

    async def start(self) -> None:
        """Write what a process that was killed left unwritten, and begin to close what nobody uses.

        Raises:
            ClusterError: other processes cannot be reached.
        """
        if self.relay is not None:
            await self.relay.start()
            self._tasks.append(asyncio.create_task(self._hold_leases()))
            self._tasks.append(asyncio.create_task(self._adopt(self.relay)))
        for name in self.store.list_unsaved():
            try:
                await self.open(name)
            except KakiteError as error:
                log.warning("`%s`: %s", name, error)
        self._tasks.append(asyncio.create_task(self._tidy()))

    async def close(self) -> list[str]:
        """Close all pages; return the names of those whose text is not all in its file."""
        await cancel_and_wait(*self._tasks)
        self._tasks.clear()
        await asyncio.gather(*self._replacing.values(), return_exceptions=True)
        names = list(self._open)
        saved = await asyncio.gather(*(self._close(name) for name in names))
        if self.relay is not None:
            await self.relay.close()
        return [name for name, is_saved in zip(names, saved, strict=True) if not is_saved]

    async def list_documents(self) -> list[DocumentInfo]:
        """Return all pages, sorted by name."""
        return await asyncio.to_thread(self._list)

    async def open(self, name: str) -> OpenDocument:
        """Return this page, opened.

        Raises:
            DocumentNotFoundError: there is none.
            DocumentTooLargeError: the file is too large, or no text.
            StoreError: what is stored of it cannot be read.
        """
        if (page := self._open.get(name)) is not None and not page.closing:
            page.idle_since = asyncio.get_running_loop().time()
            return page
        if not is_document(name):
            raise DocumentNotFoundError(f"there is no page `{name}`", hint="ask for the list of pages")
        async with self._opening.setdefault(name, asyncio.Lock()):
            if (page := self._open.get(name)) is None:
                page = await self._open_document(name)
                self._open[name] = page
        return page

    def reset_document(self, page: OpenDocument) -> None:
        """Let a page's document begin anew, with the text as it is; who is there comes back to it."""
        if not page.used and not page.closing and page.name not in self._replacing:
            self._replace_by(page.name, self._reset(page))

    def reopen_document(self, page: OpenDocument) -> None:
        """Open a page whose document was begun anew elsewhere; what only this one has is brought there."""
        if not page.closing and page.name not in self._replacing:
            self._replace_by(page.name, self._reopen(page))

    async def take_over(self, page: OpenDocument) -> bool:
        """Become the owner of a page that another process has; tell whether that is so.

        Raises:
            ClusterError: Redis does not answer.
        """
        line, relay = page.line, self.relay
        for _ in range(_MAX_HANDOVER_TRIES):
            if page.is_owner or line is None or relay is None or page.closing:
                break
            owner = await relay.find_owner(page.name)
            if owner and not await self.ask_for(owner, page.name):
                break
            await self._take(page, line)
        return page.is_owner

    async def hand_over(self, name: str) -> bool:
        """Leave a page to the process that asks for it, unless the assistant is at work on it."""
        page = self._open.get(name)
        if page is None or page.line is None or page.used or not await page.disk.save():
            return False
        page.schedule_save(DocumentWrite(records=page.build_records()))
        page.store_now()
        if not await page.line.flush() or page.used:
            return False
        await page.release_ownership()
        await page.line.release()
        return True

    def count_pending(self) -> dict[str, int]:
        """Return how many suggestions nobody has decided yet, of pages that have any and are known here."""
        found = self.store.count_pending() if self.relay is None else {}
        return found | {name: page.pending_count for name, page in self._open.items()}

    async def create(self, name: str, text: str, *, by: str = "") -> None:
        """Write a file that is to be a page.

        Raises:
            WorkspaceError: ``file_exists``, ``bad_path``, ``write_denied``, …
        """
        if self.read_only or not is_document(name):
            hint = "end it with .md or .txt"
            raise WorkspaceError("bad_path", name, f"`{name}` cannot be a page", hint=hint)
        author = Author(tool=f"collab: {by}" if by else "collab")
        await asyncio.to_thread(self.workspace.write, name, text.encode(), expected=None, by=author)

    @asynccontextmanager
    async def keep_closed(self, name: str, *free: str) -> AsyncGenerator[None]:
        """Keep a page closed while the block lasts, with all of its text in its file. Who is on it goes.

        Args:
            name: the page.
            free: names of which there is no page, and is to be none meanwhile.

        Raises:
            DocumentBusyError: the assistant is at work on it, or its text cannot be written.
            WorkspaceError: ``file_exists``: there is a page of such a name.
            KakiteError: as ``open``.
        """
        await self.open(name)
        async with AsyncExitStack() as locked:
            for each in sorted({name, *free}):
                await locked.enter_async_context(self._opening.setdefault(each, asyncio.Lock()))
            for taken in {*free} & {*self._open, *self.store.list_unsaved()}:
                raise WorkspaceError("file_exists", taken, f"there is a page `{taken}`")
            page = self._open.get(name)
            if page is not None:
                if page.used:
                    hint = "stop the assistant, or wait until it is done"
                    raise DocumentBusyError(f"the assistant is at work on `{name}`", hint=hint)
                if not await page.disk.save():
                    hint = "see what the page says about its file"
                    raise DocumentBusyError(f"not all of `{name}` can be written to its file", hint=hint)
                await page.close(_DOCUMENT_GONE)
                self._open.pop(name, None)
            yield

    def is_writable(self, name: str) -> bool:
        """Tell whether anybody may write this page."""
        if self.read_only:
            return False
        try:
            self.workspace.check_writable(name)
        except WorkspaceError:
            return False
        return True

    async def _open_document(self, name: str) -> OpenDocument:
        if self.relay is not None:
            return await self._open_shared(name, self.relay)
        stored = self.store.load(name)
        may_be_gone = stored is not None and name in self.store.list_unsaved()
        file = await self._read_file(name, stored, may_be_gone=may_be_gone)
        return OpenDocument(name, stored and merge_file_changes(stored, file, name), file, self)

    async def _open_shared(self, name: str, relay: ClusterNode) -> OpenDocument:
        line = DocumentStream(relay, name)
        left = self.store.load(name)
        async with relay.opening(name):
            await line.try_to_own()
            stored, shown = await line.load()
            if stored is None and not line.holds:
                raise ClusterError(f"`{name}` is being opened elsewhere", hint="try again in some seconds")
            if stored is None and left is not None:
                stored, left = left, None  # it was served alone before, or Redis has lost it
            file = await self._read_file(name, stored, may_be_gone=True) if line.holds else None
            if line.holds and stored is not None:
                stored = await self._merge_file_changes(line, stored, file)
            page = OpenDocument(name, stored, file, self, line)
            if not line.holds:
                page.on_state(shown)
            line.begin(page)
            if left is not None and name in self.store.list_unsaved():
                _merge_document(
                    page, left.update, left.history, None if left.base is None else _decode_base(left)
                )
            if await line.flush():
                self.store.forget(name)
        return page

    async def _merge_file_changes(
        self, line: DocumentStream, stored: DocumentRecord, file: FileText | None
    ) -> DocumentRecord:
        line.history = stored.history
        found = merge_file_changes(stored, file, line.page)
        if stored.history not in {"", found.history}:
            await line.reset_document(found.history, found.update, stored.update)
        return found

    async def _read_file(
        self, name: str, stored: DocumentRecord | None, *, may_be_gone: bool
    ) -> FileText | None:
        """Return what the file of a page holds; None if it is gone, and may be."""
        try:
            file = await asyncio.to_thread(self.workspace.read, name)
        except WorkspaceError as error:
            if error.code == "too_large":
                raise DocumentTooLargeError(error.message) from error
            if stored is not None and may_be_gone and error.code == "file_not_found":
                return None
            raise DocumentNotFoundError(
                f"there is no page `{name}`", hint="ask for the list of pages"
            ) from error
        if len(file.data) > MAX_SIZE:
            raise DocumentTooLargeError(f"`{name}` has more than {MAX_SIZE:,} bytes")
        found = FileText.from_bytes(file.data, stored.encoding if stored is not None else "")
        if not found.is_text:
            raise DocumentTooLargeError(f"`{name}` is not text", code="not_text")
        if stored is not None:
            self.take_runs(_decode_runs(stored))
        return found

    async def _hold_leases(self) -> None:
        """Stay the owner of pages that are ours, and become that of pages that have none any more."""
        while True:
            await asyncio.sleep(RENEW)
            for page in list(self._open.values()):
                if page.line is None or page.closing:
                    continue
                try:
                    await self._hold(page, page.line)
                except ClusterError:
                    break  # the lines tell
                except Exception:
                    log.exception("`%s` cannot be held", page.name)

    async def _adopt(self, relay: ClusterNode) -> None:
        """Open pages with text that is in no file, and that nobody has any more."""
        while True:
            await asyncio.sleep(RENEW)
            try:
                for name in await relay.list_unsaved():
                    if name not in self._open and await relay.has_no_owner(name):
                        await self.open(name)
            except KakiteError as error:
                log.info("pages that nobody has cannot be opened: %s", error)
            except Exception:
                log.exception("pages that nobody has cannot be opened")

    async def _hold(self, page: OpenDocument, line: DocumentStream) -> None:
        if line.holds and await line.renew():
            return
        if page.watching is not None:
            await page.release_ownership()
        else:
            await self._take(page, line)

    async def _take(self, page: OpenDocument, line: DocumentStream) -> None:
        if await line.try_to_own():
            stored, _ = await line.load()
            page.take_ownership(stored, await self._read_file(page.name, stored, may_be_gone=True))

    def _replace_by(self, name: str, work: Coroutine[object, object, None]) -> None:
        task = self._replacing[name] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._replacing.pop(name, None))

    async def _reset(self, page: OpenDocument) -> None:
        await self._close(page.name, _DOCUMENT_RESET)

    async def _reopen(self, page: OpenDocument) -> None:
        update, base = page.text.doc.get_update(), page.disk.base
        await self._close(page.name, _DOCUMENT_RESET, is_left=True)
        for _ in range(_TRIES):
            try:
                _merge_document(
                    await self.open(page.name), update, page.history, None if base is None else base.text
                )
            except KakiteError as error:
                log.warning("`%s` cannot be opened anew: %s", page.name, error)
                await asyncio.sleep(RENEW)
            else:
                return
        saving = DocumentWrite(updates=(update,), instead=True, history=page.history, dirty=True)
        self.store.save(page.name, saving)

    async def _close(
        self, name: str, why: ConnectionRejected = SERVER_STOPPING, *, is_left: bool = False
    ) -> bool:
        async with self._opening.setdefault(name, asyncio.Lock()):
            page = self._open.get(name)
            saved = await page.close(why, is_left=is_left) if page is not None else True
            self._open.pop(name, None)
        return saved

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(IDLE_TIMEOUT / 4)
            await asyncio.to_thread(self.store.tidy)
            for name, page in list(self._open.items()):
                if len(page.room) or page.used or not page.disk.state.saved:
                    page.idle_since = loop.time()
                elif loop.time() - page.idle_since > IDLE_TIMEOUT:
                    await self._close(
                        name, _DOCUMENT_RESET if page.is_owner and page.should_reset() else SERVER_STOPPING
                    )

    def _list(self) -> list[DocumentInfo]:
        found: list[DocumentInfo] = []
        for file in self.workspace.find_files():
            if is_document(file.path) and file.size <= MAX_SIZE:
                found.append(DocumentInfo(name=file.path, size=file.size))
            if len(found) >= MAX_LISTED:
                break
        return found


async def _decline_handover(_owner: str, _page: str) -> bool:
    return False


def _merge_document(page: OpenDocument, update: bytes, history: str, base: str | None) -> None:
    """Bring what another document of a page has into it: as such if it has the same history, else as text."""
    if history == page.history:
        page.text.doc.apply_update(update)
        return
    former = page.line.former if page.line is not None else None
    if former is not None and former.history == history:
        page.merge_text(decode_text(former.update), decode_text(merge_updates([former.update, update])))
    else:
        page.merge_text(base, decode_text(update))


def _decode_base(stored: DocumentRecord) -> str:
    return FileText.from_bytes(stored.base or b"", stored.encoding).text


def is_document(name: str) -> bool:
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
