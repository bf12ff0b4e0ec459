"""What holds of every forge through the context alone, the folder among them: each step may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kakite.agent.forges.base import Forge, ForgeError
from kakite.agent.forges.labels import LabelConfig
from kakite.agent.forges.local.forge import LocalForge
from tests.agent.forges.worlds import github_world, gitlab_world, write_issue
from tests.repositories import git, make_remote

NAMES = LabelConfig()
BRANCH = "kakite/1-fix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A forge with one issue that waits, and a branch of work."""

    forge: Forge
    again: Callable[[], Forge]
    """Opens it once more, as a process would that goes on after another one has died."""


@contextmanager
def over_network(kind: str, folder: Path) -> Generator[Ground]:
    with (github_world if kind == "github" else gitlab_world)(folder) as world:
        world.fake.state.open_issue("Bug", "It breaks", by="ann", labels=("x", "kakite"))
        world.fake.repository.commit({"new.py": "1\n"}, "Work", branch=BRANCH)
        yield Ground(forge=world.forge, again=world.another)


@contextmanager
def folder_forge(folder: Path) -> Generator[Ground]:
    remote = make_remote(folder, {"a.py": "print(1)\n"}, "repo.git")
    git(remote, "branch", BRANCH)
    opened: list[LocalForge] = []

    def again() -> LocalForge:
        opened.append(LocalForge(folder))
        return opened[-1]

    forge = again()
    asyncio.run(forge.check())
    write_issue(folder, "Bug", "It breaks", labels=("x", "kakite"))
    yield Ground(forge=forge, again=again)
    for each in opened:
        each.close()


@pytest.fixture(params=["github", "gitlab", "local"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Ground]:
    made = folder_forge(tmp_path) if request.param == "local" else over_network(request.param, tmp_path)
    with made as ground:
        yield ground


@pytest.mark.slow
def test_a_task_that_does_each_step_twice_leaves_what_one_leaves_that_does_it_once(ground: Ground) -> None:
    async def work() -> None:
        for forge in (ground.forge, ground.again()):
            await forge.check()
            await forge.set_state_label(1, "processing", NAMES)
            await forge.put_comment(1, "progress", "at work")
        addresses: set[str] = set()
        for forge in (ground.forge, ground.again()):
            request = await forge.put_pull_request(
                issue=1, branch=BRANCH, base="main", title="Fix", text="How", draft=True
            )
            await forge.put_pull_request_comment(request.number, "summary", "what was done")
            addresses.add(await forge.put_comment(1, "progress", "done"))
            await forge.set_state_label(1, "done", NAMES)
        assert len(addresses) == 1
        issue = await ground.forge.get_issue(1)
        assert (issue.title, issue.text.strip(), issue.comments) == ("Bug", "It breaks", ())
        assert issue.labels == {"x", "kakite:done"}
        [made] = await ground.forge.list_pull_requests(BRANCH)
        assert (made.title, made.text.strip(), made.draft, made.state) == ("Fix", "How", True, "open")
        assert list(await ground.forge.list_review_comments(made.number)) == []
        assert await ground.forge.find_triggers(NAMES) == []

    asyncio.run(work())


@pytest.mark.slow
def test_what_waits_is_found_by_any_process_until_it_is_marked(ground: Ground) -> None:
    async def look() -> None:
        for forge in (ground.forge, ground.forge, ground.again()):
            [trigger] = await forge.find_triggers(NAMES)
            assert (trigger.number, trigger.kind) == (1, "label")
        await ground.again().set_state_label(1, "processing", NAMES)
        assert await ground.forge.find_triggers(NAMES) == []
        await ground.forge.set_state_label(1, "waiting", NAMES)
        assert len(await ground.forge.find_triggers(NAMES)) == 1

    asyncio.run(look())


@pytest.mark.slow
def test_what_is_not_there_is_not_found(ground: Ground) -> None:
    async def ask() -> None:
        await ground.forge.check()
        for asked in (
            ground.forge.get_issue(99),
            ground.forge.get_pull_request(99),
            ground.forge.list_review_comments(99),
            ground.forge.put_comment(99, "progress", "x"),
            ground.forge.put_pull_request_comment(99, "progress", "x"),
            ground.forge.set_state_label(99, "done", NAMES),
        ):
            with pytest.raises(ForgeError) as raised:
                await asked
            assert raised.value.code == "forge_not_found"
        assert list(await ground.forge.list_pull_requests("kakite/none")) == []

    asyncio.run(ask())
