"""Keeps a bare mirror of the real repository on the host, and holds its credentials.

Git runs here only on the host, in this mirror. A sandbox reaches it only through SandboxRemote. Packs are
streamed in pieces, so a repository of any size needs little memory. Locks that a killed git left in the
mirror are removed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from kakite.agent.git.url import RepoUrl, build_git_environment, redact_url
from kakite.agent.run.state import RunCommit
from kakite.errors import ExternalError, KakiteError
from kakite.processes import CompletedProcess, ManagedProcess, ProcessError, ProcessSpec, run, start

_LOCK_EXISTS = re.compile(rb"Unable to create '([^'\n]+\.lock)': File exists")
_MIN_LOCK_AGE = 2.0  # s; whoever made a lock that is older has become a process that can be seen


async def remove_stale_locks(repository: str, done: CompletedProcess) -> bool:
    """Remove the locks of references that a push failed at, unless git is at work there.

    Returns whether there were any, so that pushing again makes sense. ``repository`` is the address that was
    pushed to: of one that is elsewhere nothing is removed.
    """
    if done.exit_code == 0 or not repository.startswith("/"):
        return False
    names = [os.fsdecode(name) for name in _LOCK_EXISTS.findall(done.stderr)]
    locks = await asyncio.to_thread(_select_ref_locks, names, Path(repository))
    if not locks:
        return False
    await asyncio.sleep(_MIN_LOCK_AGE - min(map(_get_age, locks)))
    if await asyncio.to_thread(_is_at_work, Path(repository)):
        return False
    for lock in locks:
        lock.unlink(missing_ok=True)
    return True


def _select_ref_locks(names: Iterable[str], repository: Path) -> list[Path]:
    """Return these locks, if all of them are of the repository's references."""
    place = repository.resolve()
    locks = [Path(name).resolve() for name in names]
    return locks if all(_is_ref_lock(lock, place) for lock in locks) else []


def _is_ref_lock(lock: Path, place: Path) -> bool:
    if not lock.is_relative_to(place):
        return False
    inside = lock.relative_to(place).as_posix().removeprefix(".git/")
    return inside == "packed-refs.lock" or inside.startswith("refs/")


def _get_age(lock: Path) -> float:
    try:
        return time.time() - lock.stat().st_mtime
    except OSError:
        return _MIN_LOCK_AGE


def _is_at_work(repository: Path) -> bool:
    """Return whether a program of git stands in the repository or was given it, or nobody can tell."""
    place = repository.resolve()
    return not Path("/proc/self").exists() or any(
        _is_using_repository(process, place) for process in Path("/proc").glob("[0-9]*") if _is_git(process)
    )


def _is_git(process: Path) -> bool:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").startswith("git")
    except OSError:
        return False


def _is_using_repository(process: Path, place: Path) -> bool:
    try:
        if any(each == place for each in _iter_argument_paths(process)):
            return True
        return (process / "cwd").readlink().is_relative_to(place)
    except PermissionError:
        return True  # another person's, who may be at work here
    except OSError:
        return False  # it has ended


def _iter_argument_paths(process: Path) -> Iterator[Path]:
    for word in (process / "cmdline").read_bytes().split(b"\0"):
        path = os.fsdecode(word.strip(b"'"))
        if path.startswith("/"):
            yield Path(path).resolve()


