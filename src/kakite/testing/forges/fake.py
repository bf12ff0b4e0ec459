"""Running fake forges, for tests and demos."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kakite.testing.forges.front import Face, Front
from kakite.testing.forges.github import GitHubFace
from kakite.testing.forges.github_access import Access, App
from kakite.testing.forges.github_bodies import GitHubBodies
from kakite.testing.forges.github_hooks import describe_github
from kakite.testing.forges.gitlab import GitLabFace
from kakite.testing.forges.gitlab_bodies import GitLabBodies
from kakite.testing.forges.gitlab_hooks import describe_gitlab
from kakite.testing.forges.hooks import Outbox, sign_github, sign_gitlab
from kakite.testing.forges.loopback import Loopback
from kakite.testing.forges.repository import BareRepository
from kakite.testing.forges.state import Ledger
from kakite.testing.forges.wire import Contract, Fault

OWNER: Final = "team"
NAME: Final = "app"
BOT: Final = "kakite-bot"
FILES: Final[Mapping[str, str]] = {"README.md": "# app\n", "app.py": "print('hello')\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What every fake stands on."""

    ledger: Ledger
    repository: BareRepository
    loopback: Loopback

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self.loopback.port}"


class FakeForge:
    """One repository on a forge. People act through ``ledger`` and ``repository``, clients over the wire."""

    def __init__(
        self, ground: _Ground, face: Face, outbox: Outbox, access: Access, contract: Contract | None
    ) -> None:
        self.ledger = ground.ledger
        self.repository = ground.repository
        self.outbox = outbox
        """Add a ``Hook`` to its ``hooks`` to be told what happens."""
        self.access = access
        self.token = access.grant(BOT)
        """Lets one write, as ``kakite-bot``."""
        root = ground.repository.folder.parent.parent
        self.front = Front(face, ground.ledger, root, contract)
        self.server = ground.server
        """The address of the server."""
        self._loopback = ground.loopback
        ground.ledger.listeners.append(outbox.tell)

    @property
    def path(self) -> str:
        """What the repository is called: ``owner/name``."""
        return f"{self.ledger.owner}/{self.ledger.name}"

    @property
    def git_url(self) -> str:
        """Where git finds the repository."""
        return f"{self.server}/{self.path}.git"

    @property
    def violations(self) -> tuple[str, ...]:
        """What went against the contract. A test asserts that there is none."""
        return tuple(self.front.violations)

    def fail(self, fault: Fault) -> None:
        """Let something go wrong with the next requests that fit."""
        self.front.faults.append(fault)

    def requests(self, method: str = "", ending: str = "") -> int:
        """Return how many requests of a method, for paths with this ending, there were so far."""
        return sum(
            method in {"", each.method} and each.path.endswith(ending) for each in list(self.front.asked)
        )

    @contextmanager
    def running(self) -> Generator[None]:
        """Answer for as long as the block lasts."""
        self._loopback.start(self.front)
        try:
            yield
        finally:
            self._loopback.stop()
            self.outbox.close()

    @contextmanager
    def down(self) -> Generator[None]:
        """Be out of reach for as long as the block lasts; then answer again, and know all that was known."""
        self._loopback.stop()
        try:
            yield
        finally:
            self._loopback.start(self.front)


class FakeGitHub(FakeForge):
    """A fake GitHub."""

    def __init__(self, folder: Path, files: Mapping[str, str], contract: Contract | None) -> None:
        ground = _begin(folder, files, shared_numbers=True)
        bodies = GitHubBodies(ground.ledger, ground.repository, ground.server)
        access = Access()
        face = GitHubFace(ground.ledger, bodies, access)
        outbox = Outbox(lambda happening: describe_github(happening, bodies), sign_github)
        super().__init__(ground, face, outbox, access, contract)

    @property
    def api_url(self) -> str:
        """The base address of the API."""
        return f"{self.server}/api/v3"

    def install_app(self, slug: str = "kakite") -> App:
        """Install an App that may write."""
        app = self.access.install(slug)
        self.ledger.people[app.login] = "write"
        return app


class FakeGitLab(FakeForge):
    """A fake GitLab."""

    def __init__(self, folder: Path, files: Mapping[str, str], contract: Contract | None) -> None:
        ground = _begin(folder, files, shared_numbers=False)
        bodies = GitLabBodies(ground.ledger, ground.repository, ground.server)
        access = Access("glpat-")
        face = GitLabFace(ground.ledger, bodies, access)
        outbox = Outbox(lambda happening: describe_gitlab(happening, bodies), sign_gitlab)
        super().__init__(ground, face, outbox, access, contract)


@contextmanager
def fake_github(
    folder: Path, *, files: Mapping[str, str] = FILES, contract: Contract | None = None
) -> Generator[FakeGitHub]:
    """Run a fake GitHub on 127.0.0.1 with one repository, which lies below ``folder``.

    Args:
        folder: where the repository is made; a folder that exists.
        files: what the repository holds at first, by path.
        contract: what requests and answers are held to; see ``FakeForge.violations``.
    """
    forge = FakeGitHub(folder, files, contract)
    with forge.running():
        yield forge


@contextmanager
def fake_gitlab(
    folder: Path, *, files: Mapping[str, str] = FILES, contract: Contract | None = None
) -> Generator[FakeGitLab]:
    """Run a fake GitLab, like ``fake_github``."""
    forge = FakeGitLab(folder, files, contract)
    with forge.running():
        yield forge


def _begin(folder: Path, files: Mapping[str, str], *, shared_numbers: bool) -> _Ground:
    ledger = Ledger(OWNER, NAME, shared_numbers=shared_numbers)
    ledger.people[BOT] = "write"
    place = folder / OWNER / f"{NAME}.git"
    place.parent.mkdir(parents=True)
    repository = BareRepository(place)
    repository.create(files)
    return _Ground(ledger=ledger, repository=repository, loopback=Loopback())
