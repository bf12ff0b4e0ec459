"""What only containers do, on real engines: Docker, and Podman."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN, time_out
from tests.engines import BASE, NOWHERE, Engine
from tests.lanes import examples
from tests.sandbox.conftest import wait_until_gone

import kakite
from kakite.processes import CompletedProcess, OnOutput, Stream, build_proxy_environment, start
from kakite.sandbox import ResourceLimits, SandboxError, SandboxSpec, list_backends, open_sandbox
from kakite.sandbox.backends.container import ContainerSandbox
from kakite.sandbox.backends.engine import find, get_current_owner, parse_owner
from kakite.sandbox.backends.images import get_reference
from kakite.sandbox.container.cleanup import prune, read_inventory
from kakite.sandbox.files.copy import copy_in, copy_out

pytestmark = pytest.mark.slow
T = TypeVar("T")


@dataclass
class Box:
    """A container that is there for several programs, with the loop that holds it."""

    engine: Engine
    sandbox: ContainerSandbox
    folder: Path
    runner: asyncio.Runner

    def sh(self, script: str, *, timeout: float | None = 60, **how: Any) -> CompletedProcess:
        return self.runner.run(self.sandbox.exec(("bash", "-c", script), timeout=timeout, **how))

    def wait(self, work: Awaitable[T], seconds: float = 120) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(seconds):
                return await work

        return self.runner.run(bounded())


Open = Callable[..., Box]


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.getfixturevalue(request.param)


@pytest.fixture
def opened(tmp_path: Path) -> Generator[Open]:
    boxes: list[Box] = []

    def make(engine: Engine, name: str = "run", image: str = "base", **terms: Any) -> Box:
        environ = {**engine.environ, "SECRET_TOKEN": "kkt-secret", "TZ": "UTC"}
        sandbox = ContainerSandbox(tmp_path / name, environ, SandboxSpec(**terms), image)
        box = Box(engine, sandbox, tmp_path / name, asyncio.Runner())
        boxes.append(box)
        box.wait(sandbox.prepare())
        return box

    yield make
    for box in boxes:
        box.wait(box.sandbox.destroy())
        box.runner.close()


@pytest.fixture
def box(engine: Engine, opened: Open) -> Box:
    return opened(engine)


def test_a_program_is_nobody_in_particular_and_has_its_folders_alone(box: Box) -> None:
    done = box.sh(
        "id -u; cat given; echo made > made; echo kept > ~/kept; touch $TMPDIR/x $XDG_CACHE_HOME/x; pwd"
    )
    assert done.stdout.decode().split() == [
        "59000" if os.geteuid() == 0 else str(os.getuid()),
        box.sandbox.project,
    ]
    assert (box.folder / "project/made").read_text(encoding="utf-8") == "made\n"
    assert (box.folder / "home/kept").exists()
    for place in (
        "/",
        "/etc",
        "/usr/bin",
        "/opt/kakite",
        "/run",
        "/workspace",
        "/proc/sys/kernel",
    ):
        assert box.sh(f"touch {place}/x").exit_code != 0, place


def test_nothing_of_the_hosts_environment_gets_in(box: Box) -> None:
    env = dict(
        pair.split("=", 1) for pair in box.sh("cat /proc/self/environ").stdout.decode().split("\0") if pair
    )
    usual = {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "TZ",
        "XDG_CACHE_HOME",
        "KAKITE_RUN",
        *build_proxy_environment("off"),
    }
    assert set(env) - {"PWD", "SHLVL", "_", "TERM", "container", "OLDPWD"} == usual
    assert (env["KAKITE_NETWORK"], env["HOME"]) == ("off", "/workspace/home")
    assert b"kkt-secret" not in box.sh("cat /proc/*/environ 2>/dev/null").stdout


def test_it_has_no_capability_no_way_to_one_and_no_network_but_loopback(box: Box) -> None:
    status = dict(line.split(":", 1) for line in box.sh("cat /proc/self/status").stdout.decode().splitlines())
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (int(status["NoNewPrivs"]), int(status["Seccomp"])) == (1, 2)
    assert box.sh("tail -n +3 /proc/net/dev").stdout.decode().split(":")[0].strip() == "lo"
    assert box.sh("exec 3<>/dev/tcp/169.254.169.254/80", timeout=20).exit_code == 1


ENDS = [
    (("bash", "-c", "exit 3"), 3),
    (("bash", "-c", "exit 125"), 125),
    (("bash", "-c", "exit 126"), 126),
    (("bash", "-c", "echo 'Error: No such container' >&2; exit 1"), 1),
    (("bash", "-c", "kill -9 $$"), 137),
    (("no-such-program",), 127),
    (("/etc",), 126),
]


def test_the_programs_own_end_is_told_apart_from_the_engines(docker: Engine, opened: Open) -> None:
    box = opened(docker)
    told = [(argv, box.wait(box.sandbox.exec(argv, timeout=60)).exit_code) for argv, _ in ENDS]
    assert told == ENDS


def test_a_folder_that_is_not_there_is_an_error(box: Box) -> None:
    with pytest.raises(SandboxError) as caught:
        box.sh("true", cwd="nowhere")
    assert caught.value.code == "folder_missing"


def test_input_and_output_are_passed_on_and_the_end_of_either(box: Box) -> None:
    data = bytes(range(256)) * 2000
    assert box.sh("cat; exec >&-; sleep 0.1", stdin=data).stdout == data
    told: list[bytes] = []

    def keep(_stream: Stream, data: bytes) -> None:
        told.append(data)

    done = box.sh("echo first; seq 50000; echo last", limit=100, on_output=keep)
    assert done.stdout.endswith(b"50000\nlast\n")
    assert sum(map(len, told)) == len(done.stdout) + done.stdout_dropped


def test_a_timeout_gives_what_was_written_and_lets_programs_clean_up(box: Box) -> None:
    script = "trap 'echo bye; exit' TERM; echo here; sleep 300 & wait"
    done = time_out(lambda seconds: box.sh(script, timeout=seconds))
    assert (done.timed_out, done.exit_code, done.stdout) == (True, None, b"here\nbye\n")


def _noting(begun: asyncio.Event) -> OnOutput:
    def note(_stream: Stream, _data: bytes) -> None:
        begun.set()

    return note


RESISTING = {
    "ignores TERM": "trap '' TERM; echo here; while :; do setsid sleep 13579; done",
    "forks twice": "(setsid bash -c 'trap \"\" TERM; exec sleep 13579' >&- 2>&- <&- &); echo here; sleep 300",
    "closes its streams": "echo here; exec sleep 13579 <&- >&- 2>&-",
    "stops its supervisor": "kill -STOP $PPID; echo here; sleep 13579",
    "kills its supervisor": "echo here; (setsid sleep 13579 &); kill -9 $PPID; sleep 13579",
    "stops itself": "echo here; kill -STOP $$; sleep 13579",
}


@pytest.mark.parametrize("how", RESISTING)
def test_of_a_program_that_resists_nothing_is_left(how: str, docker: Engine, opened: Open) -> None:
    box = opened(docker)
    done = time_out(lambda seconds: box.sh(RESISTING[how], timeout=seconds))
    assert done.stdout == b"here\n"
    assert b"13579" not in box.sh("cat /proc/[0-9]*/cmdline").stdout


def test_a_cancelled_program_is_ended(box: Box) -> None:
    async def cancel() -> None:
        begun = asyncio.Event()
        script = ("bash", "-c", "echo here; setsid sleep 24680")
        running = asyncio.create_task(box.sandbox.exec(script, timeout=None, on_output=_noting(begun)))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    box.wait(cancel())
    assert b"24680" not in box.sh("cat /proc/[0-9]*/cmdline").stdout


def test_programs_run_at_the_same_time(box: Box) -> None:
    async def all_of_them() -> list[CompletedProcess]:
        waiting = "touch $0; while [ $(ls | wc -l) -lt 4 ]; do sleep 0.05; done"
        runs = (box.sandbox.exec(("bash", "-c", waiting, str(n)), timeout=60) for n in range(4))
        return await asyncio.gather(*runs)

    assert [done.exit_code for done in box.wait(all_of_them())] == [0] * 4


def test_a_server_over_stdio_stays_until_it_is_stopped(box: Box) -> None:
    async def talk() -> tuple[bytes, bytes]:
        echo = ("bash", "-c", "trap '' TERM; while read x; do echo got $x; done; sleep 97531")
        child = await start(box.sandbox.build_process_spec(echo))
        child.stdin.write(b"1\n")
        answer = await child.stdout.readline()
        await child.stop(0.2)
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:
            left = await box.sandbox.exec(("bash", "-c", "cat /proc/[0-9]*/cmdline"), timeout=60)
            if b"97531" not in left.stdout:
                return answer, b""
        return answer, b"it lives on"

    assert box.wait(talk()) == (b"got 1\n", b"")


def test_services_of_the_host_are_reached_in_full_and_at_once(engine: Engine, opened: Open) -> None:
    seen: list[int] = []

    async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(1)
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"\nend")

    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        raise ValueError("the test's own")

    box = opened(engine, services={"upper": upper, "proxy": upper, "broken": broken})
    done = box.wait(box.sandbox.exec(("python3", "-c", TALK), timeout=100))
    assert done.stdout == b"ok\n" * 4, done.stderr
    assert len(seen) == 22


TALK = """
import socket, threading
def connect(name):
    s = socket.socket(socket.AF_UNIX if isinstance(name, str) else socket.AF_INET)
    s.settimeout(60)
    s.connect(name)
    return s
