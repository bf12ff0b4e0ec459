"""What programs in a sandbox may use up; running into a limit is told, and the next command goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN, count_calls
from tests.lanes import examples
from tests.sandbox.conftest import open_bubblewrap

import kakite
from kakite.processes import CompletedProcess, start
from kakite.sandbox import ResourceLimits, SandboxSpec, open_sandbox
from kakite.sandbox.backends import cgroups
from kakite.sandbox.disk_limits import DEEPEST, DiskUsage, DiskWatch, measure

if TYPE_CHECKING:
    from tests.sandbox.conftest import Place

SMALL = ResourceLimits(memory=256 << 20, processes=64, disk=32 << 20, files=2000, open_files=200)
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def grouped() -> None:
    group = cgroups.make_group(SMALL)
    if group is None or not (group.has_limit("memory") and group.has_limit("pids")):
        pytest.skip("no control groups can be made here")
    assert group.remove()


@pytest.fixture
def limited(tmp_path: Path) -> Place:
    return open_bubblewrap(tmp_path, SandboxSpec(limits=SMALL))


@pytest.fixture
def ungrouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    def none(_: ResourceLimits) -> None:
        return None

    monkeypatch.setattr("kakite.sandbox.backends.bubblewrap.make_group", none)
    return open_bubblewrap(tmp_path, SandboxSpec(limits=SMALL))


# By control group

FORKS = """
import os, time
try:
    for count in range(200):
        if os.fork() == 0: time.sleep(60)
except OSError as error: print(error.errno, count < 100); raise
"""
HOG = """
room = bytearray(600 << 20)
for place in range(0, len(room), 4096): room[place] = 1
print("all of it")
"""


@pytest.mark.usefixtures("grouped")
def test_a_fork_bomb_is_refused_and_told(limited: Place) -> None:
    done = limited.python(FORKS)
    assert (done.exit_code, done.limit) == (1, "processes")
    assert done.stdout == b"11 True\n"
    assert limited.run("echo", "on").stdout == b"on\n"


@pytest.mark.usefixtures("grouped")
def test_a_bomb_that_never_ends_is_ended_by_its_time(limited: Place) -> None:
    done = limited.sh("f() { f | f & }; f 2> /dev/null; sleep 100", timeout=2)
    assert done.limit == "processes"
    assert limited.run("echo", "on").stdout == b"on\n"


FULL = """
import os, sys, time
begun = []
try:
    for _ in range(200):
        child = os.fork()
        if child == 0: time.sleep(60); os._exit(0)
        begun.append(child)
