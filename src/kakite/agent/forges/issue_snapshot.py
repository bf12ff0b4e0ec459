"""Takes a snapshot of an issue as it was when somebody with write access asked for it. Pure.

Anybody who may comment could add a comment after a trusted person has set the label, and delete it once it
was read. So the model reads only what people with write access had seen, or wrote themselves. Anything
else is left out, and a text that a stranger has changed since is not worked on at all.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from kakite.agent.forges.base import Comment, Issue, IssueEvent, Trigger
from kakite.agent.forges.labels import ISSUE_TEXT_ID
from kakite.terminal_text import escape_control, escape_one_line

_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueSnapshot:
    """The issue that a task is about. Nobody without rights wrote any of it after the request."""

    number: int
    at: datetime
    """When it was asked for."""
    title: str
    text: str
    author: str
    trusted: bool
    """Whether all who wrote title and text may write to the repository."""
    created: datetime
    address: str
    comments: tuple[Comment, ...]
    """The oldest first."""
    left_out: int
    """How many comments are left out since those who wrote them may not write to the repository."""
    seen: frozenset[str]
    """What ``find_updates`` leaves out: text and comments of the snapshot, as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRejection:
    """The issue is not worked on: its title or text is not what was asked for any more."""

    actor: str
    """Who changed it without rights."""
    at: datetime

    @property
    def reason(self) -> str:
        """The message for a person, with a next step."""
        return (
            f"`{escape_one_line(self.actor)}`, who may not write to the repository, changed the issue at "
            f"{_format_time(self.at)}, after it was asked for: look at it, and set the label again"
        )


def take_snapshot(issue: Issue, trigger: Trigger) -> IssueSnapshot | SnapshotRejection:
    """Return the issue as it was at the time of the trigger.

    What those who may write have added or changed since comes with ``find_updates``. A change of the text by
    anybody else since then, or in the very same second, refuses the issue: nobody can tell which came first.
    """
    changed = _find_untrusted_change(issue, trigger.at)
    if changed is not None:
        return SnapshotRejection(actor=changed.actor, at=changed.at)
    trusted = [comment for comment in issue.comments if comment.trusted]
    present = _sort_by_time(each for each in trusted if _get_last_change(each) <= trigger.at)
    return IssueSnapshot(
        number=issue.number,
        at=trigger.at,
        title=issue.title,
        text=issue.text,
        author=issue.author,
        trusted=_is_trusted(issue),
        created=issue.created,
        address=issue.address,
        comments=present,
        left_out=len(issue.comments) - len(trusted),
        seen=frozenset({_make_text_token(issue), *map(make_version_token, present)}),
    )


def find_updates(
    issue: Issue, since: datetime, seen: Collection[str]
) -> tuple[tuple[Comment, ...], frozenset[str]]:
    """Return what those who may write have written since, the oldest first, and what has been seen then.

    A comment that was changed comes again, as it is now. A changed title or text of the issue comes as a
    comment with the id ``ISSUE_TEXT_ID``, if all who changed it may write.

    Args:
        issue: the issue as it is now.
        since: when the task was asked for.
        seen: what was seen up to now: the snapshot's ``seen``, later what this returned.
    """
    fresh = [each for each in issue.comments if each.trusted and make_version_token(each) not in seen]
    if _make_text_token(issue) not in seen and _find_untrusted_change(issue, since) is None:
        fresh.append(_as_comment(issue))
    tokens = {
        _make_text_token(issue) if each.id == ISSUE_TEXT_ID else make_version_token(each) for each in fresh
    }
    return _sort_by_time(fresh), frozenset(seen) | tokens


def render_snapshot(snapshot: IssueSnapshot) -> str:
    """Return the issue for the model: marked as from outside, with an end that nobody can forge."""
    title = f"# {escape_one_line(snapshot.title)}"
    text = _sanitize_text(snapshot.text, trusted=snapshot.trusted)
    issue = _RenderedPart(
        kind="issue",
        author=snapshot.author,
        trusted=snapshot.trusted,
        written=snapshot.created,
        text=f"{title}\n\n{text}" if text else title,
    )
    return _render([issue, *map(_build_comment_part, snapshot.comments)])


