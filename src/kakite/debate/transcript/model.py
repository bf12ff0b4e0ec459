"""Builds a debate's transcript: JSON of a documented shape, and the phrases that all outputs share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, cast

from kakite.debate.answers import Answer, Opinion
from kakite.debate.findings import compute_support
from kakite.debate.model import (
    Agreement,
    AttributedVerdict,
    CodeContext,
    Debate,
    Decision,
    EndReason,
    collect_verdicts,
    compute_agreement,
    compute_ranking,
)
from kakite.debate.prompt import Purpose, find_purpose, reveal_names
from kakite.debate.rounds import get_status
from kakite.terminal_text import replace_surrogates_in_json

_OPINIONS: dict[Opinion, str] = {
    "accept": "accepts",
    "accept_with_changes": "accepts with changes",
    "reject": "rejects",
}
_ENDINGS: dict[EndReason, str] = {
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
    "patch": "write it as edits to the files",
}
_PURPOSES: dict[Purpose, str] = {
    "answer": "each answers alone",
    "critique": "each judges the others and answers anew",
    "decision": "each goes on as the person decided",
}

TranscriptJson = dict[str, Any]


def format_opinion(value: Opinion | None) -> str:
    """Return a verdict in words, ``?`` for none."""
    return _OPINIONS[value] if value else "?"


def format_agreement(value: Agreement) -> str:
    """Return how the participants stand to each other."""
    return _AGREEMENTS[value]


def format_end_reason(value: EndReason | None) -> str:
    """Return why no round follows by itself, in a sentence."""
    return _ENDINGS[value] if value else "It is not over."


def format_purpose(value: Purpose) -> str:
    """Return what participants are asked for in a round."""
    return _PURPOSES[value]


def format_decision(made: TranscriptJson) -> str:
    """Return what the person decided (of ``build_transcript``)."""
    return f"The person decided: {_DECISIONS[made['type']].format(side=made['side'])}"


def format_ending(told: TranscriptJson) -> str:
    """Return in a sentence why a debate (``build_transcript``) ended."""
    return format_end_reason(told["ended_by"])


def collect_facts(told: TranscriptJson) -> dict[str, str]:
    """Return what is to be known of a debate (``build_transcript``), in the order for a reader."""
    terms, spent = told["terms"], told["spent"]
    rounds = sum(len(turn["rounds"]) for turn in told["turns"])
    cost = format_cost(spent)
    return {
        "sides": ", ".join(told["sides"]),
        "result": f"{format_agreement(told['agreement'])}; {_lower_first(format_ending(told))}",
        "held": "without debate: one round each time"
        if terms["mode"] != "debate"
        else "as a debate" + (", one after the other" if terms["order"] == "staged" else ""),
        **({"files to read": _format_files(terms["files"])} if terms["files"] else {}),
        "rounds": str(rounds),
        "time at work": format_duration(spent["seconds"]),
        "tokens": f"{spent['tokens']:,} told" if spent["tokens"] else "none told",
        **({"cost": cost} if cost else {}),
    }


def _encode_files(code: CodeContext | None) -> TranscriptJson | None:
    """Return what the sides could read; not where that lies on the person's machine."""
    if code is None:
        return None
    told: TranscriptJson = {"patterns": list(code.patterns), "count": code.count, "base": code.base}
    return {**told, "diff": code.diff, "left_out": list(code.left_out), "digest": code.digest}


def _format_files(files: TranscriptJson) -> str:
    since = f", and what has changed since {files['base']}" if files["base"] else ""
    return f"{files['count']}{since}"


def format_cost(spent: TranscriptJson) -> str:
    """Return what a debate cost and whose estimate that is (of ``sum_usage``); nothing if nobody tells."""
    if spent["cost_usd"] is None:
        return ""
    costs: Mapping[str, float | None] = spent["costs_usd"]
    told = ", ".join(name for name, cost in costs.items() if cost is not None)
    silent = ", ".join(name for name, cost in costs.items() if cost is None)
    rest = f"; not known for {silent}" if silent else ""
    return f"${spent['cost_usd']:.4f}, estimated by {told}{rest}"


