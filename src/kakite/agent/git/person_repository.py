"""Runs git on the host in a repository of the person's, in which a model works.

No hook runs, no filter, no monitor of files and no program that shows differences, and nothing is fetched. So
nothing starts that a file of the work tree names, and whatever else could be put there is data.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kakite.agent.git.mirror import GitError, build_git_missing_error
from kakite.agent.git.url import RepoUrl, build_git_environment
from kakite.errors import UsageError

_TIMEOUT = 600.0  # s
_REASON = 600  # characters of what git said
_SETTINGS: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "protocol.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "i18n.commitEncoding": "UTF-8",
}
_FILTER = re.compile(r"filter\.(.+)\.(?:clean|smudge|process)", re.DOTALL)
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""What git keeps in its folder of commits that it is about to make itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry:
    """A file that is not as the last commit has it, or as the index has it."""

    code: str
    """Two letters of ``git status``."""
    path: str
    """Relative to the folder."""

    @property
    def is_unmerged(self) -> bool:
        """Whether a merge has left it in conflict."""
        return "U" in self.code or self.code in {"AA", "DD"}


class PersonRepository:
    """The repository that a folder of the person's lies in. Its calls block; make one for each operation."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Name it: ``environ`` is the person's, whose settings and identity git takes."""
        self.folder = folder
        self._environment = build_git_environment(RepoUrl(str(folder)), environ) | {
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
        }

    def exists(self) -> bool:
        """Return whether the folder is in the work tree of a repository that git trusts."""
        try:
            return self.ask("rev-parse", "--is-inside-work-tree") == "true"
        except GitError:
            return False

    def check(self) -> None:
        """Refuse a folder without a repository, or one without a commit.

        Raises:
            UsageError: there is none, code ``no_repository``.
            GitError: it has no commit yet, code ``empty_repository``.
        """
        if not self.exists():
            raise UsageError(
                f"`{self.folder}` is in no git repository",
                hint="`git init` there and commit first, or work in the folder as it is",
                code="no_repository",
            )
        if not self.find_commit("HEAD"):
            raise GitError(
                f"the repository of `{self.folder}` has no commit yet",
                hint="make a first commit there",
                code="empty_repository",
            )

    def find_commit(self, name: str) -> str:
        """Return the commit that a name stands for; empty if there is none."""
        return self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", may_fail=True)

    def get_branch(self) -> str:
        """Return the branch that is checked out; empty: none."""
        name = self.ask("symbolic-ref", "--quiet", "HEAD", may_fail=True)
        return name.removeprefix("refs/heads/")

    def find_top(self) -> Path:
        """Return the top of the work tree."""
        return Path(self.ask("rev-parse", "--show-toplevel"))

    def find_folders(self) -> tuple[Path, Path]:
        """Return git's own folder of this work tree, and the one that all work trees have in common."""
        own, common = self.ask(
            "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"
        ).splitlines()
        return Path(own), Path(common)

    def is_committing(self) -> bool:
        """Return whether a merge, a rebase, a cherry-pick or a revert is under way."""
        own, _ = self.find_folders()
        return any((own / name).exists() for name in _UNDER_WAY)

    def list_changes(self) -> tuple[StatusEntry, ...]:
        """Return what is not committed below the folder, without what is ignored; submodules stay unseen.

        A repository within that is none of the submodules has a ``/`` at its end.
        """
        listed = self.read(
            *("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"),
            *("--ignore-submodules=all", "--", "."),
        )
        prefix = self.ask("rev-parse", "--show-prefix")
        return tuple(
            StatusEntry(code=token[:2], path=token[3:].removeprefix(prefix))
            for token in os.fsdecode(listed).split("\0")
            if token
        )

    def ask(self, *arguments: str, may_fail: bool = False) -> str:
        """Return the text that git prints, without the end of its last line.

        Raises:
            GitError: git failed, unless that is one of its answers.
        """
        return os.fsdecode(self.read(*arguments, may_fail=may_fail)).removesuffix("\n")

    def read(
        self,
        *arguments: str,
        stdin: bytes = b"",
        more: Mapping[str, str] | None = None,
        may_fail: bool = False,
        filters: bool = False,
        folder: Path | None = None,
    ) -> bytes:
        """Return what git prints.

        Args:
            arguments: git's.
            stdin: its input.
            more: further variables.
            may_fail: a failure is an answer: nothing.
            filters: let it run the programs that the person's settings have for some files.
            folder: where git starts, if that is not the person's.

        Raises:
            GitError: git failed.
        """
        settings = _SETTINGS if filters else {**_SETTINGS, **self._filter_settings}
        variables = {**self._to_variables(settings), **(more or {})}
        done = self._run(*arguments, stdin=stdin, more=variables, folder=folder)
        if done.returncode == 0:
            return done.stdout
        if may_fail:
            return b""
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = "; ".join(line for line in said if not line.startswith("hint:"))[-_REASON:]
        raise GitError(f"`git {arguments[0]}` failed: {reason or f'exit code {done.returncode}'}")

    @cached_property
    def filters(self) -> frozenset[str]:
        """The names of the filters for which the person's settings have programs."""
        listed = self._run("config", "--name-only", "-z", "--get-regexp", r"^filter\.").stdout
        found = (_FILTER.fullmatch(name) for name in os.fsdecode(listed).split("\0"))
        return frozenset(match[1] for match in found if match)

    @cached_property
    def _filter_settings(self) -> Mapping[str, str]:
        ends = {"process": "", "required": "false"}  # an empty process comes before any other program
        return {f"filter.{name}.{end}": value for name in self.filters for end, value in ends.items()}

    def _to_variables(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables that give git these settings, after those of the person's environment."""
        first = int(self._environment.get("GIT_CONFIG_COUNT") or 0)
        variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
        for number, (key, value) in enumerate(settings.items(), first):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return variables

    def _run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        more: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ("git", *arguments),
                cwd=folder or self.folder,
                env={**self._environment, **(more or {})},
                input=stdin,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except FileNotFoundError as error:
            if not self.folder.is_dir():
                raise GitError(f"`{self.folder}` is not a folder") from error
            raise build_git_missing_error() from error
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git took longer than {_TIMEOUT:.0f} s in `{self.folder}`") from error
