"""Forges with one issue that waits, for the tests of what is done at them for a task."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kakite.agent.forges.base import Forge, ForgeError, Trigger
from kakite.agent.forges.github import GitHubApi
from kakite.agent.forges.github_session import GitHubToken
from kakite.agent.forges.gitlab import GitLabApi
from kakite.agent.forges.http_client import RetryPolicy
from kakite.agent.forges.labels import LabelConfig
from kakite.agent.forges.local.forge import LocalForge
from kakite.agent.forges.rest import RestForge
from kakite.agent.issues.thread import IssueThread, ThreadUpdate
from kakite.agent.issues.triage import AcceptedTask, find_pending_tasks
from kakite.agent.run.state import RunResult
from kakite.agent.worker.status import PullRequestView, TaskStatus
from kakite_testing.forges import FakeForge, FakeGitHub, FakeGitLab, Fault
from kakite_testing.forges.app import ForgeRequest
from tests.agent.forges.worlds import github_world, gitlab_world, write_issue
from tests.bounds import WITHIN
from tests.repositories import git, make_remote

NAMES = LabelConfig()
KINDS = ("github", "gitlab", "local")
ONCE = RetryPolicy(attempts=1, pause=0.01, longest=0.5, timeout=WITHIN)
OUTCOME = RunResult(summary="Fixed it.", check="pytest -q", checked=True, diffstat="+1 -0 new.py")


@dataclass(slots=True, kw_only=True)
class Nth(Fault):
    """Goes wrong with the nth request from now on."""

    nth: int = 1
    changes: bool = False
    """Only requests that change something count."""

    def matches(self, asked: ForgeRequest) -> bool:
        """Whether this is the nth."""
        if self.times < 1 or (self.changes and (asked.method == "GET" or b"userContentEdits" in asked.body)):
            return False
        self.nth -= 1
        return self.nth == 0


@dataclass(slots=True)
class Shaky:
    """A forge of which the nth call fails, before or after it is done. Without a number all go well."""

    forge: Forge
    nth: int = 0
    after: bool = False
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        """Return a method that counts."""
        found = getattr(self.forge, name)
        return self._counting(found) if inspect.iscoroutinefunction(found) else found

    def _counting(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*positional: Any, **named: Any) -> Any:
            self.calls += 1
            cut = self.calls == self.nth
            answer = None if cut and not self.after else await ask(*positional, **named)
            if cut:
                raise ForgeError("forge_unavailable", "made to fail")
            return answer

        return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Comments:
    """What is seen below an issue or a pull request."""

    texts: list[str]

    def with_key(self, start: str) -> list[str]:
        """Return those of ours with a key that begins so."""
        return [text for text in self.texts if text.startswith(f"<!-- kakite:{start}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One forge, and what people do there."""

    kind: str
    forge: Forge
    fake: FakeForge | None = None
    folder: Path = field(default_factory=Path)

    def issue(
        self, title: str = "Fix login", text: str = "It breaks", *, labels: tuple[str, ...] = ("kakite",)
    ) -> int:
        """Write an issue as Ann does."""
        if self.fake is not None:
            return self.fake.state.open_issue(title, text, by="ann", labels=labels).number
        return write_issue(self.folder, title, text, labels=labels)

    def branch(self, name: str) -> None:
        """Push some work."""
        if self.fake is not None:
            self.fake.repository.commit({"new.py": f"{name}\n"}, "Work", branch=name)
        else:
            git(self.folder / "repo.git", "branch", name)

    def once(self) -> Forge:
        """Return a port that asks once and gives up."""
        match self.fake:
            case FakeGitHub() as fake:
                return RestForge(
                    GitHubApi(
                        fake.path,
                        GitHubToken(fake.token),
                        api_url=fake.api_url,
                        patience=ONCE,
                        between_writes=0,
                    )
                )
            case FakeGitLab() as fake:
                return RestForge(GitLabApi(fake.path, fake.token, url=fake.server, patience=ONCE))
            case _:
                return self.forge

    def comments(self, number: int) -> Comments:
        """Return what stands below an issue."""
        if self.fake is not None:
            return Comments(texts=[note.text for note in self.fake.state.get_issue(number).notes])
        return Comments(texts=_sections(_file(self.folder / "issues", number)))

    def remarks(self, number: int) -> Comments:
        """Return what stands below a pull request."""
        if self.fake is not None:
            return Comments(texts=[note.text for note in self.fake.state.get_pull(number).notes])
        return Comments(texts=_sections(_file(self.folder / "pulls", number)))

    def say(self, number: int, text: str, by: str = "ann") -> None:
        """Write below an issue."""
        if self.fake is not None:
            self.fake.state.comment(self.fake.state.get_issue(number), text, by=by)
        else:
            _say(_file(self.folder / "issues", number), text, by)

    def remark(
        self, number: int, text: str, by: str = "ann", *, path: str = "", line: int | None = None
    ) -> None:
        """Write on a pull request."""
        if self.fake is not None:
            kind = "line" if path else "comment"
            pull = self.fake.state.get_pull(number)
            self.fake.state.comment(pull, text, by=by, kind=kind, path=path, line=line)
        else:
            _say(_file(self.folder / "pulls", number), text, by)

    def labels(self, number: int) -> set[str]:
        """Return the labels of an issue."""
        return set(asyncio.run(self.forge.get_issue(number)).labels)

    def close_request(self, number: int) -> None:
        """Close a pull request as Ann does."""
        if self.fake is not None:
            self.fake.state.close(self.fake.state.get_pull(number), by="ann")
        else:
            file = _file(self.folder / "pulls", number)
            file.write_text(
                file.read_text(encoding="utf-8").replace("state: open", "state: closed"), encoding="utf-8"
            )


