"""The proxy on the host through which programs in a sandbox reach what their network allows.

It is a service of the sandbox: each connection from inside is one call. It speaks HTTP: ``CONNECT`` for
whatever is encrypted, absolute addresses for plain HTTP. Every request is answered, a refused one at once and
with the setting that allows it. For the hosts that a person's credentials or rules for requests name, it ends
TLS itself, and begins it anew to the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import h11

from kakite.sandbox.egress.connect import Connector, HostConnection, HostUnreachableError, Resolve
from kakite.sandbox.egress.credentials import Inspection
from kakite.sandbox.egress.host_questions import HostQuestions
from kakite.sandbox.egress.http_forward import (
    HttpExchangeError,
    HttpPeer,
    forward_inspected_request,
    forward_request,
    read_absolute,
)
from kakite.sandbox.egress.policy import (
    WEB_PORTS,
    AddressScope,
    AllowedHost,
    DeniedHost,
    Target,
    build_policy,
    parse_address,
    read_target,
)
from kakite.sandbox.egress.tls import CertificateAuthority, TlsStream
from kakite.sandbox.egress.tunnel import IdleTimeout, ProxyTimeouts, join, read_client_hello, refuse_name

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping

    from kakite.sandbox.spec import AskHost, Network

SERVICE = "proxy"
"""The name of the service."""
MAX_CONNECTIONS = 128

_WIDTH: Mapping[Network, int] = {"off": 0, "registries": 1, "open": 2}
_ANSWERS = {
    400: "Bad Request",
    403: "Forbidden",
    502: "Bad Gateway",
    503: "Busy",
    504: "Gateway Timeout",
}


@dataclass(slots=True, eq=False)
class _LiveConnection:
    """A connection from inside, and whom it leads to."""

    lease: IdleTimeout
    target: Target | None = None
    asks: bool = False
    """Whether the person is asked about the target."""


class EgressProxy:
    """Reaches hosts for the programs of one sandbox, as far as the network allows that is in force.

    ``open_network`` says which is in force; while none is open, everything is refused. Of two that are
    open at the same time the wider one counts, since connections do not tell which program they are from.
    """

    def __init__(  # noqa: PLR0913 - each has a default
        self,
        hosts: Iterable[str] = (),
        *,
        environ: Mapping[str, str] | None = None,
        resolve: Resolve | None = None,
        patience: ProxyTimeouts | None = None,
        registries: bool = True,
        inspection: Inspection | None = None,
        trust: ssl.SSLContext | None = None,
        ask_host: AskHost | None = None,
    ) -> None:
        """Make a proxy that allows ``hosts`` besides the registries, or them alone without ``registries``.

        ``environ`` is where a proxy of the machine's own is named (``HTTPS_PROXY``…): this process's
        environment unless given. ``resolve`` finds addresses in place of the system. The hosts of
        ``inspection`` are allowed too, and ``trust`` says whose certificates they may have, in place of what
        this machine trusts. ``ask_host`` asks the person about hosts that are left out.

        Raises:
            UsageError: one of the hosts is none, code ``bad_host``.
        """
        self.inspection = inspection or Inspection()
        inspected = self.inspection.targets
        self.authority = CertificateAuthority() if inspected else None
        """Whom programs must trust to reach the hosts of ``inspection``."""
        self._trust = trust
        self._questions = HostQuestions(ask_host) if ask_host else None
        self._rules = build_policy((*hosts, *map(str, inspected)), registries=registries)
        self._outlet = Connector(os.environ if environ is None else environ, resolve)
        self._patience = patience or ProxyTimeouts()
        self._opened: Counter[Network] = Counter()
        self._live: set[_LiveConnection] = set()

    @property
    def network(self) -> Network:
        """The widest network that is opened."""
        widest: Network = "off"
        for name, count in self._opened.items():
            if count > 0 and _WIDTH[name] > _WIDTH[widest]:
                widest = name
        return widest

    @contextlib.contextmanager
    def open_network(self, network: Network) -> Generator[None]:
        """Allow what this network does, for as long as a program runs that has it.

        Connections that only it allowed end with it.
        """
        self._opened[network] += 1
        try:
            yield
        finally:
            self._opened[network] -= 1
            self._cut()

    def close(self) -> None:
        """End every connection. Those that come later are refused."""
        self._opened.clear()
        if self._questions:
            self._questions.close()
        for live in self._live:
            live.lease.end()
        self._outlet.close()

    def _cut(self) -> None:
        for live in self._live:
            if not live.target or not isinstance(verdict := self._evaluate(live.target), DeniedHost):
                continue
            if not (live.asks and verdict.askable):
                live.lease.end()

    def _evaluate(self, target: Target) -> AllowedHost | DeniedHost:
        verdict = self._rules.evaluate(self.network, target)
        asked = self._questions.get_answer(target) if self._questions else None
        if not isinstance(verdict, DeniedHost) or not verdict.askable or asked is None:
            return verdict
        if not asked:
            return DeniedHost(reason=f"the person said no to {target}")
        only_tls = self.network == "registries" and target.port in WEB_PORTS
        return AllowedHost(trust=AddressScope.PUBLIC, only_tls=only_tls)

    async def __call__(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection from inside to its end."""
        try:
            with contextlib.suppress(OSError):  # the program went away
                await self._attend(reader, writer)
        finally:
            writer.close()

    async def _attend(self, reader: StreamReader, writer: StreamWriter) -> None:
        scope = asyncio.timeout(None)
        live = _LiveConnection(IdleTimeout(scope, self._patience.head))
        program = HttpPeer(h11.SERVER, reader, writer, live.lease)
        try:
            async with scope:
                live.lease.extend()
                self._live.add(live)
                try:
                    await self._serve(live, program)
                finally:
                    self._live.discard(live)
        except TimeoutError:
            if live.lease.ended:
                writer.transport.abort()
            else:
                await self._tell_late(program)

    async def _serve(self, live: _LiveConnection, program: HttpPeer) -> None:
        if len(self._live) > MAX_CONNECTIONS:
            await self._refuse(live, program, 503, f"more than {MAX_CONNECTIONS} connections at once")
            return
        await self._serve_all(live, program, self._serve_request)

    async def _serve_all(
        self,
        live: _LiveConnection,
        program: HttpPeer,
        serve: Callable[[_LiveConnection, HttpPeer], Awaitable[bool]],
    ) -> None:
        """Answer one request after the other."""
        try:
            while await serve(live, program):
                live.target = None
                live.lease.extend(self._patience.head)
                program.http.start_next_cycle()
        except (HostUnreachableError, HttpExchangeError) as error:
            await self._refuse(live, program, error.status, error.reason)
        except h11.RemoteProtocolError as error:
            await self._refuse(live, program, error.error_status_hint, str(error))
        except h11.LocalProtocolError:
            program.writer.transport.abort()  # a part of the answer must not look like all of it

    async def _serve_request(self, live: _LiveConnection, program: HttpPeer) -> bool:
        """Answer the next request; tell whether another one can follow."""
        request = await program.receive_event()
        if not isinstance(request, h11.Request):
            return False
        live.lease.extend(self._patience.idle)
        if request.method == b"CONNECT":
            await self._tunnel(live, program, request)
            return False
        found = read_absolute(request.target)
        if not found:
            raise HttpExchangeError(400, "this is a proxy: ask for http://host/path, or CONNECT host:port")
        target, path = found
        if target in self.inspection.targets:
            raise HttpExchangeError(403, f"{target} is reached over TLS alone, by the settings")
        way = await self._reach(live, target, program, plain=True)
        host = HttpPeer(h11.CLIENT, way.reader, way.writer, live.lease)
        await forward_request(request, target, path, program, host, way)
        return await self._end_exchange(live, program)

    async def _end_exchange(self, live: _LiveConnection, program: HttpPeer) -> bool:
        """Tell whether another request can follow."""
        if program.http.their_state is h11.SEND_BODY:  # answered before it had said all
            live.lease.extend(self._patience.linger)
            await _linger(program)
        return program.http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}

    async def _tunnel(self, live: _LiveConnection, program: HttpPeer, request: h11.Request) -> None:
        target = read_target(request.target.decode("ascii"), None)
        if target is None or not target.port:
            raise HttpExchangeError(400, "CONNECT needs a host and a port")
        if self.authority and target in self.inspection.targets:
            await self._inspect(live, program, target, self.authority.get_context(target.host))
            return
        way = await self._reach(live, target, program)
        try:
            early = await _accept_tunnel(program)
            if await self._greet(target, program, way, early):
                inner, outer = (program.reader, program.writer), (way.reader, way.writer)
                await join(inner, outer, live.lease, self._patience.half)
        finally:
            way.writer.transport.abort()

    async def _inspect(
        self, live: _LiveConnection, program: HttpPeer, target: Target, context: ssl.SSLContext
    ) -> None:
        """End the program's TLS here, and answer its requests to this host."""
        await self._must_be_allowed(target, live, program)
        early = await _accept_tunnel(program)
        stream = TlsStream(program.reader, program.writer, context, early=early)
        live.lease.extend(self._patience.head)
        await stream.handshake()

        async def serve(live: _LiveConnection, inner: HttpPeer) -> bool:
            return await self._serve_inspected(live, inner, target)

        await self._serve_all(live, _create_peer(h11.SERVER, stream, live.lease), serve)
        stream.write_eof()

    async def _serve_inspected(self, live: _LiveConnection, program: HttpPeer, target: Target) -> bool:
        """Answer the next request within a TLS that was ended here; tell whether another one can follow."""
        request = await program.receive_event()
        if not isinstance(request, h11.Request):
            return False
        live.lease.extend(self._patience.idle)
        if not request.target.startswith(b"/"):
            raise HttpExchangeError(400, "a request begins with the path of what is asked for")
        if why := self.inspection.find_refusal(target, request.method, request.target):
            raise HttpExchangeError(403, why)
        way = await self._reach(live, target, program)
        try:
            self._trust = self._trust or ssl.create_default_context()
            stream = TlsStream(way.reader, way.writer, self._trust, host=target.host)
            await self._shake_hands(stream, target)
            host = _create_peer(h11.CLIENT, stream, live.lease)
            await forward_inspected_request(request, target, program, host, self.inspection)
        finally:
            way.writer.transport.abort()
        return await self._end_exchange(live, program)

    async def _shake_hands(self, stream: TlsStream, target: Target) -> None:
        try:
            async with asyncio.timeout(self._patience.connect):
                await stream.handshake()
        except ssl.SSLCertVerificationError as error:
            why = f"{target.host}: its certificate is not valid: {error.verify_message}"
            raise HostUnreachableError(502, why) from error
        except TimeoutError as error:
            raise HostUnreachableError(504, f"{target}: no answer in {self._patience.connect:g} s") from error
        except OSError as error:
            raise HostUnreachableError(502, f"{target.host} does not speak TLS") from error

    async def _greet(self, target: Target, program: HttpPeer, way: HostConnection, early: bytes) -> bool:
        """Pass on what the program says first; False if it greets another host than it was let through to."""
        allowed = self._evaluate(target)
        if isinstance(allowed, DeniedHost):
            return False
        if allowed.only_tls:
            early, name = await read_client_hello(program.reader, early)
            if name != ("" if parse_address(target.host) else target.host):
                refuse_name(program.writer)
                return False
        way.writer.write(early)
        return True

    async def _reach(
        self, live: _LiveConnection, target: Target, program: HttpPeer, *, plain: bool = False
    ) -> HostConnection:
        allowed = await self._must_be_allowed(target, live, program)
        live.target = target
        try:
            async with asyncio.timeout(self._patience.connect):
                return await self._outlet.connect(target, allowed, plain=plain)
        except TimeoutError as error:
            raise HostUnreachableError(504, f"{target}: no answer in {self._patience.connect:g} s") from error

    async def _must_be_allowed(self, target: Target, live: _LiveConnection, program: HttpPeer) -> AllowedHost:
        if self.inspection.is_closed(target):
            raise HostUnreachableError(403, f"no rule of the setting requests is for {target}")
        allowed = self._evaluate(target)
        if isinstance(allowed, DeniedHost) and allowed.askable and self._questions:
            live.lease.extend(self._patience.person)
            live.target, live.asks = target, True
            await self._questions.ask(target, program.wait_until_gone)
            live.asks = False
            live.lease.extend(self._patience.idle)
            allowed = self._evaluate(target)
        if isinstance(allowed, DeniedHost):
            raise HostUnreachableError(403, allowed.reason)
        return allowed

    async def _refuse(self, live: _LiveConnection, program: HttpPeer, status: int, reason: str) -> None:
        """Answer with the reason, and let the program read it."""
        if program.http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            live.lease.extend(self._patience.linger)
            await _send_error(program, status, reason)
        else:
            program.writer.transport.abort()  # a part of an answer must not look like all of it

    async def _tell_late(self, program: HttpPeer) -> None:
        """Tell a program why its time was over, if it waits for an answer."""
        if program.http.our_state is h11.SEND_RESPONSE:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.linger):
                    await _send_error(program, 504, "no data came for too long")
        else:
            program.writer.transport.abort()