def whole(s):
    got = bytearray()
    while data := s.recv(1 << 16):
        got += data
    return bytes(got)
for name in ("/run/kakite/upper", ("127.0.0.1", 3128)):
    s = connect(name)
    n = 3_000_000
    def send():
        s.sendall(b"x" * n)
        s.shutdown(socket.SHUT_WR)
    threading.Thread(target=send).start()
    print("ok" if whole(s) == b"X" * n + b"\\nend" else "bad")
many = [connect("/run/kakite/upper") for _ in range(20)]
for i, s in enumerate(many):
    s.sendall(b"a%d" % i)
    s.shutdown(socket.SHUT_WR)
print("ok" if [whole(s) for s in many] == [b"A%d\\nend" % i for i in range(20)] else "bad")
s = connect("/run/kakite/broken")
s.sendall(b"x")
print("ok" if whole(s) == b"" else "bad")
"""


def test_a_slow_reader_holds_nobody_up_and_makes_nobody_hold_much(docker: Engine, opened: Open) -> None:
    written = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    async def quick(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(9))

    box = opened(docker, services={"endless": endless, "quick": quick})
    script = """
import socket, time
slow = socket.socket(socket.AF_UNIX); slow.connect("/run/kakite/endless")
for _ in range(20):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/kakite/quick")
    s.sendall(b"hello")
    assert s.recv(9) == b"hello"
