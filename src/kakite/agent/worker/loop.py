"""The loop of a worker: polls forges for work and starts tasks, until it is idle or stopped."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, cast

from kakite.agent.forges.base import Forge, ForgeError
from kakite.agent.forges.labels import LabelConfig
from kakite.agent.forges.local.forge import UNKNOWN
from kakite.agent.forges.webhooks import WakeEvent
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.issues.comment_format import format_approve_command
from kakite.agent.issues.triage import encode_trigger, find_pending_tasks, make_task_id_prefix
from kakite.agent.run.state import format_status
from kakite.agent.worker.payloads import (
    EarlierTask,
    HumanAnswer,
    PublishedQuestion,
    TaskInput,
    from_payload,
    to_payload,
)
from kakite.agent.worker.workflow import STOP_TOPIC, TASK_WORKFLOW
from kakite.durable.client import (
    END_STATES,
    BackendUnavailableError,
    WorkflowClient,
    WorkflowDescription,
)
from kakite.errors import KakiteError, UsageError
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)

OUTAGE_LIMIT = 600.0
"""Seconds that a worker waits for the engine of its workflows to come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryConfig:
    """A forge that a worker looks after, and how it works on what it finds there."""

    forge: Forge
    place: Mapping[str, str]
    """kind, path and url: how any worker opens the same forge."""
    names: LabelConfig
    settings: JsonObject
    """Those of each task: the fields of the workflow's input but its id, text, repository and branch."""
    on_ask: str
    """``deny`` or ``pause``."""
    draft: str = "early"
    """When a pull request is opened: ``early``, with the first change; ``late``, with the work."""


