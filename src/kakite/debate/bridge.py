"""Performing debates: asks the sides what is due, and lets a person look, wait, decide and stop."""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from kakite.debate import protocol
from kakite.debate.answers import Failure, Reply
from kakite.debate.events import Begun, Decided, Event, Replied, Stopped, after
from kakite.debate.participants import Participant
from kakite.debate.protocol import Ask
from kakite.debate.record import Debate, DebateError, Decision, Ending, Terms

MOST_SESSIONS = 50
"""Debates that a bridge holds at once; those that are stopped make room."""
_NAME_LENGTH = 80


Kind = Literal["begun", "asked", "heard", "replied", "unkept", "waiting", "decided", "stopped"]
"""``heard``: a side is at work and shows it. ``unkept``: the keeper did not take a reply, which is there all
the same. ``waiting``: no reply is due, a person may decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happened in a session, for whoever shows it."""

    session: str
    kind: Kind
    debate: Debate
    """As it stands after that."""
    side: str = ""
    round: int = 0
    text: str = ""
    """With ``heard``: a line on what the side does, a stranger's words. With ``unkept``: why."""


Listener = Callable[[Happening], None]
"""Called inside the event loop: must return soon and not raise."""


class Keeper(Protocol):
    """Keeps what happens, so that debates outlive the process."""

    def keep(self, session: str, event: Event) -> None:
        """Keep an event behind those of its session. ``Begun`` begins the session anew.

        Called inside the event loop, before anybody hears of the event. When it raises, the event has not
        happened and the caller of the bridge gets the error; but a reply is not given up for that.
        """
        ...


@dataclass(slots=True)
class _Session:
    name: str
    debate: Debate
    work: asyncio.Task[None] | None = None


