"""Debates on disk."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.debate.bridge import Bridge
from kakite.debate.events import Begun, Decided, Event, Replied, Stopped, told
from kakite.debate.kept import FORM, Kept, KeptError
from kakite.debate.participants import CommandLine
from kakite.debate.protocol import due, standing
from kakite.debate.record import Decision
from kakite.testing.clis import stub
from tests.debate.arguing import CLAUDE, CODEX, answer, terms
from tests.debate.courses import courses
from tests.debate.test_bridge import Told, act

BEGUN = Begun(prompt="Why?", terms=terms())
FIRST = Replied(side="codex", round=1, reply=answer("first"))
SECOND = Replied(side="claude", round=1, reply=answer("second"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "debates.sqlite"


def fill(file: Path, *events: Event, name: str = "x") -> None:
    with Kept(file) as kept:
        for event in events:
            kept.keep(name, event)


def code_of(file: Path, name: str = "x") -> str:
    with Kept(file) as kept, pytest.raises(KeptError) as caught:
        kept.take(name)
    assert caught.value.hint
    return caught.value.code


@given(events=courses(), name=st.text(max_size=20))
def test_whatever_was_kept_is_told_the_same_by_another_process(events: list[Event], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "d.sqlite"
        name = name.replace("\ud800", "")
        for event in events:  # each by a process of its own: so that any prefix is one that was killed
            with Kept(file) as kept:
                if not isinstance(event, Begun):
                    kept.take(name)
                kept.keep(name, event)
        with Kept(file) as kept:
            assert kept.recorded(name) == told(events) == kept.take(name)
            assert [each.debate for each in kept.sessions()] == [told(events)]


@given(data=st.data())
@settings(max_examples=60)
def test_a_file_cut_anywhere_is_a_debate_that_was_or_an_error_with_a_code(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "d.sqlite"
        events = data.draw(courses())
        fill(file, *events)
        whole = file.read_bytes()
        cut = data.draw(st.integers(0, len(whole) - 1))
        file.write_bytes(whole[:cut])
        before = [told(events[: count + 1]) for count in range(len(events))]
        with Kept(file) as kept:
            try:
                found = kept.take("x")
            except KeptError as error:
                code = error.code
            else:
                code = "kept_unknown"
                assert found in before
        assert code in {"kept_unreadable", "kept_unknown", "kept_failed"}


def test_the_file_is_for_nobody_else(file: Path) -> None:
    fill(file, BEGUN)
    assert [each.stat().st_mode & 0o777 for each in sorted(file.parent.iterdir())] == [0o600, 0o600]


def test_without_an_event_nothing_is_on_disk(file: Path) -> None:
    with Kept(file) as kept:
        assert kept.sessions() == []
        for use in (kept.take, kept.recorded, kept.delete):
            with pytest.raises(KeptError) as caught:
                use("x")
            assert caught.value.code == "kept_unknown"
    assert not file.parent.exists()


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("CREATE TABLE a (b)", "kept_unreadable"),
        (f"PRAGMA user_version = {FORM + 1}", "kept_newer"),
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
    with Kept(file) as kept, pytest.raises(KeptError):
        kept.keep("x", BEGUN)
    assert file.read_bytes() == b"notes of a person\n" * 100


def test_one_damaged_debate_hides_no_other(file: Path) -> None:
    fill(file, BEGUN, FIRST)
    fill(file, BEGUN, name="y")
    database = sqlite3.connect(file)
    database.execute("UPDATE events SET event = '' WHERE debate = 1")
    database.commit()
    database.close()
    with Kept(file) as kept:
        assert {each.name: each.debate is None for each in kept.sessions()} == {"x": True, "y": False}
        kept.delete("x")
        assert [each.name for each in kept.sessions()] == ["y"]


def test_what_did_not_change_is_not_read_again_to_list_it(file: Path) -> None:
    fill(file, BEGUN, FIRST)
    fill(file, BEGUN, name="y")
    with Kept(file) as looking, Kept(file) as other:
        before = {each.name: each.debate for each in looking.sessions()}
        other.take("y")
        other.keep("y", SECOND)
        after = {each.name: each.debate for each in looking.sessions()}
        assert after["x"] is before["x"]
        assert after["y"] == told([BEGUN, SECOND])
        other.delete("x")
        assert [each.name for each in looking.sessions()] == ["y"]


def test_one_process_at_a_time_is_at_a_debate(file: Path) -> None:
    with Kept(file) as one, Kept(file) as other:
        one.keep("x", BEGUN)
        for use in (other.take, other.delete, other.keeper):
            with pytest.raises(KeptError) as caught:
                use("x")
            assert caught.value.code == "kept_busy"
        with pytest.raises(KeptError):
            other.keep("x", BEGUN)
        other.keep("y", BEGUN)
        assert {each.name: each.busy for each in other.sessions()} == {"x": True, "y": True}
        assert other.recorded("x") == told([BEGUN])
        one.release("x")
        assert other.take("x") == told([BEGUN])


def test_who_stops_a_debate_lets_go_of_it(file: Path) -> None:
    with Kept(file) as one, Kept(file) as other:
        one.keep("x", BEGUN)
        one.keep("x", Stopped(why="person"))
        assert other.take("x").stopped == "person"


def test_a_debate_begun_anew_takes_nothing_from_the_older_one(file: Path) -> None:
    fill(file, BEGUN, FIRST)
    fill(file, BEGUN, name="")
    fill(file, Begun(prompt="Anew?", terms=terms()))
    fill(file, Begun(prompt="Again?", terms=terms()))
    fill(file, Begun(prompt="Unnamed?", terms=terms()), name="")
    with Kept(file) as kept:
        prompts = {each.name: each.debate and each.debate.prompt for each in kept.sessions()}
        assert prompts == {
            "x": "Again?",
            "x~1": "Why?",
            "x~2": "Anew?",
            "": "Unnamed?",
            "debate~1": "Why?",
        }
        assert kept.take("x~1") == told([BEGUN, FIRST])


def test_a_reply_that_could_not_be_written_is_with_the_next_event(file: Path) -> None:
    with Kept(file) as kept:
        kept.keep("x", BEGUN)
        blocker = sqlite3.connect(file)
        kept._database().execute("PRAGMA busy_timeout = 1")  # pyright: ignore[reportPrivateUsage]
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(KeptError) as caught:
            kept.keep("x", FIRST)
        assert caught.value.code == "kept_failed"
        with pytest.raises(KeptError):
            kept.keep("x", Decided(decision=Decision(kind="continue")))
        blocker.close()
        kept.keep("x", SECOND)
        assert kept.recorded("x") == told([BEGUN, FIRST, SECOND])


def test_from_any_moment_a_kept_debate_goes_on_and_asks_nothing_twice(file: Path) -> None:
    asked: list[list[int]] = []

    async def work(fill_to: int) -> None:
        sides = [Told(CODEX), Told(CLAUDE)]
        with Kept(file.with_name(f"{fill_to}.sqlite")) as kept:
            async with Bridge(sides, keeper=kept) as bridge:
                debate = kept.take("x")
                missing = len(due(debate))
                await bridge.resume(debate, session="x")
                debate = await bridge.wait(30, session="x")
                assert standing(debate).status == "ok"
                assert kept.recorded("x") == debate
                asked.append([missing, sum(len(side.asked) for side in sides)])

    for count in (1, 2, 3):
        fill(file.with_name(f"{count}.sqlite"), *(BEGUN, FIRST, SECOND)[:count])
        act(lambda count=count: work(count))
    assert asked == [[2, 4], [1, 3], [2, 2]]


def test_twenty_debates_at_once_are_all_kept(file: Path) -> None:
    async def work() -> None:
        sides = [
            CommandLine(side=CODEX, command=stub("codex", "objects"), reader="codex"),
            CommandLine(side=CLAUDE, command=stub("claude", "agrees"), reader="claude"),
        ]
        with Kept(file) as kept:
            async with Bridge(sides, keeper=kept) as bridge:
                for number in range(20):
                    await bridge.start("Why?", bridge.terms(rounds=1), session=str(number))
                held = {str(number): await bridge.wait(200, session=str(number)) for number in range(20)}
                assert {standing(each).status for each in held.values()} == {"ok"}
                assert {each.name: each.debate for each in kept.sessions()} == held

    act(work, 240)
