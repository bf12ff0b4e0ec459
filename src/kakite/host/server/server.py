"""Manages one server of a configuration: started when needed, watched, restarted, stopped completely.

A server that crashed waits before its next start (``RestartBackoff``).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from mcp import Client, MCPError

from kakite.host.clean_text import clean_and_redact
from kakite.host.config.model import HttpServer, ServerEntry
from kakite.host.oauth.provider import create_auth, get_login_folder
from kakite.host.server.client_features import (
    CannotElicitError,
    Elicitation,
    HostContext,
    PendingCall,
    ask_elicitor,
)
from kakite.host.server.connection import (
    CONNECTION_ERRORS,
    ServerError,
    collect_secrets,
    describe_fault,
    format_stderr_tail,
    wait_for_task,
)
from kakite.host.server.deadlines import Deadline, PausableClock
from kakite.host.server.session import ServerSession
from kakite.host.server.stderr_log import StderrLog, get_log_file
from kakite.host.server.tools import (
    MAX_MESSAGE_CHARS,
    CompiledTool,
    ConnectionLostError,
    ServerToolDefinition,
    find_argument_error,
    make_refused_result,
    perform,
)
from kakite.processes import STOP_TIMEOUT
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.call_context import ProgressCallback, current_call
from kakite.tools.toolset import JsonObject, ToolCall, ToolResult

StatusKind = Literal["idle", "starting", "ready", "resting", "failed", "stopped"]

INITIAL_BACKOFF = 0.5
MAX_BACKOFF = 30.0
BACKOFF_RESET_AFTER = 60.0
"""Seconds without a crash after which the crashes before count no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The status of a server.

    ``idle``: not running, started when needed. ``starting``. ``ready``: its tools are listed. ``resting``: it
    crashed, and is started again after its rest. ``failed``: it never came up, and is tried again after its
    rest. ``stopped``: by the host, for good.
    """

    kind: StatusKind
    code: str = ""
    """Of the error that it failed or rests for: ``connection_refused``, ``server_not_started``…"""
    reason: str = ""
    """Why it failed or rests, in a sentence that names it."""
    hint: str = ""
    """What it last wrote to stderr, safe for a terminal; or what to do."""
    retry_at: float = 0.0
    """When its rest is over, by ``time.monotonic``."""


class RestartBackoff:
    """Counts a server's crashes, and says how long it rests after the next."""

    def __init__(self) -> None:
        self._count = 0

    def record_crash(self, *, lasted: float) -> float:
        """Note a crash after ``lasted`` seconds of readiness; return the seconds of rest."""
        if lasted >= BACKOFF_RESET_AFTER:
            self._count = 0
        self._count += 1
        return min(MAX_BACKOFF, INITIAL_BACKOFF * 2 ** (self._count - 1))

    def reset(self) -> None:
        """Begin anew."""
        self._count = 0


__all__ = ["HostContext", "Server", "ServerError", "ServerStatus", "ServerToolDefinition", "stop_all"]

log = logging.getLogger(__name__)

MAX_BACKOFF_WAIT = 2.0
"""Seconds that a call waits for a server to have rested; for a longer rest it fails at once."""
STOP_LIMIT = 12.0
"""Seconds for all servers together to stop; who is left then is killed."""
_KILL_LIMIT = 8.0
_CLOSE_TIMEOUT = 3.0  # s for an address to hear that the session is over
_BACKOFF_KINDS = frozenset(("failed", "resting"))
"""How it is while it may not be started again yet."""

_T = TypeVar("_T")
Permit = Callable[[tuple[ServerToolDefinition, ...]], ToolResult | None]


