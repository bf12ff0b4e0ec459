"""The installed ``kakite`` program, run as a user runs it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.sandbox import list_backends
from tests import forking

TIMEOUT = 90  # s
NO_ENGINE = dict.fromkeys(("DOCKER_HOST", "CONTAINER_HOST"), "unix:///nonexistent/engine.sock")
"""The engine of whoever runs the tests is left alone; tests of containers start their own."""


def skip_without(sandbox: str) -> None:
    """Skip the test where this kind of sandbox does not work, and say why."""
    found = {kind.name: kind for kind in asyncio.run(list_backends())}[sandbox]
    if not found.available:
        pytest.skip(found.note)


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the whole environment of a person without keys and settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        **NO_ENGINE,
        **more,
    }


def argv(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kakite", *arguments]


def kakite(
    *arguments: str, home: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Outcome:
    environ = environment(home, **(env or {}))
    if forking.can_fork(environ):
        return Outcome(*forking.run_kakite(arguments, environ, cwd or home, TIMEOUT))
    done = subprocess.run(
        argv(*arguments),
        env=environ,
        cwd=cwd or home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def start_at_terminal(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, inner: int
) -> subprocess.Popen[bytes] | forking.Program:
    """Start a program whose terminal has this inner end, which is closed here."""
    try:
        if [*command[:3]] == argv() and forking.can_fork(env):
            return forking.open_at_terminal(command[3:], env, cwd, inner)
        return subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - single-threaded enough: fork and exec
        )
    finally:
        os.close(inner)


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
