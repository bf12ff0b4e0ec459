"""The real repository and the credentials for it: everything here happens on the host, never in a sandbox.

Git runs only in a bare mirror of our own, to which a sandbox has no way but the relay.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from kakite.agent.address import Address, git_environment, public
from kakite.agent.stale_locks import freed
from kakite.errors import KakiteError, OutsideError
from kakite.processes import Completed, Launch, ProcessError, run

GIT_TIMEOUT = 3600.0  # s; a first clone of a very large repository
OUT = "refs/kakite/out"
"""What the mirror would push as the branch."""
WIP = "refs/kakite/wip"
"""Work in progress, in the mirror; on the remote it has the task's name behind it."""


class GitError(OutsideError):
    """Git said no.

    Codes: ``git_missing``, ``clone_failed``, ``empty_repository``, ``shallow_repository``,
    ``branch_checked_out``, ``fetch_failed``, ``push_failed``, ``git_failed``.
    """

    code = "git_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Commits on the host that a sandbox is to get, as a pack."""

    pack: Launch
    """Writes the pack to its output."""
    wanted: bytes
    """What that program has to read."""
    commit: str
    """The one that it is about."""
    object_format: str = "sha1"
    """How objects are named: ``sha1`` or ``sha256``."""
    references: Mapping[str, str] = field(default_factory=dict[str, str])
    """Commits of branches and tags that come along, by names as in a clone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the repository said to a push."""

    outcome: Literal["pushed", "rejected", "refused"]
    """It has the commit; it has commits that are not below ours; or no, for another reason."""
    told: tuple[str, ...] = ()
    """Lines of its own. Without credentials."""
    reason: str = ""
    """What git said, all in one line. Without credentials."""


Fresh = Callable[[], Awaitable[Address]]
"""Returns the repository's address with credentials that are valid now. Raises KakiteError."""


