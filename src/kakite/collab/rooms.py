"""Everybody on one page, connected: the Yjs protocols over websockets, within limits.

What a client sends is checked before it comes near the document. One that sends nonsense, too much or too
fast is let go; nobody else notices.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pycrdt
from pycrdt import Doc, Text

from kakite.collab import wire
from kakite.collab.presence import Presence
from kakite.collab.wire import Reader, WireError

log = logging.getLogger(__name__)

NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
NO_SUCH_PAGE = 4404
BEGUN_ANEW = 4409
TOO_LARGE = 4413
TOO_FAST = 4429
NONSENSE = 4400
GOING = 1012
"""Codes that a websocket is closed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomLimits:
    """What one connection may do."""

    message: int = 4 * 1024 * 1024
    """Bytes of one message."""
    document: int = 16 * 1024 * 1024
    """Bytes of one page's document, about: its text, and what is left of what was written and deleted."""
    worn: int = 1024 * 1024
    """Bytes from which a document that is mostly left-overs is begun anew when nobody is there."""
    messages: float = 150
    """A second, on average."""
    messages_at_once: int = 1500
    bytes: float = 2 * 1024 * 1024
    """A second, on average."""
    bytes_at_once: int = 16 * 1024 * 1024
    waiting: int = 32 * 1024 * 1024
    """Bytes that wait for a client that reads slowly."""
    connections: int = 200
    """On one page."""


LIMITS = RoomLimits()


class Refused(Exception):  # noqa: N818 - is no error of ours
    """A connection has to go: ``code``."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Connection:
    """One websocket: what is to be sent there, and how much it may still send."""

    def __init__(self, name: str, *, writes: bool, limits: RoomLimits = LIMITS) -> None:
        """``name`` is that of the person; ``writes`` whether they may change the page."""
        self.name = name
        self.writes = writes
        self._limits = limits
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._closed: Refused | None = None
        self._allowance = Allowance(limits)

    def send(self, message: bytes) -> None:
        """Send this when it can be."""
        self._waiting.append(message)
        self._bytes += len(message)
        if self._bytes > self._limits.waiting:
            self.close(Refused(TOO_FAST, "it reads too slowly"))
        self._news.set()

    def close(self, refused: Refused) -> None:
        """Let it go."""
        if self._closed is None:
            self._closed = refused
        self._news.set()

    def spend(self, size: int) -> None:
        """Count a message.

        Raises:
            Refused: it is too large, or there were too many.
        """
        if size > self._limits.message:
            raise Refused(TOO_LARGE, f"a message has more than {self._limits.message:,} bytes")
        if not self._allowance.spend(size):
            raise Refused(TOO_FAST, "too many messages")

    async def pump(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what is to be sent, until it has to go.

        Raises:
            Refused: it has to.
        """
        while True:
            while self._waiting and (self._closed is None or self._closed.code == BEGUN_ANEW):
                message = self._waiting.popleft()
                self._bytes -= len(message)
                await send(message)
            if self._closed is not None:
                raise self._closed
            self._news.clear()
            await self._news.wait()


class Allowance:
    """So many messages and bytes a second, and some at once."""

    def __init__(self, limits: RoomLimits) -> None:
        self._limits = limits
        self._messages: float = limits.messages_at_once
        self._bytes: float = limits.bytes_at_once
        self._at = time.monotonic()

    def spend(self, size: int) -> bool:
        """Count a message; tell whether it was allowed."""
        now = time.monotonic()
        passed, self._at = now - self._at, now
        most = self._limits
        self._messages = min(most.messages_at_once, self._messages + passed * most.messages) - 1
        self._bytes = min(most.bytes_at_once, self._bytes + passed * most.bytes) - size
        return self._messages >= 0 and self._bytes >= 0


