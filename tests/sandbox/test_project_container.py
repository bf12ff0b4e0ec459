"""Programs in a container work in a person's own folder as it is, on real engines: Docker, and Podman."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.engines import Engine
from tests.repositories import git
from tests.sandbox.in_place import ATTEMPTS, EVIL, PLANTS, SECRET, Attempt, World, make_world

from kakite.processes import CompletedProcess
from kakite.sandbox import ResourceLimits, Sandbox, SandboxError, SandboxSpec, open_sandbox
from kakite.sandbox.backends.container import PYTHON

pytestmark = pytest.mark.slow


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.getfixturevalue(request.param)


class Box:
    """A container over the project of a world, with the loop that holds it."""

    def __init__(self, world: World, sandbox: Sandbox, runner: asyncio.Runner) -> None:
        self.world, self.sandbox, self._runner = world, sandbox, runner

    def run(self, *argv: str, env: dict[str, str] | None = None) -> CompletedProcess:
        return self._runner.run(self.sandbox.exec(argv, timeout=60, env=env))

    def sh(self, script: str) -> CompletedProcess:
        return self.run("bash", "-c", script)

    def attempt(self, tried: Attempt) -> None:
        world = self.world
        env = {"P": self.sandbox.project, "H": str(world.project), "PERSON": str(world.home), "EVIL": EVIL}
        env |= {"CANARY": str(world.canary), "GIT_COMMITTER_EMAIL": "e@localhost", "GIT_AUTHOR_EMAIL": "e@l"}
        words = (PYTHON, "-I", "-S", "-c") if tried.python else ("bash", "-c")
        self.run(*words, tried.script, env=env)


@contextmanager
def at_work(
    engine: Engine, world: World, project: Path | None = None, limits: ResourceLimits | None = None
) -> Generator[Box]:
    environ = {**engine.environ, "HOME": str(world.home)}
    sandbox = open_sandbox(
        "container",
        world.root / "task",
        environ=environ,
        terms=SandboxSpec(limits=limits or ResourceLimits()),
        project=project or world.project,
    )
    with asyncio.Runner() as runner:
        try:
            runner.run(sandbox.prepare())
            yield Box(world, sandbox, runner)
        finally:
            runner.run(sandbox.destroy())


def give(folder: Path, user: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.parametrize("owner", [0, 4242])
def test_the_folder_is_worked_in_by_its_owner_and_nothing_changes_hands(
    engine: Engine, tmp_path: Path, owner: int
) -> None:
    world = make_world(tmp_path)
    give(world.project, owner)
    owners = {path: path.lstat().st_uid for path in world.home.rglob("*")}
    with at_work(engine, world) as box:
        assert box.sh("id -u; cat file; echo made > made; echo x > ~/kept; pwd").stdout.decode().split() == [
            *(str(owner), "first", "/workspace/project")
        ]
        assert (world.project / "made").read_text(encoding="utf-8") == "made\n"
        (world.project / "theirs").write_text("there at once", encoding="utf-8")
        assert box.sh("cat theirs").stdout == b"there at once"
        assert (
            box.sh("git log --format=%s; git status --short file; git diff --stat file").stdout == b"First\n"
        )
        asked = (
            f"ls -A {world.home}; cat {world.home}/.netrc ../other/key; grep -rIls {SECRET[:-1]} /workspace"
        )
        assert box.sh(asked).stdout == b""
    assert (world.project / "made").stat().st_uid == owner
    assert owners.items() <= {path: path.lstat().st_uid for path in world.home.rglob("*")}.items()


def test_no_attempt_changes_what_is_outside_or_what_git_obeys(engine: Engine, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    succeeded: list[str] = []
    with at_work(engine, world) as box:
        for name, tried in ATTEMPTS.items():
            before = world.snapshot()
            box.attempt(tried)
            if world.snapshot() != before or world.look_with_git().returncode != 0 or world.canary.exists():
                succeeded.append(name)
            world.clean()
    assert succeeded == []


def test_no_repository_is_made_where_none_is_and_nothing_is_left(engine: Engine, tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    succeeded: list[str] = []
    with at_work(engine, world) as box:
        for name, tried in PLANTS.items():
            box.attempt(tried)
            if world.look_with_git().returncode != 128 or world.canary.exists():
                succeeded.append(name)
            world.clean()
    assert succeeded == []
    assert [path.name for path in world.project.iterdir()] == ["file"]


def test_git_reads_the_repository_of_a_worktree(engine: Engine, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    tree = world.home / "code/tree"
    git(world.project, "worktree", "add", "--quiet", str(tree))
    with at_work(engine, world, tree) as box:
        assert box.sh("echo x >> file; git log --format=%s").stdout == b"First\n"
        assert b"M file" in box.sh("git status --short").stdout
        assert box.sh(f"echo x >> {world.project}/.git/config").exit_code != 0
        assert box.sh(f"ls -A {world.project}").stdout == b".git\n"


def test_the_persons_files_count_for_no_limit(engine: Engine, tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    (world.project / "big").write_bytes(os.urandom(6 << 20))
    with at_work(engine, world, limits=ResourceLimits(disk=4 << 20)) as box:
        done = box.sh("exec 3< big; rm big; sleep 6; echo end")
        assert (done.stdout, done.limit) == (b"end\n", "")
        assert (
            box.sh("head -c 3M /dev/urandom > ~/a; head -c 3M /dev/urandom > ~/b; sleep 20").limit == "disk"
        )


def test_an_engine_elsewhere_is_refused_and_nothing_is_copied(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    environ = {**world.environ, "DOCKER_HOST": "tcp://127.0.0.1:1", "CONTAINER_HOST": "tcp://127.0.0.1:1"}
    before = sorted(world.root.rglob("*"))
    sandbox = open_sandbox("container", world.root / "task", environ=environ, project=world.project)
    with pytest.raises(SandboxError) as caught:
        asyncio.run(sandbox.prepare())
    if caught.value.code == "sandbox_missing":
        pytest.skip(str(caught.value))
    assert (caught.value.code, bool(caught.value.hint)) == ("project_elsewhere", True)
    assert sorted(world.root.rglob("*")) == before