GIT_TIMEOUT = 3600.0  # s; a first clone of a very large repository
_DIFF_TIMEOUT = 600.0  # s
_DIFF = (
    *("-c", "core.attributesFile=/dev/null", "diff", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
_PATCH = (*_DIFF, "--binary", "--full-index", "--no-renames")
OUTGOING_REF = "refs/kakite/out"
"""What the mirror would push as the branch."""
INSPECTED_REF = "refs/kakite/inspected"
"""The files of the work tree as they were inspected last."""
WIP_REF = "refs/kakite/wip"
"""Work in progress, in the mirror; on the remote it has the task's name behind it."""


class GitError(ExternalError):
    """Git said no.

    Codes: ``git_missing``, ``clone_failed``, ``empty_repository``, ``shallow_repository``,
    ``branch_checked_out``, ``branch_gone``, ``fetch_failed``, ``push_failed``, ``git_failed``.
    """

    code = "git_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedHistory:
    """Commits on the host that a sandbox is to get, as a pack."""

    pack: ProcessSpec
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
class PushResult:
    """The repository's response to a push."""

    outcome: Literal["pushed", "rejected", "refused"]
    """It has the commit; it has commits that are not below ours; or no, for another reason."""
    told: tuple[str, ...] = ()
    """Lines of its own. Without credentials."""
    reason: str = ""
    """What git said, all in one line. Without credentials."""
    is_certain: bool = True
    """Whether git or the repository said so; else the connection ended, and it may have the commit."""


CredentialsProvider = Callable[[], Awaitable[RepoUrl]]
"""Returns the repository's address with credentials that are valid now. Raises KakiteError."""


class Mirror:
    """A bare copy of the repository on the host."""

    def __init__(
        self,
        folder: Path,
        address: RepoUrl,
        environ: Mapping[str, str],
        fresh: CredentialsProvider | None = None,
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
        self._environment = build_git_environment(address, environ)

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
        done = await self._run_git(
            "clone", "--bare", "--quiet", "--", self._address.url, str(partial), bare=False
        )
        if done.exit_code != 0:
            raise self._build_error("clone_failed", f"`{self._address.url}` cannot be cloned", done)
        partial.rename(self.folder)
        if (self.folder / "shallow").exists():
            shutil.rmtree(self.folder)
            raise GitError(
                f"`{self._address.url}` has only part of its history",
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
        listed = await self._run_git("-C", self._address.url, "worktree", "list", "--porcelain", bare=False)
        bare = await self._run_git("-C", self._address.url, "rev-parse", "--is-bare-repository", bare=False)
        if bare.stdout.strip() != b"true" and f"branch refs/heads/{branch}\n".encode() in listed.stdout:
            raise GitError(
                f"`{branch}` is checked out in `{self._address.url}`",
                hint="choose another branch with --branch",
                code="branch_checked_out",
            )

    async def find_start_commit(self, branch: str) -> str:
        """Return the commit to start from: the branch's if it exists, else the default branch's.

        Raises:
            GitError: the repository is empty, or has no default branch.
        """
        for name in (f"refs/heads/{branch}", "HEAD"):
            done = await self._run_git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            if done.exit_code == 0:
                return done.stdout.decode().strip()
        listed = await self._run_git("for-each-ref", "--count=5", "--format=%(refname:short)", "refs/heads")
        shutil.rmtree(self.folder)  # cloned again once there is something to begin with
        others = ", ".join(listed.stdout.decode(errors="replace").split())
        raise GitError(
            f"`{self._address.url}` has no {'default branch' if others else 'commit yet'}",
            hint=f"choose another with --branch: {others}" if others else "make a first commit there",
            code="empty_repository",
        )

    async def has_branch(self, branch: str) -> bool:
        """Return whether the branch was there when all was fetched last."""
        return (await self._run_git("show-ref", "--verify", "--quiet", f"refs/heads/{branch}")).exit_code == 0

    async def is_merged(self, commit: str) -> bool:
        """Return whether the default branch had this commit when all was fetched last."""
        if not await self.has(commit):
            return False
        return (await self._run_git("merge-base", "--is-ancestor", commit, "HEAD")).exit_code == 0

    async def pack_history(self, commit: str, *, branch: str, have: str = "") -> PackedHistory:
        """Return what a clone of this commit needs: its history, the default branch's and the branch's, tags.

        With ``have``, only what came after that commit, and nothing else.
        """
        references = {} if have else await self._list_clone_refs(commit, branch)
        wanted = [commit, *references.values(), *([f"^{have}"] if have else [])]
        return PackedHistory(
            pack=self._build_git_spec(
                "pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"
            ),
            wanted="".join(f"{name}\n" for name in dict.fromkeys(wanted)).encode(),
            commit=commit,
            object_format=(await self._run_git_or_raise("rev-parse", "--show-object-format"))
            .stdout.decode()
            .strip(),
            references=references,
        )

    async def _list_clone_refs(self, commit: str, branch: str) -> dict[str, str]:
        head = await self._run_git("symbolic-ref", "--quiet", "--short", "HEAD")
        names = {name for name in (head.stdout.decode().strip(), branch) if name}
        places = {f"refs/heads/{name}": f"refs/remotes/origin/{name}" for name in names}
        listed = await self._run_git("for-each-ref", "--format=%(objectname) %(refname)", *places)
        found = [line.split(" ", 1) for line in listed.stdout.decode().splitlines()]
        references = {places[name]: value for value, name in found if name in places}
        tagged = await self._run_git(
            "for-each-ref", "--format=%(objectname) %(refname)", f"--merged={commit}", "refs/tags"
        )
        return references | {
            name: value
            for value, name in (line.split(" ", 1) for line in tagged.stdout.decode().splitlines())
        }

    def build_server_spec(self, argv: tuple[str, ...], settings: Mapping[str, Sequence[str]]) -> ProcessSpec:
        """Return how to start a program of git that talks to a sandbox: with these settings and no others."""
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
        return ProcessSpec(argv=argv, env=environment, cwd=str(self.folder))

    def build_index_pack_spec(self) -> ProcessSpec:
        """Return how to accept a pack from a sandbox: each object checked, of bounded size and memory."""
        return limit_memory(
            self._build_git_spec(
                *(
                    "-c",
                    f"core.bigFileThreshold={BIG_FILE_THRESHOLD}",
                    "index-pack",
                    "--stdin",
                    "--fix-thin",
                    "--strict",
                ),
                *("--threads=1", f"--max-input-size={MAX_PUSH_BYTES}"),
            )
        )

    async def update_ref(self, commit: str, reference: str = OUTGOING_REF) -> None:
        """Keep this commit under a reference of the mirror's own, once all of its history is here.

        Raises:
            GitError: something of it is missing.
        """
        if not _COMMIT_ID.fullmatch(commit):
            raise GitError("the sandbox names no commit")
        await self._run_git_or_raise("rev-list", "--objects", "--quiet", commit, "--not", "--all")
        await self._run_git_or_raise("update-ref", reference, f"{commit}^{{commit}}")

    async def keep_branch(self, branch: str, commit: str) -> None:
        """Let the branch be this commit in the mirror, and nowhere else."""
        await self._run_git_or_raise("update-ref", f"refs/heads/{branch}", commit)

    async def build_patch(self, base: str, commit: str) -> bytes:
        """Return what a commit changes, as a patch that `git apply` takes on the base.

        Raises:
            GitError: one of them is not here, or the patch is too large.
        """
        return await self._read_diff(*_PATCH, base, commit, "--")

    async def build_diff(self, base: str, commit: str) -> str:
        """Return what a commit changes, as a unified diff for people.

        No setting and no attribute of the repository leaves anything out: of a file that a committed
        attribute calls binary the lines are there, and what holds a NUL is one line.

        Raises:
            GitError: one of them is not here, or the diff is too large.
        """
        return (await self._read_diff(*_DIFF, base, commit, "--")).decode(errors="replace")

    async def _read_diff(self, *arguments: str) -> bytes:
        empty = await self._run_git_or_raise("hash-object", "-t", "tree", os.devnull)
        alone = {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            # A bare repository has the attributes of its HEAD in some versions of git; older ones have none.
            "GIT_ATTR_SOURCE": empty.stdout.decode().strip(),
        }
        launch = limit_memory(self._build_git_spec(*arguments, more=alone))
        done = await run(launch, timeout=_DIFF_TIMEOUT, limit=_MAX_OUTPUT_BYTES)
        if done.exit_code != 0:
            raise self._build_error("git_failed", "`git diff` failed", done)
        if done.stdout_dropped:  # a part must not be taken for the whole
            raise GitError(f"the diff has more than {_MAX_OUTPUT_BYTES >> 20} MiB")
        return done.stdout

    async def list_commits(self, base: str, commit: str) -> tuple[RunCommit, ...]:
        """Return the commits after the base up to this one, the oldest first; of very many, the newest.

        Raises:
            GitError: one of them is not here.
        """
        shown = "--format=%H%x00%s%x00%an <%ae>%x00"
        done = await self._run_git_or_raise(
            *("log", "--no-color", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8"),
            *("--no-decorate", "--topo-order", f"--max-count={_MAX_COMMITS}", shown, f"{base}..{commit}"),
            more={"GIT_NO_REPLACE_OBJECTS": "1"},
        )
        fields = done.stdout.decode(errors="replace").split("\0")
        found = zip(*(fields[at::3] for at in range(3)), strict=False)
        return tuple(
            RunCommit(commit=name.strip(), subject=_shorten(subject), author=_shorten(author))
            for name, subject, author in found
        )[::-1]

    async def get_outgoing(self) -> str:
        """Return the commit that ``push`` would push."""
        return (await self._run_git_or_raise("rev-parse", OUTGOING_REF)).stdout.decode().strip()

    async def push(self, branch: str) -> bool:
        """Push what ``update_ref`` took in as the branch; False if someone else was faster. Never forces.

        Raises:
            GitError: the repository cannot be reached, or refuses.
        """
        verdict = await self.push_commit(OUTGOING_REF, branch)
        if verdict.outcome == "refused":
            raise GitError(
                f"`{branch}` cannot be pushed to `{self._address.url}`: {verdict.reason}",
                hint=_HINTS["push_failed"],
                code="push_failed",
            )
        return verdict.outcome == "pushed"

    async def create_empty_commit(self, onto: str, message: str, author: tuple[str, str], at: str) -> str:
        """Make a commit that changes nothing, dated ``at`` (ISO 8601), and return it: always the same one.

        Raises:
            GitError: ``onto`` is not here.
        """
        made = {f"GIT_{who}_DATE": at for who in ("AUTHOR", "COMMITTER")}
        for key, value in zip(("NAME", "EMAIL"), author, strict=True):
            made |= {f"GIT_AUTHOR_{key}": value, f"GIT_COMMITTER_{key}": value}
        done = await self._run_git_or_raise(
            "commit-tree", f"{onto}^{{tree}}", "-p", onto, "-m", message, more=made
        )
        return done.stdout.decode().strip()

    async def push_commit(
        self, source: str, branch: str, objects: Mapping[str, str] | None = None
    ) -> PushResult:
        """Push a commit as the branch; never forces.

        ``objects`` are git's variables for objects that wait beside the mirror's own.
        """
        # By its address: by its name, git would move the mirror's own branch too.
        done = await self._run_git(
            "push", "--porcelain", self._address.url, f"{source}:refs/heads/{branch}", more=objects
        )
        lines = self._redact(done.stderr.decode(errors="replace")).splitlines()
        told = tuple(line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:"))
        if done.exit_code == 0:
            return PushResult(outcome="pushed", told=told)
        said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        faster = re.search(_REJECTED, said)
        return PushResult(
            outcome="rejected" if faster else "refused",
            told=told,
            reason=self._format_reason(done),
            is_certain=re.search(_ANSWERED, done.stdout) is not None,
        )

    async def push_checkpoint_refs(self, commits: Mapping[str, str]) -> None:
        """Keep commits that are here on the remote, by references of ours, which no clone brings along.

        Raises:
            GitError: it cannot be reached, or takes no such references.
        """
        await self._push_refs({name: f"+{commit}:{name}" for name, commit in commits.items()})

    async def delete_checkpoint_refs(self, *references: str) -> None:
        """Remove references of ours from the remote, those that are there.

        Raises:
            GitError: it cannot be reached, or does not remove them.
        """
        found = await self._list_remote_refs(references)
        if found:
            await self.create()
            await self._push_refs({name: f":{name}" for name in found})

    async def fetch_checkpoint_commit(self, commit: str, *references: str) -> bool:
        """Return whether a commit is here, or could be fetched from references of ours on the remote.

        Raises:
            GitError: the remote cannot be reached.
        """
        if await self.has(commit):
            return True
        for name in await self._list_remote_refs(references):
            await self._run_git("fetch", "--quiet", "--no-tags", self._address.url, f"+{name}:{WIP_REF}")
            if await self.has(commit):
                return True
        return False

    async def has(self, commit: str) -> bool:
        """Return whether a commit is here, with all that it stands on."""
        if not _COMMIT_ID.fullmatch(commit):
            return False
        return (
            await self._run_git("rev-list", "--objects", "--quiet", "--max-count=1", commit)
        ).exit_code == 0

    async def _list_remote_refs(self, references: Sequence[str]) -> list[str]:
        """Return those of these references that the remote has."""
        listed = await self._run_git("ls-remote", self._address.url, *references, bare=False)
        if listed.exit_code != 0:
            raise self._build_error("fetch_failed", f"`{self._address.url}` cannot be asked", listed)
        found = {line.partition("\t")[2] for line in listed.stdout.decode(errors="replace").splitlines()}
        return [name for name in references if name in found]

    async def _push_refs(self, moves: Mapping[str, str]) -> None:
        for name in moves:
            _check_checkpoint_ref(name)
        done = await self._run_git("push", "--quiet", self._address.url, *moves.values())
        if done.exit_code != 0:
            raise self._build_error("push_failed", f"`{', '.join(moves)}` cannot be changed", done)

    def renew(self, address: RepoUrl) -> None:
        """Go on with the credentials of this address: those before may have ended."""
        self._environment = build_git_environment(address, self._environ)

    async def is_rolled_back(self, branch: str, base: str) -> bool:
        """Return whether someone moved the branch back below the base: a push would bring all of it again."""
        listed = await self._run_git("ls-remote", self._address.url, f"refs/heads/{branch}")
        tip = listed.stdout.decode(errors="replace").partition("\t")[0]
        if listed.exit_code != 0 or tip == base or not _COMMIT_ID.fullmatch(tip):
            return False
        return (await self._run_git("merge-base", "--is-ancestor", tip, base)).exit_code == 0

    def note_sent(self, commit: str) -> bool:
        """Remember a commit that the sandbox pushes by itself, before it is sent: it counts as pushed.

        Stored, so that a process which goes on with the run knows it too. Returns whether it was new.
        """
        known = self._list_sent()
        if commit in known:
            return False
        self._store_sent((*known, commit))
        return True

    def forget_sent(self, commit: str) -> None:
        """Take back that a commit was sent, once the repository said that it has not taken it."""
        self._store_sent(tuple(each for each in self._list_sent() if each != commit))

    def _list_sent(self) -> tuple[str, ...]:
        try:
            return tuple((self.folder / _SANDBOX_PUSH_MARKER).read_text(encoding="ascii").split())
        except FileNotFoundError:
            return ()

    def _store_sent(self, commits: Sequence[str]) -> None:
        marker = self.folder / _SANDBOX_PUSH_MARKER
        if not commits:
            marker.unlink(missing_ok=True)
            return
        partial = marker.with_suffix(".partial")
        with partial.open("w", encoding="ascii") as file:
            file.writelines(f"{commit}\n" for commit in commits)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(marker)

    @property
    def has_sandbox_push(self) -> bool:
        """Whether the branch may hold commits that the sandbox pushed by itself."""
        return (self.folder / _SANDBOX_PUSH_MARKER).exists()

    async def find_sandbox_push(self, branch: str, base: str) -> str:
        """Return the branch's commit on the remote if one that the sandbox pushed by itself is in it.

        Empty where there is none that the base does not stand on.

        Raises:
            GitError: the remote cannot be reached.
        """
        sent = self._list_sent()
        if not sent or not await self._list_remote_refs((f"refs/heads/{branch}",)):
            return ""
        tip = await self.fetch(branch)
        for commit in sent:
            if await self._is_ancestor(commit, tip) and not await self._is_ancestor(commit, base):
                return tip
        return ""

    async def _is_ancestor(self, commit: str, of: str) -> bool:
        return (await self._run_git("merge-base", "--is-ancestor", commit, of)).exit_code == 0

    async def is_from_others(self, commit: str, branch: str, *, since: str) -> bool:
        """Return whether all that came to the branch since a commit, up to this one, is other people's."""
        if self.has_sandbox_push or not _COMMIT_ID.fullmatch(commit):
            return False
        below = [(since, commit), (commit, f"refs/heads/{branch}")]
        checked = [await self._run_git("merge-base", "--is-ancestor", *pair) for pair in below]
        return all(done.exit_code == 0 for done in checked)

    async def refresh(self) -> None:
        """Fetch all branches and tags as they are now on the remote.

        Raises:
            GitError: it cannot be reached.
        """
        done = await self._run_git(
            *("fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", self._address.url),
            *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
        )
        if done.exit_code != 0:
            raise self._build_error("fetch_failed", f"`{self._address.url}` cannot be fetched", done)

    async def fetch_reference(self, reference: str) -> str:
        """Fetch any reference as it is now on the remote, such as a pull request's, and return its commit.

        Raises:
            GitError: it cannot be reached.
        """
        done = await self._run_git(
            "fetch", "--quiet", "--no-tags", self._address.url, f"+{reference}:refs/kakite/asked"
        )
        if done.exit_code != 0:
            raise self._build_error("fetch_failed", f"`{reference}` cannot be fetched", done)
        return (await self._run_git_or_raise("rev-parse", "refs/kakite/asked")).stdout.decode().strip()

    async def fetch(self, branch: str) -> str:
        """Fetch the branch as it is now on the remote and return its commit.

        Raises:
            GitError: it cannot be reached.
        """
        done = await self._run_git(
            "fetch", "--quiet", "--no-tags", self._address.url, f"+refs/heads/{branch}:{_THEIRS_REF}"
        )
        if done.exit_code != 0:
            raise self._build_error(
                "fetch_failed", f"`{branch}` cannot be fetched from `{self._address.url}`", done
            )
        return await self.get_theirs()

    async def get_theirs(self) -> str:
        """Return the commit that ``fetch`` found last."""
        return (await self._run_git_or_raise("rev-parse", _THEIRS_REF)).stdout.decode().strip()

    async def find_merge_base(self, one: str, other: str) -> str:
        """Return the last commit that both stand on; the other one where there is none."""
        done = await self._run_git("merge-base", one, other)
        return done.stdout.decode().strip() if done.exit_code == 0 else other

    async def _run_git_or_raise(
        self, *arguments: str, more: Mapping[str, str] | None = None
    ) -> CompletedProcess:
        done = await self._run_git(*arguments, more=more)
        if done.exit_code != 0:
            raise self._build_error("git_failed", f"`git {arguments[0]}` failed", done)
        return done

    async def _run_git(
        self, *arguments: str, bare: bool = True, more: Mapping[str, str] | None = None
    ) -> CompletedProcess:
        done = await self._run_git_once(*arguments, bare=bare, more=more)
        if await remove_stale_locks(self._address.url, done):
            done = await self._run_git_once(*arguments, bare=bare, more=more)
        if done.exit_code == 0 or self._fresh is None or _AUTH_FAILED not in done.stderr:
            return done
        try:
            self.renew(await self._fresh())
        except KakiteError:
            return done  # what git said of it tells more
        return await self._run_git_once(*arguments, bare=bare, more=more)

    async def _run_git_once(
        self, *arguments: str, bare: bool = True, more: Mapping[str, str] | None = None
    ) -> CompletedProcess:
        launch = self._build_git_spec(*arguments, bare=bare, more=more)
        try:
            return await run(launch, timeout=GIT_TIMEOUT, limit=_MAX_OUTPUT_BYTES)
        except ProcessError as error:
            if error.code != "program_missing":
                raise
            raise build_git_missing_error() from error

    def _build_git_spec(
        self, *arguments: str, bare: bool = True, more: Mapping[str, str] | None = None
    ) -> ProcessSpec:
        place: Sequence[str] = ("--git-dir", str(self.folder)) if bare else ()
        settings = [part for each in _SETTINGS for part in ("-c", each)]
        argv = ("git", *settings, *place, *arguments)
        return ProcessSpec(argv=argv, env={**self._environment, **(more or {})}, cwd=str(self.folder.parent))

    def _build_error(self, code: str, message: str, done: CompletedProcess) -> GitError:
        return GitError(f"{message}: {self._format_reason(done)}", hint=_HINTS.get(code, ""), code=code)

    def _format_reason(self, done: CompletedProcess) -> str:
        if done.timed_out:
            return f"it took longer than {GIT_TIMEOUT:.0f} s"
        said = done.stderr.decode(errors="replace").strip().splitlines()
        told = [line for line in said if line.startswith(("remote:", "fatal:", "error:"))] or said[-1:]
        reason = self._redact("; ".join(line.strip() for line in told))  # before it is cut: a half is none
        return reason[:_MAX_REASON_CHARS] or f"exit code {done.exit_code}"

    def _redact(self, text: str) -> str:
        """Return the text without credentials: ours, and those in addresses of the person's own settings."""
        text = re.sub(r"(?<=://)\S+", lambda found: redact_url(found[0]), text)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    @property
    def _secrets(self) -> tuple[str, ...]:
        password = self._environment.get("KAKITE_GIT_PASSWORD", "")
        # Without a password the user's name is the token: https://TOKEN@host.
        secret = password or self._environment.get("KAKITE_GIT_USERNAME", "")
        return tuple({secret, quote(secret, safe="")} - {"", "git"})


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LINE_CHARS else f"{text[:_MAX_LINE_CHARS]}…"


def _check_checkpoint_ref(reference: str) -> None:
    """Never move a branch or a tag by force."""
    if not re.fullmatch(r"refs/kakite/[\w./-]+", reference):
        raise GitError(f"`{reference}` is not one of Kakite's references")


_COMMIT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_AUTH_FAILED = b"Authentication failed"  # git's own words; it speaks English to us
_THEIRS_REF = "refs/kakite/theirs"
_SANDBOX_PUSH_MARKER = "kakite-pushed"
_REJECTED = (
    r"\[rejected\] \((fetch first|non-fast-forward)\)"
    # Two pushes met: what the other one wrote is seen after the next fetch.
    r"|\[remote rejected\] .*\((cannot lock ref|incorrect old value|failed to update ref)"
)

_MAX_LINE_CHARS = 300  # of a commit's subject
_MAX_COMMITS = 1_000  # that are listed
_ANSWERED = re.compile(rb"^!\t.*\[(?:remote )?rejected\]", re.MULTILINE)  # by git's --porcelain

# No program of the repository's runs at our git, and none stays behind to tidy up.
_SETTINGS = ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false")

MAX_PUSH_BYTES = 1 << 30
"""Bytes that a sandbox may send at once."""
BIG_FILE_THRESHOLD = 16 << 20
"""Bytes from which on git does not take a file into memory to look for a delta."""
_MAX_MEMORY = (
    2 << 30
)  # bytes that a program may use for what a sandbox sent: a small pack can hold large files


def limit_memory(launch: ProcessSpec) -> ProcessSpec:
    """Return the same program with a limit to its memory, where none is that is lower."""
    limited = ("sh", "-c", f'ulimit -d {_MAX_MEMORY >> 10} 2>&-; exec "$@"', "sh", *launch.argv)
    return ProcessSpec(argv=limited, env=launch.env, cwd=launch.cwd)


_MAX_REASON_CHARS = 600  # characters of what git said
_MAX_OUTPUT_BYTES = 64 << 20  # bytes; a list of all branches, at most

_HINTS = {
    "clone_failed": "check the address, and that `git clone` works for you in this terminal",
    "push_failed": "the work is kept; once you may push, go on with `kakite agent resume`",
    "fetch_failed": "the work is kept; go on with `kakite agent resume`",
}


def build_git_missing_error() -> GitError:
    """Return that there is no git."""
    return GitError("git is not installed", hint="apt install git", code="git_missing")


CHUNK_SIZE = 64 * 1024  # bytes


async def pipe_processes(source: ProcessSpec, sink: ProcessSpec, *, stdin: bytes, timeout: float) -> None:  # noqa: ASYNC109 - running into it is an error of ours
    """Run both programs to their ends, the one's output being the other's input.

    ``stdin`` is for the source, and no more than a pipe takes at once.

    Raises:
        GitError: one of them failed, or it took longer than ``timeout`` seconds.
    """
    try:
        async with asyncio.timeout(timeout), AsyncExitStack() as stack:
            giver = await start(source, limit=CHUNK_SIZE)
            stack.push_async_callback(giver.stop)
            taker = await start(sink, limit=CHUNK_SIZE)
            stack.push_async_callback(taker.stop)
            giver.stdin.write(stdin)
            giver.stdin.close()
            whole = await copy_stream(giver.stdout, taker.stdin)
            taker.stdin.close()
            while await taker.stdout.read(CHUNK_SIZE):
                pass
            await taker.wait()
            if whole:
                await giver.wait()  # else nobody reads what it writes: it would never end
            said = (whole and _get_error_line(giver)) or _get_error_line(taker)
    except TimeoutError as error:
        raise GitError(f"commits did not come across within {timeout:.0f} s") from error
    if said or not whole:
        raise GitError(f"commits did not come across: {said or 'not all of them were taken'}")


async def copy_stream(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bool:
    """Copy to the end of the source, or until nobody takes it, then False; no faster than it is taken."""
    with suppress(ConnectionError):
        while data := await source.read(CHUNK_SIZE):
            sink.write(data)
            await sink.drain()
        return True
    return False


def _get_error_line(child: ManagedProcess) -> str:
    if not child.returncode:
        return ""
    lines = child.get_stderr_tail().strip().splitlines()
    return lines[-1] if lines else f"exit code {child.returncode}"
