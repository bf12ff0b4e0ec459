"""Reads which branch a folder is on, from its files: the status line asks often, and starts no program."""

from __future__ import annotations

from pathlib import Path

_SHOWN = 7
_HEAD_BYTES = 1000


def read_branch(folder: Path) -> str:
    """Return the name of the branch, the beginning of the commit without one, or empty outside of git."""
    root = find_root(folder)
    return "" if root is None else _read_head(root / ".git")


def find_root(folder: Path) -> Path | None:
    """Return the top of the repository that a folder is in; None outside of git."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


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
