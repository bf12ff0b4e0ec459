"""Updates the issue, comments, labels and pull request of one task at its forge.

Every method may be repeated, also after it was interrupted. What must not happen twice is looked up first:
comments by their keys, pull requests by their branch, labels on the issue. Errors are ``ForgeError``.
Commands in comments are parsed here and separated from messages to the model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar, cast

from kakite.agent.forges import issue_snapshot
from kakite.agent.forges.base import (
    Comment,
    Forge,
    ForgeError,
    Issue,
    PullRequest,
    Repository,
    Trigger,
)
from kakite.agent.forges.comment_commands import Command, parse_commands, strip_commands
from kakite.agent.forges.labels import ISSUE_TEXT_ID, IssueState, LabelConfig, find_state, format_handled_ids
from kakite.agent.forges.triggers import Control, find_requested_control
from kakite.agent.issues import comment_format, triage
from kakite.agent.issues.triage import AcceptedTask, RejectedTask
from kakite.agent.run.state import RunResult
from kakite.agent.worker.status import ErrorView, HumanInputRequest, PullRequestView, TaskStatus
from kakite.redaction import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAnswer:
    """The answer of somebody who may write. Plain, like ``AcceptedTask``."""

    digest: str
    """Of what was asked."""
    answer: str
    """``yes``, ``no`` or ``more``."""
    by: str
    reason: str = ""
    budget: dict[str, float] = field(default_factory=dict[str, float])
    """How much more of ``usd``, ``tokens``, ``seconds`` or ``calls``."""


def find_answers(
    said: Iterable[Comment], name: str, asks: HumanInputRequest | None
) -> tuple[CommandAnswer, ...]:
    """Return what those who may write have answered to what is asked now, or to a digest that they quote."""
    given = [(comment, each) for comment in said for each in parse_commands(comment.text, name)]
    return tuple(
        CommandAnswer(
            digest=digest,
            answer=command.answer,
            by=comment.author,
            reason=command.reason,
            budget={command.kind: command.amount} if command.kind else {},
        )
        for comment, command in given
        if (digest := _find_answered_digest(command, asks or HumanInputRequest()))
    )


def strip_commands_from(said: Iterable[Comment], name: str) -> list[Comment]:
    """Return what was said without the commands in it; who gave commands alone has said nothing."""
    told = [(each, strip_commands(each.text, name)) for each in said]
    return [replace(each, text=text) if text != each.text else each for each, text in told if text.strip()]


def _find_answered_digest(command: Command, asks: HumanInputRequest) -> str:
    """Return what a command answers; empty for nothing: what is said to one question answers no other."""
    asked, kind = asks.get("digest", ""), asks.get("kind", "")
    if command.digest:
        return asked if asked.startswith(command.digest) else command.digest
    fits = kind == "budget" if command.answer == "more" else kind in {"stuck", "conflict", "paused"}
    return asked if fits else ""


def explain_control(issue: Issue, names: LabelConfig, assignee: str | None) -> str:
    """Return why people want a task to pause or stop."""
    if not issue.open:
        return "the issue was closed"
    if assignee is not None and assignee not in issue.assignees:
        return f"the issue was taken from {assignee}"
    state = find_state(issue.labels, names)
    return f"the label `{names.get_label(state)}` was set" if state else "all labels were taken away"


T = TypeVar("T")

_RESERVED: Final = 300  # characters of a comment for its marker, of a description for its hidden line
_SEAL: Final = re.compile(r"\n*<!-- kakite:text/([0-9a-f]{12}) -->\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadUpdate:
    """The messages and wishes of people since the last look. Plain, like ``AcceptedTask``."""

    text: str
    """For the model; empty for nothing new."""
    seen: Sequence[str]
    """Hand it over with the next look."""
    ids: Sequence[str]
    """What is taken up now: say so in the next report."""
    wish: Control
    why: str = ""
    """For ``pause`` and ``stop``."""
    answers: Sequence[CommandAnswer] = ()


class IssueThread:
    """One task at its forge."""

    def __init__(
        self,
        forge: Forge,
        names: LabelConfig,
        task: str,
        *,
        accepted: AcceptedTask | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        """Take a task; nothing is asked yet.

        Args:
            forge: where the issue is.
            names: the labels and the name.
            task: its id, of ``triage.find_pending_tasks``.
            accepted: what ``accept`` has returned; everything but ``accept`` needs it.
            redaction: takes secrets out of what is written.
        """
        self._forge = forge
        self._names = names
        self._task = task
        self._accepted = accepted
        self._redaction = redaction or Redaction()

    async def accept(self, trigger: Trigger, *, since: datetime | None = None) -> AcceptedTask | RejectedTask:
        """Take up what was asked for: the issue as it was, its branch, a first comment, the label.

        ``since`` is when the task before was accepted, of which this one goes on with the conversation.

        Raises:
            ForgeError: the forge cannot be asked, or will not have it.
        """
        issue = await self._forge.get_issue(trigger.number)
        refused = triage.find_rejection(self._task, trigger, issue, self._names)
        if refused is not None:
            return refused
        taken = issue_snapshot.take_snapshot(issue, trigger)
        if isinstance(taken, issue_snapshot.SnapshotRejection):
            return await self._reject(trigger, taken.reason)
        repository = await self._get_repository()
        begun = await self._build_task(trigger, issue, taken, repository, since)
        if isinstance(begun, AcceptedTask):
            key = triage.make_progress_key(self._task, begun.branch)
            await self._comment(
                begun.issue, key, comment_format.format_progress(self._build_first_status(begun), ())
            )
            await self._forge.set_state_label(begun.issue, "processing", self._names)
            self._accepted = begun
        return begun

    async def report(self, public: TaskStatus, ids: Collection[str] = ()) -> None:
        """Bring the one progress comment up to date; ``ids`` are what was taken up since it was accepted.

        Raises:
            ForgeError: as ``accept``.
        """
        key = triage.make_progress_key(self._task, self._own.branch)
        text = comment_format.format_progress(self._redact(public), (*self._own.ids, *ids))
        await self._comment(self._own.issue, key, text)

    async def open_pull_request(
        self, public: TaskStatus, *, draft: bool, outcome: RunResult | None = None
    ) -> PullRequestView | None:
        """Find the pull request of the branch and bring it up to date, or make it.

        What people have changed in its title or text stays. None if people have closed or merged it.

        Raises:
            ForgeError: as ``accept``.
        """
        requests = await self._forge.list_pull_requests(self._own.branch)
        present = next((each for each in requests if each.state == "open"), None)
        if requests and present is None:
            return None
        title, text = self._describe(public, outcome or RunResult(), present)
        wanted = draft and (present is None or present.draft)
        put = await self._put_pull_request(
            title, text, present.base if present else self._own.base, draft=wanted
        )
        return PullRequestView(number=put.number, address=put.address)

    async def fetch_updates(
        self, seen: Collection[str], *, request: int | None = None, asks: HumanInputRequest | None = None
    ) -> ThreadUpdate:
        """Look what people wrote, what they want of the task, and what they have answered.

        Args:
            seen: what was seen up to now: of ``AcceptedTask``, later of the last ``ThreadUpdate``.
            request: the pull request, if there is one.
            asks: what the task asks, if it waits.

        Raises:
            ForgeError: as ``accept``.
        """
        issue = await self._call_unless_missing(self._forge.get_issue, self._own.issue)
        if issue is None:
            return ThreadUpdate(text="", seen=tuple(seen), ids=(), wish="stop", why="the issue is gone")
        pull = await self._call_unless_missing(self._forge.get_pull_request, request) if request else None
        remarks = await self._fetch_new_review_comments(issue, pull, seen)
        since = datetime.fromisoformat(self._own.asked_at)
        fresh, known = issue_snapshot.find_updates(issue, since, seen)
        wanted, why = self._find_control(issue, pull, request, asks)
        said = [*fresh, *remarks]
        return ThreadUpdate(
            text=self._render_updates(fresh, remarks),
            seen=tuple(sorted({*known, *map(issue_snapshot.make_version_token, remarks)})),
            ids=tuple(triage.collect_handled_ids(fresh, remarks, self._names)),
            wish=wanted,
            why=why,
            answers=find_answers(said, self._names.mention, asks),
        )

    async def pause(self, public: TaskStatus, ids: Collection[str] = ()) -> None:
        """Report that the task waits: for an answer, where it asks something, else for whoever paused it.

        Raises:
            ForgeError: as ``accept``.
        """
        clean = self._redact(public)
        asks = clean.get("asks")
        if asks:
            key = f"ask/{triage.get_task_suffix(self._task)}/{_sanitize_key(asks.get('digest', ''))}"
            text = comment_format.format_question(
                clean, asks, mention=self._names.mention, most=self._max_length
            )
            await self._comment(self._own.issue, key, text)
        await self.report(public, ids)
        await self._forge.set_state_label(self._own.issue, "paused", self._names)

    async def resume(self, public: TaskStatus, ids: Collection[str] = ()) -> None:
        """Report that the task is worked on again.

        Raises:
            ForgeError: as ``accept``.
        """
        await self._forge.set_state_label(self._own.issue, "processing", self._names)
        await self.report(public, ids)

    async def report_editor_failure(self, error: ErrorView, *, goes_on: bool) -> None:
        """Report that the server of the editor could not be started.

        Raises:
            ForgeError: as ``accept``.
        """
        key = f"editor/{triage.get_task_suffix(self._task)}"
        text = comment_format.format_editor_failure(
            self._redact(TaskStatus(error=error)).get("error") or error, goes_on=goes_on
        )
        await self._comment(self._own.issue, key, text)

    async def close(
        self, public: TaskStatus, ids: Collection[str] = (), *, outcome: RunResult | None = None
    ) -> PullRequestView | None:
        """Report how the task has ended: its pull request, answers to remarks, a last comment, its label.

        The label comes last: from then on the issue can be asked for again. Of an issue that is gone nothing
        is told. Returns the pull request.

        Raises:
            ForgeError: as ``accept``.
        """
        outcome = outcome or RunResult()
        request = public.get("request")
        if _is_done(public) and public.get("pushed"):
            request = await self.open_pull_request(public, draft=False, outcome=outcome) or request
        told = cast("TaskStatus", {**public, "request": request})
        if await self._call_unless_missing(self._forge.get_issue, self._own.issue) is not None:
            await self._report_end(told, ids, outcome)
        return request

    @property
    def _own(self) -> AcceptedTask:
        if self._accepted is None:
            raise ValueError("this task was not accepted yet")
        return self._accepted

    @property
    def _max_length(self) -> int:
        return self._forge.longest - _RESERVED

    async def _get_repository(self) -> Repository:
        repository = await self._forge.get_repository()
        if repository.credentials:
            self._redaction.add_secrets([repository.credentials.password])
        return repository

    async def _reject(self, trigger: Trigger, reason: str) -> RejectedTask:
        taken = format_handled_ids([trigger.comment or ISSUE_TEXT_ID]) if trigger.kind != "label" else ""
        text = f"{comment_format.format_rejection(reason)}\n\n{taken}".strip()
        await self._comment(trigger.number, triage.make_rejection_key(self._task), text)
        await self._forge.set_state_label(trigger.number, "paused", self._names)
        return RejectedTask(
            code="issue_changed", message=reason, hint="look at the issue, and set the label again"
        )

    async def _build_task(
        self,
        trigger: Trigger,
        issue: Issue,
        taken: issue_snapshot.IssueSnapshot,
        repository: Repository,
        since: datetime | None,
    ) -> AcceptedTask | RejectedTask:
        if trigger.request is None:
            branch, request = await triage.find_free_branch(self._forge, issue)
        else:
            request = await self._forge.get_pull_request(trigger.request)
            branch = request.branch
        remarks = await self._fetch_new_review_comments(issue, request, ())
        if trigger.request is not None and (not remarks or (request and request.state != "open")):
            return RejectedTask(
                code="not_asked", message=f"nothing is left to do on request {trigger.request}"
            )
        begun = triage.build_accepted_task(
            trigger,
            taken,
            self._names,
            repository=(repository.address, repository.default_branch),
            branch=branch,
            request=request,
            remarks=remarks,
        )
        account = await self._forge.get_account()
        said = triage.render_request(trigger, taken.comments, remarks, since)
        return replace(begun, assignee=account if account in issue.assignees else None, said=said)

    def _build_first_status(self, begun: AcceptedTask) -> TaskStatus:
        return TaskStatus(id=self._task, title=begun.title, issue=begun.issue, branch=begun.branch)

    async def _comment(self, number: int, key: str, text: str) -> None:
        try:
            await self._forge.put_comment(number, key, text)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
            # Somebody has deleted it while we looked at it: written anew, unless the issue is gone as well.
            await self._forge.put_comment(number, key, text)

    def _describe(
        self, public: TaskStatus, outcome: RunResult, present: PullRequest | None
    ) -> tuple[str, str]:
        clean = self._redact(public)
        if present is not None and not _is_unchanged(present):
            return present.title, present.text
        title = comment_format.format_title(clean.get("title", "") or self._own.title)
        local = self._forge.name == "local"
        closes = not local and self._own.base == self._own.default_branch
        told = {**clean, "issue": self._own.issue}
        text = comment_format.format_description(
            cast("TaskStatus", {**told, "branch": self._own.branch}),
            self._redact_result(outcome),
            closes=closes,
            most=self._max_length,
            base=self._own.base if local else "",
        )
        return title, f"{text}\n\n<!-- kakite:text/{_compute_seal(title, text)} -->"

    async def _put_pull_request(self, title: str, text: str, base: str, *, draft: bool) -> PullRequest:
        put = partial(
            self._forge.put_pull_request,
            issue=self._own.issue,
            branch=self._own.branch,
            base=base,
            title=title,
            text=text,
        )
        try:
            return await put(draft=draft)
        except ForgeError as error:
            if error.code != "forge_rejected" or not draft:
                raise
        return await put(draft=False)  # some repositories know no drafts

    async def _fetch_new_review_comments(
        self, issue: Issue, request: PullRequest | None, seen: Collection[str]
    ) -> Sequence[Comment]:
        if request is None:
            return ()
        found = await self._forge.list_review_comments(request.number)
        return [
            each
            for each in found
            if each.trusted
            and not each.answered
            and each.id not in issue.answered
            and issue_snapshot.make_version_token(each) not in seen
        ]

    def _find_control(
        self, issue: Issue, pull: PullRequest | None, request: int | None, asks: HumanInputRequest | None
    ) -> tuple[Control, str]:
        if request and (pull is None or pull.state != "open"):
            how = pull.state if pull else "gone"
            return "stop", f"the pull request {request} is {how}"
        wanted = find_requested_control(issue, self._names, assignee=self._own.assignee)
        only_paused = self._names.processing.casefold() not in map(str.casefold, issue.labels)
        if wanted == "pause" and asks and only_paused:
            return "go_on", ""  # we have set the label ourselves, since we wait
        return wanted, "" if wanted == "go_on" else explain_control(issue, self._names, self._own.assignee)

    def _render_updates(self, fresh: Iterable[Comment], remarks: Iterable[Comment]) -> str:
        name = self._names.mention
        told = [
            issue_snapshot.render_comments(strip_commands_from(fresh, name)),
            issue_snapshot.render_review_comments(strip_commands_from(remarks, name)),
        ]
        return "\n\n".join(text for text in told if text)

    async def _report_end(self, public: TaskStatus, ids: Collection[str], outcome: RunResult) -> None:
        clean, own, came = self._redact(public), self._own, self._redact_result(outcome)
        suffix = triage.get_task_suffix(self._task)
        if own.request is not None and _is_over(public):
            text = comment_format.format_reply(clean, came, (*own.ids, *ids), most=self._max_length)
            await self._call_unless_missing(
                lambda number: self._forge.put_pull_request_comment(number, f"reply/{suffix}", text),
                own.request,
            )
        await self.report(public, ids)
        error = public.get("error")
        how = _sanitize_key(error.get("code", "") if error else public.get("status") or "")
        text = comment_format.format_final_comment(
            clean, came, label=self._names.waiting, most=self._max_length
        )
        await self._comment(own.issue, f"end/{suffix}/{how}", text)
        await self._forge.set_state_label(own.issue, _find_end_state(public), self._names)

    async def _call_unless_missing(self, ask: Callable[[int], Awaitable[T]], number: int) -> T | None:
        try:
            return await ask(number)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
        await self._forge.get_repository()  # a token that sees nothing any more is told the same of all
        return None

    def _redact(self, public: TaskStatus) -> TaskStatus:
        """Return a task with no secret in any text of it."""
        clean = cast("TaskStatus", _redact_value(public, self._redaction.redact))
        asks = public.get("asks")
        if asks and "arguments" in asks:  # of what a tool is given, names tell secrets too
            told = self._redaction.redact_json(asks["arguments"])
            clean["asks"] = cast("HumanInputRequest", {**(clean.get("asks") or {}), "arguments": told})
        return clean

    def _redact_result(self, outcome: RunResult) -> RunResult:
        return RunResult(**cast("Any", _redact_value(asdict(outcome), self._redaction.redact)))


def _redact_value(value: object, hide: Callable[[str], str]) -> object:
    match value:
        case str():
            return hide(value)
        case dict():
            items = cast("dict[str, object]", value).items()
            return {name: _redact_value(each, hide) for name, each in items}
        case list() | tuple():
            return [_redact_value(each, hide) for each in cast("list[object]", value)]
        case _:
            return value


def _find_end_state(public: TaskStatus) -> IssueState:
    """Return the label at the end of a task."""
    if public.get("error"):
        return "paused"
    status = public.get("status")
    if status == "done" or (status == "no_changes" and public.get("request")):
        return "done"
    return "stopped" if status in {"stopped", "cancelled"} else "paused"


def _is_done(public: TaskStatus) -> bool:
    return public.get("status") == "done" and not public.get("error")


def _is_over(public: TaskStatus) -> bool:
    return public.get("status") in {"done", "no_changes"} and not public.get("error")


def _is_unchanged(request: PullRequest) -> bool:
    """Return whether nobody has changed title or text of a pull request since we wrote them."""
    found = _SEAL.search(request.text)
    return found is not None and found[1] == _compute_seal(request.title, request.text[: found.start()])


def _compute_seal(title: str, text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return hashlib.sha256("\n".join([title.strip(), *lines]).encode("utf-8", "replace")).hexdigest()[:12]


def _sanitize_key(text: str) -> str:
    """Return what may stand in a key."""
    return re.sub(r"[^A-Za-z0-9_.-]", "", text)[:16] or "unknown"
