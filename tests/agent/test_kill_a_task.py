"""A worker may be killed at any moment of a task, a machine be lost: it ends as if nothing had happened.

The same proof on each engine: ``server`` is empty for a folder with SQLite, or a Temporal server's address.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.run.state import RunState
from kakite.agent.worker.snapshots import load_run
from kakite.durable.blobs import BlobStore
from kakite.durable.dbos.client import DbosWorkflowClient
from tests.agent.answering import Answering, answering
from tests.agent.fleet import CALLS, COUNTED, SCRIPT, STEPS, LocalFleet, ends_of
from tests.repositories import git

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

POINTS = [
    *(f"advance {number} {when}" for number in range(STEPS) for when in ("before", "inside", "after")),
    *(
        f"{kind} 0 {when}"
        for kind in ("open", "announce", "request", "close", "clean")
        for when in ("inside", "after")
    ),
    *(f"report {number} after" for number in range(3)),
    "news 0 after",
]
LOST = [
    *("open 0 after", "advance 0 after", "advance 1 inside", "advance 14 inside", "advance 15 before"),
    *("advance 15 inside", "advance 15 after", "advance 16 inside", "advance 16 after", "advance 28 after"),
    *("advance 29 after", "advance 30 inside", "advance 30 after", "close 0 inside"),
    *("close 0 after", "clean 0 inside", "clean 0 after"),
    *("announce 0 inside", "announce 0 after", "request 0 inside", "request 0 after"),
]
"""Where a whole machine is lost: around a call, a reply, the commit, the push, the end."""
LOCKS = [
    *(f"task/project/.git/{name}.lock" for name in ("index", "kakite-index", "HEAD", "config")),
    *("task/project/.git/refs/heads/kakite.lock", "mirror.git/refs/kakite/wip.lock"),
    *("mirror.git/packed-refs.lock", "mirror.git/config.lock"),
]


@pytest.fixture(params=["sqlite", "temporal"])
def server(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return request.getfixturevalue("temporal_server") if request.param == "temporal" else ""


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def model() -> Generator[Answering]:
    with answering({"Count to": SCRIPT}) as known:
        yield known


def chosen(points: Sequence[str], proof: bool, among: int, seed: int) -> Sequence[str]:
    """Return all points, or one of so many: others for another seed."""
    return points if proof else points[seed % among :: among]


def test_killed_anywhere_a_task_ends_the_same(
    place: Path, server: str, model: Answering, proof: bool, seed: int
) -> None:
    deaths = chosen(POINTS, proof, 10, seed)
    tasks = -(-len(deaths) // 12)
    for number in range(tasks):
        group = deaths[number::tasks]
        fleet = LocalFleet(place / str(number), model.url, engine=server)
        ends = fleet.work_on(group)
        assert ends[-1] == 0
        assert set(ends[:-1]) <= {-9}
        fleet.check_end()
        fleet.check_nothing_left()
        assert fleet.begun() >= 30


def test_a_machine_that_is_lost_takes_no_work_with_it(
    place: Path, server: str, model: Answering, proof: bool, seed: int
) -> None:
    for number, point in enumerate(chosen(LOST, proof, 9, seed)):
        fleet = LocalFleet(place / str(number), model.url, engine=server)
        assert fleet.work([point]) == -9
        kept, asked = fleet.wip(), len(model.asked)
        if server:
            shutil.rmtree(fleet.place / "m")
        else:  # the journal is what a folder cannot lose
            shutil.rmtree(fleet.place / "m" / "agent" / "tasks")
        machine = "n" if server else "m"
        assert fleet.work(machine=machine) == 0, point
        fleet.check_end()
        fleet.check_nothing_left(machine)
        again, done = len(model.asked) - asked, replies_before(point)
        assert again <= CALLS + 2 - max(done - 2, 0), point  # what was kept was not asked again
        assert kept or done < 2 or point == "clean 0 inside", point


def replies_before(point: str) -> int:
    """Return how many replies of the model at least were recorded when a machine was lost there."""
    kind, number, _ = point.split()
    if kind in {"open", "announce", "request"} or point == "clean 0 after":
        return 0  # a draft is opened with the first change
    return min(int(number) // 2, CALLS + 2) if kind == "advance" else CALLS + 2


def test_what_a_worker_had_that_dies_the_other_one_ends(place: Path, server: str, model: Answering) -> None:
    fleet = LocalFleet(place, model.url, engine=server)
    machines = ("m", "n") if server else ("m", "m")
    ends = ends_of(*[fleet.start(["advance 9 after"], machine) for machine in machines])
    assert set(ends) == {-9, 0}
    fleet.check_end()
    assert fleet.work(machine=machines[ends.index(-9)]) == 0  # the dead one's machine is swept
    fleet.check_nothing_left(*machines)


def test_what_a_lost_machine_had_used_up_still_counts(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url)
    assert fleet.work(["advance 15 before"]) == -9  # a call is recorded whose files were not kept
    shutil.rmtree(place / "m" / "agent" / "tasks")
    assert fleet.work() == 0
    fleet.check_end()
    spent = asyncio.run(ended_run(place / "m" / "agent")).spent
    # Also the calls before whose files were on their way: three, where each push takes longer than a turn.
    assert CALLS < spent.calls <= CALLS + 3


async def ended_run(folder: Path) -> RunState:
    async with DbosWorkflowClient(folder) as client:
        (standing,) = await client.list_workflows()
    published: Any = standing.published
    return load_run(BlobStore(folder / "blobs"), published["head"])


def test_what_git_that_was_killed_left_locked_is_free_again(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url)
    assert fleet.work(["advance 9 after"]) == -9
    (task,) = fleet.tasks()
    for lock in LOCKS:
        assert (task / lock).parent.is_dir()
        (task / lock).touch()
    for lock in ("packed-refs.lock", *(f"{name}.lock" for name in fleet.wip())):
        (fleet.repository / lock).touch()
    kept = fleet.kept()
    assert fleet.work(["advance 15 after"]) == -9
    assert fleet.kept() != kept
    assert fleet.work() == 0
    fleet.check_end()


def test_a_tree_of_before_a_power_cut_is_made_anew_of_what_was_kept(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url)
    assert fleet.work(["advance 15 before"]) == -9
    (task,) = fleet.tasks()
    cut_power(task)
    asked = len(model.asked)
    assert fleet.work() == 0
    fleet.check_end()
    assert len(model.asked) - asked <= CALLS + 2 - 5  # what was kept was not asked again


def cut_power(task: Path) -> None:
    """Leave a task's folder as it may be found then: what was synced is there, the tree's files are empty."""
    mark = json.loads((task / "mark.json").read_bytes())
    (task / "mark.json").write_text(json.dumps({**mark, "boot": "another"}), encoding="utf-8")
    (task / "task" / "project" / "b").write_bytes(b"")


def test_a_mark_of_before_boots_were_noted_is_gone_on_with(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url)
    assert fleet.work(["advance 15 before"]) == -9
    (task,) = fleet.tasks()
    mark = json.loads((task / "mark.json").read_bytes())
    old = {name: mark[name] for name in ("before", "head", "state")}
    (task / "mark.json").write_text(json.dumps(old), encoding="utf-8")
    asked = len(model.asked)
    assert fleet.work() == 0
    fleet.check_end()
    assert len(model.asked) - asked == CALLS + 2 - 8


def test_a_repository_that_takes_no_more_work_in_progress_loses_none_that_it_has(
    place: Path, model: Answering
) -> None:
    fleet = LocalFleet(place, model.url)
    assert fleet.work(["advance 13 before"]) == -9
    kept = fleet.kept()
    hook = refuse_work_in_progress(fleet)
    assert fleet.work(["advance 23 before"]) == -9
    assert kept == fleet.kept() != ""
    shutil.rmtree(place / "m" / "agent" / "tasks")
    hook.unlink()
    asked = len(model.asked)
    assert fleet.work() == 0
    fleet.check_end()
    assert len(model.asked) - asked <= CALLS + 2 - 4  # what the repository had was not asked again


def test_work_that_the_repository_does_not_take_outlives_a_power_cut(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url)
    refuse_work_in_progress(fleet)
    assert fleet.work(["advance 23 before"]) == -9
    (task,) = fleet.tasks()
    cut_power(task)
    asked = len(model.asked)
    assert fleet.work() == 0
    fleet.check_end()
    assert len(model.asked) - asked <= CALLS + 2 - 9


def test_a_task_that_waits_has_all_of_its_work_on_the_repository(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url, settings={"max_turns": 8})
    assert fleet.work() == 0
    assert git(fleet.repository, "show", f"{fleet.kept()}:b").split() == COUNTED[:7]
    shutil.rmtree(place / "m" / "agent" / "tasks")
    asyncio.run(answer(place / "m" / "agent"))
    go_on(fleet, model)
    fleet.check_end()
    assert len(model.asked) == CALLS + 2  # none twice


def test_what_a_person_said_is_heard_once_by_a_step_begun_again(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url, settings={"max_turns": 8, "daily": {"calls": 1000}})
    assert fleet.work() == 0
    folder = place / "m" / "agent"
    asyncio.run(answer(folder, "Mind the gap."))
    model.before = lambda _words, _number: spoilt(folder)
    go_on(fleet, model)
    asyncio.run(answer(folder, "It is mended."))
    model.before = lambda _words, _number: None
    (folder / "spent.json").unlink()
    go_on(fleet, model)
    fleet.check_end()
    said = [message.text for message in asyncio.run(ended_run(folder)).messages if hasattr(message, "text")]
    assert sum(text.count("Mind the gap.") for text in said) == 1
    assert sum(text.count("It is mended.") for text in said) == 1


def go_on(fleet: LocalFleet, model: Answering) -> None:
    """Work on what was answered: a worker may have ended as idle before the workflow has heard it."""
    asked = len(model.asked)
    for _ in range(5):
        assert fleet.work() == 0
        if len(model.asked) > asked:
            return
    raise AssertionError("the answer is not heard")


def spoilt(folder: Path) -> None:
    """Let nobody know what the day has used up."""
    (folder / "spent.json").write_text("{", encoding="utf-8")


async def answer(folder: Path, reason: str = "") -> None:
    """Say yes to what a task asks."""
    async with DbosWorkflowClient(folder) as client:
        (standing,) = await client.list_workflows()
        value = {"answer": "yes", "reason": reason, "by": "ann", "via": "terminal", "budget": None}
        await client.signal(standing.id, standing.topic, value)


def refuse_work_in_progress(fleet: LocalFleet) -> Path:
    hook = fleet.repository / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\n! grep -q refs/kakite/wip\n", encoding="utf-8")
    hook.chmod(0o755)
    return hook
