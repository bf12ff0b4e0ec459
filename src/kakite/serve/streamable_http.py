"""Serves a toolset over streamable HTTP, to several clients at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.errors import ExternalError, UsageError
from kakite.http.security import TransportSecurity, add_transport_security
from kakite.http.shutdown import end_process, handle_signals, set_thread_pool
from kakite.serve.http_limits import limit_body, limit_sessions

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from kakite.serve.server import McpServer

PATH = "/mcp"
_GRACE = 1  # s for requests to end by themselves, once the server has to
_EXIT_TIMEOUT = 1.8  # s until the process ends at the latest


class ListenError(ExternalError):
    """The address cannot be listened on.

    Code: ``listen_failed``.
    """

    code = "listen_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindAddress:
    """An address to listen on."""

    host: str
    port: int
    """0 takes any that is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one server for its clients, so that none of them can use it up."""

    body: int = 16 * 1024 * 1024
    """Bytes that one request may have."""
    body_time: float = 30
    """Seconds in which they have to be there."""
    head_time: float = 10
    """Seconds in which the headers before them have to be there."""
    connections: int = 512
    """That are open at once; half of what the system allows, if that is less."""
    sessions: int = 256
    """That are open at once. A new one takes the place of the one that was idle for the longest time."""
    idle_time: float = 30 * 60
    """Seconds without a request or an open stream after which a session ends."""
    unused_time: float = 5
    """Seconds after which a session that was opened and never used makes room before all others."""
    websocket: int = 0
    """Bytes that a message of a websocket may have; 0: there are no websockets."""


DEFAULT_LIMITS = ServerLimits()


def parse_address(text: str) -> BindAddress:
    """Read ``HOST:PORT``; an IPv6 address stands in brackets.

    Raises:
        UsageError: it is no address.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"`{text}` is not an address to listen on", hint="give HOST:PORT, as 127.0.0.1:8811")
    return BindAddress(host=host.removeprefix("[").removesuffix("]"), port=int(port))


def listen(address: BindAddress, flag: str = "") -> socket.socket:
    """Return a socket that listens there; ``flag`` is what names the address on the command line.

    Raises:
        ListenError: it cannot.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        shown = f"{address.host}:{address.port}"
        reason = error.strerror or str(error)
        hint = f"`{flag} 127.0.0.1:0` takes a free port" if flag else "port 0 takes a free one"
        raise ListenError(f"`{shown}` cannot be listened on: {reason}", hint=hint) from error


def get_url(listening: socket.socket) -> str:
    """Return the address that clients are given."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"


def build_app(server: McpServer, gate: TransportSecurity, limits: ServerLimits = DEFAULT_LIMITS) -> ASGIApp:
    """Return the web application: one path, behind the security checks."""
    return add_transport_security(build_mountable_app(server, limits)[0], gate)


def build_mountable_app(
    server: McpServer, limits: ServerLimits = DEFAULT_LIMITS
) -> tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[object]]]:
    """Return the web application for another one to hand requests to, and what must be open meanwhile.

    Who is let in is up to the other.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=limits.body,
        session_idle_timeout=limits.idle_time,
        max_sessions=limits.sessions,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),  # TransportSecurity does it
    )
    recycled = limit_sessions(app, path=PATH, unused=limits.unused_time)
    bodies = limit_body(recycled, most=limits.body, seconds=limits.body_time)
    return bodies, lambda: app.router.lifespan_context(app)


async def serve_http(
    server: McpServer,
    listening: socket.socket,
    gate: TransportSecurity,
    limits: ServerLimits = DEFAULT_LIMITS,
) -> None:
    """Serve on this socket until SIGINT or SIGTERM; within two seconds the process ends with 130 or 143."""
    logging.getLogger("mcp.server.streamable_http").addFilter(_is_unexpected_error)
    # It warns that it refuses a session for which another one makes room then.
    logging.getLogger("mcp.server.streamable_http_manager").setLevel(logging.ERROR)
    await serve_app(build_app(server, gate, limits), listening, limits)


async def serve_app(app: ASGIApp, listening: socket.socket, limits: ServerLimits = DEFAULT_LIMITS) -> None:
    """Serve any web application so; who may come in, and what a body may be, is up to it."""
    web = _create_web_server(app, limits)
    set_thread_pool()
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with handle_signals(status):
        serving = asyncio.create_task(web.serve(sockets=[listening]))
        try:
            await asyncio.wait({serving, status}, return_when=asyncio.FIRST_COMPLETED)
            if status.done():
                web.should_exit = True
                await asyncio.wait({serving}, timeout=_EXIT_TIMEOUT)
                end_process(status.result())
            await serving
        finally:
            web.should_exit = True
            await asyncio.wait({serving}, timeout=_EXIT_TIMEOUT)
            serving.cancel()


@contextlib.asynccontextmanager
async def serve_in_background(
    app: ASGIApp, listening: socket.socket, limits: ServerLimits = DEFAULT_LIMITS
) -> AsyncGenerator[None]:
    """Serve a web application beside other work, as long as the block lasts. Signals are up to the others."""
    web = _create_web_server(app, limits)
    serving = asyncio.create_task(web.serve(sockets=[listening]))
    try:
        yield
    finally:
        web.should_exit = True
        await asyncio.wait({serving}, timeout=_EXIT_TIMEOUT)
        serving.cancel()


def _create_web_server(app: ASGIApp, limits: ServerLimits) -> uvicorn.Server:
    import uvicorn

    from kakite.http.connection_limits import create_bounded_protocol, get_backlog

    logging.getLogger("uvicorn.error").addFilter(_is_unexpected_error)

    class WebServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield  # ours are in force

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=create_bounded_protocol(limits.connections, limits.head_time),
        backlog=get_backlog(),
        ws="websockets-sansio" if limits.websocket else "none",
        ws_max_size=limits.websocket,
        ws_per_message_deflate=False,
        loop="none",
        timeout_graceful_shutdown=_GRACE,
    )
    return WebServer(config)


def _is_unexpected_error(record: logging.LogRecord) -> bool:
    from starlette.requests import ClientDisconnect

    kind = record.exc_info[0] if record.exc_info else None
    # Clients may leave when they like, and a server that ends leaves those that still send.
    return not (kind and issubclass(kind, (ClientDisconnect, asyncio.CancelledError)))
