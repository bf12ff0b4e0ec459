"""Limits of what may be used up, circles, and what a person writes meanwhile: the pure loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run import state_machine
from kakite.agent.run.limits import RunUsage, UsageLimits
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import RunState, RunStep
from kakite.agent.run.state_machine import STOP_AT
from kakite.models.messages import InvalidToolCall, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.test_state_machine import (
    CONFLICT,
    PLAN,
    call,
    check_wire_order,
    planned,
    reply,
    task,
    worked,
)

LIMIT = st.none() | st.integers(1, 40)
BUDGETS = st.builds(UsageLimits, usd=LIMIT, tokens=LIMIT, seconds=LIMIT, calls=LIMIT)
MOVES = st.lists(st.sampled_from(["calls", "talk", "plan", "dirty", "news", "conflict"]), max_size=40)


def answer(move: str, number: int) -> Reply:
    usage = Usage(requests=1, input_tokens=3, output_tokens=2, cost_usd=1.0)
    numbers = range(2 * number, 2 * number + 2) if move == "calls" else ()
    calls = tuple(ToolCall(id=f"c{each}", name="t", arguments={"n": each}) for each in numbers)
    return Reply(text=PLAN if move == "plan" else move, calls=calls, usage=usage)


def label(run: RunState) -> str:
    return f"<{len(run.messages)}.{len(run.notes)}>"


def moved(run: RunState, move: str) -> RunState:
    if move == "news":
        return state_machine.on_user_message(run, label(run))
    match state_machine.next_action(run):
        case state_machine.ModelRequestAction():
            return state_machine.on_reply(run, answer(move, run.usage.requests), 1.0)
        case state_machine.ToolCallAction():
            return state_machine.on_tool_finished(run, ToolResult(text="r"), 1.0)
        case state_machine.InspectionAction() | state_machine.CleanCheckAction() as action:
            return looked_at(run, move, action)
        case state_machine.CommitAction():
            return state_machine.on_commit(run, "c")
        case state_machine.PushAction():
            return (
                state_machine.on_conflicts(run, CONFLICT)
                if move == "conflict"
                else state_machine.on_push(run)
            )
        case state_machine.ContinueRebaseAction():
            return state_machine.on_rebase(run, commit="d", onto="t")
        case state_machine.WaitAction() | state_machine.FinishAction():
            return run


def looked_at(
    run: RunState, move: str, action: state_machine.InspectionAction | state_machine.CleanCheckAction
) -> RunState:
    if isinstance(action, state_machine.CleanCheckAction):
        ok = move != "conflict"
        # It takes no time here: what is done is checked also where its last reply reached a limit.
        step = RunStep(kind="check", text=action.check, ok=ok, commit=run.commit)
        return state_machine.on_clean_check(run, step, "" if ok else "bad")
    checked = RunStep(kind="check", text="true", ok=True)
    return state_machine.on_inspection(
        run, diff="+x", findings=("bad",) if move == "dirty" else (), checked=checked
    )


@given(budget=BUDGETS, course=MOVES)
def test_in_any_course_a_limit_holds_within_one_reply_or_call(budget: UsageLimits, course: list[str]) -> None:
    run = state_machine.create_run_state(task(budget=budget), "base")
    most = RunUsage(usd=1.0, tokens=5, seconds=1.0, calls=0)
    for move in course:
        run = moved(run, move)
        for kind in ("usd", "tokens", "seconds", "calls"):
            limit = budget.get_limit(kind)
            assert limit is None or getattr(run.spent, kind) < limit + max(getattr(most, kind), 1)
    assert run.spent.tokens == run.usage.input_tokens + run.usage.output_tokens


@given(budget=BUDGETS, course=MOVES)
def test_a_run_that_stopped_at_a_limit_goes_on_as_if_it_had_not_when_more_is_allowed(
    budget: UsageLimits, course: list[str]
) -> None:
    free = state_machine.create_run_state(task(), "base")
    held = state_machine.create_run_state(task(budget=budget), "base")
    for move in course:
        if move == "conflict":  # how many there were is forgiven
            continue
        free = moved(free, move)
        if state_machine.next_action(held) == state_machine.FinishAction("budget"):
            held = state_machine.finish_run(held, state_machine.FinishAction("budget"))
            assert held.reached
            held = state_machine.resume_run(
                held, held.task, UsageLimits(usd=99, tokens=99, seconds=99, calls=99)
            )
        held = moved(held, move)
    assert replace(held, task=free.task) == free


@given(course=MOVES)
def test_what_a_person_writes_is_heard_by_the_model_whole_and_in_order(course: list[str]) -> None:
    run = state_machine.create_run_state(task(), "base")
    sent: list[str] = []
    for move in course:
        if move == "news" and run.phase != "done":
            sent.append(label(run))
        run = moved(run, move)
        if state_machine.next_action(run) == state_machine.ModelRequestAction():
            check_wire_order(run)
            told = "\n".join(message.text for message in run.messages if isinstance(message, UserMessage))
            places = [told.rfind(text) for text in sent]
            assert -1 not in places
            assert places == sorted(places)


@pytest.mark.parametrize("name", ["usd", "tokens", "seconds"])
def test_a_limit_that_leaves_nothing_stops_before_the_model_is_asked(name: str) -> None:
    spent: dict[str, Any] = {name: 5}
    run = replace(worked(), task=task(budget=UsageLimits(**{name: 5})), spent=RunUsage(**spent))
    assert state_machine.next_action(run) == state_machine.FinishAction("budget")
    assert state_machine.finish_run(run, state_machine.FinishAction("budget")).reached == (name,)


def test_a_model_that_has_used_up_its_calls_may_still_say_that_it_is_done() -> None:
    run = replace(worked(), task=task(budget=UsageLimits(calls=1)))
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert state_machine.next_action(
        state_machine.on_reply(run, reply("", call(2)))
    ) == state_machine.FinishAction("budget")
    assert state_machine.next_action(
        state_machine.on_reply(run, reply("Done."))
    ) == state_machine.InspectionAction("true")


def test_what_the_model_says_to_be_done_is_still_inspected_and_pushed_at_a_limit() -> None:
    run = replace(worked(), task=task(budget=UsageLimits(tokens=1)), spent=RunUsage(tokens=0))
    run = state_machine.on_reply(run, Reply(text="Done.", usage=Usage(requests=1, input_tokens=9)))
    run = state_machine.on_commit(state_machine.on_inspection(run, diff="+x", findings=()), "c")
    assert state_machine.next_action(run) == state_machine.PushAction()


def test_the_sum_of_a_day_stops_a_run_that_alone_is_within_its_limits() -> None:
    run = replace(worked(), task=task(daily=UsageLimits(usd=10, tokens=10, seconds=1, calls=5)))
    run = state_machine.record_usage(run, RunUsage(usd=9.0, tokens=10, seconds=99, calls=4))
    assert state_machine.next_action(run) == state_machine.FinishAction("budget")
    assert state_machine.finish_run(run, state_machine.FinishAction("budget")).reached == (
        "daily_tokens",
        "daily_seconds",
    )
    assert run.booked == run.spent


def test_what_is_not_booked_yet_counts_for_the_day_too() -> None:
    calls = [ToolCall(id=f"c{number}", name="t", arguments={"n": number}) for number in range(9)]
    run = state_machine.record_usage(
        replace(planned(), task=task(daily=UsageLimits(calls=5))), RunUsage(calls=2)
    )
    run = state_machine.on_reply(run, reply("", *calls))
    while state_machine.next_action(run) != state_machine.FinishAction("budget"):
        run = state_machine.on_tool_finished(run, ToolResult(text="r"), 1.0)
    assert run.spent.calls == 3


def test_the_calls_of_a_day_stop_calls_and_no_last_word() -> None:
    run = state_machine.record_usage(
        replace(worked(), task=task(daily=UsageLimits(calls=5))), RunUsage(calls=5)
    )
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert state_machine.next_action(
        state_machine.on_reply(run, reply("", call(2)))
    ) == state_machine.FinishAction("budget")
    assert state_machine.next_action(
        state_machine.on_reply(run, reply("Done."))
    ) == state_machine.InspectionAction("true")


def circle(run: RunState, times: int) -> RunState:
    for _ in range(times):
        run = state_machine.on_tool_finished(
            state_machine.on_reply(run, reply("", call())), ToolResult(text="same"), 0.0
        )
    return run


def test_going_round_in_circles_is_told_once_and_then_stops_a_run_which_can_be_resumed() -> None:
    run = circle(planned(), 3)
    assert isinstance(run.messages[-1], UserMessage)
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    run = circle(run, STOP_AT - 3)
    assert isinstance(run.messages[-1], ToolMessage)
    assert state_machine.next_action(run) == state_machine.FinishAction("stuck")
    run = state_machine.resume_run(
        state_machine.finish_run(run, state_machine.FinishAction("stuck")), run.task
    )
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert state_machine.next_action(circle(run, 1)) == state_machine.ModelRequestAction()


@pytest.mark.parametrize("broken", [False, True])
def test_the_same_many_times_in_one_reply_is_told_before_it_stops_a_run(broken: bool) -> None:
    def again(run: RunState, times: int) -> RunState:
        same = [
            InvalidToolCall(id="b", name="x", raw="{") if broken else call(number) for number in range(times)
        ]
        run = state_machine.on_reply(run, reply("", *same))
        while run.pending:
            run = state_machine.on_tool_finished(run, ToolResult(text="same"), 0.0)
        return run

    run = again(planned(), 9)
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    assert load_prompt("repeating").strip() in last.text
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert state_machine.next_action(again(run, 1)) == state_machine.FinishAction("stuck")


def test_what_interrupts_a_circle_does_not_end_it() -> None:
    run = state_machine.resume_run(circle(planned(), STOP_AT - 1), task())
    assert state_machine.next_action(circle(run, 1)) == state_machine.FinishAction("stuck")


def test_calls_cut_short_are_no_circle() -> None:
    run = planned()
    for _ in range(STOP_AT):
        run = state_machine.on_tool_interrupted(
            state_machine.on_tool_started(state_machine.on_reply(run, reply("", call())))
        )
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert run.spent.calls == STOP_AT


@pytest.mark.parametrize("phase", ["inspect", "commit", "push"])
def test_news_after_the_model_was_done_is_worked_on_before_anything_is_pushed(phase: str) -> None:
    run = state_machine.on_reply(worked(), reply("Done."))
    if phase != "inspect":
        run = state_machine.on_inspection(run, diff="+x", findings=())
    if phase == "push":
        run = state_machine.on_commit(run, "c")
    run = state_machine.on_user_message(run, "And in French, too.")
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert isinstance(run.messages[-1], UserMessage)
    assert "French" in run.messages[-1].text


def test_news_during_a_rebase_wait_for_its_end_and_after_the_push_are_only_kept() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("Done.")), diff="+x", findings=()),
        "c",
    )
    run = state_machine.on_user_message(
        state_machine.on_reply(state_machine.on_conflicts(run, CONFLICT), reply("resolved")), "Wait!"
    )
    assert state_machine.next_action(run) == state_machine.ContinueRebaseAction(CONFLICT)
    run = state_machine.on_rebase(run, commit="d", onto="t")
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    assert "Wait!" in last.text
    ended = state_machine.on_user_message(state_machine.on_push(run), "Too late.")
    assert state_machine.next_action(ended) == state_machine.FinishAction("done")


def test_news_waits_until_every_call_is_answered() -> None:
    run = state_machine.on_user_message(
        state_machine.on_reply(planned(), reply("", call(1), call(2))), "Wait!"
    )
    run = state_machine.on_tool_finished(run, ToolResult(text="one"), 0.0)
    assert isinstance(run.messages[-1], ToolMessage)
    run = state_machine.on_tool_finished(run, ToolResult(text="two"), 0.0)
    assert "Wait!" in run.messages[-1].text
    assert run.notes == ()
