"""A forge as a test sees it: what people do there, and the port that the agent has to it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kakite.agent.forges.base import Forge
from kakite.agent.forges.github import GitHubApi
from kakite.agent.forges.github_session import GitHubToken
from kakite.agent.forges.gitlab import GitLabApi
from kakite.agent.forges.http_client import RetryPolicy
from kakite.agent.forges.rest import RestForge
from kakite_testing.forges import FakeForge, FakeGitHub, FakeGitLab, fake_github, fake_gitlab
from tests.bounds import WITHIN
from tests.contracts import github_contract, gitlab_contract

PATIENCE = RetryPolicy(attempts=3, pause=0.01, longest=0.5, timeout=WITHIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One repository with Ann and Bob, who may write, and Mallory, who may not."""

    fake: FakeForge
    forge: Forge
    another: Callable[[], Forge]
    """Makes one more port, as another process would."""


def github(fake: FakeGitHub, token: str | None = None) -> RestForge:
    """Return the port to a fake GitHub."""
    return RestForge(
        GitHubApi(
            fake.path,
            GitHubToken(token or fake.token),
            api_url=fake.api_url,
            patience=PATIENCE,
            between_writes=0,
        )
    )


@contextmanager
def github_world(folder: Path) -> Generator[World]:
    """Run a fake GitHub. Afterwards nothing may have gone against GitHub's contract."""
    with fake_github(folder, contract=github_contract()) as fake:
        _people(fake)
        yield World(fake=fake, forge=github(fake), another=lambda: github(fake))
        assert fake.violations == ()


def _people(fake: FakeForge) -> None:
    fake.state.people |= {"ann": "write", "bob": "admin", "mallory": "read"}


def gitlab(fake: FakeGitLab, token: str | None = None) -> RestForge:
    """Return the port to a fake GitLab."""
    return RestForge(GitLabApi(fake.path, token or fake.token, url=fake.server, patience=PATIENCE))


@contextmanager
def gitlab_world(folder: Path) -> Generator[World]:
    """Run a fake GitLab. Afterwards nothing may have gone against what we know of GitLab's contract."""
    with fake_gitlab(folder, contract=gitlab_contract()) as fake:
        _people(fake)
        yield World(fake=fake, forge=gitlab(fake), another=lambda: gitlab(fake))
        assert fake.violations == ()


WORLDS = {"github": github_world, "gitlab": gitlab_world}


def write_issue(folder: Path, title: str, text: str, *, labels: tuple[str, ...]) -> int:
    """Write the next issue of a folder, as Ann does with her editor; return its number."""
    issues = folder / "issues"
    issues.mkdir(exist_ok=True)
    number = len(list(issues.iterdir())) + 1
    head = f"title: {title}\nlabels: [{', '.join(labels)}]\nstate: open\nauthor: ann"
    (issues / f"{number:03}.md").write_text(f"---\n{head}\n---\n\n{text}\n", encoding="utf-8")
    return number
