"""Keeps one open document: its text, its users, its file, and what is to be stored of it.

A document can be begun anew: with the same text, but without the history that led there. Where the same words
are inserted a second time, as from a file that a lost store had written, a client that holds the first
insertion and comes back doubles them. So each document has a history with an id, and one that may hold such
words a second time begins a new history.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from pycrdt import Doc

from kakite.collab.assistant.conversation import ChatTurn, DocumentConversation
from kakite.collab.comments.threads import CommentThreads
from kakite.collab.file_sync import (
    FILE_ORIGIN,
    FileSync,
    FileText,
    SyncCallbacks,
    merge_three_way,
    merge_two_way,
)
from kakite.collab.provenance.authors import Author, Authorship
from kakite.collab.realtime.room import DOCUMENT_RESET, SERVICE_RESTART, ConnectionRejected, Room, RoomLimits
from kakite.collab.redis.cluster import ClusterError, cancel_and_wait
from kakite.collab.shared_text import SharedText
from kakite.collab.store import COMPACT_AFTER, DocumentRecord, DocumentStore, DocumentWrite, StoreError
from kakite.collab.suggestions.store import Suggestions
from kakite.collab.versions.named import NamedVersions
from kakite.edit import Change, ChangeSet

if TYPE_CHECKING:
    from pycrdt import TransactionEvent

    from kakite.collab.assistant.runs import AssistantRun
    from kakite.collab.redis.cluster import DocumentStream
    from kakite.workspace import Workspace


RESET_RATIO = 4
"""How many times as large as its text a document is before it is worth to begin it anew."""


def generate_history_id() -> str:
    """Return the id of a history that begins."""
    return secrets.token_hex(8)


def encode_new_document(text: str) -> bytes:
    """Return a document that holds this text and nothing else, as an update."""
    shared = SharedText()
    if text:
        shared.apply(ChangeSet.of(0, [Change(0, 0, text)]), "file")
    return shared.doc.get_update()


def decode_text(update: bytes) -> str:
    """Return the text of a document."""
    doc: Doc[Any] = Doc()
    doc.apply_update(update)
    return str(SharedText(doc))


def find_common_base(stored: DocumentRecord, file: FileText | None) -> FileText | None:
    """Return what the stored document and the file last had in common."""
    if file is not None and file.source.to_bytes() == stored.writing:
        return file
    return None if stored.base is None else FileText.from_bytes(stored.base, stored.encoding)


def merge_external(base: str | None, ours: str, theirs: str) -> ChangeSet:
    """Return the changes of a text that bring in what others wrote. Without a base nothing of either goes."""
    return merge_two_way(ours, theirs) if base is None and ours else merge_three_way(base or "", ours, theirs)


def merge_file_changes(stored: DocumentRecord, file: FileText | None, page: str) -> DocumentRecord:
    """Return what is known of a page whose file may have been written while nobody had it open.

    What the store does not know of may be its own: a store that was put back from a copy knows less than what
    was written from it, and tabs that are open still. So the document then begins anew.
    """
    base = find_common_base(stored, file)
    if file is None or base == file:
        return stored
    shared = SharedText()
    shared.doc.apply_update(stored.update)
    told = cast("dict[str, Any]", stored.records.get("suggestions") or {})
    suggestions = load_suggestions(shared, told, page)
    comments = load_comments(shared, stored)
    authors = load_authors(str(shared), stored)
    shared.observe(lambda changes, _origin: authors.follow(changes, str(shared), FILE_AUTHOR))
    before = base.text if base is not None else None
    shared.apply(merge_external(before, str(shared), file.text), "file")
    records = dict(stored.records)
    if suggestions is not None:
        records["suggestions"] = suggestions.to_json()
    records["comments"] = comments.to_json()
    records["authors"] = authors.to_json()
    return replace(
        stored,
        update=encode_new_document(str(shared)),
        base=file.source.to_bytes(),
        encoding=file.source.encoding,
        writing=None,
        records=records,
        history=generate_history_id(),
    )


def load_suggestions(text: SharedText, told: dict[str, Any], page: str) -> Suggestions | None:
    """Return the suggestions that were stored; None if there are none, or none that can be read."""
    if not told:
        return None
    try:
        return Suggestions.from_json(text, told, page=page)
    except (KeyError, TypeError, ValueError):
        return None


def load_comments(text: SharedText, stored: DocumentRecord) -> CommentThreads:
    """Return the comments that were stored; none if there are none."""
    return CommentThreads.from_json(text, cast("dict[str, Any]", stored.records.get("comments") or {}))


FILE_AUTHOR = Author(kind="file")
_PEOPLE = ("typed-", "restore-")
"""What the runs begin with that are people's."""


