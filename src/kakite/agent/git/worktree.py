"""The work tree in the sandbox: clone, diff, commit, rebase. Git runs with the sandbox's rights.

It has no credentials. The author of commits comes from the person's git settings.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kakite.agent.git.mirror import (
    INSPECTED_REF,
    OUTGOING_REF,
    GitError,
    Mirror,
    PackedHistory,
    build_git_missing_error,
    pipe_processes,
)
from kakite.agent.run.state import Conflict, ConflictKind
from kakite.processes import CompletedProcess, ProcessSpec
from kakite.sandbox import Sandbox
from kakite.sandbox.inside import git_remote


def read_commit_author(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and e-mail address that git would put on the person's own commits."""
    name, email = _read_git_config("user.name", environ), _read_git_config("user.email", environ)
    return name or "Kakite", email or "kakite@localhost"


def _read_git_config(name: str, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            ["git", "config", "--global", name],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise build_git_missing_error() from error
    return done.stdout.decode(errors="replace").strip()


TIMEOUT = 600.0  # s, for one git command in the sandbox
ORIGIN_SERVICE = "git"
"""The name of the service that ``origin`` is reached by."""
_HELPER_PATH = ".git/kakite-remote.py"
_MAX_DATA_BYTES = 64 << 20  # bytes of a file or a list of files: data, not output to look at
MAX_FINDINGS = 50
"""Lines that are named of those that look wrong."""
_MAX_EXCERPT_CHARS = 200  # characters of such a line
_MAX_ERROR_BYTES = 4096  # bytes of what git says to a failure
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.editor=true", "core.autocrlf=false", "core.safecrlf=false"),
    *("commit.gpgSign=false", "core.ignoreStat=false", "core.sparseCheckout=false", "core.fsmonitor=false"),
)
"""What counts whatever the repository's settings say: the model can write those."""
_GIT = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))
BACKUP_REF = "refs/kakite/backup"
THEIRS_REF = "refs/kakite/theirs"
READY_REF = "refs/kakite/ready"

# With an index of its own: what the model has staged stays as it is. Dated like what it stands on, so that
# nothing but the files makes a difference.
_SNAPSHOT_SCRIPT = """\
export GIT_INDEX_FILE=.git/kakite-index
onto=$1
attributes=$2
shift 2
rm -rf .git/kakite-index.lock; test -d .git/info || rm -rf .git/info
mkdir -p .git/info && rm -rf .git/info/attributes && printf %s "$attributes" > .git/info/attributes || exit
head=$("$@" rev-parse --verify "$onto^{commit}") && "$@" add --all -- . && tree=$("$@" write-tree) || exit
kept=$head
if test "$tree" != "$("$@" rev-parse "$head^{tree}")"; then
  GIT_AUTHOR_DATE=$("$@" log -1 --format=@%ct "$head") || exit
  export GIT_AUTHOR_DATE GIT_COMMITTER_DATE="$GIT_AUTHOR_DATE"
  kept=$("$@" commit-tree "$tree" -p "$head" -m "Work in progress") || exit
fi
echo "$head $kept"
"""

# What git that was killed leaves locked. Not of objects, whose folders are many: those lock nothing we do.
_WRITE_SCRIPT = 'test -d "${1%/*}" || rm -rf "${1%/*}"; mkdir -p "${1%/*}" && rm -rf "$1" && cat > "$1"'
_UNLOCK_SCRIPT = """\
test -d .git || exit 0
find .git -path .git/objects -prune -o -name '*.lock' -prune -exec rm -rf {} +
"""

# Its references and index as well as its settings: git refuses all where one of them is damaged, and waits
# for ever at a pipe in its place.
_READY_SCRIPT = """\
find .git -path .git/objects -prune -o ! -type d ! -type f ! -type l -exec rm -f {} + 2> /dev/null
test -d .git && test ! -L .git &&
"$@" rev-parse --verify --quiet refs/kakite/ready && "$@" ls-files --stage > /dev/null
"""

# What git obeys, and would refuse to begin with if it is damaged. References and objects stay.
_FORGET_SCRIPT = """\
test -d .git && test ! -L .git || rm -rf .git
for each in config config.worktree index info HEAD commondir gitdir; do rm -rf ".git/$each"; done
"""