@dataclass(slots=True, kw_only=True)
class WorkerLoop:
    """One worker's loop. Workflows run elsewhere; this finds tasks and takes people's answers."""

    client: WorkflowClient
    forge_activities: ForgeActivities
    post: RepositoryConfig | None
    say: Callable[[str], None]
    bell: WakeEvent = field(default_factory=WakeEvent)
    """Wakes it before its next look: a forge has something to tell, or seems so."""
    sweep: Callable[[Iterable[str]], Awaitable[None]] | None = None
    """Removes what is left on this machine of tasks that have ended."""
    under_way: set[str] = field(default_factory=set[str])
    """Tasks that this worker has taken up or over, and that neither have ended nor wait for a person."""
    _away_since: float = 0.0
    """By ``time.monotonic``, since when the engine of the workflows cannot be used; 0: it can."""
    _said: set[str] = field(default_factory=set[str])
    _past: set[str] | None = None
    """Tasks that had ended before this worker looked first: they are no news."""
    _begun: set[str] = field(default_factory=set[str])
    """Tasks that somebody had begun when this worker first saw them."""

    async def run(self, *, poll: float, until_idle: bool) -> None:
        """Take up what waits, every ``poll`` seconds; with ``until_idle``, until no work is left.

        What waits for a person is told, and is no work.

        Raises:
            BackendUnavailableError: the workflows cannot be had: at first, or for ten minutes.
        """
        was_idle = False
        while True:
            is_idle = await self._look_or_wait(until_idle=until_idle)
            if not until_idle or not is_idle:
                await self.bell.wait(poll)
            elif was_idle:
                return
            # Once is not enough: what was not at the forge any more, another worker may have taken up after
            # the tasks were listed.
            was_idle = is_idle

    async def _look_or_wait(self, *, until_idle: bool) -> bool:
        """Look once, and return whether no work is left; nobody knows while the engine is away for a while.

        Raises:
            BackendUnavailableError: it never was there, or is away for longer.
        """
        try:
            is_idle = await self._look(until_idle=until_idle)
        except BackendUnavailableError as error:
            now = time.monotonic()
            self._away_since = self._away_since or now
            known = self._past is not None and error.code == BackendUnavailableError.code
            if not known or now - self._away_since > OUTAGE_LIMIT:
                raise
            if self._away_since == now:
                self.say(f"{error.message}; trying again for {OUTAGE_LIMIT / 60:.0f} minutes")
            return False
        self._away_since = 0.0
        return is_idle

    async def _look(self, *, until_idle: bool) -> bool:
        """Take up what waits, tell what is new, and return whether no work is left."""
        standings = [
            each for each in await self.client.list_workflows() if each.workflow == TASK_WORKFLOW.label
        ]
        self._update_known_tasks(standings)
        asked = await self._submit_pending(standings, until_idle=until_idle)
        await self._poll_answers(standings)
        for each in standings:
            self._report_task(each)
        if self.sweep is not None:
            await self.sweep([each.id for each in standings if each.state in {"done", "cancelled"}])
        return not asked and not any(map(has_pending_work, standings))

    def on_task_started(self, task: str) -> None:
        """Note that this worker is at a task now: one that another has begun it takes over."""
        if task in self.under_way:
            return
        self.under_way.add(task)
        if task in self._begun:
            self.say_once(f"{task}: continues with {shorten_task_id(task)}")

    def _update_known_tasks(self, standings: Collection[WorkflowDescription]) -> None:
        if self._past is None:
            self._past = {each.id for each in standings if each.state in END_STATES}
            self._begun = {each.id for each in standings if each.published and each.state not in END_STATES}
        self.under_way -= {each.id for each in standings if not has_pending_work(each)}

    async def _submit_pending(self, standings: Collection[WorkflowDescription], *, until_idle: bool) -> bool:
        """Submit what waits; returns whether there was something, or nobody knows."""
        if self.post is None:
            return False
        known = {each.id: each.state not in END_STATES for each in standings}
        try:
            found = await find_pending_tasks(self.post.forge, self.post.names, known)
        except ForgeError as error:
            self.say_once(f"{self.post.place['kind']}: {error.message} ({error.code})")
            mended_later = error.code == "forge_unauthorized" and not until_idle  # it was valid at the start
            if not error.retryable and not mended_later:
                raise
            return True
        for task, trigger in found:
            earlier = find_earlier_task(standings, make_task_id_prefix(self.post.forge, trigger.number))
            given = self._build_input(task, encode_trigger(trigger), earlier if trigger.comment else None)
            await self.client.submit(task, TASK_WORKFLOW.label, to_payload(given))
            by = f" by {trigger.actor}" if trigger.actor not in {"", UNKNOWN} else ""
            self.under_way.add(task)
            self.say_once(f"{task}: takes up #{trigger.number} ({trigger.kind}{by})")
        return bool(found)

    def _build_input(self, task: str, trigger: JsonObject, earlier: EarlierTask | None) -> TaskInput:
        assert self.post is not None
        return TaskInput(
            id=task,
            forge=dict(self.post.place),
            trigger=trigger,
            settings=self.post.settings,
            on_ask=self.post.on_ask,
            draft=self.post.draft,
            earlier=earlier,
        )

    async def _poll_answers(self, standings: Collection[WorkflowDescription]) -> None:
        """Give the tasks that wait for a person what people have answered at their forges."""
        for each in standings:
            asks = find_pending_question(each)
            if asks is None or not cast("JsonObject", each.published).get("accepted"):
                continue
            published = from_payload(PublishedQuestion, each.published)
            try:
                for said in await self.forge_activities.fetch_answers(published):
                    await signal_answer(self.client, each.id, asks, said)
            except (ForgeError, UsageError) as error:  # another worker may have the token that is missing
                self.say_once(f"{each.id}: {error.message} ({error.code})")

    def _report_task(self, standing: WorkflowDescription) -> None:
        if standing.id in (self._past or ()):
            return
        public: Any = standing.published or {}
        asks = find_pending_question(standing)
        match standing.state:
            case "running" | "queued":
                return
            case "waiting" if asks is not None:
                what = asks["text"] or asks["tool"]
                self.say_once(
                    f"{standing.id}: waits for a person ({asks['kind']}): {what}; "
                    f"{_format_show_hint(standing)}"
                )
            case "waiting":
                error: Any = public.get("error") or {}
                self.say_once(f"{standing.id}: tries again soon: {error.get('message', '')}")
            case "paused" | "stuck" | "failed" | "cancelled":
                self.say_once(f"{standing.id}: {standing.state} {standing.error}".rstrip())
            case "done":
                told = format_status(str(public.get("status")), public.get("doubt") or "")
                branch = f" (branch {public.get('branch', '')})" if public.get("pushed") else ""
                self.say_once(f"{standing.id}: {told}{branch}")

    def say_once(self, line: str) -> None:
        """Say it, unless it was said before."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)


def _format_show_hint(standing: WorkflowDescription) -> str:
    return f"see `kakite agent show {quote(standing.id)}`"


def find_earlier_task(standings: Iterable[WorkflowDescription], place: str) -> EarlierTask | None:
    """Return the last task of an issue that has ended, of whose conversation something is kept.

    ``place`` is what the ids of the issue's tasks begin with.
    """
    ended = [each for each in standings if each.id.startswith(place) and each.state in END_STATES]
    for each in sorted(ended, key=lambda each: each.created, reverse=True):
        public = cast("JsonObject", each.published or {})
        if (head := public.get("head")) and (started := public.get("started")):
            return EarlierTask(id=each.id, head=str(head), started=str(started))
    return None


def shorten_task_id(task: str) -> str:
    """Return how people name a task: the number of its issue, where it has one, else its id."""
    number = task.rpartition("#")[2].partition("@")[0]
    return f"#{number}" if number.isdecimal() else task


def has_pending_work(standing: WorkflowDescription) -> bool:
    """Return whether a worker still has something to do for a workflow, now or soon without help."""
    if standing.unheard:
        return True
    if standing.state == "waiting":
        return not standing.topic.startswith("answer-")
    return standing.state in {"queued", "running"}


def find_pending_question(standing: WorkflowDescription) -> Mapping[str, Any] | None:
    """Return what a workflow waits for from a person; None if it does not."""
    if standing.state != "waiting" or not standing.topic.startswith("answer-"):
        return None
    public: Any = standing.published or {}
    return public.get("asks")


async def answer_question(
    client: WorkflowClient, task: str, said: HumanAnswer, *, digest: str | None = None
) -> Mapping[str, Any]:
    """Answer what a task asks, and return what that was.

    Raises:
        KakiteError: it asks nothing (``nothing_asked``), or about something else (``other_digest``), or a
            call is let go without saying which (``digest_missing``).
        WorkflowError: there is no such task.
    """
    asks = find_pending_question(await client.describe(task))
    if asks is None:
        raise KakiteError(
            f"`{task}` asks nothing",
            hint=f"`kakite agent show {task}` shows its state",
            code="nothing_asked",
        )
    if digest is not None and digest != asks["digest"]:
        raise KakiteError(
            f"`{task}` now asks about `{asks['digest']}`, not `{digest}`",
            hint=f"look at it again: `kakite agent show {task}`",
            code="other_digest",
        )
    if digest is None and asks["kind"] == "approval" and said.answer != "no":
        raise KakiteError(
            f"`{task}` asks for {asks['tool']} {json.dumps(asks['arguments'], ensure_ascii=False)}",
            hint=f"allow only this call: `{format_approve_command(task, asks['digest'])}`",
            code="digest_missing",
        )
    await signal_answer(client, task, asks, said)
    return asks


async def stop_task(client: WorkflowClient, task: str, *, by: str, via: str) -> None:
    """Let a task end: what it does is cut short, what there is is pushed, and its issue is told.

    A worker does it, the next one if none lives. A task that has ended stays as it is, and a workflow that is
    no task is cancelled.

    Raises:
        WorkflowError: there is no such task.
    """
    standing = await client.describe(task)
    if standing.workflow != TASK_WORKFLOW.label:
        await client.cancel(task)
    elif standing.state not in END_STATES:
        await client.signal(task, STOP_TOPIC, {"by": by, "via": via}, key=STOP_TOPIC)
        await client.resume(task)  # what rests would not hear it


async def signal_answer(
    client: WorkflowClient, task: str, asks: Mapping[str, Any], said: HumanAnswer
) -> None:
    """Give a task the answer to what it asks: the first one counts."""
    digest = str(asks["digest"])
    await client.signal(task, f"answer-{digest}", to_payload(said), key=digest)
