"""Offsets: whatever characters a text has, changes land where they should, and are told as they were made."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text

from kakite.collab.shared_text import NAME, SharedText
from kakite.edit import Change, ChangeSet
from tests.collab.replicas import joined, meet, meet_all, put, replicas
from tests.collab.texts import changes_of, long_texts, texts


def beginning(text: str) -> SharedText:
    shared = SharedText()
    put(shared, 0, 0, text)
    return shared


@given(st.data(), long_texts)
def test_a_change_of_the_shared_text_is_the_change_of_the_text(data: st.DataObject, text: str) -> None:
    shared = beginning(text)
    changes = data.draw(changes_of(text))
    shared.apply(changes, "person")
    assert str(shared) == changes.apply(text)


@pytest.mark.slow
@given(st.data(), long_texts)
def test_every_change_is_told_as_it_was_made(data: st.DataObject, text: str) -> None:
    mine, theirs = replicas(2, text)
    told: list[tuple[ChangeSet, object]] = []
    theirs.observe(lambda changes, origin: told.append((changes, origin)))
    now = text
    for number in range(3):
        changes = data.draw(changes_of(now))
        before, told[:] = now, []
        (theirs if number % 2 else mine).apply(changes, f"number {number}")
        meet(mine, theirs)
        now = changes.apply(before)
        assert len(told) == bool(changes)
        for made, origin in told:
            assert made.apply(before) == now
            assert origin == (f"number {number}" if number % 2 else None)


@pytest.mark.slow
@given(st.data(), long_texts, st.integers(2, 3), st.randoms(use_true_random=False))
def test_replicas_that_meet_at_random_become_equal(
    data: st.DataObject, text: str, count: int, random: Random
) -> None:
    shared = replicas(count, text)
    mirrors = [text] * count

    def follow(number: int) -> None:
        def told(changes: ChangeSet, _: object) -> None:
            mirrors[number] = changes.apply(mirrors[number])

        shared[number].observe(told)

    for number in range(count):
        follow(number)
    for _ in range(6):
        one = random.choice(shared)
        one.apply(data.draw(changes_of(str(one), most=2)), "person")
        if random.random() < 0.5:
            meet(*random.sample(shared, 2))
    meet_all(shared)
    assert len({str(one) for one in shared}) == 1
    assert mirrors == [str(one) for one in shared]


def test_two_hundred_random_runs_of_three_replicas_end_equal(proof: bool) -> None:
    pieces = ("日本", "👨‍👩‍👧", "e\u0301", " word ", "𠮷", "\n", "🇯🇵")
    for seed in range(200 if proof else 20):
        random = Random(seed)
        shared = replicas(3, "はじめ\n第二 👍 line\n")
        for _ in range(60):
            one = random.choice(shared)
            now = str(one)
            start = random.randint(0, len(now))
            end = min(len(now), start + random.choice((0, 0, 1, 3)))
            put(one, start, end, random.choice(pieces))
            if random.random() < 0.3:
                meet(*random.sample(shared, 2))
            if random.random() < 0.02:
                shared.append(joined(one))
        meet_all(shared)
        assert len({str(one) for one in shared}) == 1


def test_all_changes_at_once_are_one_transaction() -> None:
    shared = beginning("一二三\nfour\n")
    updates: list[bytes] = []
    told: list[ChangeSet] = []
    shared.doc.observe(lambda event: updates.append(event.update))
    shared.observe(lambda changes, _: told.append(changes))
    changes = ChangeSet.of(9, [Change(0, 1, "壱"), Change(2, 3, ""), Change(9, 9, "five👍\n")])
    shared.apply(changes, "run:1")
    assert told == [changes]
    assert len(updates) == 1


@pytest.mark.parametrize(
    ("length", "changes"),
    [
        (2, [Change(0, 0, "x")]),
        (4, [Change(0, 0, "x")]),
        (3, [Change(0, 1, "good"), Change(3, 4, "x")]),
        (3, [Change(0, 1, "good"), Change(-1, 0, "x")]),
        (3, [Change(0, 1, "good"), Change(2, 1, "x")]),
        (3, [Change(0, 2, "good"), Change(1, 3, "x")]),
        (3, [Change(0, 1, "good"), Change(1, 2, "half \ud83d")]),
        (3, [Change(0, 1, "good"), Change(3, 3, "\udc4d")]),
    ],
    ids=["shorter", "longer", "beyond", "before", "backwards", "overlapping", "high", "low"],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(length: int, changes: list[Change]) -> None:
    shared = beginning("日👍x")
    before = shared.doc.get_state()
    with pytest.raises(ValueError, match="change"):
        shared.apply(ChangeSet(length, tuple(changes)), "person")
    assert str(shared) == "日👍x"
    assert shared.doc.get_state() == before


@pytest.mark.parametrize("at", [2, 5])
def test_what_is_typed_at_either_end_of_what_is_replaced_stays_there(at: int) -> None:
    for client in range(20):  # who has the lower number is first where Yjs has nothing else to go by
        mine, theirs = replicas(2, "前の古い語の後")
        other = SharedText(Doc(client_id=client + 1))
        meet(other, theirs)
        put(other, at, at, "<typed>")
        put(mine, 2, 5, "新語")
        meet(mine, other)
        expected = "前の<typed>新語の後" if at == 2 else "前の新語<typed>の後"
        assert str(mine) == str(other) == expected


def test_nothing_is_changed_by_no_changes() -> None:
    shared = beginning("日本")
    told: list[ChangeSet] = []
    shared.observe(lambda changes, _: told.append(changes))
    shared.apply(ChangeSet(2), "person")
    assert told == []


def test_a_text_that_is_there_already_is_taken_over() -> None:
    doc: Doc[Any] = Doc()
    doc.get(NAME, type=Text).insert(0, "日本語")
    shared = SharedText(doc)
    told: list[ChangeSet] = []
    shared.observe(lambda changes, _: told.append(changes))
    put(shared, 1, 2, "X")
    assert (str(shared), told) == ("日X語", [ChangeSet(3, (Change(1, 2, "X"),))])


def test_one_listener_stops_or_fails_without_the_others() -> None:
    shared = beginning("")
    told: list[str] = []

    def fail(changes: ChangeSet, origin: object) -> None:
        raise ZeroDivisionError

    stop = shared.observe(lambda _, __: told.append("first"))
    shared.observe(fail)
    shared.observe(lambda _, __: told.append("last"))
    with pytest.raises(ExceptionGroup):
        put(shared, 0, 0, "日")
    assert (str(shared), told) == ("日", ["first", "last"])
    stop()
    stop()
    with pytest.raises(ExceptionGroup):
        put(shared, 1, 1, "本")
    assert (str(shared), told) == ("日本", ["first", "last", "last"])


def embed(text: Text) -> None:
    text.insert_embed(3, {"image": "x"})


def format_(text: Text) -> None:
    text.format(0, 6, {"bold": True})


@pytest.mark.parametrize("odd", [embed, format_])
def test_what_a_client_put_in_that_is_no_text_does_no_harm(odd: Callable[[Text], None]) -> None:
    mine, theirs = replicas(2, "日本語 text")
    told: list[ChangeSet] = []
    mine.observe(lambda changes, _: told.append(changes))
    odd(theirs.doc.get(NAME, type=Text))
    meet(mine, theirs)
    theirs.doc.get(NAME, type=Text).insert(0, "👍")
    meet(mine, theirs)
    put(mine, 2, 4, "XY")
    meet(mine, theirs)
    assert str(mine) == str(theirs) == "👍日XY text"
    now = "日本語 text"
    for changes in told:
        now = changes.apply(now)
    assert now == str(mine)


@given(texts)
def test_offsets_of_browsers_and_back(text: str) -> None:
    shared = beginning(text)
    for at in range(len(text) + 1):
        units = len(text[:at].encode("utf-16-le")) // 2
        assert shared.to_utf16(at) == units
        assert shared.from_utf16(units) == at
    assert shared.from_utf16(10**6) == len(text)
    assert shared.from_utf16(-1) == 0


def test_half_a_character_of_a_browser_is_in_front_of_it() -> None:
    shared = beginning("a👍b")
    assert [shared.from_utf16(units) for units in range(5)] == [0, 1, 1, 2, 3]


@given(st.data(), long_texts)
def test_a_caret_stays_behind_its_character(data: st.DataObject, text: str) -> None:
    """Told by a replica that finds the character by what the caret says of it: who wrote it, and which of
    theirs, counted in UTF-16 units.
    """
    shared = beginning(text)
    at = data.draw(st.integers(0, len(text)))
    caret = shared.to_relative_position(at)
    if at == 0:
        assert caret == {"type": None, "tname": "text", "item": None, "assoc": -1}
        return
    item = caret["item"]
    assert item is not None
    assert item["client"] == shared.doc.client_id
    assert item["clock"] == len(text[:at].encode("utf-16-le")) // 2 - 1


def test_a_caret_in_what_several_wrote_names_who_wrote_it() -> None:
    mine, theirs = replicas(2, "日本")
    put(theirs, 1, 1, "👍x")
    meet(mine, theirs)
    ours, other = mine.doc.client_id, theirs.doc.client_id
    carets = [mine.to_relative_position(at)["item"] for at in range(1, 5)]
    assert carets == [
        {"client": ours, "clock": 0},
        {"client": other, "clock": 1},
        {"client": other, "clock": 2},
        {"client": ours, "clock": 1},
    ]


class TestUndo:
    def test_takes_back_one_origin_in_one_transaction_and_keeps_what_people_typed(self) -> None:
        mine, theirs = replicas(2, "一行目\n二行目👍\n三\n")
        mine.apply(ChangeSet.of(11, [Change(0, 1, "壱")]), "run:1", undoable=True)
        put(theirs, 0, 0, "PEOPLE")
        put(mine, 0, 0, "also ")
        meet(mine, theirs)
        at = str(mine).index("二")
        mine.apply(ChangeSet.of(len(str(mine)), [Change(at, at + 1, "弐つ")]), "run:1", undoable=True)
        meet(mine, theirs)
        at = str(theirs).index("つ")
        put(theirs, at, at, "<typing>")
        meet(mine, theirs)
        updates: list[bytes] = []
        told: list[object] = []
        mine.doc.observe(lambda event: updates.append(event.update))
        mine.observe(lambda _, origin: told.append(origin))
        assert mine.can_undo("run:1")
        assert mine.undo("run:1")
        assert (len(updates), told) == (1, ["run:1"])
        assert sorted(str(mine)) == sorted("also PEOPLE一行目\n二<typing>行目👍\n三\n")
        assert "<typing>" in str(mine)
        meet(mine, theirs)
        assert str(theirs) == str(mine)
        assert not mine.undo("run:1")

    def test_leaves_other_origins_alone(self) -> None:
        shared = beginning("ab")
        shared.apply(ChangeSet.of(2, [Change(0, 1, "1")]), "run:1", undoable=True)
        shared.apply(ChangeSet.of(2, [Change(1, 2, "2")]), "run:2", undoable=True)
        assert shared.undo("run:1")
        assert str(shared) == "a2"
        assert shared.undo("run:2")
        assert str(shared) == "ab"

    def test_is_over_once_it_is_kept(self) -> None:
        shared = beginning("ab")
        shared.apply(ChangeSet.of(2, [Change(0, 1, "1")]), "run:1", undoable=True)
        shared.forget_undo("run:1")
        assert not shared.undo("run:1")
        assert str(shared) == "1b"

    def test_of_what_was_not_made_so_is_none(self) -> None:
        shared = beginning("ab")
        put(shared, 0, 1, "1", "run:1")
        assert not shared.can_undo("run:1")
        assert not shared.undo("run:1")

    def test_of_many_runs_is_kept_for_the_last(self) -> None:
        shared = beginning("日")
        for number in range(40):
            shared.apply(ChangeSet.of(number + 1, [Change(0, 0, "x")]), f"run:{number}", undoable=True)
        assert not shared.can_undo("run:0")
        assert shared.undo("run:39")
        assert len(str(shared)) == 40


@given(st.data())
def test_what_is_included_in_a_snapshot_is_a_change_of_others_no_more(data: st.DataObject) -> None:
    shared = beginning(data.draw(texts))
    shown = shared.take_snapshot()
    shared.apply(data.draw(changes_of(str(shared))), "ann")
    own, since, before = data.draw(changes_of(str(shared))), shown.changes, str(shared)
    shared.apply(own, "agent")
    shown.include(own, since, str(shared))
    assert shown.changes.apply(shown.text) == str(shared)
    if not since:
        assert (shown.text, bool(shown.changes)) == (own.apply(before), False)