# What programs leave behind, and no repository wants: for repositories that do not say so themselves.
EXCLUDE_PATTERNS = "__pycache__/\n*.pyc\n.pytest_cache/\nnode_modules/\n.DS_Store\n.*.kakite\n"

# Files are what the repository holds, byte for byte: no line ends, encodings or filters are turned on the
# way, which would rewrite files that nobody edited.
BINARY_ATTRIBUTES = "* -text -ident -filter !working-tree-encoding\n"

# Gaps are bounded: on a line of a minified file an open one takes minutes. What follows the dots at once is
# JavaScript's spread, unless it goes on like a sentence.
_OMITTED = r"(rest|remaining|existing|previous|other)\b.{0,60}\b(code|file|lines?|implementation|unchanged)"
_PLACEHOLDER = re.compile(
    rf"(\.\.\.(\s{{1,20}}|(?=\w+ \w))|…\s{{0,20}})(the )?{_OMITTED}"
    r"|\b(rest of (the )?(code|file|implementation)|existing code|code unchanged)\b.{0,60}(\.\.\.|…)",
    re.IGNORECASE,
)
_CONFLICT_MARKER = re.compile(r"(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSnapshot:
    """The files of a work tree, kept as a commit."""

    head: str
    """The commit that is checked out."""
    commit: str
    """One with all files, on top of that; the same one if they differ in nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedFile:
    """A file as git keeps it."""

    mode: str
    """``100644``, ``100755``, or ``120000``: a link, whose blob is where it leads."""
    blob: str
    path: str


class Worktree:
    """A work tree in a sandbox, with one branch of our own."""

    def __init__(self, sandbox: Sandbox, *, branch: str, author: tuple[str, str]) -> None:
        self._sandbox = sandbox
        self._branch = branch
        # Never a repository that the project's folder happens to lie in, nor files that settings name.
        where = {"GIT_DIR": ".git", "GIT_WORK_TREE": "."}
        # Nor the settings of a home that commands can write.
        alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        self._environment = {**_build_identity_env(*author), **where, **alone}

    async def is_ready(self) -> bool:
        """Return whether the work tree was made and is still a repository that git takes."""
        script = ("sh", "-c", _READY_SCRIPT, "sh", *_GIT)
        done = await self._sandbox.exec(script, timeout=TIMEOUT, env=self._environment)
        return done.exit_code == 0

    async def unlock(self) -> None:
        """Remove the locks of git that died with a sandbox before this one: while nothing runs in this."""
        await self._sandbox.exec(("sh", "-c", _UNLOCK_SCRIPT), timeout=TIMEOUT)

    async def create(self, history: PackedHistory, *, holds: str = "") -> None:
        """Make the work tree at the commit that the history is about.

        ``holds`` is the commit whose files lie there already, besides what git ignores: those that are the
        same stay as they are, with their times.
        """
        await self._init_repository(history)
        if holds:
            await self._run_git_or_raise("read-tree", holds)
            await self._run_git("update-index", "-q", "--refresh")
        await self._run_git_or_raise(
            "checkout", "--quiet", "--force", "--no-track", "-B", self._branch, history.commit
        )
        await self._run_git_or_raise("update-ref", READY_REF, history.commit)

    async def restore(self, history: PackedHistory) -> None:
        """Make a repository of a work tree that has lost its own, without touching a file of it."""
        await self._sandbox.exec(("sh", "-c", _FORGET_SCRIPT), timeout=TIMEOUT)
        try:
            await self._restore(history)
        except GitError:  # what else is in it may be damaged too
            await self.discard_repository()
            await self._restore(history)

    async def _restore(self, history: PackedHistory) -> None:
        await self._init_repository(history)
        await self._run_git_or_raise("update-ref", f"refs/heads/{self._branch}", history.commit)
        await self._run_git_or_raise("symbolic-ref", "HEAD", f"refs/heads/{self._branch}")
        await self._run_git_or_raise("read-tree", history.commit)
        await self._run_git_or_raise("update-ref", READY_REF, history.commit)

    async def discard_repository(self) -> None:
        """Remove the repository, for ``restore``: of what the model has done, the files stay."""
        await self._sandbox.exec(("rm", "-rf", ".git"), timeout=TIMEOUT)

    async def recreate(self, history: PackedHistory, head: str) -> None:
        """Make the work tree with the files of the commit that the history is about, ``head`` checked out."""
        await self._init_repository(history)
        await self._run_git_or_raise("checkout", "--quiet", "--force", "--no-track", "-B", self._branch, head)
        await self._run_git_or_raise("read-tree", "--reset", "-u", history.commit)
        await self._run_git_or_raise("read-tree", head)
        await self._run_git_or_raise("update-ref", READY_REF, head)

    async def restore_files(self, history: PackedHistory) -> None:
        """Put each tracked file back as the commit has it, whatever was done to it or to the repository.

        Other files stay, and what git is told to ignore is ignored.
        """
        script = "test -f .git/info/exclude && head -c 1000000 .git/info/exclude; rm -rf .git"
        ignored = (await self._sandbox.exec(("sh", "-c", script), timeout=TIMEOUT)).stdout
        await self._init_repository(history)
        if ignored:
            await self._write(".git/info/exclude", ignored)
        await self._run_git_or_raise("update-ref", f"refs/heads/{self._branch}", history.commit)
        await self._run_git_or_raise("symbolic-ref", "HEAD", f"refs/heads/{self._branch}")
        await self._run_git_or_raise("read-tree", history.commit)
        await self._run_git_or_raise("checkout-index", "--all", "--force", "--index", "--quiet")

    async def snapshot(self, onto: str = "HEAD") -> TreeSnapshot:
        """Keep every file that is not ignored in a commit on top of this one; nothing moves.

        The same files on the same commit are the same snapshot.

        Raises:
            GitError: there is no repository any more, or git cannot take a file.
        """
        script = ("sh", "-c", _SNAPSHOT_SCRIPT, "sh", onto, BINARY_ATTRIBUTES, *_GIT)
        done = await self._sandbox.exec(script, timeout=TIMEOUT, env=self._environment)
        names = done.stdout.decode(errors="replace").split()
        if done.exit_code != 0 or len(names) != 2:
            raise _build_git_error("commit-tree", done)
        return TreeSnapshot(head=names[0], commit=names[1])

    async def send_files(self, base: str, mirror: Mirror) -> str:
        """Let the mirror have every file that is not ignored, as a commit on the base, and return that.

        Raises:
            GitError: git cannot take a file, or there are too many.
        """
        commit = (await self.snapshot(base)).commit
        await self.send_commit(commit, base, mirror, INSPECTED_REF)
        return commit

    async def list_tracked_files(self, *patterns: str) -> tuple[TrackedFile, ...]:
        """Return the tracked files that one of git's patterns fits, in order of their paths.

        Without those whose names are no text of one line.
        """
        listed = await self._read_git_output("ls-files", "--stage", "-z", "--", *patterns)
        entries = [entry.partition("\t") for entry in listed.decode(errors="ignore").split("\0") if entry]
        fields = [(*head.split(), path) for head, _, path in entries if path.isprintable()]
        return tuple(TrackedFile(mode=mode, blob=blob, path=path) for mode, blob, _, path in fields)

    async def list_changed_files(self, base: str) -> tuple[str, ...]:
        """Return the paths of the files that differ from the base, new ones too."""
        await self._run_git_or_raise("add", "--all", "--intent-to-add", "--", ".")
        names = await self._read_git_output(
            "diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv", base, "--"
        )
        return tuple(filter(str.isprintable, filter(None, names.decode(errors="replace").split("\0"))))

    async def read_blob(self, name: str, most: int) -> bytes:
        """Return what a tracked file holds, so many bytes of it at most."""
        argv = ("sh", "-c", 'most=$1; shift; "$@" 2> /dev/null | head -c "$most"', "sh", str(most))
        words = (*argv, *_GIT, "cat-file", "blob", name)
        return (
            await self._sandbox.exec(words, timeout=TIMEOUT, env=self._environment, limit=_MAX_DATA_BYTES)
        ).stdout

    async def commit(self, message: str, base: str) -> str:
        """Commit everything on top of the base and return the branch's last commit.

        To be called when nothing of the model runs: what it has locked is let go.
        """
        await self.unlock()
        await self._write(".git/info/attributes", BINARY_ATTRIBUTES.encode())
        await self._return_to_branch(base)
        await self._run_git_or_raise("add", "--all", "--", ".")
        staged = await self._run_git("diff", "--cached", "--quiet")
        if staged.exit_code != 0:
            await self._run_git_or_raise(
                "commit", "--quiet", "--no-verify", "--file=-", stdin=message.encode()
            )
        return await self.get_head()

    async def get_head(self) -> str:
        """Return the commit that is checked out."""
        return (await self._run_git_or_raise("rev-parse", "HEAD")).stdout.decode().strip()

    async def has_ancestor(self, commit: str) -> bool:
        """Return whether a commit is here and below what is checked out."""
        return (await self._run_git("merge-base", "--is-ancestor", commit, "HEAD")).exit_code == 0

    async def find_upstream_merge_base(self) -> str:
        """Return the last commit of the branch on ``origin`` that ours stand on; empty if there is none."""
        done = await self._run_git("merge-base", "HEAD", f"refs/remotes/origin/{self._branch}")
        return done.stdout.decode(errors="replace").strip() if done.exit_code == 0 else ""

    async def send_head(self, base: str, mirror: Mirror) -> None:
        """Let the mirror have our commits on top of the base; what is checked out is what it would push."""
        await self.send_commit(await self.get_head(), base, mirror, OUTGOING_REF)

    async def send_commit(self, commit: str, base: str, mirror: Mirror, reference: str) -> None:
        """Let the mirror have a commit on top of the base, under a reference of its own."""
        packing = ("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
        wanted = f"{commit}\n^{base}\n".encode()
        await pipe_processes(
            self._build_git_spec(*packing), mirror.build_index_pack_spec(), stdin=wanted, timeout=TIMEOUT
        )
        await mirror.update_ref(commit, reference)

    async def rebase(self, theirs: PackedHistory, base: str) -> tuple[Conflict, ...]:
        """Put our commits, those since the base, on top of theirs; returns the conflicts, if there are any.

        Our commits before are kept under ``refs/kakite/backup``.
        """
        await self._run_git_or_raise("update-ref", BACKUP_REF, "HEAD")
        await self._index_pack(theirs)
        await self._run_git_or_raise("update-ref", THEIRS_REF, theirs.commit)
        await self._run_git_or_raise("update-ref", f"refs/remotes/origin/{self._branch}", theirs.commit)
        return await self._rebase(base)

    async def _rebase(self, base: str) -> tuple[Conflict, ...]:
        kept = await self._run_git("merge-base", "--is-ancestor", base, THEIRS_REF)
        # Where they took commits back, those are below our base, and must not come along.
        above = (THEIRS_REF,) if kept.exit_code == 0 else ("--onto", THEIRS_REF, base)
        return await self._check_rebase(await self._run_git("rebase", "--quiet", *above))

    async def continue_rebase(self, conflicts: Sequence[Conflict], base: str) -> tuple[Conflict, ...]:
        """Go on once these conflicts are resolved; returns the conflicts that are (still) there."""
        if not await self._is_rebasing():  # the model went on, or gave up, by itself
            on_theirs = await self._run_git("merge-base", "--is-ancestor", THEIRS_REF, "HEAD")
            if on_theirs.exit_code == 0:
                return ()
            return await self._rebase(base)
        unmerged = {conflict.path: conflict for conflict in await self._list_conflicts()}
        unresolved = [
            found for found in conflicts if await self._is_unresolved(found, unmerged.get(found.path))
        ]
        if unresolved:
            return tuple(unresolved)
        await self._run_git_or_raise("add", "--all", "--", ".")
        done = await self._run_git("rebase", "--continue")
        if b"git rebase --skip" in done.stdout + done.stderr:
            done = await self._run_git("rebase", "--skip")  # theirs holds all of this commit
        return await self._check_rebase(done)

    async def abort_rebase(self) -> None:
        """Return to the branch as it was before a rebase that stopped half way; else do nothing."""
        if await self._is_rebasing():
            await self._run_git_or_raise("rebase", "--abort")

    async def _init_repository(self, history: PackedHistory) -> None:
        object_format = f"--object-format={history.object_format}"
        await self._run_git_or_raise("init", "--quiet", f"--initial-branch={self._branch}", object_format)
        await self._write(".git/info/exclude", EXCLUDE_PATTERNS.encode())
        await self._write(".git/info/attributes", BINARY_ATTRIBUTES.encode())
        await self.configure_origin()
        await self._index_pack(history)
        moves = "".join(f"update {name} {commit}\n" for name, commit in history.references.items())
        await self._run_git_or_raise("update-ref", "--stdin", stdin=moves.encode())

    async def configure_origin(self) -> None:
        """Make ``origin`` what the host serves; the branch's own upstream is there. Safe to repeat."""
        await self._write(_HELPER_PATH, _read_helper_script())
        # Git looks for its helpers among its aliases too: those are found whatever PATH holds.
        helper = (
            self._sandbox.kakite[0],
            "-I",
            "-S",
            str(PurePosixPath(self._sandbox.project, _HELPER_PATH)),
        )
        words = shlex.join((*helper, str(PurePosixPath(self._sandbox.services, ORIGIN_SERVICE))))
        settings = (
            *("alias.remote-kakite", f"!exec {words}"),
            *("remote.origin.url", "kakite::origin"),
            *("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            *(f"branch.{self._branch}.remote", "origin"),
            *(f"branch.{self._branch}.merge", f"refs/heads/{self._branch}"),
        )
        each = 'while test $# -gt 0; do git config --replace-all "$1" "$2" || exit; shift 2; done'
        script = ("sh", "-c", each, "sh", *settings)
        done = await self._sandbox.exec(script, timeout=TIMEOUT, env=self._environment)
        if done.exit_code != 0:
            raise _build_git_error("config", done)

    async def _return_to_branch(self, base: str) -> None:
        """Leave whatever the model began (a rebase, a merge, another branch), keeping every file as it is."""
        for command in ("rebase", "merge", "cherry-pick", "revert", "am"):
            await self._run_git(command, "--quit")
        head = await self._run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        commit = head.stdout.decode().strip() or base
        descends = await self._run_git("merge-base", "--is-ancestor", base, commit)
        if descends.exit_code != 0:
            commit = base  # history was rewritten: the files count, on top of what is there
        await self._run_git_or_raise("update-ref", f"refs/heads/{self._branch}", commit)
        await self._run_git_or_raise("symbolic-ref", "HEAD", f"refs/heads/{self._branch}")

    async def _list_conflicts(self) -> tuple[Conflict, ...]:
        listed = await self._read_git_output("ls-files", "--unmerged", "-z")
        stages: dict[bytes, set[bytes]] = {}
        for entry in listed.split(b"\0"):
            head, _, name = entry.partition(b"\t")
            if name:
                stages.setdefault(name, set()).add(head.split()[2])
        return tuple([await self._build_conflict(name, found) for name, found in stages.items()])

    async def _build_conflict(self, name: bytes, stages: set[bytes]) -> Conflict:
        path = os.fsdecode(name)
        kind: ConflictKind = "text" if await self._has_conflict_markers(path) else "other"
        if b"2" not in stages:
            kind = "they_deleted"
        elif b"3" not in stages:
            kind = "we_deleted"
        # Shown and stored, so it must be text; what is not UTF-8 in it is spelt out.
        return Conflict(
            path=name.decode(errors="backslashreplace"), kind=kind, was=await self._hash_file(path)
        )

    async def _is_unresolved(self, told: Conflict, unmerged: Conflict | None) -> bool:
        if told.kind == "text":
            return await self._has_conflict_markers(told.path)
        return unmerged is not None and unmerged.was == told.was

    async def _hash_file(self, path: str) -> str:
        done = await self._run_git("hash-object", "--no-filters", "--", path)
        return done.stdout.decode().strip() if done.exit_code == 0 else ""

    async def _is_rebasing(self) -> bool:
        done = await self._sandbox.exec(
            ("sh", "-c", "test -d .git/rebase-merge || test -d .git/rebase-apply"), timeout=TIMEOUT
        )
        return done.exit_code == 0

    async def _check_rebase(self, done: CompletedProcess) -> tuple[Conflict, ...]:
        conflicts = await self._list_conflicts()
        if not conflicts and (done.exit_code != 0 or await self._is_rebasing()):
            raise _build_git_error("rebase", done)
        return conflicts

    async def _has_conflict_markers(self, path: str) -> bool:
        markers = r"^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)"
        done = await self._run_git(
            "grep", "--no-index", "--quiet", "-a", "-E", markers, "--", f":(literal){path}"
        )
        return done.exit_code == 0

    async def _index_pack(self, history: PackedHistory) -> None:
        sink = self._build_git_spec("index-pack", "--stdin", "--fix-thin")
        await pipe_processes(history.pack, sink, stdin=history.wanted, timeout=TIMEOUT)

    async def _write(self, path: str, data: bytes) -> None:
        # Through a program of the sandbox: a link planted there leads nowhere that it could not write itself.
        done = await self._sandbox.exec(("sh", "-c", _WRITE_SCRIPT, "sh", path), stdin=data, timeout=TIMEOUT)
        if done.exit_code != 0:
            raise _build_git_error("write", done)

    async def _run_git_or_raise(self, *arguments: str, stdin: bytes = b"") -> CompletedProcess:
        done = await self._run_git(*arguments, stdin=stdin)
        if done.exit_code != 0:
            raise _build_git_error(arguments[0], done)
        return done

    async def _read_git_output(self, *arguments: str) -> bytes:
        """Return all that git prints, which may be much, and nothing of what is said beside it."""
        argv = ("sh", "-c", 'exec "$@" 2> /dev/null', "sh", *_GIT, *arguments)
        done = await self._sandbox.exec(argv, timeout=TIMEOUT, env=self._environment, limit=_MAX_DATA_BYTES)
        if done.exit_code != 0:
            await self._run_git_or_raise(*arguments)  # says why
            raise _build_git_error(arguments[0], done)
        if done.stdout_dropped:  # a part must not be taken for the whole
            raise GitError(
                f"`git {arguments[0]}` in the sandbox printed more than {_MAX_DATA_BYTES >> 20} MiB"
            )
        return done.stdout

    async def _run_git(self, *arguments: str, stdin: bytes = b"") -> CompletedProcess:
        # What git starts for a repository's settings can print as much as it likes: little of it is kept.
        return await self._sandbox.exec(
            (*_GIT, *arguments), stdin=stdin, timeout=TIMEOUT, env=self._environment
        )

    def _build_git_spec(self, *arguments: str) -> ProcessSpec:
        return self._sandbox.build_process_spec((*_GIT, *arguments), env=self._environment)


def _read_helper_script() -> bytes:
    return Path(git_remote.__file__).read_bytes()


def lint_diff(diff: str) -> tuple[str, ...]:
    """Return what is plainly wrong with added lines: markers, placeholders, nested repositories.

    So many findings at most, each with so much of its line as a person would read.
    """
    found: list[str] = []
    more = 0
    path = before = ""
    for line in diff.split("\n"):  # a form feed, or whatever else ends a line elsewhere, is part of it
        if line.startswith("+++ ") and before.startswith("--- "):
            path = line[4:].removeprefix("b/")
        elif line.startswith("+") and (what := _lint_line(line[1:])):
            more += len(found) >= MAX_FINDINGS
            found += [f"`{path}` {what}"] if not more else []
        before = line
    return (*found, f"and {more:,} more like these") if more else tuple(found)


def _lint_line(line: str) -> str:
    if _CONFLICT_MARKER.match(line):
        return f"has a conflict marker: {_excerpt_line(line, 0)}"
    if placeholder := _PLACEHOLDER.search(line):
        return f"has a placeholder instead of code: {_excerpt_line(line, placeholder.start())}"
    if re.fullmatch(r"Subproject commit [0-9a-f]+(-dirty)?", line):
        return f"is a repository inside the repository: {_excerpt_line(line, 0)}"
    return ""


def _excerpt_line(line: str, at: int) -> str:
    """Return a line as far as it is shown: where it is long, what stands there."""
    begin = max(0, at - _MAX_EXCERPT_CHARS // 4) if len(line) > _MAX_EXCERPT_CHARS else 0
    part = line[begin : begin + _MAX_EXCERPT_CHARS].strip()
    return f"`{'…' * (begin > 0)}{part}{'…' * (len(line) > begin + _MAX_EXCERPT_CHARS)}`"


def _build_identity_env(name: str, email: str) -> dict[str, str]:
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",  # what a commit holds, not what the repository shows in its place
    }


def _build_git_error(what: str, done: CompletedProcess) -> GitError:
    said = (done.stderr or done.stdout)[-_MAX_ERROR_BYTES:].decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"exit code {done.exit_code}"
    limit = f" at its limit of {done.limit}" if done.limit else ""
    return GitError(f"`git {what}` failed in the sandbox{limit}: {reason}")
