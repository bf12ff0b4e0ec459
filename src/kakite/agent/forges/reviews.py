"""Writes a review of a pull request to a forge: once for each commit, whatever fails meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kakite.agent.forges.base import Comment, PullRequest, Repository
from kakite.agent.forges.http_client import ForgeClient
from kakite.agent.forges.labels import format_marker, parse_marker


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTarget:
    """A pull request as it is now, with the commits that a review is about."""

    request: PullRequest
    head: str
    base: str
    """The last commit of the branch that it is to go into."""
    reference: str
    """Where git finds the head in the repository, also that of a fork."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewComment:
    """A remark beside lines that the diff shows, all in one part of it."""

    path: str
    start: int
    """Lines of the new file, from 1."""
    end: int
    text: str


class ReviewApi(Protocol):
    """What a forge's API has for reviews. Every failure is a ForgeError."""

    client: ForgeClient
    longest: int

    async def fetch_account(self) -> str:
        """Return the name of the account that the token is of."""
        ...

    async def fetch_repository(self) -> Repository:
        """Return where the code is, with credentials that are valid for some minutes at least."""
        ...

    async def fetch_review_target(self, number: int) -> ReviewTarget:
        """Return a pull request with its commits."""
        ...

    async def list_remarks(self, number: int) -> Sequence[Comment]:
        """Return what was posted below a pull request and beside its lines, the oldest first."""
        ...

    async def create_review(self, target: ReviewTarget, text: str, remarks: Sequence[ReviewComment]) -> str:
        """Write a review of the target's head, all of it or nothing. Returns its address."""
        ...


async def has_review(api: ReviewApi, target: ReviewTarget) -> bool:
    """Return whether our own account has reviewed this head."""
    own, key = await api.fetch_account(), _make_key(target)
    remarks = await api.list_remarks(target.request.number)
    return any(each.author == own and parse_marker(each.text) == key for each in remarks)


async def put_review(
    api: ReviewApi, target: ReviewTarget, text: str, remarks: Sequence[ReviewComment]
) -> str | None:
    """Write a review, and return its address; None: this head has one of ours already.

    Each text begins with a hidden marker, so that Kakite does not take its own remarks for those of people.
    """
    marker = format_marker(_make_key(target))
    marked = [replace(each, text=f"{marker}\n{each.text}") for each in remarks]

    async def post() -> str | None:
        if await has_review(api, target):
            return None
        return await api.create_review(target, f"{marker}\n{text}", marked)

    return await api.client.retry(post)


def _make_key(target: ReviewTarget) -> str:
    return f"review/{target.head}"