class Mirror:
    """A bare copy of the repository on the host."""

    def __init__(
        self, folder: Path, address: Address, environ: Mapping[str, str], fresh: Fresh | None = None
    ) -> None:
        """Name a mirror.

        Args:
            folder: where it is or will be.
            address: of the repository.
            environ: git's.
            fresh: is asked for other credentials when the repository refuses those that one has.
        """
        self.folder = folder
        self._fresh = fresh
        self._address = address
        self._environ = environ
        self._environment = git_environment(address, environ)

    async def create(self) -> None:
        """Clone the repository; of one that is here, only what killed processes left locked is freed.

        Raises:
            GitError: it cannot be reached, or has no commit.
        """
        if (self.folder / "HEAD").exists():
            for lock in (*self.folder.glob("*.lock"), *(self.folder / "refs").rglob("*.lock")):
                lock.unlink(missing_ok=True)
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
            GitError: the repository is empty, or has no default branch.
        """
        for name in (f"refs/heads/{branch}", "HEAD"):
            done = await self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            if done.exit_code == 0:
                return done.stdout.decode().strip()
        listed = await self._git("for-each-ref", "--count=5", "--format=%(refname:short)", "refs/heads")
        shutil.rmtree(self.folder)  # cloned again once there is something to begin with
        others = ", ".join(listed.stdout.decode(errors="replace").split())
        raise GitError(
            f"`{self._address.url}` has no {'default branch' if others else 'commit yet'}",
            hint=f"choose another with --branch: {others}" if others else "make a first commit there",
            code="empty_repository",
        )

    async def has_branch(self, branch: str) -> bool:
        """Return whether the branch was there when all was fetched last."""
        return (await self._git("show-ref", "--verify", "--quiet", f"refs/heads/{branch}")).exit_code == 0

    async def history(self, commit: str, *, branch: str, have: str = "") -> History:
        """Return what a clone of this commit needs: its history, the default branch's and the branch's, tags.

        With ``have``, only what came after that commit, and nothing else.
        """
        references = {} if have else await self._cloned(commit, branch)
        wanted = [commit, *references.values(), *([f"^{have}"] if have else [])]
        return History(
            pack=self._launch("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"),
            wanted="".join(f"{name}\n" for name in dict.fromkeys(wanted)).encode(),
            commit=commit,
            object_format=(await self._checked("rev-parse", "--show-object-format")).stdout.decode().strip(),
            references=references,
        )

    async def _cloned(self, commit: str, branch: str) -> dict[str, str]:
        head = await self._git("symbolic-ref", "--quiet", "--short", "HEAD")
        names = {name for name in (head.stdout.decode().strip(), branch) if name}
        places = {f"refs/heads/{name}": f"refs/remotes/origin/{name}" for name in names}
        listed = await self._git("for-each-ref", "--format=%(objectname) %(refname)", *places)
        found = [line.split(" ", 1) for line in listed.stdout.decode().splitlines()]
        references = {places[name]: value for value, name in found if name in places}
        tagged = await self._git(
            "for-each-ref", "--format=%(objectname) %(refname)", f"--merged={commit}", "refs/tags"
        )
        return references | {
            name: value
            for value, name in (line.split(" ", 1) for line in tagged.stdout.decode().splitlines())
        }

    def serving(self, argv: tuple[str, ...], settings: Mapping[str, Sequence[str]]) -> Launch:
        """Tell how to start a program of git that talks to a sandbox: with these settings and no others."""
        pairs = [(key, value) for key, values in settings.items() for value in values]
        environment = {
            "PATH": self._environment.get("PATH", os.defpath),
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": str(len(pairs)),
            "GIT_PROTOCOL": "version=2",
        }
        for index, (key, value) in enumerate(pairs):
            environment |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
        return Launch(argv=argv, env=environment, cwd=str(self.folder))

    def taking(self) -> Launch:
        """Tell how to take a pack from a sandbox in: checked object by object, of bounded size and memory."""
        return bounded(
            self._launch(
                *(
                    "-c",
                    f"core.bigFileThreshold={BIG_FILE}",
                    "index-pack",
                    "--stdin",
                    "--fix-thin",
                    "--strict",
                ),
                *("--threads=1", f"--max-input-size={PUSH_MOST}"),
            )
        )

    async def adopt(self, commit: str, reference: str = OUT) -> None:
        """Keep this commit under a reference of the mirror's own, once all of its history is here.

        Raises:
            GitError: something of it is missing.
        """
        if not _COMMIT.fullmatch(commit):
            raise GitError("the sandbox names no commit")
        await self._checked("rev-list", "--objects", "--quiet", commit, "--not", "--all")
        await self._checked("update-ref", reference, f"{commit}^{{commit}}")

    async def outgoing(self) -> str:
        """Return the commit that ``push`` would push."""
        return (await self._checked("rev-parse", OUT)).stdout.decode().strip()

    async def push(self, branch: str) -> bool:
        """Push what ``adopt`` took in as the branch; False if someone else was faster. Never forces.

        Raises:
            GitError: the repository cannot be reached, or refuses.
        """
        verdict = await self.try_push(OUT, branch)
        if verdict.outcome == "refused":
            raise GitError(
                f"`{branch}` cannot be pushed to `{self._address.url}`: {verdict.reason}",
                hint=_HINTS["push_failed"],
                code="push_failed",
            )
        return verdict.outcome == "pushed"

    async def plant(self, onto: str, message: str, author: tuple[str, str], at: str) -> str:
        """Make a commit that changes nothing, dated ``at`` (ISO 8601), and return it: always the same one.

        Raises:
            GitError: ``onto`` is not here.
        """
        made = {f"GIT_{who}_DATE": at for who in ("AUTHOR", "COMMITTER")}
        for key, value in zip(("NAME", "EMAIL"), author, strict=True):
            made |= {f"GIT_AUTHOR_{key}": value, f"GIT_COMMITTER_{key}": value}
        done = await self._checked("commit-tree", f"{onto}^{{tree}}", "-p", onto, "-m", message, more=made)
        return done.stdout.decode().strip()

    async def try_push(self, source: str, branch: str, objects: Mapping[str, str] | None = None) -> Verdict:
        """Push a commit as the branch; never forces.

        ``objects`` are git's variables for objects that wait beside the mirror's own.
        """
        # By its address: by its name, git would move the mirror's own branch too.
        done = await self._git(
            "push", "--porcelain", self._address.url, f"{source}:refs/heads/{branch}", more=objects
        )
        lines = self._hidden(done.stderr.decode(errors="replace")).splitlines()
        told = tuple(line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:"))
        if done.exit_code == 0:
            return Verdict(outcome="pushed", told=told)
        said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        faster = re.search(_REJECTED, said)
        return Verdict(outcome="rejected" if faster else "refused", told=told, reason=self._reason(done))

    async def put_aside(self, commits: Mapping[str, str]) -> None:
        """Keep commits that are here on the remote, by references of ours, which no clone brings along.

        Raises:
            GitError: it cannot be reached, or takes no such references.
        """
        await self._move_aside({name: f"+{commit}:{name}" for name, commit in commits.items()})

    async def drop_aside(self, *references: str) -> None:
        """Remove references of ours from the remote, those that are there.

        Raises:
            GitError: it cannot be reached, or does not remove them.
        """
        found = await self._aside(references)
        if found:
            await self.create()
            await self._move_aside({name: f":{name}" for name in found})

    async def find_aside(self, commit: str, *references: str) -> bool:
        """Return whether a commit is here, or could be fetched from references of ours on the remote.

        Raises:
            GitError: the remote cannot be reached.
        """
        if await self.has(commit):
            return True
        for name in await self._aside(references):
            await self._git("fetch", "--quiet", "--no-tags", self._address.url, f"+{name}:{WIP}")
            if await self.has(commit):
                return True
        return False

    async def has(self, commit: str) -> bool:
        """Return whether a commit is here, with all that it stands on."""
        if not _COMMIT.fullmatch(commit):
            return False
        return (await self._git("rev-list", "--objects", "--quiet", "--max-count=1", commit)).exit_code == 0

    async def _aside(self, references: Sequence[str]) -> list[str]:
        """Return those of these references that the remote has."""
        listed = await self._git("ls-remote", self._address.url, *references, bare=False)
        if listed.exit_code != 0:
            raise self._error("fetch_failed", f"`{self._address.url}` cannot be asked", listed)
        found = {line.partition("\t")[2] for line in listed.stdout.decode(errors="replace").splitlines()}
        return [name for name in references if name in found]

    async def _move_aside(self, moves: Mapping[str, str]) -> None:
        for name in moves:
            _require_aside(name)
        done = await self._git("push", "--quiet", self._address.url, *moves.values())
        if done.exit_code != 0:
            raise self._error("push_failed", f"`{', '.join(moves)}` cannot be changed", done)

    def renew(self, address: Address) -> None:
        """Go on with the credentials of this address: those before may have ended."""
        self._environment = git_environment(address, self._environ)

    async def took_back(self, branch: str, base: str) -> bool:
        """Return whether someone moved the branch back below the base: a push would bring all of it again."""
        listed = await self._git("ls-remote", self._address.url, f"refs/heads/{branch}")
        tip = listed.stdout.decode(errors="replace").partition("\t")[0]
        if listed.exit_code != 0 or tip == base or not _COMMIT.fullmatch(tip):
            return False
        return (await self._git("merge-base", "--is-ancestor", tip, base)).exit_code == 0

    def note_pushed(self) -> None:
        """Remember that the branch holds commits which the sandbox pushed by itself."""
        (self.folder / _FROM_INSIDE).touch()

    async def are_theirs(self, commit: str, branch: str, *, since: str) -> bool:
        """Return whether all that came to the branch since a commit, up to this one, is other people's."""
        if (self.folder / _FROM_INSIDE).exists() or not _COMMIT.fullmatch(commit):
            return False
        below = [(since, commit), (commit, f"refs/heads/{branch}")]
        checked = [await self._git("merge-base", "--is-ancestor", *pair) for pair in below]
        return all(done.exit_code == 0 for done in checked)

    async def refresh(self) -> None:
        """Fetch all branches and tags as they are now on the remote.

        Raises:
            GitError: it cannot be reached.
        """
        done = await self._git(
            *("fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", self._address.url),
            *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
        )
        if done.exit_code != 0:
            raise self._error("fetch_failed", f"`{self._address.url}` cannot be fetched", done)

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

    async def _checked(self, *arguments: str, more: Mapping[str, str] | None = None) -> Completed:
        done = await self._git(*arguments, more=more)
        if done.exit_code != 0:
            raise self._error("git_failed", f"`git {arguments[0]}` failed", done)
        return done

    async def _git(
        self, *arguments: str, bare: bool = True, more: Mapping[str, str] | None = None
    ) -> Completed:
        done = await self._ran(*arguments, bare=bare, more=more)
        if await freed(self._address.url, done):
            done = await self._ran(*arguments, bare=bare, more=more)
        if done.exit_code == 0 or self._fresh is None or _LOCKED_OUT not in done.stderr:
            return done
        try:
            self.renew(await self._fresh())
        except KakiteError:
            return done  # what git said of it tells more
        return await self._ran(*arguments, bare=bare, more=more)

    async def _ran(
        self, *arguments: str, bare: bool = True, more: Mapping[str, str] | None = None
    ) -> Completed:
        launch = self._launch(*arguments, bare=bare, more=more)
        try:
            return await run(launch, timeout=GIT_TIMEOUT, limit=_OUTPUT_MOST)
        except ProcessError as error:
            if error.code != "program_missing":
                raise
            raise missing_git() from error

    def _launch(self, *arguments: str, bare: bool = True, more: Mapping[str, str] | None = None) -> Launch:
        place: Sequence[str] = ("--git-dir", str(self.folder)) if bare else ()
        settings = [part for each in _SETTINGS for part in ("-c", each)]
        argv = ("git", *settings, *place, *arguments)
        return Launch(argv=argv, env={**self._environment, **(more or {})}, cwd=str(self.folder.parent))

    def _error(self, code: str, message: str, done: Completed) -> GitError:
        return GitError(f"{message}: {self._reason(done)}", hint=_HINTS.get(code, ""), code=code)

    def _reason(self, done: Completed) -> str:
        if done.timed_out:
            return f"it took longer than {GIT_TIMEOUT:.0f} s"
        said = done.stderr.decode(errors="replace").strip().splitlines()
        told = [line for line in said if line.startswith(("remote:", "fatal:", "error:"))] or said[-1:]
        reason = self._hidden("; ".join(line.strip() for line in told))  # before it is cut: a half is none
        return reason[:_REASON] or f"exit code {done.exit_code}"

    def _hidden(self, text: str) -> str:
        """Return the text without credentials: ours, and those in addresses of the person's own settings."""
        text = re.sub(r"(?<=://)\S+", lambda found: public(found[0]), text)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    @property
    def _secrets(self) -> tuple[str, ...]:
        password = self._environment.get("KAKITE_GIT_PASSWORD", "")
        # Without a password the user's name is the token: https://TOKEN@host.
        secret = password or self._environment.get("KAKITE_GIT_USERNAME", "")
        return tuple({secret, quote(secret, safe="")} - {"", "git"})


