"""Replicas of one text that meet now and then, as people with a bad connection do."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kakite.collab.shared_text import SharedText
from kakite.edit import Change, ChangeSet

if TYPE_CHECKING:
    from random import Random


def replicas(count: int, text: str) -> list[SharedText]:
    """Return replicas that begin with the same text."""
    first = SharedText()
    put(first, 0, 0, text)
    return [first, *(joined(first) for _ in range(count - 1))]


def joined(other: SharedText) -> SharedText:
    """Return another replica of a text."""
    mine = SharedText()
    mine.doc.apply_update(other.doc.get_update())
    return mine


def meet(one: SharedText, other: SharedText) -> None:
    """Let two replicas tell each other what the other lacks."""
    for_one, for_other = other.doc.get_update(one.doc.get_state()), one.doc.get_update(other.doc.get_state())
    one.doc.apply_update(for_one)
    other.doc.apply_update(for_other)


def meet_all(all_of_them: list[SharedText]) -> None:
    """Let all replicas become equal."""
    for _ in range(2):
        for one, other in pairwise(all_of_them):
            meet(one, other)
    for other in all_of_them[:-1]:
        meet(other, all_of_them[-1])


def put(text: SharedText, start: int, end: int, insert: str, origin: str = "person") -> None:
    """Replace a stretch."""
    text.apply(ChangeSet.of(len(str(text)), [Change(start, end, insert)]), origin)


def type_somewhere(text: SharedText, random: Random, words: tuple[str, ...]) -> str:
    """Type a word at a place that cuts no word; return it."""
    now = str(text)
    at = random.choice([0, len(now), *(place for place, char in enumerate(now) if char in " \n")])
    word = random.choice(words)
    put(text, at, at, word)
    return word
