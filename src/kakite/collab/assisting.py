"""The assistant over HTTP: runs that are told as server-sent events, and go on when the listener is back.

A run belongs to the server, not to a connection: its events are kept, each with an id, so that whoever lost
the connection hears the rest. When nobody has listened for a while, it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from kakite.collab.access import page_for, person_of, require
from kakite.collab.assistant import Assistant
from kakite.collab.assistant import Request as Asked
from kakite.collab.events import EditFound, Event, Problem
from kakite.collab.pages import Page, Pages
from kakite.collab.runs import Run, RunError
from kakite.errors import KakiteError

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds after which a run that nobody listens to is cancelled."""
MOST_RUNS = 16
"""At work at once."""
KEPT = 100
"""Runs whose events are kept."""
_SHOWN = 20  # runs of a page that its people are told of
COLOR, COLOR_LIGHT = "#7c3aed", "#7c3aed33"


class BusyError(KakiteError):
    """Too many runs are at work: ``too_many_requests``."""

    code = "too_many_requests"


class ElsewhereError(KakiteError):
    """Another process has a page that the run is to be about: ``elsewhere``."""

    code = "elsewhere"


class Selection(BaseModel):
    """A range in UTF-16 units."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class Wish(BaseModel):
    """What a person asks of the assistant."""

    message: Annotated[str, Field(min_length=1, max_length=100_000)]
    selection: Selection | None = None
    mode: Literal["review", "auto"] = "review"
    pages: Annotated[list[str], Field(max_length=20)] = []
    """Further pages that the run is about."""
    format: Literal["search_replace", "json"] = "search_replace"


@dataclass(slots=True)
class Running:
    """A run and what was told of it so far."""

    run: str
    pages: tuple[Page, ...]
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    is_over: bool = False
    listeners: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    end: asyncio.TimerHandle | None = None

    async def heard(self, last: int) -> AsyncGenerator[tuple[int, str, dict[str, Any]]]:
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

    def tell(self, event: str, data: dict[str, Any]) -> None:
        """Tell all listeners."""
        self.events.append((event, data))
        self.wake()

    def wake(self) -> None:
        """Let listeners look whether there is more."""
        self.news.set()
        self.news = asyncio.Event()


class Desk:
    """All runs of a server."""

    def __init__(self, pages: Pages, assistant: Assistant) -> None:
        self.pages = pages
        self.assistant = assistant
        self._running: dict[str, Running] = {}
        assistant.changed = self._changed
        pages.runs_of = self.runs_of
        pages.take_runs = self._take
        pages.leave_runs = self._leave

    async def begin(self, page: Page, wish: Wish, others: list[Page]) -> Running:
        """Begin a run; it is at work when this returns.

        Raises:
            UsageError: ``no_model``, ``bad_request``.
            BusyError: too many are at work.
        """
        if sum(not each.is_over for each in self._running.values()) >= MOST_RUNS:
            raise BusyError("the assistant is busy", hint="come back when a run is over")
        used = (page, *others)
        for each in used:
            if not each.owns and not await self.pages.take_over(each):
                hint = "ask about this page alone, or try again when the assistant is done there"
                raise ElsewhereError(f"another process has `{each.name}`", hint=hint)
        suggestions = {each.name: each.suggestions for each in used}
        asked = Asked.of_json(page.name, wish.model_dump(), suggestions)
        if wish.mode == "auto":
            for each in used:
                await each.disk.save()  # so that what the run writes is a write of its own
        events = self.assistant.run(asked, suggestions)
        began = await anext(events)
        running = Running(str(began.to_json()["id"]), used)
        running.events.append((began.name, began.to_json()))
        self._keep(running)
        for each in used:
            each.used += 1
        running.work = asyncio.create_task(self._work(running, events))
        self._await_listener(running)
        if self.pages.relay is not None:
            await self.pages.relay.note_run(running.run, page.name)
        return running

    def find(self, run: str) -> Running:
        """Return a run whose events are still kept.

        Raises:
            RunError: there is none.
        """
        if run not in self._running:
            raise RunError(f"there is no run `{run}`")
        return self._running[run]

    async def listen(self, running: Running, last: int) -> AsyncGenerator[ServerSentEvent]:
        """Yield what is told of a run after this event; when the last listener goes, its time runs out."""
        running.listeners += 1
        if running.end is not None:
            running.end.cancel()
            running.end = None
        try:
            async for number, name, data in running.heard(last):
                yield ServerSentEvent(event=name, data=data, id=f"{running.run}-{number}")
        finally:
            running.listeners -= 1
            if not running.listeners and not running.is_over:
                self._await_listener(running)

    def runs_of(self, page: str) -> list[Run]:
        """Return the runs on a page, the oldest first."""
        return [run for run in self.assistant.runs.values() if page in run.pages][-_SHOWN:]

    async def close(self) -> None:
        """End all runs."""
        works = [each.work for each in self._running.values() if each.work is not None]
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works)

    def _leave(self, page: Page) -> None:
        """End the runs on a page that is another process's from now on: its suggestions are kept there."""
        for running in self._running.values():
            if page in running.pages and not running.is_over:
                self.assistant.cancel(running.run)

    def _take(self, runs: list[Run]) -> None:
        for run in runs:
            self.assistant.runs.setdefault(run.id, run)

    def _keep(self, running: Running) -> None:
        self._running[running.run] = running
        over = [run for run, each in self._running.items() if each.is_over]
        for run in over[: max(0, len(self._running) - KEPT)]:
            del self._running[run]

    def _await_listener(self, running: Running) -> None:
        running.end = asyncio.get_running_loop().call_later(PATIENCE, self._give_up, running)

    def _give_up(self, running: Running) -> None:
        if not running.listeners:
            self.assistant.cancel(running.run)

    def _changed(self, run: Run) -> None:
        for name in run.pages:
            if (page := self.pages.open_pages.get(name)) is not None:
                page.tell_records()

    async def _work(self, running: Running, events: AsyncGenerator[Event]) -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    self._point(running, event)
                    running.tell(event.name, event.to_json())
        except Exception:
            log.exception("a run of the assistant failed")
            problem = Problem(code="internal", message="the run failed inside of Kakite", hint="see its log")
            running.tell(problem.name, problem.to_json())
        finally:
            for page in running.pages:
                page.used -= 1
                page.point(None)
            running.is_over = True
            running.wake()

    def _point(self, running: Running, event: Event) -> None:
        """Show where the assistant is at work, as a person's cursor is shown."""
        if isinstance(event, EditFound):
            page = next(each for each in running.pages if each.name == event.page)
            caret = page.text.caret(event.suggestion.span.end)
            user = {"name": self.assistant.by, "color": COLOR, "colorLight": COLOR_LIGHT}
            page.point({"user": user, "cursor": {"anchor": caret, "head": caret}})


