"""Circles are found, whatever lies between; work is not taken for one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run import state_machine
from kakite.agent.run.state_machine import (
    STOP_AT,
    WARN_AT,
    WINDOW,
    add_fingerprint,
    check_stuck,
    fingerprint_call,
)
from kakite.tools.toolset import ToolCall, ToolResult


def made(
    name: str, text: str = "", *, details: dict[str, Any] | None = None, **arguments: Any
) -> tuple[ToolCall, ToolResult]:
    return ToolCall(id="any", name=name, arguments=arguments), ToolResult(text=text, details=details or {})


def after(*events: tuple[ToolCall, ToolResult]) -> tuple[str, ...]:
    marks: tuple[str, ...] = ()
    for call, result in events:
        marks = add_fingerprint(marks, call, result)
    return marks


def verdicts(*events: tuple[ToolCall, ToolResult]) -> list[str]:
    return [check_stuck(after(*events[: end + 1])) for end in range(len(events))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)


@given(ARGUMENTS, st.text(), st.lists(st.integers(0, 1000), max_size=3))
def test_the_same_is_told_at_the_third_and_stopped_at_the_fifth_time(
    arguments: dict[str, Any], text: str, between: list[int]
) -> None:
    same = (ToolCall(id="any", name="same", arguments=arguments), ToolResult(text=text))
    events: list[tuple[ToolCall, ToolResult]] = []
    for time in range(STOP_AT):
        events += [made("other", number=number, time=time) for number in between]
        events.append(same)
    told = [said for said, event in zip(verdicts(*events), events, strict=True) if event is same]
    assert told == ["fine", "fine", "tell", "fine", "stop"]
    assert (WARN_AT, STOP_AT, WINDOW) == (3, 5, 20)


@given(st.lists(st.integers(0, 10_000), unique=True, max_size=60))
def test_what_differs_is_no_circle(numbers: list[int]) -> None:
    assert set(verdicts(*(made("read", f"line {number}") for number in numbers))) <= {"fine"}
    assert set(verdicts(*(made("read", number=number) for number in numbers))) <= {"fine"}


@given(st.lists(st.sampled_from("abc"), max_size=100))
def test_marks_stay_bounded(names: list[str]) -> None:
    assert len(after(*(made(name) for name in names))) <= WINDOW


def test_what_was_long_ago_does_not_count() -> None:
    once = made("view", path="a")
    others = [made("view", path=str(number)) for number in range(WINDOW)]
    assert verdicts(once, once, *others, once)[-1] == "fine"


def test_two_calls_in_turn_are_a_circle_too() -> None:
    edit, check = made("edit", "edited", path="a"), made("run_command", "1 failed", command="pytest")
    assert verdicts(*(event for _ in range(5) for event in (edit, check)))[-2:] == ["stop", "stop"]


def test_times_and_addresses_make_no_difference() -> None:
    def ran(text: str) -> str:
        return fingerprint_call(*made("run_command", text, command="pytest"))

    assert ran("exit code 1\n1 failed in 0.12s") == ran("exit code 1, 1.3 s\n1 failed in 1.07s")
    assert ran("2026-01-02 10:00:00,123 boom at 0x7f12ab34cd") == ran(
        "2026-01-02 10:00:07,001 boom at 0x7ffe009912"
    )
    assert ran("2 failed") != ran("3 failed")
    assert ran("line 12") != ran("line 13")


def test_an_error_is_another_outcome_than_the_same_text() -> None:
    call = ToolCall(id="any", name="x", arguments={})
    assert fingerprint_call(call, ToolResult(text="no")) != fingerprint_call(
        call, ToolResult(text="no", is_error=True)
    )


def test_waiting_for_a_command_in_the_background_is_no_circle() -> None:
    waiting = made("poll_command", "job 1 runs", job="1", details={"job": "1", "running": True})
    ended = made("poll_command", "job 1: exit code 0", job="1", details={"job": "1", "running": False})
    assert set(verdicts(*[waiting] * 30)) == {"fine"}
    assert verdicts(*[ended] * 5)[-1] == "stop"


def test_another_tool_that_says_it_runs_is_a_circle() -> None:
    assert verdicts(*[made("run_command", "job 1 runs", command="cat state")] * 5)[-1] == "stop"


def test_half_a_character_has_a_mark_too() -> None:
    assert fingerprint_call(*made("x", "\ud83d", a="\ud83d")) != fingerprint_call(
        *made("x", "\ud83e", a="\ud83d")
    )


def test_the_order_of_arguments_makes_no_difference() -> None:
    one = ToolCall(id="1", name="x", arguments={"a": 1, "b": 2})
    other = ToolCall(id="2", name="x", arguments={"b": 2, "a": 1})
    assert state_machine.fingerprint_call(one, ToolResult(text="")) == state_machine.fingerprint_call(
        other, ToolResult(text="")
    )
