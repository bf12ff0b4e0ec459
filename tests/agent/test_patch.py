"""The patch of a run: whatever changed, `git apply` makes the same files of the base."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.agent.git.mirror import Mirror
from kakite.agent.git.url import parse_repo_url
from tests.repositories import git, make_remote

NAMES = ("a", "b c", "ü", "deep/er", 'quo"te')
contents = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"no end", b"crlf\r\n", b"--- a/a\n+++ b/a\n", b"\0\xff" * 9]),
)
trees = st.dictionaries(st.sampled_from(NAMES), contents, max_size=len(NAMES))


def write_tree(folder: Path, tree: dict[str, bytes]) -> None:
    """Let the folder hold these files and no others."""
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)
    for name, data in tree.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.slow
@settings(max_examples=15)
@given(before=trees, after=trees)
def test_the_patch_makes_the_same_files_of_the_base(
    before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        remote, work = make_remote(place, {"kept": "1\n"}), place / "work"
        subprocess.run(["git", "clone", "--quiet", str(remote), str(work)], check=True)
        git(work, "config", "diff.noprefix", "true")
        commits: list[str] = []
        for tree in (before, after):
            write_tree(work, tree)
            git(work, "add", "--all")
            git(work, "-c", "user.name=M", "-c", "user.email=m@l", "commit", "--allow-empty", "-qm", "m")
            commits.append(git(work, "rev-parse", "HEAD"))
        git(work, "push", "--quiet", "origin", "HEAD:refs/heads/topic")
        mirror = Mirror(place / "mirror.git", parse_repo_url(str(remote)), os.environ)
        asyncio.run(mirror.create())
        patch = asyncio.run(mirror.build_patch(*commits))
        git(work, "checkout", "--quiet", commits[0])
        if patch:
            applied = ["git", "-C", str(work), "apply", "--index", "-"]
            subprocess.run(applied, input=patch, check=True, capture_output=True)
        assert git(work, "write-tree") == git(work, "rev-parse", f"{commits[1]}^{{tree}}")
