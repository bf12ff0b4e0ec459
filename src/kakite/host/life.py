"""One life of a server: how it begins, in either era of the protocol, and what is known while it lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import anyio
import mcp_types as mcp
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kakite.errors import KakiteError
from kakite.host.authorization import Authorization
from kakite.host.calls import ConnectionLostError
from kakite.host.clock import Clock, Deadline
from kakite.host.connection import FAULTS, Link, ServerError, note_exit, opened, said
from kakite.host.definitions import Definition, Offered, is_included, listed
from kakite.host.entries import Address, Program, ServerEntry, Timeouts
from kakite.host.eras import SILENCE, Attempt, Era, Eras, attempts
from kakite.host.logs import Log
from kakite.host.reasons import ending, innermost, start_failure, unreachable
from kakite.host.requests import Surroundings, callbacks
from kakite.host.transport import AddressError
from kakite.processes import Launch, ProcessError, Stream, base_environment

_OF_THE_PERSON = ("LOGNAME", "SHELL", "USER")
_SHORT_PATIENCE = 0.25  # s; for one that did not answer at all, and is started again at once
_LISTEN_AGAIN = 1.0  # s
_LOOK = 0.25  # s between two looks at how busy a server is that says nothing
_CANNOT_RUN = (126, 127)  # as in a shell


class Life:
    """From the start of a server to its end. ``open`` and the end of its stack belong to one task."""

    def __init__(
        self,
        entry: ServerEntry,
        surroundings: Surroundings,
        *,
        clock: Clock,
        log: Log,
        authorization: Authorization | None = None,
    ) -> None:
        self.entry = entry
        self.link = Link()
        self.client: Client | None = None
        """None before it is ready, and once it ends."""
        self.definitions: tuple[Definition, ...] = ()
        self.offered: dict[str, Offered] = {}
        self.changes = 0
        """How often its tools changed."""
        self.calls = 0
        """How many calls wait for its answer."""
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
        self._eras = Eras(surroundings.state)
        self._guess: Era | None = None
        """What it seems to speak, after another way to begin did not work."""
        self._listed: tuple[Definition, ...] = ()
        self._listing = asyncio.Lock()
        self._listed_at = -1

    @property
    def stale(self) -> bool:
        """Whether its tools changed since they were listed."""
        return self._listed_at != self.changes

    def adopt(self, entry: ServerEntry) -> None:
        """Offer the tools that its entry, which has changed, includes now."""
        self.entry = entry
        self._offer()

    def finish(self) -> None:
        """Let it end."""
        self.enough = True
        self.stir.set()

    def lose(self, reason: str) -> None:
        """Note that it ended by itself."""
        self.lost = self.lost or reason
        self.stir.set()

    def gone(self, lost: ConnectionLostError) -> bool:
        """Tell whether the connection is lost: the number of that error is free for servers to use, too."""
        if isinstance(self.entry.reached, Address):
            return lost.message == "Connection closed" or lost.message.startswith("SSE stream")
        return self.stir.is_set() or self.link.wire.ended

    def error(self, reason: str, code: str = "server_not_started") -> ServerError:
        """Return the error that names the server, the reason, and what it said last."""
        if refusal := self._refusal:
            return ServerError(refusal.message, hint=refusal.hint, code=refusal.code)
        tail = said(self.link, self._surroundings.redaction)
        hint = f"it said: {tail}" if tail else "it said nothing on stderr"
        told = self._surroundings.redaction.text(f"the server `{self.entry.name}` {reason}")
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
        try:
            async with self._in_time():
                fault = await self._attempts(stack)
        except TimeoutError as error:
            fault = error
            if self._guess:  # the next try need not find out again, and has the whole time
                self._eras.remember(self.entry, self._path(), self._guess)
        except (ProcessError, AddressError) as error:
            reason = f"the server `{self.entry.name}` cannot be started: {error.message}"
            raise ServerError(reason, hint=error.hint) from error
        if fault and not self._refusal and (no := unreachable(self.entry, self.link, fault)):
            told = f"the server `{self.entry.name}` {no.reason}"
            redaction = self._surroundings.redaction
            raise ServerError(redaction.text(told), hint=no.hint, code=no.code)
        if fault:
            raise self.error(start_failure(self.link, fault, waited, self._surroundings.redaction))
        self.link.patience = patience

    async def list_again(self) -> None:
        """List the tools, when they changed since they were listed.

        Raises:
            ServerError: it did not list them.
        """
        async with self._listing:
            if self.client and self.stale:
                try:
                    async with self._in_time():
                        await self._list(self.client)
                except FAULTS as fault:
                    raise self.error(f"did not list its tools again: {fault}", "server_failed") from fault

    def _in_time(self) -> Deadline:
        """Return the end of a start, which does not come while a person is asked."""
        start = self.entry.timeouts.start
        return Deadline(Timeouts(idle=start, total=start), self._clock, self._surroundings.clock)

    async def note_end(self) -> None:
        """Learn why it ended by itself."""
        if self.link.wire.ended:
            await note_exit(self.link)
        self.lost = ending(self.link, self._surroundings.redaction) or self.lost or "closed the connection"

    async def _attempts(self, stack: AsyncExitStack) -> BaseException | None:
        fault: BaseException | None = None
        for attempt in attempts(self.entry, self._eras.known(self.entry, self._path())):
            if attempt.if_refused and not (isinstance(fault, MCPError) and not self.link.wire.ended):
                break
            self._guess = "legacy" if fault and attempt.mode == "legacy" else None
            self.link = Link(patience=_SHORT_PATIENCE)
            try:
                await self._attempt(stack, attempt)
            except FAULTS as error:
                fault = innermost(error)
                if self._hopeless():
                    break
            else:
                return None
        return fault

    def _hopeless(self) -> bool:
        """Tell whether another era of the protocol would not help either."""
        unreachable = isinstance(self.entry.reached, Address) and not self.link.wire.heard
        return (
            unreachable
            or bool(self._refusal)
            or bool(self.link.wire.fault)
            or self.link.exit_code in _CANNOT_RUN
        )

    async def _attempt(self, stack: AsyncExitStack, attempt: Attempt) -> None:
        async with AsyncExitStack() as inner:
            # No scope of anyio: those are left in order, and what is entered in here stays open.
            async with asyncio.timeout(None) as bound:
                listening = asyncio.create_task(self._count_silence(bound, attempt))
                try:
                    client = await inner.enter_async_context(self._opening(attempt))
                finally:
                    listening.cancel()
            self.link.wire.on_end = self.stir.set
            modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            if modern:
                tasks = await inner.enter_async_context(anyio.create_task_group())
                inner.callback(tasks.cancel_scope.cancel)
                tasks.start_soon(self._listen, client)  # before the list: no change in between is missed
            await self._list(client)
            stack.push_async_exit(inner.pop_all())
        self.client = client
        if self.entry.protocol == "auto":
            self._eras.remember(self.entry, self._path(), "modern" if modern else "legacy")

    async def _count_silence(self, bound: asyncio.Timeout, attempt: Attempt) -> None:
        """Let the time run out when no word comes, unless the server is still busy with its start.

        A program that has not read the question cannot be silent about it: it is only told the older way too.
        """
        if attempt.silence is None:
            return
        link, began = self.link, time.monotonic()
        taken, before = began, None
        while not link.wire.heard:
            await asyncio.sleep(_LOOK)
            late = time.monotonic() - began >= SILENCE
            if unread := bool(link.child and link.child.unread()):
                taken = time.monotonic()
            if late and (unread or attempt.silence > SILENCE):
                await link.wire.insist()
            silent = time.monotonic() - taken
            if silent < attempt.silence:
                continue
            now = link.child.activity() if link.child else None
            most = max(attempt.silence, self.entry.timeouts.start / 2)
            if (now == before and not (now and now.running)) or silent > most:
                bound.reschedule(0)
                return
            before = now

    def _opening(self, attempt: Attempt) -> AbstractAsyncContextManager[Client]:
        return opened(
            self._reached(),
            self.link,
            mode=attempt.mode,
            callbacks=callbacks(self.entry.name, self._surroundings, self._clock, lambda: self.calls > 0),
            on_message=self._hear,
            on_stderr=self._keep,
            auth=self._authorization,
        )

    def _reached(self) -> Launch | Address:
        reached = self.entry.reached
        if isinstance(reached, Address):
            return reached
        return Launch(
            argv=(reached.command, *reached.args),
            env={**self._environment(), **reached.env},
            cwd=str(self._surroundings.project / reached.cwd),
        )

    def _environment(self) -> dict[str, str]:
        environ = self._surroundings.environ
        person = {name: environ[name] for name in _OF_THE_PERSON if name in environ}
        return {**base_environment(environ, environ.get("HOME") or str(Path.home())), **person}

    def _path(self) -> str:
        reached = self.entry.reached
        own = reached.env.get("PATH", "") if isinstance(reached, Program) else ""
        return own or self._environment()["PATH"]

    def _keep(self, _stream: Stream, data: bytes) -> None:
        self._log.write(data)

    async def _list(self, client: Client) -> None:
        at = self.changes
        self._listed = await listed(client, trusted=self.entry.trusted)
        self._offer()
        self._listed_at = at

    def _offer(self) -> None:
        included = (each for each in self._listed if is_included(each.tool.name, self.entry))
        self.definitions = tuple(included)
        self.offered = {each.tool.name: Offered(each) for each in self.definitions}

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp.ToolListChangedNotification):
            self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self.on_change()

    async def _listen(self, client: Client) -> None:
        """Keep the stream of changes open; what it brings comes as notifications too, and is heard there."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        pass
            except SubscriptionLost:
                pass
            except (MCPError, ListenNotSupportedError):
                return  # it does not tell of changes, or is gone
            await asyncio.sleep(_LISTEN_AGAIN)
            self._changed()  # what happened meanwhile was not told
