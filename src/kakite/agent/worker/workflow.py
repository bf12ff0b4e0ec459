"""The durable workflow of a task, from the request to the pull request. Pure: every effect is an activity.

``open`` starts the task, each ``advance`` executes the next action, ``report`` and ``news`` exchange messages
with the people who asked for it, and ``close`` reports the end, whatever it is. External failures are
retried for a while. Then, and whenever a person must decide, the workflow waits for an answer, as long as
it takes. A signal on ``stop`` interrupts any activity or wait, and only the way to its end is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Literal, cast

from kakite.agent.git.remote_checkpoints import SavedWork
from kakite.agent.issues.thread import ThreadUpdate
from kakite.agent.worker.payloads import (
    CallAnswer,
    CleanInput,
    CloseOutput,
    DraftOutput,
    HumanAnswer,
    OpenedTask,
    OpenInput,
    PartialPush,
    ReportInput,
    ReportOutput,
    StepInput,
    StepOutput,
    TaskInput,
    TaskRefused,
    ThreadInput,
    from_payload,
    to_payload,
)
from kakite.agent.worker.status import (
    ErrorView,
    HumanInputRequest,
    PullRequestView,
    TaskStatus,
    get_notify_key,
)
from kakite.durable.workflow import Json, Workflow, WorkflowContext, get_error, is_stopped
from kakite.host.policy.approver import DEFAULT_DENIAL_REASON
from kakite.tools.toolset import JsonObject

RETRY_DELAYS: Final = (5.0, 15.0, 60.0, 180.0, 600.0, 600.0, 600.0, 600.0)
"""Seconds between two attempts at what failed outside, about three quarters of an hour in all."""
_LONGEST_DELAY: Final = 3_600.0  # s; a server that asks for years must not keep the task from the person
POLL_INTERVAL: Final = 5
"""Replies of the model between two looks for what people have written meanwhile."""
REPORT_INTERVAL: Final = 10
"""Replies of the model after which the progress is told though nothing else has changed."""
STOP_TOPIC: Final = "stop"
"""The topic on which the workflow is told to end. What is said on it is shown with its end."""
_TIMER_TOPIC: Final = "pause"  # the topic that nobody signals
_SUCCESS_STATUSES: Final = frozenset(("done", "no_changes"))
_QUESTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "limit": ("budget", "the limit of turns is reached; `more` allows as many again"),
    "budget": ("budget", "a limit of the budget is reached; `more` raises it"),
    "stuck": ("stuck", "the model repeats itself"),
    "conflict": ("conflict", "the conflicts with what others pushed could not be resolved"),
    "refused": ("stuck", "the model refused to go on"),
}


async def run_task_workflow(context: WorkflowContext, start: Json) -> Json:
    """Run a task. ``start`` is a ``TaskInput``."""
    return await _TaskWorkflow(context, from_payload(TaskInput, start)).run()


TASK_WORKFLOW: Final = Workflow(name="solve", version=1, tell=run_task_workflow)


class _StoppedError(Exception):
    """Somebody wants the task to end: whatever it was at, the way to its end is next."""


class _TaskWorkflow:
    """The workflow of one task."""

    def __init__(self, context: WorkflowContext, start: TaskInput) -> None:
        self._context = context
        self._start = start
        self._public: TaskStatus = {"id": start.id, "asks": None, "error": None, "status": None}
        self._told: tuple[object, int] = (None, 0)
        self._looked = 0
        self._asked = 0
        self._next: StepInput | None = None
        """What the next step is given; None before the task was accepted."""
        self._ids: tuple[str, ...] = ()
        self._seen: tuple[str, ...] = ()
        self._spent: tuple[str, ...] = ()
        self._request: PullRequestView | None = None
        self._announced = 0
        """The turn in which a draft was tried to be opened last."""
        self._stop = STOP_TOPIC

    async def run(self) -> Json:
        try:
            opened = await self._open()
        except _StoppedError:
            opened = None
        if opened is None:
            return await self._abandon()
        if isinstance(opened, TaskRefused):
            return await self._end_unstarted("refused", opened.refused)
        self._begin(opened)
        await self._publish()
        try:
            await self._report(urgent=True)
            status = await self._run_steps()
        except _StoppedError:
            status = "stopped"
        self._stop = ""
        return await self._end(status)

    async def _open(self) -> OpenedTask | TaskRefused | None:
        result = await self._execute_until_done("open", lambda: OpenInput(start=self._start))
        if result is None:
            return None
        kind = TaskRefused if "refused" in cast("JsonObject", result) else OpenedTask
        return from_payload(kind, result)

    def _begin(self, opened: OpenedTask) -> None:
        opened = replace(
            opened, carried=None
        )  # its blobs are in the result of `open`: each step would carry them
        saved = SavedWork(head=opened.head, commit=opened.base, on=opened.base)
        self._next = StepInput(start=self._start, opened=opened, head=opened.head, saved=saved)
        if opened.accepted is not None:
            self._seen = tuple(opened.accepted.seen)
            if opened.accepted.request is not None:
                self._request = {"number": opened.accepted.request, "address": ""}
        self._update_status(opened.public)

    @property
    def _order(self) -> StepInput:
        assert self._next is not None, "the task was not accepted yet"
        return self._next

    def _build_thread_input(self) -> ThreadInput:
        accepted = self._order.opened.accepted
        return ThreadInput(
            start=self._start, accepted=accepted, public=self._public, ids=self._ids, seen=self._seen
        )

    def _update_status(self, public: TaskStatus) -> None:
        self._public = {**public, "request": self._request}

    async def _run_steps(self) -> str:
        """Do what is due until the run has ended, and return how."""
        while True:
            result = await self._advance()
            if result is None:
                return "stopped"
            self._update_status(result.public)
            await self._publish()
            if result.finished in _SUCCESS_STATUSES:
                return result.finished
            if not await self._resolve_question(result):
                return "stopped"
            if not await self._sync_with_issue(reports=result.reports):
                return "stopped"

    async def _advance(self) -> StepOutput | None:
        """Do the next step, and note where the one after it begins; None if a person has given it up."""
        found = await self._execute_until_done("advance", lambda: self._order)
        if found is None:
            return None
        result = from_payload(StepOutput, found)
        self._next = StepInput(
            start=self._start,
            opened=self._order.opened,
            head=result.head,
            saved=result.saved,
            draft=self._order.draft,
        )
        return result

    async def _resolve_question(self, result: StepOutput) -> bool:
        """Ask what has to be asked before the run goes on; False if it is not to go on."""
        asks = self._public.get("asks")
        if asks is not None:
            answer = await self._ask(asks)
            allowed = answer.answer != "no"
            reason = "" if allowed else _format_denial(answer)
            given = CallAnswer(digest=asks.get("digest", ""), allowed=allowed, reason=reason)
            self._next = replace(self._order, answers=(given,))
        elif result.finished:
            kind, text = _QUESTIONS.get(result.finished, ("stuck", result.finished))
            answer = await self._ask(self._build_question(kind, text))
            self._next = replace(self._order, resume=True, more=answer.budget)
            return answer.answer != "no"
        return True

    async def _sync_with_issue(self, *, reports: bool) -> bool:
        """Report the progress, and read what people say; False if they want it to stop."""
        if self._order.opened.accepted is None:
            return True
        turn = self._public.get("turn", 0)
        if self._public.get("pushed") and self._request is None:
            await self._open_pull_request()
        elif self._should_open_draft(turn):
            self._announced = turn
            await self._open_draft()
        if turn - self._looked >= POLL_INTERVAL or self._public.get("phase") == "commit":
            self._looked = turn
            if not await self._poll_comments():
                return False
        if reports:
            await self._report(urgent=False)
        return True

    def _should_open_draft(self, turn: int) -> bool:
        """Return whether there is a change to be shown in a draft, and none is open yet."""
        order = self._order
        changed = (order.saved.here or order.saved).commit != order.opened.base
        wanted = order.opened.early and self._request is None and order.draft != ""
        return changed and wanted and (not self._announced or turn - self._announced >= POLL_INTERVAL)

    async def _open_draft(self) -> None:
        """Open a draft before the work is done. Where that fails it is tried again later: nothing waits."""
        if self._order.draft is None:
            result = await self._execute("announce", self._order)
            if get_error(result) is None:
                self._next = replace(self._order, draft=from_payload(DraftOutput, result).draft)
        if self._order.draft:
            await self._open_pull_request(patiently=False)

    async def _poll_comments(self) -> bool:
        found = await self._context.execute_activity("news", to_payload(self._build_thread_input()))
        if get_error(found) is not None:
            return True  # it is asked again soon; what was written stays there
        news = from_payload(ThreadUpdate, found)
        self._seen = tuple(news.seen)
        self._ids += tuple(news.ids)
        if news.text:
            self._add_message(news.text)
        if news.wish == "pause":
            answer = await self._ask(self._build_question("paused", news.why or "a person has paused it"))
            return answer.answer != "no"
        return news.wish != "stop"

    def _build_question(self, kind: str, text: str) -> HumanInputRequest:
        self._asked += 1
        head = self._next.head if self._next else "start"
        digest = f"{head[:12]}-{self._asked}"
        return {"kind": kind, "digest": digest, "tool": "", "arguments": {}, "text": text}

    async def _ask(self, asks: HumanInputRequest) -> HumanAnswer:
        """Wait for a person's answer, as long as it takes."""
        self._public["asks"] = asks
        await self._publish()
        await self._report(urgent=True, turn="pause")
        answer = await self._context.wait_for_signal(f"answer-{asks.get('digest', '')}", unless=self._stop)
        self._public = {**self._public, "asks": None, "error": None}
        if answer is None:
            raise _StoppedError
        given = from_payload(HumanAnswer, answer)
        self._apply_answer(given)
        await self._publish()
        await self._report(urgent=True, turn="go_on")
        return given

    def _apply_answer(self, answer: HumanAnswer) -> None:
        """Note what an answer says beside yes or no; what has answered once answers no other question."""
        self._spent += answer.seen
        self._looked = self._public.get("turn", 0) - POLL_INTERVAL  # more may have been written meanwhile
        if answer.answer != "no" and answer.reason:
            self._add_message(f"Who was asked said: {answer.reason}")

    def _add_message(self, text: str) -> None:
        """Give the next step a message for the model."""
        if self._next is not None:
            news = "\n\n".join(filter(None, (self._next.news, text)))
            self._next = replace(self._next, news=news)

    async def _execute_until_done(self, kind: str, build: Callable[[], object]) -> Json:
        """Do a step until it is done; None if a person has given it up.

        ``build`` returns its input for each attempt: an answer may have added to that.
        """
        while True:
            result = await self._execute_with_retry(kind, build())
            error = get_error(result)
            if error is None:
                return result
            self._public["error"] = _to_error_view(error)
            helps = f"\nWhat helps: {error['hint']}" if error.get("hint") else ""
            text = f"{error['message']} ({error['code']}){helps}"
            answer = await self._ask(self._build_question("paused", text))
            if answer.answer == "no":
                return None

    async def _execute_with_retry(self, kind: str, value: object) -> Json:
        """Do a step, again and again for a while if it fails outside."""
        for pause in RETRY_DELAYS:
            result = await self._execute(kind, value)
            error = get_error(result)
            again = (
                cast("JsonObject", result).get("again", error["code"] == "activity_lost") if error else False
            )
            if error is None or not again:
                self._public["error"] = None
                return result
            self._public["error"] = _to_error_view(error)
            await self._publish()
            asked = cast("JsonObject", result).get("after") or 0.0
            after = max(pause, min(asked, _LONGEST_DELAY))
            await self._context.wait_for_signal(_TIMER_TOPIC, after, unless=self._stop)
        return await self._execute(kind, value)

    async def _execute(self, kind: str, value: object) -> Json:
        result = await self._context.execute_activity(kind, to_payload(value), unless=self._stop)
        if is_stopped(result):
            raise _StoppedError
        return result

    async def _publish(self) -> None:
        # What a worker needs to hear answers at the forge is shown with it.
        heard: dict[str, object] = {}
        if self._public.get("asks") and self._next is not None:
            accepted = self._next.opened.accepted
            seen = [*self._seen, *self._spent]
            heard = {"start": to_payload(self._start), "accepted": to_payload(accepted), "seen": seen}
        await self._context.publish({**self._public, **heard})

    async def _report(self, *, urgent: bool, turn: Literal["", "pause", "go_on"] = "") -> None:
        """Bring the comment up to date where people would see a difference. What fails is told next time."""
        turns = self._public.get("turn", 0)
        seen = get_notify_key(self._public)
        if self._next is None or self._next.opened.accepted is None:
            return
        if not urgent and seen == self._told[0] and turns - self._told[1] < REPORT_INTERVAL:
            return
        value = ReportInput(
            start=self._start,
            accepted=self._next.opened.accepted,
            public=self._public,
            ids=self._ids,
            urgent=urgent,
            turn=turn,
        )
        result = await self._context.execute_activity("report", to_payload(value))
        if get_error(result) is None and from_payload(ReportOutput, result).reported:
            self._told = seen, turns

    async def _open_pull_request(self, *, patiently: bool = True) -> None:
        step = self._execute_with_retry if patiently else self._execute
        result = await step("request", self._build_thread_input())
        if get_error(result) is None:
            self._request = self._public["request"] = cast("PullRequestView | None", result)
            await self._publish()

    async def _end(self, status: str) -> Json:
        """Leave everything as people should find it, whatever the end is."""
        self._public.update(asks=None, error=None)
        await self._publish()
        if status == "stopped" and self._order.head != self._order.opened.head:
            await self._salvage()
        self._public.update(status=status, phase="done", draft=bool(self._order.draft))
        if self._order.opened.accepted is not None:
            await self._close(status)
        done, repository = status in _SUCCESS_STATUSES, self._public.get("repository", "")
        await self._execute_with_retry(
            "clean", CleanInput(start=self._start, done=done, repository=repository)
        )
        await self._publish()
        kept = ("id", "status", "branch", "commit", "pushed", "request", "head")
        return {name: self._public.get(name) for name in kept}

    async def _salvage(self) -> None:
        """Push what there is."""
        result = await self._execute_until_done("salvage", lambda: self._order)
        if result is None:
            return
        left = from_payload(PartialPush, result)
        self._public.update(commit=left.commit, pushed=self._public.get("pushed", False) or left.pushed)
        if left.kept:
            self._public["kept"] = left.kept

    async def _close(self, status: str) -> None:
        pushed = self._public.get("pushed", False)
        if status == "stopped" and pushed and (self._request is None or self._announced):
            await self._open_pull_request()
        result = await self._execute_until_done("close", self._build_thread_input)
        closed = from_payload(CloseOutput, result) if result is not None else None
        if closed is not None and closed.request is not None:
            self._request = self._public["request"] = closed.request

    async def _abandon(self) -> Json:
        """End before it has begun: what little may be there is tidied up."""
        self._stop = ""
        self._public.update(asks=None, error=None, status="stopped")
        if self._start.forge["kind"] != "none":
            known = ThreadInput(start=self._start, accepted=None, public=self._public)
            await self._execute_until_done("close", lambda: known)
        await self._execute_with_retry("clean", CleanInput(start=self._start, done=False, repository=""))
        return await self._end_unstarted("stopped", None)

    async def _end_unstarted(self, status: str, error: ErrorView | None) -> Json:
        self._public.update(status=status, phase="done", error=error)
        await self._publish()
        return {"id": self._start.id, "status": status, "error": error}


def _to_error_view(error: Mapping[str, str]) -> ErrorView:
    return {"code": error["code"], "message": error["message"], "hint": error.get("hint", "")}


def _format_denial(answer: HumanAnswer) -> str:
    return f"the person said: {answer.reason}" if answer.reason else DEFAULT_DENIAL_REASON
