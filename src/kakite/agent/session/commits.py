"""Commits files of the person's folder, on the host: those that were shown, as they were shown.

Git never looks for them in the folder, where a program of the model's might swap a folder for a link
meanwhile: they are read without following a link, and git is given copies, among which no link is ever
made. It turns line ends and encodings as always; a file that the person's settings send through a program is
left out.
"""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from kakite.agent.git.mirror import GitError
from kakite.agent.git.person_repository import PersonRepository, StatusEntry
from kakite.agent.session.checkpoint_files import LINK, ConfinedFolders, FileContent, Reason, read_file
from kakite.errors import ExternalError
from kakite.tools.call_context import compute_digest

MAX_FILES = 5000
"""Files of one commit."""
MAX_FILE_BYTES = 100 << 20
MAX_BYTES = 256 << 20
"""Bytes of all files of one commit."""
MAX_DIFF_CHARS = 1 << 20
"""Characters of a diff that are shown."""
_LOCK_TRIES = 20
_LOCK_PAUSE = 0.1  # s


class CommitError(ExternalError):
    """Nothing was committed.

    Codes: ``nothing_to_commit``, ``commit_unfit`` (a merge is under way, or too much), ``no_identity``,
    ``changed_since_preview``, ``bad_path``.
    """

    code = "commit_unfit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file that is changed and not committed."""

    path: str
    reason: Reason | Literal["filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """What would be committed."""

    head: str
    """The commit that it would stand on; empty: it would be the first."""
    branch: str
    """Empty: none is checked out."""
    tree: str
    files: tuple[str, ...]
    """As paths of the folder."""
    left_out: tuple[LeftOut, ...]
    diff: str

    @property
    def digest(self) -> str:
        """What is the same if just that would be committed."""
        return compute_digest([self.head, self.branch, self.tree])


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that was made."""

    id: str
    plan: CommitPlan
    is_staged: bool
    """Whether the index has it too: while another git holds it, that cannot be told."""


class Committer:
    """Commits files of one folder. Its calls block."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ

    def has_repository(self) -> bool:
        """Return whether the folder is in one."""
        return PersonRepository(self._folder, self._environ).exists()

    def plan(self, paths: Collection[str], *, may_miss: bool = False) -> CommitPlan:
        """Return what a commit of these files and folders would be. It leaves nothing behind.

        Args:
            paths: relative to the folder; ``.`` is all of it.
            may_miss: some of them need not have changed.

        Raises:
            CommitError: there is nothing to commit, or it cannot be done now.
            GitError: git failed.
        """
        with _open_staging(self._folder, self._environ, keeps=False) as staging:
            return staging.plan(paths, may_miss=may_miss)

    def commit(
        self, paths: Collection[str], message: str, *, may_miss: bool = False, shown: str = ""
    ) -> Commit:
        """Commit these files and folders, on what is checked out. What else is staged stays so.

        Args:
            paths: relative to the folder; ``.`` is all of it.
            message: of the commit.
            may_miss: some of them need not have changed.
            shown: the digest of the plan that the person saw; empty: none was shown.

        Raises:
            CommitError: there is nothing to commit, it cannot be done now, or is not what was shown.
            GitError: git failed.
        """
        with _open_staging(self._folder, self._environ, keeps=True) as staging:
            plan = staging.plan(paths, may_miss=may_miss)
            if shown not in {"", plan.digest}:
                raise CommitError(
                    "the files are not what the person was shown any more",
                    hint="call it again: they are asked about what there is now",
                    code="changed_since_preview",
                )
            return staging.commit(plan, message)


@contextmanager
def _open_staging(folder: Path, environ: Mapping[str, str], *, keeps: bool) -> Generator[_Staging]:
    try:
        with tempfile.TemporaryDirectory(prefix="kakite-commit-") as place:
            yield _Staging(folder, PersonRepository(folder, environ), Path(place), keeps=keeps)
    except OSError as error:
        raise CommitError(f"the files cannot be copied for the commit: {error.strerror or error}") from error


class _Staging:
    """An index of our own, with copies of the files in place of the work tree."""

    def __init__(self, folder: Path, repository: PersonRepository, place: Path, *, keeps: bool) -> None:
        """Name it: without ``keeps`` what git makes lies there too, and goes with it."""
        self._folder = folder
        self._git = repository
        self._copies = place / "files"
        self._copies.mkdir()
        self._empty = place / "empty"
        self._empty.mkdir()
        self._paths: list[bytes] = []
        """Those in the index of ours, from the top of the repository on."""
        own, common = repository.find_folders()
        self._environment = {
            "GIT_DIR": str(own),
            "GIT_WORK_TREE": str(self._copies),
            "GIT_INDEX_FILE": str(place / "index"),
        }
        if not keeps:
            (place / "objects/info").mkdir(parents=True)
            alternates = place / "objects/info/alternates"
            alternates.write_bytes(os.fsencode(common / "objects") + b"\n")
            self._environment["GIT_OBJECT_DIRECTORY"] = str(place / "objects")

    @cached_property
    def _prefix(self) -> str:
        """From the top of the repository to the folder; empty, or with a slash at its end."""
        return self._git.ask("rev-parse", "--show-prefix")

    def plan(self, paths: Collection[str], *, may_miss: bool) -> CommitPlan:
        self._check_state()
        entries = _select(self._git.list_changes(), paths, may_miss=may_miss)
        head = self._git.find_commit("HEAD")
        self._read("read-tree", *([head] if head else ["--empty"]))
        kept, links, gone, left_out = self._copy(entries)
        filtered = self._find_filtered(kept)
        left_out += [LeftOut(path=path, reason="filter") for path in sorted(filtered)]
        # Those that are gone first: they may be in the way of others.
        self._update_index(gone, "--force-remove")
        self._update_index([path for path in kept if path not in filtered], "--add", "--replace")
        self._add_links(links)
        tree = self._ask("write-tree")
        before = head or self._ask("hash-object", "-t", "tree", os.devnull)
        files = self._list_files(before, tree)
        if not files:
            raise CommitError(_explain_nothing(left_out), code="nothing_to_commit")
        return CommitPlan(
            head=head,
            branch=self._git.get_branch(),
            tree=tree,
            files=files,
            left_out=tuple(left_out),
            diff=self._diff(before, tree),
        )

    def commit(self, plan: CommitPlan, message: str) -> Commit:
        parents = ("-p", plan.head) if plan.head else ()
        made = self._read(
            *("commit-tree", "--no-gpg-sign", plan.tree, *parents, "-F", "-"),
            stdin=message.strip().encode("utf-8", "replace") + b"\n",
        )
        commit = os.fsdecode(made).strip()
        subject = message.strip().split("\n", 1)[0]
        # Only if what is checked out is still what was planned on.
        self._git.read(
            *("update-ref", "-m", f"commit: {subject}", "HEAD", commit, plan.head or "0" * len(commit))
        )
        return Commit(id=commit, plan=plan, is_staged=self._stage(plan))

    def _check_state(self) -> None:
        if self._git.is_committing():
            raise CommitError(
                "a merge, a rebase, a cherry-pick or a revert is under way",
                hint="finish or abort it first: `git status` tells how",
            )
        for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            try:
                self._git.read("var", who)
            except GitError as error:
                raise CommitError(
                    "git does not know who the person is",
                    hint="set it: git config --global user.name NAME, and user.email",
                    code="no_identity",
                ) from error

    def _update_index(self, paths: Sequence[str], *options: str) -> None:
        named = [os.fsencode(f"{self._prefix}{path}") for path in paths]
        self._paths += named
        stdin = b"".join(path + b"\0" for path in named)
        self._read("update-index", "-z", *options, "--stdin", stdin=stdin)

    def _add_links(self, links: Mapping[str, bytes]) -> None:
        """Put links into the index, by where they lead: none is made on the disk."""
        for path, target in links.items():
            blob = os.fsdecode(self._read("hash-object", "-w", "--stdin", stdin=target)).strip()
            name = os.fsencode(f"{self._prefix}{path}")
            self._paths.append(name)
            row = b"120000 %b\t%b\0" % (blob.encode(), name)
            self._read("update-index", "-z", "--add", "--replace", "--index-info", stdin=row)

    def _copy(
        self, entries: Sequence[StatusEntry]
    ) -> tuple[list[str], dict[str, bytes], list[str], list[LeftOut]]:
        """Copy the files; return their paths, links, those that are gone, and what cannot be committed."""
        kept: list[str] = []
        links: dict[str, bytes] = {}
        gone: list[str] = []
        left_out: list[LeftOut] = []
        total = 0
        with ConfinedFolders(self._folder) as folders:
            for path, code in {entry.path: entry.code for entry in entries}.items():
                if path.endswith("/"):
                    left_out.append(LeftOut(path=path, reason="repository"))
                    continue
                content = read_file(folders, path, MAX_FILE_BYTES)
                if isinstance(content, str):
                    left_out.append(LeftOut(path=path, reason=content))
                    continue
                if content is None and "D" not in code:  # something else is there, or it went just now
                    left_out.append(LeftOut(path=path, reason="unreadable"))
                elif content is None:
                    gone.append(path)
                elif content.mode == LINK:
                    links[path] = content.data
                else:
                    total += len(content.data)
                    if total > MAX_BYTES:
                        raise CommitError(
                            f"the files have more than {MAX_BYTES >> 20} MiB", hint="name fewer in `paths`"
                        )
                    _write_copy(self._copies / f"{self._prefix}{path}", content)
                    kept.append(path)
        return kept, links, gone, left_out

    def _find_filtered(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those that a program of the person's settings would turn into something else."""
        if not self._git.filters:
            return frozenset()
        asked = "".join(f"{self._prefix}{path}\0" for path in paths)
        told = self._read("check-attr", "-z", "--stdin", "filter", stdin=os.fsencode(asked))
        words = os.fsdecode(told).split("\0")
        found = zip(words[::3], words[2::3], strict=False)
        return frozenset(path.removeprefix(self._prefix) for path, name in found if name in self._git.filters)

    def _list_files(self, before: str, after: str) -> tuple[str, ...]:
        listed = self._read("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
        return tuple(path.removeprefix(self._prefix) for path in os.fsdecode(listed).split("\0") if path)

    def _diff(self, before: str, after: str) -> str:
        # No attributes of the folder or of the commit: what the model wrote does not say what is shown.
        bare = {"GIT_WORK_TREE": str(self._empty), "GIT_INDEX_FILE": str(self._empty / "index")}
        shown = self._git.read(
            *("diff-tree", "-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"),
            *("--src-prefix=a/", "--dst-prefix=b/", before, after),
            more={**self._environment, **bare},
            folder=self._empty,
        ).decode("utf-8", "replace")
        more = len(shown) - MAX_DIFF_CHARS
        return shown if more <= 0 else f"{shown[:MAX_DIFF_CHARS]}\n[{more:,} more characters are not shown]\n"

    def _stage(self, plan: CommitPlan) -> bool:
        """Put the files into the person's index as they were committed; False: another git held it."""
        listed = self._read("ls-files", "--stage", "-z").split(b"\0")
        there = {path: row for row in listed if (path := row.partition(b"\t")[2])}
        # Those that are gone first: they may be in the way of others.
        gone = b"".join(
            b"0 %b\t%b\0" % (b"0" * len(plan.tree), path) for path in self._paths if path not in there
        )
        moves = gone + b"".join(there[path] + b"\0" for path in self._paths if path in there)
        for _ in range(_LOCK_TRIES):
            try:
                self._git.read("update-index", "-z", "--index-info", stdin=moves)
            except GitError as error:
                if "index.lock" not in error.message:
                    return False
                time.sleep(_LOCK_PAUSE)
            else:
                return True
        return False

    def _ask(self, *arguments: str) -> str:
        return os.fsdecode(self._read(*arguments)).strip()

    def _read(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self._git.read(*arguments, stdin=stdin, more=self._environment, folder=self._copies)


def _write_copy(place: Path, content: FileContent) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as file:  # only once: nothing is written through what is there
        file.write(content.data)
    place.chmod(0o700 if content.mode == "100755" else 0o600)


def _normalize(path: str) -> str:
    """Return a path of the folder in one way.

    Raises:
        CommitError: it leads out.
    """
    plain = posixpath.normpath(path)
    if posixpath.isabs(plain) or plain.split("/")[0] == ".." or "\0" in plain:
        raise CommitError(
            f"`{path}` is not in the folder", hint="give paths relative to the project", code="bad_path"
        )
    return plain


def _select(entries: Sequence[StatusEntry], paths: Collection[str], *, may_miss: bool) -> list[StatusEntry]:
    """Return what is changed at these paths, or below them; at each is something, unless it may miss."""
    chosen = {_normalize(path) for path in paths}
    found = [entry for entry in entries if chosen.intersection(_list_names(entry.path))]
    if conflict := next((entry.path for entry in found if entry.is_unmerged), None):
        raise CommitError(f"`{conflict}` is in conflict", hint="end the merge first")
    missing = chosen.difference(name for entry in found for name in _list_names(entry.path))
    if not found or (missing and not may_miss):
        named = ", ".join(f"`{path}`" for path in sorted(missing)[:5])
        raise CommitError(
            f"there is nothing to commit{f' in {named}' if named and not may_miss else ''}",
            hint="nothing has changed there, git ignores it, or it does not exist: see `git status`",
            code="nothing_to_commit",
        )
    if len(found) > MAX_FILES:
        raise CommitError(f"{len(found):,} files are too many for one commit", hint="name fewer in `paths`")
    return found


def _list_names(path: str) -> list[str]:
    """Return the path, the folders that it lies in, and that of all."""
    plain = path.rstrip("/")
    return [".", plain, *(plain[: found.start()] for found in re.finditer("/", plain))]


def _explain_nothing(left_out: Sequence[LeftOut]) -> str:
    told = ", ".join(f"`{each.path}` ({LEFT_OUT_WORDS[each.reason]})" for each in left_out[:5])
    return f"there is nothing to commit{f' but what is left out: {told}' if told else ''}"


LEFT_OUT_WORDS: Mapping[str, str] = {
    "repository": "a repository of its own",
    "filter": "your git settings send it through a program, which Kakite does not run",
    "too_large": "too large",
    "unreadable": "cannot be read",
    "bad_name": "git does not take such a name",
}
