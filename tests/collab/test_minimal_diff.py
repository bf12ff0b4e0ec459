"""The fewest changes: right, never within a character, and gentle to whoever types beside them."""

from __future__ import annotations

from random import Random

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.suggestions.minimal_diff import WORDS, compute_minimal_diff, is_boundary
from kakite.edit import Change, ChangeSet
from tests.collab.replicas import meet, put, replicas
from tests.collab.texts import changes_of, long_texts


def boundaries(text: str) -> set[int]:
    return {0, len(text), *(found.start() for found in regex.finditer(r"\X", text))}


@given(long_texts)
def test_boundaries_are_those_of_the_whole_text(text: str) -> None:
    assert {at for at in range(len(text) + 1) if is_boundary(text, at)} == boundaries(text)


@given(st.data(), long_texts)
def test_it_leads_to_the_new_text_and_cuts_no_character(data: st.DataObject, old: str) -> None:
    new = data.draw(st.one_of(long_texts, changes_of(old).map(lambda changes: changes.apply(old))))
    check(old, new)


@given(st.data(), st.integers(0, 3))
def test_also_where_the_texts_are_long(data: st.DataObject, sameness: int) -> None:
    filling = data.draw(st.lists(long_texts, min_size=1, max_size=4))
    random = data.draw(st.randoms(use_true_random=False))
    lines = [random.choice(filling) + random.choice(("\n", "", " ")) for _ in range(WORDS // 20)]
    others = [random.choice(filling) if random.randrange(8) < sameness else line for line in lines]
    check("".join(lines), "".join(others))


def check(old: str, new: str) -> None:
    changes = compute_minimal_diff(old, new)
    assert changes.apply(old) == new
    assert bool(changes) == (old != new)
    ends_old, ends_new = boundaries(old), boundaries(new)
    grown = 0
    for change in changes.changes:
        assert {change.start, change.end} <= ends_old
        assert {change.start + grown, change.start + grown + len(change.insert)} <= ends_new
        grown += len(change.insert) - (change.end - change.start)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("the quick brown fox", "the slow brown dog", [(4, 9, "slow"), (16, 19, "dog")]),
        ("東京に行きました。", "京都に行きました。", [(0, 2, "京都")]),
        ("カタカナと漢字とひらがな", "カナと漢字とひらがな", [(1, 3, "")]),
        ("e\u0301x", "ex", [(0, 2, "e")]),
        ("👨‍👩‍👧!", "👨‍👩‍👦!", [(0, 5, "👨‍👩‍👦")]),
        ("a\r\nb", "a\nb", [(1, 3, "\n")]),
        ("一\n二\n", "一\n新\n二\n", [(2, 2, "新\n")]),
    ],
)
def test_words_are_what_is_changed(old: str, new: str, changes: list[tuple[int, int, str]]) -> None:
    assert compute_minimal_diff(old, new) == ChangeSet.of(len(old), [Change(*change) for change in changes])


def numbered(count: int, other: int) -> str:
    return "".join(
        f"line {at} of the page\n" if at % other else f"LINE {at}, which is new\n" for at in range(count)
    )


def test_a_long_page_is_compared_by_lines_and_then_by_words() -> None:
    old, new = numbered(5000, 10**9), numbered(5000, 50)
    changes = compute_minimal_diff(old, new).changes
    assert len(changes) >= 100
    assert sum(change.end - change.start for change in changes) < 3000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ab " * 35_000, "ba " * 35_000),
        ("\n" * 100_000, "x\n" * 50_000),
        ("e" + "\u0301" * 100_000, "e" + "\u0301" * 99_999 + "\u0300"),
        ("🇯🇵" * 25_000, "🇵" + "🇯🇵" * 25_000),
        ("".join(Random(1).choices("ab c\n", k=100_000)), "".join(Random(2).choices("ab c\n", k=100_000))),
    ],
    ids=["words", "lines", "marks", "flags", "random"],
)
def test_texts_that_are_hard_to_compare_become_few_changes(old: str, new: str) -> None:
    """Comparing them would take minutes. The rule is one of size, so that no clock is needed here."""
    changes = compute_minimal_diff(old, new)
    assert changes.apply(old) == new
    assert len(changes.changes) <= 2


WORDS_TYPED = ("<VERY>", "とても", "👍")


def test_what_is_typed_meanwhile_beside_the_changed_words_stays_in_its_place(proof: bool) -> None:
    old = "the quick brown fox jumps over the lazy dog\n東京から京都まで、新幹線で行きました。\n"
    new = "the slow brown fox leaps over the lazy cat\n大阪から京都まで、飛行機で行きました。\n"
    kept = (" brown fox ", " over the lazy ", "から京都まで、")
    for seed in range(200 if proof else 20):
        random = Random(seed)
        ours, theirs = replicas(2, old)
        stretch, typed = random.choice(kept), random.choice(WORDS_TYPED)
        inside = random.randint(0, len(stretch))
        at = old.index(stretch) + inside
        put(theirs, at, at, typed)
        ours.apply(compute_minimal_diff(old, new), "run:1")
        meet(ours, theirs)
        assert str(ours) == str(theirs)
        assert stretch[:inside] + typed + stretch[inside:] in str(ours)
        assert str(ours).replace(typed, "", 1) == new