def add_assistant(app: FastAPI, desk: Desk) -> None:
    """Add the routes."""

    async def begun(page: str, wish: Wish, request: Request) -> Running:
        found = await page_for(desk.pages, request, page, writes=True)
        others = [
            await page_for(desk.pages, request, name, writes=True)
            for name in dict.fromkeys(wish.pages)
            if name != page
        ]
        return await desk.begin(found, wish, others)

    async def found(run: str, request: Request) -> Running:
        running = desk.find(run)
        for page in running.pages:
            await page_for(desk.pages, request, page.name, writes=True)
        return running

    @app.post("/api/pages/{page:path}/assist", response_class=EventSourceResponse)
    async def assist(running: Running = Depends(begun)) -> AsyncIterable[ServerSentEvent]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Ask the assistant; what it says and edits comes as server-sent events."""
        async with aclosing(desk.listen(running, 0)) as events:
            async for event in events:
                yield event

    @app.get("/api/runs/{run}/events", response_class=EventSourceResponse)
    async def events(  # pyright: ignore[reportUnusedFunction] - by its route
        running: Running = Depends(found), last_event_id: Annotated[str, Header()] = ""
    ) -> AsyncIterable[ServerSentEvent]:
        """Hear of a run from the start, or from after `Last-Event-ID`."""
        number = last_event_id.rpartition("-")[2]
        last = int(number) if number.isascii() and number.isdigit() else 0
        async with aclosing(desk.listen(running, last)) as told:
            async for event in told:
                yield event

    _add_steering(app, desk)


def _add_steering(app: FastAPI, desk: Desk) -> None:
    async def settled(run: str, request: Request) -> str:
        known = desk.assistant.runs.get(run)
        if known is None:
            raise RunError(f"there is no run `{run}`")
        await page_for(desk.pages, request, known.page, writes=True)
        for page in known.pages:
            require(desk.pages, person_of(request), page, writes=True)
        return run

    @app.post("/api/runs/{run}/cancel")
    async def cancel(run: str = Depends(settled)) -> Mapping[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """End a run; what it has suggested stays."""
        return {"run": desk.assistant.cancel(run).to_json()}

    @app.post("/api/runs/{run}/revert")
    async def revert(run: str = Depends(settled)) -> Mapping[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Take back all that a run wrote, and nothing that people did."""
        return {"run": desk.assistant.revert(run).to_json()}

    @app.post("/api/runs/{run}/keep")
    async def keep(run: str = Depends(settled)) -> Mapping[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Keep what a run wrote: it cannot be reverted any more."""
        return {"run": desk.assistant.keep(run).to_json()}
