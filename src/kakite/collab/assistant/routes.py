"""The assistant over HTTP: runs as server-sent events that a client can resume.

A run belongs to the server, not to a connection: its events are kept, each with an id, so that a client that
lost the connection gets the rest. When nobody has listened for a while, the run is cancelled. What people
asked and were answered is the page's conversation: it is stored before anybody is told of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from kakite.collab.assistant.assistant import Assistant, AssistantRequest
from kakite.collab.assistant.conversation import ChatTurn
from kakite.collab.assistant.runs import (
    AssistantEvent,
    AssistantRun,
    AssistantRunFailed,
    EditFound,
    MessageDelta,
    RunError,
)
from kakite.collab.auth.authorize import get_shown_name, get_user, open_authorized, require
from kakite.collab.auth.policy import User
from kakite.collab.registry import DocumentRegistry, OpenDocument
from kakite.errors import KakiteError

log = logging.getLogger(__name__)

LISTENER_TIMEOUT = 10.0
"""Seconds after which a run that nobody listens to is cancelled."""
STORE_PACE = 0.05
"""Seconds in which the text of an answer is gathered before it is stored and told."""
MAX_ACTIVE_RUNS = 16
"""At work at once."""
MAX_KEPT_RUNS = 100
"""Runs whose events are kept."""
_MAX_LISTED_RUNS = 20  # runs of a page that its people are told of
COLOR, COLOR_LIGHT = "#7c3aed", "#7c3aed33"


class TooManyRunsError(KakiteError):
    """Too many runs are at work: ``too_many_requests``."""

    code = "too_many_requests"


class OwnedElsewhereError(KakiteError):
    """Another process has a page that the run is to be about: ``elsewhere``."""

    code = "elsewhere"


class Selection(BaseModel):
    """A range in UTF-16 units."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class AssistRequest(BaseModel):
    """A person's request to the assistant."""

    message: Annotated[str, Field(min_length=1, max_length=100_000)]
    selection: Selection | None = None
    mode: Literal["review", "auto"] = "review"
    pages: Annotated[list[str], Field(max_length=20)] = []
    """Further pages that the run is about."""
    format: Literal["search_replace", "json"] = "search_replace"
    name: Annotated[str, Field(max_length=40)] = ""
    """Who asks, as the page shows them; not used of those who signed in by a name."""


@dataclass(slots=True)
class LiveRun:
    """A run and what was told of it so far."""

    run: str
    pages: tuple[OpenDocument, ...]
    """The first is the one that it was asked on."""
    turn: ChatTurn
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    is_over: bool = False
    is_told: bool = False
    """Whether it is told how the turn ended."""
    listeners: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    end: asyncio.TimerHandle | None = None

    async def stream_events(self, last: int) -> AsyncGenerator[tuple[int, str, dict[str, Any]]]:
        """Yield all events after this one (0: all), as they come."""
        at = last
        while True:
            for name, data in self.events[at:]:
                at += 1
                yield at, name, data
            if at >= len(self.events):
                if self.is_over:
                    return
                await self.news.wait()

    def add_event(self, event: str, data: dict[str, Any]) -> None:
        """Tell all listeners."""
        self.events.append((event, data))
        self.wake()

    def wake(self) -> None:
        """Let listeners look whether there is more."""
        self.news.set()
        self.news = asyncio.Event()


