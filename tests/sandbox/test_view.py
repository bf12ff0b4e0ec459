"""What commands in bubblewrap see is mounted once for all of them: nobody must notice."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from tests.sandbox.conftest import Place, open_bubblewrap, wait_until_gone

from kakite.cli.escapes import work_in_repository
from kakite.processes import Completed, supervisor
from kakite.sandbox import Terms, view
from kakite.sandbox.attempts import LIMITS, attempt_all, attempts

AS_ROOT = os.geteuid() == 0


def starters() -> list[int]:
    below = supervisor.descendants(os.getpid())
    return [pid for pid in below if b"/starting." in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture
def each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no namespace can be made within another one."""
    monkeypatch.setattr(view, "_NAMESPACE", ("--no-such-option",))


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_hidden_stays_hidden_when_it_is_replaced(bubblewrap: Place, kind: str) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        Path(name).chmod(0o755)

        def put(new: str) -> Path:
            path = Path(name, new)
            if kind == "folder":
                path.mkdir()
            inner = path / "key" if kind == "folder" else path
            inner.write_text(bubblewrap.secret, encoding="utf-8")
            path.chmod(0o700)
            return path

        closed = put("closed")
        asyncio.run(bubblewrap.sandbox.prepare())
        look = f"grep -rs . {name}; ls {name}"
        assert bubblewrap.sh(look).stdout == b"closed\n"
        shutil.rmtree(closed) if kind == "folder" else closed.unlink()
        put("new").rename(closed)
        assert bubblewrap.sh(look).stdout == b"closed\n"
        assert bubblewrap.sh(look).stdout == b"closed\n"


def test_a_project_that_is_replaced_is_seen_by_the_next_command(bubblewrap: Place) -> None:
    assert bubblewrap.sh("touch old; ls").stdout == b"old\n"
    shutil.rmtree(bubblewrap.project)
    bubblewrap.project.mkdir()
    (bubblewrap.project / "new").touch()
    assert bubblewrap.sh("ls; touch newer").stdout == b"new\n"
    assert (bubblewrap.project / "newer").exists()


def test_a_command_goes_on_while_what_the_next_ones_see_is_made_again(bubblewrap: Place) -> None:
    async def scene() -> tuple[Completed, Completed]:
        here = asyncio.Event()
        script = "echo here; until [ -e ~/go ]; do sleep .02; done; echo on"
        going = asyncio.create_task(
            bubblewrap.sandbox.exec(
                ("bash", "-c", script), timeout=60, on_output=lambda _stream, _data: here.set()
            )
        )
        await here.wait()
        bubblewrap.project.rename(bubblewrap.folder / "aside")
        bubblewrap.project.mkdir()
        other = await bubblewrap.sandbox.exec(("touch", "here"), timeout=30)
        (bubblewrap.folder / "home/go").touch()
        return await going, other

    first, other = asyncio.run(asyncio.wait_for(scene(), 90))
    assert (first.exit_code, first.stdout) == (0, b"here\non\n")
    assert other.exit_code == 0
    assert (bubblewrap.project / "here").exists()


def test_commands_have_nothing_of_each_other_but_the_tasks_folders(bubblewrap: Place) -> None:
    for folder in ("/dev/shm", "/run", "/run/kakite", "/var", "/root", "/dev"):
        bubblewrap.sh(f"mkdir -p {folder}/kakite-was-here")
        assert bubblewrap.sh(f"test -e {folder}/kakite-was-here").exit_code == 1, folder


def test_what_starts_commands_is_replaced_when_it_is_killed(bubblewrap: Place) -> None:
    assert bubblewrap.run("true").exit_code == 0
    before = starters()
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert bubblewrap.run("echo", "on").stdout == b"on\n"


def test_what_starts_commands_ends_with_the_sandbox(bubblewrap: Place) -> None:
    bubblewrap.run("true")
    left = starters()
    assert left
    asyncio.run(bubblewrap.sandbox.destroy())
    for pid in left:
        if Path(f"/proc/{pid}").exists():
            wait_until_gone(pid)


@pytest.mark.usefixtures("each_alone")
def test_where_no_namespace_is_made_in_another_each_command_mounts_all(bubblewrap: Place) -> None:
    done = bubblewrap.sh(
        f"touch here /tmp/there; ls -d {bubblewrap.home} {bubblewrap.runs}; ls -A /run/kakite"
    )
    assert (done.exit_code, done.stdout) == (0, b"")
    assert (bubblewrap.project / "here").exists()
    assert bubblewrap.sh("ls -A /run/kakite", network="registries").stdout == b"proxy\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("each_alone")
def test_attempts_are_held_there_as_well(tmp_path: Path) -> None:
    place = open_bubblewrap(tmp_path, Terms(limits=LIMITS))
    chosen = [attempt for attempt in attempts() if attempt.harm != "exhaustion"]
    outcomes = asyncio.run(attempt_all(place.sandbox, acts={"git": work_in_repository}, chosen=chosen))
    assert [outcome for outcome in outcomes if outcome.state != "held"] == []
    asyncio.run(place.sandbox.destroy())
