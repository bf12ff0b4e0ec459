"""What commands in bubblewrap see is mounted once for all of them: nobody must notice."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.bounds import WITHIN
from tests.sandbox.conftest import PATH, SECRET, Place, open_bubblewrap, wait_until_gone

from kakite.cli.sandbox_selftest import work_in_repository
from kakite.processes import CompletedProcess, SpawnServer, SpawnServerConfig, supervisor
from kakite.sandbox import ResourceLimits, SandboxError, SandboxSpec, open_sandbox
from kakite.sandbox.backends import bwrap_mounts
from kakite.sandbox.selftest.cases import LIMITS, attempt_all, load_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

AS_ROOT = os.geteuid() == 0


def starters() -> list[int]:
    below = supervisor.list_descendants(os.getpid())
    return [pid for pid in below if b"/spawn_server_main." in Path(f"/proc/{pid}/cmdline").read_bytes()]


def of_files(most: int) -> SandboxSpec:
    return SandboxSpec(limits=ResourceLimits(open_files=most))


def put(path: Path) -> None:
    """Put a secret that only its owner may read there, in place of what is there."""
    new = path.with_name("new")
    new.write_text(SECRET, encoding="utf-8")
    new.chmod(0o600)
    new.rename(path)


class Gate:
    """A ``bwrap`` that can be made to wait, once, when it has mounted what all commands see."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.environ = {"HOME": str(folder.parent), "PATH": f"{folder}:{PATH}"}
        self._asked, self._answered, self._armed = folder / "asked", folder / "answered", folder / "armed"
        os.mkfifo(self._asked)
        os.mkfifo(self._answered)
        program = folder / "bwrap"
        program.write_text(
            f"""#!{sys.executable} -IS
import os, sys
words = ["bwrap", *sys.argv[1:]]
if "--dev-bind / / " in " ".join(words) and os.path.exists("{self._armed}"):
    os.unlink("{self._armed}")
    wait = 'echo > "$1"; read answer < "$2"; shift 2; exec "$@"'
    at = words.index("--") + 1
    words[at:at] = ["/bin/sh", "-c", wait, "sh", "{self._asked}", "{self._answered}"]
os.execv("{shutil.which("bwrap", path=PATH)}", words)
""",
            encoding="utf-8",
        )
        program.chmod(0o755)

    @contextmanager
    def when_all_is_mounted(self, act: Callable[[], None]) -> Generator[None]:
        def answer() -> None:
            asked = os.open(self._asked, os.O_RDWR)  # both ends, so that no opening waits
            answered = os.open(self._answered, os.O_RDWR)
            try:
                assert select.select([asked], [], [], WITHIN)[0], "nothing was mounted anew"
                act()
                os.write(answered, b"\n")
            finally:
                gone.wait(WITHIN)
                os.close(asked)
                os.close(answered)

        gone = threading.Event()
        self._armed.touch()
        with ThreadPoolExecutor() as threads:
            done = threads.submit(answer)
            try:
                yield
            finally:
                gone.set()
            done.result(60)


@pytest.fixture
def each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no namespace can be made within another one."""
    monkeypatch.setattr(bwrap_mounts, "_NAMESPACE", ("--no-such-option",))


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


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_what_is_replaced_before_the_first_look_stays_hidden(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        Path(name).chmod(0o755)
        closed = Path(name, "closed")
        put(closed)
        gate = Gate(tmp_path / "gate")
        sandbox = open_sandbox("bubblewrap", tmp_path / "task", environ=gate.environ)
        asyncio.run(sandbox.prepare())
        place = Place(sandbox, tmp_path / "task", tmp_path, tmp_path)
        assert place.run("cat", str(closed)).stdout == b""
        before = starters()
        put(closed)  # so that all is mounted anew
        with gate.when_all_is_mounted(lambda: put(closed)):
            assert place.run("cat", str(closed)).stdout == b""
        assert starters() != before
        for _ in range(3):
            assert place.run("cat", str(closed)).stdout == b""


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_what_was_away_while_all_was_mounted_is_hidden_when_it_is_back(bubblewrap: Place) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        Path(name).chmod(0o755)
        one, other = Path(name, "one"), Path(name, "other")
        put(one)
        put(other)
        asyncio.run(bubblewrap.sandbox.prepare())
        one.unlink()
        put(other)
        assert bubblewrap.sh(f"cat {name}/*").stdout == b""
        put(one)
        assert bubblewrap.sh(f"cat {name}/*").stdout == b""


MOUNTED_LATER = """
import asyncio, subprocess, sys
from pathlib import Path
from tests.sandbox.conftest import open_bubblewrap

