"""Whose move it is: the pure loop, without a model, a tool or a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent import flow, plans
from kakite.agent.record import Record, RecordError
from kakite.agent.run import Conflict, Plan, Run, Task
from kakite.models.messages import BrokenCall, Reply, ToolMessage, Usage, UserMessage
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


def reply(text: str = "", *calls: ToolCall | BrokenCall, finish: str = "stop") -> Reply:
    return Reply(text=text, calls=calls, usage=Usage(requests=1), finish=finish)  # pyright: ignore[reportArgumentType]


def planned() -> Run:
    return flow.replied(flow.begin(task(), "base"), reply(PLAN))


def worked() -> Run:
    run = flow.replied(planned(), reply("", call()))
    return flow.tool_finished(run, ToolResult(text="seen"), 0.1)


@given(st.integers(0, 3), st.booleans())
def test_in_another_sandbox_every_call_is_answered_before_anything_is_told(count: int, began: bool) -> None:
    run = flow.placed(planned(), "container", "/workspace/project")
    run = replace(flow.replied(run, reply("", *(call(number) for number in range(count)))), environment={})
    run = replace(run, phase="act", started=began and count > 0)
    assert flow.placed(run, "container", "/workspace/project") == run
    moved = flow.placed(run, "local", "/here")
    assert (moved.sandbox, moved.pending, moved.started, moved.environment) == ("local", (), False, None)
    *answers, told = moved.messages[len(run.messages) :]
    assert [answer.call_id for answer in answers if isinstance(answer, ToolMessage)] == [
        f"c{number}" for number in range(count)
    ]
    assert isinstance(told, UserMessage)
    assert "/here" in told.text
    assert flow.due(moved) == flow.AskModel()


def test_where_a_run_begins_is_no_move() -> None:
    run = flow.placed(flow.begin(task(), "base"), "container", "/workspace/project")
    assert (run.sandbox, run.messages) == ("container", flow.begin(task(), "base").messages)


def test_a_run_begins_by_asking_for_a_plan() -> None:
    run = flow.begin(task(), "base")
    assert flow.due(run) == flow.AskModel()
    assert isinstance(run.messages[0], UserMessage)
    assert "do it" in run.messages[0].text


def test_the_first_reply_without_a_call_is_the_plan_and_work_goes_on() -> None:
    run = planned()
    assert run.plan is not None
    assert (run.plan.title, run.plan.check, run.phase) == ("Do it", "true", "act")
    assert flow.due(run) == flow.AskModel()


def test_a_plan_in_plain_words_is_taken_as_it_is() -> None:
    run = flow.replied(flow.begin(task(), "base"), reply("I shall look first."))
    assert run.plan is not None
    assert run.plan.goal == "I shall look first."


def test_a_plan_may_come_after_looking_around() -> None:
    run = flow.replied(flow.begin(task(), "base"), reply("", call()))
    run = flow.tool_finished(run, ToolResult(text="seen"), 0.1)
    run = flow.replied(run, reply(f"```json\n{PLAN}\n```"))
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
    run = flow.replied(flow.begin(task(), "base"), reply(PLAN, call()))
    assert run.plan is not None
    assert flow.due(run) == flow.RunTool(call())


def test_a_plan_in_plain_words_after_looking_around_does_not_end_the_work() -> None:
    run = flow.replied(flow.begin(task(), "base"), reply("", call()))
    run = flow.replied(flow.tool_finished(run, ToolResult(text="seen"), 0.1), reply("I shall change x."))
    assert (run.phase, flow.due(run)) == ("act", flow.AskModel())


def test_words_after_a_deed_end_the_work_even_without_a_plan() -> None:
    deed = ToolCall(id="c1", name="text_editor", arguments={"command": "create", "path": "x"})
    run = flow.replied(flow.begin(task(), "base"), reply("", deed))
    run = flow.replied(flow.tool_finished(run, ToolResult(text="done"), 0.1), reply("Done."))
    assert flow.due(run) == flow.Inspect("")


@pytest.mark.parametrize("looks", [("run_command", {"command": "ls"}), ("read_files", {"paths": ["x"]})])
def test_a_plan_in_plain_words_after_looking_by_another_tool_is_not_taken_for_the_end(
    looks: tuple[str, dict[str, object]],
) -> None:
    run = flow.replied(
        flow.begin(task(), "base"), reply("", ToolCall(id="c1", name=looks[0], arguments=looks[1]))
    )
    run = flow.replied(flow.tool_finished(run, ToolResult(text="x"), 0.1), reply("I shall change x."))
    run = flow.inspected(run, diff="", findings=())
    assert flow.due(run) == flow.AskModel()
    run = flow.inspected(flow.replied(run, reply("No change is needed.")), diff="", findings=())
    assert flow.due(run) == flow.Finish("no_changes")


def test_a_broken_call_before_the_plan_is_no_deed() -> None:
    run = flow.replied(flow.begin(task(), "base"), reply("", BrokenCall(id="c1", name="x", raw="{")))
    run = flow.replied(run, reply("I shall change x."))
    assert (run.phase, flow.due(run)) == ("act", flow.AskModel())


def test_a_model_that_has_only_looked_is_reminded_once_too() -> None:
    run = flow.inspected(flow.replied(worked(), reply("Now I will edit x.")), diff="", findings=())
    assert flow.due(run) == flow.AskModel()
    run = flow.inspected(flow.replied(run, reply("It is right as it is.")), diff="", findings=())
    assert flow.due(run) == flow.Finish("no_changes")


def test_what_others_did_alike_meanwhile_leaves_nothing_to_do() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    run = flow.inspected(flow.rebased(run, commit="c2", onto="c2"), diff="", findings=())
    assert flow.due(run) == flow.Finish("no_changes")


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
    assert plans.commit_message(task(text=text), Plan(goal="g", title=title), summary) == message


def test_of_a_long_diff_a_part_is_kept() -> None:
    diff = f"head{'x' * flow.DIFF_LIMIT}tail"
    kept = flow.inspected(flow.replied(worked(), reply("done")), diff=diff, findings=()).diff
    assert len(kept) < flow.DIFF_LIMIT + 100
    assert (kept[:4], kept[-4:]) == ("head", "tail")


def test_a_finding_as_long_as_a_file_is_told_short() -> None:
    run = flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=("x" * 10**6,))
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    assert len(last.text) < flow.RESULT_LIMIT + 1000


def test_a_model_that_refuses_ends_the_run_which_can_be_resumed() -> None:
    run = flow.replied(worked(), reply("", finish="refused"))
    assert flow.due(run) == flow.Finish("refused")
    assert flow.due(flow.resumed(run, task())) == flow.AskModel()


def test_a_run_that_ended_in_conflicts_can_be_resumed() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    for _ in range(flow.RESOLUTIONS + 1):
        run = flow.conflicted(run, CONFLICT)
    assert flow.due(run) == flow.Finish("conflict")
    assert flow.due(flow.resumed(run, task())) == flow.AskModel()


def test_calls_are_run_one_after_the_other_and_answered_in_order() -> None:
    run = flow.replied(planned(), reply("", call(1), call(2)))
    assert flow.due(run) == flow.RunTool(call(1))
    run = flow.tool_finished(run, ToolResult(text="one"), 0.1)
    assert flow.due(run) == flow.RunTool(call(2))
    run = flow.tool_finished(run, ToolResult(text="two", is_error=True, code="x"), 0.1)
    assert flow.due(run) == flow.AskModel()
    assert [message.text for message in run.messages[-2:] if isinstance(message, ToolMessage)] == [
        "one",
        "two",
    ]


def test_a_call_with_broken_arguments_is_answered_without_being_run() -> None:
    run = flow.replied(planned(), reply("", BrokenCall(id="c1", name="text_editor", raw="{"), call(2)))
    assert flow.due(run) == flow.RunTool(call(2))
    told = run.messages[-1]
    assert isinstance(told, ToolMessage)
    assert (told.call_id, told.is_error) == ("c1", True)


def test_a_reply_that_was_cut_off_does_not_end_the_work() -> None:
    run = flow.replied(worked(), reply("I have", finish="length"))
    assert run.phase == "act"
    assert flow.due(run) == flow.AskModel()
    assert isinstance(run.messages[-1], UserMessage)


def test_a_reply_without_a_call_ends_the_acting_and_nothing_is_pushed_before() -> None:
    run = flow.replied(worked(), reply("All done."))
    assert flow.due(run) == flow.Inspect("true")
    run = flow.inspected(run, diff="+x", findings=())
    assert flow.due(run) == flow.Commit("Do it\n\nAll done.\n")
    run = flow.committed(run, "c0ffee")
    assert flow.due(run) == flow.Push()
    run = flow.pushed(run)
    assert flow.due(run) == flow.Finish("done")
    assert run.pushed


def test_the_rounds_of_a_run_are_bounded() -> None:
    assert (flow.INSPECTIONS, flow.REPLANS, flow.FAILURES) == (2, 3, 4)
    assert (flow.RESOLUTIONS, flow.PUSHES) == (5, 5)


def test_findings_go_back_to_the_model_twice_and_then_into_the_report() -> None:
    run = worked()
    for _ in range(flow.INSPECTIONS):
        run = flow.inspected(flow.replied(run, reply("done")), diff="+x", findings=("it is broken",))
        assert flow.due(run) == flow.AskModel()
    run = flow.inspected(flow.replied(run, reply("done")), diff="+x", findings=("it is broken",))
    assert isinstance(flow.due(run), flow.Commit)
    assert run.findings == ("it is broken",)


def test_a_model_that_only_talks_is_reminded_once() -> None:
    run = flow.inspected(flow.replied(planned(), reply("I will.")), diff="", findings=())
    assert flow.due(run) == flow.AskModel()
    run = flow.inspected(flow.replied(run, reply("I will!")), diff="", findings=())
    assert flow.due(run) == flow.Finish("no_changes")


def test_conflicts_are_given_back_with_only_their_files_and_then_the_rebase_goes_on() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    run = flow.conflicted(run, CONFLICT)
    assert flow.due(run) == flow.AskModel()
    assert isinstance(run.messages[-1], UserMessage)
    assert "`a.py`" in run.messages[-1].text
    run = flow.replied(run, reply("resolved"))
    assert flow.due(run) == flow.ContinueRebase(CONFLICT)
    run = flow.rebased(run, commit="c2", onto="theirs")
    assert (flow.due(run), run.commit, run.base) == (flow.Inspect("true"), "c2", "theirs")
    run = flow.committed(flow.inspected(run, diff="+y", findings=()), "c2")
    assert (flow.due(run), run.diff) == (flow.Push(), "+y")


def test_what_lost_every_race_may_be_resumed() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    for _ in range(flow.PUSHES + 1):
        run = flow.rebased(run, commit="c2", onto="theirs")
    run = flow.resumed(flow.ended(run, flow.Finish("conflict")), run.task)
    assert flow.due(run) == flow.Inspect("true")


def test_what_is_committed_already_is_no_step_again() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    assert flow.committed(run, "c1").steps == run.steps
    assert len(flow.committed(run, "c2").steps) == len(run.steps) + 1


def test_a_model_that_refused_is_told_so_when_the_run_goes_on() -> None:
    run = flow.resumed(flow.replied(worked(), reply("", finish="refused")), task())
    assert isinstance(run.messages[-1], UserMessage)


def test_conflicts_that_never_end_stop_the_run_with_the_work_kept() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    for _ in range(flow.RESOLUTIONS):
        run = flow.replied(flow.conflicted(run, CONFLICT), reply("resolved"))
    assert flow.due(flow.conflicted(run, CONFLICT)) == flow.Finish("conflict")


def test_a_race_that_is_lost_every_time_ends() -> None:
    run = flow.committed(flow.inspected(flow.replied(worked(), reply("done")), diff="+x", findings=()), "c1")
    for _ in range(flow.PUSHES + 1):
        run = flow.rebased(run, commit="c2", onto="theirs")
    assert flow.due(run) == flow.Finish("conflict")


def test_the_limit_of_turns_stops_a_run_which_goes_on_under_a_higher_one() -> None:
    run = replace(worked(), task=task(max_turns=2))
    assert flow.due(run) == flow.Finish("limit")
    assert flow.due(replace(run, task=task(max_turns=3))) == flow.AskModel()


def test_a_call_cut_short_by_a_crash_is_told_to_the_model_and_not_repeated() -> None:
    run = flow.tool_began(flow.replied(planned(), reply("", call())))
    run = flow.tool_interrupted(run)
    assert flow.due(run) == flow.AskModel()
    assert run.steps[-1].code == "interrupted"


def test_a_result_too_long_for_the_model_keeps_its_head_and_tail() -> None:
    run = flow.replied(planned(), reply("", call()))
    run = flow.tool_finished(run, ToolResult(text="a" * flow.RESULT_LIMIT + "z"), 0.1)
    told = run.messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.text.startswith("aaa")
    assert told.text.endswith("z")
    assert len(told.text) < flow.RESULT_LIMIT + 100


moves = st.lists(
    st.sampled_from(
        ["plan", "talk", "call", "calls", "broken", "cut", "fail", "clean", "dirty", "conflict", "push"]
    ),
    max_size=30,
)


@given(course=moves)
def test_in_any_course_every_call_is_answered_before_the_model_is_asked_again(course: list[str]) -> None:
    run = flow.begin(task(), "base")
    for move in course:
        run = moved(run, move)
        if flow.due(run) == flow.AskModel():
            check_wire_order(run)


@given(course=moves)
def test_a_run_stored_and_loaded_in_any_state_is_the_same(
    course: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    record = Record(tmp_path_factory.mktemp("run"))
    run = flow.begin(task(), "base")
    for move in course:
        run = moved(run, move)
    record.save(run)
    assert record.load() == run
    assert flow.due(record.load()) == flow.due(run)


def moved(run: Run, move: str) -> Run:
    replies = {
        "plan": reply(PLAN),
        "calls": reply("", call(1), call(2)),
        "call": reply("", call()),
        "broken": reply("", BrokenCall(id="c1", name="x", raw="{")),
        "cut": reply("", call(), finish="length"),
    }
    match flow.due(run):
        case flow.AskModel():
            return flow.replied(run, replies.get(move, reply("text")))
        case flow.RunTool():
            return flow.tool_finished(run, ToolResult(text="r", is_error=move == "fail"), 0.0)
        case flow.Inspect():
            findings = ("bad",) if move == "dirty" else ()
            return flow.inspected(run, diff="" if move == "fail" else "+x", findings=findings)
        case flow.Commit():
            return flow.committed(run, "c")
        case flow.Push():
            return flow.conflicted(run, CONFLICT) if move == "conflict" else flow.pushed(run)
        case flow.ContinueRebase():
            return flow.rebased(run, commit="d", onto="t")
        case flow.Finish():
            return run


def check_wire_order(run: Run) -> None:
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
    record = Record(tmp_path)
    record.file.write_text("{}", encoding="utf-8")
    with pytest.raises(RecordError) as caught:
        record.load()
    assert caught.value.code == "run_unreadable"
