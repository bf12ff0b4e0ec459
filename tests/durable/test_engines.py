"""What holds on every engine: the same stories, unchanged, in memory, on SQLite and on Temporal."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from kakite.durable.client import WorkflowDescription, WorkflowError, WorkflowState
from kakite.durable.workflow import Json, Workflow, WorkflowContext
from kakite.errors import UsageError
from tests.durable.conftest import Desk
from tests.durable.tales import STORIES
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio


def new_id() -> str:
    return f"test-{secrets.token_hex(6)}"


async def reach(desk: Desk, story: str, state: WorkflowState) -> WorkflowDescription:
    """Wait until a story is in this state."""

    async def reached() -> WorkflowDescription | None:
        standing: WorkflowDescription = await desk.ledger.describe(story)
        return standing if standing.state == state else None

    return await until(reached)


@pytest.mark.slow
async def test_a_story_is_told_to_its_end_and_shows_what_it_published(desk: Desk, tmp_path: Path) -> None:
    story = new_id()
    file = tmp_path / "effects"
    await desk.ledger.submit(story, "count@1", {"name": story, "n": 5, "file": str(file)})
    assert (await desk.ledger.describe(story)).state == "queued"
    async with desk.working():
        result = await desk.result(story)
    assert len(result["said"]) == 5
    assert len(file.read_text(encoding="utf-8").splitlines()) == 5
    standing = await desk.ledger.describe(story)
    assert (standing.state, standing.published, standing.story) == ("done", {"at": 4}, "count@1")


async def test_the_same_id_twice_is_one_story_and_for_another_story_an_error(
    desk: Desk, tmp_path: Path
) -> None:
    story = new_id()
    start = {"name": story, "n": 2, "file": str(tmp_path / "effects")}
    for _ in range(2):
        await desk.ledger.submit(story, "count@1", start)
    async with desk.working():
        first = await desk.result(story)
        await desk.ledger.submit(story, "count@1", start)
        assert await desk.result(story) == first
    with pytest.raises(WorkflowError) as caught:
        await desk.ledger.submit(story, "ask@1", {})
    assert caught.value.code == "story_taken"
    assert len((tmp_path / "effects").read_text(encoding="utf-8").splitlines()) == 2


async def test_a_signal_waits_for_its_story_also_while_no_worker_lives(desk: Desk) -> None:
    story = new_id()
    await desk.ledger.submit(story, "ask@1", {"question": "may I?"})
    await desk.ledger.signal(story, "answer", "yes")
    async with desk.working():
        assert await desk.result(story) == {"answer": "yesyes", "nothing": None}


async def test_a_story_waits_over_the_end_of_its_worker_and_says_for_what(desk: Desk) -> None:
    story = new_id()
    await desk.ledger.submit(story, "ask@1", {"question": "may I?"})
    async with desk.working():
        standing = await reach(desk, story, "waiting")
        assert (standing.topic, standing.published) == ("answer", {"asks": "may I?"})
    await desk.ledger.signal(story, "answer", 21)
    async with desk.working():
        assert await desk.result(story) == {"answer": 42, "nothing": None}


async def listen(seam: WorkflowContext, start: Json) -> Json:
    await seam.wait_for_signal("begin")
    early = await seam.wait_for_signal("empty", 0)
    return [
        early,
        *[await seam.wait_for_signal("word") for _ in range(3)],
        await seam.wait_for_signal("word", 0),
    ]


async def test_signals_come_in_order_each_once_and_a_key_makes_two_one(desk: Desk) -> None:
    story = new_id()
    stories = [*STORIES, Workflow(name="listen", tell=listen)]
    await desk.ledger.submit(story, "listen@1", None)
    said = {"answer": "yes", "budget": None, "more": [{"tokens": 1.5}, None]}
    for word, key in ((said, ""), ("b", "k"), ("b", "k"), ("a", "")):
        await desk.ledger.signal(story, "word", word, key)
    await desk.ledger.signal(story, "begin", None)
    async with desk.working(stories):
        assert await desk.result(story) == [None, said, "b", "a", None]


async def test_what_fails_in_a_step_is_a_value_without_its_text(desk: Desk) -> None:
    story = new_id()
    await desk.ledger.submit(story, "fail@1", None)
    async with desk.working():
        told = await desk.result(story)
    assert [value["error"]["code"] for value in told] == ["forge_unavailable", "step_broken", "step_unknown"]
    assert told[0]["error"]["message"] == "the forge is down"
    assert "1234" not in str(told)
    assert "ValueError in tales.py" in told[1]["error"]["message"]


async def test_a_storys_own_fault_is_its_end_and_told_without_its_text(desk: Desk) -> None:
    story = new_id()
    await desk.ledger.submit(story, "stumble@1", None)
    async with desk.working():
        with pytest.raises(WorkflowError) as caught:
            await desk.result(story)
    assert caught.value.code == "story_failed"
    assert "KeyError in tales.py" in caught.value.message
    assert "secret" not in caught.value.message
    standing = next(found for found in await desk.ledger.list_workflows() if found.id == story)
    assert (standing.state, "KeyError" in standing.error) == ("failed", True)


@pytest.mark.slow
async def test_cancelling_ends_the_step_under_way_with_its_program(desk: Desk, tmp_path: Path) -> None:
    story = new_id()
    file = tmp_path / "pid"
    await desk.ledger.submit(story, "child@1", {"file": str(file)})
    async with desk.working():
        await until(lambda: file.exists() and file.read_text(encoding="utf-8"))
        pid = int(file.read_text(encoding="utf-8"))
        await desk.ledger.cancel(story)
        await reach(desk, story, "cancelled")
        await until(lambda: not alive(pid))
        with pytest.raises(WorkflowError) as caught:
            await desk.result(story)
    assert caught.value.code == "story_cancelled"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_story_that_waits_can_be_cancelled(desk: Desk) -> None:
    story = new_id()
    await desk.ledger.submit(story, "ask@1", {"question": "?"})
    async with desk.working():
        await reach(desk, story, "waiting")
        await desk.ledger.cancel(story)
        await reach(desk, story, "cancelled")


async def test_a_paused_story_rests_and_goes_on_when_it_is_resumed(desk: Desk) -> None:
    story, other = new_id(), new_id()
    await desk.ledger.submit(story, "ask@1", {"question": "?"})
    async with desk.working():
        await reach(desk, story, "waiting")
        await desk.ledger.pause(story)
        await reach(desk, story, "paused")
        await desk.ledger.signal(story, "answer", 1)
        await desk.ledger.submit(other, "ask@1", {"question": "?"})
        await desk.ledger.signal(other, "answer", 1)  # after that one, and to its end
        await desk.result(other)
        assert (await desk.ledger.describe(story)).state == "paused"
        await desk.ledger.resume(story)
        assert await desk.result(story) == {"answer": 2, "nothing": None}


async def test_a_step_under_way_is_ended_before_a_paused_story_rests(desk: Desk, tmp_path: Path) -> None:
    story = new_id()
    file = tmp_path / story
    await desk.ledger.submit(story, "hold@1", {"name": story, "file": str(file)})
    async with desk.working():
        await until(lambda: list(tmp_path.glob("*.held-*")))
        await desk.ledger.pause(story)
        file.with_name(file.name + ".go").touch()
        await reach(desk, story, "paused")
        assert not file.exists()
        await desk.ledger.resume(story)
        assert len(await desk.result(story)) == 2
        assert file.exists()
        assert len(list(tmp_path.glob("*.held-*"))) == 1


async def test_a_story_can_be_paused_before_any_worker_comes(desk: Desk, tmp_path: Path) -> None:
    story = new_id()
    file = tmp_path / "effects"
    await desk.ledger.submit(story, "count@1", {"name": story, "n": 2, "file": str(file)})
    await desk.ledger.pause(story)
    async with desk.working():
        await reach(desk, story, "paused")
        assert not file.exists()
    await desk.ledger.resume(story)
    async with desk.working():
        await desk.result(story)


async def old_way(seam: WorkflowContext, start: Json) -> Json:
    first = await seam.execute_activity("double", 1)
    await seam.wait_for_signal("go")
    return [first, await seam.execute_activity("double", 2)]


async def new_way(seam: WorkflowContext, start: Json) -> Json:
    checked = await seam.execute_activity("double", 100) if await seam.patched("check-first") else None
    first = await seam.execute_activity("double", 1)
    await seam.wait_for_signal("go")
    return [checked, first, await seam.execute_activity("double", 2)]


async def test_a_changed_story_goes_on_with_what_the_old_one_began(desk: Desk) -> None:
    old, new = new_id(), new_id()
    await desk.ledger.submit(old, "grow@1", None)
    async with desk.working([Workflow(name="grow", tell=old_way)]):
        await reach(desk, old, "waiting")
    await desk.ledger.submit(new, "grow@1", None)
    for story in (old, new):
        await desk.ledger.signal(story, "go", None)
    async with desk.working([Workflow(name="grow", tell=new_way)]):
        assert await desk.result(old) == [None, 2, 4]
        assert await desk.result(new) == [200, 2, 4]


async def test_old_versions_are_drained_by_who_knows_them_and_wait_for_him(desk: Desk) -> None:
    old, new = new_id(), new_id()
    first = Workflow(name="turn", tell=old_way)
    second = Workflow(name="turn", version=2, tell=new_way)
    await desk.ledger.submit(old, first.label, None)
    await desk.ledger.submit(new, second.label, None)
    for story in (old, new):
        await desk.ledger.signal(story, "go", None)
    async with desk.working([second]):
        assert await desk.result(new) == [200, 2, 4]
        assert (await desk.ledger.describe(old)).state == "queued"
    async with desk.working([first, second]):
        assert await desk.result(old) == [2, 4]


async def test_what_is_unknown_or_no_name_says_so(desk: Desk) -> None:
    for call in (desk.ledger.describe, desk.ledger.cancel, desk.ledger.pause, desk.ledger.resume):
        with pytest.raises(WorkflowError) as caught:
            await call("nobody")
        assert caught.value.code == "story_unknown"
    with pytest.raises(WorkflowError):
        await desk.ledger.signal("nobody", "topic", 1)
    for story, label in (("a b", "count@1"), ("a", "count"), ("a", "Count@1"), ("", "count@1")):
        with pytest.raises(UsageError) as refused:
            await desk.ledger.submit(story, label, None)
        assert refused.value.code == "bad_story"


async def test_a_result_that_is_not_there_yet_says_so(desk: Desk) -> None:
    story = new_id()
    await desk.ledger.submit(story, "ask@1", {"question": "?"})
    with pytest.raises(WorkflowError) as caught:
        await desk.ledger.get_result(story, 0.05)
    assert caught.value.code == "story_late"
    await desk.ledger.cancel(story)


async def test_a_signal_cuts_a_step_short_and_the_story_tidies_up(desk: Desk, tmp_path: Path) -> None:
    story = new_id()
    start = {"kinds": ["double", "run", "run"], "asks": True, "file": str(tmp_path / "pid")}
    await desk.ledger.submit(story, "heed@1", start)
    async with desk.working():
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8"))
        await desk.ledger.signal(story, "stop", None)
        result = await desk.result(story)
    assert result == {"done": [False, True, True], "answer": None, "after": True, "tidied": 2}
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text(encoding='utf-8')}").exists()


@pytest.mark.parametrize("seconds", [None, 3600])
async def test_a_signal_ends_a_wait_for_something_else(desk: Desk, seconds: float | None) -> None:
    story = new_id()
    await desk.ledger.submit(story, "heed@1", {"kinds": [], "asks": True, "seconds": seconds})
    async with desk.working():
        await reach(desk, story, "waiting")
        await desk.ledger.signal(story, "stop", None)
        assert await desk.result(story) == {"done": [], "answer": None, "after": True, "tidied": 2}


async def test_a_signal_that_came_while_no_worker_lived_lets_no_step_begin(
    desk: Desk, tmp_path: Path
) -> None:
    story = new_id()
    start = {"kinds": ["run"], "asks": False, "file": str(tmp_path / "pid")}
    await desk.ledger.submit(story, "heed@1", start)
    await desk.ledger.signal(story, "stop", None)
    async with desk.working():
        result = await desk.result(story)
    assert result == {"done": [True], "answer": "unasked", "after": True, "tidied": 2}
    assert not (tmp_path / "pid").exists()
