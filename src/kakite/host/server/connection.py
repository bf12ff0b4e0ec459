"""Connects to one server, a program that is started or an address, and offers it as a plain toolset.

A connection that ended is explained in words that follow the server's name, without its secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import anyio
import httpx2
import mcp_types as mcp
from mcp import Client, MCPError
from mcp.client.session import MessageHandlerFnT
from mcp.shared.dispatcher import ProgressFnT

import kakite
from kakite.errors import ExternalError
from kakite.host.clean_text import clean, clean_and_redact, clean_tool
from kakite.host.config.model import HttpServer, ServerEntry, StdioServer
from kakite.host.from_mcp import to_meta, to_result, to_tool
from kakite.host.server.client_features import Callbacks
from kakite.host.server.tools import MAX_MESSAGE_CHARS, iter_tools, make_refused_result
from kakite.host.server.transport import (
    TransportState,
    open_http_streams,
    open_lenient_streams,
    open_pipe_streams,
)
from kakite.processes import STOP_TIMEOUT, ManagedProcess, OnOutput, ProcessError, ProcessSpec, start
from kakite.processes.process import STDERR_TAIL
from kakite.redaction import (
    Redaction,
    build_redaction,
    find_secret_spans,
    is_secret_flag_value,
    is_secret_name,
)
from kakite.tools.call_context import current_call
from kakite.tools.toolset import Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

START_TIMEOUT = 30.0  # s; a cold start of a server written in Python on a busy machine takes a few
CALL_TIMEOUT = 1800.0  # s; commands have their own, shorter limits: this one ends what never ends
SAID = 4000
"""Characters of stderr in a message; the rest is in the log."""
_READ_AHEAD = 1024 * 1024  # bytes of its output that wait to be taken apart
_EXIT_TIMEOUT = 0.8  # s for a program that closed its output to end, so that its exit code can be told

CONNECTION_ERRORS = (
    *(
        MCPError,
        ExceptionGroup,
        OSError,
        RuntimeError,
        ValueError,
    ),  # the last: what came is not of the protocol
    *(anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError, httpx2.SSEError),
)
"""What the SDK's client raises when the other side is gone, or speaks something else."""

_CLIENT_INFO = mcp.Implementation(name="kakite", version=kakite.__version__)
_NO_CALLBACKS: Callbacks = {
    "elicitation_callback": None,
    "list_roots_callback": None,
    "sampling_callback": None,
}


class ServerError(ExternalError):
    """A server could not be started, or does not answer.

    Codes: ``server_not_started``, ``server_resting``, ``server_stopped``, ``server_failed``.
    """

    code = "server_not_started"


@dataclass(slots=True, kw_only=True)
class ConnectionState:
    """The state of one connection to a server, also after its end."""

    wire: TransportState = field(default_factory=TransportState)
    child: ManagedProcess | None = None
    """None for an address, and before the program is started."""
    exit_code: int | None = None
    """How the program ended, if it ended by itself."""
    patience: float = STOP_TIMEOUT
    """Seconds of each step of stopping it; read when it is stopped."""

    def get_stderr_tail(self) -> str:
        """Return what it last wrote to stderr."""
        return self.child.get_stderr_tail() if self.child else ""


def format_stderr_tail(link: ConnectionState, redaction: Redaction) -> str:
    """Return the end of what the server wrote to stderr, safe for a terminal and without secrets."""
    tail = link.get_stderr_tail()
    whole = len(tail.encode(errors="surrogatepass")) < STDERR_TAIL  # else its beginning is gone
    shown = clean(tail if whole else tail[-STDERR_TAIL:], STDERR_TAIL)
    return (redaction.redact(shown) if whole else redaction.redact_tail(shown)).strip()[-SAID:]


async def _skip_validation(name: str, result: mcp.CallToolResult) -> None:
    """Do nothing: results are checked where the model is told, and a broken schema does not cost a result."""


