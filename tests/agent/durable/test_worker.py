"""Several workers on one folder: who tells what, when one dies, stops, or comes back."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from kakite.agent.durable.embedded import EmbeddedLedger
from kakite.agent.durable.ledger import Standing, State, StoryError
from kakite.agent.durable.mail import Mail
from kakite.agent.durable.seam import Json, Seam, Story
from kakite.agent.durable.worker import ATTEMPTS, Pace, working
from kakite.errors import UsageError
from tests.agent.durable.tales import EFFECTS, STORIES, start_worker
from tests.agent.durable.waiting import LIMIT, until

pytestmark = pytest.mark.anyio
FAST: dict[str, Any] = {"poll": 0.05, "watch": 0.2, "lease": 2.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stories"


@pytest.fixture
async def ledger(folder: Path, anyio_backend: str) -> AsyncGenerator[EmbeddedLedger]:
    async with EmbeddedLedger(folder, poll=0.02) as found:
        yield found


async def reach(ledger: EmbeddedLedger, state: State) -> Standing:
    """Wait until the story ``s`` is in this state."""

    async def reached() -> Standing | None:
        standing = await ledger.status("s")
        return standing if standing.state == state else None

    return await until(reached)


async def reach_topic(ledger: EmbeddedLedger, topic: str) -> None:
    """Wait until the story ``s`` waits for this."""

    async def reached() -> bool:
        return (await ledger.status("s")).topic == topic

    await until(reached)


async def beaten(folder: Path, times: int) -> None:
    """Wait until the first worker has shown so often that it lives."""
    beats: set[bytes] = set()

    def enough() -> bool:
        beats.add((folder / "slots" / "worker-1").read_bytes())
        return len(beats) > times

    await until(enough)


def holders(file: Path) -> set[int]:
    """Return the processes that have begun to hold."""
    return {int(held.name.rpartition("-")[2]) for held in file.parent.glob(f"{file.name}.held-*")}


async def submit_hold(ledger: EmbeddedLedger, tmp_path: Path) -> tuple[str, Path]:
    story = f"test-{secrets.token_hex(6)}"
    file = tmp_path / story
    await ledger.submit(story, "hold@1", {"name": story, "file": str(file)})
    return story, file


async def test_workers_take_places_of_their_own_and_a_free_one_again(folder: Path) -> None:
    programs = [start_worker(folder, FAST) for _ in range(2)]
    try:
        async with working(folder, STORIES, EFFECTS) as third:
            assert third.name == "worker-3"
            programs[0].kill()
            programs[0].wait(30)
        async with working(folder, STORIES, EFFECTS) as fourth:
            assert fourth.name == "worker-1"
    finally:
        end(*programs)


def end(*programs: subprocess.Popen[str]) -> None:
    for program in programs:
        program.kill()
        program.wait(30)
        if program.stdout:
            program.stdout.close()


async def test_a_process_has_one_worker(folder: Path) -> None:
    async with working(folder, STORIES, EFFECTS):
        with pytest.raises(UsageError) as caught:
            async with working(folder, STORIES, EFFECTS):
                pass
    assert caught.value.code == "bad_worker"


async def test_a_living_worker_takes_over_what_a_dead_one_had(
    folder: Path, tmp_path: Path, ledger: EmbeddedLedger
) -> None:
    story, file = await submit_hold(ledger, tmp_path)
    first = start_worker(folder, FAST)
    try:
        await until(lambda: holders(file) == {first.pid})
        async with working(folder, STORIES, EFFECTS, Pace(**FAST)):
            first.kill()
            first.wait(30)
            await until(lambda: holders(file) == {first.pid, os.getpid()})
            file.with_name(file.name + ".go").touch()
            result: Any = await ledger.result(story, LIMIT)
    finally:
        end(first)
    assert result[0] == str(os.getpid())


async def test_a_stopped_workers_story_is_told_by_another_and_its_own_end_is_not_recorded(
    folder: Path, tmp_path: Path, ledger: EmbeddedLedger
) -> None:
    story, file = await submit_hold(ledger, tmp_path)
    zombie = start_worker(folder, FAST)
    try:
        await until(lambda: holders(file) == {zombie.pid})
        file.with_name(f"{file.name}.stop-{zombie.pid}").touch()
        await until(lambda: stopped(zombie.pid))
        async with working(folder, STORIES, EFFECTS, Pace(**FAST)):
            await until(lambda: os.getpid() in holders(file))
            file.with_name(file.name + ".go").touch()
            zombie.send_signal(signal.SIGCONT)  # both end their step now; only one of them counts
            result: Any = await ledger.result(story, LIMIT)
            assert result[0] == str(os.getpid())
            other, second = await submit_hold(ledger, tmp_path)
            second.with_name(second.name + ".go").touch()
            await ledger.result(other, LIMIT)
    finally:
        end(zombie)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


async def test_a_worker_that_lives_loses_nothing_to_others(
    folder: Path, tmp_path: Path, ledger: EmbeddedLedger
) -> None:
    story, file = await submit_hold(ledger, tmp_path)
    first = start_worker(folder, FAST)
    try:
        await until(lambda: holders(file) == {first.pid})
        async with working(folder, STORIES, EFFECTS, Pace(poll=0.05, watch=0.05, lease=1.0)) as worker:
            await beaten(folder, 10)  # in each of which it could have been taken for dead
            assert worker.name == "worker-2"
            assert holders(file) == {first.pid}
            file.with_name(file.name + ".go").touch()
            result: Any = await ledger.result(story, LIMIT)
    finally:
        end(first)
    assert result[0] == str(first.pid)


async def test_two_workers_share_what_there_is_and_do_each_step_once(
    folder: Path, tmp_path: Path, ledger: EmbeddedLedger
) -> None:
    stories = [f"s-{number}" for number in range(12)]
    for story in stories:
        await ledger.submit(story, "count@1", {"name": story, "n": 5, "file": str(tmp_path / story)})
    program = start_worker(folder, {**FAST, "concurrency": 2})
    try:
        async with working(folder, STORIES, EFFECTS, Pace(**FAST, concurrency=2)):
            for story in stories:
                await ledger.result(story, LIMIT)
    finally:
        end(program)
    for story in stories:
        begun = (tmp_path / f"{story}.log").read_text(encoding="utf-8").splitlines()
        assert begun == [f"{story}-{number}" for number in range(5)]


async def test_no_more_stories_than_allowed_are_in_hand_at_once(folder: Path, ledger: EmbeddedLedger) -> None:
    at_once: list[int] = []
    inside = 0

    async def measure(value: Json) -> Json:
        nonlocal inside
        inside += 1
        at_once.append(inside)
        await anyio.sleep(0.05)
        inside -= 1
        return None

    async def two(seam: Seam, start: Json) -> Json:
        await seam.step("measure", None)
        return await seam.step("measure", None)

    kinds = [Story(name="two", tell=two), Story(name="two", tell=two, version=2)]
    for number in range(12):
        await ledger.submit(f"s-{number}", f"two@{number % 2 + 1}", None)
    async with working(folder, kinds, {"measure": measure}, Pace(concurrency=3, poll=0.05)):
        for number in range(12):
            await ledger.result(f"s-{number}", LIMIT)
    assert max(at_once) == 3


async def test_stories_that_wait_keep_no_others_from_being_told(folder: Path, ledger: EmbeddedLedger) -> None:
    for number in range(6):
        await ledger.submit(f"waits-{number}", "ask@1", {"question": "?"})
    async with working(folder, STORIES, EFFECTS, Pace(**FAST, concurrency=2)):
        await ledger.submit("after", "ask@1", {"question": "?"})
        await ledger.signal("after", "answer", 1)
        assert await ledger.result("after", LIMIT) == {"answer": 2, "nothing": None}
        for number in range(6):
            await ledger.signal(f"waits-{number}", "answer", number)
            assert await ledger.result(f"waits-{number}", LIMIT) == {"answer": number * 2, "nothing": None}


async def test_a_time_goes_on_while_no_worker_lives(folder: Path, ledger: EmbeddedLedger) -> None:
    await ledger.submit("s", "ask@1", {"question": "?", "seconds": 1.0})
    await ledger.signal("s", "answer", 1)
    async with working(folder, STORIES, EFFECTS, Pace(**FAST)):
        await reach_topic(ledger, "more")
    async with working(folder, STORIES, EFFECTS, Pace(**FAST)):
        assert await ledger.result("s", LIMIT) == {"answer": 2, "nothing": None}


async def before(seam: Seam, start: Json) -> Json:
    await seam.step("double", 1)
    return await seam.wait("go")


async def after(seam: Seam, start: Json) -> Json:
    await seam.step("refuse", None)
    return await seam.wait("go")


async def test_a_story_that_does_not_fit_its_journal_is_stuck_and_not_lost(
    folder: Path, ledger: EmbeddedLedger
) -> None:
    await ledger.submit("s", "turn@1", None)
    async with working(folder, [Story(name="turn", tell=before)], EFFECTS, Pace(**FAST)):
        await reach(ledger, "waiting")
    await ledger.signal("s", "go", "gone")
    async with working(folder, [Story(name="turn", tell=after)], EFFECTS, Pace(**FAST)):
        assert "double" in (await reach(ledger, "stuck")).error
    async with working(folder, [Story(name="turn", tell=before)], EFFECTS, Pace(**FAST)):
        assert await ledger.result("s", LIMIT) == "gone"


async def test_a_story_that_its_workers_die_of_is_given_up(folder: Path, ledger: EmbeddedLedger) -> None:
    """Instead of fifty dead workers, the count of what they would have begun."""
    from kakite.agent.durable.embedded import opened

    await ledger.submit("s", "ask@1", {"question": "?"})
    client, mail = opened(folder)
    with client._sys_db.engine.begin() as connection:  # pyright: ignore[reportPrivateUsage] - fifty deaths take a minute
        connection.exec_driver_sql("UPDATE workflow_status SET recovery_attempts = ?", (ATTEMPTS + 1,))
    client.destroy()
    mail.close()
    async with working(folder, STORIES, EFFECTS, Pace(**FAST)):
        with pytest.raises(StoryError) as caught:
            await ledger.result("s", LIMIT)
    assert caught.value.code == "story_crashes"
    assert (await ledger.list())[0].error


async def test_a_full_disk_ends_no_story(folder: Path, tmp_path: Path, ledger: EmbeddedLedger) -> None:
    file = tmp_path / "effects"
    log = file.with_name("effects.log")
    await ledger.submit("s", "count@1", {"name": "s", "n": 20, "file": str(file), "hold": 10})
    program = start_worker(folder, {**FAST, "rest": 0.2})
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        await until(lambda: file.with_name("effects.held").exists())
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (4096, most[1]))
        file.with_name("effects.go").touch()
        await until(lambda: file.exists() and "s-10" in file.read_text(encoding="utf-8"))
        await beaten(folder, 10)  # in which it could not be recorded that it is done
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, most)
        result: Any = await ledger.result("s", LIMIT)
    finally:
        end(program)
    assert len(result["said"]) == 20
    assert log.read_text(encoding="utf-8").split().count("s-10") > 1
    assert len(file.read_text(encoding="utf-8").splitlines()) == 20


async def test_what_a_story_was_told_while_no_worker_lived_is_work_for_the_next(
    ledger: EmbeddedLedger, folder: Path
) -> None:
    async def waits(seam: Seam, _: Json) -> Json:
        return [await seam.wait("topic"), await seam.wait("topic", unless="stop")]

    async def heard() -> bool:
        return not (await ledger.status("s")).unheard

    story = Story(name="waits", version=1, tell=waits)
    await ledger.submit("s", story.label, None)
    for said in ("topic", "stop"):
        async with working(folder, [story], {}, Pace(poll=0.05)):
            await reach_topic(ledger, "topic")
            await until(heard)
        await ledger.signal("s", said, said)
        standing = await ledger.status("s")
        assert (standing.state, standing.unheard) == ("waiting", True)
    await ledger.pause("s")
    assert not (await ledger.status("s")).unheard
    await ledger.resume("s")
    async with working(folder, [story], {}, Pace(poll=0.05)):
        assert await ledger.result("s", LIMIT) == ["topic", None]
    assert not (await ledger.status("s")).unheard


async def test_what_was_paused_and_resumed_while_no_worker_lived_is_queued(
    ledger: EmbeddedLedger, folder: Path
) -> None:
    async def waits(seam: Seam, _: Json) -> Json:
        return await seam.wait("one")

    story = Story(name="waits", version=1, tell=waits)
    await ledger.submit("s", story.label, None)
    await ledger.pause("s")
    mail = Mail(folder / "mail.sqlite")
    async with working(folder, [story], {}, Pace(poll=0.05)):
        await until(lambda: mail.slip("s").rests == "paused")
    mail.close()
    assert (await ledger.status("s")).state == "paused"
    await ledger.resume("s")
    assert (await ledger.status("s")).state == "queued"
