"""A review is on the page of a pull request once for each head, and never taken for a person's words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kakite.agent.forges.base import ForgeError
from kakite.agent.forges.github import GitHubApi
from kakite.agent.forges.github_session import GitHubToken
from kakite.agent.forges.reviews import ReviewComment, put_review
from kakite_testing.forges import FakeGitHub, Fault, fake_github
from tests.agent.forges.worlds import PATIENCE
from tests.contracts import github_contract

pytestmark = pytest.mark.slow


def api(fake: FakeGitHub) -> GitHubApi:
    return GitHubApi(
        fake.path, GitHubToken(fake.token), api_url=fake.api_url, patience=PATIENCE, between_writes=0
    )


def remark(start: int, end: int) -> ReviewComment:
    return ReviewComment(path="app.py", start=start, end=end, text="Look.\n```suggestion\nprint(3)\n```")


def post(fake: FakeGitHub, *remarks: ReviewComment) -> str | None:
    async def work() -> str | None:
        github = api(fake)
        return await put_review(github, await github.fetch_review_target(1), "All in all.", remarks)

    return asyncio.run(work())


@pytest.mark.parametrize("lost", [False, True])
def test_a_review_is_written_once_for_a_head_also_if_an_answer_is_lost(tmp_path: Path, *, lost: bool) -> None:
    with fake_github(tmp_path, contract=github_contract()) as fake:
        fake.repository.commit({"app.py": "print(1)\nprint(2)\n"}, "Two", branch="topic")
        pull = fake.state.open_pull("Two", by="ann", head="topic", base="main")
        if lost:
            fake.fail(Fault(status=502, method="POST", after=True, times=1))
        first = post(fake, remark(1, 2), remark(2, 2))
        second = post(fake, remark(2, 2))
        assert (first is None, second) == (lost, None)
        assert [note.kind for note in pull.notes] == ["line", "line", "review"]
        assert [note.line for note in pull.notes] == [2, 2, None]
        fake.repository.commit({"app.py": "print(1)\nprint(9)\n"}, "Nine", branch="topic")
        assert post(fake) is not None
        assert len(pull.notes) == 4
        assert fake.violations == ()


def test_lines_that_the_diff_does_not_show_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with fake_github(tmp_path, contract=github_contract()) as fake:
        fake.repository.commit({"app.py": "print(1)\n"}, "One", branch="topic")
        pull = fake.state.open_pull("One", by="ann", head="topic", base="main")
        with pytest.raises(ForgeError) as refused:
            post(fake, remark(1, 1), remark(30, 30))
        assert refused.value.code == "forge_rejected"
        assert pull.notes == []
