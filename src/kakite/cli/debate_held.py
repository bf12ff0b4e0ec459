"""Holding a debate from the command line: who is told of it, who is asked, and what is left of it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from kakite.cli.ending import until_signalled
from kakite.cli.screen import print_json, visible_name
from kakite.debate import Bridge, Debate, DebateError, Decision, Happening, Participant, standing
from kakite.errors import OutsideError

if TYPE_CHECKING:
    from kakite.debate.answers import Failure
    from kakite.debate.kept import Kept

_LONG = 3600.0


class NobodyAnsweredError(OutsideError):
    """No side gave an answer, or could. Code: ``nobody_answered``."""

    code = "nobody_answered"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """How a debate is to be held."""

    topic: str
    """Empty when one is gone on with."""
    participants: Sequence[Participant]
    terms: Mapping[str, object] = field(default_factory=dict[str, object])
    session: str = ""
    kept: Kept | None = None
    begun: Debate | None = None
    """What is gone on with."""
    transcript: Path | None = None
    asks: bool = False


class Shown(Protocol):
    """Who is told."""

    def happened(self, happening: Happening) -> None:
        """Take in what happened."""
        ...

    def turn(self, debate: Debate) -> None:
        """Take in where it stands when no reply is due."""
        ...

    def latest(self, debate: Debate) -> None:
        """Take in what was said before this process."""
        ...

    def note(self, text: str, style: str = "") -> None:
        """Take in a line of ours."""
        ...

    def close(self) -> None:
        """Stop showing."""
        ...

    async def ask(self, debate: Debate) -> Decision | None:
        """Return how to go on; None: not any more."""
        ...


class Lines:
    """Tells each thing that happens as a line of JSON. Asks nothing."""

    def __init__(self, session: str = "") -> None:
        self._session = session

    def happened(self, happening: Happening) -> None:
        """Print it."""
        from kakite.debate.transcript import SCHEMA, decision_as_json, reply_as_json, round_as_json

        debate, number, side = happening.debate, happening.round, happening.side
        told: dict[str, object] = {"type": happening.kind, "session": happening.session}
        match happening.kind:
            case "begun":
                terms = debate.terms
                told |= {"schema": SCHEMA, "topic": debate.prompt, "sides": list(terms.names)}
                told |= {"mode": terms.mode, "order": terms.order, "rounds": terms.rounds, "seed": terms.seed}
            case "asked":
                told |= {"round": number, "side": side}
            case "heard" | "unkept":
                told |= {"round": number, "side": side, "text": happening.text}
            case "replied":
                told |= {"round": number, "side": side, "reply": reply_as_json(debate, number, side)}
            case "decided" if made := debate.turn.decision:
                told |= {"decision": decision_as_json(made)}
            case _:
                pass
        print_json(told)
        if happening.kind == "replied":
            held = round_as_json(debate, number)
            if held["complete"]:
                kept = ("number", "purpose", "agreement", "matrix")
                print_json(
                    {"type": "round", "session": happening.session, **{name: held[name] for name in kept}}
                )

    def turn(self, debate: Debate) -> None:
        """Print where it stands, as the tools of the server answer it."""
        from kakite.debate.turns import told

        print_json({"type": "turn", **told(debate, self._session)})

    def latest(self, debate: Debate) -> None:
        """Nothing: it was told when it was said."""

    def note(self, text: str, style: str = "") -> None:  # noqa: ARG002 - as the screen's
        """Print it for a person."""
        typer.echo(visible_name(text), err=True)

    def close(self) -> None:
        """Nothing."""

    async def ask(self, debate: Debate) -> Decision | None:  # noqa: ARG002 - as the screen's
        """Ask nobody."""
        return None


@dataclass
class Evening:
    """A debate while it is held, and what is known of it however that ends."""

    wish: Wish
    shown: Shown
    debate: Debate | None = None
    written: tuple[Path, ...] = ()
    _main: asyncio.Task[object] | None = None
    _gone: OSError | None = None

    def hold(self) -> None:
        """Hold it to its end.

        Raises:
            KakiteError: it could not be begun or kept, or nobody answered.
            KeyboardInterrupt, asyncio.CancelledError: a person or a signal ended it; what was said is in
                ``debate``.
        """
        self.debate = self.wish.begun
        try:
            asyncio.run(until_signalled(self._hold()))
        except asyncio.CancelledError:
            if self._gone:
                raise self._gone from None
            raise
        finally:
            with suppress(OSError):
                self.shown.close()
        self._check_answers()

    def write(self) -> None:
        """Write the transcript, if that was asked for and something was said.

        Raises:
            OSError: the folder cannot be written.
        """
        from kakite.debate.transcript import write

        if self.wish.transcript and self.debate and self.debate.rounds:
            self.written = write(self.debate, self.wish.transcript, environ=os.environ)

    async def _hold(self) -> None:
        wish = self.wish
        self._main = asyncio.current_task()
        async with Bridge(wish.participants, keeper=wish.kept) as bridge:
            bridge.listen(self._happened)
            if wish.begun:
                await bridge.resume(wish.begun, session=wish.session)
            else:
                terms = bridge.terms(**wish.terms)
                await bridge.start(wish.topic, terms, session=wish.session)
            while await self._turn(bridge):
                pass

    async def _turn(self, bridge: Bridge) -> bool:
        """Wait for a turn's end, and tell whether another one follows."""
        session = self.wish.session
        while standing(debate := await bridge.wait(_LONG, session=session)).status == "running":
            pass
        self.shown.turn(debate)
        while self.wish.asks:
            decision = await self.shown.ask(debate)
            if decision is None:
                await bridge.stop(session=session)
                return False
            try:
                await bridge.step(decision, session=session)
            except DebateError as error:
                self.shown.note("; ".join(filter(None, [error.message, error.hint])), "red")
                if error.code != "bad_decision":
                    return False
            else:
                return True
        return False

    def _happened(self, happening: Happening) -> None:
        self.debate = happening.debate
        try:
            self.shown.happened(happening)
        except OSError as error:  # nobody reads any more
            self._gone = error
            if self._main:
                self._main.cancel()

    def _check_answers(self) -> None:
        debate = self.debate
        if debate is None or any(each.answers for each in debate.rounds):
            return
        raise _nobody("nobody answered", standing(debate).failures)


