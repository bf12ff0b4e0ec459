"""Runs one session with a server: the handshake, in either era of the protocol, and the state that it has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import mcp_types as mcp
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kakite.errors import KakiteError
from kakite.host.config.model import HttpServer, ServerEntry, StdioServer, Timeouts
from kakite.host.oauth.provider import OAuthAuth
from kakite.host.server.client_features import HostContext, PendingCall, build_callbacks
from kakite.host.server.connection import (
    CONNECTION_ERRORS,
    ConnectionState,
    ServerError,
    describe_end,
    describe_start_failure,
    explain_unreachable,
    format_stderr_tail,
    open_client,
    record_exit,
    unwrap_group,
)
from kakite.host.server.deadlines import Deadline, PausableClock
from kakite.host.server.protocol_version import (
    SILENCE_TIMEOUT,
    HandshakeAttempt,
    ProtocolEra,
    VersionCache,
    plan_attempts,
)
from kakite.host.server.stderr_log import StderrLog
from kakite.host.server.tools import (
    CompiledTool,
    ConnectionLostError,
    ServerToolDefinition,
    is_included,
    list_definitions,
)
from kakite.host.server.transport import AddressError
from kakite.processes import ProcessError, ProcessSpec, Stream, build_base_environment
from kakite.tools.call_context import current_call

_USER_VARIABLES = ("LOGNAME", "SHELL", "USER")
_SHORT_STOP_TIMEOUT = 0.25  # s; for one that did not answer at all, and is started again at once
_LISTEN_RETRY_DELAY = 1.0  # s
_POLL_INTERVAL = 0.25  # s between two looks at how busy a server is that says nothing
_OLDER_TRANSPORT_STATUSES = (400, 404, 405)
"""What a server of the transport before answers to the first request of the present one."""
_SSE_TIMEOUT = 5.0  # s for a server to begin in that
_CANNOT_RUN_CODES = (126, 127)  # as in a shell


class ServerSession:
    """From the start of a server to its end. ``open`` and the end of its stack belong to one task."""

    def __init__(
        self,
        entry: ServerEntry,
        surroundings: HostContext,
        *,
        clock: PausableClock,
        log: StderrLog,
        authorization: OAuthAuth | None = None,
    ) -> None:
        self.entry = entry
        self.link = ConnectionState()
        self.client: Client | None = None
        """None before it is ready, and once it ends."""
        self.definitions: tuple[ServerToolDefinition, ...] = ()
        self.offered: dict[str, CompiledTool] = {}
        self.changes = 0
        """How often its tools changed."""
        self.calls: list[PendingCall] = []
        """Those that wait for its answer."""
        self.ready: asyncio.Future[ServerError | None] = asyncio.get_running_loop().create_future()
        self.stir = asyncio.Event()
        """Set when it shall end, or did."""
        self.enough = False
        """Whether it shall end."""
        self.lost = ""
        """Why it ended by itself."""
        self.over = asyncio.Event()
        """Set when it is known why it ended."""
        self.on_change: Callable[[], None] = lambda: None
        self._surroundings = surroundings
        self._clock = clock
        self._log = log
        self._authorization = authorization
        self._sandboxed: ProcessSpec | None = None
        self._as_sse = False
        self._eras = VersionCache(surroundings.state)
        self._guess: ProtocolEra | None = None  # what it seems to speak, after another way did not work
        self._listed: tuple[ServerToolDefinition, ...] = ()
        self._listing = asyncio.Lock()
        self._listed_at = -1

    @property
    def is_stale(self) -> bool:
        """Whether its tools changed since they were listed."""
        return self._listed_at != self.changes

    @contextmanager
    def track_call(self) -> Generator[PendingCall]:
        """Let the server ask the one who called, during the block."""
        pending = PendingCall(context=current_call())
        self.calls.append(pending)
        try:
            yield pending
        finally:
            self.calls.remove(pending)
            pending.over.set()

    def update_entry(self, entry: ServerEntry) -> None:
        """Offer the tools that its entry, which has changed, includes now."""
        self.entry = entry
        self._filter_tools()

    def finish(self) -> None:
        """Let it end."""
        self.enough = True
        self.stir.set()

    def mark_lost(self, reason: str) -> None:
        """Note that it ended by itself."""
        self.lost = self.lost or reason
        self.stir.set()

    def is_lost(self, lost: ConnectionLostError) -> bool:
        """Tell whether the connection is lost: the number of that error is free for servers to use, too."""
        if isinstance(self.entry.reached, HttpServer):
            return lost.message == "Connection closed" or lost.message.startswith("SSE stream")
        return self.stir.is_set() or self.link.wire.ended

    def make_server_error(self, reason: str, code: str = "server_not_started") -> ServerError:
        """Return the error that names the server, the reason, and what it said last."""
        if refusal := self._refusal:
            return ServerError(refusal.message, hint=refusal.hint, code=refusal.code)
        tail = format_stderr_tail(self.link, self._surroundings.redaction)
        hint = f"it said: {tail}" if tail else "it said nothing on stderr"
        told = self._surroundings.redaction.redact(f"the server `{self.entry.name}` {reason}")
        return ServerError(told, hint=hint, code=code)

    @property
    def _refusal(self) -> KakiteError | None:
        return self._authorization.refusal if self._authorization else None

    async def open(self, stack: AsyncExitStack, patience: float) -> None:
        """Reach the server and list its tools; ``stack`` then stops it, with ``patience`` for each step.

        Raises:
            ServerError: it could not be started.
        """
        waited = self.entry.timeouts.start
        await self._enter_sandbox(stack)
        try:
            async with self._create_start_deadline():
                fault = await self._try_attempts(stack)
        except TimeoutError as error:
            fault = error
            if self._guess:  # the next try need not find out again, and has the whole time
                self._eras.remember(self.entry, self._get_search_path(), self._guess)
        except (ProcessError, AddressError) as error:
            reason = f"the server `{self.entry.name}` cannot be started: {error.message}"
            raise ServerError(reason, hint=error.hint) from error
        if fault and not self._refusal and (no := explain_unreachable(self.entry, self.link, fault)):
            told = f"the server `{self.entry.name}` {no.reason}"
            redaction = self._surroundings.redaction
            raise ServerError(redaction.redact(told), hint=no.hint, code=no.code)
        if fault:
            raise self.make_server_error(
                describe_start_failure(self.link, fault, waited, self._surroundings.redaction)
            )
        self.link.patience = patience

    async def _enter_sandbox(self, stack: AsyncExitStack) -> None:
        """Make the sandbox that the entry wants; ``stack`` then removes it, after the server in it."""
        reached = self.entry.reached
        if not isinstance(reached, StdioServer) or reached.sandbox is None:
            return
        from kakite.host.server.sandbox import open_server_sandbox

        opened = open_server_sandbox(
            reached, reached.sandbox, self._surroundings.environ, self._surroundings.project
        )
        try:
            self._sandboxed = await stack.enter_async_context(opened)
        except (KakiteError, OSError) as error:
            told = error.message if isinstance(error, KakiteError) else str(error)
            hint = error.hint if isinstance(error, KakiteError) else ""
            reason = f"the server `{self.entry.name}` cannot be started in a sandbox: {told}"
            raise ServerError(self._surroundings.redaction.redact(reason), hint=hint) from error

    async def refresh_tools(self) -> None:
        """List the tools, when they changed since they were listed.

        Raises:
            ServerError: it did not list them.
        """
        async with self._listing:
            if self.client and self.is_stale:
                try:
                    async with self._create_start_deadline():
                        await self._list_tools(self.client)
                except CONNECTION_ERRORS as fault:
                    raise self.make_server_error(
                        f"did not list its tools again: {fault}", "server_failed"
                    ) from fault

    def _create_start_deadline(self) -> Deadline:
        """Return the end of a start, which does not come while a person is asked."""
        start = self.entry.timeouts.start
        return Deadline(Timeouts(idle=start, total=start), self._clock, self._surroundings.clock)

    async def record_end(self) -> None:
        """Learn why it ended by itself."""
        if self.link.wire.ended:
            await record_exit(self.link)
        self.lost = (
            describe_end(self.link, self._surroundings.redaction) or self.lost or "closed the connection"
        )

    async def _try_attempts(self, stack: AsyncExitStack) -> BaseException | None:
        fault = await self._try_versions(stack)
        reached = self.entry.reached
        is_sse = isinstance(reached, HttpServer) and reached.sse
        if fault is None or is_sse or self.link.wire.status not in _OLDER_TRANSPORT_STATUSES:
            return fault
        told, self._as_sse = self.link, True
        with suppress(TimeoutError):
            async with asyncio.timeout(_SSE_TIMEOUT):
                if await self._try_versions(stack) is None:
                    return None
        self.link, self._as_sse = told, False  # what the entry's own transport met is the reason
        return fault

    async def _try_versions(self, stack: AsyncExitStack) -> BaseException | None:
        fault: BaseException | None = None
        for attempt in plan_attempts(self.entry, self._eras.get(self.entry, self._get_search_path())):
            if attempt.if_refused and not (isinstance(fault, MCPError) and not self.link.wire.ended):
                break
            self._guess = "legacy" if fault and attempt.mode == "legacy" else None
            self.link = ConnectionState(patience=_SHORT_STOP_TIMEOUT)
            try:
                await self._try_attempt(stack, attempt)
            except CONNECTION_ERRORS as error:
                fault = unwrap_group(error)
                if self._is_hopeless():
                    break
            else:
                return None
        return fault

    def _is_hopeless(self) -> bool:
        """Tell whether another era of the protocol would not help either."""
        unreachable = isinstance(self.entry.reached, HttpServer) and not self.link.wire.heard
        return (
            unreachable
            or bool(self._refusal)
            or bool(self.link.wire.fault)
            or self.link.exit_code in _CANNOT_RUN_CODES
        )

    async def _try_attempt(self, stack: AsyncExitStack, attempt: HandshakeAttempt) -> None:
        async with AsyncExitStack() as inner:
            # No scope of anyio: those are left in order, and what is entered in here stays open.
            async with asyncio.timeout(None) as bound:
                listening = asyncio.create_task(self._watch_silence(bound, attempt))
                try:
                    client = await inner.enter_async_context(self._open_client(attempt))
                finally:
                    listening.cancel()
            self.link.wire.on_end = self.stir.set
            modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            if modern:
                tasks = await inner.enter_async_context(anyio.create_task_group())
                inner.callback(tasks.cancel_scope.cancel)
                tasks.start_soon(self._listen, client)  # before the list: no change in between is missed
            await self._list_tools(client)
            stack.push_async_exit(inner.pop_all())
        self.client = client
        if self.entry.protocol == "auto":
            self._eras.remember(self.entry, self._get_search_path(), "modern" if modern else "legacy")

    async def _watch_silence(self, bound: asyncio.Timeout, attempt: HandshakeAttempt) -> None:
        """Let the time run out when no word comes, unless the server is still busy with its start.

        A program that has not read the question cannot be silent about it: it is only told the older way too.
        """
        if attempt.silence is None:
            return
        link, began = self.link, time.monotonic()
        taken, before = began, None
        while not link.wire.heard:
            await asyncio.sleep(_POLL_INTERVAL)
            late = time.monotonic() - began >= SILENCE_TIMEOUT
            if unread := bool(link.child and link.child.count_unread()):
                taken = time.monotonic()
            if late and (unread or attempt.silence > SILENCE_TIMEOUT):
                await link.wire.insist()
            silent = time.monotonic() - taken
            if silent < attempt.silence:
                continue
            now = link.child.measure_activity() if link.child else None
            most = max(attempt.silence, self.entry.timeouts.start / 2)
            if (now == before and not (now and now.running)) or silent > most:
                bound.reschedule(0)
                return
            before = now

    def _open_client(self, attempt: HandshakeAttempt) -> AbstractAsyncContextManager[Client]:
        return open_client(
            self._resolve_target(),
            self.link,
            mode=attempt.mode,
            callbacks=build_callbacks(self.entry.name, self._surroundings, self._clock, self.calls),
            on_message=self._on_message,
            on_stderr=self._log_stderr,
            auth=self._authorization,
        )

    def _resolve_target(self) -> ProcessSpec | HttpServer:
        reached = self.entry.reached
        if isinstance(reached, HttpServer):
            return replace(reached, sse=True) if self._as_sse else reached
        return self._sandboxed or ProcessSpec(
            argv=(reached.command, *reached.args),
            env={**self._build_environment(), **reached.env},
            cwd=str(self._surroundings.project / reached.cwd),
        )

    def _build_environment(self) -> dict[str, str]:
        environ = self._surroundings.environ
        person = {name: environ[name] for name in _USER_VARIABLES if name in environ}
        return {**build_base_environment(environ, environ.get("HOME") or str(Path.home())), **person}

    def _get_search_path(self) -> str:
        reached = self.entry.reached
        own = reached.env.get("PATH", "") if isinstance(reached, StdioServer) else ""
        return own or self._build_environment()["PATH"]

    def _log_stderr(self, _stream: Stream, data: bytes) -> None:
        self._log.write(data)

    async def _list_tools(self, client: Client) -> None:
        at = self.changes
        self._listed = await list_definitions(client, self.entry)
        self._filter_tools()
        self._listed_at = at

    def _filter_tools(self) -> None:
        included = (each for each in self._listed if is_included(each.tool.name, self.entry))
        self.definitions = tuple(included)
        self.offered = {each.tool.name: CompiledTool(each) for each in self.definitions}

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp.ToolListChangedNotification | mcp.PromptListChangedNotification):
            self._on_tools_changed()

    def _on_tools_changed(self) -> None:
        self.changes += 1
        self.on_change()

    async def _listen(self, client: Client) -> None:
        """Keep the stream of changes open; what it brings comes as notifications too, and is heard there."""
        while True:
            try:
                async with client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                    async for _ in events:
                        pass
            except SubscriptionLost:
                pass
            except (MCPError, ListenNotSupportedError):
                return  # it does not tell of changes, or is gone
            await asyncio.sleep(_LISTEN_RETRY_DELAY)
            self._on_tools_changed()  # what happened meanwhile was not told