class LiveRunRegistry:
    """All runs of a server."""

    def __init__(self, pages: DocumentRegistry, assistant: Assistant) -> None:
        self.pages = pages
        self.assistant = assistant
        self._running: dict[str, LiveRun] = {}
        assistant.changed = self._on_run_changed
        pages.runs_of = self.list_runs
        pages.take_runs = self._take
        pages.leave_runs = self._leave

    async def begin(
        self, page: OpenDocument, wish: AssistRequest, others: list[OpenDocument], person: User
    ) -> LiveRun:
        """Begin a run; it is at work when this returns.

        Raises:
            UsageError: ``no_model``, ``bad_request``.
            TooManyRunsError: too many are at work.
        """
        if sum(not each.is_over for each in self._running.values()) >= MAX_ACTIVE_RUNS:
            raise TooManyRunsError("the assistant is busy", hint="come back when a run is over")
        used = (page, *others)
        for each in used:
            if not each.is_owner and not await self.pages.take_over(each):
                hint = "ask about this page alone, or try again when the assistant is done there"
                raise OwnedElsewhereError(f"another process has `{each.name}`", hint=hint)
        suggestions = {each.name: each.suggestions for each in used}
        asked = replace(
            AssistantRequest.from_json(page.name, wish.model_dump(), suggestions),
            by=get_shown_name(person, wish.name),
            past=tuple(page.conversation.list_ended(lambda turn: may_see(person, turn))),
        )
        if wish.mode == "auto":
            for each in used:
                await each.disk.save()  # so that what the run writes is a write of its own
        events = self.assistant.run(asked, suggestions)
        began = await anext(events)
        run = str(began.to_json()["id"])
        talk = page.conversation
        turn = talk.begin(run, asked.by, wish.message, wish.mode, [each.name for each in used])
        running = LiveRun(run, used, turn)
        running.events.append((began.name, began.to_json()))
        self._keep(running)
        for each in used:
            each.used += 1
        await page.save_turns([turn], talk.remove(talk.list_surplus()))
        running.work = asyncio.create_task(self._work(running, events))
        self._await_listener(running)
        if self.pages.relay is not None:
            await self.pages.relay.note_run(running.run, page.name)
        page.room.broadcast_state()
        return running

    def find(self, run: str) -> LiveRun:
        """Return a run whose events are still kept.

        Raises:
            RunError: there is none.
        """
        if run not in self._running:
            raise RunError(f"there is no run `{run}`")
        return self._running[run]

    async def listen(self, running: LiveRun, last: int) -> AsyncGenerator[ServerSentEvent]:
        """Yield what is told of a run after this event; when the last listener goes, its time runs out."""
        running.listeners += 1
        if running.end is not None:
            running.end.cancel()
            running.end = None
        try:
            async for number, name, data in running.stream_events(last):
                yield ServerSentEvent(event=name, data=data, id=f"{running.run}-{number}")
        finally:
            running.listeners -= 1
            if not running.listeners and not running.is_over:
                self._await_listener(running)

    def list_runs(self, page: str) -> list[AssistantRun]:
        """Return the runs on a page, the oldest first."""
        return [run for run in self.assistant.runs.values() if page in run.pages][-_MAX_LISTED_RUNS:]

    async def close(self) -> None:
        """End all runs."""
        works = [each.work for each in self._running.values() if each.work is not None]
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works)

    def _leave(self, page: OpenDocument) -> None:
        """End the runs on a page that is another process's from now on: its suggestions are kept there."""
        for running in self._running.values():
            if page in running.pages and not running.is_over:
                self.assistant.cancel(running.run)

    def _take(self, runs: list[AssistantRun]) -> None:
        for run in runs:
            self.assistant.runs.setdefault(run.id, run)

    def _keep(self, running: LiveRun) -> None:
        self._running[running.run] = running
        over = [run for run, each in self._running.items() if each.is_over]
        for run in over[: max(0, len(self._running) - MAX_KEPT_RUNS)]:
            del self._running[run]

    def _await_listener(self, running: LiveRun) -> None:
        running.end = asyncio.get_running_loop().call_later(LISTENER_TIMEOUT, self._give_up, running)

    def _give_up(self, running: LiveRun) -> None:
        if not running.listeners:
            self.assistant.cancel(running.run)

    def _on_run_changed(self, run: AssistantRun) -> None:
        for name in run.pages:
            if (page := self.pages.open_documents.get(name)) is not None:
                page.publish_records()

    async def _work(self, running: LiveRun, events: AsyncGenerator[AssistantEvent]) -> None:
        told: asyncio.Queue[AssistantEvent | None] = asyncio.Queue()
        reading = asyncio.create_task(_read_events(events, told))
        try:
            is_over = False
            while not is_over:
                found = [await told.get()]
                while not told.empty():
                    found.append(told.get_nowait())
                is_over = None in found
                batch = [event for event in found if event is not None]
                await self._tell(running, batch)
                if not is_over and all(isinstance(event, MessageDelta) for event in batch):
                    await asyncio.sleep(STORE_PACE)
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            for page in running.pages:
                page.used -= 1
                page.show_assistant_cursor(None)
            await self._end_turn(running)
            running.is_over = True
            running.wake()

    async def _tell(self, running: LiveRun, batch: list[AssistantEvent]) -> None:
        """Store what happened, and then tell it."""
        for event in batch:
            running.turn.record(event.name, event.to_json())
            self._point(running, event)
        if (run := self.assistant.runs.get(running.run)) is not None:
            running.turn.reply = run.reply
        if running.turn.status != "running":
            await self._end_turn(running)
        else:
            await self._store(running)
        for event in batch:
            running.add_event(event.name, event.to_json())

    async def _end_turn(self, running: LiveRun) -> None:
        """Store how a turn ended, once, and let clients know."""
        if running.is_told:
            return
        running.is_told = True
        page, turn = running.pages[0], running.turn
        if turn.status == "running":
            turn.status = "interrupted"
        page.conversation.renew_version()
        await self._store(running)
        page.room.broadcast_state()

    async def _store(self, running: LiveRun) -> None:
        page, turn = running.pages[0], running.turn
        if page.conversation.turns.get(turn.id) is turn:  # else another process had the page meanwhile
            await page.save_turns([turn])

    def _point(self, running: LiveRun, event: AssistantEvent) -> None:
        """Show where the assistant is at work, as a person's cursor is shown."""
        if isinstance(event, EditFound):
            page = next(each for each in running.pages if each.name == event.page)
            caret = page.text.to_relative_position(event.suggestion.span.end)
            user = {"name": self.assistant.by, "color": COLOR, "colorLight": COLOR_LIGHT}
            page.show_assistant_cursor({"user": user, "cursor": {"anchor": caret, "head": caret}})