def load_authors(text: str, stored: DocumentRecord) -> Authorship:
    """Return who wrote the text of a page, as far as that was stored.

    It was stored with the file: of what was written since, before a crash, it is not known.
    """
    files = [each for each in (stored.writing, stored.base) if each is not None]
    known = [FileText.from_bytes(each, stored.encoding).text for each in files]
    return Authorship.from_json(cast("dict[str, Any]", stored.records.get("authors") or {}), [text, *known])


log = logging.getLogger(__name__)

STORE_DELAY = 0.02
"""Seconds in which changes are gathered before they are stored."""
SERVER_STOPPING = ConnectionRejected(SERVICE_RESTART, "the server ends")
_DISCONNECTED = (
    "Redis, through which servers share this page, is away; what you write is kept here until it is back"
)


class DocumentContext(Protocol):
    """The owner of the open documents, as one of them sees it."""

    workspace: Workspace
    store: DocumentStore
    limits: RoomLimits
    runs_of: Callable[[str], list[AssistantRun]]
    """Returns the assistant's runs on a page."""
    leave_runs: Callable[[OpenDocument], None]
    """Ends the assistant's runs on a page that is another process's from now on."""

    def reset_document(self, page: OpenDocument) -> None:
        """Let a page's document begin anew, with the text as it is."""
        ...

    def reopen_document(self, page: OpenDocument) -> None:
        """Open a page whose document was begun anew elsewhere."""
        ...