def _require_aside(reference: str) -> None:
    """Never move a branch or a tag by force."""
    if not re.fullmatch(r"refs/kakite/[\w./-]+", reference):
        raise GitError(f"`{reference}` is no reference of ours")


_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_LOCKED_OUT = b"Authentication failed"  # git's own words; it speaks English to us
_FROM_INSIDE = "kakite-pushed"
_REJECTED = (
    r"\[rejected\] \((fetch first|non-fast-forward)\)"
    # Two pushes met: what the other one wrote is seen after the next fetch.
    r"|\[remote rejected\] .*\((cannot lock ref|incorrect old value|failed to update ref)"
)

# No program of the repository's runs at our git, and none stays behind to tidy up.
_SETTINGS = ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false")

PUSH_MOST = 1 << 30
"""Bytes that a sandbox may send at once."""
BIG_FILE = 16 << 20
"""Bytes from which on git does not take a file into memory to look for a delta."""
_MEMORY = 2 << 30  # bytes that a program may use for what a sandbox sent: a small pack can hold large files


def bounded(launch: Launch) -> Launch:
    """Return the same program with a limit to its memory, where none is that is lower."""
    limited = ("sh", "-c", f'ulimit -d {_MEMORY >> 10} 2>&-; exec "$@"', "sh", *launch.argv)
    return Launch(argv=limited, env=launch.env, cwd=launch.cwd)


_REASON = 600  # characters of what git said
_OUTPUT_MOST = 64 << 20  # bytes; a list of all branches, at most

_HINTS = {
    "clone_failed": "check the address, and that `git clone` works for you in this terminal",
    "push_failed": "the work is kept; once you may push, go on with `kakite agent resume`",
    "fetch_failed": "the work is kept; go on with `kakite agent resume`",
}


def missing_git() -> GitError:
    """Return that there is no git."""
    return GitError("git is not installed", hint="apt install git", code="git_missing")
