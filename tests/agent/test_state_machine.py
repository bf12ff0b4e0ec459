"""Whose move it is: the pure loop, without a model, a tool or a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run import plan as plans
from kakite.agent.run import state_machine
from kakite.agent.run.compaction import get_visible_messages
from kakite.agent.run.limits import RunUsage, UsageLimits
from kakite.agent.run.state import (
    Conflict,
    Plan,
    RunRound,
    RunState,
    RunStatus,
    RunStep,
    Task,
    find_unverified_reason,
    get_branch_head,
    get_check_result,
)
from kakite.agent.run.store import RunFolder, RunStoreError
from kakite.errors import ExternalError
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import ToolCall, ToolResult

CONFLICT = (Conflict(path="a.py", kind="text"),)
PLAN = '{"goal": "g", "steps": ["s"], "title": "Do it", "check": "true"}'


def task(**changes: object) -> Task:
    values: dict[str, object] = {
        "id": "r1",
        "text": "do it",
        "repository": "/r",
        "branch": "b",
        "model": "m:m",
        "sandbox": "local",
        "approve": "all",
        "max_turns": 50,
        **changes,
    }
    return Task(**values)  # pyright: ignore[reportArgumentType] - built from keywords


def call(number: int = 1) -> ToolCall:
    return ToolCall(id=f"c{number}", name="text_editor", arguments={"command": "view", "path": "x"})


def reply(text: str = "", *calls: ToolCall | InvalidToolCall, finish: str = "stop") -> Reply:
    return Reply(text=text, calls=calls, usage=Usage(requests=1), finish=finish)  # pyright: ignore[reportArgumentType]


def planned() -> RunState:
    return state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply(PLAN))


def worked() -> RunState:
    run = state_machine.on_reply(planned(), reply("", call()))
    return state_machine.on_tool_finished(run, ToolResult(text="seen"), 0.1)


@given(st.integers(0, 3), st.booleans())
def test_in_another_sandbox_every_call_is_answered_before_anything_is_told(count: int, began: bool) -> None:
    run = state_machine.on_sandbox_selected(planned(), "container", "/workspace/project")
    run = replace(
        state_machine.on_reply(run, reply("", *(call(number) for number in range(count)))), environment={}
    )
    run = replace(run, phase="act", started=began and count > 0)
    assert state_machine.on_sandbox_selected(run, "container", "/workspace/project") == run
    moved = state_machine.on_sandbox_selected(run, "local", "/here")
    assert (moved.sandbox, moved.pending, moved.started, moved.environment) == ("local", (), False, None)
    *answers, told = moved.messages[len(run.messages) :]
    assert [answer.call_id for answer in answers if isinstance(answer, ToolMessage)] == [
        f"c{number}" for number in range(count)
    ]
    assert isinstance(told, UserMessage)
    assert "/here" in told.text
    assert state_machine.next_action(moved) == state_machine.ModelRequestAction()


def test_where_a_run_begins_is_no_move() -> None:
    run = state_machine.on_sandbox_selected(
        state_machine.create_run_state(task(), "base"), "container", "/workspace/project"
    )
    assert (run.sandbox, run.messages) == (
        "container",
        state_machine.create_run_state(task(), "base").messages,
    )


def test_a_run_begins_by_asking_for_a_plan() -> None:
    run = state_machine.create_run_state(task(), "base")
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert isinstance(run.messages[0], UserMessage)
    assert "do it" in run.messages[0].text


def test_the_first_reply_without_a_call_is_the_plan_and_work_goes_on() -> None:
    run = planned()
    assert run.plan is not None
    assert (run.plan.title, run.plan.check, run.phase) == ("Do it", "true", "act")
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()


def test_a_plan_in_plain_words_is_taken_as_it_is() -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply("I shall look first."))
    assert run.plan is not None
    assert run.plan.goal == "I shall look first."


def test_a_plan_may_come_after_looking_around() -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply("", call()))
    run = state_machine.on_tool_finished(run, ToolResult(text="seen"), 0.1)
    run = state_machine.on_reply(run, reply(f"```json\n{PLAN}\n```"))
    assert run.plan is not None
    assert run.phase == "act"


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ('I use {x}. {"goal": "g", "steps": [], "check": ["a", "b c"]} So be it.', "a 'b c'"),
        ('{"a": {"goal": "g", "steps": [], "check": "t"}}', "t"),
        ('{"goal": "g", "steps": [], "check": null}', ""),
    ],
)
def test_a_plan_is_found_wherever_it_stands(text: str, check: str) -> None:
    plan = plans.parse_plan(text)
    assert plan is not None
    assert (plan.goal, plan.check) == ("g", check)


def test_a_plan_beside_calls_is_taken_too() -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply(PLAN, call()))
    assert run.plan is not None
    assert state_machine.next_action(run) == state_machine.ToolCallAction(call())


def test_a_plan_in_plain_words_after_looking_around_does_not_end_the_work() -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply("", call()))
    run = state_machine.on_reply(
        state_machine.on_tool_finished(run, ToolResult(text="seen"), 0.1), reply("I shall change x.")
    )
    assert (run.phase, state_machine.next_action(run)) == ("act", state_machine.ModelRequestAction())


def test_words_after_a_deed_end_the_work_even_without_a_plan() -> None:
    deed = ToolCall(id="c1", name="text_editor", arguments={"command": "create", "path": "x"})
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply("", deed))
    run = state_machine.on_reply(
        state_machine.on_tool_finished(run, ToolResult(text="done"), 0.1), reply("Done.")
    )
    assert state_machine.next_action(run) == state_machine.InspectionAction("")


@pytest.mark.parametrize("looks", [("run_command", {"command": "ls"}), ("read_files", {"paths": ["x"]})])
def test_a_plan_in_plain_words_after_looking_by_another_tool_is_not_taken_for_the_end(
    looks: tuple[str, dict[str, object]],
) -> None:
    run = state_machine.on_reply(
        state_machine.create_run_state(task(), "base"),
        reply("", ToolCall(id="c1", name=looks[0], arguments=looks[1])),
    )
    run = state_machine.on_reply(
        state_machine.on_tool_finished(run, ToolResult(text="x"), 0.1), reply("I shall change x.")
    )
    run = state_machine.on_inspection(run, diff="", findings=())
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    run = state_machine.on_inspection(
        state_machine.on_reply(run, reply("No change is needed.")), diff="", findings=()
    )
    assert state_machine.next_action(run) == state_machine.FinishAction("no_changes")


def test_a_broken_call_before_the_plan_is_no_deed() -> None:
    run = state_machine.on_reply(
        state_machine.create_run_state(task(), "base"), reply("", InvalidToolCall(id="c1", name="x", raw="{"))
    )
    run = state_machine.on_reply(run, reply("I shall change x."))
    assert (run.phase, state_machine.next_action(run)) == ("act", state_machine.ModelRequestAction())


def test_a_model_that_has_only_looked_is_reminded_once_too() -> None:
    run = state_machine.on_inspection(
        state_machine.on_reply(worked(), reply("Now I will edit x.")), diff="", findings=()
    )
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    run = state_machine.on_inspection(
        state_machine.on_reply(run, reply("It is right as it is.")), diff="", findings=()
    )
    assert state_machine.next_action(run) == state_machine.FinishAction("no_changes")


def test_what_others_did_alike_meanwhile_leaves_nothing_to_do() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    run = state_machine.on_inspection(
        state_machine.on_rebase(run, commit="c2", onto="c2"), diff="", findings=()
    )
    assert state_machine.next_action(run) == state_machine.FinishAction("no_changes")


@pytest.mark.parametrize(
    ("title", "summary", "text", "message"),
    [
        ("T\0\n t", "a\0b", "x", "T t\n\nab\n"),
        (" \0 ", "", "do\n\tit", "do it\n"),
        ("\ud83d", "\ud83d", "x", "\ufffd\n\n\ufffd\n"),
        ("", "", "\0", "Work on b\n"),
        ("x" * 80, "", "x", "x" * 71 + "…\n"),
    ],
)
def test_a_commits_message_is_one_that_git_takes(title: str, summary: str, text: str, message: str) -> None:
    assert plans.build_commit_message(task(text=text), Plan(goal="g", title=title), summary) == message


@given(st.text(), st.text())
def test_a_commit_without_a_planned_title_is_called_as_its_issue(title: str, text: str) -> None:
    plain = plans.build_commit_subject(task(text=title), None)
    titled = plans.build_commit_subject(task(text=f"<issue>{text}", title=title), None)
    if title.replace("\0", "").split():
        assert titled == plain
    else:
        assert titled.startswith("<issue>")


def test_of_a_long_diff_a_part_is_kept() -> None:
    diff = f"head{'x' * state_machine.DIFF_LIMIT}tail"
    kept = state_machine.on_inspection(
        state_machine.on_reply(worked(), reply("done")), diff=diff, findings=()
    ).diff
    assert len(kept) < state_machine.DIFF_LIMIT + 100
    assert (kept[:4], kept[-4:]) == ("head", "tail")


def test_a_finding_as_long_as_a_file_is_told_short() -> None:
    run = state_machine.on_inspection(
        state_machine.on_reply(worked(), reply("done")), diff="+x", findings=("x" * 10**6,)
    )
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    assert len(last.text) < state_machine.RESULT_LIMIT + 1000


def test_a_model_that_refuses_ends_the_run_which_can_be_resumed() -> None:
    run = state_machine.on_reply(worked(), reply("", finish="refused"))
    assert state_machine.next_action(run) == state_machine.FinishAction("refused")
    assert (
        state_machine.next_action(state_machine.resume_run(run, task())) == state_machine.ModelRequestAction()
    )


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "I’m sorry, but I can’t assist with that request.",
        "**I cannot do this.** It would harm people.",
        "Sorry, I am unable to help with this.",
        "I'm not able to complete this task.",
        "I'm afraid I won't do that",
        "Unfortunately, we cannot comply.",
        "I must decline.",
        "申し訳ありませんが、そのご依頼にはお応えできません。",
        "抱歉，我无法协助完成此请求。",
    ],
)
def test_a_refusal_in_words_is_no_plan(text: str) -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply(text))
    assert (state_machine.next_action(run), run.plan, run.summary) == (
        state_machine.FinishAction("refused"),
        None,
        text,
    )
    assert (
        state_machine.next_action(state_machine.resume_run(run, task())) == state_machine.ModelRequestAction()
    )


@pytest.mark.parametrize(
    "text",
    [
        "I can help with that: first I view the file.",
        "I can't see the files yet, so I look at them first.",
        "I cannot run the tests before I know them. I begin with app.py.",
        "I won't change the API; I add a function.",
        "Sorry state of the tests: mend them",
        f"I can't do this in one step. {PLAN}",
        f"I can't do this in one step. These are the steps: {'step ' * 200}",
    ],
)
def test_a_plan_that_tells_what_is_not_done_is_no_refusal(text: str) -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply(text))
    assert (run.phase, run.refused, state_machine.next_action(run)) == (
        "act",
        False,
        state_machine.ModelRequestAction(),
    )
    assert run.plan is not None


def test_a_run_that_ended_in_conflicts_can_be_resumed() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    for _ in range(state_machine.MAX_RESOLUTIONS + 1):
        run = state_machine.on_conflicts(run, CONFLICT)
    assert state_machine.next_action(run) == state_machine.FinishAction("conflict")
    assert (
        state_machine.next_action(state_machine.resume_run(run, task())) == state_machine.ModelRequestAction()
    )


def test_calls_are_run_one_after_the_other_and_answered_in_order() -> None:
    run = state_machine.on_reply(planned(), reply("", call(1), call(2)))
    assert state_machine.next_action(run) == state_machine.ToolCallAction(call(1))
    run = state_machine.on_tool_finished(run, ToolResult(text="one"), 0.1)
    assert state_machine.next_action(run) == state_machine.ToolCallAction(call(2))
    run = state_machine.on_tool_finished(run, ToolResult(text="two", is_error=True, code="x"), 0.1)
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert [message.text for message in run.messages[-2:] if isinstance(message, ToolMessage)] == [
        "one",
        "two",
    ]


def test_a_call_with_broken_arguments_is_answered_without_being_run() -> None:
    run = state_machine.on_reply(
        planned(), reply("", InvalidToolCall(id="c1", name="text_editor", raw="{"), call(2))
    )
    assert state_machine.next_action(run) == state_machine.ToolCallAction(call(2))
    told = run.messages[-1]
    assert isinstance(told, ToolMessage)
    assert (told.call_id, told.is_error) == ("c1", True)


def test_a_reply_that_was_cut_off_does_not_end_the_work() -> None:
    run = state_machine.on_reply(worked(), reply("I have", finish="length"))
    assert run.phase == "act"
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert isinstance(run.messages[-1], UserMessage)


def test_a_reply_without_a_call_ends_the_acting_and_nothing_is_pushed_before() -> None:
    run = state_machine.on_reply(worked(), reply("All done."))
    assert state_machine.next_action(run) == state_machine.InspectionAction("true")
    run = state_machine.on_inspection(run, diff="+x", findings=())
    assert state_machine.next_action(run) == state_machine.CommitAction("Do it\n\nAll done.\n")
    run = state_machine.on_commit(run, "c0ffee")
    assert state_machine.next_action(run) == state_machine.PushAction()
    run = state_machine.on_push(run)
    assert state_machine.next_action(run) == state_machine.FinishAction("done")
    assert run.pushed


def test_the_rounds_of_a_run_are_bounded() -> None:
    assert (state_machine.MAX_INSPECTIONS, state_machine.MAX_REPLANS, state_machine.MAX_FAILURES) == (2, 3, 4)
    assert (state_machine.MAX_RESOLUTIONS, state_machine.MAX_PUSHES) == (5, 5)


def test_findings_go_back_to_the_model_twice_and_then_into_the_report() -> None:
    run = worked()
    for _ in range(state_machine.MAX_INSPECTIONS):
        run = state_machine.on_inspection(
            state_machine.on_reply(run, reply("done")), diff="+x", findings=("it is broken",)
        )
        assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    run = state_machine.on_inspection(
        state_machine.on_reply(run, reply("done")), diff="+x", findings=("it is broken",)
    )
    assert isinstance(state_machine.next_action(run), state_machine.CommitAction)
    assert run.findings == ("it is broken",)


def test_a_model_that_only_talks_is_reminded_once() -> None:
    run = state_machine.on_inspection(
        state_machine.on_reply(planned(), reply("I will.")), diff="", findings=()
    )
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    run = state_machine.on_inspection(state_machine.on_reply(run, reply("I will!")), diff="", findings=())
    assert state_machine.next_action(run) == state_machine.FinishAction("no_changes")


STEPS = '{"goal": "g", "steps": ["one", "two", "three", "run the tests"], "title": "Do it", "check": "true"}'


@pytest.mark.parametrize("kind", ["run_command", "text_editor"])
def test_talk_without_a_change_is_reminded_after_any_call(kind: str) -> None:
    made = ToolCall(id="c1", name=kind, arguments={"command": "make test"})
    run = state_machine.on_reply(planned(), reply("", made))
    run = state_machine.on_tool_finished(run, ToolResult(text="exit code 0"), 0.1)
    run = state_machine.on_inspection(
        state_machine.on_reply(run, reply("Now I fix it.")), diff="", findings=()
    )
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()


def test_talk_while_steps_are_open_is_reminded_once_of_them_and_not_of_those_that_check() -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply(STEPS, call()))
    run = state_machine.on_tool_finished(run, ToolResult(text="seen"), 0.1)
    run = state_machine.on_reply(run, reply("done: 1\nNow I do the second."))
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert "Steps 2, 3 of" in run.messages[-1].text
    run = state_machine.on_reply(run, reply("All is done."))
    assert isinstance(state_machine.next_action(run), state_machine.InspectionAction)


@pytest.mark.parametrize(
    ("said", "turns"), [("Done.", 50), ("done: 1, 2, 3\nDone.", 50), ("done: 1\nDone.", 2)]
)
def test_who_marks_no_step_or_all_or_has_no_turn_left_is_not_reminded(said: str, turns: int) -> None:
    run = state_machine.on_reply(
        state_machine.create_run_state(task(max_turns=turns), "base"), reply(STEPS, call())
    )
    run = state_machine.on_tool_finished(run, ToolResult(text="seen"), 0.1)
    run = state_machine.on_reply(run, reply(said))
    assert isinstance(state_machine.next_action(run), state_machine.InspectionAction)


@given(st.text('{}[]",: a1\n\\', max_size=60))
def test_arguments_that_are_no_object_are_told_with_the_place(raw: str) -> None:
    run = state_machine.on_reply(planned(), reply("", InvalidToolCall(id="c1", name="x", raw=raw)))
    told = run.messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.is_error
    assert told.text.startswith("Error (bad_arguments): the arguments were not")
    assert len(told.text) < 300


def test_conflicts_are_given_back_with_only_their_files_and_then_the_rebase_goes_on() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    run = state_machine.on_conflicts(run, CONFLICT)
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert isinstance(run.messages[-1], UserMessage)
    assert "`a.py`" in run.messages[-1].text
    run = state_machine.on_reply(run, reply("resolved"))
    assert state_machine.next_action(run) == state_machine.ContinueRebaseAction(CONFLICT)
    run = state_machine.on_rebase(run, commit="c2", onto="theirs")
    assert (state_machine.next_action(run), run.commit, run.base) == (
        state_machine.InspectionAction("true"),
        "c2",
        "theirs",
    )
    run = state_machine.on_commit(state_machine.on_inspection(run, diff="+y", findings=()), "c2")
    assert (state_machine.next_action(run), run.diff) == (state_machine.PushAction(), "+y")


def test_what_lost_every_race_may_be_resumed() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    for _ in range(state_machine.MAX_PUSHES + 1):
        run = state_machine.on_rebase(run, commit="c2", onto="theirs")
    run = state_machine.resume_run(
        state_machine.finish_run(run, state_machine.FinishAction("conflict")), run.task
    )
    assert state_machine.next_action(run) == state_machine.InspectionAction("true")


def test_what_is_committed_already_is_no_step_again() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    assert state_machine.on_commit(run, "c1").steps == run.steps
    assert len(state_machine.on_commit(run, "c2").steps) == len(run.steps) + 1


def test_a_model_that_refused_is_told_so_when_the_run_goes_on() -> None:
    run = state_machine.resume_run(state_machine.on_reply(worked(), reply("", finish="refused")), task())
    assert isinstance(run.messages[-1], UserMessage)


def test_conflicts_that_never_end_stop_the_run_with_the_work_kept() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    for _ in range(state_machine.MAX_RESOLUTIONS):
        run = state_machine.on_reply(state_machine.on_conflicts(run, CONFLICT), reply("resolved"))
    assert state_machine.next_action(state_machine.on_conflicts(run, CONFLICT)) == state_machine.FinishAction(
        "conflict"
    )


def test_a_race_that_is_lost_every_time_ends() -> None:
    run = state_machine.on_commit(
        state_machine.on_inspection(state_machine.on_reply(worked(), reply("done")), diff="+x", findings=()),
        "c1",
    )
    for _ in range(state_machine.MAX_PUSHES + 1):
        run = state_machine.on_rebase(run, commit="c2", onto="theirs")
    assert state_machine.next_action(run) == state_machine.FinishAction("conflict")


def test_the_limit_of_turns_stops_a_run_which_goes_on_under_a_higher_one() -> None:
    run = replace(worked(), task=task(max_turns=2))
    assert state_machine.next_action(run) == state_machine.FinishAction("limit")
    assert (
        state_machine.next_action(replace(run, task=task(max_turns=3))) == state_machine.ModelRequestAction()
    )


def test_a_call_cut_short_by_a_crash_is_told_to_the_model_and_not_repeated() -> None:
    run = state_machine.on_tool_started(state_machine.on_reply(planned(), reply("", call())))
    run = state_machine.on_tool_interrupted(run)
    assert state_machine.next_action(run) == state_machine.ModelRequestAction()
    assert run.steps[-1].code == "interrupted"


def test_a_result_too_long_for_the_model_keeps_its_head_and_tail() -> None:
    run = state_machine.on_reply(planned(), reply("", call()))
    run = state_machine.on_tool_finished(run, ToolResult(text="a" * state_machine.RESULT_LIMIT + "z"), 0.1)
    told = run.messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.text.startswith("aaa")
    assert told.text.endswith("z")
    assert len(told.text) < state_machine.RESULT_LIMIT + 100


moves = st.lists(
    st.sampled_from(
        ["plan", "talk", "call", "calls", "broken", "cut", "fail", "clean", "dirty", "conflict", "push"]
    ),
    max_size=30,
)


@given(course=moves)
def test_in_any_course_each_request_begins_with_all_that_the_one_before_had(course: list[str]) -> None:
    run = state_machine.create_run_state(task(), "base")
    before: tuple[Message, ...] = ()
    for move in course:
        if state_machine.next_action(run) == state_machine.ModelRequestAction():
            shown = get_visible_messages(run)
            assert shown[: len(before)] == before
            before = shown
        run = moved(run, move)


def test_a_plan_may_come_with_the_first_calls() -> None:
    run = state_machine.on_reply(state_machine.create_run_state(task(), "base"), reply(PLAN, call()))
    assert (run.phase, run.plan and run.plan.steps) == ("act", ("s",))
    assert [step.kind for step in run.steps] == ["plan"]
    assert state_machine.next_action(run) == state_machine.ToolCallAction(call())
    run = state_machine.on_tool_finished(run, ToolResult(text="seen"), 0.1)
    assert isinstance(run.messages[-1], ToolMessage)


@given(course=moves)
def test_in_any_course_every_call_is_answered_before_the_model_is_asked_again(course: list[str]) -> None:
    run = state_machine.create_run_state(task(), "base")
    for move in course:
        run = moved(run, move)
        if state_machine.next_action(run) == state_machine.ModelRequestAction():
            check_wire_order(run)


@given(course=moves)
def test_a_run_stored_and_loaded_in_any_state_is_the_same(
    course: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    record = RunFolder(tmp_path_factory.mktemp("run"))
    run = state_machine.create_run_state(task(), "base")
    for move in course:
        run = moved(run, move)
    record.save(run)
    assert record.load() == run
    assert state_machine.next_action(record.load()) == state_machine.next_action(run)


def moved(run: RunState, move: str) -> RunState:
    replies = {
        "plan": reply(PLAN),
        "calls": reply("", call(1), call(2)),
        "call": reply("", call()),
        "broken": reply("", InvalidToolCall(id="c1", name="x", raw="{")),
        "cut": reply("", call(), finish="length"),
    }
    match state_machine.next_action(run):
        case state_machine.ModelRequestAction():
            return state_machine.on_reply(run, replies.get(move, reply("text")))
        case state_machine.ToolCallAction():
            return state_machine.on_tool_finished(run, ToolResult(text="r", is_error=move == "fail"), 0.0)
        case state_machine.InspectionAction():
            findings = ("bad",) if move == "dirty" else ()
            checked = None if move == "cut" else RunStep(kind="check", text="true", ok=True)
            diff = "" if move == "fail" else "+x"
            return state_machine.on_inspection(run, diff=diff, findings=findings, checked=checked)
        case state_machine.CleanCheckAction(check):
            ok, code = move not in {"fail", "conflict"}, "no_sandbox" if move == "conflict" else ""
            step = RunStep(kind="check", text=check, ok=ok, code=code, commit=run.commit)
            return state_machine.on_clean_check(run, step, "" if ok else "bad")
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


def check_wire_order(run: RunState) -> None:
    """After a reply with calls come exactly its results; providers refuse anything else."""
    open_calls: list[str] = []
    for message in run.messages:
        match message:
            case ToolMessage(call_id=call_id):
                assert call_id == open_calls.pop(0)
            case _:
                assert open_calls == []
                open_calls = [asked.id for asked in message.calls] if isinstance(message, Reply) else []
    assert open_calls == []


def test_a_record_of_something_else_is_named_unreadable(tmp_path: Path) -> None:
    record = RunFolder(tmp_path)
    record.file.write_text("{}", encoding="utf-8")
    with pytest.raises(RunStoreError) as caught:
        record.load()
    assert caught.value.code == "run_unreadable"


def test_a_branch_that_changes_again_and_again_ends_the_run() -> None:
    run = replace(worked(), phase="push")
    for _ in range(state_machine.MAX_UNASKED):
        run = replace(state_machine.on_branch_changed(run), phase="push")
    with pytest.raises(ExternalError) as raised:
        state_machine.on_branch_changed(run)
    assert raised.value.code == "branch_changed"
    assert state_machine.on_reply(replace(run, phase="act"), reply("Done.")).unasked == 0
    assert state_machine.resume_run(run, run.task).unasked == 0


def test_a_run_that_is_inspected_anew_looks_at_its_limits() -> None:
    run = replace(worked(), phase="push", spent=RunUsage(seconds=11))
    run = replace(run, task=task(budget=UsageLimits(seconds=10)))
    assert state_machine.next_action(state_machine.on_branch_changed(run)) == state_machine.FinishAction(
        "budget"
    )
    assert state_machine.next_action(replace(run, phase="inspect")) == state_machine.InspectionAction("true")


CHECK_PASSED = RunStep(kind="check", text="true", commit="c1")
OTHER_PASSED = RunStep(kind="check", text="a")
CHECK_FAILED = replace(CHECK_PASSED, ok=False, exit_code=1)


def checked_by(*checks: RunStep) -> RunState:
    return replace(state_machine.create_run_state(task(), "base"), commit="c1", steps=checks)


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ([CHECK_PASSED], ""),
        ([CHECK_FAILED, CHECK_PASSED], "check_flaky"),
        ([CHECK_FAILED, CHECK_FAILED, CHECK_PASSED], "check_flaky"),
        ([CHECK_PASSED, CHECK_FAILED, CHECK_PASSED], "check_flaky"),
        ([replace(CHECK_FAILED, commit="c0"), CHECK_PASSED], ""),  # the commit after it mends that
        ([replace(CHECK_FAILED, commit=""), CHECK_PASSED], ""),
        ([replace(CHECK_FAILED, code="sandbox_missing"), CHECK_PASSED], ""),
        ([replace(CHECK_FAILED, text="make test", commit=""), CHECK_PASSED], "check_changed"),
        ([replace(CHECK_FAILED, text="a", commit=""), replace(CHECK_PASSED, text="a"), CHECK_PASSED], ""),
        ([replace(CHECK_FAILED, text="a", commit=""), OTHER_PASSED, CHECK_PASSED], ""),
        ([replace(CHECK_FAILED, text="a", commit="c0"), OTHER_PASSED, CHECK_PASSED], "check_changed"),
        ([replace(CHECK_FAILED, text="a", code="command_not_found"), CHECK_PASSED], "check_changed"),
        ([replace(CHECK_FAILED, text="a", code="denied"), CHECK_PASSED], ""),  # a person wanted another
    ],
)
def test_a_check_that_had_failed_leaves_a_doubt(checks: list[RunStep], code: str) -> None:
    run = checked_by(*checks)
    assert get_check_result(run) is (None if code else True)
    doubt = find_unverified_reason(run)
    assert (f"({code})" in doubt) if code else not doubt


def test_a_flaky_check_is_told_with_how_often_it_failed() -> None:
    doubt = find_unverified_reason(checked_by(CHECK_FAILED, CHECK_FAILED, CHECK_PASSED))
    assert "2 of 3" in doubt


def test_a_check_of_another_round_leaves_no_doubt() -> None:
    run = checked_by(replace(CHECK_FAILED, text="make test"), CHECK_PASSED)
    begun = RunRound(text="more", time="", turns=0, spent=RunUsage(), first_step=1)
    assert get_check_result(replace(run, rounds=(begun,))) is True


@pytest.mark.parametrize("status", ["no_changes", "limit", "stuck", "refused"])
def test_what_a_command_left_on_the_branch_is_the_runs(status: RunStatus) -> None:
    run = state_machine.finish_run(worked(), state_machine.FinishAction(status))
    run = state_machine.on_left_push(run, "c1", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n+x\n")
    assert (run.commit, run.pushed, run.status) == ("c1", True, "done" if status == "no_changes" else status)
    assert "+x" in run.diff
    assert get_check_result(run) is None
    assert bool(find_unverified_reason(run)) is (status == "no_changes")


def test_while_it_lasts_a_run_tells_what_a_command_pushed() -> None:
    run = state_machine.on_model_push(replace(worked(), commit="c1"), "c2")
    assert get_branch_head(run) == ("c2", True)
    assert get_branch_head(state_machine.on_push(run)) == ("c1", True)
