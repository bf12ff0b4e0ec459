"""Carries bytes between the control channel and the inside: connections, and programs' streams.

Standard library only: this runs inside.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kakite.sandbox.inside import frames
else:
    import frames


class Channel:
    """One way for bytes, or two, with the credit that each side gave."""

    def __init__(self, number: int, fd: int, *, sending: bool, receiving: bool) -> None:
        os.set_blocking(fd, False)
        self.number = number
        self.fd = fd
        self.credit = frames.WINDOW
        self.pending = bytearray()
        self.sending = sending
        """Whether more may come from inside."""
        self.receiving = receiving
        """Whether more may come from the host."""
        self.finishing = False

    def get_poll_events(self) -> int:
        """Return what it waits for."""
        reading = select.POLLIN if self.sending and self.credit > 0 else 0
        return reading | (select.POLLOUT if self.pending or (self.finishing and self.receiving) else 0)

    def read(self) -> bytes | None:
        """Return what came from inside, nothing at the end, None if there is nothing yet."""
        try:
            data = os.read(self.fd, min(self.credit, frames.PIECE))
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self.credit -= len(data)
        return data

    def write(self) -> int:
        """Pass on what came from the host; return how much, -1 if no more is taken inside."""
        try:
            sent = os.write(self.fd, self.pending) if self.pending else 0
            del self.pending[:sent]
            if self.finishing and not self.pending:
                self.receiving = False
                self.finish()
        except BlockingIOError:
            return 0
        except OSError:
            return -1
        return sent

    @property
    def exhausted(self) -> bool:
        """Whether nothing more is to be read, whatever others still write."""
        return False

    def finish(self) -> None:
        """Tell inside that nothing more comes from the host: what has one way is closed for that."""

    def close(self) -> None:
        """Let go of it."""
        os.close(self.fd)


class ConnectionChannel(Channel):
    """A connection of a program to a service of the host."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        super().__init__(number, connection.fileno(), sending=True, receiving=True)
        self._connection = connection

    def finish(self) -> None:
        """Close the one direction."""
        self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()


class InputChannel(Channel):
    """A program's standard input."""

    def __init__(self, number: int, fd: int) -> None:
        super().__init__(number, fd, sending=False, receiving=True)


class OutputChannel(Channel):
    """A program's standard output or standard error."""

    def __init__(self, number: int, fd: int) -> None:
        super().__init__(number, fd, sending=True, receiving=False)
        self._left: int | None = None

    def expect_no_more(self) -> None:
        """End with what is there now: whoever was to write is gone, and others may hold it open."""
        if self._left is None:
            told = fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4))
            self._left = int.from_bytes(told, sys.byteorder)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more is to be read."""
        return self._left is not None and self._left <= 0

    def read(self) -> bytes | None:
        """Return what came, nothing at the end, None if there is nothing yet."""
        if self.exhausted:
            return b""
        data = super().read()
        if self._left is not None:
            self._left -= len(data or b"")
            return data or b""
        return data
