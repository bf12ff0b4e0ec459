"""One connection to a server: a program that is started, or an address; and the same as a plain toolset."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import httpx2
import mcp_types as mcp
from mcp import Client, MCPError
from mcp.client.session import MessageHandlerFnT

import kakite
from kakite.errors import OutsideError
from kakite.host.calls import refused
from kakite.host.cleaning import clean, clean_tool
from kakite.host.convert import to_meta, to_result, to_tool
from kakite.host.definitions import pages
from kakite.host.entries import Address
from kakite.host.redaction import Redaction, secrets_of
from kakite.host.requests import Callbacks
from kakite.host.tolerance import tolerant
from kakite.host.transport import Wire, pipe_streams, web_streams
from kakite.processes import PATIENCE, Child, Launch, OnOutput, ProcessError, start
from kakite.processes.program import STDERR_TAIL
from kakite.tools.toolset import Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

START_TIMEOUT = 30.0  # s; a cold start of a server written in Python on a busy machine takes a few
CALL_TIMEOUT = 1800.0  # s; commands have their own, shorter limits: this one ends what never ends
SAID = 4000
"""Characters of stderr in a message; the rest is in the log."""
_READ_AHEAD = 1024 * 1024  # bytes of its output that wait to be taken apart
_LAST_WORDS = 0.8  # s for a program that closed its output to end, so that its exit code can be told

FAULTS = (
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

_ME = mcp.Implementation(name="kakite", version=kakite.__version__)
_NO_CALLBACKS: Callbacks = {
    "elicitation_callback": None,
    "list_roots_callback": None,
    "sampling_callback": None,
}


class ServerError(OutsideError):
    """A server could not be started, or does not answer.

    Codes: ``server_not_started``, ``server_resting``, ``server_stopped``, ``server_failed``.
    """

    code = "server_not_started"


@dataclass(slots=True, kw_only=True)
class Link:
    """What is known of one life of a server, also after its end."""

    wire: Wire = field(default_factory=Wire)
    child: Child | None = None
    """None for an address, and before the program is started."""
    exit_code: int | None = None
    """How the program ended, if it ended by itself."""
    patience: float = PATIENCE
    """Seconds of each step of stopping it; read when it is stopped."""

    def stderr_tail(self) -> str:
        """Return what it last wrote to stderr."""
        return self.child.stderr_tail() if self.child else ""


def said(link: Link, redaction: Redaction) -> str:
    """Return the end of what the server wrote to stderr, safe for a terminal and without secrets."""
    tail = link.stderr_tail()
    whole = len(tail.encode(errors="surrogatepass")) < STDERR_TAIL  # else its beginning is gone
    shown = clean(tail if whole else tail[-STDERR_TAIL:], STDERR_TAIL)
    return (redaction.text(shown) if whole else redaction.ending(shown)).strip()[-SAID:]


async def _unchecked(name: str, result: mcp.CallToolResult) -> None:
    """Do nothing: results are checked where the model is told, and a broken schema does not cost a result."""


@asynccontextmanager
async def opened(
    reached: Launch | Address,
    link: Link,
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
        if isinstance(reached, Launch):
            child = await start(reached, limit=_READ_AHEAD, on_stderr=on_stderr)
            link.child = child
            stack.push_async_callback(_part, link, child)
            streams = pipe_streams(child, link.wire)
        else:
            streams = web_streams(reached, link.wire, auth)
        client = await stack.enter_async_context(
            Client(
                tolerant(streams),
                mode=mode,
                cache=None,
                client_info=_ME,
                message_handler=on_message,
                **callbacks,
            )
        )
        client.session.validate_tool_result = _unchecked
        yield client


async def _part(link: Link, child: Child) -> None:
    try:
        if link.wire.ended:
            await note_exit(link)
    finally:  # also when cancelled while it waited
        await child.stop(link.patience)


async def note_exit(link: Link) -> None:
    """Learn how a program that closed its output ended, if it ends soon."""
    if link.child and link.exit_code is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                link.exit_code = await link.child.wait()


class ServerToolset:
    """The tools of a running server."""

    def __init__(self, name: str, client: Client, link: Link, redaction: Redaction, *, trusted: bool) -> None:
        self.name = name
        self._redaction = redaction
        self._client = client
        self._link = link
        self._trusted = trusted
        self._tools: tuple[Tool, ...] | None = None
        self._silent = False

    @property
    def gone(self) -> bool:
        """Whether it ended, or did not answer a call in time: it is of no more use."""
        return self._silent or self._link.wire.ended

    async def tools(self) -> tuple[Tool, ...]:
        """Return the server's tools, all pages of them; words of one that is not trusted are cleaned.

        Raises:
            ServerError: it did not list them. Code: ``server_failed``.
        """
        if self._tools is None:
            try:
                async with asyncio.timeout(START_TIMEOUT):
                    found = [to_tool(each, trusted=self._trusted) async for each in pages(self._client)]
            except FAULTS as fault:
                told = f"the server `{self.name}` did not list its tools"
                raise ServerError(told, hint=self._last_words(str(fault)), code="server_failed") from fault
            self._tools = tuple(found if self._trusted else map(clean_tool, found))
        return self._tools

    async def call(self, call: ToolCall, *, within: float = CALL_TIMEOUT) -> ToolResult:
        """Call a tool. A server that died or is silent gives an error result with the tail of its stderr."""
        try:
            result = await self._client.call_tool(
                call.name, call.arguments, read_timeout_seconds=within, meta=to_meta(call)
            )
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self._silent = isinstance(error, MCPError) and error.code == mcp.REQUEST_TIMEOUT
            if isinstance(error, MCPError) and not self.gone and error.code != mcp.CONNECTION_CLOSED:
                return refused(call, self._redaction.text(error.message))
            return self._broken(str(error) or type(error).__name__)
        except (ValueError, RuntimeError) as error:  # no result of the protocol
            return refused(call, self._redaction.text(str(error)))
        return to_result(result)

    def _last_words(self, reason: str) -> str:
        told = clean(self._redaction.text(reason), SAID)
        return said(self._link, self._redaction) or told or "it said nothing"

    def _broken(self, reason: str) -> ToolResult:
        tail = said(self._link, self._redaction)
        words = f"\nit last said:\n{tail}" if tail else ""
        told = clean(self._redaction.text(reason), SAID)
        return ToolResult(
            text=f"Error (server_failed): the server `{self.name}` did not answer: {told}{words}",
            is_error=True,
            code="server_failed",
        )


@asynccontextmanager
async def connect(launch: Launch, *, name: str, trusted: bool = False) -> AsyncGenerator[ServerToolset]:
    """Start a server and yield its toolset; stop it, and all that it started, at the end.

    ``trusted`` is for our own server: then its word on what a tool does is believed.

    Raises:
        ServerError: it could not be started, or did not answer in time.
    """
    # The session lives in a task of its own: what the caller raises then passes by its task groups unwrapped.
    ready: asyncio.Future[ServerToolset] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()
    owner = asyncio.create_task(_own(launch, name, ready, enough, trusted=trusted), name=f"server {name}")
    try:
        yield await ready
    finally:
        enough.set()
        if ready.cancelled():
            owner.cancel()  # nobody waits for this server any more
        await ended(owner)


async def _own(
    launch: Launch, name: str, ready: asyncio.Future[ServerToolset], enough: asyncio.Event, *, trusted: bool
) -> None:
    link = Link()
    redaction = secrets_of(launch.env)
    bound = asyncio.timeout(START_TIMEOUT)
    try:
        async with bound, opened(launch, link) as client:
            bound.reschedule(None)
            if not ready.cancelled():
                ready.set_result(ServerToolset(name, client, link, redaction, trusted=trusted))
            await enough.wait()
    except ProcessError as error:
        _fail(ready, f"the server `{name}` cannot be started: {error.message}", error.hint)
    except FAULTS:
        if ready.done() and not ready.cancelled():
            log.warning("the session with the server `%s` broke", name, exc_info=True)
        words = said(link, redaction) or "nothing"  # its last words are complete: it is stopped by now
        _fail(ready, f"the server `{name}` ended or did not answer while it started", f"it said: {words}")


def _fail(ready: asyncio.Future[ServerToolset], reason: str, hint: str) -> None:
    if not ready.done():
        ready.set_exception(ServerError(reason, hint=hint))


async def ended(task: asyncio.Task[None]) -> None:
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
