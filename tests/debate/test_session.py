"""Performing debates: with sides that answer when the test says so."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.files import FileSnapshot
from kakite.debate.model import DebateError, DebateLimits, Decision, ParticipantInfo
from kakite.debate.participants.base import CliParticipant, OnProgress, Participant, ProbeResult
from kakite.debate.rounds import DebateEvent, ReplyReceived, get_status, replay
from kakite.debate.session import MAX_SESSIONS, DebateManager, SessionUpdate
from kakite_testing.fake_clis import build_stub_command
from tests.bounds import WITHIN
from tests.debate.arguing import CLAUDE, CODEX, THIRD

T = TypeVar("T")
GO_ON = Decision(kind="custom_instruction", text="Go on.")


@dataclass
class Told:
    """Answers what the test says; with ``waits`` not before the test lets it."""

    side: ParticipantInfo
    says: Callable[[str], Reply] = lambda _: Answer(text="yes")
    waits: bool = False
    asked: list[str] = field(default_factory=list[str])
    seconds: list[float | None] = field(default_factory=list[float | None])
    read: list[str] = field(default_factory=list[str])
    folders: list[Path] = field(default_factory=list[Path])
    at_work: int = 0
    most_at_work: int = 0
    let: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        files: FileSnapshot | None = None,
    ) -> Reply:
        self.asked.append(prompt)
        self.read.append(files.render() if files else "")
        self.folders += [files.folder] if files else []
        self.seconds.append(seconds)
        self.begun.set()
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            if on_progress:
                on_progress("thinking")
            await asyncio.sleep(0)
            if self.waits:
                await self.let.wait()
            return self.says(prompt)
        finally:
            self.at_work -= 1

    async def probe(self) -> ProbeResult:
        return ProbeResult(state="ok", told="a test")


class Kept:
    """Keeps events in memory; can be full."""

    def __init__(self) -> None:
        self.events: dict[str, list[DebateEvent]] = defaultdict(list)
        self.full: type | None = None

    def append(self, session: str, event: DebateEvent) -> None:
        if self.full and isinstance(event, self.full):
            raise OSError("no space left")
        if event.type == "begun":
            self.events[session].clear()
        self.events[session].append(event)


def act(work: Callable[[], Coroutine[Any, Any, T]], seconds: float = WITHIN) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work()

    return asyncio.run(bounded())


def refusal(caught: pytest.ExceptionInfo[DebateError]) -> str:
    return caught.value.code


def test_start_returns_at_once_and_wait_gives_the_turn() -> None:
    async def work() -> None:
        codex, claude = Told(CODEX, waits=True), Told(CLAUDE)
        async with DebateManager([codex, claude]) as bridge:
            debate = await bridge.start("Why?", bridge.build_config())
            assert get_status(debate).status == "running"
            debate = await bridge.wait(0.01)
            assert get_status(debate).status == "running"
            codex.let.set()
            debate = await bridge.wait(WITHIN)
            assert (get_status(debate).status, get_status(debate).round) == ("ok", 2)
            assert [len(codex.asked), len(claude.asked)] == [2, 2]

    act(work)


def test_a_step_goes_on_and_stop_ends_it() -> None:
    async def work() -> None:
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            await bridge.start("Why?", bridge.build_config(rounds=1))
            await bridge.wait(WITHIN)
            await bridge.step(GO_ON)
            debate = await bridge.wait(WITHIN)
            assert (get_status(debate).turn, get_status(debate).status) == (2, "ok")
            debate = await bridge.stop()
            assert get_status(debate).status == "stopped"
            assert bridge.get_debate() == debate

    act(work)


def test_without_a_session_all_but_start_is_refused() -> None:
    async def work() -> None:
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            for call in (bridge.step(GO_ON), bridge.wait(1), bridge.stop()):
                with pytest.raises(DebateError, match="no active session") as caught:
                    await call
                assert refusal(caught) == "no_active_session"
            await bridge.start("Why?", bridge.build_config())
            await bridge.stop()
            for call in (bridge.step(GO_ON), bridge.stop()):
                with pytest.raises(DebateError, match="no active session"):
                    await call

    act(work)


def test_a_second_start_is_refused_unless_it_resets_and_the_first_is_ended() -> None:
    async def work() -> None:
        codex, kept = Told(CODEX, waits=True), Kept()
        async with DebateManager([codex, Told(CLAUDE)], keeper=kept) as bridge:
            await bridge.start("First?", bridge.build_config())
            await codex.begun.wait()
            with pytest.raises(DebateError) as caught:
                await bridge.start("Second?", bridge.build_config())
            assert refusal(caught) == "already_active"
            debate = await bridge.start("Second?", bridge.build_config(), reset=True)
            assert debate.prompt == "Second?"
            codex.let.set()
            debate = await bridge.wait(WITHIN)
            assert get_status(debate).status == "ok"
            assert replay(kept.events[""]) == debate
            assert codex.at_work == 0

    act(work)


def test_a_step_while_it_runs_is_refused_and_stop_is_not() -> None:
    async def work() -> None:
        codex = Told(CODEX, waits=True)
        async with DebateManager([codex, Told(CLAUDE)]) as bridge:
            await bridge.start("Why?", bridge.build_config())
            await codex.begun.wait()
            with pytest.raises(DebateError) as caught:
                await bridge.step(GO_ON)
            assert refusal(caught) == "still_running"
            debate = await bridge.stop()
            assert codex.at_work == 0
            assert debate.turn.answers.keys() == {"claude"}  # what was there already is kept

    act(work)


def test_sessions_are_apart_and_told_by_name() -> None:
    async def work() -> None:
        async with DebateManager([Told(CODEX), Told(CLAUDE), Told(THIRD)]) as bridge:
            both = replace(bridge.build_config(), sides=(CODEX, THIRD))
            await bridge.start("One?", bridge.build_config(), session="one")
            await bridge.start("Two?", both, session="two")
            await bridge.wait(WITHIN, session="one")
            await bridge.wait(WITHIN, session="two")
            assert {name: debate.prompt for name, debate in bridge.list_debates().items()} == {
                "one": "One?",
                "two": "Two?",
            }
            assert bridge.get_debate(session="two").turn.answers.keys() == {"codex", "third"}

    act(work)


def test_a_mistake_of_one_side_takes_nothing_from_the_other() -> None:
    def broken(prompt: str) -> Reply:
        raise RuntimeError("oops")

    async def work() -> None:
        async with DebateManager([Told(CODEX, says=broken), Told(CLAUDE)]) as bridge:
            await bridge.start("Why?", bridge.build_config())
            debate = await bridge.wait(WITHIN)
            now = get_status(debate)
            assert (now.status, now.failures[0][1].code) == ("degraded", "broken")
            assert debate.turn.answers.keys() == {"claude"}

    act(work)


def test_the_budget_is_told_by_the_clock_that_is_given() -> None:
    seconds = iter(range(0, 1000, 10))

    async def work() -> None:
        codex = Told(CODEX)
        bridge = DebateManager([codex, Told(CLAUDE)], clock=lambda: float(next(seconds)))
        async with bridge:
            await bridge.start("Why?", bridge.build_config(rounds=4, budget=DebateLimits(seconds=15)))
            now = get_status(await bridge.wait(WITHIN))
            assert (now.status, now.ending, now.round) == ("ok", "budget", 1)
            assert codex.seconds == [15]

    act(work)


def test_what_happens_is_told_in_order_and_no_longer_than_wanted() -> None:
    async def work() -> None:
        heard: list[SessionUpdate] = []
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            stop = bridge.listen(heard.append)
            await bridge.start("Why?", bridge.build_config(rounds=1))
            await bridge.wait(WITHIN)
            assert [each.kind for each in heard] == [
                *("begun", "asked", "heard", "asked", "heard", "replied", "replied", "waiting")
            ]
            assert heard[2].text == "thinking"
            assert [each.side for each in heard if each.kind == "replied"] == ["codex", "claude"]
            stop()
            await bridge.stop()
            assert heard[-1].kind == "waiting"

    act(work)


def test_from_what_was_kept_at_any_moment_a_debate_goes_on_to_the_same_end() -> None:
    async def whole() -> tuple[list[DebateEvent], Any]:
        kept = Kept()
        async with DebateManager([Told(CODEX), Told(CLAUDE)], keeper=kept, clock=lambda: 0.0) as bridge:
            await bridge.start("Why?", bridge.build_config(rounds=3))
            await bridge.wait(WITHIN)
            await bridge.step(GO_ON)
            return kept.events[""], await bridge.wait(WITHIN)

    async def resumed(events: list[DebateEvent]) -> Any:
        async with DebateManager([Told(CODEX), Told(CLAUDE)], clock=lambda: 0.0) as bridge:
            await bridge.resume(replay(events))
            debate = await bridge.wait(WITHIN)
            if len(debate.turns) == 1:
                await bridge.step(GO_ON)
            return await bridge.wait(WITHIN)

    events, debate = act(whole)
    for cut in range(1, len(events) + 1):
        assert act(lambda cut=cut: resumed(events[:cut])) == debate


def test_a_reply_that_cannot_be_kept_is_there_all_the_same_and_told() -> None:
    async def work() -> None:
        kept, heard = Kept(), list[SessionUpdate]()
        kept.full = ReplyReceived
        async with DebateManager([Told(CODEX), Told(CLAUDE)], keeper=kept) as bridge:
            bridge.listen(heard.append)
            await bridge.start("Why?", bridge.build_config(rounds=1))
            assert get_status(await bridge.wait(WITHIN)).status == "ok"
            assert [each.text for each in heard if each.kind == "unkept"] == ["no space left"] * 2

    act(work)


def test_what_cannot_be_kept_otherwise_did_not_happen() -> None:
    async def work() -> None:
        kept = Kept()
        async with DebateManager([Told(CODEX), Told(CLAUDE)], keeper=kept) as bridge:
            await bridge.start("Why?", bridge.build_config(rounds=1))
            before = await bridge.wait(WITHIN)
            kept.full = object
            with pytest.raises(OSError, match="no space"):
                await bridge.step(GO_ON)
            with pytest.raises(OSError, match="no space"):
                await bridge.start("Other?", bridge.build_config(), session="other")
            assert bridge.list_debates() == {"": before}

    act(work)


def test_no_more_are_at_work_than_allowed() -> None:
    async def work() -> None:
        most = 0

        def at_work(_: str) -> Reply:
            nonlocal most
            most = max(most, codex.at_work + claude.at_work)
            return Answer(text="yes")

        codex, claude = Told(CODEX, says=at_work), Told(CLAUDE, says=at_work)
        async with DebateManager([codex, claude], at_once=3) as bridge:
            for number in range(20):
                await bridge.start("Why?", bridge.build_config(), session=str(number))
            for number in range(20):
                assert get_status(await bridge.wait(WITHIN, session=str(number))).status == "ok"
            assert most == 3

    act(work)


def test_stopped_debates_make_room_and_active_ones_do_not() -> None:
    async def work() -> None:
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            for number in range(MAX_SESSIONS):
                await bridge.start("Why?", bridge.build_config(rounds=1), session=str(number))
            with pytest.raises(DebateError) as caught:
                await bridge.start("Why?", bridge.build_config(), session="more")
            assert refusal(caught) == "too_many_sessions"
            await bridge.stop(session="7")
            await bridge.start("Why?", bridge.build_config(), session="more")
            assert "7" not in bridge.list_debates()

    act(work)


@pytest.mark.parametrize("session", ["x" * 81, "a\nb"])
def test_a_session_needs_a_name_that_can_be_shown(session: str) -> None:
    async def work() -> None:
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            with pytest.raises(DebateError) as caught:
                await bridge.start("Why?", bridge.build_config(), session=session)
            assert refusal(caught) == "bad_terms"

    act(work)


def test_whoever_calls_may_be_cancelled_and_the_debate_goes_on() -> None:
    async def work() -> None:
        codex = Told(CODEX, waits=True)
        async with DebateManager([codex, Told(CLAUDE)]) as bridge:
            await bridge.start("Why?", bridge.build_config(rounds=1))
            waiting = asyncio.create_task(bridge.wait(WITHIN))
            await codex.begun.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            codex.let.set()
            assert get_status(await bridge.wait(WITHIN)).status == "ok"

    act(work)


@pytest.mark.slow
def test_twenty_debates_at_once_between_real_programs() -> None:
    async def work() -> None:
        sides: list[Participant] = [
            CliParticipant(side=CODEX, command=build_stub_command("codex", "objects"), reader="codex"),
            CliParticipant(side=CLAUDE, command=build_stub_command("claude", "agrees"), reader="claude"),
        ]
        async with DebateManager(sides) as bridge:
            for number in range(20):
                await bridge.start(
                    f"Question {number}?", bridge.build_config(seed=number), session=str(number)
                )
            for number in range(20):
                debate = await bridge.wait(WITHIN, session=str(number))
                now = get_status(debate)
                assert (now.status, now.agreement, debate.prompt) == ("ok", "partly", f"Question {number}?")
                assert [(each.by, each.on) for each in now.dissent] == [("codex", "claude")]

    act(work, seconds=200)


def test_a_failed_side_is_named_with_what_it_wrote_to_stderr() -> None:
    async def work() -> None:
        sides: list[Participant] = [
            CliParticipant(side=CODEX, command=build_stub_command("codex", "exits"), reader="codex"),
            CliParticipant(side=CLAUDE, command=build_stub_command("claude", "agrees"), reader="claude"),
        ]
        async with DebateManager(sides) as bridge:
            await bridge.start("Why?", bridge.build_config())
            ((side, failure),) = get_status(await bridge.wait(WITHIN)).failures
            assert isinstance(failure, ParticipantFailure)
            assert (side, failure.code, failure.stderr_tail) == ("codex", "exited", "something went wrong")

    act(work)
