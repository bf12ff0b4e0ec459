"""Stories in memory, for tests: journal and replay are real, time is what the test says it is.

``MemoryLedger(strict=True)`` drops a story after every single step and tells it again from its first word,
so that
whatever is not the same the second time is found: ``NotTheSameError`` is raised where the two part.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from kakite.agent.durable.ledger import ENDS, Standing, State, cancelled, ended, failed, taken, unknown
from kakite.agent.durable.seam import (
    Effect,
    Json,
    Story,
    attempt,
    checked_id,
    checked_label,
    fault,
    labelled,
    plain,
    stopped,
)


class NotTheSameError(AssertionError):
    """A story took another way when it was told again."""


@dataclass(slots=True)
class _Page:
    """All that is kept of a story."""

    label: str
    start: Json
    number: int
    journal: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    signals: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    keys: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    paused: bool = False
    published: tuple[int, Json] = (0, None)
    state: State = "queued"
    topic: str = ""
    until: float | None = None
    unless: str = ""
    error: str = ""
    result: Json = None
    task: asyncio.Task[None] | None = None


class MemoryLedger:
    """A ledger that forgets everything with the process."""

    def __init__(self, *, strict: bool = False) -> None:
        self._pages: dict[str, _Page] = {}
        self._strict = strict
        self._now = 0.0
        self._stir = asyncio.Event()
        self.tellings = Counter[str]()
        """How often each story was begun, from its first word."""

    async def submit(self, story_id: str, label: str, start: Json) -> None:
        """See ``Ledger.submit``."""
        page = _Page(checked_label(label), plain(start), len(self._pages))
        if self._pages.setdefault(checked_id(story_id), page).label != label:
            raise taken(story_id, self._pages[story_id].label)
        self._stir.set()

    async def list(self) -> Sequence[Standing]:
        """See ``Ledger.list``."""
        return [await self.status(story_id) for story_id in reversed(self._pages)]

    async def status(self, story_id: str) -> Standing:
        """See ``Ledger.status``."""
        page = self._page(story_id)
        rests = page.state in {"queued", "waiting"}
        state = "paused" if rests and page.paused else page.state
        return Standing(
            id=story_id,
            story=page.label,
            state=state,
            topic=page.topic if state == "waiting" else "",
            published=page.published[1],
            error=page.error,
            created=datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=page.number),
            updated=datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=page.number),
        )

    async def signal(self, story_id: str, topic: str, value: Json, key: str = "") -> None:
        """See ``Ledger.signal``."""
        page = self._page(story_id)
        if not key or (topic, key) not in page.keys:
            page.keys.add((topic, key))
            page.signals.setdefault(topic, []).append(plain(value))
        self._stir.set()

    async def cancel(self, story_id: str) -> None:
        """See ``Ledger.cancel``."""
        page = self._page(story_id)
        if page.state in ENDS:
            return
        page.state = "cancelled"
        if page.task is not None:
            page.task.cancel()

    async def pause(self, story_id: str) -> None:
        """See ``Ledger.pause``."""
        self._page(story_id).paused = True

    async def resume(self, story_id: str) -> None:
        """See ``Ledger.resume``."""
        self._page(story_id).paused = False
        self._stir.set()

    async def result(self, story_id: str, seconds: float) -> Json:
        """See ``Ledger.result``."""
        standing = await ended(self, story_id, seconds, pause=0.001)
        if standing.state == "cancelled":
            raise cancelled(story_id)
        if standing.state == "failed":
            raise failed(story_id, standing.error)
        return self._page(story_id).result

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self._now += seconds
        self._stir.set()

    def journal(self, story_id: str) -> Sequence[tuple[str, Json]]:
        """Return what was recorded of a story: each step's kind and outcome."""
        return tuple(self._page(story_id).journal)

    @asynccontextmanager
    async def working(self, stories: Sequence[Story], effects: Mapping[str, Effect]) -> AsyncGenerator[None]:
        """Tell the stories as long as the block lasts. At its end all are dropped, as if the process had
        died.
        """
        known = labelled(stories)
        watching = asyncio.create_task(self._work(known, effects))
        try:
            yield
        finally:
            tasks = [watching, *(page.task for page in self._pages.values() if page.task)]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if watching.done() and not watching.cancelled():
                watching.result()

    async def _work(self, known: Mapping[str, Story], effects: Mapping[str, Effect]) -> None:
        while True:
            self._stir.clear()
            for story_id, page in self._pages.items():
                if page.label in known and page.task is None and self._due(page):
                    page.task = asyncio.create_task(self._tell(story_id, page, known[page.label], effects))
            await self._stir.wait()

    def _due(self, page: _Page) -> bool:
        if page.paused or page.state in ENDS or page.state == "stuck":
            return False
        return page.state != "waiting" or self.come(page) is not None

    def come(self, page: _Page) -> list[Json] | None:
        """Return what a waiting story gets now (nothing, when its time is over); None while it has to
        wait.
        """
        n = sum(kind == f"seam:wait:{page.topic}" and bool(found) for kind, found in page.journal)
        if found := page.signals.get(page.topic, [])[n : n + 1]:
            return found
        late = page.until is not None and self.now >= page.until
        return [] if late or page.signals.get(page.unless) else None

    @property
    def now(self) -> float:
        """The time that the test has let go by, in seconds."""
        return self._now

    async def _tell(self, story_id: str, page: _Page, story: Story, effects: Mapping[str, Effect]) -> None:
        self.tellings[story_id] += 1
        page.state = "running"
        try:
            page.result = plain(
                await story.tell(_Replaying(self, page, effects, strict=self._strict), page.start)
            )
            page.state = "done"
        except asyncio.CancelledError:
            if page.state == "running":
                page.state = "queued"
        except NotTheSameError as error:
            page.state, page.error = "stuck", str(error)
        except Exception as error:  # noqa: BLE001 - a story's own fault is its end, as in every engine
            page.state, page.error = "failed", fault(error)
        finally:
            page.task = None
            self._stir.set()

    def _page(self, story_id: str) -> _Page:
        try:
            return self._pages[story_id]
        except KeyError:
            raise unknown(story_id) from None


