"""Looking for what waits: labels, mentions and reviews, told apart by one rule for all forges that are asked.

What this process remembers only saves questions. Whatever waits is found without it too, mentions back to a
month ago.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from kakite.agent.forges.forge import ForgeError, Issue, PullRequest, Remark, Revision, Trigger
from kakite.agent.forges.mentions import mentions
from kakite.agent.forges.names import Names, find_review, find_trigger, key_of, marker, state_of

_LOOK_BACK: Final = timedelta(days=30)
_ISSUE: Final = "issue/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A text in which somebody may be called."""

    number: int
    text: str
    at: datetime
    """When it was last changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """An issue, and the ids of what our own comments below it have taken up."""

    issue: Issue
    answered: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """An open pull request of ours, the issue that it is for, and what was written on it."""

    request: PullRequest
    issue: int
    remarks: Sequence[Remark]
    answered: frozenset[str]


class Trust:
    """Who may write, asked once for each person while one thing is done, and never remembered longer."""

    def __init__(self, may_write: Callable[[str], Awaitable[bool]]) -> None:
        self._may_write = may_write
        self._known: dict[str, bool] = {}

    async def of(self, actor: str) -> bool:
        """Tell whether somebody may write."""
        if actor not in self._known:
            self._known[actor] = await self._may_write(actor)
        return self._known[actor]


class Source(Protocol):
    """What a forge is asked for by polling."""

    async def labelled(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        ...

    async def written_since(self, since: datetime) -> Sequence[Written]:
        """Return the texts and comments of issues that were written or changed since."""
        ...

    async def thread(self, number: int, trust: Trust) -> Thread:
        """Return an issue."""
        ...

    async def set_label(self, number: int, label: str, trust: Trust) -> Revision | None:
        """Return who set a label the last time that somebody did."""
        ...

    async def reviews(self, trust: Trust) -> Sequence[Review]:
        """Return all open pull requests of ours."""
        ...

    async def may_write(self, actor: str) -> bool:
        """Tell whether somebody may write."""
        ...


class Poll:
    """Looks for what waits, again and again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._since = datetime.now(UTC) - _LOOK_BACK
        self._mentioned: set[int] = set()

    async def triggers(self, names: Names) -> list[Trigger]:
        """Return everything that waits now, the oldest first; at most one for each issue.

        Raises:
            ForgeError: the forge cannot be asked.
        """
        trust = Trust(self._source.may_write)
        labelled = await self._source.labelled(names.waiting)
        await self._note_mentions(names)
        found: dict[int, Trigger] = {}
        for number in sorted(labelled | self._mentioned):
            trigger = await self._trigger_of(number, names, trust)
            if trigger is not None:
                found[number] = trigger
        for review in await self._source.reviews(trust):
            trigger = await self._review_of(review, names, trust)
            if trigger is not None:
                found.setdefault(review.issue, trigger)
        return sorted(found.values(), key=lambda each: (each.at, each.number))

    async def _note_mentions(self, names: Names) -> None:
        for written in await self._source.written_since(self._since):
            if mentions(written.text, names.mention):
                self._mentioned.add(written.number)
            self._since = max(self._since, written.at)

    async def _trigger_of(self, number: int, names: Names, trust: Trust) -> Trigger | None:
        try:
            thread = await self._source.thread(number, trust)
            asked = await self._source.set_label(number, names.waiting, trust)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
            self._mentioned.discard(number)  # deleted, moved to another repository, or a pull request
            return None
        trigger = find_trigger(thread.issue, names, labelled=asked, answered=thread.answered)
        if trigger is None and state_of(thread.issue.labels, names) != "processing":
            self._mentioned.discard(number)
        return trigger

    async def _review_of(self, review: Review, names: Names, trust: Trust) -> Trigger | None:
        if find_review(review.request, review.issue, review.remarks, answered=review.answered) is None:
            return None
        try:
            thread = await self._source.thread(review.issue, trust)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
            return None
        if state_of(thread.issue.labels, names) == "processing":
            return None  # the remarks go into the running task
        answered = review.answered | thread.answered
        return find_review(review.request, review.issue, review.remarks, answered=answered)


def with_issue(text: str, issue: int) -> str:
    """Return the text of a pull request of ours: with the issue that it is for, hidden from people."""
    return f"{text}\n\n{marker(f'{_ISSUE}{issue}')}"


def without_issue(text: str) -> str:
    """Return the text as it was before ``with_issue``."""
    head, _, last = text.rpartition("\n\n")
    return head if _number(last) is not None else text


def issue_of(text: str) -> int | None:
    """Return the issue that a pull request of ours is for; None if it is none of ours."""
    return _number(text.rpartition("\n\n")[2])


def _number(line: str) -> int | None:
    key = key_of(line.strip()) or ""
    number = key.removeprefix(_ISSUE)
    return int(number) if key.startswith(_ISSUE) and number.isdecimal() else None
