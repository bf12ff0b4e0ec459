"""Performs debates: asks the participants, and lets a person look, wait, decide and stop."""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from kakite.debate import rounds
from kakite.debate.answers import ParticipantFailure, Reply
from kakite.debate.model import Debate, DebateConfig, DebateError, Decision, EndReason
from kakite.debate.participants.base import Participant
from kakite.debate.participants.output_parsers import create_failure
from kakite.debate.rounds import (
    AnswerRequest,
    DebateEvent,
    DebateStarted,
    DebateStopped,
    DecisionMade,
    ReplyReceived,
    apply_event,
)

if TYPE_CHECKING:
    from kakite.debate.files import FileSnapshot

MAX_SESSIONS = 50
"""Debates that a bridge holds at once; those that are stopped make room."""
_NAME_LENGTH = 80


UpdateKind = Literal["begun", "asked", "heard", "replied", "unkept", "waiting", "decided", "stopped"]
"""``heard``: a participant is at work and shows it. ``unkept``: the keeper did not take a reply, which is
there all the same. ``waiting``: no reply is due, a person may decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """Something that happened in a session, for whoever shows it."""

    session: str
    kind: UpdateKind
    debate: Debate
    """As it stands after that."""
    side: str = ""
    round: int = 0
    text: str = ""
    """With ``heard``: a line on what the participant does, a stranger's words. With ``unkept``: why."""


SessionListener = Callable[[SessionUpdate], None]
"""Called inside the event loop: must return soon and not raise."""


class EventStore(Protocol):
    """Keeps what happens, so that debates outlive the process."""

    def append(self, session: str, event: DebateEvent) -> None:
        """Keep an event behind those of its session. ``DebateStarted`` begins the session anew.

        Called inside the event loop, before anybody hears of the event. When it raises, the event has not
        happened and the caller of the bridge gets the error; but a reply is not given up for that.
        """
        ...


@dataclass(slots=True)
class _DebateSession:
    name: str
    debate: Debate
    work: asyncio.Task[None] | None = None
    files: FileSnapshot | None = None
    """What the participants can read, once somebody was asked."""
    resources: ExitStack = field(default_factory=ExitStack)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get_files(self) -> FileSnapshot | None:
        """Return what the participants can read, None if that is nothing.

        Raises:
            DebateError: ``bad_files`` or ``files_too_large``.
        """
        context = self.debate.terms.code
        async with self.lock:
            if context and self.files is None:
                from kakite.debate.files import take_snapshot

                taking = asyncio.to_thread(self.resources.enter_context, take_snapshot(context))
                self.files = await taking
        return self.files

    async def release_files(self) -> None:
        """Delete the copy of the files; whoever is asked after that gets another one."""
        async with self.lock:
            self.files = None
            await asyncio.to_thread(self.resources.close)


