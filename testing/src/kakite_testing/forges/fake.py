"""Runs fake forges for tests and demos, each on a free port of 127.0.0.1, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn

from kakite_testing.forges.access import Access, InstalledApp
from kakite_testing.forges.app import Contract, FakeForgeApp, Fault, ForgeApi
from kakite_testing.forges.github import FakeGitHubApi
from kakite_testing.forges.github_json import GitHubSerializer, describe_github
from kakite_testing.forges.gitlab import FakeGitLabApi
from kakite_testing.forges.gitlab_json import GitLabSerializer, describe_gitlab
from kakite_testing.forges.hooks import WebhookSender, sign_github, sign_gitlab
from kakite_testing.forges.repository import BareRepository
from kakite_testing.forges.store import FakeForgeError, ForgeState

_SECONDS: Final = 10.0


class _QuietServer(uvicorn.Server):
    """Leaves the signals to the program that it runs in."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Loopback:
    """A port that an application listens on; it can be turned off and on again, as a forge that is down."""

    def __init__(self) -> None:
        self._listener = _bind_socket(0)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.port: int = self._listener.getsockname()[1]
        """Where it listens; the same after it was down."""

    def start(self, application: Any) -> None:
        """Answer until it is stopped."""
        listener = self._listen()
        self._server = _QuietServer(
            uvicorn.Config(
                application,
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=0,
            )
        )
        serve = self._server.serve(sockets=[listener])
        self._thread = threading.Thread(target=lambda: asyncio.run(serve), name="fake-forge", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._server and self._thread:
            self._server.should_exit = True
            self._thread.join(_SECONDS)
            self._listener.close()
            if self._thread.is_alive():
                raise FakeForgeError("the fake forge did not stop")
        self._server = self._thread = None

    def _listen(self) -> socket.socket:
        if self._listener.fileno() < 0:
            self._listener = _bind_socket(self.port)
        self._listener.listen(128)
        return self._listener


def _bind_socket(port: int) -> socket.socket:
    # The protocol is named, else asyncio leaves Nagle's algorithm on, for 40 ms a request.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


OWNER: Final = "team"
NAME: Final = "app"
BOT: Final = "kakite-bot"
FILES: Final[Mapping[str, str]] = {"README.md": "# app\n", "app.py": "print('hello')\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForgeFixture:
    """The common base of the fake forges."""

    state: ForgeState
    repository: BareRepository
    loopback: Loopback

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self.loopback.port}"


class FakeForge:
    """One repository on a forge. People act through ``state`` and ``repository``, clients over the wire."""

    def __init__(
        self,
        ground: _ForgeFixture,
        face: ForgeApi,
        outbox: WebhookSender,
        access: Access,
        contract: Contract | None,
    ) -> None:
        self.state = ground.state
        self.repository = ground.repository
        self.outbox = outbox
        """Add a ``Webhook`` to its ``hooks`` to be told what happens."""
        self.access = access
        self.token = access.grant(BOT)
        """Lets one write, as ``kakite-bot``."""
        root = ground.repository.folder.parent.parent
        self.front = FakeForgeApp(face, ground.state, root, contract)
        self.server = ground.server
        """The address of the server."""
        self._loopback = ground.loopback
        ground.state.listeners.append(outbox.send)

    @property
    def path(self) -> str:
        """The name of the repository: ``owner/name``."""
        return f"{self.state.owner}/{self.state.name}"

    @property
    def git_url(self) -> str:
        """The URL of the repository for git."""
        return f"{self.server}/{self.path}.git"

    @property
    def violations(self) -> tuple[str, ...]:
        """The violations of the contract. A test asserts that there is none."""
        return tuple(self.front.violations)

    def fail(self, fault: Fault) -> None:
        """Let something go wrong with the next requests that fit."""
        self.front.faults.append(fault)

    def count_requests(self, method: str = "", ending: str = "") -> int:
        """Return how many requests of a method, for paths with this ending, there were so far."""
        return sum(
            method in {"", each.method} and each.path.endswith(ending) for each in list(self.front.asked)
        )

    def publish_heads(self, kind: str) -> None:
        """Move the references of pull requests to the heads of their branches, as a forge does at once."""
        for item in self.state.pulls:
            if item.pull and (head := self.repository.get_head(item.pull.head)):
                self.repository.git("update-ref", f"refs/{kind}/{item.number}/head", head)

    @contextmanager
    def run(self) -> Generator[None]:
        """Answer for as long as the block lasts."""
        self._loopback.start(self.front)
        try:
            yield
        finally:
            self._loopback.stop()
            self.outbox.close()

    @contextmanager
    def simulate_outage(self) -> Generator[None]:
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
        bodies = GitHubSerializer(ground.state, ground.repository, ground.server)
        access = Access()
        face = FakeGitHubApi(ground.state, bodies, access)
        outbox = WebhookSender(lambda happening: describe_github(happening, bodies), sign_github)
        super().__init__(ground, face, outbox, access, contract)
        self.front.before_git = lambda: self.publish_heads("pull")

    @property
    def api_url(self) -> str:
        """The base address of the API."""
        return f"{self.server}/api/v3"

    def install_app(self, slug: str = "kakite") -> InstalledApp:
        """Install an App that may write."""
        app = self.access.install(slug)
        self.state.people[app.login] = "write"
        return app


class FakeGitLab(FakeForge):
    """A fake GitLab."""

    def __init__(self, folder: Path, files: Mapping[str, str], contract: Contract | None) -> None:
        ground = _begin(folder, files, shared_numbers=False)
        bodies = GitLabSerializer(ground.state, ground.repository, ground.server)
        access = Access("glpat-")
        face = FakeGitLabApi(ground.state, bodies, access)
        outbox = WebhookSender(lambda happening: describe_gitlab(happening, bodies), sign_gitlab)
        super().__init__(ground, face, outbox, access, contract)
        self.front.before_git = lambda: self.publish_heads("merge-requests")


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
    with forge.run():
        yield forge


@contextmanager
def fake_gitlab(
    folder: Path, *, files: Mapping[str, str] = FILES, contract: Contract | None = None
) -> Generator[FakeGitLab]:
    """Run a fake GitLab, like ``fake_github``."""
    forge = FakeGitLab(folder, files, contract)
    with forge.run():
        yield forge


def _begin(folder: Path, files: Mapping[str, str], *, shared_numbers: bool) -> _ForgeFixture:
    state = ForgeState(OWNER, NAME, shared_numbers=shared_numbers)
    state.people[BOT] = "write"
    place = folder / OWNER / f"{NAME}.git"
    place.parent.mkdir(parents=True)
    repository = BareRepository(place)
    repository.create(files)
    return _ForgeFixture(state=state, repository=repository, loopback=Loopback())
