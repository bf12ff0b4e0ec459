"""Sandboxes to test, and how to run things in them."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.bounds import WITHIN

from kakite.sandbox import Sandbox, SandboxError, SandboxSpec, open_sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from kakite.processes import CompletedProcess

SECRET = "kkt-secret-a7d1"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Place:
    """A prepared sandbox in a world with secrets around it."""

    sandbox: Sandbox
    folder: Path
    """The task's folder on the host."""
    home: Path
    """The home of the person, full of secrets."""
    runs: Path
    """Where the folders of all runs lie."""
    secret: str = SECRET
    """What stands in the person's files and environment, and in another run's project."""

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def run(self, *argv: str, **how: object) -> CompletedProcess:
        return asyncio.run(self.sandbox.exec(argv, **{"timeout": 30, **how}))  # pyright: ignore[reportArgumentType]

    def sh(self, script: str, **how: object) -> CompletedProcess:
        return self.run("bash", "-c", script, **how)

    def python(self, script: str, *, arguments: tuple[str, ...] = (), **how: object) -> CompletedProcess:
        return self.run(sys.executable, "-I", "-S", "-c", script, *arguments, **how)


def _open(kind: str, folder: Path, terms: SandboxSpec | None = None) -> Place:
    home, runs = folder / "person", folder / "runs"
    names = (".ssh/id_ed25519", ".netrc", ".config/tool/token")
    for secret in (*(home / name for name in names), runs / "other/project/key"):
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text(SECRET, encoding="utf-8")
    environ = {"HOME": str(home), "PATH": PATH, "OPENAI_API_KEY": SECRET, "GITHUB_TOKEN": SECRET}
    place = Place(open_sandbox(kind, runs / "mine", environ=environ, terms=terms), runs / "mine", home, runs)
    asyncio.run(place.sandbox.prepare())
    return place


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Place:
    return open_bubblewrap(tmp_path)


def open_bubblewrap(folder: Path, terms: SandboxSpec | None = None) -> Place:
    """Return a place in bubblewrap; skips the test where there is none."""
    try:
        return _open("bubblewrap", folder, terms)
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


@pytest.fixture(params=["bubblewrap", "local"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    if request.param == "bubblewrap":
        return open_bubblewrap(tmp_path)
    return _open("local", tmp_path)


def wait_until_gone(pid: int) -> None:
    """Another's process: a pidfd becomes readable when it is dead."""
    fd = os.pidfd_open(pid)
    try:
        assert select.select([fd], [], [], WITHIN)[0], "it lives on"
    finally:
        os.close(fd)
