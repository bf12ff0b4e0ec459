"""What goes to the branch beside the commit that was checked: a run does not say that it is checked."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from kakite.agent.run.state import get_check_result
from tests.agent.test_clean_check import BACKGROUND, FEW, run_checked
from tests.agent.test_runner import BRANCH, command
from tests.cli.program import skip_without
from tests.repositories import git

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# Beside the work tree, whose files and HEAD stay as they are: nothing of it is in the diff.
LEFT_RUNNING = f"""while ! git log -1 --format=%s | grep -q 'Make a 2'; do sleep 0.05; done
export GIT_INDEX_FILE=/tmp/index-of-another GIT_AUTHOR_NAME=m GIT_AUTHOR_EMAIL=m@l
export GIT_COMMITTER_NAME=m GIT_COMMITTER_EMAIL=m@l
git read-tree HEAD
blob=$(echo unchecked | git hash-object -w --stdin)
git update-index --cacheinfo 100644,$blob,a
git push -q origin $(git commit-tree $(git write-tree) -p HEAD -m Unchecked):refs/heads/{BRANCH}
"""
PUSHING_CHECK = (
    "if test -e mark.local; then true; else echo unchecked > a; "
    f"git -c user.name=m -c user.email=m@l commit -qam Unchecked && git push -q origin HEAD:{BRANCH}; fi"
)


@pytest.fixture
def place() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(params=["bubblewrap", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        skip_without("bubblewrap")
    return request.param


def read_remote(place: Path) -> tuple[str, str]:
    remote = next(path for path in place.iterdir() if path.name != "run")
    return git(remote, "rev-parse", BRANCH), git(remote, "show", f"{BRANCH}:a")


async def test_what_a_process_that_was_left_running_pushes_is_not_checked(place: Path, kind: str) -> None:
    (call,) = BACKGROUND["calls"]
    start = {"calls": [{**call, "arguments": {"command": LEFT_RUNNING, "background": True}}]}
    run = await run_checked(place, "grep -qx 2 a", start, kind=kind)
    commit, content = read_remote(place)
    last = [step for step in run.steps if step.kind == "check"][-1]
    assert not get_check_result(run) or (last.commit, content) == (commit, "2")


async def test_the_clean_checkout_pushes_nothing(place: Path, kind: str) -> None:
    run = await run_checked(place, PUSHING_CHECK, command("touch mark.local"), kind=kind, max_turns=FEW)
    checks = [step for step in run.steps if step.kind == "check"]
    assert checks[0].ok  # where the model works it pushes nothing by itself
    assert not checks[-1].ok
    assert get_check_result(run) is False
    remote = next(path for path in place.iterdir() if path.name != "run")
    assert "Unchecked" not in git(remote, "log", "--all", "--format=%s")
