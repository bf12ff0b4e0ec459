"""A worker's shift: what waits at the forge becomes tasks, until nothing is left or somebody ends it."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from kakite.agent.durable.ledger import ENDS, Ledger, Standing
from kakite.agent.errands import Errands
from kakite.agent.forges.doorbell import Bell
from kakite.agent.forges.forge import Forge, ForgeError
from kakite.agent.forges.names import Names
from kakite.agent.forges.reading import UNKNOWN
from kakite.agent.intake import trigger_value, waiting
from kakite.agent.letters import approval_of
from kakite.agent.outcome import told_end
from kakite.agent.tale import SOLVE, STOP
from kakite.errors import KakiteError, UsageError
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A forge that a worker looks after, and how it works on what it finds there."""

    forge: Forge
    place: Mapping[str, str]
    """kind, path and url: how any worker opens the same forge."""
    names: Names
    settings: JsonObject
    """Those of each task: the fields of ``Task`` but its id, text, repository and branch."""
    on_ask: str
    """``deny`` or ``pause``."""
    draft: str = "early"
    """When a pull request is opened: ``early``, with the first change; ``late``, with the work."""


@dataclass(slots=True, kw_only=True)
class Shift:
    """One worker at its post. Stories are told elsewhere; this finds them and hears what people say."""

    ledger: Ledger
    errands: Errands
    post: Post | None
    say: Callable[[str], None]
    bell: Bell = field(default_factory=Bell)
    """Wakes it before its next look: a forge has something to tell, or seems so."""
    sweep: Callable[[Iterable[str]], Awaitable[None]] | None = None
    """Removes what is left on this machine of tasks that have ended."""
    under_way: set[str] = field(default_factory=set[str])
    """Tasks that this worker has taken up or over, and that neither have ended nor wait for a person."""
    _said: set[str] = field(default_factory=set[str])
    _past: set[str] | None = None
    """Tasks that had ended before this worker looked first: they are no news."""
    _begun: set[str] = field(default_factory=set[str])
    """Tasks that somebody had begun when this worker first saw them."""

    async def work(self, *, poll: float, until_idle: bool) -> None:
        """Take up what waits, every ``poll`` seconds; with ``until_idle``, until no work is left.

        What waits for a person is told, and is no work.

        Raises:
            LedgerError: the stories cannot be had.
        """
        while True:
            standings = [each for each in await self.ledger.list() if each.story == SOLVE.label]
            self._look_at(standings)
            asked = await self._take_up(standings, until_idle=until_idle)
            await self._hear(standings)
            for each in standings:
                self._tell(each)
            if self.sweep is not None:
                await self.sweep([each.id for each in standings if each.state in {"done", "cancelled"}])
            if until_idle and not asked and not any(map(is_work, standings)):
                return
            await self.bell.sleep(poll)

    def begins(self, task: str) -> None:
        """Note that this worker is at a task now: one that another has begun it takes over."""
        if task in self.under_way:
            return
        self.under_way.add(task)
        if task in self._begun:
            self.say_once(f"{task}: goes on with {short_of(task)}")

    def _look_at(self, standings: Collection[Standing]) -> None:
        if self._past is None:
            self._past = {each.id for each in standings if each.state in ENDS}
            self._begun = {each.id for each in standings if each.published and each.state not in ENDS}
        self.under_way -= {each.id for each in standings if not is_work(each)}

    async def _take_up(self, standings: Collection[Standing], *, until_idle: bool) -> bool:
        """Submit what waits; returns whether there was something, or nobody knows."""
        if self.post is None:
            return False
        known = {each.id: each.state not in ENDS for each in standings}
        try:
            found = await waiting(self.post.forge, self.post.names, known)
        except ForgeError as error:
            self.say_once(f"{self.post.place['kind']}: {error.message} ({error.code})")
            mended_later = error.code == "forge_unauthorized" and not until_idle  # it was valid at the start
            if not error.retryable and not mended_later:
                raise
            return True
        for task, trigger in found:
            await self.ledger.submit(task, SOLVE.label, self._start(task, trigger_value(trigger)))
            by = f" by {trigger.actor}" if trigger.actor not in {"", UNKNOWN} else ""
            self.under_way.add(task)
            self.say_once(f"{task}: takes up #{trigger.number} ({trigger.kind}{by})")
        return bool(found)

    def _start(self, task: str, trigger: JsonObject) -> JsonObject:
        assert self.post is not None
        return {
            "id": task,
            "forge": dict(self.post.place),
            "trigger": trigger,
            "settings": self.post.settings,
            "on_ask": self.post.on_ask,
            "draft": self.post.draft,
        }

    async def _hear(self, standings: Collection[Standing]) -> None:
        """Give the tasks that wait for a person what people have answered at their forges."""
        for each in standings:
            asks = asks_of(each)
            published: Any = each.published or {}
            if asks is None or not published.get("accepted"):
                continue
            try:
                for said in await self.errands.answers(published):
                    await signal_answer(self.ledger, each.id, asks, said)
            except (ForgeError, UsageError) as error:  # another worker may have the token that is missing
                self.say_once(f"{each.id}: {error.message} ({error.code})")

    def _tell(self, standing: Standing) -> None:
        if standing.id in (self._past or ()):
            return
        public: Any = standing.published or {}
        asks = asks_of(standing)
        match standing.state:
            case "running" | "queued":
                return
            case "waiting" if asks is not None:
                what = asks["text"] or asks["tool"]
                self.say_once(f"{standing.id}: waits for a person ({asks['kind']}): {what}; {_see(standing)}")
            case "waiting":
                error: Any = public.get("error") or {}
                self.say_once(f"{standing.id}: tries again soon: {error.get('message', '')}")
            case "paused" | "stuck" | "failed" | "cancelled":
                self.say_once(f"{standing.id}: {standing.state} {standing.error}".rstrip())
            case "done":
                told = told_end(str(public.get("status")), public.get("doubt") or "")
                branch = f" (branch {public.get('branch', '')})" if public.get("pushed") else ""
                self.say_once(f"{standing.id}: {told}{branch}")

    def say_once(self, line: str) -> None:
        """Say it, unless it was said before."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)


def _see(standing: Standing) -> str:
    return f"see `kakite agent show {quote(standing.id)}`"


def short_of(task: str) -> str:
    """Return how people name a task: the number of its issue, where it has one, else its id."""
    number = task.rpartition("#")[2].partition("@")[0]
    return f"#{number}" if number.isdecimal() else task


def is_work(standing: Standing) -> bool:
    """Return whether a worker still has something to do for a story, now or without anybody's help soon."""
    if standing.unheard:
        return True
    if standing.state == "waiting":
        return not standing.topic.startswith("answer-")
    return standing.state in {"queued", "running"}


