"""The local forge: a folder with a bare repository, and Markdown files for issues and pull requests.

People change the files with their editors while tasks run. Whoever can write the folder has all rights, so
every comment in it is trusted. docs/forges.md describes the files.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

from kakite.agent.forges.base import (
    Comment,
    ForgeError,
    Issue,
    IssueEvent,
    PullRequest,
    Repository,
    Trigger,
)
from kakite.agent.forges.labels import (
    IssueState,
    LabelConfig,
    find_state,
    parse_handled_ids,
    parse_markers,
    swap_labels,
)
from kakite.agent.forges.local.document import (
    IssueDocument,
    collect_own_texts,
    collect_user_comments,
    create_document,
    get_settings,
    get_text,
    parse_time,
    with_comment,
    with_members,
    with_text,
    with_value,
)
from kakite.agent.forges.local.files import SETTLE_TIME, FileKind, ForgeFile, ForgeFolder
from kakite.agent.forges.triggers import find_review, find_trigger
from kakite.agent.front_matter import find_line, split_members
from kakite.agent.git.url import RepoUrl, build_git_environment
from kakite.processes import ProcessError, ProcessSpec, run
from kakite.terminal_text import escape_one_line

UNKNOWN = "unknown"
"""The author of what nobody has signed."""

_YES = frozenset(("true", "yes", "on"))
_RequestState = Literal["open", "merged", "closed"]


def to_issue(leaf: ForgeFile, root: Path) -> Issue:
    """Return the issue that a file holds.

    Raises:
        ForgeError: ``forge_bad_reply``, a setting is missing or makes no sense; the message names the line.
    """
    created = parse_time(_get_setting(leaf, "created")) or leaf.changed
    return Issue(
        number=leaf.number,
        title=_require_setting(leaf, "title"),
        text=get_text(leaf.page),
        author=_get_setting(leaf, "author") or UNKNOWN,
        trusted=True,
        created=created,
        revisions=(),
        labels=frozenset(split_members(leaf.settings.get("labels", []))),
        assignees=frozenset(split_members(leaf.settings.get("assignees", []))),
        open=_require_one_of(leaf, "state", ("open", "closed")) == "open",
        comments=to_comments(leaf, created),
        address=str(root / leaf.path),
        updated=leaf.changed,
        ours=parse_markers(collect_own_texts(leaf.page)),
        answered=find_handled_ids(leaf),
    )


def to_pull_request(leaf: ForgeFile, root: Path) -> PullRequest:
    """Return the pull request that a file holds.

    Raises:
        ForgeError: as ``to_issue``.
    """
    branch = _require_setting(leaf, "branch")
    return PullRequest(
        number=leaf.number,
        branch=branch,
        base=_require_setting(leaf, "base"),
        state=cast("_RequestState", _require_one_of(leaf, "state", ("open", "merged", "closed"))),
        draft=_get_setting(leaf, "draft").lower() in _YES,
        title=_get_setting(leaf, "title") or branch,
        text=get_text(leaf.page),
        address=str(root / leaf.path),
    )


def get_issue_number(leaf: ForgeFile) -> int:
    """Return the number of the issue that a pull request is for.

    Raises:
        ForgeError: as ``to_issue``.
    """
    told = _require_setting(leaf, "issue").removeprefix("#")
    if not re.fullmatch(r"[0-9]{1,9}", told):
        raise make_setting_error(leaf, "issue", "`issue` is a number")
    return int(told)


def to_comments(leaf: ForgeFile, created: datetime) -> tuple[Comment, ...]:
    """Return what people wrote. What has no time stands at the one before it, so that the order stays."""
    comments: list[Comment] = []
    for note in collect_user_comments(leaf.page):
        created = note.created or created
        comments.append(
            Comment(
                id=f"{leaf.path.split('/')[0]}/{leaf.number}/{note.id}",
                author=note.author or UNKNOWN,
                text=note.text,
                created=created,
                edited=None,
                trusted=True,
            )
        )
    return tuple(comments)


def to_review_comments(leaf: ForgeFile) -> tuple[Comment, ...]:
    """Return what people wrote on a pull request, all about the whole of it."""
    answered = find_handled_ids(leaf)
    return tuple(replace(each, answered=each.id in answered) for each in to_comments(leaf, leaf.changed))


def find_handled_ids(leaf: ForgeFile) -> frozenset[str]:
    """Return the ids of what our comments in a file have taken up."""
    return parse_handled_ids(collect_own_texts(leaf.page))


def get_labels(page: IssueDocument) -> list[str]:
    """Return the labels in their order."""
    return split_members(get_settings(page).get("labels", []))


def make_setting_error(leaf: ForgeFile, name: str, message: str) -> ForgeError:
    """Return the error for a setting that is missing or makes no sense."""
    line = find_line(leaf.page.header, name) + 2 if name in leaf.settings else 1
    return ForgeError(
        "forge_bad_reply",
        f"`{escape_one_line(leaf.path)}:{line}`: {message}",
        hint="the settings between the lines `---` at the top say so: mend them",
    )


def to_one_line(title: str) -> str:
    """Return a title that is one line."""
    return " ".join(title.encode("utf-8", "replace").decode("utf-8").split()) or "Untitled"


def _get_setting(leaf: ForgeFile, name: str) -> str:
    value = leaf.settings.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _require_setting(leaf: ForgeFile, name: str) -> str:
    value = _get_setting(leaf, name)
    if not value:
        raise make_setting_error(leaf, name, f"`{name}` is missing, or no text")
    return value


def _require_one_of(leaf: ForgeFile, name: str, known: tuple[str, ...]) -> str:
    value = _get_setting(leaf, name).lower() or known[0]
    if value not in known:
        raise make_setting_error(leaf, name, f"`{name}` is one of {', '.join(known)}")
    return value


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
        self._folder = ForgeFolder(folder)
        self.path = str(self._folder.path)
        self._account = to_one_line(account)
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
        await self.get_repository()
        await asyncio.to_thread(self._folder.create_folder, "issues")
        await asyncio.to_thread(self._folder.create_folder, "pulls")

    async def get_repository(self) -> Repository:
        """Return the bare repository.

        Raises:
            ForgeError: it is missing, no bare repository, or empty.
        """
        place = self._folder.path / REPOSITORY
        _require_folder(place)
        bare, told = await self._run_git(place, "rev-parse", "--is-bare-repository")
        if bare != "true":
            said = f": {told}" if told else ""
            raise ForgeError(
                "forge_not_found", f"`{place}` is not a bare repository{said}", hint=_format_hint(place)
            )
        head, _ = await self._run_git(place, "symbolic-ref", "--quiet", "--short", "HEAD")
        listed, _ = await self._run_git(place, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
        branch = _find_default_branch(head, listed.splitlines(), place)
        return Repository(address=str(place), default_branch=branch, credentials=None)

    async def find_triggers(self, names: LabelConfig) -> Sequence[Trigger]:
        """Return what waits, the oldest first. What is being saved just now is waited for.

        Raises:
            ForgeError: the folder cannot be read. A file that cannot is reported, and left out.
        """
        found, errors = await asyncio.to_thread(self._wait_for_triggers, names)
        told = {error.message for error in errors}
        for error in errors:
            if self._report is not None and error.message not in self._reported:
                self._report(error)
        self._reported = told
        return found

    async def get_issue(self, number: int) -> Issue:
        """Return an issue.

        Raises:
            ForgeError: ``forge_not_found``; ``forge_bad_reply`` with the line that is wrong.
        """
        leaf = await asyncio.to_thread(self._folder.read_one, "issues", number)
        return to_issue(leaf, self._folder.path)

    async def get_account(self) -> str:
        """Return who signs our comments."""
        return self._account

    async def can_write(self, actor: str) -> bool:  # noqa: ARG002 - nobody is refused
        """Return true: whoever can write the folder has all rights."""
        return True

    async def set_state_label(self, number: int, state: IssueState, names: LabelConfig) -> None:
        """Set ``labels``; ``state`` of an issue is for people to change.

        Raises:
            ForgeError: the file cannot be read or changed.
        """

        def edit(page: IssueDocument) -> IssueDocument:
            return with_members(page, "labels", swap_labels(get_labels(page), state, names))

        await asyncio.to_thread(self._folder.change, "issues", number, edit)

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write a section of an issue's file. What people have written stays, also in and below ours.

        Raises:
            ForgeError: the file cannot be read or changed.
        """
        return await self._put_comment("issues", number, key, text)

    async def put_pull_request_comment(self, request: int, key: str, text: str) -> str:
        """Write a section of a pull request's file, like ``put_comment``."""
        return await self._put_comment("pulls", request, key, text)

    async def put_pull_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Write the file of the open pull request of this branch, or a new one with the next number.

        Raises:
            ForgeError: it cannot be written.
        """
        values = {"issue": str(issue), "branch": branch, "base": base, "title": to_one_line(title)}
        values["draft"] = "true" if draft else "false"

        def is_match(leaf: ForgeFile) -> bool:
            request = _parse_or_none(leaf, self._folder.path)
            return request is not None and request.branch == branch and request.state == "open"

        def edit(page: IssueDocument | None) -> IssueDocument:
            if page is None:
                return create_document({**values, "state": "open"}, text)
            for name, value in values.items():
                page = with_value(page, name, value)
            return with_text(page, text)

        leaf = await asyncio.to_thread(self._folder.put, "pulls", is_match, edit)
        return to_pull_request(leaf, self._folder.path)

    async def list_pull_requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch. Files that are broken are left out."""
        leaves, _ = await asyncio.to_thread(self._folder.read_all, "pulls")
        found = [_parse_or_none(leaf, self._folder.path) for leaf in reversed(leaves)]
        return [request for request in found if request is not None and request.branch == branch]

    async def get_pull_request(self, number: int) -> PullRequest:
        """Return a pull request.

        Raises:
            ForgeError: ``forge_not_found``; ``forge_bad_reply`` with the line that is wrong.
        """
        leaf = await asyncio.to_thread(self._folder.read_one, "pulls", number)
        return to_pull_request(leaf, self._folder.path)

    async def list_review_comments(self, request: int) -> Sequence[Comment]:
        """Return what people wrote as sections of a pull request's file: all about the whole of it.

        Raises:
            ForgeError: as ``request``.
        """
        return to_review_comments(await asyncio.to_thread(self._folder.read_one, "pulls", request))

    def _wait_for_triggers(self, names: LabelConfig) -> tuple[list[Trigger], list[ForgeError]]:
        waiting, errors = self._collect_triggers(names)
        for _ in range(_ROUNDS):
            if not any(leaf.is_fresh for leaf, _ in waiting):
                break
            time.sleep(SETTLE_TIME)  # what an editor writes piece by piece must not be taken up in the middle
            waiting, errors = self._collect_triggers(names)
        return sorted((trigger for _, trigger in waiting), key=lambda each: each.at), errors

    def _collect_triggers(
        self, names: LabelConfig
    ) -> tuple[list[tuple[ForgeFile, Trigger]], list[ForgeError]]:
        """Return what waits, with the file that says so; and what is wrong with others."""
        leaves, errors = self._folder.read_all("issues")
        pulls, others = self._folder.read_all("pulls")
        errors += others
        asked: dict[int, Issue] = {}
        waiting: dict[int, tuple[ForgeFile, Trigger]] = {}
        for leaf in leaves:
            try:
                asked[leaf.number] = issue = to_issue(leaf, self._folder.path)
            except ForgeError as error:
                errors.append(error)
                continue
            if trigger := _find_issue_trigger(issue, leaf, names):
                waiting[leaf.number] = leaf, trigger
        for leaf in pulls:
            try:
                trigger = self._find_review_trigger(leaf, asked, names)
            except ForgeError as error:
                errors.append(error)
                continue
            if trigger is not None:
                waiting.setdefault(trigger.number, (leaf, trigger))
        return list(waiting.values()), errors

    def _find_review_trigger(
        self, leaf: ForgeFile, issues: Mapping[int, Issue], names: LabelConfig
    ) -> Trigger | None:
        request = to_pull_request(leaf, self._folder.path)
        number = get_issue_number(leaf)
        answered = find_handled_ids(leaf)
        if number in issues:
            answered |= issues[number].answered
        trigger = find_review(request, number, to_review_comments(leaf), answered=answered)
        if trigger is None:
            return None
        if number not in issues:
            raise make_setting_error(leaf, "issue", f"there is no readable issue {number}")
        return None if find_state(issues[number].labels, names) == "processing" else trigger

    async def _put_comment(self, kind: FileKind, number: int, key: str, text: str) -> str:
        def edit(page: IssueDocument) -> IssueDocument:
            return with_comment(page, key, text, author=self._account, at=datetime.now(UTC))

        leaf = await asyncio.to_thread(self._folder.change, kind, number, edit)
        return str(self._folder.path / leaf.path)

    async def _run_git(self, place: Path, *arguments: str) -> tuple[str, str]:
        """Return what git printed, and what it said about it."""
        environment = build_git_environment(RepoUrl(str(place)), self._environ)
        argv = ("git", "-c", "core.hooksPath=/dev/null", "--git-dir", str(place), *arguments)
        try:
            done = await run(
                ProcessSpec(argv=argv, env=environment, cwd=str(self._folder.path)), timeout=_GIT_TIMEOUT
            )
        except ProcessError as error:
            raise ForgeError("forge_unavailable", error.message, hint=error.hint) from error
        output, told = (stream.decode(errors="replace").strip() for stream in (done.stdout, done.stderr))
        return output, told


