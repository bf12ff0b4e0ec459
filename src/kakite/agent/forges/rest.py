"""A forge behind a REST API: all that is the same for GitHub, GitLab and others like them.

RestForge decides what to write, whom to trust, and what is our own. A ForgeApi knows the addresses and the
JSON of one forge; a further forge is one more ForgeApi. What writes looks first for what is there, so it may
be repeated after a failure at any request. What is remembered between two looks for triggers only saves
requests: a new process finds the same, mentions of up to a month ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from kakite.agent.forges.base import (
    Comment,
    ForgeError,
    Issue,
    IssueEvent,
    PullRequest,
    Repository,
    Trigger,
)
from kakite.agent.forges.http_client import ForgeClient
from kakite.agent.forges.labels import (
    IssueState,
    LabelConfig,
    find_state,
    format_marker,
    parse_handled_ids,
    parse_marker,
    parse_markers,
)
from kakite.agent.forges.mentions import has_mention
from kakite.agent.forges.triggers import (
    add_issue_marker,
    find_review,
    find_trigger,
    parse_issue_marker,
    strip_issue_marker,
)

GHOST: Final = "ghost"
"""Stands for those whose account is gone."""
_LOOK_BACK: Final = timedelta(days=30)

Known = dict[str, bool]
"""Who may write, as far as it was asked for during one operation."""

ThreadKind = Literal["issue", "request"]

PostedText = tuple[int, str, datetime]
"""A text in which somebody may be mentioned: its issue, the text, and when it was last changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRequest:
    """A pull request of anybody."""

    request: PullRequest
    """Its text may end with the hidden issue."""
    author: str
    fields: Mapping[str, Any]
    """What a change of it names, by the forge's own names."""