def format_duration(seconds: float) -> str:
    """Return a time for a person: ``8.3 s``, ``2 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


"""A value of JSON; the whole one is described in docs/debate.md."""

SCHEMA = 1
"""Of the JSON. A greater one has fields with another meaning; new fields alone do not raise it."""


def build_transcript(debate: Debate, hide: Callable[[str], str] = str) -> TranscriptJson:
    """Return all of a debate that is of interest to a reader, as a value of JSON.

    Args:
        debate: which.
        hide: makes texts such that they can be shared; gets each text by itself.
    """
    now = get_status(debate)
    told: TranscriptJson = {
        "schema": SCHEMA,
        "topic": debate.prompt,
        "status": now.status,
        "ended_by": now.ending,
        "agreement": now.agreement,
        "sides": list(debate.terms.names),
        "terms": {
            "mode": debate.terms.mode,
            "order": debate.terms.order,
            "rounds": debate.terms.rounds,
            "cap": debate.terms.cap,
            "seed": debate.terms.seed,
            "budget": asdict(debate.terms.budget),
            "files": _encode_files(debate.terms.code),
            "review": debate.terms.review,
        },
        "judge": debate.verdict,
        "turns": list(_encode_turns(debate)),
        "findings": encode_findings(debate),
        "ranking": encode_ranking(debate),
        "dissent": [_encode_verdict(debate, each) for each in now.dissent],
        "spent": sum_usage(debate),
    }
    return cast("TranscriptJson", _map_texts(replace_surrogates_in_json(told), hide))


def encode_ranking(debate: Debate) -> list[TranscriptJson]:
    """Return how three or more answers were ranked, the best one first, with the reasons."""
    return [
        {
            "side": each.side,
            "score": round(each.score, 3),
            "judges": each.judges,
            "verdicts": [_encode_verdict(debate, verdict) for verdict in each.verdicts],
        }
        for each in compute_ranking(debate)
    ]


def encode_findings(debate: Debate) -> list[TranscriptJson]:
    """Return what a review has found, the best supported first; nothing of any other debate."""
    if not debate.terms.review:
        return []
    return [
        {
            "number": each.number,
            **asdict(each.finding),
            "supported_by": list(each.supported_by),
            "rejected_by": list(each.rejected_by),
            "verdicts": [
                {"by": by, "opinion": verdict.opinion, "reason": verdict.reason}
                for by, verdict in each.verdicts
            ],
        }
        for each in compute_support(debate)
    ]


def format_finding(found: TranscriptJson) -> str:
    """Return a finding (of ``encode_findings``) in a line: how grave, where, and what."""
    place = f"{found['file']}:{found['line']}" if found["line"] else found["file"] or "(no file)"
    return f"{found['severity']}, {place}: {found['problem']}"


def format_support(found: TranscriptJson) -> str:
    """Return who supports a finding, and who does not."""
    against = f"; rejected by {', '.join(found['rejected_by'])}" if found["rejected_by"] else ""
    return f"supported by {', '.join(found['supported_by']) or 'nobody'}{against}"


def list_reasons(found: TranscriptJson) -> list[str]:
    """Return what is to be done about a finding, and what the sides say of it."""
    fix = [f"fix: {found['fix']}"] if found["fix"] else []
    said = [
        f"{each['by']}, {each['opinion']}: {each['reason']}" for each in found["verdicts"] if each["reason"]
    ]
    return [*fix, *said]


def format_score(ranked: TranscriptJson) -> str:
    """Return how an answer was ranked, in words."""
    return f"better than {round(ranked['score'] * 100)} % of the others, say {ranked['judges']}"


def _encode_turns(debate: Debate) -> list[TranscriptJson]:
    turns: list[TranscriptJson] = []
    before = 0
    for number, turn in enumerate(debate.turns, start=1):
        rounds = range(before + 1, before + len(turn.rounds) + 1)
        turns.append(
            {
                "number": number,
                "decision": turn.decision and encode_decision(turn.decision),
                "rounds": [encode_round(debate, each) for each in rounds],
            }
        )
        before += len(turn.rounds)
    return turns


def encode_decision(decision: Decision) -> TranscriptJson:
    """Return what a person decided."""
    return {"type": decision.kind, "side": decision.side or None, "text": decision.text}


def encode_round(debate: Debate, number: int) -> TranscriptJson:
    """Return a round of a debate, and how the participants stood to each other after it."""
    names = debate.terms.names
    replies = debate.rounds[number - 1].replies
    before, after = _rewind(debate, number, held=False), _rewind(debate, number, held=True)
    said = {(each.by, each.on): each.opinion for each in collect_verdicts(debate, number)}
    complete = len(replies) == len(names)
    matrix = {by: {on: said.get((by, on)) for on in names if on != by} for by in names}
    return {
        "number": number,
        "purpose": find_purpose(before, number, names[0]),
        "complete": complete,
        "agreement": compute_agreement(after) if complete else "unknown",
        "matrix": matrix if said else None,
        "replies": [encode_round_reply(debate, number, name) for name in names if name in replies],
    }


def _rewind(debate: Debate, number: int, *, held: bool) -> Debate:
    """Return the debate as it stood in the turn of that round: once it was held, or before."""
    before = 0
    for place, turn in enumerate(debate.turns):
        if number <= before + len(turn.rounds):
            rounds = turn.rounds[: number - before - (not held)]
            return replace(debate, turns=(*debate.turns[:place], replace(turn, rounds=rounds)), stopped=None)
        before += len(turn.rounds)
    raise AssertionError(number)


def encode_round_reply(debate: Debate, number: int, side: str) -> TranscriptJson:
    """Return a participant's reply in a round, with names beside the letters that it knew answers by."""
    reply = debate.rounds[number - 1].replies[side]
    told: TranscriptJson = {
        "side": side,
        "type": reply.type,
        "seconds": round(reply.seconds, 1),
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "cost_usd": reply.cost_usd,
        "exit_code": reply.exit_code,
        "stderr_tail": reply.stderr_tail,
        "version": reply.version,
    }
    if not isinstance(reply, Answer):
        kept = ("code", "message", "hint", "partial")
        return {**told, **{name: cast("object", getattr(reply, name)) for name in kept}}

    def reveal(text: str) -> str:
        return reveal_names(debate, number, side, text)

    return {
        **told,
        "text": reveal(reply.text),
        "claim": reveal(reply.claim),
        "confidence": reply.confidence,
        "key_points": [reveal(each) for each in reply.key_points],
        "would_change_my_mind": reveal(reply.would_change_my_mind),
        "position": reply.position or None,
        "because": reveal(reply.because),
        "verdicts": [
            _encode_verdict(debate, each) for each in collect_verdicts(debate, number) if each.by == side
        ],
        "notes": list(reply.notes),
    }


def _encode_verdict(debate: Debate, each: AttributedVerdict) -> TranscriptJson:
    return {
        "by": each.by,
        "on": each.on,
        "round": each.round,
        "opinion": each.opinion,
        "issues": [reveal_names(debate, each.round, each.by, issue) for issue in each.issues],
        "strongest": reveal_names(debate, each.round, each.by, each.strongest),
    }


def sum_usage(debate: Debate) -> TranscriptJson:
    """Return what all sides have used; a cost is None where nobody tells any."""
    costs = debate.costs
    return {
        "seconds": round(debate.seconds, 1),
        "tokens": debate.tokens,
        "asks": debate.asks,
        "cost_usd": round(sum(costs.values()), 6) if costs else None,
        "costs_usd": {name: costs.get(name) for name in debate.terms.names},
    }


def _map_texts(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case list():
            return [_map_texts(each, change) for each in cast("list[object]", value)]
        case dict():
            return {name: _map_texts(each, change) for name, each in cast("TranscriptJson", value).items()}
        case _:
            return value
