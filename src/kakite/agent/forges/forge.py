r"""The seam to a forge: what all of them are asked for, in values of ours. Knows no forge.

Every method may be repeated: what is there already is found and brought up to date, never made twice. Every
failure is a ForgeError. Times are aware and in UTC. Texts are what people wrote, with ``\n`` between lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from kakite.errors import OutsideError

if TYPE_CHECKING:
    from kakite.agent.forges.names import Names

State = Literal["waiting", "processing", "done", "paused", "stopped"]
"""What a task is in, which people see as the one state label of its issue."""

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


class ForgeError(OutsideError):
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
    """What somebody wrote below an issue. Comments that Kakite itself has put are never among them."""

    id: str
    author: str
    text: str
    created: datetime
    edited: datetime | None
    """When the text was last changed; None if never, or if the forge does not tell."""
    trusted: bool
    """Whether the author may write to the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One thing that somebody did to an issue: they changed its title or text, or set a label."""

    actor: str
    at: datetime
    trusted: bool
    """Whether who did it may write to the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue as it is now."""

    number: int
    title: str
    text: str
    author: str
    trusted: bool
    """Whether the author may write to the repository."""
    created: datetime
    revisions: tuple[Revision, ...]
    """Every change of title or text after it was created that the forge tells of, the oldest first."""
    labels: frozenset[str]
    assignees: frozenset[str]
    open: bool
    comments: tuple[Comment, ...]
    """The oldest first."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What somebody wrote below a pull request or beside its lines. Never what Kakite itself has put."""

    id: str
    author: str
    text: str
    path: str
    """The file that it is about; empty: the whole."""
    line: int | None
    """Its line in the new text, from 1."""
    created: datetime
    trusted: bool
    answered: bool = False
    """Whether a comment of Kakite's own below the request says that it has taken it up."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What git needs to reach the repository. Printing it shows no password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Where the code is. Credentials are fresh: ask again before each use, since a task outlives them."""

    address: str
    """A path or URL for git, without credentials."""
    default_branch: str
    credentials: Credentials | None


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

    async def repository(self) -> Repository:
        """Return where the code is, with credentials that are valid now."""
        ...

    async def triggers(self, names: Names) -> Sequence[Trigger]:
        """Return everything that waits now, the oldest first; at most one for each issue."""
        ...

    async def issue(self, number: int) -> Issue:
        """Return an issue with all its comments but Kakite's own."""
        ...

    async def account(self) -> str:
        """Return the name of the account that we write as."""
        ...

    async def may_write(self, actor: str) -> bool:
        """Tell whether somebody has the right to write to the repository: by it, never by their name."""
        ...

    async def mark(self, number: int, state: State, names: Names) -> None:
        """Leave the issue with exactly one of the five state labels; other labels stay."""
        ...

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address.

        The comment begins with ``marker(key)`` and is looked for among those of our own account.
        """
        ...

    async def put_remark(self, request: int, key: str, text: str) -> str:
        """Write below a pull request, like ``put_comment``."""
        ...

    async def put_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring the open pull request of this branch up to date, or make one if there is none."""
        ...

    async def requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch in any state, the newest first."""
        ...

    async def request(self, number: int) -> PullRequest:
        """Return a pull request."""
        ...

    async def remarks(self, request: int) -> Sequence[Remark]:
        """Return what was written below a pull request and beside its lines, the oldest first."""
        ...
