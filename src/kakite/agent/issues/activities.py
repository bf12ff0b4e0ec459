"""The activities of a task's workflow at its forge. Without a forge they do nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kakite.agent.forges.base import Forge
from kakite.agent.forges.labels import LabelConfig, find_state
from kakite.agent.git.url import RepoUrl, parse_repo_url
from kakite.agent.issues.thread import IssueThread, ThreadUpdate
from kakite.agent.issues.triage import AcceptedTask, RejectedTask, decode_trigger
from kakite.agent.run.state import RunResult, build_run_result
from kakite.agent.worker.payloads import (
    CloseOutput,
    HumanAnswer,
    PublishedQuestion,
    ReportInput,
    ReportOutput,
    TaskInput,
    ThreadInput,
    to_activity,
)
from kakite.agent.worker.snapshots import SnapshotReplicator
from kakite.agent.worker.status import ErrorView, PullRequestView, TaskStatus
from kakite.durable.blobs import BlobStore
from kakite.durable.workflow import ActivityFunction
from kakite.redaction import Redaction

MIN_REPORT_INTERVAL = 10.0  # s between two reports that nothing urgent asks for

_OUTAGE_KINDS = frozenset(("paused", "stuck"))
"""Kinds of what a task asks that failed outside; tasks of older versions ask ``stuck``."""

OpenForge = Callable[[Mapping[str, Any]], Forge]


class ForgeActivities:
    """The issue threads of this worker's tasks."""

    def __init__(
        self,
        open_forge: OpenForge,
        names: LabelConfig,
        blobs: BlobStore,
        redaction: Redaction,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_forge = open_forge
        self._clock = clock
        self._redaction = redaction
        self._names = names
        self.snapshots = SnapshotReplicator(blobs)
        """How runs are had that another machine has made."""
        self._forges: dict[str, Forge] = {}
        self._reported: dict[str, float] = {}
        self._hampered: set[str] = set()
        """Tasks of which people were told that they have no editor."""

    def get_activities(self) -> dict[str, ActivityFunction]:
        """Return those of the workflow by their names."""
        return {
            "report": to_activity(ReportInput, self.report),
            "request": to_activity(ThreadInput, self.open_pull_request),
            "news": to_activity(ThreadInput, self.fetch_updates),
            "close": to_activity(ThreadInput, self.close),
        }

    async def accept(self, start: TaskInput) -> AcceptedTask | RejectedTask | None:
        """Take the issue up; None: there is no forge.

        Raises:
            ForgeError: the forge cannot be asked.
        """
        forge = self._get_forge(start)
        if forge is None:
            return None
        thread = IssueThread(forge, self._names, start.id, redaction=self._redaction)
        since = datetime.fromisoformat(start.earlier.started) if start.earlier else None
        return await thread.accept(decode_trigger(start.trigger or {}), since=since)

    async def get_repo_url(self, start: TaskInput, repository: str) -> RepoUrl:
        """Return where the code is, with credentials that are valid now.

        Raises:
            ForgeError: the forge cannot be asked.
        """
        forge = self._get_forge(start)
        if forge is None:
            return parse_repo_url(repository)
        found = await forge.get_repository()
        if found.credentials is None:
            return RepoUrl(found.address)
        return RepoUrl(found.address, found.credentials.username, found.credentials.password)

    async def report(self, value: ReportInput) -> ReportOutput:
        """Bring the progress comment up to date: not too often, unless something is ``urgent``."""
        task = value.start.id
        soon = self._is_too_soon(task)
        thread = self._open_thread(value.start, value.accepted)
        if thread is None:
            return ReportOutput(reported=False)
        await self._report_editor_failure(thread, value)
        if soon and not value.urgent:
            return ReportOutput(reported=False)
        self._reported[task] = self._clock()
        told = {"pause": thread.pause, "go_on": thread.resume, "": thread.report}[value.turn]
        await told(value.public, value.ids)
        return ReportOutput(reported=True)

    def is_report_due(self, task: str, public: Mapping[str, object]) -> bool:
        """Return whether a report that nothing urgent asks for would do anything now: each is a step."""
        return not self._is_too_soon(task) or bool(public.get("editor") and task not in self._hampered)

    def _is_too_soon(self, task: str) -> bool:
        return self._clock() - self._reported.get(task, -math.inf) < MIN_REPORT_INTERVAL

    async def open_pull_request(self, value: ThreadInput) -> PullRequestView | None:
        """Find the pull request and bring it up to date, or open it as a draft."""
        thread = self._open_thread(value.start, value.accepted)
        if thread is None:
            return None
        outcome = await self._load_result(value)
        return await thread.open_pull_request(value.public, draft=True, outcome=outcome)

    async def fetch_updates(self, value: ThreadInput) -> ThreadUpdate:
        """Return what people have written and want since."""
        thread = self._open_thread(value.start, value.accepted)
        if thread is None:
            return ThreadUpdate(text="", seen=value.seen, ids=(), wish="go_on")
        request = value.public.get("request")
        found = await thread.fetch_updates(value.seen, request=request["number"] if request else None)
        return replace(found, answers=())

    async def fetch_answers(self, published: PublishedQuestion) -> list[HumanAnswer]:
        """Return what people have answered at the forge to what a task asks."""
        asks, request = published.asks, published.request
        thread = self._open_thread(published.start, published.accepted)
        forge = self._get_forge(published.start)
        if thread is None or forge is None:
            return []
        found = await thread.fetch_updates(
            published.seen, request=request["number"] if request else None, asks=asks
        )
        said = [
            _build_answer(each.answer, each.reason, each.by, each.budget)
            for each in found.answers
            if each.digest == asks.get("digest")
        ]
        if not said and found.wish == "stop":
            said = [_build_answer("no", found.why or "the task was stopped at the forge")]
        if not said and asks.get("kind") in _OUTAGE_KINDS and _is_unauthorized(published.error):
            said = [_build_answer("more", "the forge gives us access again")]  # as it has just shown
        if not said and asks.get("kind") != "approval":
            issue = await forge.get_issue(published.accepted.issue)
            if find_state(issue.labels, self._names) == "waiting":
                said = [_build_answer("more", "")]  # the label was set again
        known = set(published.seen)
        fresh = tuple(token for token in found.seen if token not in known)
        return [replace(each, seen=fresh) for each in said]

    async def close(self, value: ThreadInput) -> CloseOutput:
        """Report how it ended: the request ready for review, the final comment, the label."""
        self._reported.pop(value.start.id, None)
        if value.accepted is None:
            return await self._withdraw(value.start, value.public)
        thread = self._open_thread(value.start, value.accepted)
        if thread is None:
            return CloseOutput(request=None)
        await self._report_editor_failure(thread, value)
        self._hampered.discard(value.start.id)
        outcome = await self._load_result(value)
        return CloseOutput(request=await thread.close(value.public, value.ids, outcome=outcome))

    async def _withdraw(self, start: TaskInput, public: TaskStatus) -> CloseOutput:
        """Report the end of a task of which nobody knows whether it was taken up: it is, and ends at once."""
        accepted = await self.accept(start)
        if isinstance(accepted, AcceptedTask):
            thread = self._open_thread(start, accepted)
            assert thread is not None
            about: TaskStatus = {
                "title": accepted.title,
                "issue": accepted.issue,
                "branch": accepted.branch,
            }
            await thread.close({**public, **about})
        return CloseOutput(request=None)

    async def _report_editor_failure(self, thread: IssueThread, value: ThreadInput) -> None:
        """Report that a run goes on without its editor. Once; another worker finds the comment there."""
        task, editor = value.start.id, value.public.get("editor")
        if editor and task not in self._hampered:
            await thread.report_editor_failure(editor, goes_on=True)
            self._hampered.add(task)

    def _open_thread(self, start: TaskInput, accepted: AcceptedTask | None) -> IssueThread | None:
        forge = self._get_forge(start)
        if forge is None or accepted is None:
            return None
        return IssueThread(forge, self._names, start.id, accepted=accepted, redaction=self._redaction)

    async def _load_result(self, value: ThreadInput) -> RunResult:
        head = value.public.get("head", "")
        return build_run_result(await self.snapshots.load(value.start.id, head))

    def _get_forge(self, start: TaskInput) -> Forge | None:
        place = start.forge
        if place["kind"] == "none":
            return None
        key = "\0".join(_get_forge_key(place))
        if key not in self._forges:
            self._forges[key] = self._open_forge(place)
        return self._forges[key]


def _build_answer(
    answer: str, reason: str, by: str = "", budget: Mapping[str, float] | None = None
) -> HumanAnswer:
    return HumanAnswer(answer=answer, reason=reason, by=by, via="comment", budget=budget or None)


def _is_unauthorized(error: ErrorView | None) -> bool:
    return error is not None and error.get("code") == "forge_unauthorized"


def _get_forge_key(place: Mapping[str, Any]) -> Sequence[str]:
    return [str(place.get(name, "")) for name in ("kind", "path", "url")]
