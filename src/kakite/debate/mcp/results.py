"""Builds the results of the debate server's tools: one JSON object each, for the editor's model. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from kakite.debate.answers import ParticipantFailure
from kakite.debate.model import (
    AttributedVerdict,
    Debate,
    DebateError,
    Decision,
    DecisionKind,
    Turn,
    collect_verdicts,
    find_round,
)
from kakite.debate.prompt import reveal_names
from kakite.debate.rounds import DebateStatus, get_status
from kakite.debate.transcript.model import encode_findings, encode_ranking, sum_usage
from kakite.errors import KakiteError
from kakite.terminal_text import replace_surrogates

_KINDS: dict[str, DecisionKind] = {
    "custom_instruction": "custom_instruction",
    "compromise": "compromise",
    "synthesize": "synthesize",
    "evidence": "evidence",
    "continue": "continue",
    "patch": "patch",
}


def parse_decision(value: Mapping[str, object], sides: tuple[str, ...]) -> Decision:
    """Return the decision that an object ``{"type": …, "custom_text": …}`` is.

    Types: ``adopt_NAME`` for each participant, ``custom_instruction``, ``compromise``, ``synthesize``,
    ``evidence``, ``continue`` and ``patch``. Whether it fits the debate is up to ``machine.on_decision``.

    Raises:
        DebateError: ``bad_decision``.
    """
    types = list_decision_types(sides)
    kind, text = value.get("type"), value.get("custom_text", "")
    if not isinstance(kind, str) or kind not in types:
        raise DebateError(f"a decision's type is one of {', '.join(types)}", code="bad_decision")
    if not isinstance(text, str):
        raise DebateError("a decision's custom_text is a text", code="bad_decision")
    if kind in _KINDS:
        return Decision(kind=_KINDS[kind], text=replace_surrogates(text))
    return Decision(kind="adopt", side=kind.removeprefix("adopt_"), text=replace_surrogates(text))


def list_decision_types(sides: tuple[str, ...]) -> tuple[str, ...]:
    """Return the types that a decision between those participants may have."""
    return (*(f"adopt_{name}" for name in sides), *_KINDS)


def format_instruction(debate: Debate, turn: Turn) -> str:
    """Return what a person asked for in a turn, in the person's words where there are any."""
    decision = turn.decision
    if decision is None:
        return debate.prompt
    kind = f"adopt_{decision.side}" if decision.kind == "adopt" else decision.kind
    return f"{kind}: {decision.text}" if decision.text else kind


def build_result(debate: Debate, session: str = "") -> dict[str, object]:
    """Return where a debate stands, and its turn if that is complete.

    ``status``, ``session``, ``turn_number``, ``round``; while running ``waiting_for`` (participants). Then
    ``turn`` (``user_instruction`` and ``NAME_output`` for each participant, empty for one without an answer
    in it), ``ended_by``, ``agreement``, ``claims``, ``ranking``, ``findings`` (of a review), ``verdicts``,
    ``failures`` (each ``side``, ``code``, ``message``, ``hint``, ``stderr_tail``, ``exit_code``), ``spent``
    and ``decisions`` (the types of the next step). With ``error`` also ``message``. Without ``turn`` there is
    nothing to judge yet.
    """
    now = get_status(debate)
    said: dict[str, object] = {
        "status": now.status,
        "session": session,
        "turn_number": now.turn,
        "round": now.round,
    }
    if now.status == "running":
        return {**said, "waiting_for": list(now.waiting)}
    if now.status == "stopped":
        return {**said, "ended_by": now.ending}
    return {**said, **_build_turn_result(debate, now)}


def build_error(error: KakiteError) -> dict[str, object]:
    """Return the answer to a call that is refused: ``status`` error, ``code``, ``message``, ``hint``."""
    return {"status": "error", "code": error.code, "message": error.message, "hint": error.hint}


def _build_turn_result(debate: Debate, now: DebateStatus) -> dict[str, object]:
    failures = [_encode_failure(side, failure) for side, failure in now.failures]
    said: dict[str, object] = {
        "ended_by": now.ending,
        "agreement": now.agreement,
        "failures": failures,
        "spent": sum_usage(debate),
        "decisions": list(list_decision_types(debate.terms.names)),
    }
    if now.status == "error":
        reasons = "; ".join(f"{each['side']}: {each['message']}" for each in failures)
        return {**said, "message": f"nobody answered: {reasons}"}
    return {**said, **_build_outputs(debate)}


def _build_outputs(debate: Debate) -> dict[str, object]:
    turn = debate.turn
    first = len(debate.rounds) - len(turn.rounds) + 1
    answers = turn.answers

    def reveal(name: str, text: str) -> str:
        return reveal_names(debate, find_round(debate, name, answers[name]), name, text)

    claims = {
        name: {
            "claim": reveal(name, answer.claim),
            "confidence": answer.confidence,
            "because": reveal(name, answer.because),
        }
        for name, answer in answers.items()
    }
    outputs = {
        f"{name}_output": reveal(name, answers[name].text) if name in answers else ""
        for name in debate.terms.names
    }
    return {
        "turn": {"user_instruction": format_instruction(debate, turn), **outputs},
        "claims": claims,
        "ranking": encode_ranking(debate),
        **({"findings": encode_findings(debate)} if debate.terms.review else {}),
        "verdicts": [
            _encode_verdict(debate, each) for each in collect_verdicts(debate) if each.round >= first
        ],
    }


def _encode_verdict(debate: Debate, each: AttributedVerdict) -> dict[str, object]:
    issues = [reveal_names(debate, each.round, each.by, issue) for issue in each.issues]
    return {
        **asdict(each),
        "issues": issues,
        "strongest": reveal_names(debate, each.round, each.by, each.strongest),
    }


def _encode_failure(side: str, failure: ParticipantFailure) -> dict[str, object]:
    kept = ("code", "message", "hint", "partial", "stderr_tail", "exit_code")
    return {"side": side, **{name: cast("object", getattr(failure, name)) for name in kept}}
