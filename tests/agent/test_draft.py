"""A draft is there long before the work is: on a folder, on GitHub, on GitLab."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.forges.base import Forge, PullRequest
from kakite.agent.forges.local.forge import LocalForge
from tests.agent.answering import Answering, answering
from tests.agent.fleet import CALLS, COUNTED, LIMIT, SCRIPT, Fleet, LocalFleet, Outage, ends_of
from tests.agent.forges.worlds import WORLDS
from tests.repositories import git

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def model() -> Generator[Answering]:
    with answering({"Count to": SCRIPT}) as known:
        yield known


def only(forge: Forge, branch: str) -> PullRequest:
    (request,) = asyncio.run(forge.list_pull_requests(branch))
    return request


def check(fleet: Fleet, model: Answering, forge: Forge, repository: Path) -> None:
    """Look at the draft when the model is asked for its last words, and again when all is done."""
    outage = Outage(model, CALLS + 1)
    worker = fleet.start()
    try:
        assert outage.due.wait(LIMIT)
        branches = git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        (ours,) = [name for name in branches if name.startswith("kakite/")]
        early = only(forge, ours)
        assert (early.draft, early.title) == (True, "Count")
        assert "count" in early.text
        assert git(repository, "diff", "--stat", "main", ours) == ""
        assert git(repository, "log", "-1", "--format=%s", ours) == "Begin the work on #1"
    finally:
        outage.begun.set()
        ends = ends_of(worker)
    assert ends == [0]
    late = only(forge, ours)
    assert (late.number, late.draft) == (early.number, False)
    assert git(repository, "show", f"{ours}:b").split() == COUNTED
    assert git(repository, "log", "--format=%s", f"main..{ours}").splitlines() == [
        "Count",
        "Begin the work on #1",
    ]


def test_a_folder_has_the_draft_while_the_work_goes_on(place: Path, model: Answering) -> None:
    fleet = LocalFleet(place, model.url)
    check(fleet, model, LocalForge(fleet.forge), fleet.repository)


def test_a_branch_that_is_gone_with_the_machine_is_made_anew_with_the_work(
    place: Path, model: Answering
) -> None:
    fleet = LocalFleet(place, model.url)
    assert fleet.work(["advance 29 before"]) == -9
    (ours,) = git(fleet.repository, "for-each-ref", "--format=%(refname)", "refs/heads/kakite").split()
    git(fleet.repository, "update-ref", "-d", ours)
    git(fleet.repository, "gc", "--quiet", "--prune=now")
    shutil.rmtree(place / "m" / "agent" / "tasks")
    assert fleet.work() == 0
    assert git(fleet.repository, "show", f"{ours}:b").split() == COUNTED


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_forge_has_the_draft_while_the_work_goes_on(
    kind: str, place: Path, model: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WORLDS[kind](place) as world:
        fake: Any = world.fake
        number = fake.state.open_issue("Count", "Count to thirteen.", by="ann")
        fake.state.label(number, "kakite", by="ann")
        monkeypatch.setenv(f"KAKITE_{kind.upper()}_TOKEN", fake.token)
        url = fake.api_url if kind == "github" else fake.server
        fleet = Fleet(place / "w", model=model.url, forge={"kind": kind, "path": fake.path, "url": url})
        check(fleet, model, world.forge, fake.repository.folder)
