"""Forwards one request through the proxy, as plain HTTP: h11 reads and writes both sides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import h11

from kakite.sandbox.egress.credentials import Headers, Inspection, Mask
from kakite.sandbox.egress.policy import Target, read_target
from kakite.sandbox.egress.tunnel import PIECE

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterable

    from kakite.sandbox.egress.connect import HostConnection
    from kakite.sandbox.egress.tunnel import IdleTimeout

MAX_HEAD = 64 * 1024
"""Bytes that the head of a request or of an answer may have."""
_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)


class HttpExchangeError(Exception):  # an answer to the program, with its status
    """The bytes are no HTTP, or ended too early: ``status`` and ``reason`` are the answer to the program."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class HttpPeer:
    """One side of a conversation in HTTP: what h11 makes of the bytes of a stream."""

    def __init__(
        self,
        role: type[h11.CLIENT | h11.SERVER],
        reader: StreamReader,
        writer: StreamWriter,
        lease: IdleTimeout,
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=MAX_HEAD)
        self.reader = reader
        self.writer = writer
        self.method = b""
        """What the last request asked to be done."""
        self._lease = lease

    async def receive_event(self) -> h11.Event:
        """Return what the other side says next.

        Raises:
            h11.RemoteProtocolError: it is no HTTP, or it ended too early.
        """
        while (event := self.http.next_event()) is h11.NEED_DATA:
            data = await self.reader.read(PIECE)
            # A head has a time of its own, which dripping bytes do not extend.
            if self.http.their_state is h11.SEND_BODY:
                self._lease.extend()
            self.http.receive_data(data)
        if event is h11.PAUSED:
            raise h11.RemoteProtocolError("more was said than was asked for")
        assert not isinstance(event, type)
        if isinstance(event, h11.Request):
            self.method = event.method
        return event

    async def wait_until_gone(self) -> None:
        """Wait until the other side breaks off, or has said more than it may before it is answered."""
        heard = 0
        while heard <= MAX_HEAD and (data := await self.reader.read(PIECE)):
            self.http.receive_data(data)
            heard += len(data)

    async def send_event(self, event: h11.Event) -> None:
        """Say the next thing, and wait until the other side takes more."""
        data = self.http.send(event)
        if data:
            self.writer.write(data)
            await self.writer.drain()
            self._lease.extend()


def read_absolute(target: bytes) -> tuple[Target, str] | None:
    """Return the host and the path that the target of a proxied request names; None if it names none."""
    text = target.decode("ascii", errors="replace")
    scheme, _, rest = text.partition("://")
    if scheme.lower() != "http":
        return None
    cut = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    host = read_target(rest[:cut], 80)
    path = rest[cut:].partition("#")[0]
    return (host, path if path.startswith("/") else "/" + path) if host else None


async def forward_request(
    request: h11.Request, target: Target, path: str, program: HttpPeer, host: HttpPeer, way: HostConnection
) -> None:
    """Carry a request to the host, and its answer back."""
    name = str(target).removesuffix(":80")
    headers = _build_upstream_headers(request, name)
    if way.through_proxy and way.authorization:
        headers.append((b"Proxy-Authorization", way.authorization.encode("ascii")))
    goal = f"http://{name}{path}" if way.through_proxy else path
    upstream = h11.Request(method=request.method, target=goal.encode("ascii"), headers=headers)
    await _exchange(upstream, target, program, host, Mask({}))


async def forward_inspected_request(
    request: h11.Request, target: Target, program: HttpPeer, host: HttpPeer, inspection: Inspection
) -> None:
    """The same for a host whose TLS the proxy ends: secrets are put in, and hidden in the answer."""
    headers = _build_upstream_headers(request, str(target).removesuffix(":443"))
    path, headers, mask = inspection.fill_in(target, request.target, headers)
    upstream = h11.Request(method=request.method, target=path, headers=headers)
    await _exchange(upstream, target, program, host, mask)


async def _exchange(
    upstream: h11.Request, target: Target, program: HttpPeer, host: HttpPeer, mask: Mask
) -> None:
    """Carry a request to the host, and its answer back.

    Raises:
        HttpExchangeError: nothing of an answer was given yet, and none will come from the host.
        h11.ProtocolError: the conversation cannot go on; part of an answer was given.
    """
    sending = asyncio.ensure_future(_send(upstream, program, host))
    try:
        await _forward_response(program, host, mask)
    except (h11.RemoteProtocolError, OSError) as error:
        if sending.done() and not sending.cancelled() and (fault := sending.exception()):
            raise fault from error
        if program.http.our_state is h11.SEND_RESPONSE:
            raise HttpExchangeError(
                502, f"{target.host} closed the connection, or does not speak HTTP"
            ) from error
        raise h11.LocalProtocolError("the host closed the connection") from error
    finally:
        sending.cancel()
        await asyncio.wait({sending})
        host.writer.transport.abort()


def _build_upstream_headers(request: h11.Request, name: str) -> Headers:
    # What the address says goes, whatever the program wrote as Host: that is what was judged.
    headers: Headers = [(b"Host", name.encode("ascii"))]
    headers += (pair for pair in _drop_hop_by_hop(request.headers.raw_items()) if pair[0].lower() != b"host")
    if _is_chunked(request.headers):
        headers.append((b"Transfer-Encoding", b"chunked"))
    headers.append((b"Connection", b"close"))
    return headers


def _drop_hop_by_hop(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that are not for this connection alone."""
    pairs = list(headers)
    named = {
        word.strip().lower()
        for name, value in pairs
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    left_out = _HOP_BY_HOP | named
    if any(name.lower() == b"transfer-encoding" for name, _ in pairs):
        left_out |= {b"content-length"}  # of the two, the other one holds
    return [(name, value) for name, value in pairs if name.lower() not in left_out]


def _is_chunked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" for name, _ in headers)


async def _send(request: h11.Request, program: HttpPeer, host: HttpPeer) -> None:
    """Carry the request. A host that answers before it heard all is no fault of the program's."""
    try:
        await host.send_event(request)
        while isinstance(event := await program.receive_event(), h11.Data):
            await host.send_event(event)
        if isinstance(event, h11.EndOfMessage):
            await host.send_event(h11.EndOfMessage())
    except h11.RemoteProtocolError:
        host.writer.transport.abort()  # wakes who waits for the answer
        raise
    except OSError:
        pass  # who of the two went away shows where the answer is carried


async def _forward_response(program: HttpPeer, host: HttpPeer, mask: Mask) -> None:
    while not isinstance(event := await host.receive_event(), h11.EndOfMessage):
        match event:
            case h11.InformationalResponse():
                headers = mask.hide_headers(_drop_hop_by_hop(event.headers.raw_items()))
                told = h11.InformationalResponse(
                    status_code=event.status_code, reason=mask.hide_text(event.reason), headers=headers
                )
                await program.send_event(told)
            case h11.Response():
                headers = mask.hide_headers(_drop_hop_by_hop(event.headers.raw_items()))
                await program.send_event(
                    h11.Response(
                        status_code=event.status_code, reason=mask.hide_text(event.reason), headers=headers
                    )
                )
            case h11.Data():
                await program.send_event(h11.Data(data=mask.hide(event.data)))
            case _:
                raise h11.RemoteProtocolError("the host closed the connection")
    if rest := mask.finish():
        await program.send_event(h11.Data(data=rest))
    await program.send_event(h11.EndOfMessage())
