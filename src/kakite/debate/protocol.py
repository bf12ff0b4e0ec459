"""Whose move it is in a debate, and what follows from what happened. Pure: no input, no output, no clock.

Whoever performs a debate asks ``due`` for what to ask whom, asks it, and feeds each reply back by
``replied``; a person's word comes in by ``decided`` and ``stopped``. Each returns the next Debate. What is
due is told from the Debate alone: one that was stored at any moment goes on in any process, and asks again
only what had no reply yet.

How it goes: in the first round each side answers blind. In every further one each is shown the answers so far
under letters, its own among them, judges them, and answers anew. That goes on until they agree, or until no
more can be expected of it; then a person decides, and that begins the next turn. A side that failed is not
asked again in the turn, unless its failure may have passed; two that answer go on without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from kakite.debate.answers import Answer, Failure, Reply
from kakite.debate.asking import Purpose, prompt_for, purpose_of
from kakite.debate.comparing import Agreement, agreement, is_deadlocked, is_stable
from kakite.debate.record import (
    LETTERS,
    Debate,
    DebateError,
    Decision,
    Ending,
    Judgement,
    Round,
    Terms,
    Turn,
    gone_after,
    judgements,
    letters,
)

MOST_ROUNDS = 10
"""What ``Terms.cap`` may be at most."""

Status = Literal["running", "ok", "degraded", "error", "stopped"]
"""``running``: replies are due. ``ok``: a person may decide. ``degraded``: as well, but a side has failed.
``error``: nobody answered. ``stopped``: for good."""

_NOT_ASKED = "not asked again in this turn: "
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Something to ask one side."""

    side: str
    round: int
    """Counts from 1 over the whole debate."""
    purpose: Purpose
    prompt: str
    """The whole text for the side, which remembers nothing."""
    seconds: float | None = None
    """What the budget leaves for it; None: any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a debate stands."""

    status: Status
    ending: Ending | None
    """Why no round follows by itself; None while running."""
    turn: int
    """Which turn is going on, or was the last; counts from 1."""
    round: int
    """Which round is going on, or was the last; counts from 1 over the whole debate."""
    waiting: tuple[str, ...]
    """The sides whose replies are due."""
    agreement: Agreement
    dissent: tuple[Judgement, ...]
    """What sides still hold against each other, as they said last in this turn."""
    failures: tuple[tuple[str, Failure], ...]
    """The sides that failed in the latest round, and how."""


def begin(prompt: str, terms: Terms, verdict: str = "") -> Debate:
    """Return a debate about the prompt, in which nothing was said yet.

    ``verdict`` is what a judge thinks before it sees any answer. It is kept, and shown to no side.

    Raises:
        DebateError: ``bad_terms``.
    """
    _check(prompt, terms)
    return Debate(prompt=prompt, terms=terms, verdict=verdict)


def due(debate: Debate) -> tuple[Ask, ...]:
    """Return what is to be asked now, all at once; nothing when it is for a person to go on.

    A round that has begun is asked to its end. What is under way and has no reply yet is due as well.
    """
    if debate.stopped:
        return ()
    number, sides = _next(debate)
    return tuple(_ask(debate, number, side) for side in sides)


def replied(debate: Debate, side: str, number: int, reply: Reply) -> Debate:
    """Take in what a side replied in that round. It is kept also when the debate was stopped meanwhile.

    Raises:
        DebateError: ``not_asked``, when this was not due or has its reply already.
    """
    current, sides = _next(debate)
    if number != current or side not in sides:
        raise DebateError(f"no reply of {side} is due in round {number}", code="not_asked")
    if isinstance(reply, Answer):
        judges = purpose_of(debate, number, side) == "critique"
        reply = _with_names(reply, letters(debate, number, side) if judges else {})
    turn = debate.turn
    begun = bool(turn.rounds) and len(turn.rounds[-1].replies) < len(debate.terms.sides)
    *rounds, held = turn.rounds if begun else (*turn.rounds, Round(replies=_not_asked(turn)))
    held = Round(replies={**held.replies, side: reply})
    return replace(debate, turns=(*debate.turns[:-1], replace(turn, rounds=(*rounds, held))))


def decided(debate: Debate, decision: Decision) -> Debate:
    """Take in how a person goes on: that begins a turn.

    Raises:
        DebateError: ``no_active_session``, ``still_running``, ``budget_spent`` or ``bad_decision``.
    """
    if debate.stopped:
        raise DebateError("no active session", hint="start a debate first", code="no_active_session")
    if not _ending(debate):
        raise DebateError("the round is still running", hint="wait for it first", code="still_running")
    if _is_spent(debate, len(debate.terms.sides)):
        raise DebateError("the debate's budget is used up", hint="start another one", code="budget_spent")
    _check_decision(debate, decision)
    return replace(debate, turns=(*debate.turns, Turn(decision=decision)))


def stopped(debate: Debate, why: Ending = "person") -> Debate:
    """Return the debate ended for good. The first reason stays."""
    return replace(debate, stopped=debate.stopped or why)


def standing(debate: Debate) -> Standing:
    """Tell where a debate stands."""
    ending = _ending(debate)
    number, waiting = _open_round(debate)
    rounds = debate.turn.rounds
    failed = rounds[-1].replies.items() if rounds else ()
    return Standing(
        status=_status(debate),
        ending=ending,
        turn=len(debate.turns),
        round=len(debate.rounds) if ending else number,
        waiting=() if ending else waiting,
        agreement=agreement(debate),
        dissent=_dissent(debate),
        failures=tuple((name, reply) for name, reply in failed if isinstance(reply, Failure)),
    )