class Room:
    """The connections of one page."""

    def __init__(self, doc: Doc[Text], state: Callable[[], object], *, limits: RoomLimits = LIMITS) -> None:
        """``state`` returns what the page shows beside its text, as JSON values."""
        self.doc = doc
        self.presence = Presence()
        self.limits = limits
        self.written = 0
        """Bytes of all updates, about."""
        self._state = state
        self._connections: set[Connection] = set()
        self._from: Connection | None = None
        self._writers: set[str] = set()
        self._telling = False
        self._closed: Refused | None = None
        self.on_presence: Callable[[bytes], None] = lambda _update: None
        """Is told of what people's states became here, for other processes."""
        self.on_state: Callable[[object], None] = lambda _state: None
        """Is told of what the page shows beside its text, for other processes."""

    def __len__(self) -> int:
        return len(self._connections)

    def has(self, connection: object) -> bool:
        """Tell whether this is a connection of this process, or None: the assistant's."""
        return connection is None or connection in self._connections

    def writers(self) -> set[str]:
        """Return the names of those who changed the text since this was last asked."""
        names, self._writers = self._writers, set()
        return names

    def enter(self, connection: Connection) -> None:
        """Let a connection in: it is told all there is, people's cursors too.

        Raises:
            Refused: the page is full.
        """
        if len(self._connections) >= self.limits.connections:
            raise Refused(TOO_FAST, "too many people are on this page")
        self._connections.add(connection)
        connection.send(wire.sync(wire.STEP1, self.doc.get_state()))
        if (all_of_them := self.presence.all()) is not None:
            connection.send(wire.awareness(all_of_them))
        connection.send(wire.state(self._state()))

    def leave(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        if (update := self.presence.leave(connection)) is not None:
            self.tell_presence(update)

    def take(self, message: bytes, connection: Connection) -> None:
        """Take what a client sent.

        Raises:
            Refused: it has to go for that.
        """
        connection.spend(len(message))
        if self._closed is not None:
            raise self._closed
        try:
            self._take(Reader(message), connection)
        except WireError as error:
            raise Refused(NONSENSE, str(error)) from error

    def send_update(self, update: bytes) -> None:
        """Tell all others than who it came from of a change of the document."""
        self.written += len(update)
        message = wire.sync(wire.UPDATE, update)
        for each in self._connections:
            if each is not self._from:
                each.send(message)

    def tell_presence(self, update: bytes, besides: Connection | None = None, *, ours: bool = True) -> None:
        """Tell everybody what people's states became; ``ours`` if other processes do not know yet."""
        message = wire.awareness(update)
        for each in self._connections:
            if each is not besides:
                each.send(message)
        if ours:
            self.on_presence(update)

    def tell_state(self) -> None:
        """Tell everybody what the page shows beside its text, once in a turn of the event loop."""
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._tell_state)

    def close(self, refused: Refused) -> None:
        """Let everybody go; what the document has is told first, so that they know what it has not."""
        self._closed = refused if refused.code == BEGUN_ANEW else None
        known = wire.sync(wire.STEP1, self.doc.get_state())
        for each in self._connections:
            if refused.code == BEGUN_ANEW:
                each.send(known)
            each.close(refused)

    def _tell_state(self) -> None:
        self._telling = False
        state = self._state()
        self.on_state(state)
        if self._connections:
            message = wire.state(state)
            for each in self._connections:
                each.send(message)

    def _take(self, reader: Reader, connection: Connection) -> None:
        match reader.uint():
            case wire.SYNC:
                self._take_sync(reader.uint(), reader.block(), connection)
            case wire.AWARENESS:
                if (told := self.presence.take(reader.block(), connection)) is not None:
                    self.tell_presence(told, connection)
            case wire.QUERY_AWARENESS:
                if (all_of_them := self.presence.all()) is not None:
                    connection.send(wire.awareness(all_of_them))
            case _:
                pass  # of a later protocol

    def _take_sync(self, kind: int, payload: bytes, connection: Connection) -> None:
        if kind == wire.STEP1:
            connection.send(wire.sync(wire.STEP2, _update_for(self.doc, payload)))
        elif kind in {wire.STEP2, wire.UPDATE}:
            self._take_update(payload, connection)
        else:
            raise WireError("there is no such message of the sync protocol")

    def _take_update(self, update: bytes, connection: Connection) -> None:
        if update == wire.EMPTY_UPDATE:
            return
        if not connection.writes:
            if _is_news(self.doc, update):
                raise Refused(NOT_ALLOWED, "this page may only be read")
            return
        if self.written + len(update) > self.limits.document:
            raise Refused(TOO_LARGE, "the page is too large")
        self._from = connection
        try:
            apply_update(self.doc, update)
        finally:
            self._from = None
        self._writers.add(connection.name)


def apply_update(doc: Doc[Text], update: bytes) -> None:
    """Apply what somebody sent.

    Raises:
        WireError: it is no update.
    """
    _check(update)
    try:
        doc.apply_update(update)
    except (ValueError, RuntimeError) as error:
        raise WireError("this is no update") from error


def _check(update: bytes) -> None:
    """Look at an update without a document: what the library cannot read must not come near one."""
    try:
        pycrdt.merge_updates(update)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the library may panic, and its panic is no Exception
        log.info("an update cannot be read: %s", type(error).__name__)
        raise WireError("this is no update") from None


def _update_for(doc: Doc[Text], state: bytes) -> bytes:
    try:
        return doc.get_update(state)
    except (ValueError, RuntimeError) as error:
        raise WireError("this is no state") from error


def _is_news(doc: Doc[Text], update: bytes) -> bool:
    """Tell whether an update writes anything that the document has not.

    What it removes is in every update of a client, and does not tell.
    """
    _check(update)
    return not pycrdt.get_update(update, doc.get_state()).startswith(b"\0")