place, there = open_bubblewrap(Path(sys.argv[1])), Path(sys.argv[2])
assert place.sh(f"ls -A {there}").stdout == b""
subprocess.run(("mount", "-t", "tmpfs", "later", there), check=True)
subprocess.run(("mknod", "-m", "666", there / "zero", "c", "1", "5"), check=True)
(there / "file").write_text("theirs", encoding="utf-8")
for _ in range(2):
    done = place.sh(f"ls {there}; echo x > {there}/new; head -c 1 {there}/zero | wc -c; rm {there}/file")
    print(done.stdout.decode().split(), [path.name for path in sorted(there.iterdir())])
subprocess.run(("umount", there), check=True)  # nobody keeps it
print(place.sh(f"ls {there}").stdout.decode().split())
asyncio.run(place.sandbox.destroy())
"""


@pytest.mark.skipif(not AS_ROOT, reason="only root may mount")
def test_what_the_host_mounts_later_cannot_be_written_and_has_no_devices(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        Path(name).chmod(0o755)
        # Mounts of a system reach other namespaces; these have one of their own, which ends with them.
        apart = ("unshare", "--mount", "--propagation", "shared", "--", sys.executable, "-c", MOUNTED_LATER)
        done = subprocess.run(
            (*apart, str(tmp_path), name), capture_output=True, encoding="utf-8", timeout=90, check=False
        )
    if "skipped" in done.stderr.lower():
        pytest.skip(done.stderr.splitlines()[-1])
    seen = "['file', 'zero', '0'] ['file', 'zero']\n"
    assert (done.stdout, done.returncode) == (f"{seen}{seen}[]\n", 0), done.stderr


def test_commands_start_from_the_same_process_as_long_as_nothing_changes(bubblewrap: Place) -> None:
    def is_kept() -> bool:
        bubblewrap.run("true")
        before = starters()
        assert before
        assert bubblewrap.sh("mkdir a b; mv a b/a; touch /tmp/x; rm -r b").exit_code == 0
        bubblewrap.run("true")
        return starters() == before

    # What another test mounts on this machine meanwhile is a change as well: that time does not count.
    kept = False
    for _ in range(50):
        mounts = Path("/proc/self/mountinfo").read_bytes()
        kept = is_kept()
        if kept or mounts == Path("/proc/self/mountinfo").read_bytes():
            break
    assert kept


def test_a_project_that_is_replaced_is_seen_by_the_next_command(bubblewrap: Place) -> None:
    assert bubblewrap.sh("touch old; ls").stdout == b"old\n"
    shutil.rmtree(bubblewrap.project)
    bubblewrap.project.mkdir()
    (bubblewrap.project / "new").touch()
    assert bubblewrap.sh("ls; touch newer").stdout == b"new\n"
    assert (bubblewrap.project / "newer").exists()


def test_a_command_goes_on_while_what_the_next_ones_see_is_made_again(bubblewrap: Place) -> None:
    async def scene() -> tuple[CompletedProcess, CompletedProcess]:
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
        other = await bubblewrap.sandbox.exec(("touch", "here"), timeout=WITHIN)
        (bubblewrap.folder / "home/go").touch()
        return await going, other

    first, other = asyncio.run(asyncio.wait_for(scene(), WITHIN))
    assert (first.exit_code, first.stdout) == (0, b"here\non\n")
    assert other.exit_code == 0
    assert (bubblewrap.project / "here").exists()


def test_commands_have_nothing_of_each_other_but_the_tasks_folders(bubblewrap: Place) -> None:
    for folder in ("/dev/shm", "/run", "/run/kakite", "/var", "/root", "/dev"):
        bubblewrap.sh(f"mkdir -p {folder}/kakite-was-here")
        assert bubblewrap.sh(f"test -e {folder}/kakite-was-here").exit_code == 1, folder


def test_nothing_else_waits_for_what_starts_commands_and_no_command_dies_of_it(bubblewrap: Place) -> None:
    """It shares the limits of the commands: one that uses up the processors keeps it from going on."""

    async def scene() -> tuple[CompletedProcess, ...]:
        here = asyncio.Event()
        script = "echo here; until [ -e ~/go ]; do sleep .02; done; echo on"
        going = asyncio.create_task(
            bubblewrap.sandbox.exec(
                ("bash", "-c", script), timeout=60, on_output=lambda _stream, _data: here.set()
            )
        )
        await here.wait()
        stopped = starters()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            late = asyncio.create_task(bubblewrap.sandbox.exec(("echo", "late"), timeout=60))
            cancelled = asyncio.create_task(bubblewrap.sandbox.exec(("sleep", "7782"), timeout=60))
            short = await asyncio.wait_for(bubblewrap.sandbox.exec(("sleep", "7782"), timeout=0.5), WITHIN)
            cancelled.cancel()
            await asyncio.wait([cancelled], timeout=WITHIN)
            assert cancelled.cancelled()
            (bubblewrap.folder / "home/go").touch()
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        return short, await late, await going

    short, late, going = asyncio.run(asyncio.wait_for(scene(), WITHIN))
    assert (short.timed_out, short.limit, short.stdout) == (True, "time", b"")
    assert (late.exit_code, late.stdout) == (0, b"late\n")
    assert (going.exit_code, going.stdout) == (0, b"here\non\n")
    for pid in supervisor.list_descendants(os.getpid()):
        with suppress(OSError):
            if b"\x007782\x00" in Path(f"/proc/{pid}/cmdline").read_bytes():
                wait_until_gone(pid)


def test_a_starter_that_ends_takes_along_all_of_a_programs_group() -> None:
    """Bubblewrap's own processes are in it until they can see to that themselves."""
    starter = SpawnServer(SpawnServerConfig)
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="ascii") as told:
        _, line = starter.start(("/bin/sh", "-c", "sleep 7792 & echo $!; wait"), {"PATH": PATH}, {1: writing})
        os.close(writing)
        below = os.pidfd_open(int(told.readline()))
        try:
            starter.close()
            assert select.select([below], [], [], WITHIN)[0], "it lives on"
            assert not line.lives
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(below, signal.SIGKILL)
            os.close(below)