class Server:
    """One server. Its entry is expanded: what it names is started and sent as it stands.

    Everything may be called by any task at any time, and cancelled.
    """

    def __init__(
        self, entry: ServerEntry, surroundings: HostContext, *, patience: float = STOP_TIMEOUT
    ) -> None:
        self.entry = entry
        self.name = entry.name
        self.changed = 0
        """Grows whenever the tools may be others than before: told by the server, or after a restart."""
        self.clock = PausableClock()
        """Stands still while this server waits for a person."""
        self._surroundings = surroundings
        self._patience = patience
        self._status = ServerStatus(kind="idle")
        self._life: ServerSession | None = None
        """The one that starts or is ready."""
        self._last: ServerSession | None = None
        """The one that was ready last."""
        self._owner: asyncio.Task[None] | None = None
        self._reviving: asyncio.Task[None] | None = None
        self._crashes = RestartBackoff()
        self._authorization = create_auth(
            entry,
            get_login_folder(surroundings.state),
            visitor=surroundings.visitor,
            paused=self._pause_clock,
            learn=surroundings.redaction.add_secrets,
        )
        surroundings.redaction.add_secrets(collect_secrets(entry))
        self._log = StderrLog(
            get_log_file(surroundings.state, entry.name), hide=surroundings.redaction.make_stream_filter()
        )
        self._ready_since = 0.0
        self._begun_at = self._fell_at = 0.0
        self._busy = 0
        self._free = asyncio.Event()
        self._free.set()
        self._retired = False
        self._nap: asyncio.Timeout | None = None
        self._used = 0.0

    @property
    def status(self) -> ServerStatus:
        """The present status."""
        return self._status

    @property
    def startup_error(self) -> ServerError | None:
        """The reason why it has no tools at all: it never came up, and waits for a retry or makes one."""
        if self._last or not self._fell_at:
            return None
        if self._status.kind == "starting":
            return ServerError(f"the server `{self.name}` did not come up, and is being started again")
        return self._make_backoff_error(self._status) if self._status.kind == "failed" else None

    @property
    def is_retry_due(self) -> bool:
        """Whether it never came up, and may be tried again now."""
        return self._status.kind == "failed" and self._status.retry_at <= time.monotonic()

    def get_stderr_tail(self) -> str:
        """Return the end of what it wrote to stderr in its last life, safe for a terminal."""
        life = self._life or self._last
        return format_stderr_tail(life.link, self._surroundings.redaction) if life else ""

    async def start(self) -> None:
        """Start it now, also when it failed, rests or was stopped before; nothing when it runs.

        Raises:
            ServerError: it could not be started.
        """
        if self._life is None:
            self._crashes.reset()
            self._status = ServerStatus(kind="idle")
        await self._get_ready_session()

    async def list_definitions(self) -> tuple[ServerToolDefinition, ...]:
        """Return its tools. Starts it when they are not known; lists them again when they changed.

        Raises:
            ServerError: it could not be started, or did not list them.
        """
        if self._life is None and self._last and self._status.kind in {"idle", "resting"}:
            return self._last.definitions  # what it offered; a call starts it again
        life = await self._get_ready_session()
        if life.is_stale:
            with self._track_use():
                await life.refresh_tools()
        return life.definitions

    async def call(
        self, call: ToolCall, *, on_progress: ProgressCallback | None = None, permit: Permit | None = None
    ) -> ToolResult:
        """Call a tool under the server's own name for it. Whatever the server does, this is answered.

        Its progress is told to ``on_progress``, by default to whoever listens to what the caller does. It
        has no control characters. ``permit`` is given the tools as they are right before the call is sent; a
        result of it is the call's.
        """
        with self._track_use():
            try:
                return await self._call_with_retry(
                    call, on_progress or current_call().on_progress, permit, again=True
                )
            except ServerError as error:
                return to_error_result(error)

    async def request(self, send: Callable[[Client], Awaitable[_T]]) -> _T:
        """Send what is no call of a tool, within the times of a call, and return the answer.

        Raises:
            ServerError: it could not be started, ended, did not answer in time, or says no.
        """
        with self._track_use():
            life = await self._get_ready_session()
            if life.client is None:
                raise self._make_stopped_error()
            with life.track_call() as pending:
                try:
                    async with Deadline(self.entry.timeouts, self.clock, self._surroundings.clock):
                        return await send(life.client)
                except TimeoutError as error:
                    told = f"the server `{self.name}` did not answer in time"
                    raise ServerError(told, code="call_timed_out") from error
                except ValueError as error:
                    told = f"the server `{self.name}` answered what is not of the protocol"
                    raise ServerError(told, code="invalid_result") from error
                except CONNECTION_ERRORS as error:
                    raise self._make_request_error(life, error, pending) from error

    def _make_request_error(
        self, life: ServerSession, error: BaseException, pending: PendingCall
    ) -> ServerError:
        redaction = self._surroundings.redaction
        if isinstance(error, MCPError) and not life.is_lost(ConnectionLostError(error.message)):
            said = clean_and_redact(error.message, redaction, MAX_MESSAGE_CHARS)
            unasked = dict.fromkeys(each.message for each in pending.unasked)
            hint = f"{'; '.join(unasked)}. Use a client that can ask the person" if unasked else ""
            return ServerError(f"the server `{self.name}` refused: {said}", hint=hint, code="call_refused")
        return life.make_server_error(describe_fault(life.link, error, redaction), "server_failed")

    def update_entry(self, entry: ServerEntry) -> None:
        """Take over what its entry says now of time-outs, tools and lifecycle. It goes on running."""
        self.entry = entry
        for life in (self._life, self._last):
            if life:
                life.update_entry(entry)
        self._mark_changed()
        if self._nap and not self._nap.expired():
            self._nap.reschedule(0)  # how long it may be idle is another now
        if entry.lifecycle == "keep-alive" and self._status.kind in _BACKOFF_KINDS:
            self._schedule_revive(self._status.retry_at - time.monotonic())

    async def retire(self, within: float) -> None:
        """Stop it once its calls have ended, or after those seconds. It is not started again meanwhile."""
        self._retired = True
        if self._reviving:
            self._reviving.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._free.wait()
        await self.stop()

    async def stop(self) -> None:
        """Stop it, and all that it started. Takes 10 seconds at worst, also when cancelled meanwhile."""
        if self._reviving:
            self._reviving.cancel()
        self._status = ServerStatus(kind="stopped")
        if life := self._life:
            self._life = None
            life.finish()
            if life.client:
                self._last = life
            elif self._owner:
                self._owner.cancel()  # it is still starting
        if self._owner:
            await wait_for_task(self._owner)
        self._log.close()

    def kill(self) -> None:
        """Kill what it started, at once: for one that does not stop in time."""
        for life in (self._life, self._last):
            if life and life.link.child:
                life.link.child.kill()

    async def _call_with_retry(
        self, call: ToolCall, on_progress: ProgressCallback | None, permit: Permit | None, *, again: bool
    ) -> ToolResult:
        life = self._life
        if life is None or life.client is None:
            life = await self._get_ready_session()
        if life.is_stale:
            await life.refresh_tools()
        if permit and (refusal := permit(life.definitions)):
            return refusal
        client, offered = life.client, life.offered.get(call.name)
        if offered is None or client is None:
            return _make_unknown_tool_result(call, life)
        if wrong := find_argument_error(offered, call):
            return wrong
        timeouts = self.entry.tool_timeouts.get(call.name, self.entry.timeouts)
        deadline = Deadline(timeouts, self.clock, self._surroundings.clock)
        try:
            with life.track_call() as pending:
                result = await perform(
                    client, offered, call, deadline, on_progress, self._surroundings.redaction
                )
        except ConnectionLostError as lost:
            if not life.is_lost(lost):
                said = clean_and_redact(lost.message, self._surroundings.redaction, MAX_MESSAGE_CHARS)
                return make_refused_result(call, said)
            life.mark_lost("closed the connection")
            await life.over.wait()
        else:
            noted = _add_notes(result, (f"{each.message}. {each.hint}" for each in pending.unasked))
            return await self._show_visits(noted) if noted.code == "visit_required" else noted
        if again and _can_repeat(offered) and not life.enough:
            return await self._call_with_retry(call, on_progress, permit, again=False)
        return self._make_broken_result(call, life)

    async def _show_visits(self, result: ToolResult) -> ToolResult:
        """Show the person the addresses to visit, where there is one; what they said of them is added."""
        elicit, answers = self._surroundings.elicit, list[str]()
        told: list[JsonObject] = result.details["visits"] if elicit else []
        for visit in told:
            asked = Elicitation(server=self.name, message=visit["message"], url=visit["url"])
            try:
                with self.clock.pause():
                    answers.append((await ask_elicitor(elicit, asked)).action)
            except CannotElicitError:
                break  # the result has the addresses
        if not answers:
            return result
        said = f"\nThe person was shown: {', '.join(answers)}."
        return replace(result, text=result.text + said, details={**result.details, "answers": answers})

    async def _get_ready_session(self) -> ServerSession:
        """Return its life once it is ready. Whoever comes meanwhile shares the start."""
        if self._life is None:
            await self._wait_for_backoff()
        life = self._life or self._start_session()
        if error := await asyncio.shield(life.ready):
            raise ServerError(error.message, hint=error.hint, code=error.code)  # each gets one of its own
        return life

    async def _wait_for_backoff(self) -> None:
        """Wait until it may be started.

        Raises:
            ServerError: it may not, or not soon.
        """
        status = self._status
        if status.kind == "stopped" or self._retired:
            raise self._make_stopped_error()
        left = status.retry_at - time.monotonic()
        if status.kind not in _BACKOFF_KINDS or left <= 0:
            return
        if left > MAX_BACKOFF_WAIT:
            raise self._make_backoff_error(status)
        await asyncio.sleep(left)
        if self._life is None:
            await self._wait_for_backoff()  # what happened meanwhile counts

    def _make_backoff_error(self, status: ServerStatus) -> ServerError:
        left = max(status.retry_at - time.monotonic(), 0)
        told = f"{status.reason}. It is started again in {left:.0f} s at the earliest"
        code = "server_resting" if status.kind == "resting" else status.code
        return ServerError(told, hint=status.hint, code=code)

    def _make_stopped_error(self) -> ServerError:
        return ServerError(f"the server `{self.name}` is stopped", code="server_stopped")

    def _start_session(self) -> ServerSession:
        life = ServerSession(
            self.entry,
            self._surroundings,
            clock=self.clock,
            log=self._log,
            authorization=self._authorization,
        )
        life.on_change = self._mark_changed
        self._life = life
        self._begun_at = time.monotonic()
        self._status = ServerStatus(kind="starting")
        # A context of its own: nothing of whoever happens to call first shall live on in the session.
        self._owner = asyncio.create_task(
            self._run_session(life, self._owner), name=f"server {self.name}", context=contextvars.Context()
        )
        return life

    async def _run_session(self, life: ServerSession, before: asyncio.Task[None] | None) -> None:
        """Own a life from start to end: the SDK's client is entered and left by this one task."""
        try:
            if before:
                await wait_for_task(before)
            async with AsyncExitStack() as stack:
                await life.open(stack, self._patience)
                self._on_opened(life)
                await self._watch(life)
                if not life.enough:
                    await life.record_end()
                self._detach_session(life)
                async with asyncio.timeout(
                    _CLOSE_TIMEOUT if isinstance(self.entry.reached, HttpServer) else None
                ):
                    await stack.aclose()
        except ServerError as error:
            self._on_open_failed(life, error)
        except asyncio.CancelledError:
            life.finish()  # wanted: by `stop`, or because the whole program ends
            raise
        except CONNECTION_ERRORS as fault:
            life.lost = describe_fault(life.link, fault, self._surroundings.redaction)
        finally:
            self._detach_session(life)
            if not life.ready.done():
                life.ready.set_result(self._make_stopped_error())

    def _on_opened(self, life: ServerSession) -> None:
        self._ready_since = self._used = time.monotonic()
        if self._last or self._fell_at:
            self._mark_changed()
        if self._life is life:
            self._status = ServerStatus(kind="ready")
            self._last = life
        life.ready.set_result(None)

    def _mark_changed(self) -> None:
        self.changed += 1

    async def _watch(self, life: ServerSession) -> None:
        """Return when it ended, shall end, or was not used for long."""
        while not life.stir.is_set():
            left = self._get_idle_left()
            if left is not None and left <= 0:
                life.finish()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left) as self._nap:
                    await life.stir.wait()
            self._nap = None

    def _get_idle_left(self) -> float | None:
        if self.entry.lifecycle != "lazy" or self.entry.idle_stop <= 0:
            return None
        used = time.monotonic() if self._busy else self._used
        return used + self.entry.idle_stop - time.monotonic()

    def _detach_session(self, life: ServerSession) -> None:
        """Let nobody use a life any more, and note why. Does nothing the second time."""
        if life.over.is_set():
            return
        life.client = None
        if self._life is life:
            self._life = None
            if life.enough:
                self._status = ServerStatus(kind="idle")
            else:
                lasted = time.monotonic() - self._ready_since
                self._on_crash(
                    "resting", life.make_server_error(life.lost or "ended", "server_failed"), lasted=lasted
                )
        life.over.set()

    def _on_open_failed(self, life: ServerSession, error: ServerError) -> None:
        if self._life is life:
            self._life = None
            quiet = self._begun_at - self._fell_at  # how long it takes to fail is no peace
            self._on_crash("resting" if self._last else "failed", error, lasted=quiet)
        life.ready.set_result(error)

    def _on_crash(self, kind: Literal["failed", "resting"], error: ServerError, *, lasted: float) -> None:
        rest = self._crashes.record_crash(lasted=lasted)
        self._fell_at = time.monotonic()
        retry_at = self._fell_at + rest
        self._status = ServerStatus(
            kind=kind, code=error.code, reason=error.message, hint=error.hint, retry_at=retry_at
        )
        log.warning("%s; it may be started again in %g s", error.message, rest)
        if self.entry.lifecycle == "keep-alive" and not self._retired:
            self._schedule_revive(rest)

    def _schedule_revive(self, rest: float) -> None:
        if self._reviving:
            self._reviving.cancel()
        self._reviving = asyncio.create_task(self._revive(rest), context=contextvars.Context())

    async def _revive(self, rest: float) -> None:
        await asyncio.sleep(rest)
        with suppress(ServerError):
            await self._get_ready_session()

    def _make_broken_result(self, call: ToolCall, life: ServerSession) -> ToolResult:
        if life.enough:
            return to_error_result(
                life.make_server_error(f"was stopped while it performed `{call.name}`", "server_stopped")
            )
        reason = f"{life.lost or 'ended'} while it performed `{call.name}`; what it did until then is done"
        return to_error_result(life.make_server_error(reason, "server_failed"))

    @contextmanager
    def _pause_clock(self) -> Generator[None]:
        """Let no time pass: it is not the server that is waited for."""
        if self._life:
            self._life.link.wire.heard = True  # it said at least that it wants to know who we are
        with self.clock.pause():
            yield

    @contextmanager
    def _track_use(self) -> Generator[None]:
        self._busy += 1
        self._free.clear()
        try:
            yield
        finally:
            self._busy -= 1
            self._used = time.monotonic()
            if not self._busy:
                self._free.set()


