"""Represents a debate as a value: all questions, decisions and replies. Pure.

A debate is a list of turns; a turn is what a person asked and the rounds that followed; a round is one reply
of each participant. Nothing in it is ever changed or removed, so that no reply is lost.

Agreement is computed from what the participants said of each other, not from how alike their texts are: two
models that mean the same write differently, and the opposite alike.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kakite.debate.answers import Answer, Opinion, ParticipantFailure, Reply
from kakite.errors import KakiteError

Mode = Literal["debate", "ensemble", "quick"]
"""``ensemble``: one round for each turn, in which nobody sees what others say in it, in whatever order. The
control, and the cheaper one. ``quick``: the same, with an answer of one page; one participant is enough."""

Order = Literal["parallel", "staged"]
"""``staged``: one participant after the other, each shown what those before it said in the same round."""

DecisionKind = Literal[
    "adopt", "custom_instruction", "compromise", "synthesize", "evidence", "continue", "patch"
]
"""``adopt``: go on from one participant's answer. ``custom_instruction``: do what the person says.
``compromise``: what all could sign. ``synthesize``: the best of all. ``evidence``: judge again in its light.
``continue``: judge again, which also asks those anew that have failed. ``patch``: the best of all as
edits to the files that the debate is about."""

EndReason = Literal["agreement", "deadlock", "stability", "rounds", "budget", "failure", "person"]
"""Why no round follows by itself.

