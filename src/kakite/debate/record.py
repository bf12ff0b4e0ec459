"""A debate as a value: what was asked, decided and replied. All else is told from it. Pure.

A debate is a list of turns, a turn what a person asked and the rounds that came of it, a round one reply of
each side. Nothing in it is ever changed or taken away, so that no reply is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kakite.debate.answers import Answer, Failure, Opinion, Reply
from kakite.errors import KakiteError

Mode = Literal["debate", "ensemble"]
"""``ensemble``: one round for each turn, in which nobody sees what others say in it, in whatever order. The
control, and the cheaper one."""

Order = Literal["parallel", "staged"]
"""``staged``: one side after the other, each shown what those before it said in the same round."""

DecisionKind = Literal["adopt", "custom_instruction", "compromise", "synthesize", "evidence", "continue"]
"""``adopt``: go on from one side's answer. ``custom_instruction``: do what the person says. ``compromise``:
what all could sign. ``synthesize``: the best of all. ``evidence``: judge again in its light. ``continue``:
judge again, which also asks those anew that have failed."""

Ending = Literal["agreement", "deadlock", "stability", "rounds", "budget", "failure", "person"]
"""Why no round follows by itself.

``agreement``: every side accepts what the others said. ``deadlock``: the same objections as in the round
before. ``stability``: every side stands by its own answer. ``rounds``: as many as were agreed on. ``budget``:
used up. ``failure``: fewer than two sides answered. ``person``: stopped for good.
"""

LETTERS = "ABCDEFGH"

_PASSING = frozenset({"rate_limited", "stream_cut", "http_error"})
"""Failures that may be over in the next round; after any other a side is not asked again in the same turn."""


class DebateError(KakiteError):
    """What was asked of a debate does not fit where it stands.

    Codes: ``no_active_session``, ``already_active``, ``still_running``, ``bad_decision``, ``bad_terms``,
    ``bad_participant``, ``budget_spent``, ``not_asked``, ``too_many_sessions``.
    """

    code = "not_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of those who argue."""

    name: str
    """Lower case letters, digits, ``-``; it names the fields ``NAME_output`` and decisions ``adopt_NAME``."""
    aliases: tuple[str, ...] = ()
    """Other words that would give away who it is: its maker, its models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a debate may use up. None: any number. Each is passed by no more than a round."""

    seconds: float | None = None
    """Time in which sides are at work; while a person thinks, none passes."""
    tokens: int | None = None
    """Read and written by all sides, as far as they tell."""
    asks: int | None = None
    """Answers asked for, those that failed included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a debate is held. Does not change while it lasts."""

    sides: tuple[Side, ...]
    mode: Mode = "debate"
    order: Order = "parallel"
    rounds: int = 2
    """Rounds of a turn, at most."""
    cap: int = 4
    """Rounds of the whole debate, at most; the one that each step of a person calls for does not count."""
    budget: Budget = Budget()
    seed: int = 0
    """Decides under which letter each side is shown which answer."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sides' names, in order."""
        return tuple(side.name for side in self.sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a person goes on."""

    kind: DecisionKind
    side: str = ""
    """Whose answer is adopted."""
    text: str = ""
    """The person's own words: needed for ``custom_instruction`` and ``evidence``, welcome with the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One reply of each side; fewer while the round is going on."""

    replies: Mapping[str, Reply] = field(default_factory=dict[str, Reply])
    """By the side's name. Verdicts and positions in it name sides, not letters.

    One that failed earlier in the turn and is not asked again has the failure here too, at no cost.
    """

    @property
    def answers(self) -> dict[str, Answer]:
        """The replies that are no failures."""
        return {name: reply for name, reply in self.replies.items() if isinstance(reply, Answer)}

    @property
    def seconds(self) -> float:
        """The time of its slowest side."""
        return max((reply.seconds for reply in self.replies.values()), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a person asked, and what came of it."""

    decision: Decision | None = None
    """None in the first turn, which is about the debate's prompt."""
    rounds: tuple[Round, ...] = ()

    @property
    def answers(self) -> dict[str, Answer]:
        """The latest answer of each side in this turn."""
        return {name: answer for each in self.rounds for name, answer in each.answers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Debate:
    """A debate as it stands."""

    prompt: str
    terms: Terms
    verdict: str = ""
    """What the judge thought before any answer was there. No side is ever shown it."""
    turns: tuple[Turn, ...] = (Turn(),)
    stopped: Ending | None = None

    @property
    def turn(self) -> Turn:
        """The turn that is going on, or was the last."""
        return self.turns[-1]

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All rounds, in order; their numbers count from 1."""
        return tuple(each for turn in self.turns for each in turn.rounds)

    @property
    def automatic(self) -> int:
        """How many rounds there were that no person called for by a step."""
        return sum(len(turn.rounds) - bool(turn.decision and turn.rounds) for turn in self.turns)

    @property
    def seconds(self) -> float:
        """The time in which sides were at work."""
        at_once = self.terms.order == "parallel"
        return sum(
            each.seconds if at_once else sum(reply.seconds for reply in each.replies.values())
            for each in self.rounds
        )

    @property
    def tokens(self) -> int:
        """What all sides read and wrote, as far as they tell."""
        return sum(reply.tokens for each in self.rounds for reply in each.replies.values())

    @property
    def asks(self) -> int:
        """How many replies were asked for, failures included."""
        return sum(
            len(each.replies.keys() - gone_after(turn.rounds[:place]).keys())
            for turn in self.turns
            for place, each in enumerate(turn.rounds)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one side said of another's answer."""

    by: str
    on: str
    opinion: Opinion
    issues: tuple[str, ...]
    strongest: str
    round: int
    """In which it said so; the answer is of the round before, or of the same in a staged order."""


def gone_after(rounds: Sequence[Round]) -> dict[str, Failure]:
    """Return the sides that are not asked again after these rounds of a turn, and how they failed."""
    replies = rounds[-1].replies.items() if rounds else ()
    return {
        name: reply for name, reply in replies if isinstance(reply, Failure) and reply.code not in _PASSING
    }


def shown(debate: Debate, number: int, side: str) -> dict[str, Answer]:
    """Return what a side is shown when it is asked in a round: the latest answer of each side by then.

    Its own is among them. By the sides' names, in the order of the terms.
    """
    rounds = debate.rounds
    answers = {name: answer for each in rounds[: number - 1] for name, answer in each.answers.items()}
    criticised = debate.terms.order == "staged" and debate.terms.mode != "ensemble"
    if criticised and number <= len(rounds):
        before = debate.terms.names[: debate.terms.names.index(side)]
        answers |= {name: answer for name, answer in rounds[number - 1].answers.items() if name in before}
    return {name: answers[name] for name in debate.terms.names if name in answers}


def letters(debate: Debate, number: int, side: str) -> dict[str, str]:
    """Return under which letter a side is shown each side's answer in a round.

    The same seed gives the same letters, in any process and version.
    """
    order = sorted(shown(debate, number, side), key=lambda name: _lot(debate.terms.seed, number, side, name))
    return dict(zip(order, LETTERS, strict=False))


def _lot(seed: int, number: int, side: str, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {number} {side} {name}".encode()).digest()


def said_in(debate: Debate, side: str, answer: Answer) -> int:
    """Return in which round a side gave this answer, which must be one of the debate's own."""
    rounds = enumerate(debate.rounds, start=1)
    return next(number for number, each in rounds if each.replies.get(side) is answer)


def judgements(debate: Debate, number: int | None = None) -> tuple[Judgement, ...]:
    """Return what sides said of each other's answers, in a round or in all of them; not what of their own."""
    return tuple(
        Judgement(
            by=name,
            on=each.on,
            opinion=each.opinion,
            issues=each.issues,
            strongest=each.strongest,
            round=count,
        )
        for count, held in enumerate(debate.rounds, start=1)
        if number in {None, count}
        for name, answer in held.answers.items()
        for each in answer.verdicts
        if each.on != name
    )
