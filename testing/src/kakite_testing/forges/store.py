"""The state of a fake forge: issues, pull requests, who did what and when. Knows no wire format.

Tests act as people through its methods, clients through the ForgeApi; both hold the lock. The clock goes on
by a second with each change, so that times show the order of what happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from kakite.errors import KakiteError

Level = Literal["none", "read", "write", "admin"]
ChangeKind = Literal[
    "labeled", "unlabeled", "assigned", "unassigned", "renamed", "edited", "closed", "reopened", "merged"
]
NoteKind = Literal["comment", "line", "review"]

LEVELS: Final[tuple[Level, ...]] = ("none", "read", "write", "admin")


class FakeForgeError(KakiteError):
    """A test asked the fake for what makes no sense, or a client broke the forge's contract."""

    code = "fake_forge"


@dataclass(slots=True, kw_only=True)
class ForgeNote:
    """A comment, a remark beside a line, or what a review says as a whole."""

    id: int
    kind: NoteKind
    author: str
    text: str
    created: datetime
    updated: datetime
    path: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """One thing that somebody did to an issue or pull request."""

    id: int
    kind: ChangeKind
    actor: str
    at: datetime
    value: str = ""
    """The label, the person, or the title that was before."""


@dataclass(slots=True, kw_only=True)
class Pull:
    """The fields of a pull request beside those of an issue."""

    head: str
    base: str
    draft: bool
    merged: bool = False


@dataclass(slots=True, kw_only=True)
class Item:
    """An issue or a pull request."""

    id: int
    number: int
    title: str
    text: str
    author: str
    created: datetime
    updated: datetime
    labels: list[str] = field(default_factory=list[str])
    assignees: list[str] = field(default_factory=list[str])
    open: bool = True
    notes: list[ForgeNote] = field(default_factory=list[ForgeNote])
    changes: list[TimelineEvent] = field(default_factory=list[TimelineEvent])
    pull: Pull | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent:
    """The event that a webhook reports."""

    kind: Literal["issue", "pull", "note"]
    action: str
    actor: str
    item: Item
    note: ForgeNote | None = None
    label: str | None = None


def require_pull(item: Item) -> Pull:
    """Return what a pull request has beside an issue."""
    if item.pull is None:
        raise LookupError(item.number)
    return item.pull