``agreement``: every participant accepts what the others said. ``deadlock``: the same objections as in the
round before. ``stability``: every participant stands by its own answer. ``rounds``: as many as were agreed
on. ``budget``: used up. ``failure``: fewer than two participants answered. ``person``: stopped for good.
"""

LETTERS = "ABCDEFGH"

_TRANSIENT_FAILURES = frozenset({"rate_limited", "stream_cut", "http_error"})
"""Failures that may be over in the next round; after any other, nobody is asked again in the same turn."""


class DebateError(KakiteError):
    """The request does not fit the state of the debate.

    Codes: ``no_active_session``, ``already_active``, ``still_running``, ``bad_decision``, ``bad_terms``,
    ``bad_participant``, ``bad_files``, ``files_too_large``, ``budget_spent``, ``not_asked``,
    ``too_many_sessions``.
    """

    code = "not_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantInfo:
    """One of those who argue."""

    name: str
    """Lower case letters, digits, ``-``; it names the fields ``NAME_output`` and decisions ``adopt_NAME``."""
    aliases: tuple[str, ...] = ()
    """Other words that would give away who it is: its maker, its models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateLimits:
    """The limits of a debate. None: any number. Each is passed by no more than a round."""

    seconds: float | None = None
    """Time in which participants are at work; while a person thinks, none passes."""
    tokens: int | None = None
    """Read and written by all participants, as far as they tell."""
    asks: int | None = None
    """Answers asked for, those that failed included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeContext:
    """The files that a debate is about, as they were when it began."""

    folder: str
    """The absolute path on this machine; no side learns it."""
    patterns: tuple[str, ...] = ()
    """Globs of the files that are meant; none: all."""
    base: str = ""
    """The commit that the diff is against, as the person named it; empty: there is no diff."""
    diff: str = ""
    """What every side is shown of the change."""
    changed: tuple[str, ...] = ()
    """The files in it."""
    count: int = 0
    """How many files the sides can read."""
    left_out: tuple[str, ...] = ()
    """Files that are meant and shown to nobody."""
    digest: str = ""
    """Of the files' contents."""
    commit: str = ""
    """The commit that the files are of; empty: as they are in the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateConfig:
    """The settings of a debate. They do not change while it lasts."""

    sides: tuple[ParticipantInfo, ...]
    mode: Mode = "debate"
    order: Order = "parallel"
    rounds: int = 2
    """Rounds of a turn, at most."""
    cap: int = 4
    """Rounds of the whole debate, at most; the one that each step of a person calls for does not count."""
    budget: DebateLimits = DebateLimits()
    seed: int = 0
    """Decides under which letter each participant is shown which answer."""
    code: CodeContext | None = None
    """What the participants can read; None: nothing."""
    review: bool = False
    """Whether it is a review, in which participants report findings and judge each one."""

    @property
    def is_blind(self) -> bool:
        """Whether nobody judges what others say."""
        return self.mode != "debate"

    @property
    def names(self) -> tuple[str, ...]:
        """The participants' names, in order."""
        return tuple(side.name for side in self.sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's decision how to go on."""

    kind: DecisionKind
    side: str = ""
    """Whose answer is adopted."""
    text: str = ""
    """The person's own words: needed for ``custom_instruction`` and ``evidence``, welcome with the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One reply of each participant; fewer while the round is going on."""

    replies: Mapping[str, Reply] = field(default_factory=dict[str, Reply])
    """By the participant's name. Verdicts and positions in it name participants, not letters.

    One that failed earlier in the turn and is not asked again has the failure here too, at no cost.
    """

    @property
    def answers(self) -> dict[str, Answer]:
        """The replies that are no failures."""
        return {name: reply for name, reply in self.replies.items() if isinstance(reply, Answer)}

    @property
    def seconds(self) -> float:
        """The time of its slowest participant."""
        return max((reply.seconds for reply in self.replies.values()), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A person's question, and what came of it."""

    decision: Decision | None = None
    """None in the first turn, which is about the debate's prompt."""
    rounds: tuple[Round, ...] = ()

    @property
    def answers(self) -> dict[str, Answer]:
        """The latest answer of each participant in this turn."""
        return {name: answer for each in self.rounds for name, answer in each.answers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Debate:
    """A debate as it stands."""

    prompt: str
    terms: DebateConfig
    verdict: str = ""
    """What the judge thought before any answer was there. No participant is ever shown it."""
    turns: tuple[Turn, ...] = (Turn(),)
    stopped: EndReason | None = None

    @property
    def turn(self) -> Turn:
        """The turn that is going on, or was the last."""
        return self.turns[-1]

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All rounds, in order; their numbers count from 1."""
        return tuple(each for turn in self.turns for each in turn.rounds)

    @property
    def automatic_rounds(self) -> int:
        """The number of rounds that no person called for by a step."""
        return sum(len(turn.rounds) - bool(turn.decision and turn.rounds) for turn in self.turns)

    @property
    def seconds(self) -> float:
        """The time in which participants were at work."""
        at_once = self.terms.order == "parallel"
        return sum(
            each.seconds if at_once else sum(reply.seconds for reply in each.replies.values())
            for each in self.rounds
        )

    @property
    def tokens(self) -> int:
        """The tokens that all participants read and wrote, as far as they report them."""
        return sum(reply.tokens for each in self.rounds for reply in each.replies.values())

    @property
    def costs(self) -> dict[str, float]:
        """The US dollars that each side says it cost, of those that say any."""
        said: dict[str, float] = {}
        for each in self.rounds:
            for name, reply in each.replies.items():
                if reply.cost_usd is not None:
                    said[name] = said.get(name, 0.0) + reply.cost_usd
        return {name: round(said[name], 6) for name in self.terms.names if name in said}

    @property
    def asks(self) -> int:
        """The number of replies that were asked for, failures included."""
        return sum(
            len(each.replies.keys() - find_eliminated(turn.rounds[:place]).keys())
            for turn in self.turns
            for place, each in enumerate(turn.rounds)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedVerdict:
    """A participant's verdict on another one's answer."""

    by: str
    on: str
    opinion: Opinion
    issues: tuple[str, ...]
    strongest: str
    round: int
    """In which it said so; the answer is of the round before, or of the same in a staged order."""


def find_eliminated(rounds: Sequence[Round]) -> dict[str, ParticipantFailure]:
    """Return the participants that are not asked again after these rounds of a turn, and how they failed."""
    replies = rounds[-1].replies.items() if rounds else ()
    return {
        name: reply
        for name, reply in replies
        if isinstance(reply, ParticipantFailure) and reply.code not in _TRANSIENT_FAILURES
    }


def select_visible_answers(debate: Debate, number: int, side: str) -> dict[str, Answer]:
    """Return the answers that a participant is shown in a round: the latest one of each participant by then.

    Its own is among them. By the participants' names, in the order of the settings.
    """
    rounds = debate.rounds
    answers = {name: answer for each in rounds[: number - 1] for name, answer in each.answers.items()}
    criticised = debate.terms.order == "staged" and not debate.terms.is_blind
    if criticised and number <= len(rounds):
        before = debate.terms.names[: debate.terms.names.index(side)]
        answers |= {name: answer for name, answer in rounds[number - 1].answers.items() if name in before}
    return {name: answers[name] for name in debate.terms.names if name in answers}


def assign_letters(debate: Debate, number: int, side: str) -> dict[str, str]:
    """Return under which letter a participant is shown each participant's answer in a round.

    The same seed gives the same letters, in any process and version.
    """
    order = sorted(
        select_visible_answers(debate, number, side),
        key=lambda name: _compute_sort_key(debate.terms.seed, number, side, name),
    )
    return dict(zip(order, LETTERS, strict=False))


def _compute_sort_key(seed: int, number: int, side: str, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {number} {side} {name}".encode()).digest()


def find_round(debate: Debate, side: str, answer: Answer) -> int:
    """Return in which round a participant gave this answer, which must be one of the debate's own."""
    rounds = enumerate(debate.rounds, start=1)
    return next(number for number, each in rounds if each.replies.get(side) is answer)


def collect_verdicts(debate: Debate, number: int | None = None) -> tuple[AttributedVerdict, ...]:
    """Return the participants' verdicts on each other's answers, in a round or in all; not on their own."""
    return tuple(
        AttributedVerdict(
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


Agreement = Literal["agree", "partly", "disagree", "unknown"]
"""``agree``: each accepts all others as they are. ``disagree``: each rejects all others. ``unknown``: nobody
has been shown anything, or somebody gave no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedAnswer:
    """How the others rank a participant's answer."""

    side: str
    score: float
    """The share of the other answers that it is better than, as the judges see it on average: 1 if each puts
    it first, 0 if each puts it last."""
    judges: int
    verdicts: tuple[AttributedVerdict, ...]
    """Their reasons."""


def compute_ranking(debate: Debate) -> tuple[RankedAnswer, ...]:
    """Return the answers of three or more participants, the best one first, as ranked in the latest round.

    Nobody ranks its own. Who names no order is taken at its verdicts. Empty where nobody judged three.
    """
    number = next((n for n in range(len(debate.rounds), 0, -1) if collect_verdicts(debate, n)), 0)
    if not number or len(debate.terms.sides) < 3:
        return ()
    verdicts = collect_verdicts(debate, number)
    judged = {side: [each for each in verdicts if each.on == side] for side in debate.terms.names}
    shares: dict[str, list[float]] = {}
    for by, answer in debate.rounds[number - 1].answers.items():
        opinions: dict[str, Opinion] = {each.on: each.opinion for each in verdicts if each.by == by}
        for side, share in _compute_shares(by, answer, opinions).items():
            shares.setdefault(side, []).append(share)
    found = [
        RankedAnswer(
            side=side,
            score=sum(shares[side]) / len(shares[side]),
            judges=len(shares[side]),
            verdicts=tuple(judged[side]),
        )
        for side in debate.terms.names
        if side in shares
    ]
    return tuple(sorted(found, key=lambda each: -each.score))


_WORTH: dict[Opinion, int] = {"accept": 0, "accept_with_changes": 1, "reject": 2}


def _compute_shares(by: str, answer: Answer, opinions: Mapping[str, Opinion]) -> dict[str, float]:
    """Return the share of the others that a judge finds each answer better than; half of those as good."""
    order = [side for side in answer.ranking if side != by]
    if order:
        places = {side: order.index(side) if side in order else len(order) for side in {*order, *opinions}}
    else:
        places = {side: _WORTH[opinion] for side, opinion in opinions.items()}
    if len(places) < 2:
        return {}
    others = list(places.values())
    return {
        side: (sum(place < other for other in others) + (others.count(place) - 1) / 2) / (len(others) - 1)
        for side, place in places.items()
    }


_ALIKE = 0.8
"""Share of common pairs of letters from which two objections are the same one in other words."""


def compute_agreement(debate: Debate) -> Agreement:
    """Return the agreement of the participants after the latest complete round of this turn."""
    number = len(debate.rounds)
    turn = debate.turn.rounds
    if turn and len(turn[-1].replies) < len(debate.terms.sides):
        number, turn = number - 1, turn[:-1]
    if not turn:
        return "unknown"
    said = {(each.by, each.on): each.opinion for each in collect_verdicts(debate, number)}
    pairs = {(by, on) for by in turn[-1].answers for on in turn[-1].answers if by != on}
    if not pairs or not pairs <= said.keys():
        return "unknown"
    opinions = {said[pair] for pair in pairs}
    if opinions == {"accept"}:
        return "agree"
    return "disagree" if opinions == {"reject"} else "partly"


def is_stable(before: Round, now: Round) -> bool:
    """Tell whether every participant that answered both times stands by what it had said.

    It was not told which answer was its own, so that standing by it says something. One that does not say
    where it stands does if it claims the same in the same words.
    """
    both = before.answers.keys() & now.answers.keys()
    return bool(both) and all(_has_kept_position(name, before, now) for name in both)


def _has_kept_position(name: str, before: Round, now: Round) -> bool:
    then, answer = before.answers[name], now.answers[name]
    if answer.position:
        return answer.position == name
    return bool(_normalize_words(answer.claim)) and _normalize_words(answer.claim) == _normalize_words(
        then.claim
    )


def is_deadlocked(debate: Debate) -> bool:
    """Tell whether the latest round only repeats the objections of the one before it in the same turn."""
    if len(debate.turn.rounds) < 2:
        return False
    number = len(debate.rounds)
    now, before = collect_verdicts(debate, number), collect_verdicts(debate, number - 1)
    objections = [(each.by, each.on, issue) for each in now for issue in each.issues]
    known = [(each.by, each.on, issue) for each in before for issue in each.issues]
    return (
        any(each.opinion == "reject" for each in now)
        and {each.by for each in now if each.issues} == debate.turn.rounds[-1].answers.keys()
        and all(any(_is_repeated(new, old) for old in known) for new in objections)
    )


def _is_repeated(new: tuple[str, str, str], old: tuple[str, str, str]) -> bool:
    return new[:2] == old[:2] and _compute_similarity(new[2], old[2]) >= _ALIKE


def _compute_similarity(one: str, other: str) -> float:
    """Return from 0 to 1 how many pairs of neighbouring letters two texts share; for any language."""
    first, second = _count_bigrams(one), _count_bigrams(other)
    total = first.total() + second.total()
    return (
        2 * (first & second).total() / total
        if total
        else float(_normalize_words(one) == _normalize_words(other))
    )


def _count_bigrams(text: str) -> Counter[str]:
    text = _normalize_words(text)
    return Counter(text[place : place + 2] for place in range(len(text) - 1))


def _normalize_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
