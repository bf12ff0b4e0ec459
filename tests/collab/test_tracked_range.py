"""Stretches stay with their characters, whoever changes the text elsewhere, on whichever replica."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.shared_text import SharedText, TrackedRange
from kakite.edit import Change, ChangeSet
from tests.collab.replicas import meet, put, replicas
from tests.collab.texts import PIECES, long_texts, texts


@given(st.data(), long_texts)
def test_a_stretch_reads_the_same_after_changes_elsewhere(data: st.DataObject, text: str) -> None:
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    span = TrackedRange(start, end)
    left, right = data.draw(st.integers(0, start)), data.draw(st.integers(end, len(text)))
    changes = [Change(left, start, data.draw(texts)), Change(end, right, data.draw(texts))]
    if start == end:
        changes = changes[:1]
    moved = span.map_through(ChangeSet.of(len(text), changes))
    after = ChangeSet.of(len(text), changes).apply(text)
    assert moved.extract(after) == span.extract(text)
    assert not span.is_touched(ChangeSet.of(len(text), changes))


@given(st.data(), long_texts)
def test_what_is_typed_inside_is_inside(data: st.DataObject, text: str) -> None:
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    if end - start < 2:
        return
    at = data.draw(st.integers(start + 1, end - 1))
    typed = data.draw(texts)
    changes = ChangeSet.of(len(text), [Change(at, at, typed)])
    moved = TrackedRange(start, end).map_through(changes)
    assert moved.extract(changes.apply(text)) == text[start:at] + typed + text[at:end]
    assert TrackedRange(start, end).is_touched(changes) == bool(typed)


def test_of_a_stretch_that_is_removed_an_empty_one_is_left() -> None:
    span = TrackedRange(2, 4).map_through(ChangeSet.of(6, [Change(1, 5, "xy")]))
    assert span == TrackedRange(3, 3)
    assert span.map_through(ChangeSet.of(4, [Change(3, 3, "日本")])) == TrackedRange(3, 3)


def test_stretches_keep_their_text_in_random_runs_of_replicas(proof: bool) -> None:
    mark = "【ここ👍e\u0301】"
    for seed in range(200 if proof else 20):
        random = Random(seed)
        before, behind = "前の文 👨‍👩‍👧 text\n", "後の文 𠮷 more\n"
        shared = replicas(2, before + mark + behind)
        kept = Kept(shared[0], TrackedRange(len(before), len(before) + len(mark)))
        for _ in range(60):
            change_beside(random.choice(shared), mark, random)
            if random.random() < 0.3:
                meet(*shared)
            assert kept.span.extract(str(shared[0])) == mark
        meet(*shared)
        assert str(shared[0]) == str(shared[1])
        assert kept.span.extract(str(shared[0])) == mark


class Kept:
    """A stretch that follows a text."""

    def __init__(self, text: SharedText, span: TrackedRange) -> None:
        self.span = span
        text.observe(self._move)

    def _move(self, changes: ChangeSet, _: object) -> None:
        self.span = self.span.map_through(changes)


def change_beside(text: SharedText, mark: str, random: Random) -> None:
    now = str(text)
    start = now.index(mark)
    low, high = random.choice(((0, start), (start + len(mark), len(now))))
    at, end = sorted((random.randint(low, high), random.randint(low, high)))
    end = min(end, at + 5)
    put(text, at, end, random.choice(PIECES))
