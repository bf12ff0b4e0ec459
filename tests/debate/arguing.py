"""Debates for tests: terms, answers, and sides that answer as a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kakite.debate import rounds
from kakite.debate.answers import Answer, Opinion, ParticipantFailure, Reply, Verdict
from kakite.debate.model import Debate, DebateConfig, DebateLimits, Order, ParticipantInfo, assign_letters

CODEX = ParticipantInfo(name="codex", aliases=("openai", "gpt"))
CLAUDE = ParticipantInfo(name="claude", aliases=("anthropic", "opus"))
THIRD = ParticipantInfo(name="third")


def terms(
    *sides: ParticipantInfo,
    rounds: int = 2,
    cap: int = 4,
    order: Order = "parallel",
    seed: int = 0,
    **budget: float,
) -> DebateConfig:
    return DebateConfig(
        sides=sides or (CODEX, CLAUDE),
        rounds=rounds,
        cap=cap,
        order=order,
        seed=seed,
        budget=DebateLimits(**budget),  # pyright: ignore[reportArgumentType] - built from keywords
    )


def answer(text: str = "yes", claim: str = "", **changes: object) -> Answer:
    return replace(Answer(text=text, claim=claim), **changes)  # pyright: ignore[reportArgumentType]


def failure(**changes: object) -> ParticipantFailure:
    return replace(ParticipantFailure(code="exited", message="it failed"), **changes)  # pyright: ignore[reportArgumentType]


def judging(
    debate: Debate,
    side: str,
    opinions: Mapping[str, Opinion],
    *issues: str,
    position: str = "",
    claim: str = "",
) -> Answer:
    """An answer of a side with verdicts, said by names: as the letters that it is shown now."""
    number = rounds.get_status(debate).round
    known = {**assign_letters(debate, number, side), "new": "new"}
    verdicts = tuple(
        Verdict(on=known[name], opinion=opinion, issues=issues) for name, opinion in opinions.items()
    )
    return Answer(
        text=f"{side} in {number}", claim=claim, verdicts=verdicts, position=known.get(position, "")
    )


def answered(debate: Debate, replies: Callable[[str], Reply] | None = None) -> Debate:
    """The debate after one round, in which each side says what ``replies`` gives for its name."""
    number = rounds.get_status(debate).round

    def say(side: str) -> Reply:
        return replies(side) if replies else answer(f"{side} in {number}")

    while asks := [ask for ask in rounds.next_requests(debate) if ask.round == number]:
        debate = rounds.on_reply(debate, asks[0].side, number, say(asks[0].side))
    return debate
