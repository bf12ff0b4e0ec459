"""An engine on another machine: it sees no folder of this one, and all goes over the wire."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.bounds import WITHIN
from tests.engines import Engine
from tests.sandbox.trees import Entry, Tree, look, make

from kakite.sandbox import SandboxError, SandboxSpec
from kakite.sandbox.backends.container import ContainerSandbox
from kakite.sandbox.backends.engine import find
from kakite.sandbox.container.cleanup import prune
from kakite.sandbox.container.cleanup import read_inventory as look_at

T = TypeVar("T")
pytestmark = pytest.mark.slow


class Wire:
    """The way to the engine: it counts what passes, and breaks where a test wants it to."""

    def __init__(self, path: str) -> None:
        self.passed = 0
        self.breaks_at: int | None = None
        self.on_break: Callable[[], None] = lambda: None
        self._path = path
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[tuple[socket.socket, threading.Thread]] = []
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._server.getsockname()[1]}"

    def break_after(self, size: int, on_break: Callable[[], None] = lambda: None) -> None:
        self.passed, self.on_break, self.breaks_at = 0, on_break, size

    def mend(self) -> None:
        self.breaks_at = None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._listening.join(WITHIN)
        self._server.close()
        self._cut()
        for one, passing in self._open:
            passing.join(WITHIN)
            one.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._server.accept()
                if self._broken():
                    ours.close()
                    continue
                theirs = socket.socket(socket.AF_UNIX)
                theirs.connect(self._path)
                for source, target in ((ours, theirs), (theirs, ours)):
                    passing = threading.Thread(target=self._pass_on, args=(source, target), daemon=True)
                    self._open.append((source, passing))
                    passing.start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                self.passed += len(data)
                if self._broken():
                    self.on_break()
                    self._cut()
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _broken(self) -> bool:
        return self.breaks_at is not None and self.passed > self.breaks_at

    def _cut(self) -> None:
        for one, _ in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(docker: Engine) -> Generator[Wire]:
    wire = Wire(docker.environ["DOCKER_HOST"].removeprefix("unix://"))
    yield wire
    wire.close()


@pytest.fixture
def elsewhere(docker: Engine, wire: Wire) -> Engine:
    """The engine, at a port: open for as long as the test runs. It holds no work of other tests' tasks."""
    prune(find(docker.environ), days=0, work=True)
    return Engine("docker", {**docker.environ, "DOCKER_HOST": wire.address})


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read(100)).upper())


CALL = "import socket; s = socket.socket(1); s.connect('/run/kakite/shout'); s.send(b'hi'); print(s.recv(9))"


def test_the_work_is_copied_there_and_back_and_services_are_reached(
    elsewhere: Engine, tmp_path: Path
) -> None:
    async def work() -> None:
        sandbox = ContainerSandbox(
            tmp_path / "run", elsewhere.environ, SandboxSpec(services={"shout": shout})
        )
        await sandbox.prepare()
        script = "cat a/given; rm -r a; echo made > made; ln -s made link; echo x > ~/kept; "
        done = await sandbox.exec(("sh", "-c", f'{script} python3 -c "{CALL}"'), timeout=60)
        assert (done.stdout, done.exit_code) == (b"given\nb'HI'\n", 0), done.stderr
        await sandbox.destroy()

    project = tmp_path / "run/project"
    (project / "a").mkdir(parents=True)
    (project / "a/given").write_text("given\n", encoding="utf-8")
    before = elsewhere.ours()
    asyncio.run(asyncio.wait_for(work(), WITHIN))
    assert sorted(path.name for path in project.iterdir()) == ["link", "made"]
    assert (tmp_path / "run/home/kept").read_text(encoding="utf-8") == "x\n"
    assert elsewhere.ours() == before


def the_container(engine: Engine) -> str:
    (name,) = engine("ps", "--filter", "label=kakite.task", "--format", "{{.Names}}").split()
    return name


def test_work_that_was_cut_short_is_found_again(elsewhere: Engine, tmp_path: Path) -> None:
    async def begin() -> None:
        sandbox = ContainerSandbox(tmp_path / "run", elsewhere.environ, SandboxSpec())
        await sandbox.prepare()
        await sandbox.exec(("sh", "-c", "echo precious > work"), timeout=60)
        name = the_container(elsewhere)
        elsewhere("rm", "--force", name)
        with contextlib.suppress(
            SandboxError
        ):  # it may know by now, or find out when it brings the work back
            await sandbox.destroy()

    async def go_on() -> bytes:
        sandbox = ContainerSandbox(tmp_path / "run", elsewhere.environ, SandboxSpec())
        await sandbox.prepare()
        done = await sandbox.exec(("cat", "work"), timeout=60)
        await sandbox.destroy()
        return done.stdout

    asyncio.run(asyncio.wait_for(begin(), WITHIN))
    containers = find(elsewhere.environ)
    assert [volume.holds for volume in look_at(containers).volumes] == ["work"] * 3
    assert prune(containers, days=0).volumes == ()
    assert asyncio.run(asyncio.wait_for(go_on(), WITHIN)) == b"precious\n"
    assert (tmp_path / "run/project/work").exists()
    assert look_at(containers).volumes == ()


# What is cut short

TREE = [
    Entry(within=0, name=b"a", kind="folder", mode=0o555, holds=b"", first=0),
    *(
        Entry(within=n, name=b"f%d" % n, kind="file", mode=0o644, holds=os.urandom(150_000), first=0)
        for n in (0, 1)
    ),
    Entry(within=1, name=b"new\nline\xff", kind="hard", mode=0, holds=b"", first=0),
    Entry(within=0, name=b"out", kind="link", mode=0, holds=b"/etc/passwd", first=0),
    Entry(within=0, name=b"dangling", kind="link", mode=0, holds=b"../../no/where", first=0),
]
FOLDERS = {"project", "home", "tmp", "empty", "empty.txt", "services", "view"}
WORK = "chmod u+w a; rm f0; ln -s /root a/away; echo 1 > a/done; chmod u-w a; echo kept > ~/kept"