"""
    done = box.wait(box.sandbox.exec(("python3", "-c", script), timeout=60))
    assert done.exit_code == 0, done.stderr
    assert 0 < written < 4 << 20


def test_limits_are_told_by_their_name_and_the_next_program_is_unhindered(
    engine: Engine, opened: Open
) -> None:
    limits = ResourceLimits(memory=128 << 20, processes=64, disk=16 << 20, open_files=64)
    box = opened(engine, limits=limits)
    greedy = box.wait(box.sandbox.exec(("python3", "-c", "x = b'x' * (1 << 30)"), timeout=60))
    assert (greedy.exit_code, greedy.limit) == (137, "memory")
    bomb = box.sh(":(){ :|:& };: ; wait", timeout=5)
    assert bomb.limit == "processes"
    full = box.sh("head -c 40M /dev/zero > big", timeout=60)
    assert full.exit_code != 0
    opened_files = "import os\nwhile True: os.dup(0)"
    assert box.wait(box.sandbox.exec(("python3", "-c", opened_files), timeout=60)).exit_code == 1
    assert box.sh("rm -f big; echo fine").stdout == b"fine\n"


def test_a_full_folder_ends_what_fills_it(docker: Engine, opened: Open) -> None:
    box = opened(docker, limits=ResourceLimits(disk=8 << 20))
    done = box.sh(
        "for n in $(seq 1000); do head -c 1M /dev/zero > f$n; sleep 0.01; done; sleep 300", timeout=90
    )
    assert (done.limit, done.timed_out) == ("disk", False)
    assert box.sh("rm f*; echo fine").stdout == b"fine\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user may not look where the engine keeps it")
def test_the_cache_counts_as_the_tasks_other_folders_do(engine: Engine, opened: Open) -> None:
    fill = (
        "cd $XDG_CACHE_HOME; for n in $(seq 1000); do head -c 1M /dev/zero > f$n; sleep 0.01; done; sleep 300"
    )
    for name, cache in (("own", ""), ("kept", "of one repository")):
        box = opened(engine, name, limits=ResourceLimits(disk=8 << 20), cache=cache)
        done = box.sh(fill, timeout=90)
        assert (done.limit, done.timed_out) == ("disk", False)
    later = opened(engine, "later", limits=ResourceLimits(disk=8 << 20), cache=cache)
    assert later.sh("sleep 5; rm $XDG_CACHE_HOME/f*; echo fine", timeout=60).stdout == b"fine\n"
    prune(find(engine.environ), days=0)


FILL = """
import itertools, os, sys
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run/kakite"):
    try:
        with open(f"{place}/large", "wb") as file:
            while True: file.write(b"x" * (1 << 20))
    except OSError: pass
    try:
        for number in itertools.count() if sys.argv[1] == "docker" else range(1000):
            open(f"{place}/{number}", "wb").close()
    except OSError: pass
