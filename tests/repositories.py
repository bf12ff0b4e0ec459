"""Real repositories for the tests."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run git as nobody in particular and return what it printed."""
    person = {
        f"GIT_{role}_{key}": f"{role.lower()}@localhost"
        for role in ("AUTHOR", "COMMITTER")
        for key in ("NAME", "EMAIL")
    }
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **person,
    }
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout.strip()


def make_remote(place: Path, files: Mapping[str, str], name: str = "remote.git") -> Path:
    """Return a bare repository with one commit on ``main`` that holds these files."""
    with tempfile.TemporaryDirectory(dir=place) as work:
        for path, text in files.items():
            file = Path(work, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        git(Path(work), "init", "--quiet")
        git(Path(work), "add", "--all")
        git(Path(work), "commit", "--quiet", "--message=First")
        git(place, "clone", "--quiet", "--bare", work, name)
    return place / name


def commit_file(place: Path, remote: Path, branch: str, path: str, text: str) -> str:
    """Push a commit that changes one file to a branch, as somebody else; return the commit."""
    with tempfile.TemporaryDirectory(dir=place) as work:
        clone = Path(work, "clone")
        git(place, "clone", "--quiet", str(remote), str(clone))
        known = git(clone, "branch", "--remotes", "--list", f"origin/{branch}")
        git(clone, "checkout", "--quiet", *(["-B", branch, f"origin/{branch}"] if known else ["-b", branch]))
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text, encoding="utf-8")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", f"--message=Somebody's {path}")
        git(clone, "push", "--quiet", "origin", branch)
        return git(clone, "rev-parse", "HEAD")
