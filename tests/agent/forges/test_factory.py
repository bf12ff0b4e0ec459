"""Opening GitHub and GitLab by name, with tokens from the environment."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from kakite.agent.forges.factory import open_github, open_gitlab
from kakite.errors import UsageError
from kakite_testing.forges import fake_github, fake_gitlab

TOKENS = {"KAKITE_GITHUB_TOKEN": "t", "KAKITE_GITLAB_TOKEN": "t"}


def test_a_forge_is_opened_with_the_token_of_the_environment(tmp_path: Path) -> None:
    with fake_github(tmp_path) as fake:
        forge = open_github(fake.path, {"KAKITE_GITHUB_TOKEN": f"{fake.token}\n"}, api_url=fake.api_url + "/")
        asyncio.run(forge.check())
    (tmp_path / "lab").mkdir()
    with fake_gitlab(tmp_path / "lab") as fake:
        lab = open_gitlab(fake.path, {"KAKITE_GITLAB_TOKEN": fake.token}, url=fake.server + "/")
        asyncio.run(lab.check())


@pytest.mark.parametrize("environ", [{}, dict.fromkeys(TOKENS, " "), dict.fromkeys(TOKENS, "tök")])
def test_without_a_token_nothing_is_opened(environ: dict[str, str]) -> None:
    for opened in (open_github, open_gitlab):
        with pytest.raises(UsageError) as raised:
            opened("team/app", environ)
        assert (raised.value.code, bool(raised.value.hint)) == ("missing_token", True)


@pytest.mark.parametrize(
    "path",
    ["", "app", "/app", "team/", "team/app/..", "team/../x", "team/app.git", "team/a b", "a/b?c", "-/x"],
)
def test_what_is_no_path_of_a_repository_is_told(path: str) -> None:
    for opened in (open_github, open_gitlab):
        with pytest.raises(UsageError) as raised:
            opened(path, TOKENS)
        assert raised.value.code == "bad_repository"


def test_groups_may_lie_in_groups_on_gitlab_alone() -> None:
    assert open_gitlab("team/tools/app", TOKENS).path == "team/tools/app"
    with pytest.raises(UsageError):
        open_github("team/tools/app", TOKENS)


@pytest.mark.parametrize(
    "url",
    ["http://forge.example", "https://me:pw@forge.example", "ftp://x", "forge.example", "https://x/?a=b"],
)
def test_a_token_is_sent_to_no_address_that_could_tell_it(url: str) -> None:
    for opened in (partial(open_github, api_url=url), partial(open_gitlab, url=url)):
        with pytest.raises(UsageError) as raised:
            opened("team/app", TOKENS)
        assert raised.value.code == "bad_address"
        assert "pw" not in str(raised.value)


def test_the_libraries_are_loaded_by_the_first_request_alone() -> None:
    code = (
        "import sys, os; from kakite.agent.forges.factory import open_github, open_gitlab; "
        f"open_github('a/b', {TOKENS}); open_gitlab('a/b', {TOKENS}); "
        "print([each for each in ('github', 'gitlab', 'requests') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8", timeout=60
    )
    assert done.stdout.strip() == "[]"
