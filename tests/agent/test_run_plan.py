"""Plans: which steps are done, and another plan where one does not lead there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run import plan as plans
from kakite.agent.run import state_machine
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import Plan, RunState, RunStep
from kakite.models.messages import InvalidToolCall, UserMessage
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.test_state_machine import PLAN, check_wire_order, planned, reply, worked

OTHER = '{"goal": "g2", "steps": ["s", "t"], "title": "", "check": ""}'
FAILED = RunStep(kind="check", text="true", ok=False)
STEPS = Plan(goal="g", steps=("a", "b", "c"))


@given(
    st.sets(st.integers(1, 3)), st.sampled_from([", ", " ", " and ", "; "]), st.sampled_from(["", "steps "])
)
def test_steps_that_a_reply_names_are_done_and_stay_done(done: set[int], between: str, word: str) -> None:
    said = f"I shall go on.\nDone: {word}{between.join(map(str, sorted(done)))}\nNext is x."
    plan = plans.mark_steps_done(STEPS, said if done else "Nothing yet.")
    assert set(plan.done) == done
    assert plans.mark_steps_done(plan, "done: 2").done == tuple(sorted(done | {2}))


@pytest.mark.parametrize("text", ["**done: 1**", "- done: 1", "DONE: 1.", "> `done: 1`"])
def test_a_line_may_be_dressed_up(text: str) -> None:
    assert plans.mark_steps_done(STEPS, text).done == (1,)


@pytest.mark.parametrize("text", ["done: 9", "done: 0", "done: all in 2 steps", "I have done: 1 of 3", ""])
def test_what_names_no_step_makes_none_done(text: str) -> None:
    assert plans.mark_steps_done(STEPS, text) == STEPS


def test_what_is_done_stays_done_in_another_plan_that_still_has_it() -> None:
    old = replace(STEPS, done=(1, 3), title="T", check="make")
    new = plans.merge_plan(old, Plan(goal="g2", steps=("c", "d", "b")))
    assert new.to_checklist() == (("c", True), ("d", False), ("b", False))
    assert (new.title, new.check) == ("T", "make")


def test_when_the_branch_is_pushed_every_step_is_done() -> None:
    run = state_machine.on_reply(planned(), reply("done: 1", ToolCall(id="c", name="t", arguments={})))
    assert run.plan is not None
    assert run.plan.done == (1,)
    run = state_machine.on_push(replace(run, plan=STEPS))
    assert run.plan is not None
    assert all(done for _, done in run.plan.to_checklist())


def failing(run: RunState, times: int) -> RunState:
    for number in range(times):
        call = ToolCall(id="c", name="t", arguments={"n": [len(run.steps), number]})
        run = state_machine.on_tool_finished(
            state_machine.on_reply(run, reply("", call)), ToolResult(text="no", is_error=True), 0.0
        )
    return run


def is_asked(run: RunState) -> bool:
    last = run.messages[-1]
    return isinstance(last, UserMessage) and load_prompt("reflect").strip() in last.text


def test_when_nothing_works_the_model_is_asked_for_another_plan_which_is_then_carried_out() -> None:
    run = failing(worked(), state_machine.MAX_FAILURES - 1)
    assert not is_asked(run)
    run = failing(run, 1)
    assert is_asked(run)
    run = state_machine.on_reply(run, reply(f"I took x for granted.\n{OTHER}"))
    assert run.plan is not None
    assert (run.plan.goal, run.plan.title, run.phase) == ("g2", "Do it", "act")
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert run.steps[-1].kind == "plan"


def test_calls_that_work_between_begin_the_count_anew() -> None:
    run = worked()
    for _ in range(4):
        run = failing(run, state_machine.MAX_FAILURES - 1)
        call = ToolCall(id="c", name="t", arguments={"n": len(run.steps)})
        run = state_machine.on_tool_finished(
            state_machine.on_reply(run, reply("", call)), ToolResult(text="yes"), 0.0
        )
    assert run.replans == 0


def test_calls_whose_arguments_are_never_json_are_noticed_too() -> None:
    run = worked()
    for _ in range(5):
        run = state_machine.on_reply(run, reply("", InvalidToolCall(id="c", name="t", raw="{")))
    assert state_machine.next_action(run) == state_machine.FinishAction("stuck")
    assert run.replans == 1


def test_a_check_that_fails_through_all_rounds_asks_for_another_plan_with_rounds_of_its_own() -> None:
    run, rounds = worked(), 0
    while state_machine.next_action(run) != state_machine.CommitAction("Do it\n\ndone\n"):
        run = state_machine.on_reply(run, reply(PLAN if is_asked(run) else "done"))
        if state_machine.next_action(run) == state_machine.InspectionAction("true"):
            rounds += 1
            run = state_machine.on_inspection(run, diff="+x", findings=("it fails",), checked=FAILED)
    assert run.replans == state_machine.MAX_REPLANS
    assert rounds == (state_machine.MAX_REPLANS + 1) * (state_machine.MAX_INSPECTIONS + 1)
    assert run.findings == ("it fails",)


@pytest.mark.parametrize("code", ["approval_required", "denied"])
def test_a_check_that_was_not_allowed_asks_for_no_other_plan(code: str) -> None:
    run, checked = worked(), replace(FAILED, code=code)
    for _ in range(state_machine.MAX_INSPECTIONS + 1):
        run = state_machine.on_inspection(
            state_machine.on_reply(run, reply("done")), diff="+x", findings=("x",), checked=checked
        )
    assert (run.phase, run.replans) == ("commit", 0)


def test_the_time_of_a_check_is_time_at_work() -> None:
    checked = replace(FAILED, ok=True, seconds=7.0)
    run = state_machine.on_inspection(
        state_machine.on_reply(worked(), reply("done")), diff="+x", findings=(), checked=checked
    )
    assert run.spent.seconds == worked().spent.seconds + 7.0


def test_what_is_no_failing_check_asks_for_no_other_plan() -> None:
    run = worked()
    for _ in range(state_machine.MAX_INSPECTIONS + 1):
        run = state_machine.on_inspection(
            state_machine.on_reply(run, reply("done")), diff="+x", findings=("a placeholder",)
        )
    assert (run.phase, run.replans) == ("commit", 0)


MOVES = st.lists(st.sampled_from(["fail", "same", "plan", "talk", "broken", "red"]), max_size=60)


@given(MOVES)
def test_in_any_course_another_plan_is_asked_for_three_times_at_most(course: Sequence[str]) -> None:
    run = worked()
    for move in course:
        match state_machine.next_action(run):
            case state_machine.ModelRequestAction():
                check_wire_order(run)
                call = ToolCall(id=f"c{len(run.steps)}", name="t", arguments={"n": len(run.steps)})
                bad = InvalidToolCall(id="b", name="t", raw=str(len(run.steps)))
                says = {"plan": reply(OTHER), "talk": reply("done"), "broken": reply("", bad, call)}
                run = state_machine.on_reply(run, says.get(move, reply("", call)))
            case state_machine.ToolCallAction():
                run = state_machine.on_tool_finished(run, ToolResult(text="r", is_error=move != "same"), 0.0)
            case state_machine.InspectionAction():
                checked = FAILED if move == "red" else None
                run = state_machine.on_inspection(
                    run, diff="+x", findings=("bad",) if checked else (), checked=checked
                )
            case _:
                break
        assert run.replans <= state_machine.MAX_REPLANS


def test_a_plan_that_json_nests_too_deep_for_is_none() -> None:
    assert plans.parse_plan('{"goal": ' + "[" * 100_000) is None
    assert plans.parse_plan(json.dumps({"goal": "g", "steps": [1]})) == Plan(goal="g", steps=("1",))


def test_half_a_character_in_a_plan_is_told_as_such() -> None:
    plan = plans.parse_plan('{"goal": "a \\ud83d", "steps": ["\\ud83d"], "title": "\\ud83d"}')
    assert plan == Plan(goal="a \ufffd", steps=("\ufffd",), title="\ufffd")


def test_people_are_not_told_which_marks_a_model_made() -> None:
    assert plans.strip_progress_lines("done: 1, 2\n\nI wrote it.\nAll is done: see there.\n**Done:** 3") == (
        "I wrote it.\nAll is done: see there."
    )
