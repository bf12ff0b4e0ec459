"""How the sides of a debate stand to each other, told in code from what they said. Pure.

Not from how alike their texts are: two models that mean the same write differently, and the opposite alike.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from kakite.debate.record import Debate, Round, judgements

Agreement = Literal["agree", "partly", "disagree", "unknown"]
"""``agree``: each accepts all others as they are. ``disagree``: each rejects all others. ``unknown``: nobody
has been shown anything, or somebody gave no verdict."""

_ALIKE = 0.8
"""Share of common pairs of letters from which two objections are the same one in other words."""


def agreement(debate: Debate) -> Agreement:
    """Return how the sides stand to each other after the latest round of this turn that is complete."""
    number = len(debate.rounds)
    turn = debate.turn.rounds
    if turn and len(turn[-1].replies) < len(debate.terms.sides):
        number, turn = number - 1, turn[:-1]
    if not turn:
        return "unknown"
    said = {(each.by, each.on): each.opinion for each in judgements(debate, number)}
    pairs = {(by, on) for by in turn[-1].answers for on in turn[-1].answers if by != on}
    if not pairs or not pairs <= said.keys():
        return "unknown"
    opinions = {said[pair] for pair in pairs}
    if opinions == {"accept"}:
        return "agree"
    return "disagree" if opinions == {"reject"} else "partly"


def is_stable(before: Round, now: Round) -> bool:
    """Tell whether every side that answered both times stands by what it had said.

    It was not told which answer was its own, so that standing by it says something. One that does not say
    where it stands does if it claims the same in the same words.
    """
    both = before.answers.keys() & now.answers.keys()
    return bool(both) and all(_stands(name, before, now) for name in both)


def _stands(name: str, before: Round, now: Round) -> bool:
    then, answer = before.answers[name], now.answers[name]
    if answer.position:
        return answer.position == name
    return bool(_words(answer.claim)) and _words(answer.claim) == _words(then.claim)


def is_deadlocked(debate: Debate) -> bool:
    """Tell whether the latest round only repeats the objections of the one before it in the same turn."""
    if len(debate.turn.rounds) < 2:
        return False
    number = len(debate.rounds)
    now, before = judgements(debate, number), judgements(debate, number - 1)
    objections = [(each.by, each.on, issue) for each in now for issue in each.issues]
    known = [(each.by, each.on, issue) for each in before for issue in each.issues]
    return (
        any(each.opinion == "reject" for each in now)
        and {each.by for each in now if each.issues} == debate.turn.rounds[-1].answers.keys()
        and all(any(_repeats(new, old) for old in known) for new in objections)
    )


def _repeats(new: tuple[str, str, str], old: tuple[str, str, str]) -> bool:
    return new[:2] == old[:2] and _likeness(new[2], old[2]) >= _ALIKE


def _likeness(one: str, other: str) -> float:
    """Return from 0 to 1 how many pairs of neighbouring letters two texts share; for any language."""
    first, second = _pairs(one), _pairs(other)
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else float(_words(one) == _words(other))


def _pairs(text: str) -> Counter[str]:
    text = _words(text)
    return Counter(text[place : place + 2] for place in range(len(text) - 1))


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