class Bridge:
    """Debates by the names of their sessions; ``""`` is the one that is meant when none is named.

    Used as a context (``async with``): at its end nothing of it is running. Debates that were not stopped can
    then be gone on with by ``resume`` if somebody kept them.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        keeper: Keeper | None = None,
        clock: Callable[[], float] = time.monotonic,
        at_once: int = 8,
    ) -> None:
        """Hold no debate yet.

        Args:
            participants: who can be a side of a debate.
            keeper: keeps what happens; None: nothing is kept.
            clock: tells seconds; what the sides take is measured by it.
            at_once: how many participants may be at work, of all debates together.
        """
        self._participants: Mapping[str, Participant] = {each.side.name: each for each in participants}
        self._keeper = keeper
        self._clock = clock
        self._places = asyncio.Semaphore(at_once)
        self._sessions: dict[str, _Session] = {}
        self._listeners: list[Listener] = []

    async def __aenter__(self) -> Bridge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def terms(self, **changes: object) -> Terms:
        """Return the terms of a debate between all participants, with those of ``Terms`` that are given.

        The seed is drawn anew each time.
        """
        sides = tuple(each.side for each in self._participants.values())
        return replace(Terms(sides=sides, seed=secrets.randbits(32)), **changes)  # pyright: ignore[reportArgumentType] - Terms' own names

    async def start(
        self, prompt: str, terms: Terms, *, session: str = "", verdict: str = "", reset: bool = False
    ) -> Debate:
        """Begin a debate and return at once, while it runs.

        Args:
            prompt: what it is about, as a person wrote it.
            terms: how it is held; its sides must be participants.
            session: under which name.
            verdict: what the judge thinks before it sees an answer.
            reset: stop the debate that goes by this name, if there is one.

        Raises:
            DebateError: ``already_active``, ``bad_terms`` or ``too_many_sessions``.
        """
        debate = protocol.begin(prompt, terms, verdict)
        self._check_sides(terms)
        old = self._sessions.get(session)
        if old and not old.debate.stopped and not reset:
            raise _active()
        return await self._open(session, debate, Begun(prompt=prompt, terms=terms, verdict=verdict))

    async def resume(self, debate: Debate, *, session: str = "", idle: bool = False) -> Debate:
        """Take up a debate that somebody kept, and go on with what is due; if ``idle``, not before ``wait``.

        If ``idle``, its sides need not be participants: it can be looked at and stopped all the same.

        Raises:
            DebateError: ``already_active``, ``bad_terms`` or ``too_many_sessions``.
        """
        if not idle:
            self._check_sides(debate.terms)
        old = self._sessions.get(session)
        if old and not old.debate.stopped:
            raise _active()
        return await self._open(session, debate, None, idle=idle)

    async def step(self, decision: Decision, *, session: str = "") -> Debate:
        """Go on as a person decides, and return at once, while it runs.

        Raises:
            DebateError: ``no_active_session``, ``still_running``, ``budget_spent``, ``bad_decision`` or, when
                a side is no participant, ``bad_terms``.
        """
        held = self._held(session)
        if not held.debate.stopped:
            self._check_sides(held.debate.terms)
        self._happen(held, Decided(decision=decision))
        self._tell(held, "decided")
        self._set_to_work(held)
        return held.debate

    async def wait(self, seconds: float, *, session: str = "") -> Debate:
        """Wait until no reply is due, so many seconds at most, and return the debate as it then stands.

        What is due and nobody is at work on, after ``pause`` or an idle ``resume``, is gone on with.

        Raises:
            DebateError: ``no_active_session``, or ``bad_terms`` when a side that is due is no participant.
        """
        held = self._held(session)
        if protocol.due(held.debate):
            self._check_sides(held.debate.terms)
            self._set_to_work(held)
        work = held.work
        if work:
            await asyncio.wait({work}, timeout=seconds)
            if work.done() and not work.cancelled():
                work.result()
        return self._held(session).debate

    def status(self, *, session: str = "") -> Debate:
        """Return the debate as it stands, also one that was stopped.

        Raises:
            DebateError: ``no_active_session``.
        """
        return self._held(session).debate

    def pause(self, *, session: str = "") -> None:
        """Let whoever is at work be ended; the debate stays, and ``wait`` goes on with it."""
        held = self._sessions.get(session)
        if held and held.work:
            held.work.cancel()

    async def stop(self, *, session: str = "", why: Ending = "person") -> Debate:
        """End a debate for good; whoever is still at work on it is ended first.

        Raises:
            DebateError: ``no_active_session``.
        """
        held = self._held(session)
        if held.debate.stopped:
            raise _nothing()
        self._happen(held, Stopped(why=why))
        self._tell(held, "stopped")
        await _halt(held)
        return held.debate

    def sessions(self) -> Mapping[str, Debate]:
        """Return all debates by the names of their sessions, those that were stopped too."""
        return {name: held.debate for name, held in self._sessions.items()}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell of everything that happens, in all sessions; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def close(self) -> None:
        """End whoever is at work, and leave the debates as they stand."""
        for held in list(self._sessions.values()):
            await _halt(held)

    async def _open(self, name: str, debate: Debate, event: Event | None, *, idle: bool = False) -> Debate:
        """Put a debate into its session, in place of what is there, and set it to work."""
        self._check(name)
        old = self._sessions.get(name)
        if event and self._keeper:
            self._keeper.keep(name, event)
        self._sessions.pop(name, None)
        held = self._sessions[name] = _Session(name, debate)
        self._tell(held, "begun")
        try:
            if old:
                await _halt(old)
        finally:  # also when our caller was cancelled: it has begun
            if not idle:
                self._set_to_work(held)
        return held.debate

    def _check_sides(self, terms: Terms) -> None:
        unknown = [side for side in terms.names if side not in self._participants]
        if unknown:
            raise DebateError(
                f"there is no participant `{unknown[0]}`",
                hint=f"this debate is between {' and '.join(terms.names)}: let them take part, or stop it",
                code="bad_terms",
            )

    def _check(self, name: str) -> None:
        if len(name) > _NAME_LENGTH or not name.isprintable():
            raise DebateError(
                f"a session's name is at most {_NAME_LENGTH} characters that print", code="bad_terms"
            )
        if name not in self._sessions and len(self._sessions) >= MOST_SESSIONS:
            ended = next((each for each, held in self._sessions.items() if held.debate.stopped), None)
            if ended is None:
                raise DebateError(
                    f"{MOST_SESSIONS} debates are held at once",
                    hint="stop one first",
                    code="too_many_sessions",
                )
            del self._sessions[ended]

    def _set_to_work(self, held: _Session) -> None:
        # One that is about to end looks at what is due once more.
        if held.work is None or held.work.done():
            # Nothing of the caller's context: the work outlives the call.
            held.work = asyncio.create_task(self._perform(held), context=contextvars.Context())

    async def _perform(self, held: _Session) -> None:
        while asks := protocol.due(held.debate):
            async with asyncio.TaskGroup() as group:
                for ask in asks:
                    group.create_task(self._ask(held, ask))
        if not held.debate.stopped:
            self._tell(held, "waiting")

    async def _ask(self, held: _Session, ask: Ask) -> None:
        async with self._places:
            self._tell(held, "asked", ask)
            began = self._clock()
            reply = await self._reply(held, ask)
            reply = replace(reply, seconds=self._clock() - began)
        event = Replied(side=ask.side, round=ask.round, reply=reply)
        try:
            self._happen(held, event)
        except Exception as error:  # noqa: BLE001 - whatever keeps it: the reply is there all the same
            held.debate = after(held.debate, event)
            self._tell(held, "unkept", ask, str(error))
        self._tell(held, "replied", ask)

    async def _reply(self, held: _Session, ask: Ask) -> Reply:
        def heard(text: str) -> None:
            self._tell(held, "heard", ask, text)

        participant = self._participants[ask.side]
        try:
            return await participant.ask(ask.prompt, seconds=ask.seconds, on_progress=heard)
        except Exception as error:  # noqa: BLE001 - one side's mistake takes nothing from the other
            return Failure(code="broken", message=f"{type(error).__name__}: {error}")

    def _happen(self, held: _Session, event: Event) -> None:
        debate = after(held.debate, event)
        if self._keeper and self._sessions.get(held.name) is held:
            self._keeper.keep(held.name, event)
        held.debate = debate

    def _tell(self, held: _Session, kind: Kind, ask: Ask | None = None, text: str = "") -> None:
        happening = Happening(
            session=held.name,
            kind=kind,
            debate=held.debate,
            side=ask.side if ask else "",
            round=ask.round if ask else 0,
            text=text,
        )
        for listener in list(self._listeners):
            listener(happening)

    def _held(self, session: str) -> _Session:
        held = self._sessions.get(session)
        if held is None:
            raise _nothing()
        return held


async def _halt(held: _Session) -> None:
    """End whoever is at work on a debate; whatever they say any more is lost."""
    if held.work:
        held.work.cancel()
        await asyncio.wait({held.work})


def _nothing() -> DebateError:
    return DebateError("no active session", hint="start a debate first", code="no_active_session")


def _active() -> DebateError:
    return DebateError(
        "a debate is active in this session",
        hint="stop it first, or start with `reset`, or under the name of another session",
        code="already_active",
    )
