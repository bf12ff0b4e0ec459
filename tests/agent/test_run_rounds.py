"""Further rounds of a run: what a person says to it after it has ended, or has stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.observe.event_log import build_event_log
from kakite.agent.observe.events import RunStepEvent, UserMessageEvent
from kakite.agent.run import state_machine
from kakite.agent.run.limits import UsageLimits
from kakite.agent.run.state import RunState, RunStep, find_unverified_reason
from kakite.agent.run.store import decode_run, encode_delta
from kakite.models.messages import InvalidToolCall, Reply, ToolMessage, UserMessage
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.runs import DIFF, PLAN, USED, call_of, finished_run, runs

NOW = "2026-01-02T03:04:05+00:00"
MORE = "Also make b 3\nand say why"
words = st.text(min_size=1, max_size=40).filter(str.strip)


def continued(run: RunState, text: str = MORE, base: str = "") -> RunState:
    return state_machine.start_round(
        run, state_machine.get_round_task(run), text, time=NOW, base=base or run.commit
    )


def unanswered(run: RunState) -> set[str]:
    calls = {call.id for each in run.messages if isinstance(each, Reply) for call in each.calls}
    return calls - {each.call_id for each in run.messages if isinstance(each, ToolMessage)}


@given(runs(), words)
def test_a_round_of_any_run_keeps_what_was_said_and_answers_every_call(run: RunState, text: str) -> None:
    after = continued(run, text)
    assert after.messages[: len(run.messages)] == run.messages
    assert after.steps[: len(run.steps)] == run.steps
    assert after.steps[len(run.steps)].kind == "continue"
    assert [each.text for each in after.rounds] == [text]
    assert (unanswered(after), after.pending) == (unanswered(run), run.pending)
    assert not isinstance(state_machine.next_action(after), state_machine.WaitAction)


@given(runs())
def test_in_another_checkout_nothing_is_pending_and_the_model_is_asked(run: RunState) -> None:
    after = continued(run, base="b" * 40)
    assert (after.pending, after.started, after.base) == ((), False, "b" * 40)
    assert state_machine.next_action(after) == state_machine.ModelRequestAction()


@given(words)
def test_a_round_of_a_run_that_has_ended_asks_for_a_plan_and_can_be_stored(text: str) -> None:
    run = finished_run()
    after = continued(run, text)
    assert state_machine.next_action(after) == state_machine.ModelRequestAction()
    told = after.messages[-1]
    assert isinstance(told, UserMessage)
    assert (told.shown, told.from_person, text.strip() in told.text) == (text, True, True)
    assert (after.base, after.commit, after.environment) == (run.commit, run.commit, None)
    assert decode_run(encode_delta(run, None) + encode_delta(after, run))[0] == after


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_each_round_has_the_limits_of_the_first_one_to_itself(replies: list[int]) -> None:
    run = finished_run()
    task = replace(run.task, max_turns=7, budget=UsageLimits(usd=1.0, calls=9))
    run = replace(run, task=task)
    for count in replies:
        run = continued(run)
        assert run.task.max_turns == run.usage.requests + 7
        assert run.task.budget.calls == run.spent.calls + 9
        assert state_machine.get_round_task(run).max_turns == 7
        assert state_machine.get_round_task(run).budget.usd == pytest.approx(1.0)
        for _ in range(count):
            run = state_machine.on_reply(run, Reply(text="", calls=(call_of(1),), usage=USED))
            run = state_machine.on_tool_finished(run, ToolResult(text="x"), 0.1)
        run = replace(run, phase="done", status="done")


def second_round(*, said: str = PLAN) -> RunState:
    run = state_machine.on_reply(continued(finished_run()), Reply(text=said, usage=USED))
    calls: tuple[ToolCall | InvalidToolCall, ...] = (call_of(9, command="create", path="b.py"),)
    run = state_machine.on_reply(run, Reply(text="", calls=calls, finish="tool_calls", usage=USED))
    run = state_machine.on_tool_finished(run, ToolResult(text="made"), 0.5)
    return state_machine.on_reply(run, Reply(text="Made b 3.", usage=USED))


def test_a_round_is_inspected_checked_committed_and_pushed_as_the_first_one() -> None:
    run = second_round()
    assert state_machine.next_action(run) == state_machine.InspectionAction("true")
    run = state_machine.on_inspection(run, diff=DIFF, findings=(), checked=RunStep(kind="check", text="true"))
    action = state_machine.next_action(run)
    assert isinstance(action, state_machine.CommitAction)
    assert action.message == "Make a 2\n\nMade b 3.\n"
    committed = state_machine.on_commit(run, "beef" * 10)
    assert not committed.pushed
    run = state_machine.on_push(committed)
    assert (run.status, run.pushed, run.commit, run.summary) == ("done", True, "beef" * 10, "Made b 3.")


def test_without_a_new_plan_the_check_holds_and_the_commit_has_the_messages_words() -> None:
    run = continued(finished_run())
    run = state_machine.on_reply(run, Reply(text="", calls=(call_of(9, command="create"),), usage=USED))
    run = state_machine.on_tool_finished(run, ToolResult(text="made"), 0.5)
    run = state_machine.on_reply(run, Reply(text="Made it.", usage=USED))
    assert state_machine.next_action(run) == state_machine.InspectionAction("true")
    run = state_machine.on_inspection(run, diff=DIFF, findings=())
    assert state_machine.next_action(run) == state_machine.CommitAction("Also make b 3\n\nMade it.\n")


def test_a_model_that_only_answers_is_reminded_once_and_then_has_changed_nothing() -> None:
    run = state_machine.on_reply(continued(finished_run()), Reply(text="Because.", usage=USED))
    run = state_machine.on_inspection(run, diff="", findings=())
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    run = state_machine.on_inspection(
        state_machine.on_reply(run, Reply(text="Because.", usage=USED)), diff="", findings=()
    )
    assert (run.phase, run.status, run.summary, run.pushed) == ("done", "no_changes", "Because.", True)


def test_the_check_of_the_round_before_says_nothing_of_this_one() -> None:
    failed = finished_run(check=RunStep(kind="check", text="true", ok=False))
    assert find_unverified_reason(failed)
    assert not find_unverified_reason(continued(failed))


def test_only_where_others_moved_the_branch_the_model_hears_of_it() -> None:
    run = finished_run()
    told = [continued(run, base=base).messages[-1] for base in (run.commit, "e" * 40)]
    assert ["not as you left it" in each.text for each in told] == [False, True]


def test_a_run_that_stopped_goes_on_in_its_checkout_with_the_message() -> None:
    run = state_machine.on_reply(state_machine.on_reply(finished_run(), Reply(text="x")), Reply(text="y"))
    stopped = replace(run, phase="act", status="limit", pushed=False, commit="")
    after = continued(stopped)
    assert (after.status, after.base, after.phase) == (None, stopped.base, "act")
    told = after.messages[-1]
    assert isinstance(told, UserMessage)
    assert MORE.splitlines()[0] in told.text


def test_the_event_log_tells_rounds_in_their_order() -> None:
    run = second_round()
    run = state_machine.on_inspection(run, diff=DIFF, findings=(), checked=RunStep(kind="check", text="true"))
    run = state_machine.on_push(state_machine.on_commit(run, "beef" * 10))
    kinds = [
        each.kind if isinstance(each, RunStepEvent) else "message"
        for each in build_event_log(run)
        if isinstance(each, RunStepEvent) or (isinstance(each, UserMessageEvent) and each.from_person)
    ]
    ended = ["check", "commit", "push"]
    assert kinds == ["plan", *ended, "continue", "message", "plan", *ended]