async def stop_all(servers: Iterable[Server], *, within: float = STOP_LIMIT) -> None:
    """Stop servers, all at once. Those that are not stopped ``within`` seconds are killed.

    Also when cancelled meanwhile: the cancellation goes on afterwards.
    """
    await wait_for_task(asyncio.create_task(_stop_all(tuple(servers), within)))


async def _stop_all(servers: tuple[Server, ...], within: float) -> None:
    stopping = {asyncio.create_task(server.stop()): server for server in servers}
    if not stopping:
        return
    _, late = await asyncio.wait(stopping, timeout=within)
    for task in late:
        stopping[task].kill()
    if late:
        await asyncio.wait(late, timeout=_KILL_LIMIT)


def _make_unknown_tool_result(call: ToolCall, life: ServerSession) -> ToolResult:
    hint = suggest_name(call.name, life.offered)
    return to_error_result(
        ToolError(f"the server `{life.entry.name}` has no tool `{call.name}`", hint=hint, code="unknown_tool")
    )


def _add_notes(result: ToolResult, notes: Iterable[str]) -> ToolResult:
    """Return the result with what the one who called has to know beside it."""
    told = "".join(f"\nnote: {note}" for note in dict.fromkeys(notes))
    return replace(result, text=result.text + told) if told else result


def _can_repeat(offered: CompiledTool) -> bool:
    # Of a server that is not trusted, our tool says neither.
    return offered.definition.tool.idempotent or offered.definition.tool.effect == "read"