def given(folder: Path) -> Tree:
    (folder / "project").mkdir(parents=True)
    make(folder / "project", TREE)
    return look(folder / "project")


def open_there(engine: Engine, folder: Path) -> ContainerSandbox:
    return ContainerSandbox(folder, engine.environ, SandboxSpec())


async def finish(engine: Engine, folder: Path, script: str = "true") -> None:
    sandbox = open_there(engine, folder)
    await sandbox.prepare()
    done = await sandbox.exec(("sh", "-c", script), timeout=60)
    assert done.exit_code == 0, done.stderr
    await sandbox.destroy()


def wait(work: Coroutine[None, None, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, WITHIN))


def volumes(engine: Engine) -> list[str]:
    return engine("volume", "ls", "--format", "{{.Name}}", "--filter", "label=kakite.work").split()


def test_what_is_brought_there_comes_back_the_same(elsewhere: Engine, tmp_path: Path) -> None:
    before = given(tmp_path / "run")
    wait(finish(elsewhere, tmp_path / "run"))
    assert look(tmp_path / "run/project") == before
    assert volumes(elsewhere) == []


def test_what_its_owner_cannot_read_comes_back_and_can_be_read(elsewhere: Engine, tmp_path: Path) -> None:
    script = "mkdir a; echo 1 > a/hidden; chmod 0 a/hidden a"
    wait(finish(elsewhere, tmp_path / "run", script))
    assert (tmp_path / "run/project/a/hidden").read_text(encoding="utf-8") == "1\n"


TASK = """
import asyncio, os, sys
from pathlib import Path
from kakite.sandbox import SandboxSpec
from kakite.sandbox.backends.container import ContainerSandbox
async def work():
    sandbox = ContainerSandbox(Path(sys.argv[1]), os.environ, SandboxSpec())
    await sandbox.prepare()
    try:
        await sandbox.exec(("sh", "-c", sys.argv[2]), timeout=60)
    finally:
        await sandbox.destroy()
asyncio.run(work())
"""


def run_task(engine: Engine, folder: Path, wire: Wire, how: str = "", at: int = 1 << 40) -> int:
    """Run a task to its end, or until the wire breaks at a number of bytes; return how many passed."""
    command = [sys.executable, "-c", TASK, str(folder), WORK]
    with subprocess.Popen(command, env={**engine.environ}, stderr=subprocess.DEVNULL) as task:
        wire.break_after(at, task.kill if how == "kill" else lambda: None)
        task.wait(WITHIN)
    wire.mend()
    return wire.passed


@pytest.mark.parametrize("how", ["cut", "kill"])
def test_wherever_a_copy_is_cut_short_nothing_half_is_taken_for_whole(
    how: str, elsewhere: Engine, wire: Wire, tmp_path: Path, proof: bool
) -> None:
    given(tmp_path / "measured")
    whole = run_task(elsewhere, tmp_path / "measured", wire)
    after = look(tmp_path / "measured/project")
    assert after[Path("a/away")] == ("link", "/root")
    for percent in random.Random(how).sample(range(2, 100), 40 if proof else 2):
        folder = tmp_path / str(percent)
        before = given(folder)
        run_task(elsewhere, folder, wire, how, whole * percent // 100)
        # Its very end may have been reached: then all of it is there.
        assert look(folder / "project") in (before, after), percent
        wait(finish(elsewhere, folder, f"[ -e a/done ] || {{ {WORK}; }}"))
        assert look(folder / "project") == after, percent
        assert (folder / "home/kept").read_text(encoding="utf-8") == "kept\n", percent
        assert {path.name for path in folder.iterdir()} <= FOLDERS, percent
    assert volumes(elsewhere) == []


def test_a_sandbox_that_did_not_become_ready_brings_nothing_back(
    elsewhere: Engine, wire: Wire, tmp_path: Path
) -> None:
    before = given(tmp_path / "run")

    async def begin() -> None:
        sandbox = open_there(elsewhere, tmp_path / "run")
        wire.break_after(300_000)
        with pytest.raises(SandboxError):
            await sandbox.prepare()
        wire.mend()
        await sandbox.destroy()

    wait(begin())
    assert look(tmp_path / "run/project") == before
    wait(finish(elsewhere, tmp_path / "run"))
    assert look(tmp_path / "run/project") == before


def test_work_that_lost_one_of_its_volumes_is_not_taken_for_whole(elsewhere: Engine, tmp_path: Path) -> None:
    before = given(tmp_path / "run")

    async def begin() -> None:
        sandbox = open_there(elsewhere, tmp_path / "run")
        await sandbox.prepare()
        name = the_container(elsewhere)
        elsewhere("rm", "--force", name)
        with contextlib.suppress(SandboxError):
            await sandbox.destroy()

    wait(begin())
    (project,) = [name for name in volumes(elsewhere) if name.endswith("-project")]
    elsewhere("volume", "rm", project)
    wait(finish(elsewhere, tmp_path / "run"))
    assert look(tmp_path / "run/project") == before


def test_the_mark_of_a_task_that_runs_is_not_pruned(elsewhere: Engine, tmp_path: Path) -> None:
    async def work() -> None:
        sandbox = open_there(elsewhere, tmp_path / "run")
        await sandbox.prepare()
        assert prune(find(elsewhere.environ), days=0, work=True).volumes == ()
        assert len(volumes(elsewhere)) == 3
        await sandbox.destroy()

    wait(work())
    assert volumes(elsewhere) == []
