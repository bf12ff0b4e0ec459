"""What the tools answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate import rounds
from kakite.debate.mcp import results
from kakite.debate.model import Debate, DebateError, Decision, assign_letters
from kakite.debate.transcript.model import format_cost
from tests.debate.arguing import answer, answered, failure, judging, terms

SIDES = ("codex", "claude")


def over() -> Debate:
    debate = answered(rounds.begin("Why?", terms()), lambda side: answer(f"{side} says", claim="yes"))
    return answered(debate, lambda side: judging(debate, side, dict.fromkeys(SIDES, "reject"), "no proof"))


def test_while_running_there_is_no_turn_and_it_says_who_is_missing() -> None:
    debate = rounds.on_reply(rounds.begin("Why?", terms()), "codex", 1, answer())
    assert results.build_result(debate, "s") == {
        "status": "running",
        "session": "s",
        "turn_number": 1,
        "round": 1,
        "waiting_for": ["claude"],
    }


def test_a_complete_turn_has_the_seeds_fields_and_what_they_hold_against_each_other() -> None:
    said = results.build_result(over())
    assert said["status"] == "ok"
    assert said["turn"] == {
        "user_instruction": "Why?",
        "codex_output": "codex in 2",
        "claude_output": "claude in 2",
    }
    assert (said["agreement"], said["ended_by"]) == ("disagree", "rounds")
    assert said["verdicts"] == [
        {"by": by, "on": on, "opinion": "reject", "issues": ["no proof"], "strongest": "", "round": 2}
        for by, on in (("codex", "claude"), ("claude", "codex"))
    ]
    json.dumps(said)


@given(st.lists(st.none() | st.floats(0, 100), min_size=4, max_size=4))
def test_what_the_sides_say_of_their_cost_is_told_by_side_and_in_all(costs: list[float | None]) -> None:
    rest = iter(costs)
    debate = rounds.begin("Why?", terms())
    debate = answered(debate, lambda _: answer(cost_usd=next(rest)))
    debate = answered(debate, lambda side: replace(judging(debate, side, {}), cost_usd=next(rest)))
    spent = cast("dict[str, Any]", results.build_result(debate)["spent"])
    told = [cost for cost in costs if cost is not None]
    assert spent["cost_usd"] == (pytest.approx(sum(told), abs=1e-5) if told else None)
    line = format_cost(spent)
    for place, name in enumerate(SIDES):  # the sides answer in turn
        own = [cost for cost in costs[place::2] if cost is not None]
        assert spent["costs_usd"][name] == (pytest.approx(sum(own), abs=1e-5) if own else None)
        assert (name in line.partition("not known")[0]) is bool(own)
        assert (name in line.partition("not known")[2]) is bool(told and not own)


def test_letters_are_told_with_names_to_a_person() -> None:
    debate = answered(rounds.begin("Why?", terms()))
    known = assign_letters(debate, 2, "codex")
    text = f"Answer {known['claude']} is better than mine."
    said = results.build_result(answered(debate, lambda _: answer(text, claim=text, because=text)))
    told = f"Answer {known['claude']} (claude) is better than mine."
    assert said["turn"]["codex_output"] == told  # pyright: ignore[reportIndexIssue]
    assert said["claims"]["codex"] == {"claim": told, "confidence": None, "because": told}  # pyright: ignore[reportIndexIssue]


def test_a_side_that_failed_has_an_empty_output_and_its_reason() -> None:
    debate = rounds.begin("Why?", terms())
    failed = failure(stderr_tail="Segmentation fault", exit_code=139, hint="look")
    said = results.build_result(answered(debate, lambda side: failed if side == "codex" else answer("mine")))
    assert said["status"] == "degraded"
    assert said["turn"] == {"user_instruction": "Why?", "codex_output": "", "claude_output": "mine"}
    assert said["failures"] == [
        {
            "side": "codex",
            "code": "exited",
            "message": "it failed",
            "hint": "look",
            "partial": "",
            "stderr_tail": "Segmentation fault",
            "exit_code": 139,
        }
    ]


def test_when_nobody_answered_it_is_an_error_with_a_message_and_no_turn() -> None:
    said = results.build_result(answered(rounds.begin("Why?", terms()), lambda _: failure()))
    assert (said["status"], said["message"]) == (
        "error",
        "nobody answered: codex: it failed; claude: it failed",
    )
    assert "turn" not in said
    assert "continue" in said["decisions"]  # pyright: ignore[reportOperatorIssue]


def test_stopped_is_just_that() -> None:
    said = results.build_result(rounds.on_stop(over()))
    assert (said["status"], said["ended_by"], "turn" in said) == ("stopped", "person", False)


def test_a_refusal_is_an_error_with_its_message() -> None:
    error = DebateError("no active session", hint="start one", code="no_active_session")
    assert results.build_error(error) == {
        "status": "error",
        "code": "no_active_session",
        "message": "no active session",
        "hint": "start one",
    }


@pytest.mark.parametrize(
    ("value", "decision", "told"),
    [
        ({"type": "adopt_codex"}, Decision(kind="adopt", side="codex"), "adopt_codex"),
        (
            {"type": "custom_instruction", "custom_text": "Now the costs."},
            Decision(kind="custom_instruction", text="Now the costs."),
            "custom_instruction: Now the costs.",
        ),
        ({"type": "synthesize", "custom_text": ""}, Decision(kind="synthesize"), "synthesize"),
    ],
)
def test_a_decision_is_read_as_the_seed_writes_it(
    value: dict[str, object], decision: Decision, told: str
) -> None:
    assert results.parse_decision(value, SIDES) == decision
    debate = rounds.on_decision(over(), decision)
    assert results.format_instruction(debate, debate.turn) == told


@given(st.dictionaries(st.sampled_from(["type", "custom_text", "x"]), st.text() | st.none() | st.integers()))
def test_any_other_object_is_refused_with_what_there_is(value: dict[str, object]) -> None:
    types = results.list_decision_types(SIDES)
    if value.get("type") in types and isinstance(value.get("custom_text", ""), str):
        return
    with pytest.raises(DebateError) as caught:
        results.parse_decision(value, SIDES)
    assert caught.value.code == "bad_decision"