class _Replaying:
    """The seam of one telling."""

    def __init__(
        self, ledger: MemoryLedger, page: _Page, effects: Mapping[str, Effect], *, strict: bool
    ) -> None:
        self._ledger = ledger
        self._page = page
        self._effects = effects
        self._strict = strict
        self._told = 0
        self._published = 0

    async def step(self, kind: str, value: Json, unless: str = "") -> Json:
        return await self._recorded(kind, lambda: self._performed(kind, value, unless))

    async def _performed(self, kind: str, value: Json, unless: str) -> Json:
        if self._page.signals.get(unless):
            return stopped(kind)
        doing = asyncio.create_task(attempt(self._effects, kind, value))
        try:
            while not doing.done() and not self._page.signals.get(unless):
                await asyncio.wait([doing], timeout=0.01)
        finally:
            doing.cancel()
            await asyncio.wait([doing])
        return stopped(kind) if doing.cancelled() else doing.result()

    async def publish(self, state: Json) -> None:
        self._published += 1
        if self._published > self._page.published[0]:
            self._page.published = (self._published, plain(state))

    async def wait(self, topic: str, seconds: float | None = None, unless: str = "") -> Json:
        until: Json = self._ledger.now if seconds is not None and seconds <= 0 else None
        if seconds is not None and seconds > 0:
            until = await self._recorded("seam:until", lambda: self._clock(seconds))
        found = await self._recorded(f"seam:wait:{topic}", lambda: self._look(topic, until, unless))
        return found[0] if isinstance(found, list) and found else None  # pyright: ignore[reportReturnType] - JSON

    async def patched(self, change: str) -> bool:
        name, journal = f"seam:patch:{change}", self._page.journal
        if self._told < len(journal) and journal[self._told][0] != name:
            return False
        await self._recorded(name, self._yes)
        return True

    async def _yes(self) -> Json:
        return True

    async def _clock(self, seconds: float) -> Json:
        return self._ledger.now + seconds

    async def _look(self, topic: str, until: Json, unless: str) -> Json:
        self._page.topic, self._page.unless = topic, unless
        self._page.until = until if isinstance(until, float) else None
        found = self._ledger.come(self._page)
        if found is None:
            self._rest("waiting")
        return [*found]

    def _rest(self, state: State) -> NoReturn:
        self._page.state = state
        raise asyncio.CancelledError

    async def _recorded(self, kind: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        journal = self._page.journal
        if self._told == len(journal):
            if self._page.paused:
                self._rest("paused")
            journal.append((kind, await effect()))
            if self._strict:
                self._rest("queued")
        known, outcome = journal[self._told]
        if known != kind:
            raise NotTheSameError(f"step {self._told} was `{known}` and is `{kind}` now")
        self._told += 1
        return plain(outcome)