def _ending(debate: Debate) -> Ending | None:
    """Return why no round follows by itself, None if one is going on or does follow."""
    if debate.stopped:
        return debate.stopped
    rounds = debate.turn.rounds
    if not rounds or len(rounds[-1].replies) < len(debate.terms.sides):
        return None
    if len(rounds[-1].answers) < 2:
        return "failure"
    return _settled(debate) or _exhausted(debate)


def _settled(debate: Debate) -> Ending | None:
    if debate.terms.mode == "ensemble":
        return None
    if agreement(debate) == "agree":
        return "agreement"
    if is_deadlocked(debate):
        return "deadlock"
    rounds = debate.turn.rounds
    return "stability" if len(rounds) > 1 and is_stable(rounds[-2], rounds[-1]) else None


def _exhausted(debate: Debate) -> Ending | None:
    terms = debate.terms
    most = 1 if terms.mode == "ensemble" else terms.rounds
    if len(debate.turn.rounds) >= most or debate.automatic >= terms.cap:
        return "rounds"
    return "budget" if _is_spent(debate, len(_open_round(debate)[1])) else None


def _is_spent(debate: Debate, asks: int) -> bool:
    """Tell whether the budget leaves no room for a round of so many asks."""
    budget = debate.terms.budget
    return (
        (budget.seconds is not None and debate.seconds >= budget.seconds)
        or (budget.tokens is not None and debate.tokens >= budget.tokens)
        or (budget.asks is not None and debate.asks + asks > budget.asks)
    )


def _open_round(debate: Debate) -> tuple[int, tuple[str, ...]]:
    """Return the number of the round that is going on or would be next, and the sides it waits for."""
    names, rounds = debate.terms.names, debate.turn.rounds
    count = len(debate.rounds)
    if rounds and len(rounds[-1].replies) < len(names):
        return count, tuple(name for name in names if name not in rounds[-1].replies)
    gone = gone_after(rounds)
    return count + 1, tuple(name for name in names if name not in gone)


def _not_asked(turn: Turn) -> dict[str, Reply]:
    """Return what stands in the next round of a turn for sides that are not asked again."""
    return {
        name: replace(
            failure,
            message=f"{_NOT_ASKED}{failure.message.removeprefix(_NOT_ASKED)}",
            partial="",
            seconds=0.0,
            input_tokens=0,
            output_tokens=0,
            cost_usd=None,
        )
        for name, failure in gone_after(turn.rounds).items()
    }


def _next(debate: Debate) -> tuple[int, tuple[str, ...]]:
    """Return the number of the round that is due, and the sides to ask now; none when it is for a person.

    What was due when the debate was stopped is so still: its reply is kept if it comes.
    """
    number, waiting = _open_round(debate)
    if _ending(replace(debate, stopped=None)):
        return number, ()
    return number, waiting[:1] if debate.terms.order == "staged" else waiting


def _ask(debate: Debate, number: int, side: str) -> Ask:
    allowed = debate.terms.budget.seconds
    return Ask(
        side=side,
        round=number,
        purpose=purpose_of(debate, number, side),
        prompt=prompt_for(debate, number, side),
        seconds=None if allowed is None else max(0.0, allowed - debate.seconds),
    )


def _with_names(answer: Answer, shown_as: dict[str, str]) -> Answer:
    """Return the answer with sides' names for the letters that it was shown; other letters are dropped."""
    names = {letter: name for name, letter in shown_as.items()}
    verdicts = tuple(replace(each, on=names[each.on]) for each in answer.verdicts if each.on in names)
    return replace(answer, verdicts=verdicts, position=({"new": "new"} | names).get(answer.position, ""))


def _status(debate: Debate) -> Status:
    ending = _ending(debate)
    if debate.stopped:
        return "stopped"
    if ending is None:
        return "running"
    if not debate.turn.answers:
        return "error"
    whole = len(debate.turn.rounds[-1].answers) == len(debate.terms.sides)
    return "ok" if whole else "degraded"


def _dissent(debate: Debate) -> tuple[Judgement, ...]:
    start = len(debate.rounds) - len(debate.turn.rounds)
    latest = {(each.by, each.on): each for each in judgements(debate) if each.round > start}
    return tuple(each for each in latest.values() if each.opinion != "accept")


def _check(prompt: str, terms: Terms) -> None:
    names, budget = terms.names, terms.budget
    limits = (budget.seconds, budget.tokens, budget.asks)
    fine = {
        "the prompt is empty": prompt.strip(),
        f"a debate takes 2 to {len(LETTERS)} sides": 2 <= len(names) <= len(LETTERS),
        "two sides have the same name": len(set(names)) == len(names),
        "a side's name is lower case letters and digits, with - between": all(map(_NAME.fullmatch, names)),
        f"the rounds of a turn are 1 to the cap, which is at most {MOST_ROUNDS}": 1
        <= terms.rounds
        <= terms.cap
        <= MOST_ROUNDS,
        "a limit of the budget leaves nothing": all(limit is None or limit > 0 for limit in limits),
        "the budget leaves no round": budget.asks is None or budget.asks >= len(names),
    }
    for told, holds in fine.items():
        if not holds:
            raise DebateError(told, code="bad_terms")


def _check_decision(debate: Debate, decision: Decision) -> None:
    answered = {name for each in debate.rounds for name in each.answers}
    if decision.kind == "adopt" and decision.side not in answered:
        raise DebateError(f"there is no answer of `{decision.side}` to adopt", code="bad_decision")
    if decision.kind in {"compromise", "synthesize"} and not answered:
        raise DebateError("nobody has answered yet", code="bad_decision")
    if decision.kind in {"custom_instruction", "evidence"} and not decision.text.strip():
        raise DebateError(f"{decision.kind} needs a text", code="bad_decision")