"""


def test_what_lies_in_memory_can_be_filled_and_leaves_room_to_delete_it(engine: Engine, opened: Open) -> None:
    box = opened(engine, limits=ResourceLimits(memory=128 << 20))
    filled = box.wait(box.sandbox.exec(("python3", "-c", FILL, engine.name), timeout=60))
    assert (filled.exit_code, filled.limit) == (0, "")
    assert box.sh("rm -rf /tmp/* /var/tmp/* /dev/shm/*; echo fine").stdout == b"fine\n"


MEDDLING = r"""
import os, signal, socket
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL):
    os.kill(1, number)
with open(f"/proc/{os.getppid()}/cmdline", "rb") as file:
    run = file.read().split(b"\0")[4].decode().replace("/", "")
for fd in range(3, 4096):
    try: os.write(fd, b"\7" * 100)
    except OSError: pass
for fd in range(64):
    try: os.open(f"/proc/1/fd/{fd}", os.O_RDWR); print("a way to the host")
    except OSError: pass
os.makedirs("/run/kakite/.runs", exist_ok=True)
with open(f"/run/kakite/.runs/{run}", "w") as file:
    file.write("a lie")
for number in range(200):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect("\0kakite")
    try: line.send(f"{run}\0a lie".encode())
    except OSError: pass
print("done")
"""


def test_no_signal_and_no_lie_of_a_program_ends_the_container_or_changes_what_is_told_of_it(box: Box) -> None:
    done = box.wait(box.sandbox.exec(("python3", "-c", MEDDLING), timeout=60))
    assert (done.exit_code, done.stdout) == (0, b"done\n"), done.stderr
    assert box.wait(_written(box, "python3", "-c", MEDDLING)) == b"done\n"
    assert box.sh("pkill python; kill -TERM 1; exit 3").exit_code == 3
    assert box.sh("echo on").stdout == b"on\n"


async def _written(box: Box, *argv: str) -> bytes:
    """Return what a program prints that the engine itself starts."""
    child = await start(box.sandbox.build_process_spec(argv))
    child.stdin.close()
    written = await child.stdout.read()
    assert await child.wait() == 0, child.get_stderr_tail()
    return written


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("sed -i 's/^__version__ = .*/__version__ = \"0.0.1\"/' /opt/kakite/package/__init__.py", "version"),
        ("rm /opt/kakite/seccomp.bpf", "system calls"),
    ],
)
def test_an_image_of_another_version_or_without_its_list_of_calls_is_refused(
    change: str, why: str, docker: Engine, tmp_path: Path
) -> None:
    recipe = f"FROM {get_reference('base')}\nUSER root\nRUN {change}\nUSER kakite\n"
    (tmp_path / "Dockerfile").write_text(recipe, encoding="utf-8")
    docker("build", "--network", "none", "--tag", "kakite-test-changed", str(tmp_path))
    try:
        sandbox = open_sandbox("container:kakite-test-changed", tmp_path / "run", environ=docker.environ)
        with pytest.raises(SandboxError) as caught:
            asyncio.run(sandbox.prepare())
        assert caught.value.code == "image_unfit"
        assert why in caught.value.message
    finally:
        docker("rmi", "kakite-test-changed")


def test_killing_kakite_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    script = f"""
import asyncio, os
from pathlib import Path
from kakite.sandbox import SandboxSpec
from kakite.sandbox.backends.container import ContainerSandbox
async def main():
    sandbox = ContainerSandbox(Path({str(tmp_path / "run")!r}), os.environ, SandboxSpec(), "base")
    await sandbox.prepare()
    script = "trap '' TERM; setsid sleep 86421 & echo here; wait"
    await sandbox.exec(("bash", "-c", script), timeout=None, on_output=lambda *_: print("here", flush=True))
