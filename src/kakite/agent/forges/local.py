"""The embedded forge: a folder with a bare repository, and Markdown files for issues and pull requests.

People change the files with their editors while tasks run. Whoever can write the folder has all rights, so
every comment in it is trusted. What a file looks like, docs/forges.md tells.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kakite.agent.address import Address, git_environment
from kakite.agent.forges.folder import SETTLED, Folder, Kind, Leaf
from kakite.agent.forges.forge import (
    ForgeError,
    Issue,
    PullRequest,
    Remark,
    Repository,
    Revision,
    State,
    Trigger,
)
from kakite.agent.forges.names import Names, find_review, find_trigger, state_of, swap_labels
from kakite.agent.forges.page import Page, new_page, with_comment, with_members, with_text, with_value
from kakite.agent.forges.reading import (
    answered_in,
    broken,
    issue_number,
    issue_of,
    labels_of,
    one_line,
    remarks_of,
    request_of,
)
from kakite.processes import Launch, ProcessError, run

REPOSITORY = "repo.git"

_GIT_TIMEOUT = 60.0  # s
_ROUNDS = 5  # of waiting for files that are saved again and again


class LocalForge:
    """A folder as a forge. Other processes, and people, may use it at the same time."""

    name = "local"
    longest = 65_536

    def __init__(
        self,
        folder: Path,
        *,
        account: str = "kakite",
        report: Callable[[ForgeError], None] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Open the folder.

        Args:
            folder: holds ``repo.git``, ``issues`` and ``pulls``.
            account: who signs our comments.
            report: is told of each file that is broken, once as long as it is so; the others go on.
            environ: for git.

        Raises:
            ForgeError: there is no such folder.
        """
        self._folder = Folder(folder)
        self.path = str(self._folder.path)
        self._account = one_line(account)
        self._report = report
        self._reported: set[str] = set()
        self._environ = environ

    def close(self) -> None:
        """Give the folder back."""
        self._folder.close()

    async def check(self) -> None:
        """Make sure that the repository can be used and the files be written; make missing folders.

        Raises:
            ForgeError: they cannot.
        """
        await self.repository()
        await asyncio.to_thread(self._folder.make, "issues")
        await asyncio.to_thread(self._folder.make, "pulls")

    async def repository(self) -> Repository:
        """Return the bare repository.

        Raises:
            ForgeError: it is missing, no bare repository, or empty.
        """
        place = self._folder.path / REPOSITORY
        _require_folder(place)
        bare, told = await self._git(place, "rev-parse", "--is-bare-repository")
        if bare != "true":
            said = f": {told}" if told else ""
            raise ForgeError("forge_not_found", f"`{place}` is no bare repository{said}", hint=_hint(place))
        head, _ = await self._git(place, "symbolic-ref", "--quiet", "--short", "HEAD")
        listed, _ = await self._git(place, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
        branch = _default_branch(head, listed.splitlines(), place)
        return Repository(address=str(place), default_branch=branch, credentials=None)

    async def triggers(self, names: Names) -> Sequence[Trigger]:
        """Return what waits, the oldest first. What is being saved just now is waited for.

        Raises:
            ForgeError: the folder cannot be read. A file that cannot is reported, and left out.
        """
        found, errors = await asyncio.to_thread(self._settled_triggers, names)
        told = {error.message for error in errors}
        for error in errors:
            if self._report is not None and error.message not in self._reported:
                self._report(error)
        self._reported = told
        return found

    async def issue(self, number: int) -> Issue:
        """Return an issue.

        Raises:
            ForgeError: ``forge_not_found``; ``forge_bad_reply`` with the line that is wrong.
        """
        leaf = await asyncio.to_thread(self._folder.one, "issues", number)
        return issue_of(leaf, self._folder.path)

    async def account(self) -> str:
        """Return who signs our comments."""
        return self._account

    async def may_write(self, actor: str) -> bool:  # noqa: ARG002 - nobody is refused
        """Return true: whoever can write the folder has all rights."""
        return True

    async def mark(self, number: int, state: State, names: Names) -> None:
        """Set ``labels``; ``state`` of an issue is for people to change.

        Raises:
            ForgeError: the file cannot be read or changed.
        """

        def edit(page: Page) -> Page:
            return with_members(page, "labels", swap_labels(labels_of(page), state, names))

        await asyncio.to_thread(self._folder.change, "issues", number, edit)

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write a section of an issue's file. What people have written stays, also in and below ours.

        Raises:
            ForgeError: the file cannot be read or changed.
        """
        return await self._commented("issues", number, key, text)

    async def put_remark(self, request: int, key: str, text: str) -> str:
        """Write a section of a pull request's file, like ``put_comment``."""
        return await self._commented("pulls", request, key, text)

    async def put_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Write the file of the open pull request of this branch, or a new one with the next number.

        Raises:
            ForgeError: it cannot be written.
        """
        values = {"issue": str(issue), "branch": branch, "base": base, "title": one_line(title)}
        values["draft"] = "true" if draft else "false"

        def found(leaf: Leaf) -> bool:
            request = _readable(leaf, self._folder.path)
            return request is not None and request.branch == branch and request.state == "open"

        def edit(page: Page | None) -> Page:
            if page is None:
                return new_page({**values, "state": "open"}, text)
            for name, value in values.items():
                page = with_value(page, name, value)
            return with_text(page, text)

        leaf = await asyncio.to_thread(self._folder.put, "pulls", found, edit)
        return request_of(leaf, self._folder.path)

    async def requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch. Files that are broken are left out."""
        leaves, _ = await asyncio.to_thread(self._folder.all, "pulls")
        found = [_readable(leaf, self._folder.path) for leaf in reversed(leaves)]
        return [request for request in found if request is not None and request.branch == branch]

    async def request(self, number: int) -> PullRequest:
        """Return a pull request.

        Raises:
            ForgeError: ``forge_not_found``; ``forge_bad_reply`` with the line that is wrong.
        """
        leaf = await asyncio.to_thread(self._folder.one, "pulls", number)
        return request_of(leaf, self._folder.path)

    async def remarks(self, request: int) -> Sequence[Remark]:
        """Return what people wrote as sections of a pull request's file: all about the whole of it.

        Raises:
            ForgeError: as ``request``.
        """
        return remarks_of(await asyncio.to_thread(self._folder.one, "pulls", request))

    def _settled_triggers(self, names: Names) -> tuple[list[Trigger], list[ForgeError]]:
        waiting, errors = self._waiting(names)
        for _ in range(_ROUNDS):
            if not any(leaf.is_fresh for leaf, _ in waiting):
                break
            time.sleep(SETTLED)  # what an editor writes piece by piece must not be taken up in the middle
            waiting, errors = self._waiting(names)
        return sorted((trigger for _, trigger in waiting), key=lambda each: each.at), errors

    def _waiting(self, names: Names) -> tuple[list[tuple[Leaf, Trigger]], list[ForgeError]]:
        """Return what waits, with the file that says so; and what is wrong with others."""
        leaves, errors = self._folder.all("issues")
        pulls, others = self._folder.all("pulls")
        errors += others
        asked: dict[int, Issue] = {}
        waiting: dict[int, tuple[Leaf, Trigger]] = {}
        for leaf in leaves:
            try:
                asked[leaf.number] = issue = issue_of(leaf, self._folder.path)
            except ForgeError as error:
                errors.append(error)
                continue
            if trigger := _asks(issue, leaf, names):
                waiting[leaf.number] = leaf, trigger
        for leaf in pulls:
            try:
                trigger = self._reviewed(leaf, asked, names)
            except ForgeError as error:
                errors.append(error)
                continue
            if trigger is not None:
                waiting.setdefault(trigger.number, (leaf, trigger))
        return list(waiting.values()), errors

    def _reviewed(self, leaf: Leaf, issues: Mapping[int, Issue], names: Names) -> Trigger | None:
        request = request_of(leaf, self._folder.path)
        number = issue_number(leaf)
        answered = answered_in(leaf)
        if number in issues:
            answered |= issues[number].answered
        trigger = find_review(request, number, remarks_of(leaf), answered=answered)
        if trigger is None:
            return None
        if number not in issues:
            raise broken(leaf, "issue", f"there is no issue {number} that can be read")
        return None if state_of(issues[number].labels, names) == "processing" else trigger

    async def _commented(self, kind: Kind, number: int, key: str, text: str) -> str:
        def edit(page: Page) -> Page:
            return with_comment(page, key, text, author=self._account, at=datetime.now(UTC))

        leaf = await asyncio.to_thread(self._folder.change, kind, number, edit)
        return str(self._folder.path / leaf.path)

    async def _git(self, place: Path, *arguments: str) -> tuple[str, str]:
        """Return what git printed, and what it said about it."""
        environment = git_environment(Address(str(place)), self._environ)
        argv = ("git", "-c", "core.hooksPath=/dev/null", "--git-dir", str(place), *arguments)
        try:
            done = await run(
                Launch(argv=argv, env=environment, cwd=str(self._folder.path)), timeout=_GIT_TIMEOUT
            )
        except ProcessError as error:
            raise ForgeError("forge_unavailable", error.message, hint=error.hint) from error
        output, told = (stream.decode(errors="replace").strip() for stream in (done.stdout, done.stderr))
        return output, told


def _asks(issue: Issue, leaf: Leaf, names: Names) -> Trigger | None:
    # A file does not say who set a label, and when: the newest that it tells of. All who could are trusted.
    latest = max([leaf.changed, *(comment.created for comment in issue.comments)])
    labelled = Revision(actor=issue.author, at=latest, trusted=True)
    trigger = find_trigger(issue, names, labelled=labelled, answered=issue.answered)
    if trigger is None or trigger.kind != "label":
        return trigger
    # The file's time changes with each save; what Kakite has left in it, only when a label was taken up.
    taken = hashlib.sha256("\n".join(issue.ours).encode()).hexdigest()[:12]
    return replace(trigger, asked=taken)


def _readable(leaf: Leaf, root: Path) -> PullRequest | None:
    try:
        return request_of(leaf, root)
    except ForgeError:
        return None


def _require_folder(place: Path) -> None:
    try:
        mode = place.lstat().st_mode
    except OSError as error:
        told = f"`{place}` is missing: {error.strerror}"
        raise ForgeError("forge_not_found", told, hint=_hint(place)) from error
    if not stat.S_ISDIR(mode):
        raise ForgeError("forge_not_found", f"`{place}` is a link or a file, no folder", hint=_hint(place))


def _default_branch(head: str, branches: Sequence[str], place: Path) -> str:
    if head in branches:
        return head
    if not branches:
        hint = f"push a first commit: `git push {place} HEAD:refs/heads/main`"
        raise ForgeError("forge_rejected", f"`{place}` has no commit yet", hint=hint)
    # Made by `git init --bare`, which names a branch that nobody has pushed.
    if len(branches) > 1:
        hint = f"name the one to start from: `git -C {place} symbolic-ref HEAD refs/heads/{branches[0]}`"
        told = f"the default branch of `{place}`, `{head}`, does not exist"
        raise ForgeError("forge_rejected", told, hint=hint)
    return branches[0]


def _hint(place: Path) -> str:
    return f"put a bare repository there: `git clone --bare REPOSITORY {place}`"
