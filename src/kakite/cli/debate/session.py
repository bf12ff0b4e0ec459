"""Runs a debate from the command line: shows it, asks the person, and saves the transcript."""

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

from kakite import state_files
from kakite.cli.console import escape_one_line, print_json
from kakite.cli.exit_codes import run_until_signal
from kakite.debate import Debate, DebateError, DebateManager, Decision, Participant, SessionUpdate, get_status
from kakite.debate.model import CodeContext
from kakite.debate.patch import ProposedPatch, RefusedPatch, build_patches
from kakite.errors import ExternalError

if TYPE_CHECKING:
    from kakite.debate.answers import ParticipantFailure
    from kakite.debate.participants.base import CliParticipant
    from kakite.debate.store import SqliteDebateStore

_WAIT_SECONDS = 3600.0


class NoAnswersError(ExternalError):
    """No side gave an answer, or could. Code: ``nobody_answered``."""

    code = "nobody_answered"


@dataclass(frozen=True, kw_only=True)
class DebateOptions:
    """The options of a debate."""

    topic: str
    """Empty when one is gone on with."""
    participants: Sequence[Participant]
    terms: Mapping[str, object] = field(default_factory=dict[str, object])
    session: str = ""
    kept: SqliteDebateStore | None = None
    begun: Debate | None = None
    """What is gone on with."""
    transcript: Path | None = None
    asks: bool = False
    wants_patch: bool = False
    """Whether the debate ends in edits to the files."""


class DebateView(Protocol):
    """The view of a debate."""

    def on_event(self, happening: SessionUpdate) -> None:
        """Take in what happened."""
        ...

    def show_turn(self, debate: Debate) -> None:
        """Take in where it stands when no reply is due."""
        ...

    def show_latest(self, debate: Debate) -> None:
        """Take in what was said before this process."""
        ...

    def show_note(self, text: str, style: str = "") -> None:
        """Take in a line of ours."""
        ...

    def close(self) -> None:
        """Stop showing."""
        ...

    async def ask(self, debate: Debate) -> Decision | None:
        """Return how to go on; None: not any more."""
        ...


class JsonLinesView:
    """Tells each thing that happens as a line of JSON. Asks nothing."""

    def __init__(self, session: str = "") -> None:
        self._session = session

    def on_event(self, happening: SessionUpdate) -> None:
        """Print it."""
        from kakite.debate.transcript.model import SCHEMA, encode_decision, encode_round, encode_round_reply

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
                told |= {"round": number, "side": side, "reply": encode_round_reply(debate, number, side)}
            case "decided" if made := debate.turn.decision:
                told |= {"decision": encode_decision(made)}
            case _:
                pass
        print_json(told)
        if happening.kind == "replied":
            held = encode_round(debate, number)
            if held["complete"]:
                kept = ("number", "purpose", "agreement", "matrix")
                print_json(
                    {"type": "round", "session": happening.session, **{name: held[name] for name in kept}}
                )

    def show_turn(self, debate: Debate) -> None:
        """Print where it stands, as the tools of the server answer it."""
        from kakite.debate.mcp.results import build_result

        print_json({"type": "turn", **build_result(debate, self._session)})

    def show_latest(self, debate: Debate) -> None:
        """Nothing: it was told when it was said."""

    def show_note(self, text: str, style: str = "") -> None:  # noqa: ARG002 - as the screen's
        """Print it for a person."""
        typer.echo(escape_one_line(text), err=True)

    def close(self) -> None:
        """Nothing."""

    async def ask(self, debate: Debate) -> Decision | None:  # noqa: ARG002 - as the screen's
        """Ask nobody."""
        return None


