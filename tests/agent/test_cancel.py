"""A task that is cancelled ends as people expect: cut short, its work pushed, its issue told, nothing left.

A real worker with real git, in this process; the model waits where the test says.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.worker.loop import stop_task
from kakite.agent.worker.payloads import make_folder_name
from kakite.durable.dbos.client import DbosWorkflowClient
from tests.agent import working
from tests.agent.answering import Answering, answering
from tests.bounds import WITHIN
from tests.durable.waiting import until
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(WITHIN)]

BRANCH = "kakite/1-make-one"
PLAN = {"say": '{"goal": "a is 2", "steps": ["edit"], "title": "Make one", "check": ""}'}
WRITES = {"calls": [{"tool": "run_command", "arguments": {"command": "echo 1 > b; echo mine > a"}}]}
HANGS = {"calls": [{"tool": "run_command", "arguments": {"command": "touch hangs; sleep 1000"}}]}


@dataclass
class Scene:
    """A folder with one issue, and a model that answers only as far as it is let."""

    place: Path
    model: Answering
    let: threading.Event = field(default_factory=threading.Event)

    @property
    def remote(self) -> Path:
        return self.place / "forge" / "repo.git"

    @property
    def issue(self) -> str:
        return (self.place / "forge" / "issues" / "001-x.md").read_text(encoding="utf-8")

    @property
    def tasks(self) -> Path:
        return self.place / "agent" / "tasks"

    def holding(self, number: int) -> None:
        """Let the model keep silent from this reply on."""

        def before(_words: str, now: int) -> None:
            if now >= number:
                self.let.wait(WITHIN)

        self.model.before = before

    @asynccontextmanager
    async def worked(self) -> AsyncGenerator[DbosWorkflowClient]:
        told: dict[str, Any] = {
            "stays": True,
            "folder": str(self.place / "agent"),
            "marks": str(self.place / "marks"),
            "model": self.model.url,
            "forge": {"kind": "local", "path": str(self.place / "forge"), "url": ""},
        }
        async with DbosWorkflowClient(self.place / "agent") as client:
            work = asyncio.create_task(working.main(told))
            try:
                yield client
            finally:
                work.cancel()
                await asyncio.wait([work])
                self.let.set()


@pytest.fixture
def scene() -> Generator[Scene]:
    with tempfile.TemporaryDirectory() as name, answering({"Make one": [PLAN, WRITES, HANGS]}) as model:
        place = Path(name)
        (place / "forge" / "issues").mkdir(parents=True)
        (place / "marks").mkdir()
        make_remote(place / "forge", {"a": "1\n"}, "repo.git")
        text = "---\ntitle: Make one\nlabels: [kakite]\n---\n\nMake one\n"
        (place / "forge" / "issues" / "001-x.md").write_text(text, encoding="utf-8")
        yield Scene(place, model)


async def cancelled(client: DbosWorkflowClient, task: str) -> Any:
    await stop_task(client, task, by="ann", via="terminal")
    return await client.get_result(task, 60)


async def begun(scene: Scene, client: DbosWorkflowClient, replies: int) -> str:
    """Return the id of the task once the model was asked so often."""
    await until(lambda: len(scene.model.asked) >= replies)
    return (await client.list_workflows())[0].id


@pytest.mark.slow
async def test_what_the_model_is_asked_is_cut_short_and_its_work_is_pushed_and_told(scene: Scene) -> None:
    scene.holding(2)
    async with scene.worked() as client:
        task = await begun(scene, client, 3)
        folder = scene.tasks / make_folder_name(task)
        assert (folder / "mirror.git").exists()
        result = await cancelled(client, task)
        assert (result["status"], result["pushed"]) == ("stopped", True)
        assert git(scene.remote, "show", f"{BRANCH}:b") == "1"
        assert "labels: [kakite:stopped]" in scene.issue
        assert scene.issue.count("**Stopped.**") == 1
        assert "draft: true" in (scene.place / "forge" / "pulls" / "001.md").read_text(encoding="utf-8")
        assert not (folder / "mirror.git").exists()
        assert not (folder / "task").exists()


@pytest.mark.slow
async def test_a_command_that_runs_is_ended(scene: Scene) -> None:
    async with scene.worked() as client:
        task = await begun(scene, client, 3)
        await until(lambda: list(scene.tasks.glob("*/task/**/hangs")))
        assert (await cancelled(client, task))["pushed"] is True
        assert "hangs" in git(scene.remote, "ls-tree", "--name-only", BRANCH)


@pytest.mark.slow
async def test_a_task_that_was_cancelled_while_no_worker_lived_is_ended_by_the_next(scene: Scene) -> None:
    scene.holding(2)
    async with scene.worked() as client:
        task = await begun(scene, client, 3)
    async with DbosWorkflowClient(scene.place / "agent") as client:
        await stop_task(client, task, by="ann", via="terminal")
    asked = len(scene.model.asked)
    async with scene.worked() as client:
        result: Any = await client.get_result(task, 60)
        assert result["status"] == "stopped"
    assert len(scene.model.asked) == asked
    assert git(scene.remote, "show", f"{BRANCH}:b") == "1"
    assert "labels: [kakite:stopped]" in scene.issue


@pytest.mark.slow
async def test_what_somebody_else_pushed_meanwhile_stays_below_what_is_left(scene: Scene) -> None:
    scene.holding(2)
    async with scene.worked() as client:
        task = await begun(scene, client, 3)
        theirs = commit_file(scene.place, scene.remote, BRANCH, "other", "theirs\n")
        result = await cancelled(client, task)
        assert result["pushed"] is True
        assert git(scene.remote, "rev-parse", f"{BRANCH}~1") == theirs
        assert [git(scene.remote, "show", f"{BRANCH}:{name}") for name in ("other", "a")] == [
            "theirs",
            "mine",
        ]
        assert git(scene.remote, "rev-parse", BRANCH) == result["commit"]


@pytest.mark.slow
async def test_what_does_not_fit_to_theirs_is_kept_beside_the_branch_and_told(scene: Scene) -> None:
    scene.holding(2)
    async with scene.worked() as client:
        task = await begun(scene, client, 3)
        theirs = commit_file(scene.place, scene.remote, BRANCH, "a", "theirs\n")
        await cancelled(client, task)
        shown: Any = (await client.describe(task)).published
        assert git(scene.remote, "rev-parse", BRANCH) == theirs
        assert git(scene.remote, "show", f"{shown['kept']}:a") == "mine"
        assert f"git fetch origin {shown['kept']}" in scene.issue
        assert "labels: [kakite:stopped]" in scene.issue
