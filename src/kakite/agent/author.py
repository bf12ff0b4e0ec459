"""Who a task's commits are by."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from kakite.agent.remote import missing_git


def author(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and e-mail address that git would put on the person's own commits."""
    name, email = _setting("user.name", environ), _setting("user.email", environ)
    return name or "Kakite", email or "kakite@localhost"


def _setting(name: str, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            ["git", "config", "--global", name],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise missing_git() from error
    return done.stdout.decode(errors="replace").strip()
