"""The disk is full while something is cloned, edited, recorded or committed."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.git.mirror import GitError
from kakite.agent.observe.task_logs import TaskLogs
from kakite.agent.run.state import RunState
from kakite.errors import ExternalError
from kakite.redaction import Redaction
from tests.agent.scenarios.scene import BRANCH, DONE, PLANNED, Scene, at_turn, command, editor, heard
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SIZE = 4 << 20


@pytest.fixture
def disk(place: Path) -> Generator[Path]:
    """A small file system."""
    small = place / "run"
    small.mkdir()
    options = f"size={SIZE},mode=700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("only who may mount has a small disk")
    yield small
    subprocess.run(["umount", "--lazy", str(small)], check=True)


def fill(disk: Path, *, but: int = 0) -> Path:
    """Use the disk up but for some bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler = disk / "filler"
    with filler.open("ab") as stream:
        stream.write(b"x" * max(free - but, 0))
    return filler


async def goes_on(scene: Scene, disk: Path, *turns: Mapping[str, Any]) -> RunState:
    (disk / "filler").unlink(missing_ok=True)
    run = await scene.play(*turns)
    assert run.status == "done"
    return run


async def test_a_repository_too_large_for_the_disk_is_not_half_cloned(place: Path, disk: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    fat = commit_file(place, remote, "main", "fat", os.urandom(SIZE).hex())
    scene = Scene(place, remote)
    with pytest.raises(GitError) as caught:
        await scene.play(PLANNED)
    assert caught.value.code == "clone_failed"
    assert "No space left" in caught.value.message
    assert scene.turns_left == 1
    git(remote, "update-ref", "refs/heads/main", f"{fat}~1")
    git(remote, "gc", "--quiet", "--prune=now")
    run = await scene.play(PLANNED, command("echo 2 > a"), DONE)
    assert run.status == "done"


async def test_a_full_disk_while_a_file_is_edited_is_told_to_the_model_and_the_file_stays(
    place: Path, disk: Path
) -> None:
    remote = make_remote(place, {"a": "first\n" + "1\n" * 500_000})
    scene = Scene(place, remote)
    edit = editor({"command": "str_replace", "path": "a", "old_str": "first", "new_str": "second"})
    fills = at_turn(2, lambda: fill(disk, but=300_000))
    look = command("wc -l < a; head -1 a; rm ../../filler; echo 2 > a")
    run = await scene.play(PLANNED, edit, look, DONE, listener=fills)
    assert run.status == "done"
    assert "full" in heard(run)[0]
    assert "500001\nfirst" in heard(run)[1]


@pytest.mark.parametrize("turn", [1, 2, 3])
async def test_a_full_disk_while_a_step_is_recorded_ends_the_run_where_it_was(
    place: Path, disk: Path, turn: int
) -> None:
    remote = make_remote(place, {"a": "1\n"})
    scene = Scene(place, remote)
    words = {"say": "long " * 20_000}
    turns = [{**PLANNED, "say": PLANNED["say"] + words["say"]}, {**command("echo 2 > a"), **words}, words]
    with pytest.raises((OSError, ExternalError)) as caught:
        await scene.play(*turns, listener=at_turn(turn, lambda: fill(disk, but=8192)))
    if isinstance(caught.value, OSError):
        assert caught.value.errno == errno.ENOSPC
    before = scene.stored()
    assert before.usage.requests == turn - 1
    run = await goes_on(scene, disk, *turns[turn - 1 :])
    assert run.messages[: len(before.messages)] == before.messages
    assert git(remote, "show", f"{BRANCH}:a") == "2"


async def test_a_full_disk_at_the_commit_keeps_the_work(place: Path, disk: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    scene = Scene(place, remote)
    work = command("head -c 600000 /dev/urandom > b")
    with pytest.raises((OSError, ExternalError)) as caught:
        await scene.play(PLANNED, work, DONE, listener=at_turn(3, lambda: fill(disk, but=100_000)))
    told = str(caught.value)
    assert "space" in told or "disk" in told.lower(), told
    await goes_on(scene, disk)
    assert git(remote, "cat-file", "-s", f"{BRANCH}:b") == "600000"


async def test_a_run_goes_on_when_its_log_cannot_be_written(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    log = TaskLogs(place / "logs", Redaction())
    log.get_path("x").mkdir()
    run = await Scene(place, remote).play(
        PLANNED, command("echo 2 > a"), DONE, listener=log.create_listener("x")
    )
    assert run.status == "done"
    assert git(remote, "show", f"{BRANCH}:a") == "2"
    assert [*log.get_path("x").iterdir()] == []
