"""Reads which branch a folder is on, from its files: the status line asks often, and starts no program."""

from __future__ import annotations

from pathlib import Path

_SHOWN = 7
_HEAD_BYTES = 1000


def read_branch(folder: Path) -> str:
    """Return the name of the branch, the beginning of the commit without one, or empty outside of git."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.exists():
            return _read_head(git)
    return ""


def _read_head(git: Path) -> str:
    try:
        if git.is_file():  # a worktree, or a submodule
            named = git.read_text(encoding="utf-8", errors="replace")[:_HEAD_BYTES]
            git = git.parent / named.removeprefix("gitdir:").strip()
        with (git / "HEAD").open(encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD_BYTES).strip()
    except OSError:
        return ""
    branch = head.removeprefix("ref: refs/heads/")
    return head[:_SHOWN] if branch == head else branch
