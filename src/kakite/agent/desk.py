"""What is done at a forge for one task. Every method may be repeated, also after it broke off in the middle.

What must not happen twice is looked up first, by ``Forge``: comments by their keys, pull requests by their
branch, labels by what is there. Errors are ``ForgeError``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar, cast

from kakite.agent import intake, letters
from kakite.agent.forges import snapshot
from kakite.agent.forges.forge import (
    Comment,
    Forge,
    ForgeError,
    Issue,
    PullRequest,
    Remark,
    Repository,
    State,
    Trigger,
)
from kakite.agent.forges.names import TEXT, Names, Wish, answers, wish
from kakite.agent.hearing import Answered, answers_of, as_comment, why, words_of
from kakite.agent.intake import Accepted, Refused
from kakite.agent.outcome import Outcome
from kakite.agent.public import Asks, Failure, Public, PublicRequest
from kakite.host.redaction import Redaction

T = TypeVar("T")

_ROOM: Final = 300  # characters of a comment for its marker, of a description for its hidden line
_SEAL: Final = re.compile(r"\n*<!-- kakite:text/([0-9a-f]{12}) -->\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What people wrote and want since the last look. Plain, like ``Accepted``."""

    text: str
    """For the model; empty for nothing new."""
    seen: Sequence[str]
    """Hand it over with the next look."""
    ids: Sequence[str]
    """What is taken up now: say so in the next report."""
    wish: Wish
    why: str = ""
    """For ``pause`` and ``stop``."""
    answers: Sequence[Answered] = ()