asyncio.run(main())
"""
    env = {**engine.environ, "PYTHONPATH": str(Path(kakite.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline() == b"here\n"
            (name,) = _containers(engine)
            assert parse_owner(name) is not None
            started = {int(pid.name) for pid in Path("/proc").glob("[0-9]*") if b"86421" in _cmdline(pid)}
        finally:
            host.kill()
    subprocess.run(
        [f"/usr/bin/{engine.name}", "wait", name],
        env=dict(engine.environ),
        capture_output=True,
        timeout=WITHIN,
        check=False,
    )
    for _ in range(100):
        if name not in engine.ours():
            break
    assert name not in engine.ours()
    assert len(started) > 1
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            wait_until_gone(pid)


def test_a_sandbox_that_nobody_destroyed_keeps_no_program_from_ending(docker: Engine, tmp_path: Path) -> None:
    script = f"""
import asyncio, os
from pathlib import Path
from kakite.sandbox import SandboxSpec
from kakite.sandbox.backends.container import ContainerSandbox
async def main():
    await ContainerSandbox(Path({str(tmp_path / "run")!r}), os.environ, SandboxSpec(), "base").prepare()
asyncio.run(main())
"""
    env = {**docker.environ, "PYTHONPATH": str(Path(kakite.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in _containers(docker):  # it may be gone by the time that it is waited for
        subprocess.run(
            ["/usr/bin/docker", "wait", name],
            env=dict(docker.environ),
            capture_output=True,
            timeout=WITHIN,
            check=False,
        )


def _cmdline(pid: Path) -> bytes:
    try:
        return (pid / "cmdline").read_bytes()
    except OSError:
        return b""


def test_what_a_dead_kakite_left_is_removed_and_nobody_elses(docker: Engine, opened: Open) -> None:
    mine = opened(docker, "first")
    kept = json.loads(docker("inspect", *_containers(docker)))[0]["Config"]["Labels"]["kakite.owner"]
    dead, stranger = _dead_name(), re.sub(r"kakite-[0-9a-f]{12}", "kakite-" + "0" * 12, _dead_name())
    for name in (dead, stranger):
        docker("create", "--name", name, "--label", f"kakite.owner={kept}", BASE, "true")
    docker("create", "--name", "somebody", BASE, "true")
    opened(docker, "second")
    assert dead not in docker.ours()
    assert {stranger, "somebody"} <= set(docker.ours())
    assert mine.sh("echo alive").stdout == b"alive\n"
    docker("rm", stranger, "somebody")


def _containers(engine: Engine) -> list[str]:
    return [name for name in engine("ps", "--format", "{{.Names}}").split() if name.startswith("kakite-")]


def _dead_name() -> str:
    with subprocess.Popen(["sleep", "100"]) as process:
        name = get_current_owner().make_container_name().replace(f"-{os.getpid()}-", f"-{process.pid}-")
        process.kill()
    return name


def test_a_container_that_is_gone_is_an_error_and_prepare_makes_another(box: Box) -> None:
    (name,) = _containers(box.engine)
    box.engine("rm", "--force", name)
    with pytest.raises(SandboxError) as caught:
        box.sh("true")
    assert caught.value.code == "sandbox_failed"
    box.wait(box.sandbox.prepare())
    assert box.sh("echo again").stdout == b"again\n"


def test_a_container_removed_while_a_program_runs_is_an_error(box: Box) -> None:
    async def remove() -> None:
        begun = asyncio.Event()
        script = ("bash", "-c", "echo here; sleep 100")
        running = asyncio.create_task(box.sandbox.exec(script, timeout=60, on_output=_noting(begun)))
        await begun.wait()
        await asyncio.to_thread(box.engine, "rm", "--force", *_containers(box.engine))
        with pytest.raises(SandboxError):
            await running

    box.wait(remove())


def test_cycles_leave_nothing(engine: Engine, tmp_path: Path, proof: bool) -> None:
    async def cycle(number: int) -> None:
        terms = SandboxSpec(cache="the same")
        sandbox = ContainerSandbox(tmp_path / str(number % 3), engine.environ, terms)
        await sandbox.prepare()
        done = await sandbox.exec(("sh", "-c", "setsid sleep 75319 & exit 5"), timeout=60)
        assert done.exit_code == 5
        await sandbox.destroy()

    async def cycles() -> None:
        for number in range((200 if proof else 20) if engine.name == "docker" else (50 if proof else 5)):
            await cycle(number)

    def mounts() -> list[str]:
        told = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        return [line for line in told if engine.environ["HOME"] in line]

    before, mounted = engine.ours(), mounts()
    asyncio.run(cycles())
    left = sorted(set(engine.ours()) - set(before))
    assert [name.startswith("kakite-cache-") for name in left] == [True]
    assert mounts() == mounted
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if b"75319" in _cmdline(pid)]
    containers = find(engine.environ)
    assert set(left) <= {volume.name for volume in read_inventory(containers).volumes}
    assert prune(containers, days=1).volumes == ()
    assert set(left) <= set(prune(containers, days=0).volumes)
    assert not set(left) & set(engine.ours())


def test_the_cache_of_a_project_is_there_for_its_next_task(docker: Engine, opened: Open) -> None:
    for name, cache, expected in (("a", "p", b""), ("b", "p", b"x\n"), ("c", "other", b""), ("d", "", b"")):
        box = opened(docker, name, cache=cache)
        assert box.sh("cd $XDG_CACHE_HOME; ls; touch x").stdout == expected
    prune(find(docker.environ), days=0)


def test_without_an_engine_it_is_missing_and_says_how_to_get_one(tmp_path: Path) -> None:
    for environ in (
        {"PATH": str(tmp_path)},
        {"PATH": "/usr/bin:/bin", "HOME": "/", "DOCKER_HOST": NOWHERE, "CONTAINER_HOST": NOWHERE},
    ):
        sandbox = open_sandbox("container", tmp_path / "run", environ=environ)
        with pytest.raises(SandboxError) as caught:
            asyncio.run(sandbox.prepare())
        assert caught.value.code == "sandbox_missing"
        assert caught.value.hint


def test_an_image_that_is_not_there_or_has_no_kakite_is_refused(docker: Engine, tmp_path: Path) -> None:
    for image, code in (
        (BASE, "image_unfit"),
        ("no-such-image", "sandbox_missing"),
        ("rust", "sandbox_missing"),
    ):
        sandbox = open_sandbox(f"container:{image}", tmp_path / "run", environ=docker.environ)
        with pytest.raises(SandboxError) as caught:
            asyncio.run(sandbox.prepare())
        assert caught.value.code == code
        assert "kakite sandbox build" in caught.value.hint


def test_auto_takes_a_container_where_it_can(docker: Engine, tmp_path: Path) -> None:
    assert open_sandbox("auto", tmp_path, environ=docker.environ).kind == "container"
    assert (
        open_sandbox(
            "auto", tmp_path, environ={**docker.environ, "DOCKER_HOST": NOWHERE, "CONTAINER_HOST": NOWHERE}
        ).kind
        == "bubblewrap"
    )
    found = {kind.name: kind for kind in asyncio.run(list_backends(docker.environ))}
    assert (found["container"].available, found["container"].isolates) == (True, True)


def test_a_program_has_its_streams_alone_and_is_killed_for_memory_before_the_first_process(box: Box) -> None:
    script = "for fd in /proc/self/fd/*; do readlink $fd; done; cat /proc/{self,1}/oom_score_adj"
    for data, first in ((b"", b"/dev/null"), (b"x", b"pipe:")):
        done = box.sh(script, stdin=data).stdout.split(b"\n")
        assert [line.startswith(kind) for kind, line in zip((first, b"pipe:", b"pipe:"), done, strict=False)]
        assert len([line for line in done if line.startswith((b"pipe:", b"/dev", b"socket:", b"anon"))]) == 3
        ours, init = map(int, done[-3:-1])
        assert ours > init


SAME = """
import os, sys
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(data[::-1] + os.environb.get(b"GIVEN", b"none"))
sys.stdout.buffer.flush()
os.write(2, os.fsencode(sys.argv[2]) + b"%d" % len(data))
code = int(sys.argv[1])
os.kill(os.getpid(), -code) if code < 0 else os._exit(code)
"""
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)


def test_a_program_ends_as_it_does_without_a_container(docker: Engine, opened: Open, tmp_path: Path) -> None:
    box = opened(docker)
    local = open_sandbox("local", tmp_path / "local", environ={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    box.wait(local.prepare())

    @settings(max_examples=examples(25), deadline=None)
    @given(
        st.binary(max_size=400).map(lambda data: data * 999), st.sampled_from((0, 1, 77, 255, -15, -9)), WORDS
    )
    def same(data: bytes, code: int, word: str) -> None:
        argv = ("python3", "-c", SAME, str(code), word)
        how: Any = {"timeout": 60, "stdin": data, "env": {"GIVEN": word}, "limit": 1 << 22}
        inside, outside = (box.wait(sandbox.exec(argv, **how)) for sandbox in (box.sandbox, local))
        assert replace(inside, duration=0.0) == replace(outside, duration=0.0)

    same()


def test_many_programs_at_once_each_get_their_own(box: Box) -> None:
    async def all_of_them() -> list[CompletedProcess]:
        def run(number: int) -> Awaitable[CompletedProcess]:
            script = ("bash", "-c", f"cat; seq {number * 1000}; echo {number} >&2; exit {number}")
            return box.sandbox.exec(script, stdin=b"%d " % number * 50_000, timeout=100)

        return await asyncio.gather(*map(run, range(25)))

    for number, done in enumerate(box.wait(all_of_them())):
        counted = b"".join(b"%d\n" % n for n in range(1, number * 1000 + 1))
        assert done.stdout == b"%d " % number * 50_000 + counted
        assert (done.exit_code, done.stderr) == (number, b"%d\n" % number)


FLOOD = """
import os, select
os.set_blocking(1, False)
written, stalled = 0, False
while written < 64 << 20:
    try:
        written += os.write(1, b"x" * 65536)
    except BlockingIOError:
        if not select.select([], [1], [], 3)[1] and not stalled:
            with open("/proc/1/status") as file:
                held = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
            with open("new", "w") as file:
                file.write(f"{written} {held}")
            os.rename("new", "stalled")
            stalled = True
