"""Git worktrees that sessions have of their own: made beside the checkout, removed when nothing is lost."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kakite.agent.git.mirror import GitError
from kakite.agent.git.person_repository import PersonRepository

BRANCH_PREFIX = "kakite/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWorktree:
    """A worktree, and what the person should know of it."""

    folder: Path
    branch: str
    start: str = ""
    """The commit at which the branch was made; empty: it was there before."""
    uncommitted: int = 0
    """How many files of the person's own folder are not committed, and so are not in it."""


def get_worktrees_path(environ: Mapping[str, str]) -> Path:
    """Return the folder of all of them.

    Not the state folder: Kakite's tools hide that from a model. Not the repository: tools of the person's
    would find each file twice.
    """
    given = environ.get("XDG_DATA_HOME", "")
    home = Path(environ.get("HOME") or Path.home())
    data = Path(given) if given.startswith("/") else home / ".local" / "share"
    return data / "kakite" / "worktrees"


def open_worktree(folder: Path, branch: str, environ: Mapping[str, str]) -> SessionWorktree:
    """Return a worktree of the folder's repository on this branch: the one that is there, or a new one.

    A branch that is not there begins at what the folder has checked out.

    Raises:
        UsageError: the folder is in no repository, code ``no_repository``.
        GitError: the repository has no commit, or the branch is checked out elsewhere, code
            ``branch_checked_out``, or the place is taken, code ``worktree_failed``.
    """
    repository = PersonRepository(folder, environ)
    repository.check()
    place = _choose_place(repository, branch, environ)
    uncommitted = len(PersonRepository(repository.find_top(), environ).list_changes())
    found = _find_checkout(repository, branch)
    if found is not None and found != place:
        raise GitError(
            f"`{branch}` is checked out in `{found}`",
            hint="choose another branch with --branch",
            code="branch_checked_out",
        )
    start = "" if repository.find_commit(f"refs/heads/{branch}") else repository.find_commit("HEAD")
    if found is None or not place.is_dir():
        _add(repository, place, branch, start, is_known=found is not None)
    return SessionWorktree(folder=place, branch=branch, start=start, uncommitted=uncommitted)


def _choose_place(repository: PersonRepository, branch: str, environ: Mapping[str, str]) -> Path:
    common = repository.find_folders()[1].resolve()
    named = common.parent.name if common.name == ".git" else common.name
    which = hashlib.sha256(str(common).encode(errors="surrogateescape")).hexdigest()[:8]
    name = re.sub(r"[^\w.-]+", "-", branch.removeprefix(BRANCH_PREFIX)).strip("-.") or "worktree"
    return get_worktrees_path(environ).resolve() / f"{named}-{which}" / name


def _find_checkout(repository: PersonRepository, branch: str) -> Path | None:
    """Return the worktree that has this branch checked out."""
    listed = repository.ask("worktree", "list", "--porcelain", "-z")
    for entry in listed.split("\0\0"):
        lines = entry.split("\0")
        if f"branch refs/heads/{branch}" in lines:
            return Path(lines[0].removeprefix("worktree "))
    return None


def _add(repository: PersonRepository, place: Path, branch: str, start: str, *, is_known: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    what = ("--no-track", "-b", branch, str(place), start) if start else (str(place), branch)
    again = ("--force",) if is_known else ()  # git knows one of this place, whose folder somebody has deleted
    try:
        repository.read("worktree", "add", "--quiet", *again, *what, filters=True)
    except GitError as error:
        raise GitError(
            error.message, hint="choose another branch with --branch", code="worktree_failed"
        ) from error


Kept = Literal["uncommitted", "detached", "missing", "failed"]
"""Why a worktree is still there. ``detached``: no branch has its last commit; ``missing``: it was gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedWorktree:
    """What became of a worktree that was to go."""

    kept: Kept | None = None
    """None: it is gone."""
    uncommitted: int = 0
    is_branch_kept: bool = True
    """Whether the branch stays, since it has commits."""


def remove_worktree(
    repository: Path, folder: Path, branch: str, start: str, environ: Mapping[str, str]
) -> RemovedWorktree:
    """Remove a session's worktree if all in it is committed, and its branch if nothing is on it.

    Args:
        repository: the person's folder.
        folder: the worktree.
        branch: that it was made for.
        start: the commit at which the branch was made; empty: it was there before.
        environ: the person's.
    """
    own = PersonRepository(repository, environ)
    if not folder.is_dir():
        return RemovedWorktree(kept="missing")
    try:
        changes = PersonRepository(folder, environ).list_changes()
        if changes:
            return RemovedWorktree(kept="uncommitted", uncommitted=len(changes))
        if not _list_references(own, PersonRepository(folder, environ).find_commit("HEAD")):
            return RemovedWorktree(kept="detached")
        own.read("worktree", "remove", "--", str(folder))
    except GitError:
        return RemovedWorktree(kept="failed")
    return RemovedWorktree(is_branch_kept=not _remove_branch(own, branch, start))


def _remove_branch(repository: PersonRepository, branch: str, start: str) -> bool:
    """Remove a branch of ours on which nothing was done; its commit is on another one as well."""
    name = f"refs/heads/{branch}"
    try:
        if not start or not _list_references(repository, start) - {name}:
            return False
        repository.read("update-ref", "-d", name, start)  # fails where it is another commit by now
    except GitError:
        return False
    return True


def _list_references(repository: PersonRepository, commit: str) -> set[str]:
    """Return the branches and tags that a commit is on."""
    where = ("refs/heads", "refs/remotes", "refs/tags")
    return set(repository.ask("for-each-ref", "--contains", commit, "--format=%(refname)", *where).split())
