"""A run that is gone on with in another kind of sandbox than it was begun in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.events import ModelRequestStarted, RunEvent
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState
from kakite.models.messages import ToolMessage, UserMessage
from tests.agent.test_runner import BRANCH, DONE, PLAN, command, parts_of
from tests.cli.program import skip_without
from tests.engines import Engine
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]  # the first one builds an image

LOOK = command(
    "git fetch -q && git ls-remote -q origin main && cat a && echo 3 > b && git status --porcelain"
)


class CutShortError(Exception):
    """The process ended here."""


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@dataclass(frozen=True)
class Where:
    """A kind of sandbox, and the environment in which it works."""

    kind: str
    environ: Mapping[str, str]


Moved = tuple[Where, Where]


@pytest.fixture
def moved(request: pytest.FixtureRequest) -> Moved:
    """Where a run is begun, and where it is gone on with."""
    first, second = request.param.split("-")
    return where(first, request), where(second, request)


def where(kind: str, request: pytest.FixtureRequest) -> Where:
    if kind == "container":
        engine: Engine = request.getfixturevalue("docker")
        return Where(kind, {**os.environ, **engine.environ})
    skip_without(kind)
    return Where(kind, os.environ)


def between(*kinds: str) -> pytest.MarkDecorator:
    engines = pytest.mark.xdist_group("engines")  # with the others that need one
    params = [pytest.param(kind, marks=engines if "container" in kind else ()) for kind in kinds]
    return pytest.mark.parametrize("moved", params, indirect=True)


async def begun(place: Path, remote: Path, where: Where, *, setup: bool = False) -> RunState:
    """Run until the model was answered once, and end in the middle."""

    def listen(event: RunEvent) -> None:
        if isinstance(event, ModelRequestStarted) and event.turn == 3:
            raise CutShortError

    begin = command("echo 2 > a; echo kept > ~/kept; ln a c")
    first, parts = parts_of(
        place, remote, {"say": PLAN}, begin, kind=where.kind, environ=where.environ, setup=setup
    )
    with pytest.raises(CutShortError):
        await run_task(first, parts(listen))
    return parts(None).record.load()


async def gone_on_with(
    place: Path, remote: Path, where: Where, *turns: dict[str, Any], setup: bool = False
) -> RunState:
    again, parts = parts_of(place, remote, *turns, DONE, kind=where.kind, environ=where.environ, setup=setup)
    return await run_task(again, parts(None))


@between(
    "container-bubblewrap", "bubblewrap-container", "bubblewrap-local", "container-local", "local-bubblewrap"
)
async def test_a_run_is_gone_on_with_in_another_kind_of_sandbox(place: Path, moved: Moved) -> None:
    first, second = moved
    remote = make_remote(place, {"a": "1\n"})
    run = await begun(place, remote, first)
    assert run.sandbox == first.kind
    commit_file(place, remote, "main", "theirs", "new\n")
    run = await gone_on_with(place, remote, second, LOOK)
    assert (run.status, run.sandbox) == ("done", second.kind)
    looked = heard(run)[-1]
    assert "exit code 0" in looked
    assert git(remote, "rev-parse", "main") in looked
    assert [git(remote, "show", f"{BRANCH}:{name}") for name in "abc"] == ["2", "3", "2"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders of others")
@between("container-bubblewrap", "container-local")
async def test_what_programs_of_another_user_wrote_is_the_persons_again(place: Path, moved: Moved) -> None:
    first, second = moved
    remote = make_remote(place, {"a": "1\n"})
    await begun(place, remote, first)
    task = place / "run" / "task"
    assert {path.lstat().st_uid for path in (task / "project").rglob("*")} == {59000}
    run = await gone_on_with(place, remote, second, command("cat ~/kept; find . ~ -uid 59000; touch b"))
    assert heard(run)[-1].endswith("\nkept")


@between("container-bubblewrap")
async def test_what_was_installed_in_one_kind_is_installed_again_in_another(
    place: Path, moved: Moved
) -> None:
    first, second = moved
    remote = make_remote(place, {"a": "1\n", "requirements.txt": "kakite-no-such-package==1\n"})
    run = await begun(place, remote, first, setup=True)
    assert run.environment
    used = command("python -c 'import pip, sys; print(sys.prefix)' > b")
    run = await gone_on_with(place, remote, second, used, setup=True)
    assert git(remote, "show", f"{BRANCH}:b") == "/workspace/home/venv"
    assert sum("requirements.txt" in text for text in asked(run)) == 2


@between("bubblewrap-local")
async def test_only_in_another_kind_the_model_is_told_where_it_is_now(place: Path, moved: Moved) -> None:
    remote = make_remote(place, {"a": "1\n"})
    project = str(place / "run" / "task" / "project")
    for kind, told in zip(moved, (False, True), strict=True):
        await begun(place, remote, moved[0])
        run = await gone_on_with(place, remote, kind, LOOK, DONE)  # who has only looked is asked once more
        assert any(project in text for text in asked(run)) is told
        assert run.environment is None
        shutil.rmtree(place / "run")


def asked(run: RunState) -> list[str]:
    return [message.text for message in run.messages if isinstance(message, UserMessage)]


def heard(run: RunState) -> list[str]:
    return [message.text for message in run.messages if isinstance(message, ToolMessage)]
