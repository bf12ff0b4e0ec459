"""What each session has seen of which files, as long as there is room for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from weakref import WeakKeyDictionary

from kakite.tools.seen import Sight

ROOM = 64 * 1024 * 1024  # characters, of all files and sessions together


class Sights:
    """Remembers sights by session and file. When the room is full, who holds most forgets its oldest one."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._sessions: WeakKeyDictionary[object, _Held] = WeakKeyDictionary()

    def of(self, session: object, path: str) -> Sight | None:
        """Return what this session knows of the file at this path."""
        with self._lock:
            held = self._sessions.get(session)
            return held.files.get(path) if held else None

    def paths(self, session: object) -> list[str]:
        """Return the files that this session has seen, the latest first."""
        with self._lock:
            held = self._sessions.get(session)
            return list(reversed(held.files)) if held else []

    def keep(self, session: object, path: str, sight: Sight | None) -> None:
        """Remember what this session knows of a file; None: nothing any more."""
        with self._lock:
            held = self._sessions.setdefault(session, _Held())
            held.drop(path)
            if sight is not None:
                held.add(path, sight)
                self._make_room(held)

    def _make_room(self, newest: _Held) -> None:
        sessions = list(self._sessions.values())
        total = sum(held.size for held in sessions)
        while total > self._room:
            # The sight that was just taken stays: without it nothing could be edited where reading is a must.
            others = [held for held in sessions if len(held.files) > (held is newest)]
            if not others:
                return
            total -= max(others, key=lambda held: held.size).drop_oldest()


class _Held:
    """The sights of one session, the oldest first."""

    def __init__(self) -> None:
        self.files: OrderedDict[str, Sight] = OrderedDict()
        self.size = 0

    def add(self, path: str, sight: Sight) -> None:
        self.files[path] = sight
        self.size += sight.size

    def drop(self, path: str) -> None:
        sight = self.files.pop(path, None)
        self.size -= sight.size if sight else 0

    def drop_oldest(self) -> int:
        """Forget the oldest sight; return how much room that gives."""
        sight = self.files.popitem(last=False)[1]
        self.size -= sight.size
        return sight.size
