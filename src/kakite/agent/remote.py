"""The real repository and the credentials for it: everything here happens on the host, never in a sandbox.

Git runs only in a bare mirror of our own, which nothing in a sandbox can write. Credentials that came with an
address are handed to git through its environment, so that no argument, file or remote address holds them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from kakite.errors import OutsideError, UsageError
from kakite.processes import Completed, Launch, ProcessError, run

GIT_TIMEOUT = 3600.0  # s; a first clone of a very large repository

_TOKEN = "KAKITE_GIT_TOKEN"  # noqa: S105 - a name
"""Variable with a password for the repository, where its address has none."""

# What git sets for programs that it starts itself: it would make our git work in the caller's repository.
_LOCAL = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_DIR GIT_GRAFT_FILE "
    "GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE GIT_INTERNAL_SUPER_PREFIX GIT_NAMESPACE GIT_NO_REPLACE_OBJECTS "
    "GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_QUARANTINE_PATH GIT_REPLACE_REF_BASE GIT_SHALLOW_FILE GIT_WORK_TREE"
)

_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    '"$KAKITE_GIT_USERNAME" "$KAKITE_GIT_PASSWORD"; }; f'
)


class GitError(OutsideError):
    """Git said no.

    Codes: ``git_missing``, ``clone_failed``, ``empty_repository``, ``shallow_repository``,
    ``branch_checked_out``, ``fetch_failed``, ``push_failed``, ``git_failed``.
    """

    code = "git_failed"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a repository is. Printing it shows no credentials."""

    url: str
    """A path, or an address without credentials."""
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Address({self.url!r})"


def parse_address(repository: str) -> Address:
    """Return the address of a path or URL, its credentials set apart.

    Raises:
        UsageError: a path that is no folder, or text that git would take for an option.
    """
    if "://" in repository:
        return _split_credentials(repository)
    if re.fullmatch(r"[\w.-]+@[\w.-]+:[^@]+", repository):  # user@host:path, which ssh understands
        return Address(repository)
    folder = Path(repository).expanduser()
    if not repository or not folder.is_dir():
        raise UsageError(
            f"`{repository.rpartition('@')[2]}` is neither a folder nor the address of a repository",
            hint="give a path, or an address such as https://host/name.git",
            code="bad_repository",
        )
    return Address(str(folder.resolve()))


def _split_credentials(url: str) -> Address:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if parts.query or parts.fragment:
        raise UsageError(
            f"the address of a repository has no `?` or `#`: `{parts.scheme}://{host}{parts.path}`",
            hint=f"hand a token over in the variable {_TOKEN}",
            code="bad_repository",
        )
    if parts.scheme == "ssh":  # its user is part of the address; a password there is of no use to ssh
        user = f"{parts.username}@" if parts.username else ""
        return Address(urlunsplit(parts._replace(netloc=user + host)))
    clean = urlunsplit(parts._replace(netloc=host))
    return Address(clean, unquote(parts.username or ""), unquote(parts.password or ""))


