"""Writes a review of a pull request to a forge: once for each commit, whatever fails meanwhile."""

from __future__ import annotations

import hashlib
import re
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
    merge_base: str = ""
    """The commit at which the branch left the other one; empty: the forge does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewComment:
    """A remark beside lines that the diff shows, all in one part of it."""

    path: str
    start: int
    """Lines of the new file, from 1."""
    end: int
    text: str
    old_path: str = ""
    """The file's path before the change; empty: the same."""
    old_line: int | None = None
    """Where the last line stands in the old file; None: it was added."""
    place: str = ""
    """The path and the line in words, for where the remark cannot stand beside it."""


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

    def format_suggestion(self, start: int, end: int, lines: Sequence[str]) -> str:
        """Return the block that the forge's page offers to apply to these lines; empty: it cannot."""
        ...

    async def create_review(self, target: ReviewTarget, text: str, remarks: Sequence[ReviewComment]) -> str:
        """Write a review of the target's head: the text last, if not all at once. Returns its address."""
        ...


def format_suggestion_block(info: str, lines: Sequence[str]) -> str:
    """Return a fenced block in which the lines stand as they are; ``info`` follows the opening fence."""
    runs = (len(run) for line in lines for run in re.findall("`+", line))
    fence = "`" * max(3, 1 + max(runs, default=0))
    return "\n".join([f"{fence}{info}", *lines, fence])


async def has_review(api: ReviewApi, target: ReviewTarget) -> bool:
    """Return whether our own account has reviewed this head."""
    return _make_key(target) in await _list_own_keys(api, target)


async def _list_own_keys(api: ReviewApi, target: ReviewTarget) -> frozenset[str]:
    own = await api.fetch_account()
    remarks = await api.list_remarks(target.request.number)
    keys = (parse_marker(each.text) for each in remarks if each.author == own)
    return frozenset(key for key in keys if key is not None)


async def put_review(
    api: ReviewApi, target: ReviewTarget, text: str, remarks: Sequence[ReviewComment]
) -> str | None:
    """Write a review, and return its address; None: this head has one of ours already.

    Each text begins with a hidden marker, so that Kakite does not take its own remarks for those of people,
    and writes none of them again where an attempt broke off.
    """
    key = _make_key(target)
    marked = {_make_remark_key(key, each): each for each in remarks}

    async def post() -> str | None:
        present = await _list_own_keys(api, target)
        if key in present:
            return None
        missing = [
            replace(each, text=f"{format_marker(name)}\n{each.text}")
            for name, each in marked.items()
            if name not in present
        ]
        return await api.create_review(target, f"{format_marker(key)}\n{text}", missing)

    return await api.client.retry(post)


def _make_key(target: ReviewTarget) -> str:
    return f"review/{target.head}"


def _make_remark_key(key: str, remark: ReviewComment) -> str:
    said = f"{remark.path}\0{remark.start}\0{remark.end}\0{remark.text}"
    return f"{key}/{hashlib.sha256(said.encode(errors='replace')).hexdigest()[:16]}"