@dataclass
class DebateSession:
    """A debate while it is held, and what is known of it however that ends."""

    wish: DebateOptions
    shown: DebateView
    debate: Debate | None = None
    written: tuple[Path, ...] = ()
    patch: ProposedPatch | None = None
    """What the debate ends in, if that was asked for and a side's edits could be applied."""
    _main: asyncio.Task[object] | None = None
    _gone: OSError | None = None

    def run(self) -> None:
        """Hold it to its end.

        Raises:
            KakiteError: it could not be begun or kept, or nobody answered.
            KeyboardInterrupt, asyncio.CancelledError: a person or a signal ended it; what was said is in
                ``debate``.
        """
        self.debate = self.wish.begun
        try:
            asyncio.run(run_until_signal(self._run()))
        except asyncio.CancelledError:
            if self._gone:
                raise self._gone from None
            raise
        finally:
            with suppress(OSError):
                self.shown.close()
        self._check_answers()

    def save_transcript(self) -> None:
        """Write the transcript, if that was asked for and something was said.

        Raises:
            OSError: the folder cannot be written.
        """
        from kakite.debate.transcript.files import write_transcript

        if self.wish.transcript and self.debate and self.debate.rounds:
            self.written = write_transcript(self.debate, self.wish.transcript, environ=os.environ)
            if self.patch:
                file = self.written[0].with_suffix(".patch")
                state_files.replace(file, self.patch.diff.encode("utf-8", "surrogateescape"))
                self.written = (*self.written, file)

    async def _run(self) -> None:
        wish = self.wish
        self._main = asyncio.current_task()
        for note in (*await list_sandbox_notes(wish.participants), *await self._list_file_notes()):
            self.shown.show_note(note)
        async with DebateManager(wish.participants, keeper=wish.kept) as bridge:
            bridge.listen(self._on_event)
            if wish.begun:
                await bridge.resume(wish.begun, session=wish.session)
            else:
                terms = bridge.build_config(**wish.terms)
                await bridge.start(wish.topic, terms, session=wish.session)
            while await self._run_turn(bridge):
                pass

    async def _list_file_notes(self) -> list[str]:
        """Return what the person has to know of the files that the sides can read.

        Raises:
            DebateError: they cannot be read any more.
        """
        code = self.wish.begun.terms.code if self.wish.begun else self.wish.terms.get("code")
        if not isinstance(code, CodeContext):
            return []
        from kakite.debate.files import format_left_out, read_context

        notes = [f"every side can read {code.count} files", format_left_out(code)]
        if self.wish.begun:
            now = await read_context(Path(code.folder), code.patterns, commit=code.commit)
            notes += ["the files have changed since the debate began"] if now.digest != code.digest else []
        return [note for note in notes if note]

    async def _run_turn(self, bridge: DebateManager) -> bool:
        """Wait for a turn's end, and tell whether another one follows."""
        session = self.wish.session
        while get_status(debate := await bridge.wait(_WAIT_SECONDS, session=session)).status == "running":
            pass
        self.shown.show_turn(debate)
        latest = debate.turn.decision
        if latest and latest.kind == "patch":
            await self._make_patch(debate)
            if self.wish.wants_patch:
                return False
        elif self.wish.wants_patch and debate.turn.answers:
            await bridge.step(Decision(kind="patch"), session=session)
            return True
        while self.wish.asks:
            decision = await self.shown.ask(debate)
            if decision is None:
                await bridge.stop(session=session)
                return False
            try:
                await bridge.step(decision, session=session)
            except DebateError as error:
                self.shown.show_note("; ".join(filter(None, [error.message, error.hint])), "red")
                if error.code != "bad_decision":
                    return False
            else:
                return True
        return False

    async def _make_patch(self, debate: Debate) -> None:
        """Show the first side's edits that can be applied, and why those before cannot."""
        code = debate.terms.code
        assert code, "the machine refuses a patch without files"
        self.patch = None
        made = await asyncio.to_thread(_build_patches, debate, code)
        for each in made:
            if isinstance(each, RefusedPatch):
                self.shown.show_note(f"the edits of {each.side} cannot be applied: {each.reason}")
            elif self.patch is None:
                self.patch = each
        if self.patch is None:
            self.shown.show_note("no side's edits can be applied: nothing was changed")

    def _on_event(self, happening: SessionUpdate) -> None:
        self.debate = happening.debate
        try:
            self.shown.on_event(happening)
        except OSError as error:  # nobody reads any more
            self._gone = error
            if self._main:
                self._main.cancel()

    def _check_answers(self) -> None:
        debate = self.debate
        if debate is None or any(each.answers for each in debate.rounds):
            return
        raise _build_no_answers_error("nobody answered", get_status(debate).failures)


def _build_patches(debate: Debate, code: CodeContext) -> Sequence[ProposedPatch | RefusedPatch]:
    from kakite.debate.files import take_snapshot

    with take_snapshot(code) as files:
        return build_patches(debate, files)


def find_programs(participants: Sequence[Participant]) -> list[CliParticipant]:
    """Return the programs of this machine that take part."""
    from kakite.debate.participants.base import CliParticipant

    programs = (getattr(each, "program", each) for each in participants)
    return [each for each in programs if isinstance(each, CliParticipant)]


async def list_sandbox_notes(participants: Sequence[Participant]) -> list[str]:
    """Return a line for each program that should run in a sandbox and cannot here."""
    programs = [each for each in find_programs(participants) if each.access]
    there = [each for each in programs if not each.check_installed()]
    found = await asyncio.gather(*(each.find_sandbox_obstacle() for each in there))
    return [
        f"{each.side.name} runs in no sandbox, but as you: {obstacle} (`kakite doctor --sandbox`)"
        for each, obstacle in zip(there, found, strict=True)
        if obstacle
    ]


def check_available(participants: Sequence[Participant]) -> None:
    """Refuse to begin where no participant's program is there.

    Raises:
        NoAnswersError: none is.
    """
    gone = {each.side.name: each.check_installed() for each in find_programs(participants)}
    failures = [(side, failure) for side, failure in gone.items() if failure]
    if failures and len(failures) == len(participants):
        raise _build_no_answers_error("no side can be asked", failures)


def _build_no_answers_error(told: str, failures: Sequence[tuple[str, ParticipantFailure]]) -> NoAnswersError:
    each = "; ".join(f"{side}: {failure.message} ({failure.code})" for side, failure in failures)
    hints = [f"{side}: {failure.hint}" for side, failure in failures if failure.hint]
    return NoAnswersError(f"{told}: {each}", hint="; ".join(hints))


def print_saved_debates(kept: SqliteDebateStore, *, as_json: bool) -> None:
    """Print which debates are kept."""
    from datetime import datetime

    found = kept.list_debates()
    if as_json:
        rows = [
            {
                "session": each.name,
                "status": _format_status(each.debate),
                "busy": each.busy,
                "round": get_status(each.debate).round if each.debate else None,
                "topic": each.debate.prompt if each.debate else None,
                "began": each.began,
                "changed": each.changed,
            }
            for each in found
        ]
        typer.echo(json.dumps({"debates": rows}))
        return
    if not found:
        typer.echo("there are no kept debates; `--keep` keeps one", err=True)
    for each in found:
        status = "at work" if each.busy else _format_status(each.debate)
        when = datetime.fromtimestamp(each.changed).astimezone().strftime("%Y-%m-%d %H:%M")
        topic = each.debate.prompt.strip().split("\n", 1)[0] if each.debate else ""
        name = each.name or "(unnamed: '')"
        typer.echo(escape_one_line(f"{name:<36}  {status:<10}  {when}  {topic[:80]}"))


def _format_status(debate: Debate | None) -> str:
    if debate is None:
        return "unreadable"
    status = get_status(debate).status
    return "unfinished" if status == "running" else status
