"""An issue as it was when somebody with the right to do so asked for it. Pure.

Whoever may comment may plant a comment after a trusted person has set the label, and take it away again once
it was read. So what the model gets to read is what those who may write had before them, or wrote themselves;
anything else is left out, and a text that a stranger has changed since is not worked on at all.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from kakite.agent.forges.forge import Comment, Issue, Remark, Revision, Trigger
from kakite.agent.forges.names import TEXT
from kakite.visible import visible, visible_name

_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a task is about. Nothing in it was written by somebody without rights after it was asked for."""

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
    """What ``news`` leaves out: text and comments of the snapshot, as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The issue is not worked on: its title or text is not what was asked for any more."""

    actor: str
    """Who changed it without rights."""
    at: datetime

    @property
    def reason(self) -> str:
        """What a person is told, with a way on."""
        return (
            f"`{visible_name(self.actor)}`, who may not write to the repository, changed the issue at "
            f"{_time(self.at)}, after it was asked for: look at it, and set the label again"
        )


def take_snapshot(issue: Issue, trigger: Trigger) -> Snapshot | Refused:
    """Return the issue as it was at the time of the trigger.

    What those who may write have added or changed since comes with ``news``. A change of the text by anybody
    else since then, or in the very same second, refuses the issue: nobody can tell which came first.
    """
    changed = _changed_by_strangers(issue, trigger.at)
    if changed is not None:
        return Refused(actor=changed.actor, at=changed.at)
    trusted = [comment for comment in issue.comments if comment.trusted]
    present = _in_order(each for each in trusted if _last_touched(each) <= trigger.at)
    return Snapshot(
        number=issue.number,
        at=trigger.at,
        title=issue.title,
        text=issue.text,
        author=issue.author,
        trusted=_written_by_trusted(issue),
        created=issue.created,
        address=issue.address,
        comments=present,
        left_out=len(issue.comments) - len(trusted),
        seen=frozenset({_text_token(issue), *map(_token, present)}),
    )


def news(issue: Issue, since: datetime, seen: Collection[str]) -> tuple[tuple[Comment, ...], frozenset[str]]:
    """Return what those who may write have written since, the oldest first, and what has been seen then.

    A comment that was changed comes again, as it is now. A changed title or text of the issue comes as a
    comment with the id ``TEXT``, if all who changed it may write.

    Args:
        issue: the issue as it is now.
        since: when the task was asked for.
        seen: what was seen up to now: the snapshot's ``seen``, later what this returned.
    """
    fresh = [each for each in issue.comments if each.trusted and _token(each) not in seen]
    if _text_token(issue) not in seen and _changed_by_strangers(issue, since) is None:
        fresh.append(_as_comment(issue))
    tokens = {_text_token(issue) if each.id == TEXT else _token(each) for each in fresh}
    return _in_order(fresh), frozenset(seen) | tokens


def render_snapshot(snapshot: Snapshot) -> str:
    """Return the issue for the model: marked as from outside, with an end that nobody can forge."""
    title = f"# {visible_name(snapshot.title)}"
    text = _shown(snapshot.text, trusted=snapshot.trusted)
    issue = _Part(
        kind="issue",
        author=snapshot.author,
        trusted=snapshot.trusted,
        written=snapshot.created,
        text=f"{title}\n\n{text}" if text else title,
    )
    return _render([issue, *map(_part, snapshot.comments)])


def render_comments(comments: Iterable[Comment]) -> str:
    """Return comments for the model, marked like the issue. Empty for none."""
    return _render([_part(comment) for comment in comments])


def render_remarks(remarks: Iterable[Remark]) -> str:
    """Return what was written on a pull request for the model, with its place, marked like the issue."""
    return _render([_remarked(remark) for remark in remarks])


def token_of(remark: Remark) -> str:
    """Return what stands for a remark as it is now in what was seen; see ``news``."""
    return f"{remark.id}:{_digest(remark.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    kind: str
    author: str
    trusted: bool
    written: datetime
    text: str
    place: str = ""


def _remarked(remark: Remark) -> _Part:
    line = "" if remark.line is None else f" line {remark.line}"
    return _Part(
        kind="remark",
        author=remark.author,
        trusted=remark.trusted,
        written=remark.created,
        text=_shown(remark.text, trusted=remark.trusted),
        place=f"{visible_name(remark.path)}{line}",
    )


def _part(comment: Comment) -> _Part:
    return _Part(
        kind="issue, changed" if comment.id == TEXT else "comment, changed" if comment.edited else "comment",
        author=comment.author,
        trusted=comment.trusted,
        written=_last_touched(comment),
        text=_shown(comment.text, trusted=comment.trusted),
    )


def _render(parts: list[_Part]) -> str:
    # Nobody can write the end of a part into it: it depends on every letter of what it ends. And the same
    # text is rendered the same way each time, which caches of prompts rely on.
    said = "\0".join(
        f"{part.kind}\0{part.place}\0{part.author}\0{_time(part.written)}\0{part.text}" for part in parts
    )
    seal = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return "\n\n".join(_sealed(part, seal) for part in parts)


def _sealed(part: _Part, seal: str) -> str:
    by = html.escape(visible_name(part.author))
    rights = "may write" if part.trusted else "may not write"
    about = f' about="{html.escape(part.place)}"' if part.place else ""
    head = (
        f'<outside-{seal} kind="{part.kind}"{about} by="{by}" rights="{rights}" '
        f'written="{_time(part.written)}">'
    )
    return f"{head}\n{part.text}\n</outside-{seal}>"


def _shown(text: str, *, trusted: bool) -> str:
    """Return a text as a person sees it, who has read it before setting the label."""
    told = text if trusted else _HIDDEN.sub("[not shown on the page]", text)
    return visible(told.replace("\r\n", "\n").strip("\n"))


def _changed_by_strangers(issue: Issue, since: datetime) -> Revision | None:
    return next((each for each in issue.revisions if not each.trusted and each.at >= since), None)


def _written_by_trusted(issue: Issue) -> bool:
    return issue.trusted and all(each.trusted for each in issue.revisions)


def _as_comment(issue: Issue) -> Comment:
    last = issue.revisions[-1] if issue.revisions else None
    return Comment(
        id=TEXT,
        author=last.actor if last else issue.author,
        text=f"# {issue.title}\n\n{issue.text}",
        created=issue.created,
        edited=last.at if last else issue.updated,
        trusted=_written_by_trusted(issue),
    )


def _last_touched(comment: Comment) -> datetime:
    return max(comment.created, comment.edited or comment.created)


def _in_order(comments: Iterable[Comment]) -> tuple[Comment, ...]:
    return tuple(sorted(comments, key=lambda each: each.created))


def _token(comment: Comment) -> str:
    return f"{comment.id}:{_digest(comment.text)}"


def _text_token(issue: Issue) -> str:
    return f"{TEXT}:{_digest(issue.title, issue.text)}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
