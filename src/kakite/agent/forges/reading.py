"""What the files of the embedded forge say, in the values of the seam. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Literal, cast

from kakite.agent.forges.folder import Leaf
from kakite.agent.forges.forge import Comment, ForgeError, Issue, PullRequest, Remark
from kakite.agent.forges.header import line_of, members_of
from kakite.agent.forges.names import answers_in, keys_in
from kakite.agent.forges.page import Page, notes_of, own_texts, read_time, settings_of, text_of
from kakite.visible import visible_name

UNKNOWN = "unknown"
"""The author of what nobody has signed."""

_YES = frozenset(("true", "yes", "on"))
_RequestState = Literal["open", "merged", "closed"]


def issue_of(leaf: Leaf, root: Path) -> Issue:
    """Return the issue that a file holds.

    Raises:
        ForgeError: ``forge_bad_reply``, a setting is missing or makes no sense; the message names the line.
    """
    created = read_time(_setting(leaf, "created")) or leaf.changed
    return Issue(
        number=leaf.number,
        title=_required(leaf, "title"),
        text=text_of(leaf.page),
        author=_setting(leaf, "author") or UNKNOWN,
        trusted=True,
        created=created,
        revisions=(),
        labels=frozenset(members_of(leaf.settings.get("labels", []))),
        assignees=frozenset(members_of(leaf.settings.get("assignees", []))),
        open=_one_of(leaf, "state", ("open", "closed")) == "open",
        comments=comments_of(leaf, created),
        address=str(root / leaf.path),
        updated=leaf.changed,
        ours=keys_in(own_texts(leaf.page)),
        answered=answered_in(leaf),
    )


def request_of(leaf: Leaf, root: Path) -> PullRequest:
    """Return the pull request that a file holds.

    Raises:
        ForgeError: as ``issue_of``.
    """
    branch = _required(leaf, "branch")
    return PullRequest(
        number=leaf.number,
        branch=branch,
        base=_required(leaf, "base"),
        state=cast("_RequestState", _one_of(leaf, "state", ("open", "merged", "closed"))),
        draft=_setting(leaf, "draft").lower() in _YES,
        title=_setting(leaf, "title") or branch,
        text=text_of(leaf.page),
        address=str(root / leaf.path),
    )


def issue_number(leaf: Leaf) -> int:
    """Return the number of the issue that a pull request is for.

    Raises:
        ForgeError: as ``issue_of``.
    """
    told = _required(leaf, "issue").removeprefix("#")
    if not re.fullmatch(r"[0-9]{1,9}", told):
        raise broken(leaf, "issue", "`issue` is a number")
    return int(told)


def comments_of(leaf: Leaf, created: datetime) -> tuple[Comment, ...]:
    """Return what people wrote. What has no time stands at the one before it, so that the order stays."""
    comments: list[Comment] = []
    for note in notes_of(leaf.page):
        created = note.created or created
        comments.append(
            Comment(
                id=f"{leaf.path.split('/')[0]}/{leaf.number}/{note.id}",
                author=note.author or UNKNOWN,
                text=note.text,
                created=created,
                edited=None,
                trusted=True,
            )
        )
    return tuple(comments)


def remarks_of(leaf: Leaf) -> tuple[Remark, ...]:
    """Return what people wrote on a pull request, all about the whole of it."""
    answered = answered_in(leaf)
    return tuple(
        Remark(
            id=each.id,
            author=each.author,
            text=each.text,
            path="",
            line=None,
            created=each.created,
            trusted=True,
            answered=each.id in answered,
        )
        for each in comments_of(leaf, leaf.changed)
    )


def answered_in(leaf: Leaf) -> frozenset[str]:
    """Return the ids of what our comments in a file have taken up."""
    return answers_in(own_texts(leaf.page))


def labels_of(page: Page) -> list[str]:
    """Return the labels in their order."""
    return members_of(settings_of(page).get("labels", []))


def broken(leaf: Leaf, name: str, message: str) -> ForgeError:
    """Return the error for a setting that is missing or makes no sense."""
    line = line_of(leaf.page.header, name) + 2 if name in leaf.settings else 1
    return ForgeError(
        "forge_bad_reply",
        f"`{visible_name(leaf.path)}:{line}`: {message}",
        hint="the settings between the lines `---` at the top say so: mend them",
    )


def one_line(title: str) -> str:
    """Return a title that is one line."""
    return " ".join(title.encode("utf-8", "replace").decode("utf-8").split()) or "Untitled"


def _setting(leaf: Leaf, name: str) -> str:
    value = leaf.settings.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _required(leaf: Leaf, name: str) -> str:
    value = _setting(leaf, name)
    if not value:
        raise broken(leaf, name, f"`{name}` is missing, or no text")
    return value


def _one_of(leaf: Leaf, name: str, known: tuple[str, ...]) -> str:
    value = _setting(leaf, name).lower() or known[0]
    if value not in known:
        raise broken(leaf, name, f"`{name}` is one of {', '.join(known)}")
    return value
