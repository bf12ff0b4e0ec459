"""That a run comes back from its blobs as it was, and that a step writes no more than it added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.run.state import Conflict, Plan, RunState, RunStep, Task
from kakite.agent.run.store import RunStoreError
from kakite.agent.worker.snapshots import load_run, store_run
from kakite.durable.blobs import BlobError, BlobStore
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import ToolCall

TASK = Task(
    id="t", text="do", repository="/r", branch="b", model="m", sandbox="local", approve="all", max_turns=9
)
TEXT = st.one_of(st.text(max_size=20), st.just("half a character \ud83d"))
ARGUMENTS = st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.booleans(), st.none()), max_size=2)
CALLS = st.one_of(
    st.builds(ToolCall, id=TEXT, name=TEXT, arguments=ARGUMENTS),
    st.builds(InvalidToolCall, id=TEXT, name=TEXT, raw=TEXT),
)
USAGE = st.builds(
    Usage, requests=st.integers(0, 9), cost_usd=st.one_of(st.none(), st.floats(0, 9, allow_nan=False))
)
REPLIES = st.builds(
    Reply, text=TEXT, calls=st.lists(CALLS, max_size=2).map(tuple), usage=USAGE, raw=TEXT, model=TEXT
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, text=TEXT),
    st.builds(ToolMessage, call_id=TEXT, tool=TEXT, text=TEXT, is_error=st.booleans()),
    REPLIES,
)
STEPS = st.builds(
    RunStep, kind=st.sampled_from(["tool", "plan"]), text=TEXT, ok=st.booleans(), arguments=ARGUMENTS
)
RESTS = st.builds(
    RunState,
    task=st.just(TASK),
    base=TEXT,
    pending=st.lists(CALLS, max_size=2).map(tuple),
    started=st.booleans(),
    plan=st.one_of(st.none(), st.builds(Plan, goal=TEXT, steps=st.lists(TEXT, max_size=2).map(tuple))),
    usage=USAGE,
    conflicts=st.lists(st.builds(Conflict, path=TEXT, kind=st.just("text")), max_size=2).map(tuple),
    environment=st.one_of(st.none(), st.dictionaries(TEXT, TEXT, max_size=2)),
    diff=TEXT,
)


def grown(run: RunState, rest: RunState, messages: list[Message], steps: list[RunStep]) -> RunState:
    return replace(rest, messages=(*run.messages, *messages), steps=(*run.steps, *steps))


@given(st.lists(st.tuples(RESTS, st.lists(MESSAGES, max_size=3), st.lists(STEPS, max_size=2)), max_size=5))
def test_any_run_comes_back_as_it_was_at_each_of_its_heads(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[RunState, list[Message], list[RunStep]]]
) -> None:
    blobs = BlobStore(tmp_path_factory.mktemp("blobs"))
    run, head = RunState(task=TASK, base=""), None
    stored: list[tuple[str, RunState]] = []
    for piece in pieces:
        run = grown(run, *piece)
        head = store_run(blobs, run, head)
        stored.append((head, run))
    assert [load_run(blobs, each) for each, _ in stored] == [run for _, run in stored]


def test_a_step_writes_only_what_it_added(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    long = tuple(UserMessage(text="x" * 10_000) for _ in range(50))
    run = RunState(task=TASK, base="", messages=long)
    head = store_run(blobs, run)
    before = _size(tmp_path)
    again = replace(run, messages=(*run.messages, UserMessage(text="short")))
    assert load_run(blobs, store_run(blobs, again, head)) == again
    assert _size(tmp_path) - before < 3000


def test_a_run_that_has_not_changed_has_the_same_head(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    run = RunState(task=TASK, base="", messages=(UserMessage(text="one\ntwo"),))
    head = store_run(blobs, run)
    assert store_run(blobs, run, head) == head
    assert store_run(blobs, replace(run, base="b"), head) != head


def test_a_run_that_was_taken_back_is_stored_as_it_is(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    run = RunState(task=TASK, base="", messages=(UserMessage(text="one"), UserMessage(text="two")))
    head = store_run(blobs, run)
    shorter = replace(run, messages=run.messages[:1])
    assert load_run(blobs, store_run(blobs, shorter, head)) == shorter


def test_what_is_no_run_is_named_as_such(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    with pytest.raises(RunStoreError):
        load_run(blobs, blobs.put(b"{}"))
    with pytest.raises(BlobError):
        load_run(blobs, "0" * 64)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
