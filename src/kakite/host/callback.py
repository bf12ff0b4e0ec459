"""The page on loopback to which a browser comes back from an authorization server. Knows no tokens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlsplit

PATH: Final = "/callback"
_HOST: Final = "127.0.0.1"
_HEAD_LIMIT = 16 * 1024  # bytes of a request's head
_HEAD_WAIT = 10.0  # s for a request's head
_CONNECTIONS = 16  # at once: a browser opens a few ahead of need

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Kakite</title>
<body style="font:16px/1.5 system-ui;max-width:32em;margin:4em auto">
<h1>{title}</h1><p>{text}</p></body></html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What an authorization server let the browser bring back."""

    code: str = field(default="", repr=False)
    """To be exchanged for tokens; empty if it said no."""
    state: str = field(default="", repr=False)
    issuer: str | None = None
    """As it names itself (RFC 9207); None if it did not."""
    error: str = ""
    """Its code of an error, such as ``access_denied``."""


class Callback:
    """A listener for one visit of a browser. Only who knows the ``state`` of the visit is believed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._state = ""
        self._landed: asyncio.Future[Landing] = asyncio.get_running_loop().create_future()
        self._places = asyncio.Semaphore(_CONNECTIONS)

    @property
    def address(self) -> str:
        """Return where the browser is to come back to."""
        return f"http://{_HOST}:{self.port}{PATH}"

    def expect(self, state: str) -> None:
        """Believe those who bring this state, and nobody else."""
        self._state = state

    async def landing(self, wait: float) -> Landing:
        """Return what the browser brought.

        Raises:
            TimeoutError: nobody who knows the state came in this many seconds.
        """
        async with asyncio.timeout(wait):
            return await asyncio.shield(self._landed)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection with a small page. Never raises."""
        try:
            async with self._places, asyncio.timeout(_HEAD_WAIT):
                line, _, _ = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
                writer.write(self._page(line.decode("ascii", "replace")))
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no browser, or none that goes on talking: nothing depends on it
        finally:
            writer.close()

    def _page(self, line: str) -> bytes:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != PATH:
            return _response("404 Not Found", "Nothing is here", "This page is for a login only.")
        landing = _landing(target.query)
        if not self._state or not secrets.compare_digest(landing.state.encode(), self._state.encode()):
            text = "This answer does not belong to the login that Kakite waits for. Nothing was changed."
            return _response("400 Bad Request", "Refused", text)
        if not self._landed.done():
            self._landed.set_result(landing)
        if not landing.code:
            return _response("200 OK", "Not logged in", "The login was refused. You can close this page.")
        return _response("200 OK", "Thank you", "Kakite goes on in its terminal. You can close this page.")


@asynccontextmanager
async def listening(*, port: int = 0, preferred: int = 0) -> AsyncGenerator[Callback]:
    """Listen on loopback: on that port, else on the preferred one if it is free, else on any.

    Raises:
        OSError: the port is taken.
    """
    callback = Callback(port)
    try:
        server = await _listen(callback, port or preferred)
    except OSError:
        if port or not preferred:
            raise
        server = await _listen(callback, 0)
    async with server:
        callback.port = server.sockets[0].getsockname()[1]
        yield callback


async def _listen(callback: Callback, port: int) -> asyncio.Server:
    return await asyncio.start_server(callback.answer, _HOST, port, limit=_HEAD_LIMIT)


def _landing(query: str) -> Landing:
    found = {name: values[0] for name, values in parse_qs(query, max_num_fields=32).items()}
    return Landing(
        code=found.get("code", ""),
        state=found.get("state", ""),
        issuer=found.get("iss"),
        error=found.get("error", ""),
    )


def _response(status: str, title: str, text: str) -> bytes:
    body = _PAGE.format(title=title, text=text).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
