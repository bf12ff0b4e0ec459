"""Programs work in a person's own folder as it is, and neither leave it nor change what git obeys there."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.lanes import examples
from tests.repositories import git
from tests.sandbox.conftest import Place
from tests.sandbox.in_place import ATTEMPTS, EVIL, PLANTS, SECRET, Attempt, World, make_world

from kakite.processes import run
from kakite.sandbox import ResourceLimits, SandboxError, SandboxSpec, find_exceeded_limit, open_sandbox
from kakite.sandbox.backends import bwrap_mounts

AS_ROOT = os.geteuid() == 0


@contextmanager
def at_work(
    kind: str, world: World, project: Path | None = None, limits: ResourceLimits | None = None
) -> Generator[Place]:
    """A prepared sandbox over the world's project; skips the test where there is no such kind."""
    folder = world.root / "task"
    sandbox = open_sandbox(
        kind,
        folder,
        environ=world.environ,
        terms=SandboxSpec(limits=limits or ResourceLimits()),
        project=project or world.project,
    )
    try:
        asyncio.run(sandbox.prepare())
    except SandboxError as error:
        if error.code == "sandbox_missing":
            pytest.skip(f"{kind} does not work here: {error}")
        raise
    try:
        yield Place(sandbox, folder, world.home, world.root)
    finally:
        asyncio.run(sandbox.destroy())


def attempt(place: Place, world: World, tried: Attempt) -> None:
    env = {
        "P": place.sandbox.project,
        "H": str(world.project),
        "PERSON": str(world.home),
        "CANARY": str(world.canary),
        "EVIL": EVIL,
        "GIT_AUTHOR_EMAIL": "e@localhost",
        "GIT_COMMITTER_EMAIL": "e@localhost",
    }
    if tried.python:
        place.python(tried.script, env=env)
    else:
        place.sh(tried.script, env=env)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[World, Place]]:
    world = make_world(tmp_path_factory.mktemp("world"))
    with at_work("bubblewrap", world) as place:
        yield world, place


@pytest.fixture(scope="module")
def no_repository(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[World, Place]]:
    world = make_world(tmp_path_factory.mktemp("world"), repository=False)
    with at_work("bubblewrap", world) as place:
        yield world, place


# The folder as it is

NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=40
).filter(lambda name: name not in {".", "..", ".git", "HEAD"} and len(name.encode()) < 200)


@pytest.mark.parametrize("kind", ["bubblewrap", "local"])
def test_what_either_side_writes_is_seen_by_the_other_at_once(tmp_path: Path, kind: str) -> None:
    world = make_world(tmp_path, repository=False)
    with at_work(kind, world) as place:

        @given(name=NAMES, inside=st.binary(max_size=99), outside=st.binary(max_size=99))
        @settings(max_examples=examples(30))
        def holds(name: str, inside: bytes, outside: bytes) -> None:
            file = world.project / name
            assert place.run("bash", "-c", 'cat > "$0"', f"./{name}", stdin=inside).exit_code == 0
            assert file.read_bytes() == inside
            file.write_bytes(outside)
            assert place.run("cat", f"./{name}").stdout == outside
            assert place.run("rm", f"./{name}").exit_code == 0
            assert not file.exists()

        holds()
    assert (world.project / "file").read_bytes() == b"first\n"


@pytest.mark.parametrize("kind", ["bubblewrap", "local"])
def test_the_folder_stays_when_the_sandbox_is_gone(tmp_path: Path, kind: str) -> None:
    world = make_world(tmp_path)
    with at_work(kind, world) as place:
        before = world.snapshot()
        assert place.sh("echo made > made; mkdir empty; echo kept > ~/kept; pwd").exit_code == 0
        assert place.sandbox.project == (str(world.project) if kind == "local" else "/workspace/project")
    assert (world.project / "made").read_bytes() == b"made\n"
    assert (world.project / "empty").is_dir()
    assert (place.folder / "home/kept").exists()
    assert list((place.folder / "project").iterdir()) == []
    left = set(before) ^ set(world.snapshot())
    assert left <= {"person/code/mine/gone"}  # the place of a submodule, while nobody could make it


def test_it_tells_what_programs_can_only_read(repository: tuple[World, Place]) -> None:
    _, place = repository
    assert {".git", ".githooks"} <= set(place.sandbox.sealed)


