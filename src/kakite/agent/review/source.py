"""Finds the change to be reviewed: its diff, and a folder with the files as they are after it.

Of a branch the files are written into a folder of their own, by git on the host, and nothing that the branch
brings along runs: no hook, no filter, no program that shows differences.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kakite.agent.forges.base import Repository
from kakite.agent.forges.reviews import ReviewTarget
from kakite.agent.git.mirror import Mirror
from kakite.agent.git.person_repository import PersonRepository
from kakite.agent.git.url import RepoUrl
from kakite.agent.review.diff import Diff, parse_diff
from kakite.agent.run.agents_md import FILE_NAMES, MAX_FILE_BYTES, decode_text
from kakite.agent.run.state import ProjectInstruction
from kakite.edit import SourceText
from kakite.errors import UsageError
from kakite.workspace import Workspace, WorkspaceError

MAX_DIFF_BYTES = 1 << 20
"""Bytes of a diff that a model is given whole."""
_DIFF = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules=all"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3"),
)
_DEFAULTS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedChange:
    """A change, and where the files are that it leads to."""

    diff: Diff
    folder: Path
    head: str = ""
    """The commit; empty: a diff that was given, in a folder as it is."""
    base: str = ""
    title: str = ""
    text: str = ""
    """What its author says of it."""
    rules: tuple[ProjectInstruction, ...] = ()
    """The project's, as they were before the change: what changes them does not decide its own review."""

    def read(self, path: str) -> SourceText | None:
        """Return a file as it is after the change; None: there is none, or it is not to be read."""
        try:
            return SourceText.from_bytes(Workspace([self.folder]).read(path).data)
        except WorkspaceError:
            return None


def read_diff(text: str, folder: Path) -> ReviewedChange:
    """Return the change that a diff says has been made in a folder.

    Raises:
        UsageError: it is none, it is too long (``diff_too_long``), or the folder's files are others
            (``diff_stale``).
    """
    _check_length(text)
    change = ReviewedChange(diff=parse_diff(text), folder=folder)
    for file in change.diff.files:
        if file.path and file.hunks and not _fits(change, file.path):
            raise UsageError(
                f"`{file.path}` is not as the diff leaves it",
                hint="review a diff in the files that it leads to",
                code="diff_stale",
            )
    return change


def _fits(change: ReviewedChange, path: str) -> bool:
    source, file = change.read(path), change.diff.find(path)
    if source is None or file is None:
        return False
    lines = source.text.split("\n")
    return all(
        lines[hunk.start - 1 :][: len(hunk.lines)] == list(hunk.lines) for hunk in file.hunks if hunk.lines
    )


def _check_length(text: str) -> None:
    if len(text.encode(errors="surrogateescape")) > MAX_DIFF_BYTES:
        raise UsageError(
            f"the diff has more than {MAX_DIFF_BYTES >> 10} KiB",
            hint="review a part of it: `git diff BASE...HEAD -- FOLDER | kakite review --diff -`",
            code="diff_too_long",
        )


@contextmanager
def open_branch(
    folder: Path, branch: str, base: str, environ: Mapping[str, str]
) -> Generator[ReviewedChange]:
    """Give the change of a branch since it left another one; at the end its files are gone.

    Args:
        folder: in the person's repository, which is only read.
        branch: or any name of a commit; empty: what is checked out.
        base: the other one; empty: the default branch.
        environ: the person's.

    Raises:
        UsageError: there is no repository, no such branch (``branch_unknown``) or no change (``bad_diff``).
        GitError: git failed.
    """
    repository = PersonRepository(folder, environ)
    repository.check()
    top = PersonRepository(repository.find_top(), environ)
    head = _find(top, branch or "HEAD")
    start = _find(top, base) if base else _find_default(top)
    with _open_commits(top, head, start) as change:
        title = top.ask("log", "-1", "--format=%s", head)
        text = top.ask("log", "--reverse", "--format=%B", f"{change.base}..{head}")
        yield replace(change, title=title, text=text)


@contextmanager
def open_pull_request(
    target: ReviewTarget, repository: Repository, environ: Mapping[str, str]
) -> Generator[ReviewedChange]:
    """Give the change of a pull request, of a clone of its own; at the end both are gone.

    Raises:
        GitError: the repository cannot be reached.
        UsageError: as ``open_branch``, or the pull request has moved meanwhile (``head_moved``).
    """
    login = repository.credentials
    address = RepoUrl(repository.address, *((login.username, login.password) if login else ()))
    with tempfile.TemporaryDirectory(prefix="kakite-review-") as place:
        mirror = Mirror(Path(place, "clone.git"), address, environ)

        async def clone() -> str:
            await mirror.create()
            return await mirror.fetch_reference(target.reference)

        if asyncio.run(clone()) != target.head:
            raise UsageError(
                "the pull request has moved meanwhile", hint="review it again", code="head_moved"
            )
        request = target.request
        start = target.merge_base or target.base  # the head has the former, whatever became of the branch
        with _open_commits(PersonRepository(mirror.folder, environ), target.head, start) as change:
            yield replace(change, title=request.title, text=request.text)


@contextmanager
def _open_commits(repository: PersonRepository, head: str, start: str) -> Generator[ReviewedChange]:
    common = repository.ask("merge-base", start, head, may_fail=True) or start
    text = repository.read(*_DIFF, common, head).decode("utf-8", "surrogateescape")
    _check_length(text)
    with tempfile.TemporaryDirectory(prefix="kakite-review-") as place:
        files = Path(place, "files")
        _write_files(repository, head, files, Path(place, "index"))
        yield ReviewedChange(
            diff=parse_diff(text), folder=files, head=head, base=common, rules=_read_rules(repository, common)
        )


def _find(repository: PersonRepository, name: str) -> str:
    found = "" if name.startswith("-") else repository.find_commit(name)
    if not found:
        raise UsageError(
            f"there is no commit `{name}`", hint="`git branch --all` lists branches", code="branch_unknown"
        )
    return found


def _find_default(repository: PersonRepository) -> str:
    found = next((commit for name in _DEFAULTS if (commit := repository.find_commit(name))), "")
    if not found:
        raise UsageError(
            "the repository has no branch `main` or `master`",
            hint="name one with --base",
            code="branch_unknown",
        )
    return found


def _write_files(repository: PersonRepository, commit: str, folder: Path, index: Path) -> None:
    folder.mkdir(mode=0o700)
    place = repository.ask("rev-parse", "--absolute-git-dir")
    more = {"GIT_DIR": place, "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(index)}
    repository.read("read-tree", f"{commit}^{{tree}}", more=more)
    repository.read("checkout-index", "--all", "--quiet", more=more, folder=folder)


def _read_rules(repository: PersonRepository, commit: str) -> tuple[ProjectInstruction, ...]:
    found: list[ProjectInstruction] = []
    for name in FILE_NAMES:
        entry = repository.ask("ls-tree", commit, "--", name)
        if entry.startswith("100"):
            text = decode_text(repository.read("cat-file", "blob", f"{commit}:{name}"), MAX_FILE_BYTES)
            found += [ProjectInstruction(path=name, text=text)] if text else []
    return tuple(found)