class OpenDocument:
    """One open page: its text, who is there, its file, and what is to be stored of it."""

    _has_news = False
    """Whether what is beside the document is to be stored as well."""
    origin: object = None
    """Of the change that is being told of."""
    closing = False

    def __init__(
        self,
        name: str,
        stored: DocumentRecord | None,
        file: FileText | None,
        registry: DocumentContext,
        line: DocumentStream | None = None,
    ) -> None:
        """``file`` is what the file holds now; None if there is none.

        With a ``line`` to other processes the page is theirs until ``own`` is called.
        """
        self.name = name
        self._registry = registry
        self.line = line
        """To other processes that serve the page; None if there are none."""
        self._keeper = line or registry.store
        self._remote = False
        self._shown: dict[str, object] | None = None
        """What the process that owns the page shows; None if that is this one."""
        self._saving: DocumentWrite | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._store_problem: str | None = None
        self._rows = 0
        self.history = (stored.history if stored is not None else "") or generate_history_id()
        """Tells this document from another one with the same name."""
        if line is not None:
            line.history = self.history
        self.text = SharedText()
        self.suggestions = Suggestions(self.text, page=name)
        self.comments = CommentThreads(self.text)
        self.authors = Authorship("")
        """Who wrote what; only the page's owner knows."""
        self.versions = NamedVersions()
        """Those that people gave a name."""
        self.conversation = DocumentConversation()
        """What was said with the assistant; only its owner has it."""
        self.runs: Callable[[], list[AssistantRun]] = lambda: registry.runs_of(name)
        """Returns the assistant's runs on this page."""
        self.room = Room(self.text.doc, self.build_state, limits=registry.limits)
        self._processes: dict[str, str] = {}
        self.used = 0
        """How many hold the page open besides connections."""
        self.idle_since = asyncio.get_running_loop().time()
        self.watching: asyncio.Task[None] | None = None
        self._measured = 0
        self._written = ""
        """The version of the file that its owner wrote last."""
        self.disk = self._create_file_sync(None)
        self._stop = self.text.observe(self._on_text_change)
        if line is None or line.holds:
            self.take_ownership(stored, file)
        elif stored is not None:
            self.text.doc.apply_update(stored.update)
            self._shown = {}
        self.origin = None
        self._observed = self.text.doc.observe(self._on_transaction)
        if line is not None:
            self.room.on_presence = line.publish_awareness
            self.room.on_state = line.publish_state

    @property
    def is_owner(self) -> bool:
        """Whether this process writes the file, and holds the suggestions."""
        return self.line is None or self.line.holds

    def take_ownership(self, stored: DocumentRecord | None, file: FileText | None) -> None:
        """Be who writes the file and holds the suggestions, from what is known of the page and its file."""
        if stored is not None:
            self.conversation = DocumentConversation.from_json(stored.turns)
        base = self._reconcile(stored, file)
        self._shown = None
        self.disk = self._create_file_sync(base)
        if base is None or str(self.text) != base.text:
            self.disk.mark_dirty()
        self.store_now()
        self.suggestions.changed = self.comments.changed = self.publish_records
        self.watching = asyncio.create_task(self.disk.watch())
        self.room.broadcast_state()

    async def release_ownership(self) -> None:
        """Leave the file to another process."""
        if self.watching is not None:
            await cancel_and_wait(self.watching)
            self.watching = None
        self.suggestions.changed = self.comments.changed = lambda: None
        self._shown = self.build_state()
        self._registry.leave_runs(self)

    def on_update(self, update: bytes) -> None:
        """Take a change that another process made."""
        self._remote = True
        try:
            self.text.doc.apply_update(update)
        finally:
            self._remote = False

    def on_awareness(self, update: bytes, process: str) -> None:
        """Take what people do who are connected to another process."""
        if (
            told := self.room.presence.apply_update(update, self._intern_process(process), trusted=True)
        ) is not None:
            self.room.broadcast_awareness(told, ours=False)

    def on_state(self, state: dict[str, object]) -> None:
        """Take what the owner shows."""
        if not self.is_owner:
            self._shown = state
            self._written = str(state.get("base", ""))
            self.room.broadcast_state()

    def on_awareness_query(self) -> None:
        """Tell another process who is here."""
        if self.line is not None and (told := self.room.presence.encode_owned(self.room.has)) is not None:
            self.line.publish_awareness(told)

    def on_process_gone(self, process: str) -> None:
        """Forget the people of a process that is gone."""
        if (told := self.room.presence.leave(self._intern_process(process))) is not None:
            self.room.broadcast_awareness(told, ours=False)

    def on_connection_change(self) -> None:
        """Show whether what is written here reaches the others."""
        self.room.broadcast_state()

    def on_reset(self) -> None:
        """Let the page be opened with the document that it has now."""
        self._registry.reopen_document(self)

    def take_snapshot(self) -> DocumentWrite:
        """Return all that is to be stored; of a page that is another process's, its document."""
        update = self.text.doc.get_update()
        if not self.is_owner:
            return DocumentWrite(updates=(update,))
        return DocumentWrite(
            updates=(update,),
            base=_encode_base(self.disk.base),
            dirty=not self.disk.state.saved,
            records=self.build_records(),
            versions=self.versions.to_json(),
            history=self.history,
            turns=self._build_turns(),
        )

    def _build_turns(self) -> dict[str, dict[str, Any]]:
        return {turn.id: turn.to_json() for turn in self.conversation.turns.values()}

    def _intern_process(self, process: str) -> str:
        return self._processes.setdefault(process, process)

    def _create_file_sync(self, base: FileText | None) -> FileSync:
        sinks = SyncCallbacks(
            keep=self.schedule_save,
            keep_now=self.save_now,
            settled=self.wait_durable,
            may_act=lambda: self.line is None or self.line.is_lease_valid,
            changed=self.room.broadcast_state,
            writers=self.room.pop_writers,
        )
        return FileSync(self.name, self._registry.workspace, self.text, base, sinks)

    async def wait_durable(self) -> None:
        """Wait until what was to be stored is where it outlives this process.

        Raises:
            ClusterError: it is not, or another process has the page by now.
        """
        if self.line is not None and not (await self.line.flush() and await self.line.renew()):
            raise ClusterError(
                _DISCONNECTED if self.line.is_cut else "another process writes this file by now"
            )

    @property
    def version(self) -> str:
        """The version of the text as it is now."""
        return self.text.version

    @property
    def line_end(self) -> str:
        """The line end that most lines of the file have."""
        if self._shown is not None:
            return str(self._shown.get("line_end", "\n"))
        return self.disk.base.line_end if self.disk.base is not None else "\n"

    def build_state(self) -> dict[str, object]:
        """Return what the page shows beside its text."""
        own: dict[str, object] = {"history": self.history}
        if self._shown is None:
            own["conversation"] = self.conversation.version
        if self.line is not None and self.line.is_cut:
            own["file"] = {"saved": False, "problem": _DISCONNECTED}
        if self._shown is not None:
            file = {"saved": True, "problem": None}
            return {"suggestions": [], "runs": [], "file": file, **self._shown, **own}
        file = self.disk.state.to_json()
        if self._store_problem and not file["problem"]:
            file["problem"] = self._store_problem
        if self.line is not None and self.disk.base is not None:
            own |= {"base": self.disk.base.version, "line_end": self.disk.base.line_end}
        shown = [each.to_json(self.text) for each in self.suggestions.list_pending()]
        runs = [{**run.to_json(), "accepted": self.suggestions.count_accepted(run.id)} for run in self.runs()]
        own["comments"] = self.comments.version
        return {"suggestions": shown, "runs": runs, "file": file, **own}

    @property
    def pending_count(self) -> int:
        """The number of suggestions that nobody has decided yet."""
        if self._shown is not None:
            return len(cast("list[object]", self._shown.get("suggestions", [])))
        return len(self.suggestions.list_pending())

    def build_records(self) -> dict[str, object]:
        """Return what is stored beside the document."""
        return {
            "suggestions": self.suggestions.to_json(),
            "comments": self.comments.to_json(),
            "authors": self.authors.to_json(),
            "runs": [run.to_json() for run in self.runs()],
        }

    async def save_records(self) -> None:
        """Store what is beside the document; returns when nothing ends that any more.

        Raises:
            StoreError: it cannot be stored. It is tried again, and the page says so.
        """
        self.save_now(DocumentWrite(records=self.build_records()))
        if self.line is not None:
            await self.line.flush()

    def publish_records(self) -> None:
        """Store what is beside the document, and tell everybody.

        It is looked at only once it is stored: while the text tells of a change, not all know of it yet.
        """
        self._has_news = True
        self.schedule_save(DocumentWrite())
        self.room.broadcast_state()

    def set_versions(self, versions: NamedVersions) -> None:
        """Keep these named versions instead of those of before.

        Raises:
            StoreError: they cannot be stored.
        """
        before, self.versions = self.versions, versions
        try:
            self.save_now(DocumentWrite(versions=versions.to_json()))
        except StoreError:
            self.versions = before
            raise

    async def save_turns(self, turns: Iterable[ChatTurn], removed: Iterable[str] = ()) -> None:
        """Store turns of the conversation, and forget others; returns when nothing ends that any more.

        Where it cannot be stored now, it is tried again, and the page says so.
        """
        changes: dict[str, dict[str, Any] | None] = {turn.id: turn.to_json() for turn in turns}
        changes |= dict.fromkeys(removed)
        self.schedule_save(DocumentWrite(turns=changes))
        if self._timer is not None:
            self._timer.cancel()
        self._store_soon()
        if self.line is not None:
            await self.line.flush()

    def show_assistant_cursor(self, state: dict[str, object] | None) -> None:
        """Show the assistant's cursor, as that of a person; None: it is not there any more."""
        if state is not None or self.text.doc.client_id in self.room.presence:
            self.room.broadcast_awareness(self.room.presence.set_state(self.text.doc.client_id, state))

    def schedule_save(self, saving: DocumentWrite) -> None:
        """Store this soon, together with whatever else is to be stored of this page."""
        if not self.is_owner:
            saving = (
                DocumentWrite(updates=saving.updates, dirty=saving.dirty)
                if saving.updates
                else DocumentWrite()
            )
        if self.line is not None and saving.base is not None:
            self.room.broadcast_state()
        self._has_news = self._has_news or saving.base is not None or saving.writing is not None
        self._saving = saving if self._saving is None else self._saving.merge(saving)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STORE_DELAY, self._store_soon)

    def save_now(self, saving: DocumentWrite) -> None:
        """Store this and all that waits.

        Raises:
            StoreError: it cannot be.
        """
        self.schedule_save(saving)
        self.store_now()

    def store_now(self) -> None:
        """Store what waits.

        Raises:
            StoreError: it cannot be.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._has_news and self._saving is not None:
            if self.is_owner:
                self._saving = self._saving.merge(DocumentWrite(records=self.build_records()))
            self._has_news = False
        saving = self._saving
        if saving is not None:
            self._rows = 1 if saving.instead else self._rows + len(saving.updates)
            if self._rows > COMPACT_AFTER and self.line is None:
                self._rows = 1
                saving = replace(saving, updates=(self.text.doc.get_update(),), instead=True)
            self._keeper.save(self.name, saving)
            self._saving = None
        if self._store_problem is not None:
            self._store_problem = None
            self.room.broadcast_state()

    async def close(self, why: ConnectionRejected = SERVER_STOPPING, *, is_left: bool = False) -> bool:
        """Write and store all there is, and let everybody go; tell whether the file has all of the text.

        Where people go because the document begins anew, it does; where it ``is_left`` it was begun anew
        elsewhere, and nothing of this one is stored.
        """
        self.closing = True
        if self.watching is not None:
            await cancel_and_wait(self.watching)
        self.room.close(why)
        saved = not self.is_owner or await self.disk.save()
        try:
            if not is_left:
                saved = await self._leave_all(anew=why.code == DOCUMENT_RESET) and saved
        except (StoreError, ClusterError) as error:
            log.error("%s", error)  # noqa: TRY400 - it says all there is to say
            saved = False
        if self._timer is not None:
            self._timer.cancel()
        self._stop()
        self.suggestions.close()
        self.comments.close()
        self.text.doc.unobserve(self._observed)
        if self.line is not None:
            await self.line.end()
            await self.line.release()
        return saved

    async def _leave_all(self, *, anew: bool) -> bool:
        """Store all there is; tell whether those have it who are to have it."""
        update = self.text.doc.get_update()
        if self.line is None:
            self.schedule_save(DocumentWrite(updates=(update,), instead=True, records=self.build_records()))
            self.store_now()
            if anew:
                self.schedule_save(
                    DocumentWrite(
                        updates=(encode_new_document(str(self.text)),),
                        instead=True,
                        history=generate_history_id(),
                    )
                )
                self.store_now()
            return True
        if self.is_owner:
            self.schedule_save(replace(self.take_snapshot(), instead=True))
        self.store_now()
        if await self.line.flush():
            if anew and self.line.is_lease_valid:
                await self.line.reset_document(
                    generate_history_id(), encode_new_document(str(self.text)), update
                )
            return True
        # What could not be told outlives this process here: see `DocumentRegistry`.
        left = replace(self.take_snapshot(), instead=True, history=self.history, dirty=True)
        self._registry.store.save(self.name, left)
        return False

    def should_reset(self) -> bool:
        """Tell whether the document is mostly what was written and deleted, and large."""
        size = len(self.text.doc.get_update())
        self.room.written = self._measured = size
        return size > self._registry.limits.worn and size > RESET_RATIO * len(str(self.text).encode())

    def merge_text(self, base: str | None, theirs: str) -> None:
        """Make the changes from one text to another here, too."""
        if changes := merge_external(base, str(self.text), theirs):
            self.text.apply(changes, "elsewhere")

    def _reconcile(self, stored: DocumentRecord | None, file: FileText | None) -> FileText | None:
        """Bring document and file together as they are found; return what they have in common."""
        base = None
        if stored is not None:
            self.on_update(stored.update)
            self._restore(stored)
            base = find_common_base(stored, file)
            if base is None and file is not None and file.version == self._written:
                base = file  # Redis has forgotten it, and its owner is gone
        if file is not None and base != file:
            before = base.text if base is not None else None
            self.text.apply(merge_external(before, str(self.text), file.text), "file")
            base = file
        update = self.text.doc.get_update()
        self.room.written = self._measured = len(update)
        dirty = base is None or str(self.text) != base.text
        saving = DocumentWrite(updates=(update,), instead=True, base=_encode_base(base), dirty=dirty)
        beside = {"records": self.build_records(), "turns": self._build_turns()}
        self.schedule_save(replace(saving, history=self.history, versions=self.versions.to_json(), **beside))
        return base

    def _restore(self, stored: DocumentRecord) -> None:
        """Take up the suggestions, comments and named versions that were stored."""
        self.versions = NamedVersions.from_json(stored.versions)
        self.authors = load_authors(str(self.text), stored)
        self.comments.close()
        self.comments = load_comments(self.text, stored)
        told = cast("dict[str, Any]", stored.records.get("suggestions") or {})
        if (found := load_suggestions(self.text, told, self.name)) is not None:
            self.suggestions.close()
            self.suggestions = found
        elif told:
            log.warning("the suggestions for `%s` cannot be read and are dropped", self.name)

    def _on_text_change(self, changes: ChangeSet, origin: object) -> None:
        self.origin = origin
        self.authors.follow(changes, str(self.text), self._find_author(origin))

    def _find_author(self, origin: object) -> Author | None:
        """Return who makes the change that is being told of; None if that is not known."""
        if origin == FILE_ORIGIN:
            return FILE_AUTHOR
        if (name := self.room.find_writer()) is not None:
            return Author(kind="person", name=name)
        if not isinstance(origin, str) or not origin.startswith("run:"):
            return None
        found = self.suggestions.find_proposer(origin.removeprefix("run:"))
        if found is None:
            return None
        if found.model:
            return Author(kind="assistant", name=found.by, model=found.model)
        return Author(kind="person" if found.run.startswith(_PEOPLE) else "agent", name=found.by)

    def _on_transaction(self, event: TransactionEvent) -> None:
        origin, self.origin = self.origin, None
        update = event.update
        if update == b"\0\0":
            return
        dirty = True if origin != "file" else None
        self._rows += self._remote
        if self.line is not None and self.is_owner and self._rows > COMPACT_AFTER:
            self._rows = 0
            # A document can be read whole only once all have heard of its change.
            asyncio.get_running_loop().call_soon(self._compact, self.line)
        if not self._remote:
            self.schedule_save(DocumentWrite(updates=(update,), dirty=dirty))
        elif self.is_owner:
            self.schedule_save(DocumentWrite(dirty=dirty))
        self.room.send_update(update)
        if self.is_owner:
            self.disk.mark_dirty(origin)
            most = self._registry.limits.document
            if self.room.written > most * 3 // 4 and self.room.written - self._measured > most // 8:
                self._measured = self.room.written
                asyncio.get_running_loop().call_soon(self._reset_if_worn)

    def _compact(self, line: DocumentStream) -> None:
        line.save(self.name, DocumentWrite(updates=(self.text.doc.get_update(),), instead=True))

    def _reset_if_worn(self) -> None:
        """Begin the document anew before it is full, also while people are there."""
        if self.should_reset():
            self._registry.reset_document(self)

    def _store_soon(self) -> None:
        self._timer = None
        try:
            self.store_now()
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400 - it says all there is to say
            self._timer = asyncio.get_running_loop().call_later(2.0, self._store_soon)
            if self._store_problem is None:
                self._store_problem = error.message
                self.room.broadcast_state()


def _encode_base(file: FileText | None) -> tuple[bytes | None, str]:
    return (None, "") if file is None else (file.source.to_bytes(), file.source.encoding)
