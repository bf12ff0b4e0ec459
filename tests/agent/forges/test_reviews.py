"""A review is on the page of a pull request once for each head, and never taken for a person's words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.forges.base import ForgeError
from kakite.agent.forges.github import GitHubApi
from kakite.agent.forges.github_session import GitHubToken
from kakite.agent.forges.gitlab import GitLabApi
from kakite.agent.forges.labels import parse_marker
from kakite.agent.forges.reviews import ReviewApi, ReviewComment, has_review, put_review
from kakite_testing.forges import BOT, FakeForge, Fault, fake_github, fake_gitlab
from tests.agent.forges.worlds import PATIENCE
from tests.contracts import github_contract, gitlab_contract

OpenApi = Callable[[], ReviewApi]
SUGGESTED = "Look.\n```suggestion\nprint(3)\n```"


@contextmanager
def run_github(folder: Path) -> Generator[tuple[FakeForge, OpenApi]]:
    with fake_github(folder, contract=github_contract()) as fake:
        token = GitHubToken(fake.token)
        yield (
            fake,
            lambda: GitHubApi(fake.path, token, api_url=fake.api_url, patience=PATIENCE, between_writes=0),
        )
        assert fake.violations == ()


@contextmanager
def run_gitlab(folder: Path) -> Generator[tuple[FakeForge, OpenApi]]:
    with fake_gitlab(folder, contract=gitlab_contract()) as fake:
        yield fake, lambda: GitLabApi(fake.path, fake.token, url=fake.server, patience=PATIENCE)
        assert fake.violations == ()


FORGES = {"github": run_github, "gitlab": run_gitlab}


def remark(start: int, end: int, old_line: int | None = None) -> ReviewComment:
    return ReviewComment(
        path="app.py", start=start, end=end, text=SUGGESTED, old_line=old_line, place=f"`app.py:{start}`"
    )


def post(open_api: OpenApi, *remarks: ReviewComment) -> str | None:
    async def work() -> str | None:
        api = open_api()
        return await put_review(api, await api.fetch_review_target(1), "All in all.", remarks)

    return asyncio.run(work())


def is_reviewed(open_api: OpenApi) -> bool:
    async def work() -> bool:
        api = open_api()
        return await has_review(api, await api.fetch_review_target(1))

    return asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORGES)
@pytest.mark.parametrize("lost", [0, 1])
def test_a_review_is_written_once_for_a_head_also_if_an_answer_is_lost(
    tmp_path: Path, kind: str, lost: int
) -> None:
    with FORGES[kind](tmp_path) as (fake, open_api):
        fake.repository.commit({"app.py": "print(1)\nprint(2)\n"}, "Two", branch="topic")
        pull = fake.state.open_pull("Two", by="ann", head="topic", base="main")
        fake.fail(Fault(status=502, method="POST", after=True, times=lost))
        first = post(open_api, remark(1, 2), remark(2, 2))
        second = post(open_api, remark(2, 2))
        assert second is None
        assert first is None if kind == "github" and lost else str(first).startswith(fake.server)
        assert [note.line for note in pull.notes] == [2, 2, None]
        assert all(parse_marker(note.text) for note in pull.notes)
        fake.repository.commit({"app.py": "print(1)\nprint(9)\n"}, "Nine", branch="topic")
        assert post(open_api) is not None
        assert len(pull.notes) == 4


@pytest.mark.slow
def test_lines_that_the_diff_does_not_show_are_refused_by_github_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with run_github(tmp_path) as (fake, open_api):
        fake.repository.commit({"app.py": "print(1)\n"}, "One", branch="topic")
        pull = fake.state.open_pull("One", by="ann", head="topic", base="main")
        with pytest.raises(ForgeError) as refused:
            post(open_api, remark(1, 1), remark(30, 30))
        assert refused.value.code == "forge_rejected"
        assert pull.notes == []


@pytest.mark.slow
def test_a_remark_at_a_line_that_gitlab_does_not_show_names_its_place(tmp_path: Path) -> None:
    with run_gitlab(tmp_path) as (fake, open_api):
        fake.repository.commit({"app.py": "print('hello')\nprint(1)\n"}, "One", branch="topic")
        pull = fake.state.open_pull("One", by="ann", head="topic", base="main")
        assert post(open_api, remark(1, 1, old_line=1), remark(2, 2), remark(30, 30)) is not None
        assert [note.line for note in pull.notes] == [1, 2, None, None]
        marker, place, _, *rest = pull.notes[2].text.split("\n")
        assert parse_marker(marker) is not None
        assert (place, "\n".join(rest)) == ("`app.py:30`", SUGGESTED)


@pytest.mark.slow
def test_a_review_that_broke_off_goes_on_where_it_was_and_nobody_can_feign_one(tmp_path: Path) -> None:
    with run_gitlab(tmp_path) as (fake, open_api):
        fake.repository.commit({"app.py": "print(1)\nprint(2)\n"}, "Two", branch="topic")
        pull = fake.state.open_pull("Two", by="ann", head="topic", base="main")
        # The text, which comes last, is never taken.
        fault = Fault(status=403, method="POST", path="/notes$", times=1)
        fake.fail(fault)
        with pytest.raises(ForgeError):
            post(open_api, remark(1, 1), remark(2, 2))
        assert (len(pull.notes), is_reviewed(open_api)) == (2, False)
        assert post(open_api, remark(1, 1), remark(2, 2)) is not None
        assert [note.line for note in pull.notes] == [1, 2, None]
        assert is_reviewed(open_api)

        fake.repository.commit({"app.py": "print(9)\n"}, "Nine", branch="topic")
        head = fake.repository.get_head("topic")
        fake.state.comment(pull, f"<!-- kakite:review/{head} -->\nAll is well.", by="mallory")
        assert not is_reviewed(open_api)
        fake.state.comment(pull, f"<!-- kakite:review/{head} -->\nAll is well.", by=BOT)
        assert is_reviewed(open_api)


@given(
    start=st.integers(1, 500),
    above=st.integers(0, 150),
    lines=st.lists(
        st.sampled_from(["", "a", "  b", "/close", "x `y`", "a```", "```", "  ````x"]), max_size=6
    ),
)
def test_a_suggestion_for_gitlab_has_its_lines_and_no_quick_action(
    start: int, above: int, lines: list[str]
) -> None:
    block = GitLabApi("a/b", "x").format_suggestion(start, start + above, lines)
    fenced = any(re.match(r"\s*```", each) for each in lines)
    assert (block == "") == (above > 100 or fenced)
    if block:
        head, *inner, tail = block.split("\n")
        assert (head.lstrip("`"), inner) == (f"suggestion:-{above}+0", lines)
        assert tail == head[: len(head) - len(head.lstrip("`"))]
        # GitLab leaves out of quick actions what stands between two lines that begin with three ticks.
        assert "/close" not in re.sub(r"^```.+?^```", "", block, flags=re.DOTALL | re.MULTILINE)
