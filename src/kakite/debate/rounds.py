"""Decides the next step of a debate, and applies what happened. Pure: no input, no output, no clock.

Ask ``next_requests`` which participants to ask what, ask them, and pass each reply to ``on_reply``; a
person's decision goes to ``on_decision`` and ``on_stop``. Each returns the next Debate. The next step depends
on the Debate alone: one that was stored at any moment goes on in any process, and asks again only what had no
reply yet.

In the first round each participant answers without seeing the others. In every further one each sees the
answers so far, named A, B and so on, its own among them, judges them, and answers anew. That goes on until
they agree, or until no more can be expected of it; then a person decides, and that begins the next turn. A
participant that failed is not asked again in the turn, unless its failure may have passed; two that answer go
on without it.

Every change is also an event, so that a debate can be stored event by event and replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.model import (
    LETTERS,
    Agreement,
    AttributedVerdict,
    Debate,
    DebateConfig,
    DebateError,
    Decision,
    EndReason,
    Round,
    Turn,
    assign_letters,
    collect_verdicts,
    compute_agreement,
    find_eliminated,
    is_deadlocked,
    is_stable,
)
from kakite.debate.prompt import Purpose, build_prompt, find_purpose
from kakite.terminal_text import replace_surrogates_in_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter


MAX_ROUNDS = 10
"""What ``DebateConfig.cap`` may be at most."""

DebateState = Literal["running", "ok", "degraded", "error", "stopped"]
"""``running``: replies are due. ``ok``: a person may decide. ``degraded``: as well, but a participant has
failed. ``error``: nobody answered. ``stopped``: for good."""

_NOT_ASKED = "not asked again in this turn: "
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """Something to ask one participant."""

    side: str
    round: int
    """Counts from 1 over the whole debate."""
    purpose: Purpose
    prompt: str
    """The whole text for the participant, which remembers nothing."""
    seconds: float | None = None
    """What the budget leaves for it; None: any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateStatus:
    """The status of a debate."""

    status: DebateState
    ending: EndReason | None
    """Why no round follows by itself; None while running."""
    turn: int
    """Which turn is going on, or was the last; counts from 1."""
    round: int
    """Which round is going on, or was the last; counts from 1 over the whole debate."""
    waiting: tuple[str, ...]
    """The participants whose replies are due."""
    agreement: Agreement
    dissent: tuple[AttributedVerdict, ...]
    """What participants still hold against each other, as they said last in this turn."""
    failures: tuple[tuple[str, ParticipantFailure], ...]
    """The participants that failed in the latest round, and how."""


def begin(prompt: str, terms: DebateConfig, verdict: str = "") -> Debate:
    """Return a debate about the prompt, in which nothing was said yet.

    ``verdict`` is what a judge thinks before it sees any answer. It is kept, and shown to no participant.

    Raises:
        DebateError: ``bad_terms``.
    """
    _check(prompt, terms)
    return Debate(prompt=prompt, terms=terms, verdict=verdict)


def next_requests(debate: Debate) -> tuple[AnswerRequest, ...]:
    """Return what is to be asked now, all at once; nothing when it is for a person to go on.

    A round that has begun is asked to its end. What is under way and has no reply yet is due as well.
    """
    if debate.stopped:
        return ()
    number, sides = _find_next_round(debate)
    return tuple(_ask(debate, number, side) for side in sides)


def on_reply(debate: Debate, side: str, number: int, reply: Reply) -> Debate:
    """Add a participant's reply in that round. It is kept also when the debate was stopped meanwhile.

    Raises:
        DebateError: ``not_asked``, when this was not due or has its reply already.
    """
    current, sides = _find_next_round(debate)
    if number != current or side not in sides:
        raise DebateError(f"no reply of {side} is due in round {number}", code="not_asked")
    if isinstance(reply, Answer):
        judges = find_purpose(debate, number, side) == "critique"
        reply = _with_names(reply, assign_letters(debate, number, side) if judges else {})
    turn = debate.turn
    begun = bool(turn.rounds) and len(turn.rounds[-1].replies) < len(debate.terms.sides)
    *rounds, held = turn.rounds if begun else (*turn.rounds, Round(replies=_carry_over_failures(turn)))
    held = Round(replies={**held.replies, side: reply})
    return replace(debate, turns=(*debate.turns[:-1], replace(turn, rounds=(*rounds, held))))


