"""Laws of going back in a session's conversation, and of taking that back."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.observe.event_log import build_event_log
from kakite.agent.observe.events import RunStepEvent, ToolResultEvent
from kakite.agent.run import state_machine
from kakite.agent.run.rewind import (
    begin_rewind,
    can_restore_conversation,
    find_first_checkpoint,
    on_files_rewound,
    on_rewind_undone,
    rewind_conversation,
)
from kakite.agent.run.state import CompactionState, RewindPoint, RunState
from kakite.agent.run.store import decode_run, encode_delta
from kakite.models.messages import UserMessage
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.test_state_machine import reply, task

ENDINGS = st.sampled_from(["answered", "interrupted", "stuck", "condensed", "called"])
TURNS = st.lists(ENDINGS, min_size=1, max_size=6)
TIME = "2026-01-01T00:00:00+00:00"


def talk(run: RunState, number: int, ending: str = "answered") -> RunState:
    """Let the person say something, and the model answer or not."""
    point = RewindPoint(message=0, text=f"say {number}", time=TIME, checkpoint=f"c{number}")
    run = state_machine.on_prompt(run, UserMessage(text=point.text), point)
    if ending == "interrupted":
        return state_machine.on_turn_interrupted(run, "half a", by="person")
    if ending == "stuck":
        return state_machine.on_turn_stopped(run, "stuck")
    if ending == "called":
        command = ToolCall(id=f"call {number}", name="run_command", arguments={"command": f"do {number}"})
        run = state_machine.on_reply(run, reply("", command))
        run = state_machine.on_tool_finished(run, ToolResult(text=f"done {number}"), float(number))
    run = state_machine.on_reply(run, reply(f"answer {number}"))
    if ending == "condensed":
        made = CompactionState(first=0, upto=1, summary=f"s{number}", made=len(run.messages))
        return replace(run, condensed=made)
    return run


def converse(endings: list[str]) -> RunState:
    """Return a session with these turns."""
    run = state_machine.create_session_state(task())
    for number, ending in enumerate(endings):
        run = talk(run, number, ending)
    return run


@given(endings=TURNS, data=st.data())
def test_a_rewind_taken_back_is_none(endings: list[str], data: st.DataObject) -> None:
    run = converse(endings)
    point = data.draw(st.sampled_from(run.points))
    gone = rewind_conversation(run, point.message)
    assert gone.messages == run.messages[: point.message]
    assert can_restore_conversation(gone)
    stored, _ = decode_run(encode_delta(run, None) + encode_delta(gone, run))
    assert stored == gone
    assert on_rewind_undone(stored) == replace(run, rewound=None)


@given(before=TURNS, removed=TURNS, after=TURNS)
def test_what_happened_is_told_without_what_a_rewind_took_out(
    before: list[str], removed: list[str], after: list[str]
) -> None:
    def tell(run: RunState) -> list[object]:
        return [event for event in build_event_log(run) if isinstance(event, (ToolResultEvent, RunStepEvent))]

    run = kept = converse(before)
    for number, ending in enumerate(removed, len(before)):
        run = talk(run, number, ending)
    rewound = rewind_conversation(run, run.points[len(before)].message)
    assert tell(rewound) == tell(kept)
    assert tell(on_rewind_undone(rewound)) == tell(run)
    for number, ending in enumerate(after, 100):
        rewound, kept = talk(rewound, number, ending), talk(kept, number, ending)
    assert tell(rewound) == tell(kept)


@given(endings=TURNS, data=st.data())
def test_what_a_person_says_after_a_rewind_stays(endings: list[str], data: st.DataObject) -> None:
    run = converse(endings)
    point = data.draw(st.sampled_from(run.points))
    gone = on_files_rewound(rewind_conversation(run, point.message), "before")
    onward = talk(gone, 100)
    assert not can_restore_conversation(onward)
    assert onward.rewound is not None
    assert onward.rewound.checkpoint == "before"
    assert on_rewind_undone(onward, "after").messages == onward.messages


@given(endings=TURNS, data=st.data())
def test_the_first_checkpoint_is_the_first_whatever_is_rewound(
    endings: list[str], data: st.DataObject
) -> None:
    run = converse(endings)
    for number in range(data.draw(st.integers(0, 3))):
        if run.points:
            run = rewind_conversation(run, data.draw(st.sampled_from(run.points)).message)
        run = talk(run, 10 + number) if data.draw(st.booleans()) else run
    assert find_first_checkpoint(run) == "c0"


@given(endings=TURNS, data=st.data())
def test_a_session_that_was_stored_before_has_the_first_checkpoint_of_its_points(
    endings: list[str], data: st.DataObject
) -> None:
    run = replace(converse(endings), first_checkpoint="")
    assert find_first_checkpoint(run) == "c0"
    point = data.draw(st.sampled_from(run.points))
    assert find_first_checkpoint(rewind_conversation(run, point.message)) == "c0"


@given(endings=TURNS)
def test_what_the_model_is_to_be_told_since_the_rewind_is_told_after_it_is_taken_back(
    endings: list[str],
) -> None:
    run = converse(endings)
    gone = replace(rewind_conversation(run, run.points[0].message), notes=("plan mode",))
    assert on_rewind_undone(gone).notes == (*run.notes, "plan mode")


@given(endings=TURNS, talks=st.booleans(), first=st.sampled_from("bfc"), second=st.sampled_from("bfc"))
def test_of_two_rewinds_the_last_one_is_taken_back_whole_and_no_half_of_another(
    endings: list[str], talks: bool, first: str, second: str
) -> None:
    def go(run: RunState, what: str, checkpoint: str) -> RunState:
        run = begin_rewind(run, files=what in "bf", conversation=what in "bc")
        run = on_files_rewound(run, checkpoint) if what in "bf" else run
        return rewind_conversation(run, run.points[-1].message) if what in "bc" else run

    gone = go(converse([*endings, "answered", "answered"]), first, "first")
    before = talk(gone, 100) if talks else gone
    rewound = go(before, second, "second").rewound
    assert rewound is not None
    # Only where nothing was said between, both halves may be of different rewinds.
    one = not talks and {first, second} == {"f", "c"}
    assert rewound.checkpoint == ("second" if second in "bf" else "first" if one else "")
    assert (rewound.conversation is not None) == (second in "bc" or one)
    assert not rewound.is_closed


@given(endings=TURNS)
def test_a_further_rewind_after_one_was_taken_back_does_not_bring_that_one_again(endings: list[str]) -> None:
    run = converse(endings)
    gone = on_files_rewound(rewind_conversation(run, run.points[-1].message), "before")
    back = on_rewind_undone(gone, "after")
    assert back.rewound is not None
    assert back.rewound.checkpoint == "after"
    again = rewind_conversation(begin_rewind(back, files=False, conversation=True), run.points[-1].message)
    assert again.rewound is not None
    assert again.rewound.checkpoint == ""
