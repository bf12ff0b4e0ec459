"""The repository inside the sandbox. Git runs there, with the sandbox's rights and no credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from kakite.agent.remote import GitError
from kakite.agent.run import Conflict, ConflictKind
from kakite.processes import Completed
from kakite.sandbox import Sandbox

TIMEOUT = 600.0  # s, for one git command in the sandbox
_NO_LIMIT = 1 << 62
BACKUP = "refs/kakite/backup"
THEIRS = "refs/kakite/theirs"
READY = "refs/kakite/ready"

# What programs leave behind, and no repository wants: for repositories that do not say so themselves.
_IGNORED = "__pycache__/\n*.pyc\n.pytest_cache/\nnode_modules/\n.DS_Store\n.*.kakite\n"

# Files are what the repository holds, byte for byte: no line ends, encodings or filters are turned on the
# way, which would rewrite files that nobody edited.
_AS_THEY_ARE = "* -text -ident -filter !working-tree-encoding\n"

_OMITTED = r"(rest|remaining|existing|previous|other)\b.*\b(code|file|lines?|implementation|unchanged)"
_PLACEHOLDER = re.compile(
    rf"(\.\.\.|…)\s*(the )?{_OMITTED}"
    r"|\b(rest of (the )?(code|file|implementation)|existing code|code unchanged)\b.*(\.\.\.|…)",
    re.IGNORECASE,
)
_MARKER = re.compile(r"(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)")


class Checkout:
    """A work tree in a sandbox, with one branch of our own."""

    def __init__(self, sandbox: Sandbox, *, branch: str, author: tuple[str, str]) -> None:
        self._sandbox = sandbox
        self._branch = branch
        above = {str(Path(path).parent) for path in (sandbox.project, os.path.realpath(sandbox.project))}
        # Never a repository that the project's folder happens to lie in.
        self._environment = {**_identity(*author), "GIT_CEILING_DIRECTORIES": ":".join(above)}

    async def ready(self) -> bool:
        """Return whether the work tree was made and is still a repository."""
        return (await self._git("rev-parse", "--verify", "--quiet", READY)).exit_code == 0

    async def create(self, bundle: bytes, base: str, *, object_format: str = "sha1") -> None:
        """Make the work tree at the base commit."""
        await self._repository(bundle, object_format)
        await self._checked("checkout", "--quiet", "--force", "-B", self._branch, base)
        await self._checked("update-ref", READY, base)

    async def restore(self, bundle: bytes, base: str, *, object_format: str = "sha1") -> None:
        """Make a repository of a work tree that has lost its own, without touching a file of it."""
        await self._repository(bundle, object_format)
        await self._checked("update-ref", f"refs/heads/{self._branch}", base)
        await self._checked("symbolic-ref", "HEAD", f"refs/heads/{self._branch}")
        await self._checked("read-tree", base)
        await self._checked("update-ref", READY, base)

    async def diff(self, base: str) -> str:
        """Return what differs from the base, new files too, as a unified diff."""
        await self._checked("add", "--all", "--intent-to-add", "--", ".")
        done = await self._checked("diff", "--no-color", "--no-ext-diff", "--no-textconv", base, "--")
        return done.stdout.decode(errors="replace")

    async def commit(self, message: str, base: str) -> str:
        """Commit everything on top of the base and return the branch's last commit."""
        await self._return_to_branch(base)
        await self._checked("add", "--all", "--", ".")
        staged = await self._git("diff", "--cached", "--quiet")
        if staged.exit_code != 0:
            await self._checked("commit", "--quiet", "--no-verify", "--file=-", stdin=message.encode())
        return await self.head()

    async def head(self) -> str:
        """Return the commit that is checked out."""
        return (await self._checked("rev-parse", "HEAD")).stdout.decode().strip()

    async def bundle(self, base: str) -> bytes:
        """Return our commits on top of the base, as a bundle with HEAD."""
        return (await self._checked("bundle", "create", "--quiet", "-", f"^{base}", "HEAD")).stdout

    async def rebase(self, bundle: bytes) -> tuple[Conflict, ...]:
        """Put our commits on top of theirs; returns the conflicts, none if all went well.

        Our commits before are kept under ``refs/kakite/backup``.
        """
        await self._checked("update-ref", BACKUP, "HEAD")
        await self._take(bundle, THEIRS)
        return await self._settled(await self._git("rebase", "--quiet", THEIRS))

    async def theirs(self) -> str:
        """Return the commit that the last rebase went onto."""
        return (await self._checked("rev-parse", THEIRS)).stdout.decode().strip()

    async def continue_rebase(self, conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
        """Go on once these conflicts are resolved; returns the conflicts that are (still) there."""
        if not await self._rebasing():  # the model went on, or gave up, by itself
            on_theirs = await self._git("merge-base", "--is-ancestor", THEIRS, "HEAD")
            if on_theirs.exit_code == 0:
                return ()
            return await self._settled(await self._git("rebase", "--quiet", THEIRS))
        unmerged = {conflict.path: conflict for conflict in await self._conflicts()}
        unresolved = [found for found in conflicts if await self._unresolved(found, unmerged.get(found.path))]
        if unresolved:
            return tuple(unresolved)
        await self._checked("add", "--all", "--", ".")
        done = await self._git("rebase", "--continue")
        if b"git rebase --skip" in done.stdout + done.stderr:
            done = await self._git("rebase", "--skip")  # theirs holds all of this commit
        return await self._settled(done)

    async def abandon_rebase(self) -> None:
        """Return to the branch as it was before a rebase that stopped half way; else do nothing."""
        if await self._rebasing():
            await self._checked("rebase", "--abort")

    async def _repository(self, bundle: bytes, object_format: str) -> None:
        await self._checked(
            "init", "--quiet", f"--initial-branch={self._branch}", f"--object-format={object_format}"
        )
        await self._write(".git/info/exclude", _IGNORED.encode())
        await self._write(".git/info/attributes", _AS_THEY_ARE.encode())
        await self._take(bundle, "refs/kakite/base")

    async def _return_to_branch(self, base: str) -> None:
        """Leave whatever the model began (a rebase, a merge, another branch), keeping every file as it is."""
        for command in ("rebase", "merge", "cherry-pick", "revert", "am"):
            await self._git(command, "--quit")
        head = await self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        commit = head.stdout.decode().strip() or base
        descends = await self._git("merge-base", "--is-ancestor", base, commit)
        if descends.exit_code != 0:
            commit = base  # history was rewritten: the files count, on top of what is there
        await self._checked("update-ref", f"refs/heads/{self._branch}", commit)
        await self._checked("symbolic-ref", "HEAD", f"refs/heads/{self._branch}")

    async def _conflicts(self) -> tuple[Conflict, ...]:
        listed = (await self._checked("ls-files", "--unmerged", "-z")).stdout
        stages: dict[bytes, set[bytes]] = {}
        for entry in listed.split(b"\0"):
            head, _, name = entry.partition(b"\t")
            if name:
                stages.setdefault(name, set()).add(head.split()[2])
        return tuple([await self._conflict(name, found) for name, found in stages.items()])

    async def _conflict(self, name: bytes, stages: set[bytes]) -> Conflict:
        path = os.fsdecode(name)
        kind: ConflictKind = "text" if await self._marked(path) else "other"
        if b"2" not in stages:
            kind = "they_deleted"
        elif b"3" not in stages:
            kind = "we_deleted"
        # Shown and stored, so it must be text; what is not UTF-8 in it is spelt out.
        return Conflict(path=name.decode(errors="backslashreplace"), kind=kind, was=await self._hash(path))

    async def _unresolved(self, told: Conflict, unmerged: Conflict | None) -> bool:
        if told.kind == "text":
            return await self._marked(told.path)
        return unmerged is not None and unmerged.was == told.was

    async def _hash(self, path: str) -> str:
        done = await self._git("hash-object", "--no-filters", "--", path)
        return done.stdout.decode().strip() if done.exit_code == 0 else ""

    async def _rebasing(self) -> bool:
        done = await self._sandbox.exec(
            ("sh", "-c", "test -d .git/rebase-merge || test -d .git/rebase-apply"), timeout=TIMEOUT
        )
        return done.exit_code == 0

    async def _settled(self, done: Completed) -> tuple[Conflict, ...]:
        conflicts = await self._conflicts()
        if not conflicts and (done.exit_code != 0 or await self._rebasing()):
            raise _failed("rebase", done)
        return conflicts

    async def _marked(self, path: str) -> bool:
        markers = r"^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)"
        done = await self._git(
            "grep", "--no-index", "--quiet", "-a", "-E", markers, "--", f":(literal){path}"
        )
        return done.exit_code == 0

    async def _take(self, bundle: bytes, reference: str) -> None:
        await self._write(".git/kakite.bundle", bundle)
        refspec = f"+refs/kakite/base:{reference}"
        await self._checked("fetch", "--quiet", "--no-tags", ".git/kakite.bundle", refspec)
        await self._sandbox.exec(("rm", "-f", ".git/kakite.bundle"), timeout=TIMEOUT)

    async def _write(self, path: str, data: bytes) -> None:
        # Through a program of the sandbox: a link planted there leads nowhere that it could not write itself.
        done = await self._sandbox.exec(("sh", "-c", 'cat > "$1"', "sh", path), stdin=data, timeout=TIMEOUT)
        if done.exit_code != 0:
            raise _failed("write", done)

    async def _checked(self, *arguments: str, stdin: bytes = b"") -> Completed:
        done = await self._git(*arguments, stdin=stdin)
        if done.exit_code != 0:
            raise _failed(arguments[0], done)
        return done

    async def _git(self, *arguments: str, stdin: bytes = b"") -> Completed:
        argv = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.editor=true", *arguments)
        return await self._sandbox.exec(
            argv, stdin=stdin, timeout=TIMEOUT, env=self._environment, limit=_NO_LIMIT
        )


def findings_of(diff: str) -> tuple[str, ...]:
    """Return what is plainly wrong with added lines: markers, placeholders, nested repositories."""
    found: list[str] = []
    path = before = ""
    for line in diff.splitlines():
        if line.startswith("+++ ") and before.startswith("--- "):
            path = line[4:].removeprefix("b/")
        elif line.startswith("+") and (what := _wrong(line[1:])):
            found.append(f"`{path}` {what}: `{line[1:].strip()}`")
        before = line
    return tuple(found)


def _wrong(line: str) -> str:
    if _MARKER.match(line):
        return "has a conflict marker"
    if _PLACEHOLDER.search(line):
        return "has a placeholder instead of code"
    if re.fullmatch(r"Subproject commit [0-9a-f]+(-dirty)?", line):
        return "is a repository inside of the repository"
    return ""


def _identity(name: str, email: str) -> dict[str, str]:
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
        "GIT_TERMINAL_PROMPT": "0",
    }


def _failed(what: str, done: Completed) -> GitError:
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"exit code {done.exit_code}"
    return GitError(f"`git {what}` failed in the sandbox: {reason}")