def render_comments(comments: Iterable[Comment]) -> str:
    """Return comments for the model, marked like the issue. Empty for none."""
    return _render([_build_comment_part(comment) for comment in comments])


def render_review_comments(remarks: Iterable[Comment]) -> str:
    """Return what was written on a pull request for the model, with its place, marked like the issue."""
    return _render([_build_review_part(remark) for remark in remarks])


def make_version_token(comment: Comment) -> str:
    """Return what stands for a comment as it is now in what was seen; see ``find_updates``."""
    return f"{comment.id}:{_digest(comment.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RenderedPart:
    kind: str
    author: str
    trusted: bool
    written: datetime
    text: str
    place: str = ""


def _build_review_part(remark: Comment) -> _RenderedPart:
    line = "" if remark.line is None else f" line {remark.line}"
    return _RenderedPart(
        kind="remark",
        author=remark.author,
        trusted=remark.trusted,
        written=remark.created,
        text=_sanitize_text(remark.text, trusted=remark.trusted),
        place=f"{escape_one_line(remark.path)}{line}",
    )


def _build_comment_part(comment: Comment) -> _RenderedPart:
    return _RenderedPart(
        kind="issue, changed"
        if comment.id == ISSUE_TEXT_ID
        else "comment, changed"
        if comment.edited
        else "comment",
        author=comment.author,
        trusted=comment.trusted,
        written=_get_last_change(comment),
        text=_sanitize_text(comment.text, trusted=comment.trusted),
    )


def _render(parts: list[_RenderedPart]) -> str:
    # Nobody can write the end of a part into it: it depends on every letter of what it ends. And the same
    # text is rendered the same way each time, which caches of prompts rely on.
    said = "\0".join(
        f"{part.kind}\0{part.place}\0{part.author}\0{_format_time(part.written)}\0{part.text}"
        for part in parts
    )
    seal = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return "\n\n".join(_wrap_part(part, seal) for part in parts)


def _wrap_part(part: _RenderedPart, seal: str) -> str:
    by = html.escape(escape_one_line(part.author))
    rights = "may write" if part.trusted else "may not write"
    about = f' about="{html.escape(part.place)}"' if part.place else ""
    head = (
        f'<outside-{seal} kind="{part.kind}"{about} by="{by}" rights="{rights}" '
        f'written="{_format_time(part.written)}">'
    )
    return f"{head}\n{part.text}\n</outside-{seal}>"


def _sanitize_text(text: str, *, trusted: bool) -> str:
    """Return a text as a person sees it, who has read it before setting the label."""
    told = text if trusted else _HIDDEN.sub("[not shown on the page]", text)
    return escape_control(told.replace("\r\n", "\n").strip("\n"))


def _find_untrusted_change(issue: Issue, since: datetime) -> IssueEvent | None:
    return next((each for each in issue.revisions if not each.trusted and each.at >= since), None)


def _is_trusted(issue: Issue) -> bool:
    return issue.trusted and all(each.trusted for each in issue.revisions)


def _as_comment(issue: Issue) -> Comment:
    last = issue.revisions[-1] if issue.revisions else None
    return Comment(
        id=ISSUE_TEXT_ID,
        author=last.actor if last else issue.author,
        text=f"# {issue.title}\n\n{issue.text}",
        created=issue.created,
        edited=last.at if last else issue.updated,
        trusted=_is_trusted(issue),
    )


def _get_last_change(comment: Comment) -> datetime:
    return max(comment.created, comment.edited or comment.created)


def _sort_by_time(comments: Iterable[Comment]) -> tuple[Comment, ...]:
    return tuple(sorted(comments, key=lambda each: each.created))


def _make_text_token(issue: Issue) -> str:
    return f"{ISSUE_TEXT_ID}:{_digest(issue.title, issue.text)}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
