"""One open page: its text, who is there, its file, and what is to be stored of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from kakite.collab.beginning import WORN, brought_in, common, fresh, new_history, restored
from kakite.collab.disk import Disk, Sinks
from kakite.collab.file_text import FileText
from kakite.collab.relay import RelayError, ended
from kakite.collab.rooms import BEGUN_ANEW, GOING, Refused, Room
from kakite.collab.shared_text import SharedText
from kakite.collab.store import COMPACT_AFTER, Saving, Stored, StoreError
from kakite.collab.suggestions import Suggestions

if TYPE_CHECKING:
    from pycrdt import TransactionEvent

    from kakite.collab.line import Line
    from kakite.collab.pages import Pages
    from kakite.collab.runs import Run
    from kakite.edit import ChangeSet

log = logging.getLogger(__name__)

STORE_SOON = 0.02
"""Seconds in which changes are gathered before they are stored."""
ENDING = Refused(GOING, "the server ends")
_CUT = "Redis, through which servers share this page, is away; what you write is kept here until it is back"


class Page:
    """One open page: its text, who is there, its file, and what is to be stored of it."""

    def __init__(
        self,
        name: str,
        stored: Stored | None,
        file: FileText | None,
        pages: Pages,
        line: Line | None = None,
    ) -> None:
        """``file`` is what the file holds now; None if there is none.

        With a ``line`` to other processes the page is theirs until ``own`` is called.
        """
        self.name = name
        self._pages = pages
        self.line = line
        """To other processes that serve the page; None if there are none."""
        self._keeper = line or pages.store
        self._remote = False
        self._shown: dict[str, object] | None = None
        """What the process that owns the page shows; None if that is this one."""
        self._saving: Saving | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._store_problem: str | None = None
        self._rows = 0
        self.history = (stored.history if stored is not None else "") or new_history()
        """Tells this document from another one with the same name."""
        if line is not None:
            line.history = self.history
        self.text = SharedText()
        self.suggestions = Suggestions(self.text, page=name)
        self.runs: Callable[[], list[Run]] = lambda: pages.runs_of(name)
        """Returns the assistant's runs on this page."""
        self.room = Room(self.text.doc, self.state, limits=pages.limits)
        self.origin: object = None
        """Of the change that is being told of."""
        self.closing = False
        self._processes: dict[str, str] = {}
        self.used = 0
        """How many hold the page open besides connections."""
        self.idle_since = asyncio.get_running_loop().time()
        self.watching: asyncio.Task[None] | None = None
        self._measured = 0
        self._written = ""
        """The version of the file that its owner wrote last."""
        self.disk = self._disk(None)
        if line is None or line.holds:
            self.own(stored, file)
        elif stored is not None:
            self.text.doc.apply_update(stored.update)
            self._shown = {}
        self._stop = self.text.observe(self._note)
        self._observed = self.text.doc.observe(self._changed)
        if line is not None:
            self.room.on_presence = line.tell_presence
            self.room.on_state = line.tell_state

    @property
    def owns(self) -> bool:
        """Whether this process writes the file, and holds the suggestions."""
        return self.line is None or self.line.holds

    def own(self, stored: Stored | None, file: FileText | None) -> None:
        """Be who writes the file and holds the suggestions, from what is known of the page and its file."""
        base = self._begin(stored, file)
        self._shown = None
        self.disk = self._disk(base)
        if base is None or str(self.text) != base.text:
            self.disk.dirty()
        self.store_now()
        self.suggestions.changed = self.tell_records
        self.watching = asyncio.create_task(self.disk.watch())
        self.room.tell_state()

    async def disown(self) -> None:
        """Leave the file to another process."""
        if self.watching is not None:
            await ended(self.watching)
            self.watching = None
        self.suggestions.changed = lambda: None
        self._shown = self.state()
        self._pages.leave_runs(self)

    def hear_update(self, update: bytes) -> None:
        """Take a change that another process made."""
        self._remote = True
        try:
            self.text.doc.apply_update(update)
        finally:
            self._remote = False

    def hear_presence(self, update: bytes, process: str) -> None:
        """Take what people do who are connected to another process."""
        if (told := self.room.presence.take(update, self._process(process), trusted=True)) is not None:
            self.room.tell_presence(told, ours=False)

    def hear_state(self, state: dict[str, object]) -> None:
        """Take what the owner shows."""
        if not self.owns:
            self._shown = state
            self._written = str(state.get("base", ""))
            self.room.tell_state()

    def hear_question(self) -> None:
        """Tell another process who is here."""
        if self.line is not None and (told := self.room.presence.of_owners(self.room.has)) is not None:
            self.line.tell_presence(told)

    def hear_gone(self, process: str) -> None:
        """Forget the people of a process that is gone."""
        if (told := self.room.presence.leave(self._process(process))) is not None:
            self.room.tell_presence(told, ours=False)

    def hear_cut(self) -> None:
        """Show whether what is written here reaches the others."""
        self.room.tell_state()

    def hear_history(self) -> None:
        """Let the page be opened with the document that it has now."""
        self._pages.replace(self)

    def everything(self) -> Saving:
        """Return all that is to be stored; of a page that is another process's, its document."""
        update = self.text.doc.get_update()
        if not self.owns:
            return Saving(updates=(update,))
        return Saving(
            updates=(update,),
            base=_base_of(self.disk.base),
            dirty=not self.disk.state.saved,
            records=self.records(),
            history=self.history,
        )

    def _process(self, process: str) -> str:
        return self._processes.setdefault(process, process)

    def _disk(self, base: FileText | None) -> Disk:
        sinks = Sinks(
            keep=self.keep,
            keep_now=self.keep_now,
            settled=self.settled,
            may_act=lambda: self.line is None or self.line.may_act,
            changed=self.room.tell_state,
            writers=self.room.writers,
        )
        return Disk(self.name, self._pages.workspace, self.text, base, sinks)

    async def settled(self) -> None:
        """Wait until what was to be stored is where it outlives this process.

        Raises:
            RelayError: it is not, or another process has the page by now.
        """
        if self.line is not None and not (await self.line.flush() and await self.line.renew()):
            raise RelayError(_CUT if self.line.is_cut else "another process writes this file by now")

    @property
    def version(self) -> str:
        """The version of the text as it is now."""
        return self.text.version

    @property
    def line_end(self) -> str:
        """What the lines of the file end with, for the most part."""
        if self._shown is not None:
            return str(self._shown.get("line_end", "\n"))
        return self.disk.base.line_end if self.disk.base is not None else "\n"

    def state(self) -> dict[str, object]:
        """Return what the page shows beside its text."""
        own: dict[str, object] = {"history": self.history}
        if self.line is not None and self.line.is_cut:
            own["file"] = {"saved": False, "problem": _CUT}
        if self._shown is not None:
            file = {"saved": True, "problem": None}
            return {"suggestions": [], "runs": [], "file": file, **self._shown, **own}
        file = self.disk.state.to_json()
        if self._store_problem and not file["problem"]:
            file["problem"] = self._store_problem
        if self.line is not None and self.disk.base is not None:
            own |= {"base": self.disk.base.version, "line_end": self.disk.base.line_end}
        shown = [each.to_json(self.text) for each in self.suggestions.pending()]
        runs = [{**run.to_json(), "accepted": self.suggestions.accepted(run.id)} for run in self.runs()]
        return {"suggestions": shown, "runs": runs, "file": file, **own}

    @property
    def pending(self) -> int:
        """How many suggestions nobody has decided yet."""
        if self._shown is not None:
            return len(cast("list[object]", self._shown.get("suggestions", [])))
        return len(self.suggestions.pending())

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
        if not self.owns:
            saving = Saving(updates=saving.updates, dirty=saving.dirty) if saving.updates else Saving()
        if self.line is not None and saving.base is not None:
            self.room.tell_state()
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
            if self._rows > COMPACT_AFTER and self.line is None:
                self._rows = 1
                saving = replace(saving, updates=(self.text.doc.get_update(),), instead=True)
            self._keeper.save(self.name, saving)
            self._saving = None
        if self._store_problem is not None:
            self._store_problem = None
            self.room.tell_state()

    async def close(self, why: Refused = ENDING, *, is_left: bool = False) -> bool:
        """Write and store all there is, and let everybody go; tell whether the file has all of the text.

        Where people go because the document begins anew, it does; where it ``is_left`` it was begun anew
        elsewhere, and nothing of this one is stored.
        """
        self.closing = True
        if self.watching is not None:
            await ended(self.watching)
        self.room.close(why)
        saved = not self.owns or await self.disk.save()
        try:
            if not is_left:
                saved = await self._leave_all(anew=why.code == BEGUN_ANEW) and saved
        except (StoreError, RelayError) as error:
            log.error("%s", error)  # noqa: TRY400 - it says all there is to say
            saved = False
        if self._timer is not None:
            self._timer.cancel()
        self._stop()
        self.suggestions.close()
        self.text.doc.unobserve(self._observed)
        if self.line is not None:
            await self.line.end()
            await self.line.release()
        return saved

    async def _leave_all(self, *, anew: bool) -> bool:
        """Store all there is; tell whether those have it who are to have it."""
        update = self.text.doc.get_update()
        if self.line is None:
            self.keep(Saving(updates=(update,), instead=True, records=self.records()))
            self.store_now()
            if anew:
                self.keep(Saving(updates=(fresh(str(self.text)),), instead=True, history=new_history()))
                self.store_now()
            return True
        if self.owns:
            self.keep(replace(self.everything(), instead=True))
        self.store_now()
        if await self.line.flush():
            if anew and self.line.may_act:
                await self.line.begin_anew(new_history(), fresh(str(self.text)), update)
            return True
        # What could not be told outlives this process here: see `Pages`.
        left = replace(self.everything(), instead=True, history=self.history, dirty=True)
        self._pages.store.save(self.name, left)
        return False

    def is_worn(self) -> bool:
        """Tell whether the document is mostly what was written and deleted, and large."""
        size = len(self.text.doc.get_update())
        self.room.written = self._measured = size
        return size > self._pages.limits.worn and size > WORN * len(str(self.text).encode())

    def bring_in(self, base: str | None, theirs: str) -> None:
        """Make the changes from one text to another here, too."""
        if changes := brought_in(base, str(self.text), theirs):
            self.text.apply(changes, "elsewhere")

    def _begin(self, stored: Stored | None, file: FileText | None) -> FileText | None:
        """Bring document and file together as they are found; return what they have in common."""
        base = None
        if stored is not None:
            self.hear_update(stored.update)
            self._restore(stored)
            base = common(stored, file)
            if base is None and file is not None and file.version == self._written:
                base = file  # Redis has forgotten it, and its owner is gone
        if file is not None and base != file:
            before = base.text if base is not None else None
            self.text.apply(brought_in(before, str(self.text), file.text), "file")
            base = file
        update = self.text.doc.get_update()
        self.room.written = self._measured = len(update)
        dirty = base is None or str(self.text) != base.text
        saving = Saving(updates=(update,), instead=True, base=_base_of(base), dirty=dirty)
        self.keep(replace(saving, history=self.history, records=self.records()))
        return base

    def _restore(self, stored: Stored) -> None:
        """Take up the suggestions that were stored."""
        told = cast("dict[str, Any]", stored.records.get("suggestions") or {})
        if (found := restored(self.text, told, self.name)) is not None:
            self.suggestions.close()
            self.suggestions = found
        elif told:
            log.warning("the suggestions for `%s` cannot be read and are dropped", self.name)

    def _note(self, _changes: ChangeSet, origin: object) -> None:
        self.origin = origin

    def _changed(self, event: TransactionEvent) -> None:
        origin, self.origin = self.origin, None
        update = event.update
        if update == b"\0\0":
            return
        dirty = True if origin != "file" else None
        self._rows += self._remote
        if self.line is not None and self.owns and self._rows > COMPACT_AFTER:
            self._rows = 0
            # A document can be read whole only once all have heard of its change.
            asyncio.get_running_loop().call_soon(self._compact, self.line)
        if not self._remote:
            self.keep(Saving(updates=(update,), dirty=dirty))
        elif self.owns:
            self.keep(Saving(dirty=dirty))
        self.room.send_update(update)
        if self.owns:
            self.disk.dirty(origin)
            most = self._pages.limits.document
            if self.room.written > most * 3 // 4 and self.room.written - self._measured > most // 8:
                self._measured = self.room.written
                asyncio.get_running_loop().call_soon(self._see_whether_worn)

    def _compact(self, line: Line) -> None:
        line.save(self.name, Saving(updates=(self.text.doc.get_update(),), instead=True))

    def _see_whether_worn(self) -> None:
        """Begin the document anew before it is full, also while people are there."""
        if self.is_worn():
            self._pages.begin_anew(self)

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