@asynccontextmanager
async def open_client(
    reached: ProcessSpec | HttpServer,
    link: ConnectionState,
    *,
    mode: str = "auto",
    callbacks: Callbacks = _NO_CALLBACKS,
    on_message: MessageHandlerFnT | None = None,
    on_stderr: OnOutput | None = None,
    auth: httpx2.Auth | None = None,
) -> AsyncGenerator[Client]:
    """Reach a server and yield the SDK's client for it; at the end stop all that was started.

    To be entered and left by one task.

    Raises:
        ProcessError: the program could not be started.
        AddressError: the address must not be spoken to.
        FAULTS: the server ended, or speaks something else; also at the end, when that happened meanwhile.
    """
    async with AsyncExitStack() as stack:
        if isinstance(reached, ProcessSpec):
            child = await start(reached, limit=_READ_AHEAD, on_stderr=on_stderr)
            link.child = child
            stack.push_async_callback(_stop_child, link, child)
            streams = open_pipe_streams(child, link.wire)
        else:
            streams = open_http_streams(reached, link.wire, auth)
        client = await stack.enter_async_context(
            Client(
                open_lenient_streams(streams),
                mode=mode,
                cache=None,
                client_info=_CLIENT_INFO,
                message_handler=on_message,
                **callbacks,
            )
        )
        client.session.validate_tool_result = _skip_validation
        yield client


async def _stop_child(link: ConnectionState, child: ManagedProcess) -> None:
    try:
        if link.wire.ended:
            await record_exit(link)
    finally:  # also when cancelled while it waited
        await child.stop(link.patience)


async def record_exit(link: ConnectionState) -> None:
    """Learn how a program that closed its output ended, if it ends soon."""
    if link.child and link.exit_code is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT):
                link.exit_code = await link.child.wait()


class ServerToolset:
    """The tools of a running server."""

    def __init__(
        self, name: str, client: Client, link: ConnectionState, redaction: Redaction, *, trusted: bool
    ) -> None:
        self.name = name
        self._redaction = redaction
        self._client = client
        self._link = link
        self._trusted = trusted
        self._tools: tuple[Tool, ...] | None = None
        self._silent = False

    @property
    def is_closed(self) -> bool:
        """Whether it ended, or did not answer a call in time: it is of no more use."""
        return self._silent or self._link.wire.ended

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the server's tools, all pages of them; words of one that is not trusted are cleaned.

        Raises:
            ServerError: it did not list them. Code: ``server_failed``.
        """
        if self._tools is None:
            try:
                async with asyncio.timeout(START_TIMEOUT):
                    found = [to_tool(each, trusted=self._trusted) async for each in iter_tools(self._client)]
            except CONNECTION_ERRORS as fault:
                told = f"the server `{self.name}` did not list its tools"
                raise ServerError(
                    told, hint=self._get_failure_hint(str(fault)), code="server_failed"
                ) from fault
            self._tools = tuple(found if self._trusted else map(clean_tool, found))
        return self._tools

    async def call(self, call: ToolCall, *, within: float = CALL_TIMEOUT) -> ToolResult:
        """Call a tool. A server that died or is silent gives an error result with the tail of its stderr.

        Its progress is told to whoever listens to what the caller does, without control characters.
        """
        try:
            result = await self._client.call_tool(
                call.name,
                call.arguments,
                read_timeout_seconds=within,
                progress_callback=self._build_progress_callback(),
                meta=to_meta(call),
            )
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self._silent = isinstance(error, MCPError) and error.code == mcp.REQUEST_TIMEOUT
            if isinstance(error, MCPError) and not self.is_closed and error.code != mcp.CONNECTION_CLOSED:
                return make_refused_result(call, self._redaction.redact(error.message))
            return self._make_failed_result(str(error) or type(error).__name__)
        except (ValueError, RuntimeError) as error:  # no result of the protocol
            return make_refused_result(call, self._redaction.redact(str(error)))
        return to_result(result)

    def _build_progress_callback(self) -> ProgressFnT | None:
        on_progress = current_call().on_progress
        if on_progress is None:
            return None

        async def handle_progress(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, clean(self._redaction.redact(message or ""), MAX_MESSAGE_CHARS))

        return handle_progress

    def _get_failure_hint(self, reason: str) -> str:
        told = clean(self._redaction.redact(reason), SAID)
        return format_stderr_tail(self._link, self._redaction) or told or "it said nothing"

    def _make_failed_result(self, reason: str) -> ToolResult:
        tail = format_stderr_tail(self._link, self._redaction)
        words = f"\nit last said:\n{tail}" if tail else ""
        told = clean(self._redaction.redact(reason), SAID)
        return ToolResult(
            text=f"Error (server_failed): the server `{self.name}` did not answer: {told}{words}",
            is_error=True,
            code="server_failed",
        )


@asynccontextmanager
async def connect(launch: ProcessSpec, *, name: str, trusted: bool = False) -> AsyncGenerator[ServerToolset]:
    """Start a server and yield its toolset; stop it, and all that it started, at the end.

    ``trusted`` is for our own server: then its word on what a tool does is believed.

    Raises:
        ServerError: it could not be started, or did not answer in time.
    """
    # The session lives in a task of its own: what the caller raises then passes by its task groups unwrapped.
    ready: asyncio.Future[ServerToolset] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()
    owner = asyncio.create_task(
        _run_session(launch, name, ready, enough, trusted=trusted), name=f"server {name}"
    )
    try:
        yield await ready
    finally:
        enough.set()
        if ready.cancelled():
            owner.cancel()  # nobody waits for this server any more
        await wait_for_task(owner)


async def _run_session(
    launch: ProcessSpec,
    name: str,
    ready: asyncio.Future[ServerToolset],
    enough: asyncio.Event,
    *,
    trusted: bool,
) -> None:
    link = ConnectionState()
    redaction = build_redaction(launch.env)
    bound = asyncio.timeout(START_TIMEOUT)
    try:
        async with bound, open_client(launch, link) as client:
            bound.reschedule(None)
            if not ready.cancelled():
                ready.set_result(ServerToolset(name, client, link, redaction, trusted=trusted))
            await enough.wait()
    except ProcessError as error:
        _set_failure(ready, f"the server `{name}` cannot be started: {error.message}", error.hint)
    except CONNECTION_ERRORS:
        if ready.done() and not ready.cancelled():
            log.warning("the session with the server `%s` broke", name, exc_info=True)
        words = (
            format_stderr_tail(link, redaction) or "nothing"
        )  # its last words are complete: it is stopped by now
        _set_failure(
            ready, f"the server `{name}` ended or did not answer while it started", f"it said: {words}"
        )


def _set_failure(ready: asyncio.Future[ServerToolset], reason: str, hint: str) -> None:
    if not ready.done():
        ready.set_exception(ServerError(reason, hint=hint))


async def wait_for_task(task: asyncio.Task[None]) -> None:
    """Wait for a task that stops its server, also when we are cancelled meanwhile: it is bounded in time."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    if not task.cancelled():
        task.result()