def git_environment(address: Address, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which git may reach the address, without asking anything on a terminal."""
    local = set(_LOCAL.split())
    environment = {name: value for name, value in environ.items() if name not in local and name != _TOKEN}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    password = address.password or environ.get(_TOKEN, "")
    if not address.url.startswith(("http://", "https://")) or not (password or address.username):
        return environment
    parts = urlsplit(address.url)
    # For this server alone: it may send us to another one, which must not see them.
    origin = f"{parts.scheme}://{parts.netloc}"
    settings = [("credential.helper", ""), (f"credential.{origin}.helper", _HELPER)]
    first = int(environment.get("GIT_CONFIG_COUNT") or 0)
    environment["GIT_CONFIG_COUNT"] = str(first + len(settings))
    for index, (key, value) in enumerate(settings, first):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    environment["KAKITE_GIT_USERNAME"] = address.username or "git"
    environment["KAKITE_GIT_PASSWORD"] = password
    return environment


class Mirror:
    """A bare copy of the repository on the host."""

    def __init__(self, folder: Path, address: Address, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._address = address
        self._environment = git_environment(address, environ)

    async def create(self) -> None:
        """Clone the repository.

        Raises:
            GitError: it cannot be reached, or has no commit.
        """
        if (self.folder / "HEAD").exists():
            return
        partial = self.folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed while it cloned
        done = await self._git(
            "clone", "--bare", "--quiet", "--", self._address.url, str(partial), bare=False
        )
        if done.exit_code != 0:
            raise self._error("clone_failed", f"`{self._address.url}` cannot be cloned", done)
        partial.rename(self.folder)
        if (self.folder / "shallow").exists():
            shutil.rmtree(self.folder)
            raise GitError(
                f"`{self._address.url}` has only a part of its history",
                hint="complete it with `git fetch --unshallow`, or give the address that it was cloned from",
                code="shallow_repository",
            )

    async def object_format(self) -> str:
        """Return how objects are named: ``sha1`` or ``sha256``."""
        return (await self._checked("rev-parse", "--show-object-format")).stdout.decode().strip()

    async def check_branch(self, branch: str) -> None:
        """Refuse a branch that is checked out in a repository on this machine: pushing there would fail.

        Raises:
            GitError: it is.
        """
        if not self._address.url.startswith("/"):
            return
        listed = await self._git("-C", self._address.url, "worktree", "list", "--porcelain", bare=False)
        bare = await self._git("-C", self._address.url, "rev-parse", "--is-bare-repository", bare=False)
        if bare.stdout.strip() != b"true" and f"branch refs/heads/{branch}\n".encode() in listed.stdout:
            raise GitError(
                f"`{branch}` is checked out in `{self._address.url}`",
                hint="choose another branch with --branch",
                code="branch_checked_out",
            )

    async def start_commit(self, branch: str) -> str:
        """Return the commit to start from: the branch's if it exists, else the default branch's.

        Raises:
            GitError: the repository is empty.
        """
        for name in (f"refs/heads/{branch}", "HEAD"):
            done = await self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            if done.exit_code == 0:
                return done.stdout.decode().strip()
        raise GitError(
            f"`{self._address.url}` has no commit yet",
            hint="make a first commit there",
            code="empty_repository",
        )

    async def bundle(self, commit: str) -> bytes:
        """Return a bundle with the history of a commit, under ``refs/kakite/base``."""
        await self._checked("update-ref", "refs/kakite/base", commit)
        return (await self._checked("bundle", "create", "--quiet", "-", "refs/kakite/base")).stdout

    async def absorb(self, bundle: bytes) -> None:
        """Take commits from a sandbox's bundle in, checked object by object, as ``refs/kakite/out``."""
        file = self.folder / "incoming.bundle"
        file.write_bytes(bundle)
        await self._checked(
            "-c",
            "fetch.fsckObjects=true",
            "fetch",
            "--quiet",
            "--no-tags",
            str(file),
            "+HEAD:refs/kakite/out",
        )
        file.unlink()

    async def outgoing(self) -> str:
        """Return the commit that ``push`` would push."""
        return (await self._checked("rev-parse", "refs/kakite/out")).stdout.decode().strip()

    async def push(self, branch: str) -> bool:
        """Push ``refs/kakite/out`` as the branch; False if someone else was faster. Never forces.

        Raises:
            GitError: the repository cannot be reached, or refuses.
        """
        done = await self._git(
            "push", "--porcelain", self._address.url, f"refs/kakite/out:refs/heads/{branch}"
        )
        if done.exit_code == 0:
            return True
        told = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        if re.search(r"\[rejected\] \((fetch first|non-fast-forward)\)", told):
            return False
        if re.search(
            r"\[remote rejected\] .*\((cannot lock ref|incorrect old value|failed to update ref)", told
        ):
            return False  # two pushes met: what the other one wrote is seen after the next fetch
        raise self._error("push_failed", f"`{branch}` cannot be pushed to `{self._address.url}`", done)

    async def fetch(self, branch: str) -> str:
        """Fetch the branch as it is now on the remote and return its commit.

        Raises:
            GitError: it cannot be reached.
        """
        done = await self._git(
            "fetch", "--quiet", "--no-tags", self._address.url, f"+refs/heads/{branch}:refs/kakite/theirs"
        )
        if done.exit_code != 0:
            raise self._error(
                "fetch_failed", f"`{branch}` cannot be fetched from `{self._address.url}`", done
            )
        return (await self._checked("rev-parse", "refs/kakite/theirs")).stdout.decode().strip()

    async def _checked(self, *arguments: str) -> Completed:
        done = await self._git(*arguments)
        if done.exit_code != 0:
            raise self._error("git_failed", f"`git {arguments[0]}` failed", done)
        return done

    async def _git(self, *arguments: str, bare: bool = True) -> Completed:
        place: Sequence[str] = ("--git-dir", str(self.folder)) if bare else ()
        argv = ("git", "-c", "core.hooksPath=/dev/null", *place, *arguments)
        launch = Launch(argv=argv, env=self._environment, cwd=str(self.folder.parent))
        try:
            return await run(launch, timeout=GIT_TIMEOUT, limit=_NO_LIMIT)
        except ProcessError as error:
            if error.code != "program_missing":
                raise
            raise _missing_git() from error

    def _error(self, code: str, message: str, done: Completed) -> GitError:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        told = [line for line in said if line.startswith(("remote:", "fatal:", "error:"))] or said[-1:]
        reason = "; ".join(line.strip() for line in told)[:_REASON] or f"exit code {done.exit_code}"
        return GitError(f"{message}: {self._hidden(reason)}", hint=_HINTS.get(code, ""), code=code)

    def _hidden(self, text: str) -> str:
        password = self._environment.get("KAKITE_GIT_PASSWORD")
        return text.replace(password, "***") if password else text


_REASON = 600  # characters of what git said
_NO_LIMIT = 1 << 62  # bundles are data, not output to look at

_HINTS = {
    "clone_failed": "check the address, and that `git clone` works for you in this terminal",
    "push_failed": "the work is kept; once you may push, go on with `kakite agent resume`",
    "fetch_failed": "the work is kept; go on with `kakite agent resume`",
}


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
        raise _missing_git() from error
    return done.stdout.decode(errors="replace").strip()


def _missing_git() -> GitError:
    return GitError("git is not installed", hint="apt install git", code="git_missing")
