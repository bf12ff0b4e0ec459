"""Debates on disk."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.debate.model import Decision
from kakite.debate.participants.base import CliParticipant
from kakite.debate.rounds import (
    DebateEvent,
    DebateStarted,
    DebateStopped,
    DecisionMade,
    ReplyReceived,
    get_status,
    next_requests,
    replay,
)
from kakite.debate.session import DebateManager
from kakite.debate.store import SCHEMA_VERSION, DebateStoreError, SqliteDebateStore
from kakite_testing.fake_clis import build_stub_command
from tests.bounds import WITHIN
from tests.debate.arguing import CLAUDE, CODEX, answer, terms
from tests.debate.courses import courses
from tests.debate.test_session import Told, act
from tests.lanes import examples

BEGUN = DebateStarted(prompt="Why?", terms=terms())
FIRST = ReplyReceived(side="codex", round=1, reply=answer("first"))
SECOND = ReplyReceived(side="claude", round=1, reply=answer("second"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "debates.sqlite"


def fill(file: Path, *events: DebateEvent, name: str = "x") -> None:
    with SqliteDebateStore(file) as kept:
        for event in events:
            kept.append(name, event)


def code_of(file: Path, name: str = "x") -> str:
    with SqliteDebateStore(file) as kept, pytest.raises(DebateStoreError) as caught:
        kept.claim(name)
    assert caught.value.hint
    return caught.value.code


@pytest.mark.slow
@given(events=courses(), name=st.text(max_size=20))
def test_whatever_was_kept_is_told_the_same_by_another_process(events: list[DebateEvent], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "d.sqlite"
        name = name.replace("\ud800", "")
        for event in events:  # each by a process of its own: so that any prefix is one that was killed
            with SqliteDebateStore(file) as kept:
                if not isinstance(event, DebateStarted):
                    kept.claim(name)
                kept.append(name, event)
        with SqliteDebateStore(file) as kept:
            assert kept.load(name) == replay(events) == kept.claim(name)
            assert [each.debate for each in kept.list_debates()] == [replay(events)]


@given(data=st.data())
@settings(max_examples=examples(60))
def test_a_file_cut_anywhere_is_a_debate_that_was_or_an_error_with_a_code(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "d.sqlite"
        events = data.draw(courses())
        fill(file, *events)
        whole = file.read_bytes()
        cut = data.draw(st.integers(0, len(whole) - 1))
        file.write_bytes(whole[:cut])
        before = [replay(events[: count + 1]) for count in range(len(events))]
        with SqliteDebateStore(file) as kept:
            try:
                found = kept.claim("x")
            except DebateStoreError as error:
                code = error.code
            else:
                code = "kept_unknown"
                assert found in before
        assert code in {"kept_unreadable", "kept_unknown", "kept_failed"}


def test_the_file_is_for_nobody_else(file: Path) -> None:
    fill(file, BEGUN)
    assert [each.stat().st_mode & 0o777 for each in sorted(file.parent.iterdir())] == [0o600, 0o600]


def test_without_an_event_nothing_is_on_disk(file: Path) -> None:
    with SqliteDebateStore(file) as kept:
        assert kept.list_debates() == []
        for use in (kept.claim, kept.load, kept.delete):
            with pytest.raises(DebateStoreError) as caught:
                use("x")
            assert caught.value.code == "kept_unknown"
    assert not file.parent.exists()


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("CREATE TABLE a (b)", "kept_unreadable"),
        (f"PRAGMA user_version = {SCHEMA_VERSION + 1}", "kept_newer"),
        ("UPDATE events SET event = '{' WHERE n = 1", "kept_unreadable"),
        ("UPDATE events SET event = x'ff' WHERE n = 1", "kept_unreadable"),
        ("""UPDATE events SET event = '{"type": "later"}' WHERE n = 1""", "kept_unreadable"),
        ("DELETE FROM events WHERE n = 1", "kept_unreadable"),
        ("DROP TABLE events", "kept_unreadable"),
    ],
)
def test_what_is_damaged_foreign_or_newer_has_a_code(file: Path, damage: str, code: str) -> None:
    if damage.startswith("CREATE"):
        file.parent.mkdir()
    else:
        fill(file, BEGUN, FIRST, SECOND)
    database = sqlite3.connect(file)
    database.execute(damage)
    database.commit()
    database.close()
    before = file.read_bytes()
    assert code_of(file) == code
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_left_as_it_is(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"notes of a person\n" * 100)
    assert code_of(file) == "kept_unreadable"
    with SqliteDebateStore(file) as kept, pytest.raises(DebateStoreError):
        kept.append("x", BEGUN)
    assert file.read_bytes() == b"notes of a person\n" * 100


def test_one_damaged_debate_hides_no_other(file: Path) -> None:
    fill(file, BEGUN, FIRST)
    fill(file, BEGUN, name="y")
    database = sqlite3.connect(file)
    database.execute("UPDATE events SET event = '' WHERE debate = 1")
    database.commit()
    database.close()
    with SqliteDebateStore(file) as kept:
        assert {each.name: each.debate is None for each in kept.list_debates()} == {"x": True, "y": False}
        kept.delete("x")
        assert [each.name for each in kept.list_debates()] == ["y"]


def test_what_did_not_change_is_not_read_again_to_list_it(file: Path) -> None:
    fill(file, BEGUN, FIRST)
    fill(file, BEGUN, name="y")
    with SqliteDebateStore(file) as looking, SqliteDebateStore(file) as other:
        before = {each.name: each.debate for each in looking.list_debates()}
        other.claim("y")
        other.append("y", SECOND)
        after = {each.name: each.debate for each in looking.list_debates()}
        assert after["x"] is before["x"]
        assert after["y"] == replay([BEGUN, SECOND])
        other.delete("x")
        assert [each.name for each in looking.list_debates()] == ["y"]


def test_one_process_at_a_time_is_at_a_debate(file: Path) -> None:
    with SqliteDebateStore(file) as one, SqliteDebateStore(file) as other:
        one.append("x", BEGUN)
        for use in (other.claim, other.delete, other.acquire):
            with pytest.raises(DebateStoreError) as caught:
                use("x")
            assert caught.value.code == "kept_busy"
        with pytest.raises(DebateStoreError):
            other.append("x", BEGUN)
        other.append("y", BEGUN)
        assert {each.name: each.busy for each in other.list_debates()} == {"x": True, "y": True}
        assert other.load("x") == replay([BEGUN])
        one.release("x")
        assert other.claim("x") == replay([BEGUN])


def test_who_stops_a_debate_lets_go_of_it(file: Path) -> None:
    with SqliteDebateStore(file) as one, SqliteDebateStore(file) as other:
        one.append("x", BEGUN)
        one.append("x", DebateStopped(why="person"))
        assert other.claim("x").stopped == "person"


def test_a_debate_begun_anew_takes_nothing_from_the_older_one(file: Path) -> None:
    fill(file, BEGUN, FIRST)
    fill(file, BEGUN, name="")
    fill(file, DebateStarted(prompt="Anew?", terms=terms()))
    fill(file, DebateStarted(prompt="Again?", terms=terms()))
    fill(file, DebateStarted(prompt="Unnamed?", terms=terms()), name="")
    with SqliteDebateStore(file) as kept:
        prompts = {each.name: each.debate and each.debate.prompt for each in kept.list_debates()}
        assert prompts == {
            "x": "Again?",
            "x~1": "Why?",
            "x~2": "Anew?",
            "": "Unnamed?",
            "debate~1": "Why?",
        }
        assert kept.claim("x~1") == replay([BEGUN, FIRST])


def test_a_reply_that_could_not_be_written_is_with_the_next_event(file: Path) -> None:
    with SqliteDebateStore(file) as kept:
        kept.append("x", BEGUN)
        blocker = sqlite3.connect(file)
        blocker.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'full'); END")
        with pytest.raises(DebateStoreError) as caught:
            kept.append("x", FIRST)
        assert caught.value.code == "kept_failed"
        with pytest.raises(DebateStoreError):
            kept.append("x", DecisionMade(decision=Decision(kind="continue")))
        blocker.execute("DROP TRIGGER full")
        blocker.close()
        kept.append("x", SECOND)
        assert kept.load("x") == replay([BEGUN, FIRST, SECOND])


def test_from_any_moment_a_kept_debate_goes_on_and_asks_nothing_twice(file: Path) -> None:
    asked: list[list[int]] = []

    async def work(fill_to: int) -> None:
        sides = [Told(CODEX), Told(CLAUDE)]
        with SqliteDebateStore(file.with_name(f"{fill_to}.sqlite")) as kept:
            async with DebateManager(sides, keeper=kept) as bridge:
                debate = kept.claim("x")
                missing = len(next_requests(debate))
                await bridge.resume(debate, session="x")
                debate = await bridge.wait(WITHIN, session="x")
                assert get_status(debate).status == "ok"
                assert kept.load("x") == debate
                asked.append([missing, sum(len(side.asked) for side in sides)])

    for count in (1, 2, 3):
        fill(file.with_name(f"{count}.sqlite"), *(BEGUN, FIRST, SECOND)[:count])
        act(lambda count=count: work(count))
    assert asked == [[2, 4], [1, 3], [2, 2]]


@pytest.mark.slow
def test_twenty_debates_at_once_are_all_kept(file: Path) -> None:
    async def work() -> None:
        sides = [
            CliParticipant(side=CODEX, command=build_stub_command("codex", "objects"), reader="codex"),
            CliParticipant(side=CLAUDE, command=build_stub_command("claude", "agrees"), reader="claude"),
        ]
        with SqliteDebateStore(file) as kept:
            async with DebateManager(sides, keeper=kept) as bridge:
                for number in range(20):
                    await bridge.start("Why?", bridge.build_config(rounds=1), session=str(number))
                held = {str(number): await bridge.wait(200, session=str(number)) for number in range(20)}
                assert {get_status(each).status for each in held.values()} == {"ok"}
                assert {each.name: each.debate for each in kept.list_debates()} == held

    act(work, 240)