except OSError: pass
for child in begun[:int(sys.argv[1])]: os.kill(child, 9); os.waitpid(child, 0)
print("full", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("left", range(5))
def test_a_program_that_finds_no_process_left_is_told_which_limit_it_is(limited: Place, left: int) -> None:
    async def beside_a_full_one() -> CompletedProcess:
        full = (sys.executable, "-I", "-S", "-c", FULL, str(left))
        child = await start(limited.sandbox.build_process_spec(full))
        try:
            assert await child.stdout.readline() == b"full\n"
            return await limited.sandbox.exec(("echo", "on"), timeout=WITHIN)
        finally:
            await child.stop()

    done = asyncio.run(asyncio.wait_for(beside_a_full_one(), WITHIN))
    refused, ran = (126, "processes", b""), (0, "", b"on\n")
    assert (done.exit_code, done.limit, done.stdout) in ({refused} if left == 0 else {refused, ran})
    assert limited.run("echo", "on").stdout == b"on\n"


@pytest.mark.usefixtures("grouped")
def test_whoever_takes_too_much_memory_is_killed_and_it_is_told(limited: Place) -> None:
    done = limited.python(HOG)
    assert (done.exit_code, done.limit, done.stdout) == (137, "memory", b"")


@pytest.mark.usefixtures("grouped")
def test_memory_is_counted_over_all_programs_and_files_in_memory(limited: Place) -> None:
    script = "for i in 1 2 3 4; do head -c 30M /dev/zero > /dev/shm/$i || exit 9; done; "
    hog = f"{sys.executable} -I -S -c 'bytearray(b\"x\") * (200 << 20)'"
    assert limited.sh(script + hog).limit == "memory"


@pytest.mark.usefixtures("grouped")
def test_one_sandbox_at_its_limit_leaves_another_alone(limited: Place) -> None:
    other = open_sandbox("bubblewrap", limited.runs / "second", terms=SandboxSpec(limits=SMALL))

    async def both() -> tuple[str, bytes]:
        await other.prepare()
        bomb = asyncio.create_task(
            limited.sandbox.exec((sys.executable, "-I", "-S", "-c", FORKS), timeout=WITHIN)
        )
        fine = await other.exec(("sh", "-c", "sleep 0.3 & wait; echo fine"), timeout=WITHIN)
        limit = (await bomb).limit
        await other.destroy()
        return limit, fine.stdout

    assert asyncio.run(asyncio.wait_for(both(), WITHIN)) == ("processes", b"fine\n")


@pytest.mark.usefixtures("grouped")
def test_a_program_is_in_its_group_from_its_first_moment(limited: Place) -> None:
    inside = limited.run("cat", "/proc/self/cgroup").stdout.decode()
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    group = cgroups.make_group(SMALL)
    assert group is not None
    assert group.remove()
    assert len(group.entrances) >= 1
    assert inside != own  # the sandbox's namespace shows its own group as the top


@pytest.mark.usefixtures("grouped")
def test_processors_are_limited(tmp_path: Path) -> None:
    place = open_bubblewrap(tmp_path, SandboxSpec(limits=replace(SMALL, cpus=0.25)))
    script = """
import time
end = time.monotonic() + 2
while time.monotonic() < end: pass
print(time.process_time())
"""
    done = place.python(script)
    if "cpu" not in str(cgroups.make_group(replace(SMALL, cpus=0.25))):
        pytest.skip("no group for processors can be made here")
    assert float(done.stdout) < 1.2


def groups() -> list[Path]:
    return [
        path for top in Path("/sys/fs/cgroup").glob("*") for path in top.rglob(f"kakite-*-{os.getpid()}-*")
    ]


@pytest.mark.usefixtures("grouped")
def test_destroy_removes_the_group_also_while_programs_end(limited: Place) -> None:
    before = groups()
    assert before
    limited.sh("setsid sleep 100 & sleep 0.1")
    asyncio.run(limited.sandbox.destroy())
    assert len(groups()) < len(before)


@pytest.mark.usefixtures("grouped")
def test_a_group_whose_owner_died_is_removed_by_the_next_one(limited: Place) -> None:
    script = """
import os
from kakite.sandbox import ResourceLimits
from kakite.sandbox.backends import cgroups
print(*cgroups.make_group(ResourceLimits(cpus=1)).entrances, sep="\\n", flush=True)
os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(kakite.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, check=False)
    left = [Path(line).parent for line in done.stdout.decode().splitlines()]
    assert all(path.is_dir() for path in left)
    group = cgroups.make_group(ResourceLimits())  # which limits less than the one before
    assert group is not None
    assert not any(path.exists() for path in left)
    assert group.remove()
    assert limited.run("true").exit_code == 0, "a group whose owner lives was taken away"


@pytest.mark.usefixtures("grouped")
def test_what_a_dead_owner_left_in_its_group_is_ended_by_the_next_one(limited: Place) -> None:
    """Bubblewrap that is killed as it begins leaves a process that waits for it for ever."""
    script = """
import os, subprocess
from kakite.sandbox import ResourceLimits
from kakite.sandbox.backends import cgroups
entrances = cgroups.make_group(ResourceLimits()).entrances
enter = 'for each; do echo 0 > "$each"; done; echo; exec sleep 7791'
left = subprocess.Popen(["sh", "-c", enter, "sh", *entrances], stdout=subprocess.PIPE)
left.stdout.readline()
print(left.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(kakite.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, check=False)
    left = os.pidfd_open(int(done.stdout))
    try:
        group = cgroups.make_group(ResourceLimits())
        assert group is not None
        assert select.select([left], [], [], WITHIN)[0], "it lives on"
        assert group.remove()
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(left, signal.SIGKILL)
        os.close(left)
    assert limited.run("true").exit_code == 0, "one whose owner lives was ended"


@pytest.mark.usefixtures("grouped")
def test_a_group_that_is_gone_starts_nothing(limited: Place) -> None:
    from kakite.sandbox import SandboxError

    for path in groups():
        for pid in map(int, (path / "cgroup.procs").read_text("ascii").split()):  # who starts the commands
            gone = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            assert select.select([gone], [], [], WITHIN)[0]
            os.close(gone)
    for path in groups():
        path.rmdir()
    with pytest.raises(SandboxError):
        limited.run("true")


# Without control groups


@pytest.mark.skipif(AS_ROOT, reason="root's processes are not counted; a test below does it as another user")
def test_processes_are_limited_without_a_group(ungrouped: Place) -> None:
    assert ungrouped.python(FORKS).stdout == b"11 True\n"


def test_memory_is_limited_without_a_group(ungrouped: Place) -> None:
    done = ungrouped.python(HOG)
    assert b"MemoryError" in done.stderr
    assert b"all of it" not in done.stdout


def test_a_missing_program_is_a_result_without_a_group_too(ungrouped: Place) -> None:
    done = ungrouped.run("no-such-program", "x")
    assert done.exit_code == 127
    assert b"no-such-program" in done.stderr


# The disk


def test_a_file_that_is_too_large_is_told(limited: Place) -> None:
    done = limited.sh("exec cat /dev/zero > large")
    assert (done.exit_code, done.limit) == (153, "disk")
    assert (limited.project / "large").stat().st_size <= SMALL.disk


def test_many_files_that_are_too_large_together_are_told(limited: Place) -> None:
    script = "i=0; while :; do i=$((i + 1)); head -c 4M /dev/zero > f$i; sleep 0.02; done"
    done = limited.sh(script)
    assert done.limit == "disk"
    assert not done.timed_out
    # Whoever is over the limit can delete, and is not killed again for what was there before.
    gone = limited.sh("sleep 1; rm -f f*; echo gone")
    assert (gone.stdout, gone.limit) == (b"gone\n", "")


def test_many_small_files_are_told(limited: Place) -> None:
    script = "import os\nfor i in range(10 ** 7): os.close(os.open(f'x{i}', os.O_CREAT))"
    assert limited.python(script, timeout=60).limit == "files"


def test_files_without_a_name_count(limited: Place) -> None:
    script = """
import os
kept = []
while True:
    kept.append(open("gone", "wb")); os.unlink("gone"); kept[-1].write(bytes(4 << 20)); kept[-1].flush()
    if len(kept) == 40: import time; time.sleep(60)
"""
    assert limited.python(script, timeout=60).limit == "disk"


def test_a_server_survives_the_end_of_the_command_that_filled_the_disk(limited: Place) -> None:
    script = """
import subprocess, sys
for line in sys.stdin:
    command = "i=0; while :; do i=$((i+1)); head -c 4M /dev/zero > f$i; sleep 0.02; done"
    print(subprocess.run(["sh", "-c", command]).returncode, flush=True)
"""

    async def serve() -> bytes:
        child = await start(limited.sandbox.build_process_spec((sys.executable, "-I", "-S", "-c", script)))
        child.stdin.write(b"go\n")
        answer = await child.stdout.readline()
        await child.stop()
        return answer

    assert asyncio.run(asyncio.wait_for(serve(), WITHIN)) == b"-9\n"


def test_open_files_are_limited(limited: Place) -> None:
    script = "import os\ntry:\n    while True: last = os.open('/', 0)\nexcept OSError: print(last < 200)"
    assert limited.python(script).stdout == b"True\n"


def test_nothing_is_left_open_for_programs_but_their_streams(limited: Place) -> None:
    assert limited.python("import os; print(os.listdir('/proc/self/fd'))").stdout == b"['0', '1', '2', '3']\n"


def test_no_core_is_written(limited: Place) -> None:
    assert limited.sh("ulimit -c; ulimit -Hc").stdout == b"0\n0\n"


# Measuring


@settings(max_examples=examples(30), deadline=None)
@given(
    st.recursive(
        st.binary(max_size=20_000),
        lambda below: st.dictionaries(st.sampled_from("abcdef"), below, max_size=4),
        max_leaves=12,
    ).filter(lambda tree: isinstance(tree, dict))
)
def test_a_folder_measures_what_du_says(tree: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as name:
        grow(Path(name), tree)
        usage = measure(Path(name))
        told = subprocess.run(["du", "-s", "--block-size=1", name], stdout=subprocess.PIPE, check=True)
        assert usage.size == int(told.stdout.split()[0]) - Path(name).stat().st_blocks * 512
        assert usage.files == len(list(Path(name).rglob("*")))


def grow(folder: Path, tree: dict[str, object]) -> None:
    for name, below in tree.items():
        if isinstance(below, dict):
            (folder / name).mkdir()
            grow(folder / name, below)  # pyright: ignore[reportUnknownArgumentType]
        else:
            assert isinstance(below, bytes)
            (folder / name).write_bytes(below)


def test_links_are_not_followed_and_names_of_one_file_count_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 50_000)
    once = measure(tmp_path)
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "again").hardlink_to(tmp_path / "file")
    (tmp_path / "loop").symlink_to(".")
    twice = measure(tmp_path)
    assert twice.files == once.files + 3
    assert twice.size - once.size < 50_000


def test_a_tree_of_any_depth_is_measured_and_told(tmp_path: Path) -> None:
    script = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    usage = measure(tmp_path)
    assert usage.too_deep
    assert usage.files >= DEEPEST - 1
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_folder_without_a_way_in_is_measured_from_outside(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    assert measure(tmp_path).files == 1
    assert measure(tmp_path / "not there") == DiskUsage(size=0, files=0)


def test_what_has_not_changed_is_not_measured_again(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / str(number)).touch()
    room = ResourceLimits(
        disk=1 << 50, files=1 << 40
    )  # whatever others do to the file system leaves no doubt
    watch = DiskWatch(folder=tmp_path, limits=room, marks=(b"no such mark",))
    first = count_calls(watch.look)
    later = [count_calls(watch.look) for _ in range(20)]
    assert sum(later) < first


# As a user without privileges


@pytest.mark.skipif(not AS_ROOT, reason="this is how all the other tests ran")
@pytest.mark.skipif(not Path("/usr/bin/python3.11").exists(), reason="needs a Python that every user may run")
def test_limits_hold_for_a_user_without_privileges() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        for package in (kakite, h11):
            source = Path(str(package.__file__)).parent
            shutil.copytree(source, f"{name}/{source.name}")
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, 65534, 65534)
        script = f"""
import asyncio
from pathlib import Path
from kakite.sandbox import ResourceLimits, SandboxSpec, open_sandbox
async def main():
    disk = {SMALL.disk}
    limits = ResourceLimits(memory={SMALL.memory}, processes=64, disk=disk, files=2000, open_files=200)
    sandbox = open_sandbox("bubblewrap", Path("{name}/run"), terms=SandboxSpec(limits=limits))
    await sandbox.prepare()
    python = ("/usr/bin/python3.11", "-I", "-S", "-c")
    done = await sandbox.exec((*python, {FORKS!r}), timeout=30)
    print(done.exit_code, done.stdout)
    done = await sandbox.exec((*python, {HOG!r}), timeout=30)
    print(done.exit_code != 0, done.stdout)
    fill = "i=0; while :; do i=$((i + 1)); head -c 4M /dev/zero > f$i; sleep 0.02; done"
    print((await sandbox.exec(("bash", "-c", fill), timeout=30)).limit)
    print((await sandbox.exec(("bash", "-c", "unshare -U true; rm -f f*; echo on"), timeout=30)).stdout)
    await sandbox.destroy()
asyncio.run(main())
"""
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": name}
        done = subprocess.run(
            [*drop, "/usr/bin/python3.11", "-c", script], env=env, capture_output=True, check=False, cwd="/"
        )
        lines = done.stdout.decode().splitlines()
        assert lines == ["1 b'11 True\\n'", "True b''", "disk", "b'on\\n'"], done.stderr
