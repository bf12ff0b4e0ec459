"""What the model is shown: it fits, keeps its beginning, and never parts a call from its result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run import compaction, state_machine
from kakite.agent.run.compaction import Compactor, RequestOverhead, get_run_window, on_context_overflow
from kakite.agent.run.state import Conflict, RunState
from kakite.models.catalog import DEFAULT_CONTEXT_WINDOW, find_context_window
from kakite.models.messages import Reply, ToolMessage, Usage, UserMessage
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite.models.tokens import count_tokens
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.test_state_machine import PLAN, check_wire_order, planned, reply, task

pytestmark = pytest.mark.anyio

NOTHING = RequestOverhead(instructions="", tools=())
RESULTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3000)), max_size=25)
"""Of each turn: the file, how many calls, and how long each result is."""


def view(run: RunState, path: str, number: int) -> ToolCall:
    return ToolCall(
        id=f"c{number}",
        name="text_editor",
        arguments={"command": "view", "path": path, "n": run.usage.requests},
    )


def turn(run: RunState, path: str, calls: int, length: int) -> RunState:
    run = state_machine.on_reply(run, reply("I look.", *(view(run, path, number) for number in range(calls))))
    for number in range(calls):
        run = state_machine.on_tool_finished(
            run, ToolResult(text=f"{run.usage.requests}.{number} " + "x " * length), 0.0
        )
    return run


def talked(turns: Sequence[tuple[int, int, int]], start: RunState | None = None) -> RunState:
    run = start or planned()
    for path, calls, length in turns:
        if state_machine.next_action(run) == state_machine.ModelRequestAction():
            run = turn(run, f"f{path}", calls, length)
    return run


def is_whole(run: RunState) -> None:
    check_wire_order(replace(run, messages=compaction.get_visible_messages(run)))


@given(RESULTS, RESULTS, st.integers(200, 9000))
def test_what_is_shown_fits_a_course_of_calls_and_only_grows_until_it_is_condensed_again(
    first: list[tuple[int, int, int]], more: list[tuple[int, int, int]], room: int
) -> None:
    run = talked(first)
    lighter = compaction.elide_tool_results(run, len, room)
    upto = compaction.find_split_point(lighter, len, room)
    for smaller in (
        lighter,
        compaction.apply_summary(lighter, upto, "S"),
        compaction.truncate_results(lighter),
    ):
        assert smaller.messages == run.messages
        start = compaction.get_visible_messages(smaller)[0]
        assert isinstance(start, UserMessage)
        assert start.text.startswith("# Task\n\ndo it")
        is_whole(smaller)
        assert (
            compaction.count_request_tokens(smaller, len)
            <= compaction.count_request_tokens(run, len) + len("S") + 10
        )
        grown = talked(more, smaller)
        assert compaction.get_visible_messages(grown)[
            : len(compaction.get_visible_messages(smaller))
        ] == compaction.get_visible_messages(smaller)
        is_whole(grown)
        again = compaction.elide_tool_results(grown, len, room)
        is_whole(compaction.apply_summary(again, compaction.find_split_point(again, len, room), "T"))


@given(RESULTS)
def test_a_summary_stands_for_all_but_the_task_and_the_latest_turns(
    turns: list[tuple[int, int, int]],
) -> None:
    run = talked(turns)
    upto = compaction.find_split_point(run, len, 10_000)
    shown = compaction.get_visible_messages(compaction.apply_summary(run, upto, "What was done."))
    assert shown[1] == UserMessage(text="What was done.")
    assert shown[2:] == run.messages[upto:]
    assert (
        sum(compaction.count_message_tokens(message, len) for message in shown[2:])
        <= 10_000 * compaction.TAIL_SHARE
    )


def test_a_look_at_a_file_is_left_out_once_there_is_a_newer_one() -> None:
    run = talked([(1, 1, 900), (2, 1, 900), (1, 1, 900)])
    texts = [
        m.text
        for m in compaction.get_visible_messages(compaction.elide_tool_results(run, len, 10**9))
        if isinstance(m, ToolMessage)
    ]
    assert "left out" in texts[0]
    assert "view f1" in texts[0]
    assert not any("left out" in text for text in texts[1:])


@pytest.mark.parametrize(
    ("before", "after", "replaced"),
    [
        ({"view_range": [1, 9]}, {}, True),
        ({"view_range": [1, 9]}, {"view_range": [1, 9]}, True),
        ({"view_range": [1, 9]}, {"view_range": [2, 9]}, False),
        ({}, {"view_range": [1, 9]}, False),
        ({}, {"command": "create"}, True),
        ({}, {"command": "str_replace"}, False),
    ],
)
def test_only_what_shows_all_of_a_look_replaces_it(
    before: dict[str, Any], after: dict[str, Any], *, replaced: bool
) -> None:
    run = planned()
    for number, more in enumerate((before, after)):
        arguments = {"command": "view", "path": "f", **more}
        run = state_machine.on_reply(
            run, reply("", ToolCall(id=f"c{number}", name="text_editor", arguments=arguments))
        )
        run = state_machine.on_tool_finished(run, ToolResult(text="x " * 900), 0.0)
    shown = compaction.get_visible_messages(compaction.elide_tool_results(run, len, 10**9))
    assert (shown != run.messages) == replaced


def test_how_full_a_window_may_be() -> None:
    assert (compaction.COMPACTION_THRESHOLD, compaction.COMPACTION_TARGET) == (0.7, 0.4)


def test_a_look_that_failed_leaves_the_one_before_where_it_is() -> None:
    run = talked([(1, 1, 900)])
    run = state_machine.on_reply(run, reply("", view(run, "f1", 0)))
    run = state_machine.on_tool_finished(run, ToolResult(text="Error " * 200, is_error=True, code="x"), 0.0)
    assert compaction.get_visible_messages(compaction.elide_tool_results(run, len, 10**9)) == run.messages


def test_what_the_provider_counted_before_less_was_shown_counts_no_more() -> None:
    run = talked([(1, 1, 900), (2, 1, 900), (1, 1, 900), (3, 1, 900)])
    *before, last, answer = run.messages
    assert isinstance(last, Reply)
    usage = Usage(requests=1, input_tokens=compaction.count_request_tokens(run, len))
    run = replace(run, messages=(*before, replace(last, usage=usage), answer))
    lighter = compaction.elide_tool_results(run, len, 10**9)
    assert compaction.count_request_tokens(lighter, len) < compaction.count_request_tokens(run, len) - 1000


def test_results_that_the_model_has_not_seen_yet_are_never_left_out() -> None:
    calls = [view(planned(), f"f{number}", number) for number in range(4)]
    run = state_machine.on_reply(planned(), reply("", *calls))
    for _ in calls:
        run = state_machine.on_tool_finished(run, ToolResult(text="x " * 1500), 0.0)
    shown = compaction.get_visible_messages(compaction.elide_tool_results(run, len, 100))
    assert shown == run.messages


def test_what_the_provider_counted_is_believed_unless_it_cannot_be() -> None:
    run = talked([(1, 1, 500)])
    counted = compaction.count_request_tokens(run, len)

    def said(tokens: int) -> RunState:
        *before, last, answer = run.messages
        assert isinstance(last, Reply)
        usage = Usage(requests=1, input_tokens=tokens)
        return replace(run, messages=(*before, replace(last, usage=usage), answer))

    answer = compaction.count_message_tokens(run.messages[-1], len)
    assert compaction.count_request_tokens(said(counted), len) == counted + answer
    assert compaction.count_request_tokens(said(3), len) in {counted, 3 + answer}
    assert compaction.count_request_tokens(said(1), len) >= counted * 0.6


def memory(*says: str) -> tuple[Compactor, ScriptedModel]:
    turns: list[dict[str, Any]] = [{"say": text, "usage": {"input": 7, "output": 3}} for text in says]
    model = ScriptedModel(Scenario.parse(json.dumps({"title": "t", "turns": turns})))
    return Compactor(model), model


def long(tokens: int = 8000, turns: int = 40) -> RunState:
    run = replace(planned(), task=task(context_tokens=tokens))
    return talked([(number, 1, 150) for number in range(turns)], run)


async def test_a_conversation_that_is_too_long_is_summarised_with_task_plan_and_files_kept() -> None:
    full, (mind, model) = long(), memory("I found that x is broken.")
    assert mind.should_compact(full, NOTHING)
    run = await mind.compact(full, NOTHING, ("src/x.py",))
    assert mind.count_request_tokens(run, NOTHING) <= 8000 * compaction.COMPACTION_TARGET
    assert not mind.should_compact(run, NOTHING)
    told = compaction.get_visible_messages(run)[1]
    assert isinstance(told, UserMessage)
    for text in ("I found that x is broken.", "src/x.py", "1. [ ] s"):
        assert text in told.text
    assert (run.spent.tokens - full.spent.tokens, model.playback.turns_left) == (10, 0)
    assert run.messages == full.messages
    [mark] = run.steps[len(full.steps) :]
    assert (mark.kind, mark.text.endswith("; a summary stands for the earlier ones")) == ("context", True)
    now, before = mind.count_request_tokens(run, NOTHING), mind.count_request_tokens(full, NOTHING)
    assert f"about {now:,} tokens instead of {before:,}" in mark.text


PHASES = {
    "act": "done: 1, 2",
    "reflect": "takes another way",
    "resolve": "- `f`: both changed",
}
"""What the model is to do then, in words of that prompt."""


@pytest.mark.parametrize("phase", PHASES)
async def test_after_a_summary_the_prompt_of_the_present_phase_stands_and_not_that_of_planning(
    phase: str,
) -> None:
    full = long()
    if phase == "reflect":
        full = replace(full, reflecting=True)
    elif phase == "resolve":
        full = state_machine.on_conflicts(planned(), (Conflict(path="f", kind="other"),))
        full = talked(
            [(number, 1, 150) for number in range(40)], replace(full, task=task(context_tokens=8000))
        )
    run = await memory("I found that x is broken.")[0].compact(full, NOTHING, ())
    first, told, *_ = compaction.get_visible_messages(run)
    assert first == UserMessage(text="# Task\n\ndo it")
    assert isinstance(told, UserMessage)
    assert [name for name, words in PHASES.items() if words in told.text] == [phase]
    is_whole(run)


async def test_a_summary_before_there_is_a_plan_leaves_what_asks_for_one() -> None:
    run = state_machine.create_run_state(task(context_tokens=8000), "base")
    run = talked([(number, 1, 150) for number in range(40)], run)
    assert run.plan is None
    run = await memory("I looked.")[0].compact(run, NOTHING, ())
    assert run.condensed
    assert run.condensed.summary
    shown = compaction.get_visible_messages(run)
    assert shown[0] == run.messages[0]
    after = state_machine.on_reply(run, reply(PLAN, view(run, "f", 1)))
    assert after.plan
    assert compaction.get_visible_messages(after)[: len(shown)] == shown


async def test_a_phase_that_is_still_told_in_the_latest_turns_is_not_told_twice() -> None:
    full = state_machine.on_conflicts(long(), (Conflict(path="f", kind="other"),))
    run = await memory("I found that x is broken.")[0].compact(full, NOTHING, ())
    texts = [m.text for m in compaction.get_visible_messages(run)]
    assert sum(PHASES["resolve"] in text for text in texts) == 1
    assert PHASES["resolve"] in texts[-1]


async def test_old_results_go_first_and_the_model_is_not_asked_where_that_is_enough() -> None:
    run = replace(planned(), task=task(context_tokens=8000))
    run = talked([(number, 1, 1500) for number in range(5)], run)
    mind, model = memory("unused")
    assert mind.should_compact(run, NOTHING)
    after = await mind.compact(run, NOTHING, ())
    assert mind.count_request_tokens(after, NOTHING) <= 8000 * compaction.COMPACTION_TARGET
    assert model.playback.turns_left == 1
    assert isinstance(after.messages[-1], ToolMessage)
    assert compaction.get_visible_messages(after)[-1] == after.messages[-1]


@pytest.mark.parametrize("summary", ["word " * 30_000, "   \n"])
async def test_a_summary_that_does_not_shrink_it_gives_way_to_a_list_of_what_was_done(summary: str) -> None:
    run = await memory(summary)[0].compact(long(2000), NOTHING, ())
    told = compaction.get_visible_messages(run)[1]
    assert isinstance(told, UserMessage)
    assert "text_editor: view f2" in told.text


async def test_a_single_turn_that_is_too_large_is_cut_and_not_condensed_over_and_over() -> None:
    run = replace(planned(), task=task(context_tokens=8000))
    run = turn(run, "f", 1, 20_000)
    mind, _ = memory("S", "S")
    run = await mind.compact(run, NOTHING, ())
    assert mind.count_request_tokens(run, NOTHING) < 8000
    assert not mind.should_compact(run, NOTHING)
    is_whole(run)


def test_what_a_model_said_is_too_much_counts_until_another_model_goes_on() -> None:
    run = on_context_overflow(replace(planned(), task=task(context_tokens=50_000)), 20_000)
    assert get_run_window(run) == 18_000
    assert get_run_window(state_machine.resume_run(run, run.task)) == 18_000
    assert get_run_window(state_machine.resume_run(run, replace(run.task, model="n:n"))) == 50_000


def test_windows_are_known_guessed_or_said() -> None:
    assert find_context_window("anthropic:claude-sonnet-4-5") == 200_000
    assert find_context_window("openai:gpt-5", own_server=True) == DEFAULT_CONTEXT_WINDOW
    assert (
        find_context_window("openai:no-such-model")
        == find_context_window("scripted")
        == DEFAULT_CONTEXT_WINDOW
    )
    assert get_run_window(replace(planned(), task=task(context_tokens=4000))) == 4000


def test_japanese_and_chinese_are_counted_by_a_real_vocabulary() -> None:
    assert count_tokens("hello world") == 2
    japanese, chinese = "吾輩は猫である。名前はまだ無い。", "我能吞下玻璃而不伤身体。"
    assert len(japanese) * 0.5 < count_tokens(japanese) < len(japanese) * 1.2
    assert len(chinese) * 0.5 < count_tokens(chinese) < len(chinese) * 1.5
    assert count_tokens("a\ud800b") > 0