def on_decision(debate: Debate, decision: Decision) -> Debate:
    """Take in how a person goes on: that begins a turn.

    Raises:
        DebateError: ``no_active_session``, ``still_running``, ``budget_spent`` or ``bad_decision``.
    """
    if debate.stopped:
        raise DebateError("no active session", hint="start a debate first", code="no_active_session")
    if not _find_end_reason(debate):
        raise DebateError("the round is still running", hint="wait for it first", code="still_running")
    if _is_spent(debate, len(debate.terms.sides)):
        raise DebateError("the debate's budget is used up", hint="start another one", code="budget_spent")
    _check_decision(debate, decision)
    return replace(debate, turns=(*debate.turns, Turn(decision=decision)))


def on_stop(debate: Debate, why: EndReason = "person") -> Debate:
    """Return the debate ended for good. The first reason stays."""
    return replace(debate, stopped=debate.stopped or why)


def get_status(debate: Debate) -> DebateStatus:
    """Tell where a debate stands."""
    ending = _find_end_reason(debate)
    number, waiting = _find_open_round(debate)
    rounds = debate.turn.rounds
    failed = rounds[-1].replies.items() if rounds else ()
    return DebateStatus(
        status=_compute_status(debate),
        ending=ending,
        turn=len(debate.turns),
        round=len(debate.rounds) if ending else number,
        waiting=() if ending else waiting,
        agreement=compute_agreement(debate),
        dissent=_collect_dissent(debate),
        failures=tuple((name, reply) for name, reply in failed if isinstance(reply, ParticipantFailure)),
    )


def _find_end_reason(debate: Debate) -> EndReason | None:
    """Return why no round follows by itself, None if one is going on or does follow."""
    if debate.stopped:
        return debate.stopped
    rounds = debate.turn.rounds
    if not rounds or len(rounds[-1].replies) < len(debate.terms.sides):
        return None
    if len(rounds[-1].answers) < min(2, len(debate.terms.sides)):
        return "failure"
    return _check_convergence(debate) or _check_limits(debate)


def _check_convergence(debate: Debate) -> EndReason | None:
    if debate.terms.is_blind:
        return None
    if compute_agreement(debate) == "agree":
        return "agreement"
    if is_deadlocked(debate):
        return "deadlock"
    rounds = debate.turn.rounds
    return "stability" if len(rounds) > 1 and is_stable(rounds[-2], rounds[-1]) else None


def _check_limits(debate: Debate) -> EndReason | None:
    terms = debate.terms
    most = 1 if terms.is_blind else terms.rounds
    if len(debate.turn.rounds) >= most or debate.automatic_rounds >= terms.cap:
        return "rounds"
    return "budget" if _is_spent(debate, len(_find_open_round(debate)[1])) else None


def _is_spent(debate: Debate, asks: int) -> bool:
    """Tell whether the budget leaves no room for a round of so many asks."""
    budget = debate.terms.budget
    return (
        (budget.seconds is not None and debate.seconds >= budget.seconds)
        or (budget.tokens is not None and debate.tokens >= budget.tokens)
        or (budget.asks is not None and debate.asks + asks > budget.asks)
    )


def _find_open_round(debate: Debate) -> tuple[int, tuple[str, ...]]:
    """Return the number of the round that is going on or would be next, and the participants it waits for."""
    names, rounds = debate.terms.names, debate.turn.rounds
    count = len(debate.rounds)
    if rounds and len(rounds[-1].replies) < len(names):
        return count, tuple(name for name in names if name not in rounds[-1].replies)
    gone = find_eliminated(rounds)
    return count + 1, tuple(name for name in names if name not in gone)


def _carry_over_failures(turn: Turn) -> dict[str, Reply]:
    """Return what stands in the next round of a turn for participants that are not asked again."""
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
        for name, failure in find_eliminated(turn.rounds).items()
    }


def _find_next_round(debate: Debate) -> tuple[int, tuple[str, ...]]:
    """Return the number of the next round, and the participants to ask now; none when a person has to decide.

    What was due when the debate was stopped is so still: its reply is kept if it comes.
    """
    number, waiting = _find_open_round(debate)
    if _find_end_reason(replace(debate, stopped=None)):
        return number, ()
    return number, waiting[:1] if debate.terms.order == "staged" else waiting


def _ask(debate: Debate, number: int, side: str) -> AnswerRequest:
    allowed = debate.terms.budget.seconds
    return AnswerRequest(
        side=side,
        round=number,
        purpose=find_purpose(debate, number, side),
        prompt=build_prompt(debate, number, side),
        seconds=None if allowed is None else max(0.0, allowed - debate.seconds),
    )


def _with_names(answer: Answer, shown_as: dict[str, str]) -> Answer:
    """Return the answer with names for the letters that it was shown; other letters are dropped."""
    names = {letter: name for name, letter in shown_as.items()}
    verdicts = tuple(replace(each, on=names[each.on]) for each in answer.verdicts if each.on in names)
    return replace(
        answer,
        verdicts=verdicts,
        position=({"new": "new"} | names).get(answer.position, ""),
        ranking=tuple(names[letter] for letter in answer.ranking if letter in names),
    )