def test_what_starts_commands_is_replaced_when_it_is_killed(bubblewrap: Place) -> None:
    assert bubblewrap.run("true").exit_code == 0
    before = starters()
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert bubblewrap.run("echo", "on").stdout == b"on\n"


def test_a_command_whose_starter_is_killed_says_so(bubblewrap: Place) -> None:
    async def scene() -> CompletedProcess:
        here = asyncio.Event()
        going = asyncio.create_task(
            bubblewrap.sandbox.exec(
                ("bash", "-c", "echo here; sleep 60"), timeout=60, on_output=lambda _stream, _data: here.set()
            )
        )
        await here.wait()
        for pid in starters():
            os.kill(pid, signal.SIGKILL)
        return await going

    done = asyncio.run(asyncio.wait_for(scene(), WITHIN))
    assert (done.exit_code, done.stdout) == (137, b"here\n")
    assert b"what starts the commands of this task was killed" in done.stderr


@pytest.mark.parametrize(
    "said", ["bwrap: Can't mkdir /x: Read-only file system", "bwrap: it is broken", "Cannot fork"]
)
@pytest.mark.parametrize("code", [0, 1])
def test_no_command_can_say_that_it_never_began(bubblewrap: Place, said: str, code: int) -> None:
    done = bubblewrap.sh(f"echo ran >> count; printf '%s\\n' \"{said}\" > /proc/1/fd/2; exit {code}")
    assert done.exit_code == code
    assert (bubblewrap.project / "count").read_text(encoding="utf-8") == "ran\n"


def test_what_starts_commands_ends_with_the_sandbox(bubblewrap: Place) -> None:
    bubblewrap.run("true")
    left = starters()
    assert left
    asyncio.run(bubblewrap.sandbox.destroy())
    for pid in left:
        if Path(f"/proc/{pid}").exists():
            wait_until_gone(pid)


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_few_open_files_are_enough_for_commands_or_an_error_says_so(tmp_path: Path) -> None:
    for most in (40, 36, 33, 24):
        folder = tmp_path / str(most)
        place = Place(open_sandbox("bubblewrap", folder, terms=of_files(most)), folder, folder, folder)
        asyncio.run(place.sandbox.prepare())
        before = starters()
        assert place.sh("ulimit -n").stdout == b"%d\n" % most
        assert starters() == before != []
        asyncio.run(place.sandbox.destroy())
    with pytest.raises(SandboxError, match="Too many open files"):
        asyncio.run(open_sandbox("bubblewrap", tmp_path / "few", terms=of_files(15)).prepare())


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
    place = open_bubblewrap(tmp_path, SandboxSpec(limits=LIMITS))
    chosen = [attempt for attempt in load_cases() if attempt.harm != "exhaustion"]
    outcomes = asyncio.run(attempt_all(place.sandbox, acts={"git": work_in_repository}, chosen=chosen))
    assert [outcome for outcome in outcomes if outcome.state != "held"] == []
    asyncio.run(place.sandbox.destroy())