_HARMLESS = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "content-type", "user-agent"),
        *("mcp-protocol-version", "bearer", "basic", "digest"),
    )
)
"""Headers, and words in them, that are no secrets."""
_MAX_ERROR_CHARS = 500
_MAX_GARBAGE_CHARS = 80


def describe_end(link: ConnectionState, redaction: Redaction) -> str:
    """Return how a server ended that did so by itself; empty when nothing tells."""
    garbage = _describe_garbage(link, redaction)
    if link.wire.fault:
        return link.wire.fault + garbage
    if link.exit_code is not None:
        return f"ended by itself, {_describe_exit(link.exit_code)}{garbage}"
    if link.wire.refused:
        return link.wire.refused
    return f"closed its output{garbage}" if link.wire.ended else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFailure:
    """The reason why a server that runs elsewhere cannot be used, and a way on."""

    code: str
    reason: str
    """Follows the server's name; names the address, without what may be secret in it."""
    hint: str


def explain_unreachable(
    entry: ServerEntry, link: ConnectionState, fault: BaseException
) -> ConnectionFailure | None:
    """Return why a server at an address cannot be used; None where nothing of that kind went wrong."""
    if not isinstance(entry.reached, HttpServer):
        return None
    where = redact_url(entry.reached.url)
    if link.wire.status >= 300:
        return _explain_status(link.wire.status, link.wire.refused, where, entry.name)
    causes = list(_iter_causes(fault))
    for kind, (code, what, hint) in _NO_WAY.items():
        if any(isinstance(cause, kind) for cause in causes):
            return ConnectionFailure(code=code, reason=f"cannot be reached at `{where}`: {what}", hint=hint)
    return None