def check_there(participants: Sequence[Participant]) -> None:
    """Refuse to begin where no participant's program is there.

    Raises:
        NobodyAnsweredError: none is.
    """
    from kakite.debate.participants import CommandLine

    gone = {each.side.name: each.absent() for each in participants if isinstance(each, CommandLine)}
    failures = [(side, failure) for side, failure in gone.items() if failure]
    if failures and len(failures) == len(participants):
        raise _nobody("nobody can be asked", failures)


def _nobody(told: str, failures: Sequence[tuple[str, Failure]]) -> NobodyAnsweredError:
    each = "; ".join(f"{side}: {failure.message} ({failure.code})" for side, failure in failures)
    hints = [f"{side}: {failure.hint}" for side, failure in failures if failure.hint]
    return NobodyAnsweredError(f"{told}: {each}", hint="; ".join(hints))


def list_kept(kept: Kept, *, as_json: bool) -> None:
    """Print which debates are kept."""
    from datetime import datetime

    found = kept.sessions()
    if as_json:
        rows = [
            {
                "session": each.name,
                "status": _status(each.debate),
                "busy": each.busy,
                "round": standing(each.debate).round if each.debate else None,
                "topic": each.debate.prompt if each.debate else None,
                "began": each.began,
                "changed": each.changed,
            }
            for each in found
        ]
        typer.echo(json.dumps({"debates": rows}))
        return
    if not found:
        typer.echo("no debate is kept; `--keep` keeps one", err=True)
    for each in found:
        status = "at work" if each.busy else _status(each.debate)
        when = datetime.fromtimestamp(each.changed).astimezone().strftime("%Y-%m-%d %H:%M")
        topic = each.debate.prompt.strip().split("\n", 1)[0] if each.debate else ""
        name = each.name or "(unnamed: '')"
        typer.echo(visible_name(f"{name:<36}  {status:<10}  {when}  {topic[:80]}"))


def _status(debate: Debate | None) -> str:
    if debate is None:
        return "unreadable"
    status = standing(debate).status
    return "unfinished" if status == "running" else status
