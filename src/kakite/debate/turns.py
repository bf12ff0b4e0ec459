"""What the tools of the debate server answer: one JSON object each, as the editor's model reads it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from kakite.debate.answers import Failure
from kakite.debate.asking import named
from kakite.debate.protocol import Standing, standing
from kakite.debate.record import (
    Debate,
    DebateError,
    Decision,
    DecisionKind,
    Judgement,
    Turn,
    judgements,
    said_in,
)
from kakite.errors import KakiteError
from kakite.visible import whole

_KINDS: dict[str, DecisionKind] = {
    "custom_instruction": "custom_instruction",
    "compromise": "compromise",
    "synthesize": "synthesize",
    "evidence": "evidence",
    "continue": "continue",
}


def decision_of(value: Mapping[str, object], sides: tuple[str, ...]) -> Decision:
    """Return the decision that an object ``{"type": …, "custom_text": …}`` is.

    Types: ``adopt_NAME`` for each side, ``custom_instruction``, ``compromise``, ``synthesize``, ``evidence``
    and ``continue``. Whether it fits the debate is up to ``protocol.decided``.

    Raises:
        DebateError: ``bad_decision``.
    """
    types = decision_types(sides)
    kind, text = value.get("type"), value.get("custom_text", "")
    if not isinstance(kind, str) or kind not in types:
        raise DebateError(f"a decision's type is one of {', '.join(types)}", code="bad_decision")
    if not isinstance(text, str):
        raise DebateError("a decision's custom_text is a text", code="bad_decision")
    if kind in _KINDS:
        return Decision(kind=_KINDS[kind], text=whole(text))
    return Decision(kind="adopt", side=kind.removeprefix("adopt_"), text=whole(text))


def decision_types(sides: tuple[str, ...]) -> tuple[str, ...]:
    """Return the types that a decision between those sides may have."""
    return (*(f"adopt_{name}" for name in sides), *_KINDS)


def instruction(debate: Debate, turn: Turn) -> str:
    """Return what a person asked for in a turn, in the person's words where there are any."""
    decision = turn.decision
    if decision is None:
        return debate.prompt
    kind = f"adopt_{decision.side}" if decision.kind == "adopt" else decision.kind
    return f"{kind}: {decision.text}" if decision.text else kind


def told(debate: Debate, session: str = "") -> dict[str, object]:
    """Return where a debate stands, and its turn if that is complete.

    ``status``, ``session``, ``turn_number``, ``round``; while running ``waiting_for`` (sides). Then
    ``turn`` (``user_instruction`` and ``NAME_output`` for each side, empty for one without an answer in it),
    ``ended_by``, ``agreement``, ``claims``, ``verdicts``, ``failures`` (each ``side``, ``code``, ``message``,
    ``hint``, ``stderr_tail``, ``exit_code``), ``spent`` and ``decisions`` (the types of the next step). With
    ``error`` also ``message``. Without ``turn`` there is nothing to judge yet.
    """
    now = standing(debate)
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
    return {**said, **_complete(debate, now)}


def refused(error: KakiteError) -> dict[str, object]:
    """Return the answer to a call that is refused: ``status`` error, ``code``, ``message``, ``hint``."""
    return {"status": "error", "code": error.code, "message": error.message, "hint": error.hint}


def _complete(debate: Debate, now: Standing) -> dict[str, object]:
    failures = [_failed(side, failure) for side, failure in now.failures]
    said: dict[str, object] = {
        "ended_by": now.ending,
        "agreement": now.agreement,
        "failures": failures,
        "spent": {"seconds": round(debate.seconds, 1), "tokens": debate.tokens, "asks": debate.asks},
        "decisions": list(decision_types(debate.terms.names)),
    }
    if now.status == "error":
        reasons = "; ".join(f"{each['side']}: {each['message']}" for each in failures)
        return {**said, "message": f"nobody answered: {reasons}"}
    return {**said, **_outputs(debate)}


def _outputs(debate: Debate) -> dict[str, object]:
    turn = debate.turn
    first = len(debate.rounds) - len(turn.rounds) + 1
    answers = turn.answers

    def told(name: str, text: str) -> str:
        return named(debate, said_in(debate, name, answers[name]), name, text)

    claims = {
        name: {
            "claim": told(name, answer.claim),
            "confidence": answer.confidence,
            "because": told(name, answer.because),
        }
        for name, answer in answers.items()
    }
    outputs = {
        f"{name}_output": told(name, answers[name].text) if name in answers else ""
        for name in debate.terms.names
    }
    return {
        "turn": {"user_instruction": instruction(debate, turn), **outputs},
        "claims": claims,
        "verdicts": [_verdict(debate, each) for each in judgements(debate) if each.round >= first],
    }


def _verdict(debate: Debate, each: Judgement) -> dict[str, object]:
    issues = [named(debate, each.round, each.by, issue) for issue in each.issues]
    return {**asdict(each), "issues": issues, "strongest": named(debate, each.round, each.by, each.strongest)}


def _failed(side: str, failure: Failure) -> dict[str, object]:
    kept = ("code", "message", "hint", "partial", "stderr_tail", "exit_code")
    return {"side": side, **{name: cast("object", getattr(failure, name)) for name in kept}}
