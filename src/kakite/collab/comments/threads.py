"""Keeps the comments on a document: threads, each on a passage of the text.

A comment is never in the text. Its thread follows the passage through all changes; where the passage was
removed, the thread stays with the words that it was about, and finds them again when an undo brings them
back.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from kakite.collab.shared_text import TrackedRange, find_again
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from kakite.collab.shared_text import SharedText
    from kakite.edit import ChangeSet

MAX_TEXT: Final = 5_000
"""Characters of a comment."""
MAX_PASSAGE: Final = 2_000
"""Characters of a passage that can be commented on."""
MAX_THREADS: Final = 500
"""Threads of a page."""
MAX_COMMENTS: Final = 200
"""Comments of a thread."""
MAX_TOTAL: Final = 2_000_000
"""Characters of all comments of a page. They are stored, and sent to everybody, as a whole."""


class CommentError(KakiteError):
    """A comment cannot be had or kept. Nothing was changed.

    Codes: ``no_such_thread``, ``no_such_comment``, ``not_allowed`` (it is somebody else's),
    ``too_many_comments``, ``changed`` (the passage does not read so any more), ``ambiguous`` (it stands in
    several places).
    """

    code = "no_such_thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadComment:
    """What somebody said about a passage."""

    id: str
    by: str
    text: str
    time: float
    """Seconds since 1970."""
    run: str = ""
    """The assistant's run that it is the answer of; empty for people's."""
    status: str = "done"
    """How that run ended, as a turn of the conversation."""
    edited: float = 0
    """When its author wrote it anew, in seconds since 1970; 0 if it is as it was."""
    named: bool = False
    """Whether its author signed in by that name; others call themselves what they want."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentThread:
    """The comments on one passage, the oldest first. A value."""

    id: str
    span: TrackedRange
    """Where the passage is, in code points; empty once it was removed."""
    quote: str
    """What it read when the thread was begun."""
    words: str
    """What it reads, or read before it was removed."""
    comments: tuple[ThreadComment, ...]
    resolved_by: str = ""
    """Who resolved it; empty as long as it is open."""

    @property
    def is_detached(self) -> bool:
        """Whether its passage was removed."""
        return self.span.start == self.span.end


class CommentThreads:
    """All threads of one page."""

    def __init__(self, text: SharedText) -> None:
        self.text = text
        self.version = ""
        """Another one whenever a comment comes or goes, or a passage does; not while passages only move."""
        self.changed: Callable[[], None] = lambda: None
        """Called then."""
        self.answering: Counter[str] = Counter()
        """How many answers of the assistant are under way, by thread."""
        self._threads: dict[str, CommentThread] = {}
        self._renew_version()
        self._stop = text.observe(self._follow)

    def close(self) -> None:
        """Follow the text no longer."""
        self._stop()

    def find_passage(self, span: TrackedRange, words: str) -> TrackedRange:
        """Return where a passage is that somebody saw at ``span``: there, or at the only place that reads so.

        Raises:
            CommentError: ``changed``: it is not to be found.
        """
        now = str(self.text)
        if words and span.extract(now) == words:
            return span
        at = now.find(words) if words else -1
        if at < 0 or now.find(words, at + 1) >= 0:
            raise CommentError(
                "the passage was changed meanwhile", hint="select it again, then comment", code="changed"
            )
        return TrackedRange(at, at + len(words))

    def find_only_passage(self, words: str) -> TrackedRange:
        """Return where these words stand, which is one place only.

        Raises:
            CommentError: ``changed``: nowhere; ``ambiguous``: in several places.
        """
        now = str(self.text)
        at = now.find(words)
        if at < 0:
            raise CommentError(
                "these words do not stand in the page", hint="view the page again", code="changed"
            )
        if now.find(words, at + 1) >= 0:
            raise CommentError(
                "these words stand in several places", hint="name more of the words around", code="ambiguous"
            )
        return TrackedRange(at, at + len(words))

    def begin(self, span: TrackedRange, text: str, *, by: str, named: bool = False) -> CommentThread:
        """Comment on a passage that is not empty.

        Raises:
            CommentError: ``too_many_comments``.
        """
        if len(self._threads) >= MAX_THREADS:
            raise _create_limit_error("page", "remove threads that are resolved")
        self._check_total(text)
        words = span.extract(str(self.text))
        comment = _create_comment(text, by, named=named)
        thread = CommentThread(
            id=secrets.token_hex(4), span=span, quote=words, words=words, comments=(comment,)
        )
        return self._put(thread)

    def reply(
        self,
        id: str,  # noqa: A002 - the name that everybody knows it by
        text: str,
        *,
        by: str,
        named: bool = False,
        run: str = "",
        status: str = "done",
    ) -> CommentThread:
        """Add a comment to a thread. One that was resolved is open again when a person does.

        Raises:
            CommentError: there is no such thread, or it is too long.
        """
        thread = self.get(id)
        self.check_room(thread)
        self._check_total(text)
        comment = replace(_create_comment(text, by, named=named), run=run, status=status)
        resolved = thread.resolved_by if run else ""
        return self._put(replace(thread, comments=(*thread.comments, comment), resolved_by=resolved))

    def edit(self, id: str, comment: str, text: str, *, by: str, named: bool = False) -> CommentThread:  # noqa: A002
        """Let the author of a comment write it anew.

        Raises:
            CommentError: there is no such thread or comment, it is somebody else's, or it is too long.
        """
        thread = self.get(id)
        found = next((each for each in thread.comments if each.id == comment), None)
        if found is None:
            raise CommentError(
                f"there is no comment `{comment}`",
                hint="ask for the list of comments",
                code="no_such_comment",
            )
        if found.run or (found.by, found.named) != (by, named):
            raise CommentError("only its author can edit a comment", hint="reply to it", code="not_allowed")
        self._check_total(text)
        edited = replace(found, text=text, edited=time.time())
        comments = tuple(edited if each.id == comment else each for each in thread.comments)
        return self._put(replace(thread, comments=comments))

    def resolve(self, id: str, *, by: str) -> CommentThread:  # noqa: A002
        """Resolve a thread: its passage is marked no more.

        Raises:
            CommentError: there is no such thread.
        """
        return self._put(replace(self.get(id), resolved_by=by or "?"))

    def reopen(self, id: str) -> CommentThread:  # noqa: A002
        """Open a thread again.

        Raises:
            CommentError: there is no such thread.
        """
        return self._put(replace(self.get(id), resolved_by=""))

    def remove(self, id: str) -> None:  # noqa: A002
        """Remove a thread with all its comments.

        Raises:
            CommentError: there is no such thread.
        """
        del self._threads[self.get(id).id]
        self._tell()

    def get(self, id: str) -> CommentThread:  # noqa: A002
        """Return one.

        Raises:
            CommentError: there is none, or none any more.
        """
        if found := self._threads.get(id):
            return found
        raise CommentError(f"there is no thread `{id}`", hint="ask for the list of comments")

    def list_threads(self) -> list[CommentThread]:
        """Return all, in the order of the text; in one place the oldest first."""
        return sorted(self._threads.values(), key=lambda each: (each.span.start, each.comments[0].time))

    def check_room(self, thread: CommentThread) -> None:
        """Raise unless one more comment fits into a thread.

        Raises:
            CommentError: ``too_many_comments``.
        """
        if len(thread.comments) >= MAX_COMMENTS:
            raise _create_limit_error("thread", "begin another one")

    def note_answering(self, id: str, more: int) -> None:  # noqa: A002
        """Note that so many more answers of the assistant are under way in a thread, or fewer."""
        self.answering[id] += more
        self._tell()

    def to_client_json(self, thread: CommentThread) -> dict[str, Any]:
        """Return a thread as clients see it; ``range`` is in UTF-16 units of the present text."""
        span = thread.span
        return {
            "id": thread.id,
            "quote": thread.quote,
            "words": thread.words,
            "range": {"start": self.text.to_utf16(span.start), "end": self.text.to_utf16(span.end)},
            "line": str(self.text).count("\n", 0, span.start) + 1,
            "detached": thread.is_detached,
            "resolved_by": thread.resolved_by,
            "answering": self.answering[thread.id] > 0,
            "comments": [asdict(each) for each in thread.comments],
        }

    def to_json(self) -> dict[str, Any]:
        """Return everything, to be stored."""
        return {
            "text": self.text.version,
            "threads": [asdict(thread) for thread in self._threads.values()],
        }

    @classmethod
    def from_json(cls, text: SharedText, data: Mapping[str, Any]) -> CommentThreads:
        """Go on with what was stored; threads that cannot be read are left out.

        Where the text was changed since, a thread is where its words stand, if that is one place only.
        """
        self = cls(text)
        now = str(text)
        is_same = data.get("text") == text.version
        for stored in cast("list[Mapping[str, Any]]", data.get("threads", [])):
            try:
                thread = _decode_thread(stored)
            except (KeyError, TypeError):
                continue
            self._threads[thread.id] = thread if is_same else _relocate(thread, now)
        return self

    def _check_total(self, text: str) -> None:
        total = sum(len(each.text) for thread in self._threads.values() for each in thread.comments)
        if total + len(text) > MAX_TOTAL:
            raise _create_limit_error("page", "remove threads that are resolved")

    def _put(self, thread: CommentThread) -> CommentThread:
        self._threads[thread.id] = thread
        self._tell()
        return thread

    def _tell(self) -> None:
        self._renew_version()
        self.changed()

    def _renew_version(self) -> None:
        self.version = secrets.token_hex(6)

    def _follow(self, changes: ChangeSet, _origin: object) -> None:
        if not self._threads:
            return
        now = str(self.text)
        is_news = False
        for id_, thread in self._threads.items():
            moved = _move_thread(thread, changes, now)
            is_news = is_news or moved.is_detached != thread.is_detached
            self._threads[id_] = moved
        if is_news:
            self._tell()


def _move_thread(thread: CommentThread, changes: ChangeSet, now: str) -> CommentThread:
    """Return a thread as it is after a change of the text."""
    span = thread.span.map_through(changes)
    if span.extract(now) != thread.quote:
        span = _recover(thread, span, changes, now)
    return replace(thread, span=span, words=span.extract(now) or thread.words)


def _recover(thread: CommentThread, span: TrackedRange, changes: ChangeSet, now: str) -> TrackedRange:
    """Return where a passage is of which a change may have brought back what had been removed.

    It comes back at once, or piece by piece: so the words are looked for around what is left of it, with
    something of what the change inserts.
    """
    come = _list_insertions(changes)
    for words in dict.fromkeys((thread.quote, thread.words)):
        last = span.end + len(words)
        at = now.find(words, max(0, span.start - len(words)), last)
        while at >= 0:
            found = TrackedRange(at, at + len(words))
            covers = found.start <= span.start and span.end <= found.end
            if covers and _meets(found, come):
                return found
            at = now.find(words, at + 1, last)
    if span.start < span.end:
        return span
    return find_again(thread.span, thread.quote, changes, now) or _find_pasted(thread, come, now) or span


def _find_pasted(thread: CommentThread, come: Sequence[TrackedRange], now: str) -> TrackedRange | None:
    """Return where the words of a removed passage were inserted, if they stand there alone."""
    at = now.find(thread.quote)
    if at < 0 or now.find(thread.quote, at + 1) >= 0:
        return None
    found = TrackedRange(at, at + len(thread.quote))
    return found if _meets(found, come) else None


def _meets(found: TrackedRange, come: Sequence[TrackedRange]) -> bool:
    return any(each.start < found.end and found.start < each.end for each in come)


def _list_insertions(changes: ChangeSet) -> list[TrackedRange]:
    """Return where in the new text there is what a change inserts."""
    found: list[TrackedRange] = []
    grown = 0
    for change in changes.changes:
        start = change.start + grown
        if change.insert:
            found.append(TrackedRange(start, start + len(change.insert)))
        grown += len(change.insert) - (change.end - change.start)
    return found


def _relocate(thread: CommentThread, now: str) -> CommentThread:
    if thread.span.extract(now) == thread.words:
        return thread
    at = now.find(thread.words)
    if at >= 0 and now.find(thread.words, at + 1) < 0:
        return replace(thread, span=TrackedRange(at, at + len(thread.words)))
    start = min(thread.span.start, len(now))
    return replace(thread, span=TrackedRange(start, start))


def _create_comment(text: str, by: str, *, named: bool) -> ThreadComment:
    return ThreadComment(id=secrets.token_hex(4), by=by, named=named, text=text, time=time.time())


def _create_limit_error(what: str, hint: str) -> CommentError:
    return CommentError(f"this {what} has too many comments", hint=hint, code="too_many_comments")


def _decode_thread(stored: Mapping[str, Any]) -> CommentThread:
    fields: dict[str, Any] = {**stored}
    fields["span"] = TrackedRange(**stored["span"])
    fields["comments"] = tuple(ThreadComment(**each) for each in stored["comments"])
    return CommentThread(**fields)