def _find_issue_trigger(issue: Issue, leaf: ForgeFile, names: LabelConfig) -> Trigger | None:
    # A file does not say who set a label, and when: the newest that it tells of. All who could are trusted.
    latest = max([leaf.changed, *(comment.created for comment in issue.comments)])
    labelled = IssueEvent(actor=issue.author, at=latest, trusted=True)
    trigger = find_trigger(issue, names, labelled=labelled, answered=issue.answered)
    if trigger is None or trigger.kind != "label":
        return trigger
    # The file's time changes with each save; what Kakite has left in it, only when a label was taken up.
    taken = hashlib.sha256("\n".join(issue.ours).encode()).hexdigest()[:12]
    return replace(trigger, asked=taken)


def _parse_or_none(leaf: ForgeFile, root: Path) -> PullRequest | None:
    try:
        return to_pull_request(leaf, root)
    except ForgeError:
        return None


def _require_folder(place: Path) -> None:
    try:
        mode = place.lstat().st_mode
    except OSError as error:
        told = f"`{place}` is missing: {error.strerror}"
        raise ForgeError("forge_not_found", told, hint=_format_hint(place)) from error
    if not stat.S_ISDIR(mode):
        raise ForgeError(
            "forge_not_found", f"`{place}` is a link or a file, not a folder", hint=_format_hint(place)
        )


def _find_default_branch(head: str, branches: Sequence[str], place: Path) -> str:
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


def _format_hint(place: Path) -> str:
    return f"put a bare repository there: `git clone --bare REPOSITORY {place}`"