def redact_url(url: str) -> str:
    """Return an address without login, query and fragment, where secrets stand."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_NO_WAY: Mapping[type[BaseException], tuple[str, str, str]] = {
    ssl.SSLError: (
        "tls_failed",
        "no TLS connection could be made",
        "is it `https://` that listens there, and is its certificate one that this machine trusts?",
    ),
    socket.gaierror: ("host_unknown", "its host is not known", "look at the address; is there a network?"),
    httpx2.ConnectTimeout: (
        "connect_timeout",
        "nothing answered",
        "look at host and port; something on the way may drop the packets",
    ),
    httpx2.ConnectError: (
        "connection_refused",
        "nobody listens there",
        "is the server running, and are host and port right?",
    ),
}
"""From the narrowest to the widest."""


def _explain_status(status: int, said: str, where: str, name: str) -> ConnectionFailure:
    code, hint = _HTTP.get(status, ("http_error", "look at the address, and into the logs of that server"))
    if status >= 500:
        code, hint = "http_server_error", "that server is broken or overloaded: try again later"
    elif status < 400:
        code, hint = "http_redirected", "write the address that it leads to: headers go to no other host"
    return ConnectionFailure(code=code, reason=f"{said} at `{where}`", hint=hint.format(name=name))


_HTTP = {
    401: (
        "http_unauthorized",
        "does the header or the variable with the key still hold a valid one? Without an `Authorization` "
        "header, `kakite host login {name}` logs in",
    ),
    403: ("http_forbidden", "the key or the login is known there, and may not do this: ask for the rights"),
    404: (
        "http_not_found",
        "look at the path: many end in `/mcp`; an old server wants `/sse` and `type: sse`",
    ),
    405: (
        "http_not_found",
        "look at the path: many end in `/mcp`; an old server wants `/sse` and `type: sse`",
    ),
    429: ("http_too_many", "that server wants fewer calls: try again later"),
}


def _iter_causes(fault: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = unwrap_group(fault)
    seen: list[BaseException] = []
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        found = found.__cause__ or found.__context__


def describe_start_failure(
    link: ConnectionState, fault: BaseException, waited: float, redaction: Redaction
) -> str:
    """Return why a server did not come up."""
    if known := describe_end(link, redaction):
        return known
    if isinstance(fault, TimeoutError):
        heard = "" if link.wire.heard else ", and never said a word"
        return f"did not list its tools within {waited:g} s{heard}{_describe_garbage(link, redaction)}"
    return f"failed while it started: {_describe_error(fault, redaction)}{_describe_garbage(link, redaction)}"


def describe_fault(link: ConnectionState, fault: BaseException, redaction: Redaction) -> str:
    """Return why a connection broke."""
    return describe_end(link, redaction) or f"is not reachable any more: {_describe_error(fault, redaction)}"


def collect_secrets(entry: ServerEntry) -> set[str]:
    """Return the values in an expanded entry that nobody shall be told."""
    reached = entry.reached
    if isinstance(reached, StdioServer):
        found = [value for name, value in reached.env.items() if is_secret_name(name)]
        words = (reached.command, *reached.args)
        found += [value for flag, value in pairwise(words) if is_secret_flag_value(flag, value)]
        shown = (*words, *reached.env.values())
        within = [text[start:end] for text in shown for start, end in find_secret_spans(text)]
        found += [*within, *(login.partition(":")[2] for login in within)]
    else:
        parts = urlsplit(reached.url)
        given = (reached.oauth.secret, parts.query, parts.username or "", parts.password or "")
        found = [value for name, value in reached.headers.items() if name.lower() not in _HARMLESS]
        found += [*given, *(value for _, value in parse_qsl(parts.query))]
        shown = (reached.url, reached.oauth.issuer, reached.oauth.metadata_url)
        found += [text[start:end] for text in shown for start, end in find_secret_spans(text)]
    words = {word for value in found for word in (value, *value.split())}
    return {*entry.secrets, *(word for word in words if word.lower() not in _HARMLESS)}


def _describe_exit(code: int) -> str:
    if code <= 128:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"with exit code {code}"


def _describe_garbage(link: ConnectionState, redaction: Redaction) -> str:
    if not link.wire.garbage:
        return ""
    line = link.wire.first_garbage.decode(errors="replace").strip()
    first = clean_and_redact(line, redaction, _MAX_GARBAGE_CHARS)
    return f" (it wrote {link.wire.garbage} lines to stdout that are not messages; the first: `{first}`)"


def unwrap_group(fault: BaseException) -> BaseException:
    """Return what is wrong, out of the groups that it was raised in."""
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault


def _describe_error(fault: BaseException, redaction: Redaction) -> str:
    fault = unwrap_group(fault)
    return clean_and_redact(str(fault) or type(fault).__name__, redaction, _MAX_ERROR_CHARS)
