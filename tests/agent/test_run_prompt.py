"""What the model is told first: the parts that fit, in their order, and the same bytes over a whole run."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run.prompt import PromptInputs, build_prompt_parts, update_system_prompt
from kakite.agent.run.state import RunState, Task
from kakite.agent.run.state_machine import create_run_state
from kakite.models.messages import UserMessage

NAMES = st.lists(st.sampled_from(["docs", "tickets", "search"]), unique=True, max_size=2).map(tuple)
EQUIPMENT = st.builds(
    PromptInputs,
    project=st.just("/workspace/project"),
    network=st.sampled_from(["off", "registries", "open"]),
    editor=st.sampled_from(["own", "other", "none"]),
    editor_name=st.just("second"),
    editor_tools=st.just(("read_file", "write_file")),
    servers=NAMES,
)


def a_run() -> RunState:
    task = Task(
        id="1", text="t", repository="/r", branch="b", model="m", sandbox="local", approve="all", max_turns=9
    )
    return create_run_state(task, "0" * 40)


def told(run: RunState) -> str:
    last = run.messages[-1]
    assert isinstance(last, UserMessage)
    return last.text


@given(st.lists(EQUIPMENT, min_size=1, max_size=6))
def test_what_is_told_first_stays_the_same_bytes_and_messages_only_grow(
    steps: list[PromptInputs],
) -> None:
    run = update_system_prompt(a_run(), build_prompt_parts(steps[0]))
    first, before = run.system, run.messages
    for step in steps:
        run = update_system_prompt(run, build_prompt_parts(step))
        assert run.system == first
        assert run.messages[: len(before)] == before
        before = run.messages


@given(EQUIPMENT)
def test_the_same_circumstances_give_the_same_bytes_and_no_news(equipment: PromptInputs) -> None:
    run = update_system_prompt(a_run(), build_prompt_parts(equipment))
    assert update_system_prompt(a_run(), build_prompt_parts(replace(equipment))).system == run.system
    assert update_system_prompt(run, build_prompt_parts(equipment)) == run


@given(EQUIPMENT)
def test_the_editor_stands_after_the_commands_and_before_the_rules(equipment: PromptInputs) -> None:
    system = update_system_prompt(a_run(), build_prompt_parts(equipment)).system
    editor = "# Files" if equipment.editor == "none" else "# The editor"
    heads = ["# Commands", editor, "# Git", "# Rules"]
    assert [line for line in system.splitlines() if line in heads] == heads


@given(EQUIPMENT)
def test_each_part_is_told_only_where_it_holds(equipment: PromptInputs) -> None:
    system = update_system_prompt(a_run(), build_prompt_parts(equipment)).system
    assert ("`text_editor`" in system) == (equipment.editor == "own")
    assert ("`write_file`" in system) == (equipment.editor == "other")
    assert ("without the network" in system) == (equipment.network == "off")
    assert ("# Further tools" in system) == bool(equipment.servers)
    assert "{" not in system.replace('{"command"', "")


def test_a_lost_editor_is_told_as_a_message_once_and_its_return_too() -> None:
    whole = PromptInputs(project="/p", servers=("docs",))
    lost = PromptInputs(project="/p", editor="none")
    run = update_system_prompt(a_run(), build_prompt_parts(whole))
    run = update_system_prompt(run, build_prompt_parts(lost))
    assert "no tool to edit files" in told(run)
    assert "not there any more" in told(run)
    assert update_system_prompt(run, build_prompt_parts(lost)) == run
    again = update_system_prompt(run, build_prompt_parts(whole))
    assert "old_str" in told(again)
    assert again.system == run.system
