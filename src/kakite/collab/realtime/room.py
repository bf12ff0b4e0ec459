"""Connects everybody on one document: the Yjs protocols over websockets, within limits.

What a client sends is checked before it comes near the document. A client that sends nonsense, too much or
too fast is disconnected; nobody else notices.
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

from kakite.collab.realtime import protocol
from kakite.collab.realtime.protocol import AwarenessServer, SyncMessageReader, SyncProtocolError

log = logging.getLogger(__name__)

NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
NO_SUCH_DOCUMENT = 4404
DOCUMENT_RESET = 4409
TOO_LARGE = 4413
TOO_FAST = 4429
BAD_MESSAGE = 4400
SERVICE_RESTART = 1012
"""Codes that a websocket is closed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomLimits:
    """The limits of one connection."""

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


DEFAULT_LIMITS = RoomLimits()


class ConnectionRejected(Exception):  # noqa: N818 - is no error of ours
    """A connection has to go: ``code``."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class RoomConnection:
    """One websocket: what is to be sent there, and how much it may still send."""

    def __init__(
        self, name: str, *, writes: bool, is_named: bool = False, limits: RoomLimits = DEFAULT_LIMITS
    ) -> None:
        """``name`` is that of the person; ``writes`` whether they may change the page.

        Who ``is_named`` signed in by that name; others call themselves what they want.
        """
        self.name = name
        self.is_named = is_named
        self.writes = writes
        self._limits = limits
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._closed: ConnectionRejected | None = None
        self._allowance = RateLimiter(limits)

    def send(self, message: bytes) -> None:
        """Send this when it can be."""
        self._waiting.append(message)
        self._bytes += len(message)
        if self._bytes > self._limits.waiting:
            self.close(ConnectionRejected(TOO_FAST, "it reads too slowly"))
        self._news.set()

    def close(self, refused: ConnectionRejected) -> None:
        """Let it go."""
        if self._closed is None:
            self._closed = refused
        self._news.set()

    def spend(self, size: int) -> None:
        """Count a message.

        Raises:
            ConnectionRejected: it is too large, or there were too many.
        """
        if size > self._limits.message:
            raise ConnectionRejected(TOO_LARGE, f"a message has more than {self._limits.message:,} bytes")
        if not self._allowance.spend(size):
            raise ConnectionRejected(TOO_FAST, "too many messages")

    async def pump(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what is to be sent, until it has to go.

        Raises:
            ConnectionRejected: it has to.
        """
        while True:
            while self._waiting and (self._closed is None or self._closed.code == DOCUMENT_RESET):
                message = self._waiting.popleft()
                self._bytes -= len(message)
                await send(message)
            if self._closed is not None:
                raise self._closed
            self._news.clear()
            await self._news.wait()


