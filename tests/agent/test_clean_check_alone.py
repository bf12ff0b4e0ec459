"""While a commit is made, checked and pushed, nothing runs that the model has started."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.run.state import get_check_result
from kakite.models.messages import ToolMessage, UserMessage
from tests.agent.test_clean_check import assert_not_checked, run_checked
from tests.agent.test_runner import DONE, command
from tests.cli.program import skip_without

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SHARED = "/usr/bin/env"
"""A file of the system that each sandbox can read."""
LOCK = "import fcntl, time; file = open('{}'); fcntl.lockf(file, fcntl.LOCK_SH); time.sleep(1000)"
LOCKED = (
    "import fcntl, struct, sys; f = open('{}'); asked = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0); "
    "found = struct.unpack('hhqqi4x', fcntl.fcntl(f, fcntl.F_GETLK, asked)); "
    "sys.exit(found[0] == fcntl.F_UNLCK)"
)
SIGNS = {
    "a lock of a file": (f"exec flock {SHARED} sleep 1000", f"! flock -n {SHARED} true"),
    "a lock of a part of a file": (
        f'exec python3 -c "{LOCK.format(SHARED)}"',
        f'python3 -c "{LOCKED.format(SHARED)}"',
    ),
}


def background(line: str) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": line, "background": True}}]}


@pytest.fixture
def place() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def bubblewrap() -> None:
    skip_without("bubblewrap")


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("sign", SIGNS)
async def test_what_all_sandboxes_share_gives_no_check_a_sign(place: Path, sign: str) -> None:
    give, check = SIGNS[sign]
    assert_not_checked(await run_checked(place, check, background(give), max_turns=4))


async def test_a_process_that_was_left_running_is_gone_before_the_check(place: Path) -> None:
    check = "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -q 'sleep 98[7]'"
    run = await run_checked(place, check, background("exec sleep 987"), kind="local", max_turns=4)
    assert_not_checked(run)


async def test_the_model_goes_on_after_its_programs_were_ended(place: Path) -> None:
    later = (DONE, command("cat seen; echo 3 > seen; git add -f seen"), DONE)
    plant = command("echo 2 > seen; echo seen > .git/info/exclude")
    run = await run_checked(place, "test -e seen", plant, background("exec sleep 987"), *later, kind="local")
    answers = [message.text for message in run.messages if isinstance(message, ToolMessage)]
    assert "2" in answers[-1]
    assert (run.status, get_check_result(run)) == ("done", True)
    asked = [message.text for message in run.messages if isinstance(message, UserMessage)]
    assert any("were ended" in text for text in asked)


async def test_a_process_that_commits_again_and_again_keeps_no_run_from_its_end(place: Path) -> None:
    commits = (
        "until git log -1 --format=%s | grep -q 'Make a 2'; do sleep 0.05; done; while :; do sleep 0.3; "
        "git -c user.name=m -c user.email=m@l commit -q --allow-empty -m Again; done"
    )
    check = "sleep 0.5; grep -qx 2 a"
    run = await run_checked(place, check, background(commits), kind="local")
    assert (run.status, get_check_result(run)) == ("done", True)