async def _read_events(
    events: AsyncGenerator[AssistantEvent], told: asyncio.Queue[AssistantEvent | None]
) -> None:
    try:
        async with aclosing(events):
            async for event in events:
                told.put_nowait(event)
    except Exception:
        log.exception("a run of the assistant failed")
        problem = "the run failed because of a bug in Kakite"
        told.put_nowait(
            AssistantRunFailed(code="internal", message=problem, hint="the server's log says more")
        )
    finally:
        told.put_nowait(None)


def may_see(person: User, turn: ChatTurn) -> bool:
    """Tell whether a person may read every page that a turn is about."""
    return all(person.rights.is_allowed(page, "read") for page in turn.pages)


def add_assistant(app: FastAPI, registry: LiveRunRegistry) -> None:
    """Add the routes."""

    async def start_run(page: str, wish: AssistRequest, request: Request) -> LiveRun:
        found = await open_authorized(registry.pages, request, page, writes=True)
        others = [
            await open_authorized(registry.pages, request, name, writes=True)
            for name in dict.fromkeys(wish.pages)
            if name != page
        ]
        return await registry.begin(found, wish, others, get_user(request))

    async def find_run(run: str, request: Request) -> LiveRun:
        running = registry.find(run)
        for page in running.pages:
            await open_authorized(registry.pages, request, page.name)
        return running

    @app.post("/api/pages/{page:path}/assist", response_class=EventSourceResponse)
    async def assist(running: LiveRun = Depends(start_run)) -> AsyncIterable[ServerSentEvent]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Ask the assistant; what it says and edits comes as server-sent events."""
        async with aclosing(registry.listen(running, 0)) as events:
            async for event in events:
                yield event

    @app.get("/api/runs/{run}/events", response_class=EventSourceResponse)
    async def stream_run(  # pyright: ignore[reportUnusedFunction] - by its route
        running: LiveRun = Depends(find_run), last_event_id: Annotated[str, Header()] = ""
    ) -> AsyncIterable[ServerSentEvent]:
        """Hear of a run from the start, or from after `Last-Event-ID`."""
        number = last_event_id.rpartition("-")[2]
        last = int(number) if number.isascii() and number.isdigit() else 0
        async with aclosing(registry.listen(running, last)) as told:
            async for event in told:
                yield event

    _add_steering(app, registry)
    _add_conversation(app, registry.pages)


def _add_steering(app: FastAPI, registry: LiveRunRegistry) -> None:
    async def authorize_run(run: str, request: Request) -> str:
        known = registry.assistant.runs.get(run)
        if known is None:
            raise RunError(f"there is no run `{run}`")
        await open_authorized(registry.pages, request, known.page, writes=True)
        for page in known.pages:
            require(registry.pages, get_user(request), page, writes=True)
        return run

    @app.post("/api/runs/{run}/cancel")
    async def cancel(run: str = Depends(authorize_run)) -> Mapping[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """End a run; what it has suggested stays."""
        return {"run": registry.assistant.cancel(run).to_json()}

    @app.post("/api/runs/{run}/revert")
    async def revert(run: str = Depends(authorize_run)) -> Mapping[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Take back all that a run wrote, and nothing that people did."""
        return {"run": registry.assistant.revert(run).to_json()}

    @app.post("/api/runs/{run}/keep")
    async def keep(run: str = Depends(authorize_run)) -> Mapping[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Keep what a run wrote: it cannot be reverted any more."""
        return {"run": registry.assistant.keep(run).to_json()}


def _add_conversation(app: FastAPI, pages: DocumentRegistry) -> None:
    async def open_owned(page: str, request: Request, *, writes: bool = False) -> OpenDocument:
        found = await open_authorized(pages, request, page, writes=writes)
        if not found.is_owner:
            raise OwnedElsewhereError(f"another process has `{page}`", hint="try again in some seconds")
        return found

    @app.get("/api/pages/{page:path}/conversation")
    async def get_conversation(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """What people asked the assistant on a page, and what it answered; the oldest first."""
        talk = (await open_owned(page, request)).conversation
        seen = [turn for turn in talk.turns.values() if may_see(get_user(request), turn)]
        return {"version": talk.version, "turns": [turn.to_client_json() for turn in seen]}

    @app.post("/api/pages/{page:path}/conversation/clear")
    async def clear_conversation(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Forget the conversation, but for answers that are under way."""
        found = await open_owned(page, request, writes=True)
        talk = found.conversation
        removed = talk.remove(talk.list_ended(lambda turn: may_see(get_user(request), turn)))
        await found.save_turns([], removed)
        found.room.broadcast_state()
        return {"version": talk.version, "removed": len(removed)}