def asks_of(standing: Standing) -> Mapping[str, Any] | None:
    """Return what a story waits for from a person; None if it does not."""
    if standing.state != "waiting" or not standing.topic.startswith("answer-"):
        return None
    public: Any = standing.published or {}
    return public.get("asks")


async def answer(
    ledger: Ledger, task: str, said: JsonObject, *, digest: str | None = None
) -> Mapping[str, Any]:
    """Answer what a task asks, and return what that was.

    Raises:
        KakiteError: it asks nothing (``nothing_asked``), or about something else (``other_digest``), or a
            call is let go without saying which (``digest_missing``).
        StoryError: there is no such task.
    """
    asks = asks_of(await ledger.status(task))
    if asks is None:
        raise KakiteError(
            f"`{task}` asks nothing",
            hint=f"`kakite agent show {task}` tells how it stands",
            code="nothing_asked",
        )
    if digest is not None and digest != asks["digest"]:
        raise KakiteError(
            f"`{task}` asks about `{asks['digest']}` now, not about `{digest}`",
            hint=f"look at it again: `kakite agent show {task}`",
            code="other_digest",
        )
    if digest is None and asks["kind"] == "approval" and said["answer"] != "no":
        raise KakiteError(
            f"`{task}` asks for {asks['tool']} {json.dumps(asks['arguments'], ensure_ascii=False)}",
            hint=f"let just this go: `{approval_of(task, asks['digest'])}`",
            code="digest_missing",
        )
    await signal_answer(ledger, task, asks, said)
    return asks


async def stop(ledger: Ledger, task: str, *, by: str, via: str) -> None:
    """Let a task end: what it does is cut short, what there is is pushed, and its issue is told.

    A worker does it, the next one if none lives. A task that has ended stays as it is, and a story that is
    no task is cancelled.

    Raises:
        StoryError: there is no such task.
    """
    standing = await ledger.status(task)
    if standing.story != SOLVE.label:
        await ledger.cancel(task)
    elif standing.state not in ENDS:
        await ledger.signal(task, STOP, {"by": by, "via": via}, key=STOP)
        await ledger.resume(task)  # what rests would not hear it


async def signal_answer(ledger: Ledger, task: str, asks: Mapping[str, Any], said: JsonObject) -> None:
    """Give a task the answer to what it asks: the first one counts."""
    digest = str(asks["digest"])
    await ledger.signal(task, f"answer-{digest}", said, key=digest)
