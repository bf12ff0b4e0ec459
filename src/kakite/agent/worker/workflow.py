"""The durable workflow of a task, from the request to the pull request. Pure: every effect is an activity.

``open`` starts the task, each ``advance`` executes the next action, ``report`` and ``news`` exchange messages
with the people who asked for it, and ``close`` reports the end, whatever it is. External failures are
retried for a while. Then, and whenever a person must decide, the workflow waits for an answer, as long as
it takes. A signal on ``stop`` interrupts any activity or wait, and only the way to its end is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from kakite.agent.worker.status import get_notify_key
from kakite.durable.workflow import Json, Workflow, WorkflowContext, get_error, is_stopped
from kakite.host.policy.approver import DEFAULT_DENIAL_REASON
from kakite.tools.toolset import JsonObject

RETRY_DELAYS: Final = (5.0, 15.0, 60.0, 180.0, 600.0, 600.0, 600.0, 600.0)
"""Seconds between two attempts at what failed outside, about three quarters of an hour in all."""
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
    """Run a task. ``start``: id, forge, trigger (or text, repository, branch, title), settings, on_ask."""
    return await _TaskWorkflow(context, cast("JsonObject", start)).run()


TASK_WORKFLOW: Final = Workflow(name="solve", version=1, tell=run_task_workflow)


class _StoppedError(Exception):
    """Somebody wants the task to end: whatever it was at, the way to its end is next."""


class _TaskWorkflow:
    """The workflow of one task."""

    def __init__(self, context: WorkflowContext, start: JsonObject) -> None:
        self._context = context
        self._start = start
        self._public: dict[str, object] = {"id": start["id"], "asks": None, "error": None, "status": None}
        self._told: tuple[object, int] = (None, 0)
        self._looked = 0
        self._asked = 0
        self._order: dict[str, Any] = {}
        self._at: dict[str, Any] = {}
        self._ids: list[str] = []
        self._seen: list[str] = []
        self._spent: list[str] = []
        self._request: Json = None
        self._announced = 0
        """The turn in which a draft was tried to be opened last."""
        self._stop = STOP_TOPIC

    async def run(self) -> Json:
        try:
            opened = await self._execute_until_done("open", {"start": self._start})
        except _StoppedError:
            opened = None
        if opened is None:
            return await self._abandon()
        if "refused" in opened:
            return await self._end_unstarted("refused", opened["refused"])
        self._begin(opened)
        await self._publish()
        try:
            await self._report(urgent=True)
            status = await self._run_steps()
        except _StoppedError:
            status = "stopped"
        self._stop = ""
        return await self._end(status)

    def _begin(self, opened: JsonObject) -> None:
        head = opened["head"]
        saved = {"head": head, "commit": opened["base"], "on": opened["base"]}
        self._order = {"start": self._start, "opened": opened, "head": head, "saved": saved}
        accepted: JsonObject | None = opened["accepted"]
        self._at = {"start": self._start, "accepted": accepted}
        self._seen = [] if accepted is None else list(accepted["seen"])
        if accepted is not None and accepted["request"] is not None:
            self._request = {"number": accepted["request"], "address": ""}
        self._update_status(opened)

    def _update_status(self, result: JsonObject) -> None:
        self._public = {**result["public"], "request": self._request}

    async def _run_steps(self) -> str:
        """Do what is due until the run has ended, and return how."""
        while True:
            result = await self._execute_until_done("advance", self._order)
            if result is None:
                return "stopped"
            for given in ("news", "answers", "resume", "more"):
                self._order.pop(given, None)
            self._order.update(head=result["head"], saved=result["saved"])
            self._update_status(result)
            await self._publish()
            if result["finished"] in _SUCCESS_STATUSES:
                return result["finished"]
            if not await self._resolve_question(result):
                return "stopped"
            # What older workers recorded does not say whether a report would do anything.
            if not await self._sync_with_issue(reports=result.get("reports", True)):
                return "stopped"

    async def _resolve_question(self, result: JsonObject) -> bool:
        """Ask what has to be asked before the run goes on; False if it is not to go on."""
        asks: JsonObject | None = self._public.get("asks")  # pyright: ignore[reportAssignmentType] - from JSON
        if asks is not None:
            answer = await self._ask(asks)
            allowed = answer["answer"] != "no"
            reason = "" if allowed else _format_denial(answer)
            self._order["answers"] = [{"digest": asks["digest"], "allowed": allowed, "reason": reason}]
        elif result["finished"]:
            kind, text = _QUESTIONS.get(result["finished"], ("stuck", result["finished"]))
            answer = await self._ask(self._build_question(kind, text))
            self._order.update(resume=True, more=answer.get("budget"))
            return answer["answer"] != "no"
        return True

    async def _sync_with_issue(self, *, reports: bool) -> bool:
        """Report the progress, and read what people say; False if they want it to stop."""
        if self._at["accepted"] is None:
            return True
        turn = cast("int", self._public["turn"])
        if self._public["pushed"] and self._request is None:
            await self._open_pull_request()
        elif self._should_open_draft(turn):
            self._announced = turn
            await self._open_draft()
        if turn - self._looked >= POLL_INTERVAL or self._public["phase"] == "commit":
            self._looked = turn
            if not await self._poll_comments():
                return False
        if reports:
            await self._report(urgent=False)
        return True

    def _should_open_draft(self, turn: int) -> bool:
        """Return whether there is a change to be shown in a draft, and none is open yet."""
        opened, saved = self._order["opened"], self._order["saved"]
        changed = saved.get("here", saved)["commit"] != opened["base"]
        wanted = opened.get("early") and self._request is None and self._order.get("draft") != ""
        return bool(changed and wanted and (not self._announced or turn - self._announced >= POLL_INTERVAL))

    async def _open_draft(self) -> None:
        """Open a draft before the work is done. Where that fails it is tried again later: nothing waits."""
        if "draft" not in self._order:
            result = await self._execute("announce", self._order)
            if get_error(result) is None:
                self._order["draft"] = cast("JsonObject", result)["draft"]
        if self._order.get("draft"):
            await self._open_pull_request(patiently=False)

    async def _poll_comments(self) -> bool:
        found = await self._context.execute_activity(
            "news", {**self._at, "public": self._public, "seen": self._seen}
        )
        if get_error(found) is not None:
            return True  # it is asked again soon; what was written stays there
        news = cast("JsonObject", found)
        self._seen = list(news["seen"])
        self._ids += news["ids"]
        if news["text"]:
            self._add_message(news["text"])
        if news["wish"] == "pause":
            answer = await self._ask(self._build_question("paused", news["why"] or "a person has paused it"))
            return answer["answer"] != "no"
        return news["wish"] != "stop"

    def _build_question(self, kind: str, text: str) -> JsonObject:
        self._asked += 1
        digest = f"{str(self._order.get('head', 'start'))[:12]}-{self._asked}"
        return {"kind": kind, "digest": digest, "tool": "", "arguments": {}, "text": text}

    async def _ask(self, asks: JsonObject) -> JsonObject:
        """Wait for a person's answer, as long as it takes."""
        self._public["asks"] = asks
        await self._publish()
        await self._report(urgent=True, turn="pause")
        answer = await self._context.wait_for_signal(f"answer-{asks['digest']}", unless=self._stop)
        self._public = {**self._public, "asks": None, "error": None}
        if answer is None:
            raise _StoppedError
        given = cast("JsonObject", answer)
        self._apply_answer(given)
        await self._publish()
        await self._report(urgent=True, turn="go_on")
        return given

    def _apply_answer(self, answer: JsonObject) -> None:
        """Note what an answer says beside yes or no; what has answered once answers no other question."""
        self._spent += answer.get("seen") or []
        self._looked = (
            cast("int", self._public.get("turn", 0)) - POLL_INTERVAL
        )  # more may have been written meanwhile
        if answer["answer"] != "no" and answer.get("reason"):
            self._add_message(f"Who was asked said: {answer['reason']}")

    def _add_message(self, text: str) -> None:
        """Give the next step a message for the model."""
        self._order["news"] = "\n\n".join(filter(None, (self._order.get("news"), text)))

    async def _execute_until_done(self, kind: str, value: JsonObject) -> JsonObject | None:
        """Do a step until it is done; None if a person has given it up."""
        while True:
            result = await self._execute_with_retry(kind, value)
            error = get_error(result)
            if error is None:
                return cast("JsonObject", result)
            self._public["error"] = dict(error)
            helps = f"\nWhat helps: {error['hint']}" if error.get("hint") else ""
            text = f"{error['message']} ({error['code']}){helps}"
            answer = await self._ask(self._build_question("paused", text))
            if answer["answer"] == "no":
                return None

    async def _execute_with_retry(self, kind: str, value: Json) -> Json:
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
            self._public["error"] = dict(error)
            await self._publish()
            after = max(pause, cast("JsonObject", result).get("after") or 0.0)
            await self._context.wait_for_signal(_TIMER_TOPIC, after, unless=self._stop)
        return await self._execute(kind, value)

    async def _execute(self, kind: str, value: Json) -> Json:
        result = await self._context.execute_activity(kind, value, unless=self._stop)
        if is_stopped(result):
            raise _StoppedError
        return result

    async def _publish(self) -> None:
        # What a worker needs to hear answers at the forge is shown with it.
        seen = [*self._seen, *self._spent]
        heard = {**self._at, "seen": seen} if self._public.get("asks") and self._at else {}
        await self._context.publish({**self._public, **heard})

    async def _report(self, *, urgent: bool, turn: str = "") -> None:
        """Bring the comment up to date where people would see a difference. What fails is told next time."""
        turns = cast("int", self._public.get("turn", 0))
        seen = get_notify_key(self._public)
        if not self._at or self._at["accepted"] is None:
            return
        if not urgent and seen == self._told[0] and turns - self._told[1] < REPORT_INTERVAL:
            return
        told = {"public": self._public, "ids": self._ids, "urgent": urgent, "turn": turn}
        result = await self._context.execute_activity("report", {**self._at, **told})
        if get_error(result) is None and cast("JsonObject", result)["reported"]:
            self._told = seen, turns

    async def _open_pull_request(self, *, patiently: bool = True) -> None:
        step = self._execute_with_retry if patiently else self._execute
        result = await step("request", {**self._at, "public": self._public})
        if get_error(result) is None:
            self._request = self._public["request"] = result
            await self._publish()

    async def _end(self, status: str) -> Json:
        """Leave everything as people should find it, whatever the end is."""
        self._public.update(asks=None, error=None)
        await self._publish()
        if status == "stopped" and self._order["head"] != self._order["opened"]["head"]:
            left = await self._execute_until_done("salvage", self._order)
            pushed = self._public["pushed"]
            self._public.update(left or {}, pushed=pushed or (left or {}).get("pushed", False))
        self._public.update(status=status, phase="done", draft=bool(self._order.get("draft")))
        if self._at["accepted"] is not None:
            await self._close(status)
        finished = {"done": status in _SUCCESS_STATUSES, "repository": self._public["repository"]}
        await self._execute_with_retry("clean", {"start": self._start, **finished})
        await self._publish()
        kept = ("id", "status", "branch", "commit", "pushed", "request", "head")
        return {name: self._public[name] for name in kept}

    async def _close(self, status: str) -> None:
        if status == "stopped" and self._public["pushed"] and (self._request is None or self._announced):
            await self._open_pull_request()
        closed = await self._execute_until_done(
            "close", {**self._at, "public": self._public, "ids": self._ids}
        )
        if closed is not None and closed["request"] is not None:
            self._request = self._public["request"] = closed["request"]

    async def _abandon(self) -> Json:
        """End before it has begun: what little may be there is tidied up."""
        self._stop = ""
        self._public.update(asks=None, error=None, status="stopped")
        if self._start["forge"]["kind"] != "none":
            known: JsonObject = {"start": self._start, "accepted": None}
            await self._execute_until_done("close", {**known, "public": self._public, "ids": list[str]()})
        await self._execute_with_retry("clean", {"start": self._start, "done": False, "repository": ""})
        return await self._end_unstarted("stopped", None)

    async def _end_unstarted(self, status: str, error: Json) -> Json:
        self._public.update(status=status, phase="done", error=error)
        await self._publish()
        return {"id": self._start["id"], "status": status, "error": error}


def _format_denial(answer: JsonObject) -> str:
    reason = answer.get("reason")
    return f"the person said: {reason}" if reason else DEFAULT_DENIAL_REASON
