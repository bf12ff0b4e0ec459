"""The repository inside the sandbox. Git runs there, with the sandbox's rights and no credentials."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kakite.agent.remote import GitError
from kakite.processes import Completed
from kakite.sandbox import Sandbox

TIMEOUT = 600.0  # s, for one git command in the sandbox
_NO_LIMIT = 1 << 62
BACKUP = "refs/kakite/backup"
THEIRS = "refs/kakite/theirs"

# What programs leave behind, and no repository wants: for repositories that do not say so themselves.
_IGNORED = "__pycache__/\n*.pyc\n.pytest_cache/\nnode_modules/\n.DS_Store\n"

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
        self._identity = _identity(*author)

    async def create(self, bundle: bytes, base: str) -> None:
        """Make the work tree at the base commit. Does nothing where it was made before."""
        present = await self._git("rev-parse", "--verify", "--quiet", "refs/kakite/ready")
        if present.exit_code == 0:
            return
        await self._checked("init", "--quiet", f"--initial-branch={self._branch}")
        await self._write(".git/info/exclude", _IGNORED.encode())
        await self._take(bundle, "refs/kakite/base")
        await self._checked("checkout", "--quiet", "--force", "-B", self._branch, base)
        await self._checked("update-ref", "refs/kakite/ready", base)

    async def diff(self, base: str) -> str:
        """Return what differs from the base, new files too, as a unified diff."""
        await self._checked("add", "--all", "--intent-to-add", "--", ".")
        done = await self._checked("diff", "--no-color", "--no-ext-diff", "--no-textconv", base, "--")
        return done.stdout.decode(errors="replace")

    async def commit(self, message: str) -> str:
        """Commit everything and return the branch's last commit."""
        await self._checked("checkout", "--quiet", "-B", self._branch)  # wherever the model may have gone
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

    async def rebase(self, bundle: bytes) -> tuple[str, ...]:
        """Put our commits on top of theirs; returns the files in conflict, empty if all went well.

        Our commits before are kept under ``refs/kakite/backup``.
        """
        await self._checked("update-ref", BACKUP, "HEAD")
        await self._take(bundle, THEIRS)
        return await self._settled(await self._git("rebase", "--quiet", THEIRS))

    async def continue_rebase(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Go on once these files are resolved; returns the files (again) in conflict."""
        unresolved = tuple([path for path in paths if await self._marked(path)])
        if unresolved:
            return unresolved
        await self._checked("add", "--all", "--", ".")
        done = await self._git("rebase", "--continue")
        if b"git rebase --skip" in done.stdout + done.stderr:
            done = await self._git("rebase", "--skip")  # theirs holds all of this commit
        return await self._settled(done)

    async def abandon_rebase(self) -> None:
        """Return to the branch as it was before a rebase that stopped half way; else do nothing."""
        if await self._rebasing():
            await self._checked("rebase", "--abort")

    async def _conflicts(self) -> tuple[str, ...]:
        done = await self._checked("diff", "--name-only", "--diff-filter=U", "-z")
        return tuple(name for name in done.stdout.decode(errors="surrogateescape").split("\0") if name)

    async def _rebasing(self) -> bool:
        done = await self._sandbox.exec(
            ("sh", "-c", "test -d .git/rebase-merge || test -d .git/rebase-apply"), timeout=TIMEOUT
        )
        return done.exit_code == 0

    async def _settled(self, done: Completed) -> tuple[str, ...]:
        paths = await self._conflicts()
        if not paths and (done.exit_code != 0 or await self._rebasing()):
            raise _failed("rebase", done)
        return paths

    async def _marked(self, path: str) -> bool:
        done = await self._git("grep", "--no-index", "--quiet", "-E", "^(<<<<<<<|>>>>>>>)( |$)", "--", path)
        return done.exit_code == 0

    async def _take(self, bundle: bytes, reference: str) -> None:
        await self._write(".git/kakite.bundle", bundle)
        await self._checked(
            "fetch", "--quiet", "--no-tags", ".git/kakite.bundle", f"+refs/kakite/base:{reference}"
        )

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
            argv, stdin=stdin, timeout=TIMEOUT, env=self._identity, limit=_NO_LIMIT
        )


def findings_of(diff: str) -> tuple[str, ...]:
    """Return what is plainly wrong with the added lines of a diff: conflict markers, placeholders."""
    found: list[str] = []
    path = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line[4:].removeprefix("b/")
        elif line.startswith("+"):
            if _MARKER.match(line[1:]):
                found.append(f"`{path}` has a conflict marker: `{line[1:].strip()}`")
            elif _PLACEHOLDER.search(line):
                found.append(f"`{path}` has a placeholder instead of code: `{line[1:].strip()}`")
    return tuple(found)


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