class ForgeState:
    """One repository's issues and pull requests."""

    def __init__(self, owner: str, name: str, *, shared_numbers: bool) -> None:
        self.owner = owner
        self.name = name
        self.people: dict[str, Level] = {owner: "admin"}
        """What each person may do; who is not here is a stranger."""
        self.known_labels: list[str] = []
        self.lock = threading.RLock()
        self.listeners: list[Callable[[WebhookEvent], None]] = []
        self._shared = shared_numbers
        self._items: list[Item] = []
        self._now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        self._id = 1000

    def tick(self) -> datetime:
        """Let a second pass and return what time it is."""
        with self.lock:
            self._now += timedelta(seconds=1)
            return self._now

    def allocate_id(self) -> int:
        """Return a number that nothing else has."""
        with self.lock:
            self._id += 1
            return self._id

    def get_level(self, login: str) -> Level:
        """Return what a person may do. Names are the same in upper and lower case, as on the forges."""
        for who, level in self.people.items():
            if who.casefold() == login.casefold():
                return level
        return "read"

    def has_level(self, login: str, level: Level) -> bool:
        """Return whether a person may do what takes this level."""
        return LEVELS.index(self.get_level(login)) >= LEVELS.index(level)

    @property
    def issues(self) -> tuple[Item, ...]:
        """All issues, the oldest first."""
        return tuple(item for item in self._items if item.pull is None)

    @property
    def pulls(self) -> tuple[Item, ...]:
        """All pull requests, the oldest first."""
        return tuple(item for item in self._items if item.pull is not None)

    @property
    def items(self) -> tuple[Item, ...]:
        """Issues and pull requests, the oldest first."""
        return tuple(self._items)

    def get_issue(self, number: int) -> Item:
        """Return an issue; where both share their numbers, a pull request too."""
        return _find_item(self.items if self._shared else self.issues, number)

    def get_pull(self, number: int) -> Item:
        """Return a pull request."""
        return _find_item(self.pulls, number)

    def open_issue(
        self,
        title: str,
        text: str = "",
        *,
        by: str,
        labels: tuple[str, ...] = (),
        assignees: tuple[str, ...] = (),
    ) -> Item:
        """Write an issue."""
        with self.lock:
            item = self._create_item(title, text, by, None)
            for label in labels:
                self.label(item, label, by=by)
            for login in assignees:
                self.assign(item, login, by=by)
            return item

    def open_pull(
        self, title: str, text: str = "", *, by: str, head: str, base: str, draft: bool = False
    ) -> Item:
        """Open a pull request."""
        with self.lock:
            return self._create_item(title, text, by, Pull(head=head, base=base, draft=draft))

    def comment(
        self,
        item: Item,
        text: str,
        *,
        by: str,
        kind: NoteKind = "comment",
        path: str = "",
        line: int | None = None,
    ) -> ForgeNote:
        """Write below an issue or pull request, or beside one of its lines."""
        with self.lock:
            now = self.tick()
            note = ForgeNote(
                id=self.allocate_id(),
                kind=kind,
                author=by,
                text=text,
                created=now,
                updated=now,
                path=path,
                line=line,
            )
            item.notes.append(note)
            item.updated = now
            self._notify(WebhookEvent(kind="note", action="created", actor=by, item=item, note=note))
            return note

    def edit_comment(self, item: Item, note: ForgeNote, text: str, *, by: str) -> None:
        """Change what was written."""
        with self.lock:
            note.text, note.updated = text, self.tick()
            item.updated = note.updated
            self._notify(WebhookEvent(kind="note", action="edited", actor=by, item=item, note=note))

    def delete_comment(self, item: Item, note: ForgeNote, *, by: str) -> None:
        """Take away what was written."""
        with self.lock:
            item.notes.remove(note)
            item.updated = self.tick()
            self._notify(WebhookEvent(kind="note", action="deleted", actor=by, item=item, note=note))

    def edit(self, item: Item, *, by: str, title: str | None = None, text: str | None = None) -> None:
        """Change the title or the text."""
        with self.lock:
            if title is not None and title != item.title:
                self.record_change(item, "renamed", by, item.title)
                item.title = title
            if text is not None and text != item.text:
                item.text = text
                self.record_change(item, "edited", by)

    def label(self, item: Item, label: str, *, by: str) -> None:
        """Set a label. One that does not exist is made."""
        with self.lock:
            if _find_label(self.known_labels, label) is None:
                self.known_labels.append(label)
            name = self.known_labels[_find_label(self.known_labels, label) or 0]
            if name not in item.labels:
                item.labels.append(name)
                self.record_change(item, "labeled", by, name)

    def unlabel(self, item: Item, label: str, *, by: str) -> bool:
        """Take a label away; False if it was not there."""
        with self.lock:
            index = _find_label(item.labels, label)
            if index is not None:
                self.record_change(item, "unlabeled", by, item.labels.pop(index))
            return index is not None

    def assign(self, item: Item, login: str, *, by: str) -> None:
        """Give it to a person."""
        with self.lock:
            if login not in item.assignees:
                item.assignees.append(login)
                self.record_change(item, "assigned", by, login)

    def unassign(self, item: Item, login: str, *, by: str) -> None:
        """Take it from a person."""
        with self.lock:
            if login in item.assignees:
                item.assignees.remove(login)
                self.record_change(item, "unassigned", by, login)

    def close(self, item: Item, *, by: str) -> None:
        """Close an issue or pull request."""
        with self.lock:
            if item.open:
                item.open = False
                self.record_change(item, "closed", by)

    def reopen(self, item: Item, *, by: str) -> None:
        """Open it again."""
        with self.lock:
            if not item.open:
                item.open = True
                self.record_change(item, "reopened", by)

    def merge(self, item: Item, *, by: str) -> None:
        """Take a pull request in. The branches stay as they are: a test moves them itself."""
        with self.lock:
            if item.pull is None:
                raise FakeForgeError(f"#{item.number} is not a pull request")
            item.pull.merged, item.open = True, False
            self.record_change(item, "merged", by)

    def record_change(self, item: Item, kind: ChangeKind, actor: str, value: str = "") -> None:
        """Write down that somebody did something."""
        item.updated = self.tick()
        item.changes.append(
            TimelineEvent(id=self.allocate_id(), kind=kind, actor=actor, at=item.updated, value=value)
        )
        label = value if kind in {"labeled", "unlabeled"} else None
        self._notify(WebhookEvent(kind=_get_kind(item), action=kind, actor=actor, item=item, label=label))

    def _create_item(self, title: str, text: str, by: str, pull: Pull | None) -> Item:
        now = self.tick()
        alike = (
            self._items if self._shared else [each for each in self._items if bool(each.pull) == bool(pull)]
        )
        item = Item(
            id=self.allocate_id(),
            number=len(alike) + 1,
            title=title,
            text=text,
            author=by,
            created=now,
            updated=now,
            pull=pull,
        )
        self._items.append(item)
        self._notify(WebhookEvent(kind=_get_kind(item), action="opened", actor=by, item=item))
        return item

    def _notify(self, happening: WebhookEvent) -> None:
        for listener in self.listeners:
            listener(happening)

    def hold_lock(self) -> AbstractContextManager[bool]:
        """Keep others from changing anything meanwhile."""
        return self.lock


def _get_kind(item: Item) -> Literal["issue", "pull"]:
    return "issue" if item.pull is None else "pull"


def _find_label(labels: list[str], label: str) -> int | None:
    wanted = label.casefold()
    return next((index for index, each in enumerate(labels) if each.casefold() == wanted), None)


def _find_item(items: tuple[Item, ...], number: int) -> Item:
    for item in items:
        if item.number == number:
            return item
    raise LookupError(number)
