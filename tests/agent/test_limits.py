"""That the model is told which limit of its sandbox a command ran into."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from kakite.agent.run.state import RunState
from kakite.models.messages import ToolMessage, UserMessage
from kakite.sandbox import ResourceLimits
from kakite.sandbox.backends import cgroups
from tests.agent.test_runner import command, run_of
from tests.cli.program import skip_without
from tests.engines import Engine
from tests.repositories import make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]  # an image may be built

SMALL = ResourceLimits(memory=512 << 20, processes=100, disk=64 << 20, files=3000)
HOG = "python3 -c 'room = bytearray(900 << 20); print(sum(room[::4096]))'"
FORKS = """\
cat > forks.py << 'END'
import os, time
for _ in range(200):
    if os.fork() == 0: time.sleep(60); os._exit(0)
END
python3 forks.py
"""
FULL = "i=0; while :; do i=$((i + 1)); head -c 4M /dev/zero > ~/f$i; sleep 0.02; done"
MANY = "python3 -c 'import os, time\nfor i in range(5000): open(str(i), \"w\")\ntime.sleep(60)'"
LARGE = "head -c 80M /dev/zero > large; code=$?; rm large; exit $code"


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def grouped() -> None:
    skip_without("bubblewrap")
    group = cgroups.make_group(SMALL)
    if group is None or not (group.has_limit("memory") and group.has_limit("pids")):
        pytest.skip("no control groups can be made here")
    assert group.remove()


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize(("script", "limit"), [(HOG, "memory"), (FORKS, "processes"), (LARGE, "disk")])
async def test_a_limit_that_a_command_ran_into_is_named_in_its_answer(
    place: Path, script: str, limit: str
) -> None:
    remote = make_remote(place, {"a": "1\n"})
    run = await run_of(place, remote, command(f"echo 2 > a; {script}"), kind="bubblewrap", limits=SMALL)
    first, *_ = heard(run)[0].splitlines()
    assert f", limit {limit}" in first
    assert not first.startswith("exit code 0")
    assert "\nhint: " in heard(run)[0]


@pytest.mark.parametrize(("script", "limit"), [(HOG, "memory"), (FORKS, "processes")])
async def test_a_limit_is_named_in_a_container_too(
    place: Path, docker: Engine, script: str, limit: str
) -> None:
    remote = make_remote(place, {"a": "1\n"})
    environ = {**os.environ, **docker.environ}
    run = await run_of(
        place, remote, command(f"echo 2 > a; {script}"), kind="container", limits=SMALL, environ=environ
    )
    assert f", limit {limit}" in heard(run)[0].splitlines()[0]


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize(("script", "limit"), [(FULL, "disk"), (MANY, "files")])
async def test_a_limit_of_the_tasks_folders_is_named_where_a_command_was_killed_for_it(
    place: Path, script: str, limit: str
) -> None:
    clean = command("rm -f ~/f* [0-9]*; echo 2 > a")
    run = await run_of(
        place, make_remote(place, {"a": "1\n"}), command(script), clean, kind="bubblewrap", limits=SMALL
    )
    assert run.status == "done"
    assert f"the limit `{limit}`" in heard(run)[0]
    assert "the limit" not in heard(run)[1]


@pytest.mark.usefixtures("grouped")
async def test_a_step_of_the_setup_that_ran_into_a_limit_names_it(place: Path) -> None:
    hog = "bytearray(900 << 20).count(1)"
    remote = make_remote(place, {"a": "1\n", "setup.py": f"{hog}\n", "requirements.txt": ""})
    run = await run_of(place, remote, command("echo 2 > a"), kind="bubblewrap", limits=SMALL, setup=True)
    told = " ".join(message.text for message in run.messages if isinstance(message, UserMessage))
    assert "failed at the sandbox's limit of memory" in told


def heard(run: RunState) -> list[str]:
    return [message.text for message in run.messages if isinstance(message, ToolMessage)]
