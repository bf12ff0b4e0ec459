"""Limits of what may be used up, circles, and what a person writes meanwhile: the pure loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent import flow
from kakite.agent.budget import Budget, Spent
from kakite.agent.phrases import prompt
from kakite.agent.repeats import STOP
from kakite.agent.run import Run
from kakite.models.messages import BrokenCall, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.test_flow import CONFLICT, PLAN, call, check_wire_order, planned, reply, task, worked

LIMIT = st.none() | st.integers(1, 40)
BUDGETS = st.builds(Budget, usd=LIMIT, tokens=LIMIT, seconds=LIMIT, calls=LIMIT)
MOVES = st.lists(st.sampled_from(["calls", "talk", "plan", "dirty", "news", "conflict"]), max_size=40)


def answer(move: str, number: int) -> Reply:
    usage = Usage(requests=1, input_tokens=3, output_tokens=2, cost_usd=1.0)
    numbers = range(2 * number, 2 * number + 2) if move == "calls" else ()
    calls = tuple(ToolCall(id=f"c{each}", name="t", arguments={"n": each}) for each in numbers)
    return Reply(text=PLAN if move == "plan" else move, calls=calls, usage=usage)


def label(run: Run) -> str:
    return f"<{len(run.messages)}.{len(run.notes)}>"


def moved(run: Run, move: str) -> Run:
    if move == "news":
        return flow.heard_news(run, label(run))
    match flow.due(run):
        case flow.AskModel():
            return flow.replied(run, answer(move, run.usage.requests), 1.0)
        case flow.RunTool():
            return flow.tool_finished(run, ToolResult(text="r"), 1.0)
        case flow.Inspect():
            return flow.inspected(run, diff="+x", findings=("bad",) if move == "dirty" else ())
        case flow.Commit():
            return flow.committed(run, "c")
        case flow.Push():
            return flow.conflicted(run, CONFLICT) if move == "conflict" else flow.pushed(run)
        case flow.ContinueRebase():
            return flow.rebased(run, commit="d", onto="t")
        case flow.Finish():
            return run


@given(budget=BUDGETS, course=MOVES)
def test_in_any_course_a_limit_holds_within_one_reply_or_call(budget: Budget, course: list[str]) -> None:
    run = flow.begin(task(budget=budget), "base")
    most = Spent(usd=1.0, tokens=5, seconds=1.0, calls=0)
    for move in course:
        run = moved(run, move)
        for kind in ("usd", "tokens", "seconds", "calls"):
            limit = budget.most(kind)
            assert limit is None or getattr(run.spent, kind) < limit + max(getattr(most, kind), 1)
    assert run.spent.tokens == run.usage.input_tokens + run.usage.output_tokens


@given(budget=BUDGETS, course=MOVES)
def test_a_run_that_stopped_at_a_limit_goes_on_as_if_it_had_not_when_more_is_allowed(
    budget: Budget, course: list[str]
) -> None:
    free = flow.begin(task(), "base")
    held = flow.begin(task(budget=budget), "base")
    for move in course:
        if move == "conflict":  # how many there were is forgiven
            continue
        free = moved(free, move)
        if flow.due(held) == flow.Finish("budget"):
            held = flow.ended(held, flow.Finish("budget"))
            assert held.reached
            held = flow.resumed(held, held.task, Budget(usd=99, tokens=99, seconds=99, calls=99))
        held = moved(held, move)
    assert replace(held, task=free.task) == free


@given(course=MOVES)
def test_what_a_person_writes_is_heard_by_the_model_whole_and_in_order(course: list[str]) -> None:
    run = flow.begin(task(), "base")
    sent: list[str] = []
    for move in course:
        if move == "news" and run.phase != "done":
            sent.append(label(run))
        run = moved(run, move)
        if flow.due(run) == flow.AskModel():
            check_wire_order(run)
            told = "\n".join(message.text for message in run.messages if isinstance(message, UserMessage))
            places = [told.rfind(text) for text in sent]
            assert -1 not in places
            assert places == sorted(places)


@pytest.mark.parametrize("name", ["usd", "tokens", "seconds"])
def test_a_limit_that_leaves_nothing_stops_before_the_model_is_asked(name: str) -> None:
    spent: dict[str, Any] = {name: 5}
    run = replace(worked(), task=task(budget=Budget(**{name: 5})), spent=Spent(**spent))
    assert flow.due(run) == flow.Finish("budget")
    assert flow.ended(run, flow.Finish("budget")).reached == (name,)


def test_a_model_that_has_used_up_its_calls_may_still_say_that_it_is_done() -> None:
    run = replace(worked(), task=task(budget=Budget(calls=1)))
    assert flow.due(run) == flow.AskModel()
    assert flow.due(flow.replied(run, reply("", call(2)))) == flow.Finish("budget")
    assert flow.due(flow.replied(run, reply("Done."))) == flow.Inspect("true")


def test_what_the_model_says_to_be_done_is_still_inspected_and_pushed_at_a_limit() -> None:
    run = replace(worked(), task=task(budget=Budget(tokens=1)), spent=Spent(tokens=0))
    run = flow.replied(run, Reply(text="Done.", usage=Usage(requests=1, input_tokens=9)))
    run = flow.committed(flow.inspected(run, diff="+x", findings=()), "c")
    assert flow.due(run) == flow.Push()


def test_the_sum_of_a_day_stops_a_run_that_alone_is_within_its_limits() -> None:
    run = replace(worked(), task=task(daily=Budget(usd=10, tokens=10, seconds=1, calls=5)))
    run = flow.booked(run, Spent(usd=9.0, tokens=10, seconds=99, calls=4))
    assert flow.due(run) == flow.Finish("budget")
    assert flow.ended(run, flow.Finish("budget")).reached == ("daily_tokens", "daily_seconds")
    assert run.booked == run.spent


def test_what_is_not_booked_yet_counts_for_the_day_too() -> None:
    calls = [ToolCall(id=f"c{number}", name="t", arguments={"n": number}) for number in range(9)]
    run = flow.booked(replace(planned(), task=task(daily=Budget(calls=5))), Spent(calls=2))
    run = flow.replied(run, reply("", *calls))
    while flow.due(run) != flow.Finish("budget"):
        run = flow.tool_finished(run, ToolResult(text="r"), 1.0)
    assert run.spent.calls == 3


def test_the_calls_of_a_day_stop_calls_and_no_last_word() -> None:
    run = flow.booked(replace(worked(), task=task(daily=Budget(calls=5))), Spent(calls=5))
    assert flow.due(run) == flow.AskModel()
    assert flow.due(flow.replied(run, reply("", call(2)))) == flow.Finish("budget")
    assert flow.due(flow.replied(run, reply("Done."))) == flow.Inspect("true")


def circle(run: Run, times: int) -> Run:
    for _ in range(times):
        run = flow.tool_finished(flow.replied(run, reply("", call())), ToolResult(text="same"), 0.0)
    return run


def test_going_round_in_circles_is_told_once_and_then_stops_a_run_which_can_be_resumed() -> None:
    run = circle(planned(), 3)
    assert isinstance(run.messages[-1], UserMessage)
    assert flow.due(run) == flow.AskModel()
    run = circle(run, STOP - 3)
    assert isinstance(run.messages[-1], ToolMessage)
    assert flow.due(run) == flow.Finish("stuck")
    run = flow.resumed(flow.ended(run, flow.Finish("stuck")), run.task)
    assert flow.due(run) == flow.AskModel()
    assert flow.due(circle(run, 1)) == flow.AskModel()


@pytest.mark.parametrize("broken", [False, True])
def test_the_same_many_times_in_one_reply_is_told_before_it_stops_a_run(broken: bool) -> None:
    def again(run: Run, times: int) -> Run:
        same = [BrokenCall(id="b", name="x", raw="{") if broken else call(number) for number in range(times)]
        run = flow.replied(run, reply("", *same))
        while run.pending:
            run = flow.tool_finished(run, ToolResult(text="same"), 0.0)
        return run

    run = again(planned(), 9)
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    assert prompt("repeating").strip() in last.text
    assert flow.due(run) == flow.AskModel()
    assert flow.due(again(run, 1)) == flow.Finish("stuck")


def test_what_interrupts_a_circle_does_not_end_it() -> None:
    run = flow.resumed(circle(planned(), STOP - 1), task())
    assert flow.due(circle(run, 1)) == flow.Finish("stuck")


def test_calls_cut_short_are_no_circle() -> None:
    run = planned()
    for _ in range(STOP):
        run = flow.tool_interrupted(flow.tool_began(flow.replied(run, reply("", call()))))
    assert flow.due(run) == flow.AskModel()
    assert run.spent.calls == STOP


@pytest.mark.parametrize("phase", ["inspect", "commit", "push"])
def test_news_after_the_model_was_done_is_worked_on_before_anything_is_pushed(phase: str) -> None:
    run = flow.replied(worked(), reply("Done."))
    if phase != "inspect":
        run = flow.inspected(run, diff="+x", findings=())
    if phase == "push":
        run = flow.committed(run, "c")
    run = flow.heard_news(run, "And in French, too.")
    assert flow.due(run) == flow.AskModel()
    assert isinstance(run.messages[-1], UserMessage)
    assert "French" in run.messages[-1].text


def test_news_during_a_rebase_wait_for_its_end_and_after_the_push_are_only_kept() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("Done.")), diff="+x", findings=()), "c")
    run = flow.heard_news(flow.replied(flow.conflicted(run, CONFLICT), reply("resolved")), "Wait!")
    assert flow.due(run) == flow.ContinueRebase(CONFLICT)
    run = flow.rebased(run, commit="d", onto="t")
    assert flow.due(run) == flow.AskModel()
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    assert "Wait!" in last.text
    ended = flow.heard_news(flow.pushed(run), "Too late.")
    assert flow.due(ended) == flow.Finish("done")


def test_news_waits_until_every_call_is_answered() -> None:
    run = flow.heard_news(flow.replied(planned(), reply("", call(1), call(2))), "Wait!")
    run = flow.tool_finished(run, ToolResult(text="one"), 0.0)
    assert isinstance(run.messages[-1], ToolMessage)
    run = flow.tool_finished(run, ToolResult(text="two"), 0.0)
    assert "Wait!" in run.messages[-1].text
    assert run.notes == ()
