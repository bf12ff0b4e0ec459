"""One server of a configuration: started when needed, watched, started again, stopped without leftovers."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Literal

from kakite.host.authorization import authorization_of, logins
from kakite.host.calls import ConnectionLostError, misfit, perform, refused
from kakite.host.clock import Clock, Deadline
from kakite.host.connection import FAULTS, ServerError, ended, said
from kakite.host.definitions import Definition, Offered
from kakite.host.entries import Address, ServerEntry
from kakite.host.life import Life
from kakite.host.logs import Log, log_file
from kakite.host.reasons import fault_words, secrets_of
from kakite.host.requests import Elicitation, Surroundings, answered
from kakite.host.status import Crashes, Status
from kakite.processes import PATIENCE
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.progress import Progress, listener
from kakite.tools.toolset import JsonObject, ToolCall, ToolResult

__all__ = ["Definition", "Server", "ServerError", "Status", "Surroundings", "stop_all"]

log = logging.getLogger(__name__)

SHORT_REST = 2.0
"""Seconds that a call waits for a server to have rested; for a longer rest it fails at once."""
STOP_LIMIT = 12.0
"""Seconds for all servers together to stop; who is left then is killed."""
_KILL_LIMIT = 8.0
_FAREWELL = 3.0  # s for an address to hear that the session is over
_RESTS = frozenset(("failed", "resting"))
"""How it is while it may not be started again yet."""

Permit = Callable[[tuple[Definition, ...]], ToolResult | None]


class Server:
    """One server. Its entry is expanded: what it names is started and sent as it stands.

    Everything may be called by any task at any time, and cancelled.
    """

    def __init__(self, entry: ServerEntry, surroundings: Surroundings, *, patience: float = PATIENCE) -> None:
        self.entry = entry
        self.name = entry.name
        self.changed = 0
        """Grows whenever the tools may be others than before: told by the server, or after a restart."""
        self.clock = Clock()
        """Stands still while this server waits for a person."""
        self._surroundings = surroundings
        self._patience = patience
        self._status = Status(kind="idle")
        self._life: Life | None = None
        """The one that starts or is ready."""
        self._last: Life | None = None
        """The one that was ready last."""
        self._owner: asyncio.Task[None] | None = None
        self._reviving: asyncio.Task[None] | None = None
        self._crashes = Crashes()
        self._authorization = authorization_of(
            entry,
            logins(surroundings.state),
            visitor=surroundings.visitor,
            paused=self._waiting,
            learn=surroundings.redaction.learn,
        )
        surroundings.redaction.learn(secrets_of(entry))
        self._log = Log(log_file(surroundings.state, entry.name), hide=surroundings.redaction.passing())
        self._ready_since = 0.0
        self._begun_at = self._fell_at = 0.0
        self._busy = 0
        self._free = asyncio.Event()
        self._free.set()
        self._retired = False
        self._nap: asyncio.Timeout | None = None
        self._used = 0.0

    @property
    def status(self) -> Status:
        """How it is now."""
        return self._status

    @property
    def trouble(self) -> ServerError | None:
        """Why it has no tools at all: it never came up, and waits for a further try or is at it."""
        if self._last or not self._fell_at:
            return None
        if self._status.kind == "starting":
            return ServerError(f"the server `{self.name}` did not come up, and is being started again")
        return self._resting(self._status) if self._status.kind == "failed" else None

    @property
    def due(self) -> bool:
        """Whether it never came up, and may be tried again now."""
        return self._status.kind == "failed" and self._status.retry_at <= time.monotonic()

    def stderr_tail(self) -> str:
        """Return the end of what it wrote to stderr in its last life, safe for a terminal."""
        life = self._life or self._last
        return said(life.link, self._surroundings.redaction) if life else ""

    async def start(self) -> None:
        """Start it now, also when it failed, rests or was stopped before; nothing when it runs.

        Raises:
            ServerError: it could not be started.
        """
        if self._life is None:
            self._crashes.forget()
            self._status = Status(kind="idle")
        await self._living()

    async def definitions(self) -> tuple[Definition, ...]:
        """Return its tools. Starts it when they are not known; lists them again when they changed.

        Raises:
            ServerError: it could not be started, or did not list them.
        """
        if self._life is None and self._last and self._status.kind in {"idle", "resting"}:
            return self._last.definitions  # what it offered; a call starts it again
        life = await self._living()
        if life.stale:
            with self._in_use():
                await life.list_again()
        return life.definitions

    async def call(
        self, call: ToolCall, *, on_progress: Progress | None = None, permit: Permit | None = None
    ) -> ToolResult:
        """Call a tool under the server's own name for it. Whatever the server does, this is answered.

        Its progress is told to ``on_progress``, by default to whoever listens to what the caller does. It
        has no control characters. ``permit`` is given the tools as they are right before the call is sent; a
        result of it is the call's.
        """
        with self._in_use():
            try:
                return await self._answered(call, on_progress or listener(), permit, again=True)
            except ServerError as error:
                return failed(error)

    def adopt(self, entry: ServerEntry) -> None:
        """Take over what its entry says now of time-outs, tools and lifecycle. It goes on running."""
        self.entry = entry
        for life in (self._life, self._last):
            if life:
                life.adopt(entry)
        self._change()
        if self._nap and not self._nap.expired():
            self._nap.reschedule(0)  # how long it may be idle is another now
        if entry.lifecycle == "keep-alive" and self._status.kind in _RESTS:
            self._revive_after(self._status.retry_at - time.monotonic())

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
        self._status = Status(kind="stopped")
        if life := self._life:
            self._life = None
            life.finish()
            if life.client:
                self._last = life
            elif self._owner:
                self._owner.cancel()  # it is still starting
        if self._owner:
            await ended(self._owner)
        self._log.close()

    def kill(self) -> None:
        """Kill what it started, at once: for one that does not stop in time."""
        for life in (self._life, self._last):
            if life and life.link.child:
                life.link.child.kill()

    async def _answered(
        self, call: ToolCall, on_progress: Progress | None, permit: Permit | None, *, again: bool
    ) -> ToolResult:
        life = self._life
        if life is None or life.client is None:
            life = await self._living()
        if life.stale:
            await life.list_again()
        if permit and (refusal := permit(life.definitions)):
            return refusal
        client, offered = life.client, life.offered.get(call.name)
        if offered is None or client is None:
            return _unknown(call, life)
        if wrong := misfit(offered, call):
            return wrong
        timeouts = self.entry.tool_timeouts.get(call.name, self.entry.timeouts)
        deadline = Deadline(timeouts, self.clock, self._surroundings.clock)
        life.calls += 1
        try:
            result = await perform(client, offered, call, deadline, on_progress)
        except ConnectionLostError as lost:
            if not life.gone(lost):
                return refused(call, lost.message)
            life.lose("closed the connection")
            await life.over.wait()
        else:
            return await self._shown(result) if result.code == "visit_required" else result
        finally:
            life.calls -= 1
        if again and _may_repeat(offered) and not life.enough:
            return await self._answered(call, on_progress, permit, again=False)
        return self._broken(call, life)

    async def _shown(self, result: ToolResult) -> ToolResult:
        """Show the person the addresses to visit, where there is one; what they said of them is added."""
        elicit, answers = self._surroundings.elicit, list[str]()
        told: list[JsonObject] = result.details["visits"] if elicit else []
        for visit in told:
            with self.clock.paused():
                asked = Elicitation(server=self.name, message=visit["message"], url=visit["url"])
                answers.append((await answered(elicit, asked)).action)
        if not answers:
            return result
        said = f"\nThe person was shown: {', '.join(answers)}."
        return replace(result, text=result.text + said, details={**result.details, "answers": answers})

    async def _living(self) -> Life:
        """Return its life once it is ready. Whoever comes meanwhile shares the start."""
        if self._life is None:
            await self._rested()
        life = self._life or self._begin()
        if error := await asyncio.shield(life.ready):
            raise ServerError(error.message, hint=error.hint, code=error.code)  # each gets one of its own
        return life

    async def _rested(self) -> None:
        """Wait until it may be started.

        Raises:
            ServerError: it may not, or not soon.
        """
        status = self._status
        if status.kind == "stopped" or self._retired:
            raise self._stopped()
        left = status.retry_at - time.monotonic()
        if status.kind not in _RESTS or left <= 0:
            return
        if left > SHORT_REST:
            raise self._resting(status)
        await asyncio.sleep(left)
        if self._life is None:
            await self._rested()  # what happened meanwhile counts

    def _resting(self, status: Status) -> ServerError:
        left = max(status.retry_at - time.monotonic(), 0)
        told = f"{status.reason}. It is started again in {left:.0f} s at the earliest"
        code = "server_resting" if status.kind == "resting" else status.code
        return ServerError(told, hint=status.hint, code=code)

    def _stopped(self) -> ServerError:
        return ServerError(f"the server `{self.name}` is stopped", code="server_stopped")

    def _begin(self) -> Life:
        life = Life(
            self.entry,
            self._surroundings,
            clock=self.clock,
            log=self._log,
            authorization=self._authorization,
        )
        life.on_change = self._change
        self._life = life
        self._begun_at = time.monotonic()
        self._status = Status(kind="starting")
        # A context of its own: nothing of whoever happens to call first shall live on in the session.
        self._owner = asyncio.create_task(
            self._own(life, self._owner), name=f"server {self.name}", context=contextvars.Context()
        )
        return life

    async def _own(self, life: Life, before: asyncio.Task[None] | None) -> None:
        """Own a life from start to end: the SDK's client is entered and left by this one task."""
        try:
            if before:
                await ended(before)
            async with AsyncExitStack() as stack:
                await life.open(stack, self._patience)
                self._opened(life)
                await self._watch(life)
                if not life.enough:
                    await life.note_end()
                self._part(life)
                async with asyncio.timeout(_FAREWELL if isinstance(self.entry.reached, Address) else None):
                    await stack.aclose()
        except ServerError as error:
            self._not_opened(life, error)
        except asyncio.CancelledError:
            life.finish()  # wanted: by `stop`, or because the whole program ends
            raise
        except FAULTS as fault:
            life.lost = fault_words(life.link, fault, self._surroundings.redaction)
        finally:
            self._part(life)
            if not life.ready.done():
                life.ready.set_result(self._stopped())

    def _opened(self, life: Life) -> None:
        self._ready_since = self._used = time.monotonic()
        if self._last or self._fell_at:
            self._change()
        if self._life is life:
            self._status = Status(kind="ready")
            self._last = life
        life.ready.set_result(None)

    def _change(self) -> None:
        self.changed += 1

    async def _watch(self, life: Life) -> None:
        """Return when it ended, shall end, or was not used for long."""
        while not life.stir.is_set():
            left = self._idle_left()
            if left is not None and left <= 0:
                life.finish()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left) as self._nap:
                    await life.stir.wait()
            self._nap = None

    def _idle_left(self) -> float | None:
        if self.entry.lifecycle != "lazy" or self.entry.idle_stop <= 0:
            return None
        used = time.monotonic() if self._busy else self._used
        return used + self.entry.idle_stop - time.monotonic()

    def _part(self, life: Life) -> None:
        """Let nobody use a life any more, and note why. Does nothing the second time."""
        if life.over.is_set():
            return
        life.client = None
        if self._life is life:
            self._life = None
            if life.enough:
                self._status = Status(kind="idle")
            else:
                lasted = time.monotonic() - self._ready_since
                self._crashed("resting", life.error(life.lost or "ended", "server_failed"), lasted=lasted)
        life.over.set()

    def _not_opened(self, life: Life, error: ServerError) -> None:
        if self._life is life:
            self._life = None
            quiet = self._begun_at - self._fell_at  # how long it takes to fail is no peace
            self._crashed("resting" if self._last else "failed", error, lasted=quiet)
        life.ready.set_result(error)

    def _crashed(self, kind: Literal["failed", "resting"], error: ServerError, *, lasted: float) -> None:
        rest = self._crashes.rest(lasted=lasted)
        self._fell_at = time.monotonic()
        retry_at = self._fell_at + rest
        self._status = Status(
            kind=kind, code=error.code, reason=error.message, hint=error.hint, retry_at=retry_at
        )
        log.warning("%s; it may be started again in %g s", error.message, rest)
        if self.entry.lifecycle == "keep-alive" and not self._retired:
            self._revive_after(rest)

    def _revive_after(self, rest: float) -> None:
        if self._reviving:
            self._reviving.cancel()
        self._reviving = asyncio.create_task(self._revive(rest), context=contextvars.Context())

    async def _revive(self, rest: float) -> None:
        await asyncio.sleep(rest)
        with suppress(ServerError):
            await self._living()

    def _broken(self, call: ToolCall, life: Life) -> ToolResult:
        if life.enough:
            return failed(life.error(f"was stopped while it performed `{call.name}`", "server_stopped"))
        reason = f"{life.lost or 'ended'} while it performed `{call.name}`; what it did until then is done"
        return failed(life.error(reason, "server_failed"))

    @contextmanager
    def _waiting(self) -> Generator[None]:
        """Let no time pass: it is not the server that is waited for."""
        if self._life:
            self._life.link.wire.heard = True  # it said at least that it wants to know who we are
        with self.clock.paused():
            yield

    @contextmanager
    def _in_use(self) -> Generator[None]:
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
    await ended(asyncio.create_task(_stop_all(tuple(servers), within)))


async def _stop_all(servers: tuple[Server, ...], within: float) -> None:
    stopping = {asyncio.create_task(server.stop()): server for server in servers}
    if not stopping:
        return
    _, late = await asyncio.wait(stopping, timeout=within)
    for task in late:
        stopping[task].kill()
    if late:
        await asyncio.wait(late, timeout=_KILL_LIMIT)


def _unknown(call: ToolCall, life: Life) -> ToolResult:
    hint = nearest(call.name, life.offered)
    return failed(
        ToolError(f"the server `{life.entry.name}` has no tool `{call.name}`", hint=hint, code="unknown_tool")
    )


def _may_repeat(offered: Offered) -> bool:
    # Of a server that is not trusted, our tool says neither.
    return offered.definition.tool.idempotent or offered.definition.tool.effect == "read"