class DebateManager:
    """Debates by the names of their sessions; ``""`` is the one that is meant when none is named.

    Used as a context (``async with``): at its end nothing of it is running. Debates that were not stopped can
    then be gone on with by ``resume`` if somebody kept them.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        keeper: EventStore | None = None,
        clock: Callable[[], float] = time.monotonic,
        at_once: int = 8,
    ) -> None:
        """Hold no debate yet.

        Args:
            participants: who can take part in a debate.
            keeper: keeps what happens; None: nothing is kept.
            clock: tells seconds; the time that participants take is measured by it.
            at_once: how many participants may be at work, of all debates together.
        """
        self._participants: Mapping[str, Participant] = {each.side.name: each for each in participants}
        self._keeper = keeper
        self._clock = clock
        self._places = asyncio.Semaphore(at_once)
        self._sessions: dict[str, _DebateSession] = {}
        self._listeners: list[SessionListener] = []

    async def __aenter__(self) -> DebateManager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def build_config(self, **changes: object) -> DebateConfig:
        """Return the settings of a debate between all participants, with the ones that are given.

        The seed is drawn anew each time.
        """
        sides = tuple(each.side for each in self._participants.values())
        return replace(DebateConfig(sides=sides, seed=secrets.randbits(32)), **changes)  # pyright: ignore[reportArgumentType] - DebateConfig's own names

    async def start(
        self, prompt: str, terms: DebateConfig, *, session: str = "", verdict: str = "", reset: bool = False
    ) -> Debate:
        """Begin a debate and return at once, while it runs.

        Args:
            prompt: what it is about, as a person wrote it.
            terms: how it is held; its participants must be among ours.
            session: under which name.
            verdict: what the judge thinks before it sees an answer.
            reset: stop the debate that goes by this name, if there is one.

        Raises:
            DebateError: ``already_active``, ``bad_terms`` or ``too_many_sessions``.
        """
        debate = rounds.begin(prompt, terms, verdict)
        self._check_participants(terms)
        old = self._sessions.get(session)
        if old and not old.debate.stopped and not reset:
            raise _create_already_active_error()
        return await self._open(session, debate, DebateStarted(prompt=prompt, terms=terms, verdict=verdict))

    async def resume(self, debate: Debate, *, session: str = "", idle: bool = False) -> Debate:
        """Take up a debate that somebody kept, and go on with what is due; if ``idle``, not before ``wait``.

        If ``idle``, its participants need not be among ours: it can be looked at and stopped all the same.

        Raises:
            DebateError: ``already_active``, ``bad_terms`` or ``too_many_sessions``.
        """
        if not idle:
            self._check_participants(debate.terms)
        old = self._sessions.get(session)
        if old and not old.debate.stopped:
            raise _create_already_active_error()
        return await self._open(session, debate, None, idle=idle)

    async def step(self, decision: Decision, *, session: str = "") -> Debate:
        """Go on as a person decides, and return at once, while it runs.

        Raises:
            DebateError: ``no_active_session``, ``still_running``, ``budget_spent``, ``bad_decision`` or, when
                a participant is not among ours, ``bad_terms``.
        """
        held = self._get_session(session)
        if not held.debate.stopped:
            self._check_participants(held.debate.terms)
        self._record_event(held, DecisionMade(decision=decision))
        self._notify(held, "decided")
        self._set_to_work(held)
        return held.debate

    async def wait(self, seconds: float, *, session: str = "") -> Debate:
        """Wait until no reply is due, so many seconds at most, and return the debate as it then stands.

        What is due and nobody is at work on, after ``pause`` or an idle ``resume``, is gone on with.

        Raises:
            DebateError: ``no_active_session``, or ``bad_terms`` when a participant that is due is not
                among ours.
        """
        held = self._get_session(session)
        if rounds.next_requests(held.debate):
            self._check_participants(held.debate.terms)
            self._set_to_work(held)
        work = held.work
        if work:
            await asyncio.wait({work}, timeout=seconds)
            if work.done() and not work.cancelled():
                work.result()
        return self._get_session(session).debate

    def get_debate(self, *, session: str = "") -> Debate:
        """Return the debate as it stands, also one that was stopped.

        Raises:
            DebateError: ``no_active_session``.
        """
        return self._get_session(session).debate

    def pause(self, *, session: str = "") -> None:
        """Let whoever is at work be ended; the debate stays, and ``wait`` goes on with it."""
        held = self._sessions.get(session)
        if held and held.work:
            held.work.cancel()

    async def stop(self, *, session: str = "", why: EndReason = "person") -> Debate:
        """End a debate for good; whoever is still at work on it is ended first.

        Raises:
            DebateError: ``no_active_session``.
        """
        held = self._get_session(session)
        if held.debate.stopped:
            raise _create_no_session_error()
        self._record_event(held, DebateStopped(why=why))
        self._notify(held, "stopped")
        await _halt(held)
        return held.debate

    def list_debates(self) -> Mapping[str, Debate]:
        """Return all debates by the names of their sessions, those that were stopped too."""
        return {name: held.debate for name, held in self._sessions.items()}

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Tell of everything that happens, in all sessions; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def close(self) -> None:
        """End whoever is at work, and leave the debates as they stand."""
        for held in list(self._sessions.values()):
            await _halt(held)

    async def _open(
        self, name: str, debate: Debate, event: DebateEvent | None, *, idle: bool = False
    ) -> Debate:
        """Put a debate into its session, in place of what is there, and set it to work."""
        self._check(name)
        old = self._sessions.get(name)
        if event and self._keeper:
            self._keeper.append(name, event)
        self._sessions.pop(name, None)
        held = self._sessions[name] = _DebateSession(name, debate)
        self._notify(held, "begun")
        try:
            if old:
                await _halt(old)
        finally:  # also when our caller was cancelled: it has begun
            if not idle:
                self._set_to_work(held)
        return held.debate

    def _check_participants(self, terms: DebateConfig) -> None:
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
        if name not in self._sessions and len(self._sessions) >= MAX_SESSIONS:
            ended = next((each for each, held in self._sessions.items() if held.debate.stopped), None)
            if ended is None:
                raise DebateError(
                    f"{MAX_SESSIONS} debates are held at once",
                    hint="stop one first",
                    code="too_many_sessions",
                )
            del self._sessions[ended]

    def _set_to_work(self, held: _DebateSession) -> None:
        # One that is about to end looks at what is due once more.
        if held.work is None or held.work.done():
            # Nothing of the caller's context: the work outlives the call.
            held.work = asyncio.create_task(self._perform(held), context=contextvars.Context())

    async def _perform(self, held: _DebateSession) -> None:
        while asks := rounds.next_requests(held.debate):
            async with asyncio.TaskGroup() as group:
                for ask in asks:
                    group.create_task(self._ask(held, ask))
        if not held.debate.stopped:
            self._notify(held, "waiting")

    async def _ask(self, held: _DebateSession, ask: AnswerRequest) -> None:
        async with self._places:
            self._notify(held, "asked", ask)
            began = self._clock()
            reply = await self._call_participant(held, ask)
            reply = replace(reply, seconds=self._clock() - began)
        event = ReplyReceived(side=ask.side, round=ask.round, reply=reply)
        try:
            self._record_event(held, event)
        except Exception as error:  # noqa: BLE001 - whatever keeps it: the reply is there all the same
            held.debate = apply_event(held.debate, event)
            self._notify(held, "unkept", ask, str(error))
        self._notify(held, "replied", ask)

    async def _call_participant(self, held: _DebateSession, ask: AnswerRequest) -> Reply:
        def report_progress(text: str) -> None:
            self._notify(held, "heard", ask, text)

        participant = self._participants[ask.side]
        try:
            files = await held.get_files()
        except (DebateError, OSError) as error:
            return create_failure("no_files", str(error))
        try:
            return await participant.ask(
                ask.prompt, seconds=ask.seconds, on_progress=report_progress, files=files
            )
        except Exception as error:  # noqa: BLE001 - one participant's mistake takes nothing from another
            return ParticipantFailure(code="broken", message=f"{type(error).__name__}: {error}")

    def _record_event(self, held: _DebateSession, event: DebateEvent) -> None:
        debate = apply_event(held.debate, event)
        if self._keeper and self._sessions.get(held.name) is held:
            self._keeper.append(held.name, event)
        held.debate = debate

    def _notify(
        self, held: _DebateSession, kind: UpdateKind, ask: AnswerRequest | None = None, text: str = ""
    ) -> None:
        happening = SessionUpdate(
            session=held.name,
            kind=kind,
            debate=held.debate,
            side=ask.side if ask else "",
            round=ask.round if ask else 0,
            text=text,
        )
        for listener in list(self._listeners):
            listener(happening)

    def _get_session(self, session: str) -> _DebateSession:
        held = self._sessions.get(session)
        if held is None:
            raise _create_no_session_error()
        return held


async def _halt(held: _DebateSession) -> None:
    """End whoever is at work on a debate; whatever they say any more is lost."""
    if held.work:
        held.work.cancel()
        await asyncio.wait({held.work})
    await held.release_files()


def _create_no_session_error() -> DebateError:
    return DebateError("no active session", hint="start a debate first", code="no_active_session")


def _create_already_active_error() -> DebateError:
    return DebateError(
        "a debate is active in this session",
        hint="stop it first, or start with `reset`, or under the name of another session",
        code="already_active",
    )