def test_git_reads_the_repository(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    git(world.project, "rm", "--cached", "--quiet", "sub", "gone/away")
    git(world.project, "commit", "--quiet", "--message=Second")
    with at_work("bubblewrap", world) as place:
        assert place.sandbox.notes == ()
        assert place.sh("git log --format=%s").stdout == b"Second\nFirst\n"
        place.sh("echo second >> file")
        os.utime(world.project / "file")
        assert b" M file\n" in place.sh("git status --short --untracked-files=no").stdout
        assert b"+second\n" in place.sh("git diff").stdout
        assert place.sh("git rev-parse --show-toplevel").stdout.decode().strip() == place.sandbox.project


def test_git_reads_the_repository_of_a_worktree_and_no_other(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    tree = world.home / "code/tree"
    git(world.project, "worktree", "add", "--quiet", str(tree))
    with at_work("bubblewrap", world, tree) as place:
        assert place.sandbox.notes == ()
        assert place.sh("echo more >> file; git log --format=%s").stdout == b"First\n"
        assert b"M file" in place.sh("git status --short").stdout
        before = world.snapshot()
        assert (
            place.sh("git commit -qam x; git config a.b c; echo x > .git; rm .git; mv .git x").exit_code != 0
        )
        assert place.sh(f"echo x >> {world.project}/.git/config; touch {world.project}/.git/x").exit_code != 0
        assert place.sh(f"ls -A {world.project} {world.home}").stdout.decode().split() == [
            *(f"{world.home}:", "code", f"{world.project}:", ".git")
        ]
        assert {name: told for name, told in world.snapshot().items() if "tree/file" not in name} == {
            name: told for name, told in before.items() if "tree/file" not in name
        }


@pytest.mark.parametrize("leads_to", ["code/other/repo/.git", ".ssh", "nowhere"])
def test_a_git_file_shows_no_other_folder_of_the_person(tmp_path: Path, leads_to: str) -> None:
    world = make_world(tmp_path, repository=False)
    other = world.home / "code/other/repo"
    other.mkdir()
    git(other, "init", "--quiet")
    (other / ".git/description").write_text(SECRET, encoding="utf-8")
    (world.project / ".git").write_text(f"gitdir: {world.home / leads_to}\n", encoding="utf-8")
    with at_work("bubblewrap", world) as place:
        assert len(place.sandbox.notes) == 1
        assert place.sh("git status").exit_code != 0
        assert place.sh(f"cat {world.home / leads_to}/*; ls {world.home}").stdout == b""


def test_nothing_else_of_the_person_is_seen(repository: tuple[World, Place]) -> None:
    world, place = repository
    home, project = world.home, world.project
    asked = f"ls -A {home}; cat {home}/.ssh/* {home}/.netrc ../other/key {project}/../other/key"
    assert place.sh(asked).stdout == b""
    assert place.sh(f"grep -rIls {SECRET[:-1]} /workspace /tmp /home /root /proc/self/environ").stdout == b""


# What cannot be worked in


def test_a_link_in_place_of_the_repository_is_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    (world.project / ".git").rename(world.project / "real")
    (world.project / ".git").symlink_to("real")
    with pytest.raises(SandboxError) as caught, at_work("bubblewrap", world):
        pass
    assert caught.value.code == "project_unfit"


@pytest.mark.parametrize("place", ["home", "above", "bare", "task", "include"])
def test_a_folder_that_cannot_be_protected_is_refused(tmp_path: Path, place: str) -> None:
    world = make_world(tmp_path)
    bare = world.home / "bare.git"
    git(world.home, "init", "--quiet", "--bare", str(bare))
    folder = {"home": world.home, "above": world.root, "bare": bare, "task": world.root / "task"}.get(
        place, world.project
    )
    (world.project / ".gitsettings").unlink() if place == "include" else (world.root / "task").mkdir()
    with pytest.raises(SandboxError) as caught, at_work("bubblewrap", world, folder):
        pass
    assert (caught.value.code, bool(caught.value.hint)) == ("project_unfit", True)


@pytest.mark.parametrize("kind", ["bubblewrap", "local"])
def test_a_folder_that_is_not_there_is_told(tmp_path: Path, kind: str) -> None:
    world = make_world(tmp_path)
    with pytest.raises(SandboxError) as caught, at_work(kind, world, world.home / "nowhere"):
        pass
    assert caught.value.code == "folder_missing"
    assert not (world.home / "nowhere").exists()


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused_and_stays_theirs(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    os.chown(world.project, 4242, 4242)
    with pytest.raises(SandboxError) as caught, at_work("bubblewrap", world):
        pass
    assert caught.value.code == "project_unfit"
    assert world.project.stat().st_uid == 4242


# Limits


def test_the_persons_files_count_for_no_limit(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    (world.project / "big").write_bytes(os.urandom(6 << 20))
    for name in map(str, range(300)):
        (world.project / name).touch()
    limits = ResourceLimits(disk=4 << 20, files=200)
    with at_work("bubblewrap", world, limits=limits) as place:
        # Also not while it is held open without a name.
        done = place.sh(
            "exec 3< big; rm big; for i in 1 2 3 4 5 6; do sleep .5; echo x > ~/x$i; done; echo end"
        )
        assert (done.stdout, done.limit) == (b"end\n", "")
        assert find_exceeded_limit(place.folder, limits) == ""
        done = place.sh("head -c 3M /dev/urandom > ~/a; head -c 3M /dev/urandom > ~/b; sleep 20; echo end")
        assert done.limit == "disk"


# Attempts


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_changes_nothing_outside_and_nothing_that_git_obeys(
    repository: tuple[World, Place], name: str
) -> None:
    world, place = repository
    before = world.snapshot()
    attempt(place, world, ATTEMPTS[name])
    assert world.snapshot() == before
    assert world.look_with_git().returncode == 0
    assert not world.canary.exists()
    world.clean()


@pytest.mark.parametrize("name", [name for name, tried in ATTEMPTS.items() if tried.works_alone])
def test_the_attempt_succeeds_where_nothing_isolates(tmp_path: Path, name: str) -> None:
    world = make_world(tmp_path)
    with at_work("local", world) as place:
        before = world.snapshot()
        attempt(place, world, ATTEMPTS[name])
        assert world.snapshot() != before


@pytest.mark.parametrize("name", PLANTS)
def test_no_repository_is_made_where_none_is(no_repository: tuple[World, Place], name: str) -> None:
    world, place = no_repository
    attempt(place, world, PLANTS[name])
    assert world.look_with_git().returncode == 128
    assert not world.canary.exists()
    assert sorted(path.name for path in (world.project / ".git").iterdir()) == []
    world.clean()


@pytest.mark.parametrize("name", [name for name, tried in PLANTS.items() if tried.works_alone])
def test_the_repository_is_made_where_nothing_isolates(tmp_path: Path, name: str) -> None:
    world = make_world(tmp_path, repository=False)
    with at_work("local", world) as place:
        attempt(place, world, PLANTS[name])
    assert world.look_with_git().returncode == 0 or world.canary.exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_attempts_are_held_where_each_command_mounts_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap_mounts, "_NAMESPACE", ("--no-such-option",))
    world = make_world(tmp_path)
    with at_work("bubblewrap", world) as place:
        for name, tried in ATTEMPTS.items():
            before = world.snapshot()
            attempt(place, world, tried)
            assert world.snapshot() == before, name
            world.clean()


def test_a_server_is_held_as_commands_are(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with at_work("bubblewrap", world) as place:
        before = world.snapshot()
        script = (
            "echo x >> .git/config; mv .git x; mv nested x; mv sub x; echo x > .gitsettings; echo here > here"
        )
        done = asyncio.run(run(place.sandbox.build_process_spec(("bash", "-c", script)), timeout=WITHIN))
        assert done.exit_code == 0
        assert world.snapshot() == before
    assert (world.project / "here").exists()


def test_what_the_person_replaces_is_held_from_the_next_command_on(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with at_work("bubblewrap", world) as place:
        place.run("true")
        (world.project / ".git").rename(world.root / "old")
        git(world.project, "init", "--quiet")
        (world.project / "nested").rename(world.root / "nested")
        git(world.project, "init", "--quiet", "nested/repo")
        before = world.snapshot()
        assert (
            place.sh("echo x >> .git/config; echo x >> nested/repo/.git/config; mv nested y; ls").exit_code
            == 0
        )
        assert world.snapshot() == before


@pytest.mark.parametrize("way", ["view", "alone"])
def test_a_link_in_the_place_of_a_nested_repository_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "alone":
        monkeypatch.setattr(bwrap_mounts, "_NAMESPACE", ("--no-such-option",))
    world = make_world(tmp_path)
    git(world.home, "init", "--quiet", "code/repo")
    with at_work("bubblewrap", world) as place:
        (world.project / "nested").rename(world.root / "nested")
        (world.project / "nested").symlink_to("..")  # as a program of another session might
        before = world.snapshot()
        done = place.sh(
            "ls nested/ nested/repo; cat nested/repo/.git/config; echo x >> nested/repo/.git/config"
        )
        assert b"repo" not in done.stdout
        assert world.snapshot() == before


SWAP = f"""#!/bin/sh
[ -e "{{armed}}" ] && rm "{{armed}}" && mv "{{nested}}" "{{aside}}" && ln -s ../home "{{nested}}"
exec {shutil.which("bwrap")} "$@"
"""
"""A ``bwrap`` that is overtaken, once, by a program of another session."""


@pytest.mark.parametrize("way", ["view", "alone"])
def test_a_link_that_is_made_while_bubblewrap_mounts_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "alone":
        monkeypatch.setattr(bwrap_mounts, "_NAMESPACE", ("--no-such-option",))
    world = make_world(tmp_path)
    # Beside the project as beside what programs see of it, so that the link leads to something on both sides.
    git(world.home, "init", "--quiet", "code/home/repo")
    (world.home / "code/home/key").touch()
    swapping, armed = tmp_path / "bin/bwrap", tmp_path / "armed"
    swapping.parent.mkdir()
    swapping.write_text(
        SWAP.format(armed=armed, nested=world.project / "nested", aside=tmp_path / "aside"), encoding="utf-8"
    )
    swapping.chmod(0o755)
    path = f"{swapping.parent}:{world.environ['PATH']}"
    sandbox = open_sandbox(
        "bubblewrap", world.root / "task", environ=world.environ | {"PATH": path}, project=world.project
    )
    asyncio.run(sandbox.prepare())
    try:
        for _ in range(5):  # then it is given up to mount all at once where that never works
            asyncio.run(sandbox.exec(("true",), timeout=WITHIN))
        (world.project / ".git").rename(tmp_path / "old")  # so that all is mounted anew
        git(world.project, "init", "--quiet")
        armed.touch()
        shown = b""
        script = "ls ~ nested; echo x > ~/planted; echo x > nested/planted"
        with suppress(SandboxError):
            shown = asyncio.run(sandbox.exec(("bash", "-c", script), timeout=WITHIN)).stdout
        assert not armed.exists()
        assert (world.project / "nested").is_symlink()
        assert b"key" not in shown
        assert not (world.home / "code/home/planted").exists()
        assert asyncio.run(sandbox.exec(("true",), timeout=WITHIN)).exit_code == 0
    finally:
        asyncio.run(sandbox.destroy())


# What is made to be mounted on


def test_nothing_is_left_in_a_folder_without_git(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    with at_work("bubblewrap", world):
        pass
    assert [path.name for path in world.project.iterdir()] == ["file"]


def test_a_repository_that_the_person_makes_meanwhile_is_seen_and_stays(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    with at_work("bubblewrap", world) as place:
        git(world.project, "init", "--quiet")
        assert place.sh("git status").exit_code == 0
        assert place.sh("git config a.b c").exit_code != 0
    assert (world.project / ".git/HEAD").exists()
    assert not (world.project / "HEAD").exists()


def test_what_a_session_uses_another_one_does_not_take_away(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    with at_work("bubblewrap", world) as place:
        other = open_sandbox(
            "bubblewrap", world.root / "task/other", environ=world.environ, project=world.project
        )
        asyncio.run(other.prepare())
        asyncio.run(other.destroy())
        assert (world.project / ".git").is_dir()
        assert place.sh("git init").exit_code != 0
    assert [path.name for path in world.project.iterdir()] == ["file"]


def test_an_empty_folder_of_the_person_stays(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    (world.project / ".git").mkdir()
    with at_work("bubblewrap", world) as place:
        assert place.sh("git init").exit_code != 0
    assert (world.project / ".git").is_dir()


KILLED = """
import asyncio, sys
from pathlib import Path
from kakite.sandbox import open_sandbox

task, home, project = map(Path, sys.argv[1:])
environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
sandbox = open_sandbox("bubblewrap", task, environ=environ, project=project)
asyncio.run(sandbox.prepare())
print("ready", flush=True)
input()
"""


def test_after_a_kill_the_next_start_removes_the_empty_folders(tmp_path: Path) -> None:
    world = make_world(tmp_path, repository=False)
    with at_work("bubblewrap", world):
        pass
    argv = (sys.executable, "-c", KILLED, *map(str, (world.root / "task", world.home, world.project)))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGKILL)
        child.wait(WITHIN)
    left = sorted(path for path in world.project.iterdir() if path.name != "file")
    assert [(path.name, list(path.iterdir())) for path in left] == [(".git", []), ("HEAD", [])]
    with at_work("bubblewrap", world):
        pass
    assert [path.name for path in world.project.iterdir()] == ["file"]