"""


def test_who_floods_a_slow_host_is_held_up_and_nothing_is_lost(docker: Engine, opened: Open) -> None:
    box = opened(docker)
    stalled = box.folder / "project/stalled"
    until = time.monotonic() + 60

    def be_slow(_stream: Stream, _data: bytes) -> None:
        while not stalled.exists() and time.monotonic() < until:
            pass

    done = box.wait(box.sandbox.exec(("python3", "-c", FLOOD), timeout=100, on_output=be_slow))
    written, held = map(int, stalled.read_text(encoding="utf-8").split())
    assert written < 8 << 20
    assert held < 32 << 10
    assert (done.exit_code, len(done.stdout) + done.stdout_dropped) == (0, 64 << 20)


def test_nobody_else_holds_up_a_programs_end_by_its_streams(docker: Engine, opened: Open) -> None:
    box = opened(docker)

    async def hold() -> tuple[CompletedProcess, CompletedProcess]:
        steal = "until [ -s pid ]; do :; done; exec >/proc/$(cat pid)/fd/1; touch held; exec yes"
        stealing = asyncio.create_task(box.sandbox.exec(("bash", "-c", steal), timeout=WITHIN))
        robbed = "echo $$ > new; mv new pid; until [ -e held ]; do :; done; echo mine"
        done = await box.sandbox.exec(("bash", "-c", robbed), timeout=60)
        stealing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stealing
        return done, await box.sandbox.exec(("echo", "on"), timeout=60)

    robbed, after = box.wait(hold())
    assert (robbed.exit_code, robbed.timed_out, after.stdout) == (0, False, b"on\n")


def test_a_program_that_is_to_end_as_it_begins_does_so_at_once(docker: Engine, opened: Open) -> None:
    box = opened(docker)
    for milliseconds in (0, 0, 1, 2, 3, 5, 8, 13):
        done = box.wait(box.sandbox.exec(("sleep", "31415"), timeout=milliseconds / 1000))
        assert done.timed_out
    assert b"31415" not in box.sh("cat /proc/[0-9]*/cmdline").stdout


HOG = """
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(100)
except OSError:
    print("full", flush=True)