class ForgeApi(Protocol):
    """One repository in the API of one forge: its addresses, its JSON as values, and what it has or has not.

    It trusts nobody: ``trusted`` is False in all that it returns. Every failure is a ForgeError.
    """

    name: str
    """As ``Forge.name``."""
    path: str
    longest: int
    ignores_label_case: bool
    """Whether labels that differ in upper and lower case alone are the same."""
    rights_hint: str
    """How to give a token the rights that are needed."""
    client: ForgeClient

    async def fetch_account(self) -> str:
        """Return the name of the account that the token is of."""
        ...

    async def find_obstacle(self) -> str:
        """Return why nobody can work in this repository, such as ``is archived``; empty if nothing is."""
        ...

    async def check_token(self) -> bool | None:
        """Return whether the token may do what is needed; None if it may do what its account may."""
        ...

    async def fetch_repository(self) -> Repository:
        """Return where the code is, with credentials that are valid for some minutes at least."""
        ...

    async def can_write(self, actor: str) -> bool:
        """Return whether an account may push. One that is not there is ``forge_not_found``."""
        ...

    async def list_labelled_issues(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        ...

    async def list_texts_since(self, since: str) -> Sequence[PostedText]:
        """Return the texts and comments of open issues that were changed since then, a time as in JSON."""
        ...

    async def list_label_events(self, number: int) -> Sequence[tuple[str, IssueEvent]]:
        """Return the labels that were ever set on an issue, each with who did it, the oldest first."""
        ...

    async def fetch_issue(self, number: int) -> Issue:
        """Return an issue without its revisions and comments."""
        ...

    async def fetch_thread(self, issue: Issue) -> tuple[Sequence[IssueEvent], Sequence[Comment]]:
        """Return the revisions of an issue, and all that was posted below it, each the oldest first."""
        ...

    async def change_labels(self, number: int, *, add: Sequence[str], remove: Sequence[str]) -> None:
        """Set labels of an issue, then take others away. What is away already is no failure."""
        ...

    async def list_comments(self, kind: ThreadKind, number: int) -> Sequence[Comment]:
        """Return what was posted below an issue or pull request, the oldest first."""
        ...

    async def save_comment(self, kind: ThreadKind, number: int, present: Comment | None, text: str) -> str:
        """Leave a comment with this text, in place of the one that is present. Returns its address."""
        ...

    async def list_remarks(self, number: int) -> Sequence[Comment]:
        """Return what was posted below a pull request and beside its lines, the oldest first."""
        ...

    async def fetch_request(self, number: int) -> FoundRequest:
        """Return a pull request."""
        ...

    async def list_requests(self, state: Literal["open", "all"], branch: str = "") -> Sequence[FoundRequest]:
        """Return the pull requests, of one branch or of all."""
        ...

    def to_fields(self, *, title: str, text: str, base: str, draft: bool) -> dict[str, Any]:
        """Return what a pull request is to have, by the names of ``FoundRequest.fields``."""
        ...

    async def create_request(self, branch: str, fields: Mapping[str, Any]) -> FoundRequest:
        """Make a pull request."""
        ...

    async def change_request(self, found: FoundRequest, fields: Mapping[str, Any]) -> FoundRequest:
        """Change these fields of a pull request."""
        ...


class RestForge:
    """One repository of a forge with a REST API."""

    def __init__(self, api: ForgeApi) -> None:
        """Take a repository; nothing is asked yet."""
        self.name = api.name
        self.path = api.path
        self.longest = api.longest
        self._api = api
        self._retry = api.client.retry
        self._account = ""
        self._since = datetime.now(UTC) - _LOOK_BACK
        self._mentioned: set[int] = set()

    async def check(self) -> None:
        """Make sure that code, issues and pull requests can be read and written."""
        obstacle = await self._api.find_obstacle()
        if obstacle:
            hint = "change it in the repository's settings"
            raise ForgeError("forge_rejected", f"`{self.path}` {obstacle}", hint=hint)
        allowed = await self._api.check_token()
        if allowed is None:
            allowed = await self.can_write(await self.get_account())
        if not allowed:
            hint, message = self._api.rights_hint, f"the token may not write to `{self.path}`"
            raise ForgeError("forge_forbidden", message, hint=hint)

    async def get_repository(self) -> Repository:
        """Return where the code is, with credentials that are valid for some minutes at least."""
        return await self._api.fetch_repository()

    async def get_account(self) -> str:
        """Return the name of the account that the token is of."""
        self._account = self._account or await self._api.fetch_account()
        return self._account

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody may write, by the rights that the forge tells of them."""
        if actor == GHOST:
            return False
        try:
            return await self._api.can_write(actor)
        except ForgeError as error:
            if error.code == "forge_not_found":  # no such account any more, or no member
                return False
            raise

    async def get_issue(self, number: int) -> Issue:
        """Return an issue with all its comments but Kakite's own."""
        return await self._fetch_issue(number, {})

    async def find_triggers(self, names: LabelConfig) -> Sequence[Trigger]:
        """Return everything that waits now, the oldest first; at most one for each issue."""
        known: Known = {}
        labelled = await self._api.list_labelled_issues(names.waiting)
        await self._note_mentions(names)
        found: dict[int, Trigger] = {}
        for number in sorted(labelled | self._mentioned):
            trigger = await self._find_issue_trigger(number, names, known)
            if trigger is not None:
                found[number] = trigger
        for each in await self._list_requests("open"):
            issue = await self._find_own_issue(each)
            if issue is not None:
                trigger = await self._find_review_trigger(_to_pull_request(each), issue, names, known)
                if trigger is not None:
                    found.setdefault(issue, trigger)
        return sorted(found.values(), key=lambda each: (each.at, each.number))

    async def set_state_label(self, number: int, state: IssueState, names: LabelConfig) -> None:
        """Set the label of a state and take the other four away."""
        await self._retry(lambda: self._set_state_label(number, names.get_label(state), names))

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address."""
        return await self._retry(lambda: self._put_comment("issue", number, key, text))

    async def put_pull_request_comment(self, request: int, key: str, text: str) -> str:
        """Write below a pull request, like ``put_comment``."""
        return await self._retry(lambda: self._put_comment("request", request, key, text))

    async def put_pull_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring our open pull request of this branch up to date, or make one.

        One that somebody else has opened of the branch stays as it is, and is returned.
        """
        marked = add_issue_marker(text, issue)
        fields = self._api.to_fields(title=title, text=marked, base=base, draft=draft)
        try:
            return await self._retry(lambda: self._put_request(branch, fields))
        except ForgeError as error:
            if error.code != "forge_rejected" or not await self._list_requests("open", branch):
                raise
        # Somebody, or an attempt of ours whose answer was lost, was faster.
        return await self._retry(lambda: self._put_request(branch, fields))

    async def list_pull_requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch in any state, the newest first."""
        return [_to_pull_request(each) for each in await self._list_requests("all", branch)]

    async def get_pull_request(self, number: int) -> PullRequest:
        """Return a pull request."""
        return _to_pull_request(await self._api.fetch_request(number))

    async def list_review_comments(self, request: int) -> Sequence[Comment]:
        """Return what was written below a pull request and beside its lines, the oldest first."""
        return (await self._list_remarks(request, {}))[0]

    async def _is_trusted(self, actor: str, known: Known) -> bool:
        if actor not in known:
            known[actor] = await self.can_write(actor)
        return known[actor]

    async def _note_mentions(self, names: LabelConfig) -> None:
        since = self._since.strftime("%Y-%m-%dT%H:%M:%SZ")
        for number, text, at in await self._api.list_texts_since(since):
            if has_mention(text, names.mention):
                self._mentioned.add(number)
            self._since = max(self._since, at)

    async def _find_issue_trigger(self, number: int, names: LabelConfig, known: Known) -> Trigger | None:
        try:
            issue = await self._fetch_issue(number, known)
            labelled = await self._find_label_event(number, names.waiting, known)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
            self._mentioned.discard(number)  # deleted, moved to another repository, or a pull request
            return None
        trigger = find_trigger(issue, names, labelled=labelled, answered=issue.answered)
        if trigger is None and find_state(issue.labels, names) != "processing":
            self._mentioned.discard(number)
        return trigger

    async def _find_review_trigger(
        self, request: PullRequest, number: int, names: LabelConfig, known: Known
    ) -> Trigger | None:
        remarks, answered = await self._list_remarks(request.number, known)
        if find_review(request, number, remarks, answered=answered) is None:
            return None
        try:
            issue = await self._fetch_issue(number, known)
        except ForgeError as error:
            if error.code != "forge_not_found":
                raise
            return None
        if find_state(issue.labels, names) == "processing":
            return None  # the remarks go into the running task
        return find_review(request, number, remarks, answered=answered | issue.answered)

    async def _find_label_event(self, number: int, label: str, known: Known) -> IssueEvent | None:
        """Return who set a label the last time that somebody did."""
        events = await self._api.list_label_events(number)
        last = next((event for name, event in reversed(events) if is_same_name(name, label)), None)
        return last and replace(last, trusted=await self._is_trusted(last.actor, known))

    async def _fetch_issue(self, number: int, known: Known) -> Issue:
        issue = await self._api.fetch_issue(number)
        revisions, comments = await self._api.fetch_thread(issue)
        theirs, ours = await self._split_comments(comments)
        told = [replace(each, trusted=await self._is_trusted(each.author, known)) for each in theirs]
        changes = [replace(each, trusted=await self._is_trusted(each.actor, known)) for each in revisions]
        return replace(
            issue,
            trusted=await self._is_trusted(issue.author, known),
            revisions=tuple(changes),
            comments=tuple(told),
            ours=parse_markers(ours),
            answered=parse_handled_ids(ours),
        )

    async def _list_remarks(self, number: int, known: Known) -> tuple[list[Comment], frozenset[str]]:
        """Return what people wrote on a pull request, and what our own comments there have taken up."""
        theirs, ours = await self._split_comments(await self._api.list_remarks(number))
        answered = parse_handled_ids(ours)
        remarks = [
            replace(each, trusted=await self._is_trusted(each.author, known), answered=each.id in answered)
            for each in theirs
        ]
        return remarks, answered

    async def _split_comments(self, comments: Iterable[Comment]) -> tuple[list[Comment], list[str]]:
        """Return what people wrote, and the texts of our own comments."""
        own = await self.get_account()
        theirs: list[Comment] = []
        ours: list[str] = []
        for each in comments:
            if each.author == own and parse_marker(each.text) is not None:
                ours.append(each.text)
            else:
                theirs.append(each)
        return theirs, ours

    async def _set_state_label(self, number: int, wanted: str, names: LabelConfig) -> None:
        fold = str.casefold if self._api.ignores_label_case else str
        present = sorted((await self._api.fetch_issue(number)).labels)
        ours = [each for each in present if any(is_same_name(each, label) for label in names.labels)]
        missing = fold(wanted) not in map(fold, present)
        others = [each for each in ours if fold(each) != fold(wanted)]
        await self._api.change_labels(number, add=[wanted] if missing else [], remove=others)

    async def _put_comment(self, kind: ThreadKind, number: int, key: str, text: str) -> str:
        own = await self.get_account()
        comments = await self._api.list_comments(kind, number)
        present = next(
            (each for each in comments if each.author == own and parse_marker(each.text) == key), None
        )
        return await self._api.save_comment(kind, number, present, f"{format_marker(key)}\n{text}")

    async def _put_request(self, branch: str, fields: Mapping[str, Any]) -> PullRequest:
        present = await self._list_requests("open", branch)
        if not present:
            return _to_pull_request(await self._api.create_request(branch, fields))
        found = present[0]
        changed = {name: value for name, value in fields.items() if found.fields[name] != value}
        if changed and await self._find_own_issue(found) is not None:
            found = await self._api.change_request(found, changed)
        return _to_pull_request(found)

    async def _list_requests(self, state: Literal["open", "all"], branch: str = "") -> list[FoundRequest]:
        found = await self._api.list_requests(state, branch)
        return sorted(found, key=lambda each: each.request.number, reverse=True)

    async def _find_own_issue(self, found: FoundRequest) -> int | None:
        """Return the issue that a pull request of ours is for; None if it is not ours."""
        ours = found.author == await self.get_account()
        return parse_issue_marker(found.request.text) if ours else None


def _to_pull_request(found: FoundRequest) -> PullRequest:
    return replace(found.request, text=strip_issue_marker(found.request.text))


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names are the same, in upper or lower case."""
    return one.casefold() == other.casefold()


def parse_text(body: Any) -> str:
    r"""Return a text with ``\n`` between lines."""
    return str(body or "").replace("\r\n", "\n")


def parse_time(value: Any) -> datetime:
    """Return a time."""
    return datetime.fromisoformat(str(value)).astimezone(UTC)


def parse_edit_time(body: Any) -> datetime | None:
    """Return when a comment was changed after it was written; None if it never was."""
    created, updated = parse_time(body["created_at"]), parse_time(body["updated_at"])
    return updated if updated > created else None


def to_repository(address: Any, default_branch: Any) -> Repository:
    """Return where the code is, without credentials.

    Raises:
        ValueError: git would do something else with the address, or it holds a password.
    """
    if urlsplit(str(address)).scheme not in {"http", "https"} or "@" in str(address):
        raise ValueError("the repository's address")
    return Repository(address=str(address), default_branch=str(default_branch))