def _compute_status(debate: Debate) -> DebateState:
    ending = _find_end_reason(debate)
    if debate.stopped:
        return "stopped"
    if ending is None:
        return "running"
    if not debate.turn.answers:
        return "error"
    whole = len(debate.turn.rounds[-1].answers) == len(debate.terms.sides)
    return "ok" if whole else "degraded"


def _collect_dissent(debate: Debate) -> tuple[AttributedVerdict, ...]:
    start = len(debate.rounds) - len(debate.turn.rounds)
    latest = {(each.by, each.on): each for each in collect_verdicts(debate) if each.round > start}
    return tuple(each for each in latest.values() if each.opinion != "accept")


def _check(prompt: str, terms: DebateConfig) -> None:
    names, budget = terms.names, terms.budget
    limits = (budget.seconds, budget.tokens, budget.asks)
    least = 1 if terms.mode == "quick" else 2
    fine = {
        "the prompt is empty": prompt.strip(),
        f"a debate takes {least} to {len(LETTERS)} sides": least <= len(names) <= len(LETTERS),
        "two sides have the same name": len(set(names)) == len(names),
        "a side's name is lower case letters and digits, with - between": all(map(_NAME.fullmatch, names)),
        f"the rounds of a turn are 1 to the cap, which is at most {MAX_ROUNDS}": 1
        <= terms.rounds
        <= terms.cap
        <= MAX_ROUNDS,
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
    if decision.kind == "patch" and debate.terms.code is None:
        raise DebateError("the debate is about no files that could change", code="bad_decision")
    if decision.kind in {"compromise", "synthesize", "patch"} and not answered:
        raise DebateError("nobody has answered yet", code="bad_decision")
    if decision.kind in {"custom_instruction", "evidence"} and not decision.text.strip():
        raise DebateError(f"{decision.kind} needs a text", code="bad_decision")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateStarted:
    """A debate was begun."""

    type: Literal["begun"] = "begun"
    prompt: str
    terms: DebateConfig
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReceived:
    """A participant replied. Letters in the reply are as it was shown them."""

    type: Literal["replied"] = "replied"
    side: str
    round: int
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMade:
    """A person decided how to go on."""

    type: Literal["decided"] = "decided"
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateStopped:
    """The debate was stopped."""

    type: Literal["stopped"] = "stopped"
    why: EndReason


DebateEvent = DebateStarted | ReplyReceived | DecisionMade | DebateStopped


def apply_event(debate: Debate | None, event: DebateEvent) -> Debate:
    """Return the debate after that event; ``DebateStarted`` begins one, whatever there was.

    Raises:
        DebateError: the event does not fit there.
    """
    if isinstance(event, DebateStarted):
        return begin(event.prompt, event.terms, event.verdict)
    if debate is None:
        raise DebateError("no active session", code="no_active_session")
    match event:
        case ReplyReceived():
            return on_reply(debate, event.side, event.round, event.reply)
        case DecisionMade():
            return on_decision(debate, event.decision)
        case DebateStopped():
            return on_stop(debate, event.why)


def replay(events: Iterable[DebateEvent]) -> Debate:
    """Return the debate that those events make.

    Raises:
        DebateError: they are none, or do not fit each other.
    """
    debate: Debate | None = None
    for event in events:
        debate = apply_event(debate, event)
    if debate is None:
        raise DebateError("no active session", code="no_active_session")
    return debate


def encode_event(event: DebateEvent) -> str:
    """Return an event as one line of JSON."""
    return _dump_json(event)


def decode_event(line: str) -> DebateEvent:
    """Return the event that a line is.

    Raises:
        ValueError: it is none.
    """
    return _get_event_adapter().validate_python(json.loads(line))


def encode_debate(debate: Debate) -> str:
    """Return a whole debate as one line of JSON: all that was said, decided and agreed on."""
    return _dump_json(debate)


def decode_debate(text: str) -> Debate:
    """Return the debate that a text is.

    Raises:
        ValueError: it is none.
    """
    return _get_debate_adapter().validate_python(json.loads(text))


def _dump_json(value: DebateEvent | Debate) -> str:
    return json.dumps(replace_surrogates_in_json(asdict(value)), ensure_ascii=False)


@cache
def _get_event_adapter() -> TypeAdapter[DebateEvent]:
    from pydantic import TypeAdapter

    return TypeAdapter(DebateEvent)


@cache
def _get_debate_adapter() -> TypeAdapter[Debate]:
    from pydantic import TypeAdapter

    return TypeAdapter(Debate)