class RateLimiter:
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

    def __init__(
        self, doc: Doc[Text], state: Callable[[], object], *, limits: RoomLimits = DEFAULT_LIMITS
    ) -> None:
        """``state`` returns what the page shows beside its text, as JSON values."""
        self.doc = doc
        self.presence = AwarenessServer()
        self.limits = limits
        self.written = 0
        """Bytes of all updates, about."""
        self._state = state
        self._connections: set[RoomConnection] = set()
        self._from: RoomConnection | None = None
        self._sent = b""
        """What that one sent."""
        self._writers: set[str] = set()
        self._telling = False
        self._closed: ConnectionRejected | None = None
        self.on_presence: Callable[[bytes], None] = lambda _update: None
        """Is told of what people's states became here, for other processes."""
        self.on_state: Callable[[object], None] = lambda _state: None
        """Is told of what the page shows beside its text, for other processes."""

    def __len__(self) -> int:
        return len(self._connections)

    def has(self, connection: object) -> bool:
        """Tell whether this is a connection of this process, or None: the assistant's."""
        return connection is None or connection in self._connections

    def pop_writers(self) -> set[str]:
        """Return the names of those who changed the text since this was last asked."""
        names, self._writers = self._writers, set()
        return names

    def find_writer(self) -> str | None:
        """Return who makes the change that is being told of; None if that is not known.

        Who comes back after a crash may bring words of others that the server had lost.
        """
        if self._from is None or not self._is_own(self._from):
            return None
        own = "" if self._from.is_named else self.presence.find_user_name(self._from)
        return own or self._from.name

    def _is_own(self, connection: RoomConnection) -> bool:
        """Tell whether all that comes in the update is by a client of the connection that sent it."""
        reader = SyncMessageReader(self._sent)
        clients = reader.read_var_uint()
        if clients != 1:
            return clients == 0
        reader.read_var_uint()  # how many pieces
        return self.presence.is_owned(reader.read_var_uint(), connection)

    def add_writer(self, name: str) -> None:
        """Note who changed the text without a connection to it."""
        self._writers.add(name)

    def enter(self, connection: RoomConnection) -> None:
        """Let a connection in: it is told all there is, people's cursors too.

        Raises:
            ConnectionRejected: the page is full.
        """
        if len(self._connections) >= self.limits.connections:
            raise ConnectionRejected(TOO_FAST, "too many people are on this page")
        self._connections.add(connection)
        connection.send(protocol.create_sync_message(protocol.STEP1, self.doc.get_state()))
        if (all_of_them := self.presence.encode_all()) is not None:
            connection.send(protocol.create_awareness_message(all_of_them))
        connection.send(protocol.create_state_message(self._state()))

    def leave(self, connection: RoomConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        if (update := self.presence.leave(connection)) is not None:
            self.broadcast_awareness(update)

    def handle_message(self, message: bytes, connection: RoomConnection) -> None:
        """Take what a client sent.

        Raises:
            ConnectionRejected: it has to go for that.
        """
        connection.spend(len(message))
        if self._closed is not None:
            raise self._closed
        try:
            self._dispatch(SyncMessageReader(message), connection)
        except SyncProtocolError as error:
            raise ConnectionRejected(BAD_MESSAGE, str(error)) from error

    def send_update(self, update: bytes) -> None:
        """Tell everybody of a change of the document, but who sent just that.

        It may be more than was sent: what others have removed comes into effect once the words are there.
        """
        self.written += len(update)
        message = protocol.create_sync_message(protocol.UPDATE, update)
        for each in self._connections:
            if each is not self._from or update != self._sent:
                each.send(message)

    def broadcast_awareness(
        self, update: bytes, besides: RoomConnection | None = None, *, ours: bool = True
    ) -> None:
        """Tell everybody what people's states became; ``ours`` if other processes do not know yet."""
        message = protocol.create_awareness_message(update)
        for each in self._connections:
            if each is not besides:
                each.send(message)
        if ours:
            self.on_presence(update)

    def broadcast_state(self) -> None:
        """Tell everybody what the page shows beside its text, once in a turn of the event loop."""
        if not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self._send_state)

    def close(self, refused: ConnectionRejected) -> None:
        """Let everybody go; what the document has is told first, so that they know what it has not."""
        self._closed = refused if refused.code == DOCUMENT_RESET else None
        known = protocol.create_sync_message(protocol.STEP1, self.doc.get_state())
        for each in self._connections:
            if refused.code == DOCUMENT_RESET:
                each.send(known)
            each.close(refused)

    def _send_state(self) -> None:
        self._telling = False
        state = self._state()
        self.on_state(state)
        if self._connections:
            message = protocol.create_state_message(state)
            for each in self._connections:
                each.send(message)

    def _dispatch(self, reader: SyncMessageReader, connection: RoomConnection) -> None:
        match reader.read_var_uint():
            case protocol.SYNC:
                self._handle_sync(reader.read_var_uint(), reader.read_var_bytes(), connection)
            case protocol.AWARENESS:
                if (told := self.presence.apply_update(reader.read_var_bytes(), connection)) is not None:
                    self.broadcast_awareness(told, connection)
            case protocol.QUERY_AWARENESS:
                if (all_of_them := self.presence.encode_all()) is not None:
                    connection.send(protocol.create_awareness_message(all_of_them))
            case _:
                pass  # of a later protocol

    def _handle_sync(self, kind: int, payload: bytes, connection: RoomConnection) -> None:
        if kind == protocol.STEP1:
            connection.send(
                protocol.create_sync_message(protocol.STEP2, _encode_update_since(self.doc, payload))
            )
        elif kind in {protocol.STEP2, protocol.UPDATE}:
            self._handle_update(payload, connection)
        else:
            raise SyncProtocolError("there is no such message of the sync protocol")

    def _handle_update(self, update: bytes, connection: RoomConnection) -> None:
        if update == protocol.EMPTY_UPDATE:
            return
        if not connection.writes:
            if _has_new_content(self.doc, update):
                raise ConnectionRejected(NOT_ALLOWED, "this page may only be read")
            return
        if self.written + len(update) > self.limits.document:
            raise ConnectionRejected(TOO_LARGE, "the page is too large")
        self._from, self._sent = connection, update
        try:
            apply_update(self.doc, update)
        finally:
            self._from, self._sent = None, b""
        self._writers.add(connection.name)


def apply_update(doc: Doc[Text], update: bytes) -> None:
    """Apply what somebody sent.

    Raises:
        SyncProtocolError: it is no update.
    """
    _check(update)
    try:
        doc.apply_update(update)
    except (ValueError, RuntimeError) as error:
        raise SyncProtocolError("this is not an update") from error


def _check(update: bytes) -> None:
    """Look at an update without a document: what the library cannot read must not come near one."""
    try:
        pycrdt.merge_updates(update)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the library may panic, and its panic is no Exception
        log.info("an update cannot be read: %s", type(error).__name__)
        raise SyncProtocolError("this is not an update") from None


def _encode_update_since(doc: Doc[Text], state: bytes) -> bytes:
    try:
        return doc.get_update(state)
    except (ValueError, RuntimeError) as error:
        raise SyncProtocolError("this is not a state") from error


def _has_new_content(doc: Doc[Text], update: bytes) -> bool:
    """Tell whether an update writes anything that the document has not.

    What it removes is in every update of a client, and does not tell.
    """
    _check(update)
    return not pycrdt.get_update(update, doc.get_state()).startswith(b"\0")
