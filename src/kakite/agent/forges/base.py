r"""The interface of a forge and the values that it uses. Knows no particular forge.

Every method may be repeated: what exists already is found and updated, never made twice. Every failure is
a ForgeError. Times are aware and in UTC. Texts are what people wrote, with ``\n`` between lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from kakite.errors import ExternalError

if TYPE_CHECKING:
    from kakite.agent.forges.labels import IssueState, LabelConfig

ForgeCode = Literal[
    "forge_unauthorized",
    "forge_forbidden",
    "forge_not_found",
    "forge_rejected",
    "forge_rate_limited",
    "forge_unavailable",
    "forge_bad_reply",
    "forge_conflict",
]


class ForgeError(ExternalError):
    """A forge did not do what it was asked.

    Codes: ``forge_unauthorized`` (no or an expired token), ``forge_forbidden`` (not with this token),
    ``forge_not_found``, ``forge_rejected`` (it makes no sense to the forge: 422), ``forge_rate_limited``,
    ``forge_unavailable`` (5xx, network, a full disk), ``forge_bad_reply`` (what it said is not what we know),
    ``forge_conflict`` (somebody else changed it meanwhile, and again).
    """

    code = "forge_unavailable"

    def __init__(
        self, code: ForgeCode, message: str, *, hint: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.retry_after = retry_after
        """Seconds until it makes sense to ask again, where the forge told."""

    @property
    def retryable(self) -> bool:
        """Whether the same may go well later without anybody doing anything."""
        return self.code in {"forge_rate_limited", "forge_unavailable", "forge_conflict"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment below an issue or a pull request, or beside a line of it."""

    id: str
    author: str
    text: str
    created: datetime
    edited: datetime | None = None
    """When the text was last changed; None if never, or if the forge does not tell."""
    path: str = ""
    """The file that it is about; empty: the whole."""
    line: int | None = None
    """Its line in the new text, from 1."""
    address: str = ""
    """Where a person reads it; empty if the forge does not tell."""
    trusted: bool = False
    """Whether the author may write to the repository."""
    answered: bool = False
    """Of a pull request: whether a comment of Kakite's own below it says that it has taken this one up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueEvent:
    """One thing that somebody did to an issue: they changed its title or text, or set a label."""

    actor: str
    at: datetime
    trusted: bool = False
    """Whether who did it may write to the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue as it is now."""

    number: int
    title: str
    text: str
    author: str
    trusted: bool = False
    """Whether the author may write to the repository."""
    created: datetime
    revisions: tuple[IssueEvent, ...] = ()
    """Every change of title or text after it was created that the forge tells of, the oldest first."""
    labels: frozenset[str]
    assignees: frozenset[str]
    open: bool
    comments: tuple[Comment, ...] = ()
    """The oldest first, without those that Kakite itself has put."""
    address: str
    """Where a person reads it."""
    updated: datetime
    ours: tuple[str, ...] = ()
    """The keys of Kakite's own comments below it, the oldest first."""
    answered: frozenset[str] = frozenset()
    """The ids that those comments say they have taken up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Somebody who may write wants something done. The rights of the actor have been checked."""

    number: int
    """The issue. Of a review: the issue that the pull request is for, else the request's own number."""
    kind: Literal["label", "mention", "review"]
    actor: str
    at: datetime
    """When the label was set; when the mention, or the first review remark nobody answered, was written."""
    request: int | None = None
    """The pull request, of a review."""
    comment: str | None = None
    """The id of the comment or remark that did it; None for a label, or a mention in the issue's text."""
    asked: str = ""
    """Tells a label from the ones before it where its time is not known: the same until it is taken up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request, or merge request."""

    number: int
    branch: str
    base: str
    state: Literal["open", "merged", "closed"]
    draft: bool
    title: str
    text: str
    address: str


@dataclass(frozen=True, slots=True)
class GitCredentials:
    """The credentials with which git reaches the repository. Printing it shows no password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The address of the code. Credentials are fresh: get it again before each use, as tasks outlive them."""

    address: str
    """A path or URL for git, without credentials."""
    default_branch: str
    credentials: GitCredentials | None = None


class Forge(Protocol):
    """One repository of one forge, with its issues and pull requests."""

    name: str
    """``github``, ``gitlab`` or ``local``."""
    path: str
    """Which repository: ``owner/name``; of a folder, where it lies."""
    longest: int
    """Characters that a comment or a description may have."""

    async def check(self) -> None:
        """Make sure that everything below may be done, before a token of a model is spent."""
        ...

    async def get_repository(self) -> Repository:
        """Return where the code is, with credentials that are valid now."""
        ...

    async def find_triggers(self, names: LabelConfig) -> Sequence[Trigger]:
        """Return everything that waits now, the oldest first; at most one for each issue."""
        ...

    async def get_issue(self, number: int) -> Issue:
        """Return an issue with all its comments but Kakite's own."""
        ...

    async def get_account(self) -> str:
        """Return the name of the account that we write as."""
        ...

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody has the right to write to the repository: by it, never by their name."""
        ...

    async def set_state_label(self, number: int, state: IssueState, names: LabelConfig) -> None:
        """Leave the issue with exactly one of the five state labels; other labels stay."""
        ...

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address.

        The comment begins with ``format_marker(key)`` and is looked for among those of our own account.
        """
        ...

    async def put_pull_request_comment(self, request: int, key: str, text: str) -> str:
        """Write below a pull request, like ``put_comment``."""
        ...

    async def put_pull_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring the open pull request of this branch up to date, or make one if there is none."""
        ...

    async def list_pull_requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch in any state, the newest first."""
        ...

    async def get_pull_request(self, number: int) -> PullRequest:
        """Return a pull request."""
        ...

    async def list_review_comments(self, request: int) -> Sequence[Comment]:
        """Return what was written below a pull request and beside its lines, the oldest first.

        Comments that Kakite itself has put are not among it.
        """
        ...