time.sleep(100)
"""


def test_where_no_process_is_left_a_program_fails_and_the_limit_is_told(docker: Engine, opened: Open) -> None:
    box = opened(docker, limits=ResourceLimits(processes=40))

    async def fill() -> CompletedProcess:
        full = asyncio.Event()
        hog = asyncio.create_task(
            box.sandbox.exec(("python3", "-c", HOG), timeout=60, on_output=_noting(full))
        )
        await full.wait()
        done = await box.sandbox.exec(("true",), timeout=60)
        hog.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await hog
        return done

    done = box.wait(fill())
    assert (done.exit_code, done.limit) == (126, "processes")
    assert b"no program can be started" in done.stderr
    assert box.sh("echo on").stdout == b"on\n"


def test_arguments_are_passed_on_as_long_as_the_system_takes_them(docker: Engine, opened: Open) -> None:
    box = opened(docker)
    many = ("x" * 100_000,) * 15
    count = box.wait(box.sandbox.exec(("sh", "-c", 'echo $#"$0"', "\udcff", *many), timeout=60))
    assert count.stdout == b"15\xff\n"
    for wrong in (("x" * 200_000,), ("x" * 100_000,) * 30, ("a\0b",)):
        with pytest.raises(SandboxError):
            box.wait(box.sandbox.exec(("echo", *wrong), timeout=60))
    with pytest.raises(SandboxError):
        box.wait(box.sandbox.exec(("true",), env={"A=B": "C"}, timeout=60))
    assert box.sh("echo on").stdout == b"on\n"


def test_a_listener_that_fails_is_no_harm_to_others(docker: Engine, opened: Open) -> None:
    def fail(_stream: Stream, _data: bytes) -> None:
        raise ValueError("the test's own")

    box = opened(docker)
    assert box.sh("echo x; exit 3", on_output=fail).exit_code == 3
    assert box.sh("echo on").stdout == b"on\n"


# Copying


def test_folders_are_copied_in_and_out_as_they_are(box: Box, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "a/b/program").write_bytes(b"#!/bin/sh\necho ran\n")
    (source / "a/b/program").chmod(0o755)
    (source / "link").symlink_to("a/b")
    (source / "out").symlink_to("/etc/passwd")
    box.wait(copy_in(box.sandbox, source, "there"))
    assert box.sh("there/link/program; readlink there/out; mkfifo there/pipe").stdout == b"ran\n/etc/passwd\n"
    box.wait(copy_out(box.sandbox, "there", tmp_path / "back"))
    assert sorted(
        path.relative_to(tmp_path / "back").as_posix() for path in (tmp_path / "back").rglob("*")
    ) == [
        "a",
        "a/b",
        "a/b/program",
        "link",
    ]
    assert os.access(tmp_path / "back/link/program", os.X_OK)


def test_what_comes_out_is_bounded_and_goes_into_a_new_folder(box: Box, tmp_path: Path) -> None:
    box.sh("mkdir big many; truncate -s 10M big/x; cd many; touch $(seq 300)")
    for source, size, files in (("big", 1 << 20, 1000), ("many", 1 << 20, 100), ("nowhere", 1 << 20, 1000)):
        with pytest.raises(SandboxError):
            box.wait(copy_out(box.sandbox, source, tmp_path / "out", size=size, files=files))
        assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with pytest.raises(SandboxError):
        box.wait(copy_out(box.sandbox, "many", tmp_path / "out"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_giving_a_folder_away_follows_no_link(tmp_path: Path) -> None:
    from kakite.sandbox.files.task_folder import give_ownership

    outside, folder = tmp_path / "outside", tmp_path / "project"
    outside.write_text("mine", encoding="utf-8")
    (folder / "a").mkdir(parents=True)
    (folder / "a/link").symlink_to(outside)
    (folder / "a/hard").hardlink_to(outside)
    (folder / "a/own").touch()
    give_ownership(folder, 59000, 59000)
    assert (outside.stat().st_uid, (folder / "a/own").stat().st_uid, folder.stat().st_uid) == (
        0,
        59000,
        59000,
    )


def test_what_programs_leave_in_the_kernel_is_gone_once_none_runs(box: Box) -> None:
    listing = "cat /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | grep -vc key"
    make = "ipcmk -M 4096 && ipcmk -Q && ipcmk -S 2"

    async def beside() -> bytes:
        other = asyncio.create_task(
            box.sandbox.exec(("bash", "-c", "until [ -e go ]; do sleep 0.02; done"), timeout=60)
        )
        await box.sandbox.exec(("bash", "-c", make), timeout=60)
        kept = await box.sandbox.exec(("bash", "-c", f"{listing}; touch go"), timeout=60)
        await other
        return kept.stdout

    assert box.wait(beside()) == b"3\n"
    assert box.sh(listing).stdout == b"0\n"


def test_a_server_that_is_told_to_end_can_say_goodbye(box: Box) -> None:
    async def talk() -> bytes:
        child = await start(
            box.sandbox.build_process_spec(
                ("bash", "-c", "trap 'echo bye; exit' TERM; echo here; sleep 99 & wait")
            )
        )
        assert await child.stdout.readline() == b"here\n"
        stopping = asyncio.create_task(child.stop())
        answer = await child.stdout.readline()
        await stopping
        return answer

    assert box.wait(talk()) == b"bye\n"
