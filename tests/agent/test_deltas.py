"""Runs in files that only grow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run import state_machine
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder, RunStoreError, decode_run, encode_delta
from kakite.models.messages import InvalidToolCall
from kakite.tools.toolset import ToolCall
from tests.agent.test_state_machine import call, moved, moves, reply, task


def stages(course: list[str]) -> list[RunState]:
    runs = [state_machine.create_run_state(task(), "base")]
    for move in course:
        runs.append(moved(runs[-1], move))
    return runs


@given(course=moves)
def test_lines_are_at_every_point_the_run_that_was_stored(course: list[str]) -> None:
    data, before = b"", None
    for run in stages(course):
        data += encode_delta(run, before)
        assert decode_run(data) == (run, len(data))
        before = run


@given(course=moves, data=st.data())
def test_what_was_cut_off_leaves_the_run_before(course: list[str], data: st.DataObject) -> None:
    *earlier, last = stages(["plan", *course])
    kept, before = b"", None
    for run in earlier:
        kept += encode_delta(run, before)
        before = run
    line = encode_delta(last, before)
    cut = data.draw(st.integers(0, len(line) - 1))
    assert decode_run(kept + line[:cut]) == (before, len(kept))


@given(st.lists(moves, min_size=2, max_size=2))
def test_any_run_may_follow_any_other(courses: list[list[str]]) -> None:
    first, second = (stages(course)[-1] for course in courses)
    assert decode_run(encode_delta(first, None) + encode_delta(second, first))[0] == second


@given(course=moves)
def test_a_record_goes_on_after_a_crash_in_the_middle_of_a_write(
    course: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    for run in stages(course):
        record = RunFolder(folder)  # another process, each time
        if record.file.exists():
            record.load()
            with record.file.open("ab") as stream:
                stream.write(b'{"phase": "pu')
        record.save(run)
        record.save(run)
        assert RunFolder(folder).load() == run


def test_a_step_of_a_long_run_adds_no_more_than_one_of_a_short_run(tmp_path: Path) -> None:
    record = RunFolder(tmp_path)
    run = moved(state_machine.create_run_state(replace(task(), max_turns=1000), "base"), "plan")
    sizes: list[int] = []
    for _ in range(100):
        for move in ("call", "clean"):
            run = replace(moved(run, move), marks=())  # the same call again and again is meant here
            record.save(run)
        sizes.append(record.file.stat().st_size)
    added = [after - before for before, after in pairwise(sizes)]
    assert max(added) < min(added) * 1.1


def test_a_thousand_calls_that_wait_are_not_written_again_with_each(tmp_path: Path) -> None:
    run = state_machine.on_reply(stages(["plan"])[-1], reply("", *[call(number) for number in range(1000)]))
    after = moved(run, "clean")
    assert len(encode_delta(after, run)) < 2000
    assert decode_run(encode_delta(run, None) + encode_delta(after, run))[0] == after


def test_half_a_character_pair_can_be_stored(tmp_path: Path) -> None:
    odd = ToolCall(id="2", name="x", arguments={"\ud800": ["\udfff", {"a\ud800": 1}]})
    said = reply("\ud800", InvalidToolCall(id="1", name="x", raw="\udfff"), odd)
    run = state_machine.on_reply(stages(["plan"])[-1], said)
    RunFolder(tmp_path).save(run)
    assert RunFolder(tmp_path).load() == run


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"{}\n", b"[]\n", b"null\n", b'{"messages": 1}\n', b"\xff\n", b'{"pending": 3}\n']
)
def test_other_files_are_unreadable(tmp_path: Path, data: bytes) -> None:
    record = RunFolder(tmp_path)
    record.file.write_bytes(data)
    with pytest.raises(RunStoreError) as caught:
        record.load()
    assert caught.value.code == "run_unreadable"
