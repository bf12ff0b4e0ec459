"""What every kind of sandbox does alike."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.bounds import WITHIN, time_out
from tests.cli.program import NO_ENGINE

import kakite
from kakite.errors import UsageError
from kakite.processes import build_proxy_environment, start
from kakite.sandbox import BackendInfo, SandboxError, list_backends, open_sandbox

if TYPE_CHECKING:
    from tests.sandbox.conftest import Place

ECHO = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"


def test_a_program_runs_in_the_project(place: Place) -> None:
    (place.project / "given.txt").write_text("given", encoding="utf-8")
    done = place.sh("pwd; cat given.txt; echo made > made.txt; echo oops >&2; exit 3")
    assert (done.exit_code, done.stderr) == (3, b"oops\n")
    assert done.stdout.decode() == f"{place.sandbox.project}\ngiven"
    assert (place.project / "made.txt").read_text(encoding="utf-8") == "made\n"


def test_input_reaches_a_program(place: Place) -> None:
    assert place.run("cat", stdin=b"x" * 200_000).stdout == b"x" * 200_000


def test_a_folder_is_taken_relative_to_the_project(place: Place) -> None:
    (place.project / "a/b").mkdir(parents=True)
    for cwd in ("a/b", f"{place.sandbox.project}/a/b"):
        assert place.run("pwd", cwd=cwd).stdout.decode() == f"{place.sandbox.project}/a/b\n"


def test_a_missing_folder_is_an_error(place: Place) -> None:
    with pytest.raises(SandboxError) as caught:
        place.run("true", cwd="nowhere")
    assert caught.value.code == "folder_missing"


def test_a_missing_program_is_a_result_as_in_a_shell(place: Place) -> None:
    done = place.run("no-such-program", "x")
    assert done.exit_code == 127
    assert b"no-such-program" in done.stderr


@pytest.mark.parametrize("program", ["/etc/passwd", "/etc"])
def test_what_cannot_be_started_is_a_result_as_in_a_shell(place: Place, program: str) -> None:
    done = place.run(program, "x")
    assert done.exit_code == 126
    assert program.encode() in done.stderr


def test_death_by_a_signal_is_128_more_than_its_number(place: Place) -> None:
    assert place.sh("kill -9 $$").exit_code == 128 + signal.SIGKILL


def test_programs_get_the_minimal_environment_and_what_is_added(place: Place) -> None:
    done = place.run("env", "-0", env={"ADDED": "1", "LD_LIBRARY_PATH": "/nowhere"})
    env = dict(pair.split("=", 1) for pair in done.stdout.decode().split("\0") if pair)
    ours = {"PATH", "HOME", "TMPDIR", "KAKITE_RUN"}
    if place.sandbox.isolates:
        ours |= set(build_proxy_environment("off"))
    assert set(env) - {"PWD"} == {*ours, "ADDED", "LD_LIBRARY_PATH"}
    assert place.secret not in done.stdout.decode()


def test_home_and_temporary_files_are_the_tasks_own_and_stay(place: Place) -> None:
    assert place.sh("echo 1 > ~/a; mktemp > /dev/null; [ $HOME != " + str(place.home) + " ]").exit_code == 0
    assert place.run("bash", "-c", "cat ~/a").stdout == b"1\n"
    assert (place.folder / "home/a").exists()


def test_a_timeout_gives_what_was_written_and_lets_programs_clean_up(place: Place) -> None:
    script = "trap 'echo bye; exit' TERM; echo here; sleep 300 & wait"
    done = time_out(lambda seconds: place.sh(script, timeout=seconds))
    assert (done.timed_out, done.exit_code) == (True, None)
    assert done.stdout == b"here\nbye\n"


def test_a_program_that_resists_is_killed_at_a_timeout(place: Place) -> None:
    script = "trap '' TERM; echo here; while :; do setsid sleep 13579; done"
    done = time_out(lambda seconds: place.sh(script, timeout=seconds))
    assert (done.timed_out, done.stdout) == (True, b"here\n")
    assert until_gone(b"sleep\x0013579")


def test_output_is_told_while_it_comes_and_its_middle_dropped(place: Place) -> None:
    told: list[bytes] = []

    def tell(_: str, data: bytes) -> None:
        told.append(data)

    done = place.sh("echo first; seq 100000; echo last", limit=100, on_output=tell)
    assert done.stdout.startswith(b"first\n1\n")
    assert done.stdout.endswith(b"100000\nlast\n")
    assert sum(map(len, told)) == len(done.stdout) + done.stdout_dropped


def test_a_server_over_stdio_runs_inside(place: Place) -> None:
    async def talk() -> tuple[bytes, int | None]:
        child = await start(place.sandbox.build_process_spec((sys.executable, "-I", "-c", ECHO)))
        child.stdin.write(b"hello\n")
        answer = await child.stdout.readline()
        await child.stop()
        return answer, child.returncode

    assert asyncio.run(asyncio.wait_for(talk(), WITHIN)) == (b"HELLO\n", 0)


def test_kakite_itself_can_be_started_inside(place: Place) -> None:
    source = str(Path(kakite.__file__).parents[1])
    script = "import kakite; print(kakite.__version__)"
    done = place.run(sys.executable, "-c", script, env={"PYTHONPATH": source})
    assert done.stdout.decode() == f"{kakite.__version__}\n"


def test_a_daemon_does_not_outlive_its_command(place: Place) -> None:
    daemon = "setsid bash -c 'echo $BASHPID > pid; exec sleep 12345' > /dev/null 2>&1 < /dev/null &"
    assert place.sh(daemon + " while ! [ -s pid ]; do :; done").exit_code == 0
    assert until_gone(b"sleep\x0012345")


def until_gone(arguments: bytes, seconds: float = WITHIN) -> bool:
    """The kernel ends a process namespace without anybody waiting for it."""
    end = time.monotonic() + seconds
    while (living := running(arguments)) and time.monotonic() < end:
        os.sched_yield()
    return not living


def running(arguments: bytes) -> bool:
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and arguments in (folder / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def test_destroy_deletes_temporary_files_and_keeps_the_project(place: Place) -> None:
    place.sh("touch $TMPDIR/temporary project-file ~/home-file")
    asyncio.run(place.sandbox.destroy())
    assert not list(place.folder.rglob("temporary"))
    assert (place.project / "project-file").exists()
    assert (place.folder / "home/home-file").exists()


def test_a_task_folder_is_closed_to_other_users(place: Place) -> None:
    assert place.folder.stat().st_mode & 0o777 == 0o700


def test_preparing_twice_keeps_what_is_there(place: Place) -> None:
    (place.project / "a").touch()
    asyncio.run(place.sandbox.prepare())
    assert (place.project / "a").exists()


# By name


def test_local_says_that_it_does_not_isolate(tmp_path: Path) -> None:
    sandbox = open_sandbox("local", tmp_path)
    assert (sandbox.kind, sandbox.isolates) == ("local", False)


def test_auto_is_never_without_isolation(tmp_path: Path) -> None:
    assert open_sandbox("auto", tmp_path).isolates


def test_an_unknown_kind_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_sandbox("vault", tmp_path)
    assert caught.value.code == "unknown_sandbox"
    assert "bubblewrap" in caught.value.hint


def test_without_bubblewrap_auto_fails_and_tells_both_ways_out(tmp_path: Path) -> None:
    sandbox = open_sandbox("auto", tmp_path / "run", environ={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    with pytest.raises(SandboxError) as caught:
        asyncio.run(sandbox.prepare())
    assert caught.value.code == "sandbox_missing"
    assert "apt install bubblewrap" in caught.value.hint
    assert "--sandbox local" in caught.value.hint


def test_a_bubblewrap_that_does_not_work_counts_as_missing(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    failure = "bwrap: setting up uid map: Permission denied"
    program.write_text(f"#!/bin/sh\necho '{failure}' >&2; exit 1\n", encoding="utf-8")
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), **NO_ENGINE}
    found = asyncio.run(list_backends(environ))
    expected = [("container", False), ("bubblewrap", False), ("local", True)]
    assert [(kind.name, kind.available) for kind in found] == expected
    assert "uid map" in found[1].note


def test_local_is_available_everywhere() -> None:
    (local,) = [kind for kind in asyncio.run(list_backends()) if kind.name == "local"]
    assert local == BackendInfo(name="local", available=True, isolates=False, note=local.note)


def test_a_sandbox_that_was_not_prepared_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(SandboxError):
        open_sandbox("bubblewrap", tmp_path).build_process_spec(("true",))


# Folders that programs of another user wrote in, as those in a container are where one is root

OTHER = 59000


def given_away(place: Place) -> list[Path]:
    place.sh("mkdir -p a/b; echo 1 > a/b/c; ln a/b/c again; chmod 600 a/b/c; echo 2 > ~/kept")
    (place.project / "link").symlink_to(place.home / ".netrc")
    found = [*place.project.rglob("*"), *(place.folder / "home").rglob("*")]
    for path in (place.project, place.folder / "home", *found):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_what_another_user_was_given_is_ours_again_and_links_are_not_followed(place: Place) -> None:
    found = given_away(place)
    theirs = place.home / ".netrc"
    os.chown(theirs, OTHER, OTHER)
    asyncio.run(place.sandbox.prepare())
    assert {path.lstat().st_uid for path in (place.project, place.folder / "home", *found)} == {0}
    assert theirs.stat().st_uid == OTHER
    assert place.sh("cat a/b/c ~/kept; echo 3 > a/b/c; git init -q; git status").exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_only_root_takes_back_what_another_user_was_given(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_away(place)
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    with pytest.raises(SandboxError) as caught:
        asyncio.run(place.sandbox.prepare())
    assert caught.value.code == "folder_not_yours"
    assert f"chown -R 1234 {place.folder}" in caught.value.hint