class Desk:
    """One task at its forge."""

    def __init__(
        self,
        forge: Forge,
        names: Names,
        task: str,
        *,
        accepted: Accepted | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        """Take a task; nothing is asked yet.

        Args:
            forge: where the issue is.
            names: the labels and the name.
            task: its id, of ``intake.waiting``.
            accepted: what ``accept`` has returned; everything but ``accept`` needs it.
            redaction: takes secrets out of what is written.
        """
        self._forge = forge
        self._names = names
        self._task = task
        self._accepted = accepted
        self._redaction = redaction or Redaction()

    async def accept(self, trigger: Trigger) -> Accepted | Refused:
        """Take up what was asked for: the issue as it was, its branch, a first comment, the label.

        Raises:
            ForgeError: the forge cannot be asked, or will not have it.
        """
        issue = await self._forge.issue(trigger.number)
        refused = intake.objection(self._task, trigger, issue, self._names)
        if refused is not None:
            return refused
        taken = snapshot.take_snapshot(issue, trigger)
        if isinstance(taken, snapshot.Refused):
            return await self._refuse(trigger, taken.reason)
        repository = await self._repository()
        begun = await self._begin(trigger, issue, taken, repository)
        if isinstance(begun, Accepted):
            key = intake.progress_key(self._task, begun.branch)
            await self._comment(begun.issue, key, letters.progress(self._first(begun), ()))
            await self._forge.mark(begun.issue, "processing", self._names)
            self._accepted = begun
        return begun

    async def report(self, public: Public, ids: Collection[str] = ()) -> None:
        """Bring the one progress comment up to date; ``ids`` are what was taken up since it was accepted.

        Raises:
            ForgeError: as ``accept``.
        """
        key = intake.progress_key(self._task, self._own.branch)
        text = letters.progress(self._clean(public), (*self._own.ids, *ids))
        await self._comment(self._own.issue, key, text)

    async def open_request(
        self, public: Public, *, draft: bool, outcome: Outcome | None = None
    ) -> PublicRequest | None:
        """Find the pull request of the branch and bring it up to date, or make it.

        What people have changed in its title or text stays. None if people have closed or merged it.

        Raises:
            ForgeError: as ``accept``.
        """
        requests = await self._forge.requests(self._own.branch)
        present = next((each for each in requests if each.state == "open"), None)
        if requests and present is None:
            return None
        title, text = self._described(public, outcome or Outcome(), present)
        wanted = draft and (present is None or present.draft)
        put = await self._put_request(title, text, present.base if present else self._own.base, draft=wanted)
        return PublicRequest(number=put.number, address=put.address)

    async def news(
        self, seen: Collection[str], *, request: int | None = None, asks: Asks | None = None
    ) -> News:
        """Look what people wrote, what they want of the task, and what they have answered.

        Args:
            seen: what was seen up to now: of ``Accepted``, later of the last ``News``.
            request: the pull request, if there is one.
            asks: what the task asks, if it waits.

        Raises:
            ForgeError: as ``accept``.
        """
        issue = await self._unless_gone(self._forge.issue, self._own.issue)
        if issue is None:
            return News(text="", seen=tuple(seen), ids=(), wish="stop", why="the issue is gone")
        pull = await self._unless_gone(self._forge.request, request) if request else None
        remarks = await self._fresh_remarks(issue, pull, seen)
        since = datetime.fromisoformat(self._own.asked_at)
        fresh, known = snapshot.news(issue, since, seen)
        wanted, why = self._wish(issue, pull, request, asks)
        said = [*fresh, *map(as_comment, remarks)]
        return News(
            text=self._rendered(fresh, remarks),
            seen=tuple(sorted({*known, *map(snapshot.token_of, remarks)})),
            ids=tuple(intake.taken_up(fresh, remarks, self._names)),
            wish=wanted,
            why=why,
            answers=answers_of(said, self._names.mention, asks),
        )

    async def pause(self, public: Public, ids: Collection[str] = ()) -> None:
        """Tell that the task waits: for an answer, where it asks something, else for whoever paused it.

        Raises:
            ForgeError: as ``accept``.
        """
        clean = self._clean(public)
        asks = clean.get("asks")
        if asks:
            key = f"ask/{intake.suffix_of(self._task)}/{_word(asks.get('digest', ''))}"
            text = letters.question(clean, asks, mention=self._names.mention, most=self._room)
            await self._comment(self._own.issue, key, text)
        await self.report(public, ids)
        await self._forge.mark(self._own.issue, "paused", self._names)

    async def go_on(self, public: Public, ids: Collection[str] = ()) -> None:
        """Tell that the task is worked on again.

        Raises:
            ForgeError: as ``accept``.
        """
        await self._forge.mark(self._own.issue, "processing", self._names)
        await self.report(public, ids)

    async def tell_editor(self, error: Failure, *, goes_on: bool) -> None:
        """Tell that the server of the editor could not be started.

        Raises:
            ForgeError: as ``accept``.
        """
        key = f"editor/{intake.suffix_of(self._task)}"
        text = letters.without_editor(self._clean(Public(error=error)).get("error") or error, goes_on=goes_on)
        await self._comment(self._own.issue, key, text)

    async def close(
        self, public: Public, ids: Collection[str] = (), *, outcome: Outcome | None = None
    ) -> PublicRequest | None:
        """Tell how the task has ended: its pull request, answers to remarks, a last comment, its label.

        The label comes last: from then on the issue can be asked for again. Of an issue that is gone nothing
        is told. Returns the pull request.

        Raises:
            ForgeError: as ``accept``.
        """
        outcome = outcome or Outcome()
        request = public.get("request")
        if _is_done(public) and public.get("pushed"):
            request = await self.open_request(public, draft=False, outcome=outcome) or request
        told = cast("Public", {**public, "request": request})
        if await self._unless_gone(self._forge.issue, self._own.issue) is not None:
            await self._tell_end(told, ids, outcome)
        return request

    @property
    def _own(self) -> Accepted:
        if self._accepted is None:
            raise ValueError("this task was not accepted yet")
        return self._accepted

    @property
    def _room(self) -> int:
        return self._forge.longest - _ROOM

    async def _repository(self) -> Repository:
        repository = await self._forge.repository()
        if repository.credentials:
            self._redaction.learn([repository.credentials.password])
        return repository

    async def _refuse(self, trigger: Trigger, reason: str) -> Refused:
        taken = answers([trigger.comment or TEXT]) if trigger.kind != "label" else ""
        text = f"{letters.refused(reason)}\n\n{taken}".strip()
        await self._comment(trigger.number, intake.refusal_key(self._task), text)
        await self._forge.mark(trigger.number, "paused", self._names)
        return Refused(
            code="issue_changed", message=reason, hint="look at the issue, and set the label again"
        )

    async def _begin(
        self, trigger: Trigger, issue: Issue, taken: snapshot.Snapshot, repository: Repository
    ) -> Accepted | Refused:
        if trigger.request is None:
            branch, request = await intake.free_branch(self._forge, issue)
        else:
            request = await self._forge.request(trigger.request)
            branch = request.branch
        remarks = await self._fresh_remarks(issue, request, ())
        if trigger.request is not None and (not remarks or (request and request.state != "open")):
            return Refused(code="not_asked", message=f"nothing is left to do on request {trigger.request}")
        begun = intake.accepted(
            trigger,
            taken,
            self._names,
            repository=(repository.address, repository.default_branch),
            branch=branch,
            request=request,
            remarks=remarks,
        )
        account = await self._forge.account()
        return replace(begun, assignee=account if account in issue.assignees else None)

    def _first(self, begun: Accepted) -> Public:
        return Public(id=self._task, title=begun.title, issue=begun.issue, branch=begun.branch)

    async def _comment(self, number: int, key: str, text: str) -> None:
        try:
            await self._forge.put_comment(number, key, text)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
            # Somebody has deleted it while we looked at it: written anew, unless the issue is gone as well.
            await self._forge.put_comment(number, key, text)

    def _described(self, public: Public, outcome: Outcome, present: PullRequest | None) -> tuple[str, str]:
        clean = self._clean(public)
        if present is not None and not _is_as_we_wrote(present):
            return present.title, present.text
        title = letters.title(clean.get("title", "") or self._own.title)
        local = self._forge.name == "local"
        closes = not local and self._own.base == self._own.default_branch
        told = {**clean, "issue": self._own.issue}
        text = letters.description(
            cast("Public", {**told, "branch": self._own.branch}),
            self._clean_outcome(outcome),
            closes=closes,
            most=self._room,
            base=self._own.base if local else "",
        )
        return title, f"{text}\n\n<!-- kakite:text/{_seal(title, text)} -->"

    async def _put_request(self, title: str, text: str, base: str, *, draft: bool) -> PullRequest:
        put = partial(
            self._forge.put_request,
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

    async def _fresh_remarks(
        self, issue: Issue, request: PullRequest | None, seen: Collection[str]
    ) -> Sequence[Remark]:
        if request is None:
            return ()
        found = await self._forge.remarks(request.number)
        return [
            each
            for each in found
            if each.trusted
            and not each.answered
            and each.id not in issue.answered
            and snapshot.token_of(each) not in seen
        ]

    def _wish(
        self, issue: Issue, pull: PullRequest | None, request: int | None, asks: Asks | None
    ) -> tuple[Wish, str]:
        if request and (pull is None or pull.state != "open"):
            how = pull.state if pull else "gone"
            return "stop", f"the pull request {request} is {how}"
        wanted = wish(issue, self._names, assignee=self._own.assignee)
        only_paused = self._names.processing.casefold() not in map(str.casefold, issue.labels)
        if wanted == "pause" and asks and only_paused:
            return "go_on", ""  # we have set the label ourselves, since we wait
        return wanted, "" if wanted == "go_on" else why(issue, self._names, self._own.assignee)

    def _rendered(self, fresh: Iterable[Comment], remarks: Iterable[Remark]) -> str:
        name = self._names.mention
        told = [
            snapshot.render_comments(words_of(fresh, name)),
            snapshot.render_remarks(words_of(remarks, name)),
        ]
        return "\n\n".join(text for text in told if text)

    async def _tell_end(self, public: Public, ids: Collection[str], outcome: Outcome) -> None:
        clean, own, came = self._clean(public), self._own, self._clean_outcome(outcome)
        suffix = intake.suffix_of(self._task)
        if own.request is not None and _is_over(public):
            text = letters.reply(clean, came, (*own.ids, *ids), most=self._room)
            await self._unless_gone(
                lambda number: self._forge.put_remark(number, f"reply/{suffix}", text), own.request
            )
        await self.report(public, ids)
        error = public.get("error")
        how = _word(error.get("code", "") if error else public.get("status") or "")
        text = letters.ending(clean, came, label=self._names.waiting, most=self._room)
        await self._comment(own.issue, f"end/{suffix}/{how}", text)
        await self._forge.mark(own.issue, _state(public), self._names)

    async def _unless_gone(self, ask: Callable[[int], Awaitable[T]], number: int) -> T | None:
        try:
            return await ask(number)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
        await self._forge.repository()  # a token that sees nothing any more is told the same of all
        return None

    def _clean(self, public: Public) -> Public:
        """Return a task with no secret in any text of it."""
        clean = cast("Public", _without_secrets(public, self._redaction.text))
        asks = public.get("asks")
        if asks and "arguments" in asks:  # of what a tool is given, names tell secrets too
            told = self._redaction.value(asks["arguments"])
            clean["asks"] = cast("Asks", {**(clean.get("asks") or {}), "arguments": told})
        return clean

    def _clean_outcome(self, outcome: Outcome) -> Outcome:
        return Outcome(**cast("Any", _without_secrets(asdict(outcome), self._redaction.text)))


def _without_secrets(value: object, hide: Callable[[str], str]) -> object:
    match value:
        case str():
            return hide(value)
        case dict():
            items = cast("dict[str, object]", value).items()
            return {name: _without_secrets(each, hide) for name, each in items}
        case list() | tuple():
            return [_without_secrets(each, hide) for each in cast("list[object]", value)]
        case _:
            return value


def _state(public: Public) -> State:
    """Return the label at the end of a task."""
    if public.get("error"):
        return "paused"
    status = public.get("status")
    if status == "done" or (status == "no_changes" and public.get("request")):
        return "done"
    return "stopped" if status in {"stopped", "cancelled"} else "paused"


def _is_done(public: Public) -> bool:
    return public.get("status") == "done" and not public.get("error")


def _is_over(public: Public) -> bool:
    return public.get("status") in {"done", "no_changes"} and not public.get("error")


def _is_as_we_wrote(request: PullRequest) -> bool:
    """Return whether nobody has changed title or text of a pull request since we wrote them."""
    found = _SEAL.search(request.text)
    return found is not None and found[1] == _seal(request.title, request.text[: found.start()])


def _seal(title: str, text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return hashlib.sha256("\n".join([title.strip(), *lines]).encode("utf-8", "replace")).hexdigest()[:12]


def _word(text: str) -> str:
    """Return what may stand in a key."""
    return re.sub(r"[^A-Za-z0-9_.-]", "", text)[:16] or "unknown"