def _create_peer(role: type[h11.CLIENT | h11.SERVER], stream: TlsStream, lease: IdleTimeout) -> HttpPeer:
    """Return a peer within TLS: its stream has all that a peer asks of a reader and of a writer."""
    return HttpPeer(role, cast("StreamReader", stream), cast("StreamWriter", stream), lease)


async def _accept_tunnel(program: HttpPeer) -> bytes:
    """Tell a program that its tunnel is there, and return what it said already in it."""
    while not isinstance(await program.receive_event(), h11.EndOfMessage):
        pass
    await program.send_event(h11.Response(status_code=200, reason=b"Connected", headers=[]))
    return program.http.trailing_data[0]


async def _send_error(program: HttpPeer, status: int, reason: str) -> None:
    """Give the reason where package managers show it, and in the body, where people look for it."""
    text = f"kakite: {reason}\n".encode("ascii", errors="replace")
    told = f"{_ANSWERS.get(status, 'Refused')} (kakite: {reason})".encode("ascii", errors="replace")
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text))), ("Connection", "close")]
    await program.send_event(h11.Response(status_code=status, reason=told, headers=headers))
    if program.method != b"HEAD":
        await program.send_event(h11.Data(data=text))
    await program.send_event(h11.EndOfMessage())
    await _linger(program)


async def _linger(program: HttpPeer) -> None:
    """Let the program read its answer: closed with something unread, the connection would lose it."""
    if program.writer.can_write_eof():
        program.writer.write_eof()
    while await program.reader.read(65536):
        pass
