"""A comment at a forge lets a finished task go on: its conversation, its branch, its one pull request."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.answering import Answering, answering
from tests.agent.forges.worlds import WORLDS
from tests.cli.test_worker import PLAN, command, issue, local_forge, place, run, work
from tests.repositories import git

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
__all__ = ["place"]

BRANCH = "kakite/1-make-one"
MORE = {"say": PLAN["say"].replace("Make a 2", "Append")}
TURNS = [
    *(PLAN, command("echo 1 > b"), {"say": "Done."}),
    *(MORE, command("echo 2 >> b"), {"say": "Appended."}),
    *(MORE, command("echo 3 >> b"), {"say": "Appended again."}),
]
"""Of one conversation. One that began anew would get the first turns again, and change nothing."""


@pytest.fixture
def model() -> Generator[Answering]:
    with answering({"Make one": TURNS}) as known:
        yield known


def rounds_of(place: Path) -> list[list[str]]:
    """Return what the rounds of each task were begun with, the tasks in their order."""
    exports = [run(place, "export", each["id"], "--jsonl", "-") for each in run(place, "list", "--json").json]
    return [
        [line for line in each.stdout.splitlines() if '"from_person": true' in line]
        for each in reversed(exports)
    ]


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_comments_let_a_finished_task_go_on_once_each(kind: str, place: Path, model: Answering) -> None:
    with WORLDS[kind](place) as world:
        fake: Any = world.fake
        state, repository = fake.state, fake.repository.folder
        url = fake.api_url if kind == "github" else fake.server
        token = {f"KAKITE_{kind.upper()}_TOKEN": fake.token}

        def at_forge() -> None:
            options = ("--forge", kind, fake.path, "--forge-url", url, "--approve", "all")
            done = work(place, model, *options, **token)
            assert done.code == 0, done.stderr

        opened = state.open_issue("Make one", "Make one", by="ann")
        state.label(opened, "kakite", by="ann")
        at_forge()
        assert git(repository, "show", f"{BRANCH}:b") == "1"
        state.comment(opened, "@kakite append a 3", by="mallory")
        at_forge()
        assert len(model.asked) == 3
        state.comment(opened, "@kakite append a 2", by="bob")
        at_forge()
        assert git(repository, "show", f"{BRANCH}:b").split() == ["1", "2"]
        (request,) = state.pulls
        state.comment(request, "And a 3, please", by="ann")
        for _ in range(2):  # the second look finds nothing new
            at_forge()
        assert git(repository, "show", f"{BRANCH}:b").split() == ["1", "2", "3"]
        assert len(state.pulls) == 1
        assert len(model.asked) == 9
        first, second, third = rounds_of(place)
        assert (len(first), len(second), len(third)) == (0, 1, 2)
        assert "append a 2" in second[0]
        assert "append a 3" not in "".join(third)
        assert "And a 3, please" in third[1]
        shown = run(place, "list", "--json").json
        assert [each["usage"]["requests"] for each in shown] == [3, 3, 3]  # each its own


def test_in_a_folder_a_remark_goes_on_and_without_what_was_kept_a_conversation_begins_anew(
    place: Path, model: Answering
) -> None:
    forge = local_forge(place)
    file = issue(forge, 1, "Make one")
    options = ("--forge", "local", str(forge), "--approve", "all")
    assert work(place, model, *options).code == 0
    (pull,) = (forge / "pulls").glob("*.md")
    with pull.open("a", encoding="utf-8") as page:
        page.write("\n## comment by ann, 2026-01-02 03:04\n\nAppend a 2.\n")
    done = work(place, model, *options)
    assert done.code == 0, done.stderr
    assert "takes up #1 (review by ann)" in done.stderr
    assert git(forge / "repo.git", "show", f"{BRANCH}:b").split() == ["1", "2"]
    assert git(forge / "repo.git", "rev-list", "--count", f"main..{BRANCH}") == "3"  # with that of the draft
    for blob in (place / "h/.local/state/kakite/agent/blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    with file.open("a", encoding="utf-8") as page:
        page.write("\n## comment by ann, 2026-01-02 03:05\n\n@kakite do it once more\n")
    done = work(place, model, *options)
    assert done.code == 0, done.stderr
    assert git(forge / "repo.git", "show", f"{BRANCH}:b").split() == ["1"]  # its first turns again
