"""How a debate is told to a person, in words: the same in the terminal, in Markdown and on a page. Pure."""

from __future__ import annotations

from typing import Any

from kakite.debate.answers import Opinion
from kakite.debate.asking import Purpose
from kakite.debate.comparing import Agreement
from kakite.debate.record import Ending

_OPINIONS: dict[Opinion, str] = {
    "accept": "accepts",
    "accept_with_changes": "accepts with changes",
    "reject": "rejects",
}
_ENDINGS: dict[Ending, str] = {
    "agreement": "They agree.",
    "deadlock": "They only repeat the same objections.",
    "stability": "Each stands by its own answer.",
    "rounds": "The rounds that were agreed on are over.",
    "budget": "The budget is used up.",
    "failure": "Fewer than two answered.",
    "person": "The person ended it.",
}
_AGREEMENTS: dict[Agreement, str] = {
    "agree": "they agree",
    "partly": "they agree in part",
    "disagree": "they disagree",
    "unknown": "agreement not known",
}
_DECISIONS = {
    "adopt": "go on from the answer of {side}",
    "custom_instruction": "go on with an instruction",
    "compromise": "find a compromise",
    "synthesize": "put the best together",
    "evidence": "judge again with new facts",
    "continue": "another round",
}
_PURPOSES: dict[Purpose, str] = {
    "answer": "each answers alone",
    "critique": "each judges the others and answers anew",
    "decision": "each goes on as the person decided",
}

Told = dict[str, Any]


def opinion(value: Opinion | None) -> str:
    """Return a verdict in words, ``?`` for none."""
    return _OPINIONS[value] if value else "?"


def agreed(value: Agreement) -> str:
    """Return how the sides stand to each other."""
    return _AGREEMENTS[value]


def why(value: Ending | None) -> str:
    """Return why no round follows by itself, in a sentence."""
    return _ENDINGS[value] if value else "It is not over."


def purpose(value: Purpose) -> str:
    """Return what sides are asked for in a round."""
    return _PURPOSES[value]


def decision(made: Told) -> str:
    """Return what the person decided (of ``transcript.as_json``)."""
    return f"The person decided: {_DECISIONS[made['type']].format(side=made['side'])}"


def ended(told: Told) -> str:
    """Return in a sentence why a debate (``transcript.as_json``) ended."""
    return why(told["ended_by"])


def facts(told: Told) -> dict[str, str]:
    """Return what is to be known of a debate (``transcript.as_json``), in the order for a reader."""
    terms, spent = told["terms"], told["spent"]
    rounds = sum(len(turn["rounds"]) for turn in told["turns"])
    cost = spent["cost_usd"]
    return {
        "sides": ", ".join(told["sides"]),
        "result": f"{agreed(told['agreement'])}; {_lower(ended(told))}",
        "held": "without debate: one round each time"
        if terms["mode"] == "ensemble"
        else "as a debate" + (", one after the other" if terms["order"] == "staged" else ""),
        "rounds": str(rounds),
        "time at work": duration(spent["seconds"]),
        "tokens": f"{spent['tokens']:,} told" if spent["tokens"] else "none told",
        **({"cost": f"${cost:.4f}, as the participants reckon"} if cost is not None else {}),
    }


def duration(seconds: float) -> str:
    """Return a time for a person: ``8.3 s``, ``2 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")