@contextmanager
def ground_of(kind: str, folder: Path) -> Generator[Ground]:
    """Open a forge of a kind."""
    if kind == "local":
        make_remote(folder, {"a.py": "print(1)\n"}, "repo.git")
        forge = LocalForge(folder)
        asyncio.run(forge.check())
        yield Ground(kind=kind, forge=forge, folder=folder)
        forge.close()
    else:
        with (github_world if kind == "github" else gitlab_world)(folder) as world:
            yield Ground(kind=kind, forge=world.forge, fake=world.fake)


def found(forge: Forge, number: int) -> tuple[str, Trigger]:
    """Return the task that waits for an issue."""
    return asyncio.run(finding(forge, number))


async def finding(forge: Forge, number: int) -> tuple[str, Trigger]:
    """Return the task that waits for an issue."""
    [task] = [each for each in await find_pending_tasks(forge, NAMES) if each[1].number == number]
    return task


def public_of(task: str, begun: AcceptedTask, **more: Any) -> TaskStatus:
    """Return what a task shows in the middle of its work."""
    told = TaskStatus(
        id=task,
        title="Fix the login",
        issue=begun.issue,
        branch=begun.branch,
        model="scripted",
        turn=3,
        status=None,
        plan={"goal": "Fix it", "steps": [{"text": "Look", "done": True}, {"text": "Mend", "done": False}]},
        last="run_command: pytest",
        usage={"requests": 3, "input_tokens": 1000, "output_tokens": 200, "cost_usd": 0.12},
        asks=None,
        request=None,
        pushed=False,
        error=None,
    )
    return cast("TaskStatus", {**told, **more})


def _file(folder: Path, number: int) -> Path:
    [file] = folder.glob(f"{number:03}*.md")
    return file


def _sections(file: Path) -> list[str]:
    return [
        part.partition("\n")[2].strip()
        for part in file.read_text(encoding="utf-8").split("\n## comment by ")[1:]
    ]


def _say(file: Path, text: str, by: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"\n## comment by {by}, 2026-11-22T{12 + file.stat().st_size % 9}:00:00Z\n\n{text}\n")


__all__ = [
    "KINDS",
    "NAMES",
    "OUTCOME",
    "Ground",
    "IssueThread",
    "Nth",
    "PullRequestView",
    "Shaky",
    "ThreadUpdate",
    "finding",
    "found",
    "ground_of",
    "public_of",
]
