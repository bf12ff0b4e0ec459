"""A project, and ``kakite host`` run in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kakite.host.open import open_host
from tests.bounds import WITHIN
from tests.cli.program import Outcome, kakite
from tests.host.project import Project, agree_to_all

SECRET = "hunter2-0123456789-do-not-show"


class Hosted(Project):
    """A project, and the command line run in it."""

    def host(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Outcome:
        outcome = kakite("host", *arguments, home=self.home, env=env, cwd=cwd or self.folder)
        assert "Traceback" not in outcome.stderr
        assert self.left() == []
        return outcome

    def seen(self, **more: Any) -> dict[str, dict[str, Any]]:
        outcome = self.host("tools", "--json", **more)
        assert outcome.code == 0, outcome.stderr
        return {server["name"]: server for server in outcome.json["servers"]}

    def accept(self, *names: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        asyncio.run(self.agree(*names, folder=cwd, env=env))

    async def agree(
        self, *names: str, folder: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Agree to servers, then to their tools, as a person does who looks at each."""
        async with open_host(folder or self.folder, environ=self.environ(**(env or {}))) as opened:
            await agree_to_all(opened.host, *names)


def assert_hidden(project: Project, *outcomes: Outcome, secrets: Any = (SECRET,)) -> None:
    texts = [outcome.stdout + outcome.stderr for outcome in outcomes]
    kept = [file for file in project.state.rglob("*") if file.is_file()]
    assert kept
    texts += [file.read_bytes().decode(errors="replace") for file in kept]
    for text in texts:
        assert not any(secret in text for secret in secrets), text


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
