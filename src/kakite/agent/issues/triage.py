"""Turns a trigger at a forge into a task: its id, its text for the model, its branch.

``Forge.find_triggers`` finds the triggers. The id of a task depends on its trigger alone, so every worker
that finds the same trigger makes the same task.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from kakite.agent.forges import issue_snapshot
from kakite.agent.forges.base import Comment, Forge, Issue, PullRequest, Trigger
from kakite.agent.forges.labels import ISSUE_TEXT_ID, LabelConfig, find_state
from kakite.agent.forges.mentions import has_mention
from kakite.agent.run.prompt import load_prompt
from kakite.terminal_text import escape_one_line

_SLUG: Final = 40  # characters of a title in a branch
_PLACE: Final = 120  # characters of a repository's path in an id
_TITLE: Final = 200
_PROGRESS: Final = "progress/"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedTask:
    """A task that was taken up. Plain: ``asdict`` gives JSON, ``AcceptedTask(**value)`` reads it."""

    issue: int
    title: str
    text: str
    """For the model: the issue as it was, and what was remarked on the pull request."""
    address: str
    """Where a person reads the issue."""
    repository: str
    """Where git finds the code, without credentials."""
    default_branch: str
    branch: str
    base: str
    """The branch that the work is for."""
    request: int | None
    """The pull request that is worked on again; None if there is none yet."""
    ids: Sequence[str]
    """What was taken up: say so in each report."""
    seen: Sequence[str]
    """What the model gets to read, for ``IssueThread.fetch_updates``."""
    asked_at: str
    """When it was asked for, ISO 8601."""
    said: str = ""
    """For a model that knows the task: what people want besides. Empty: nobody has said that in a comment."""
    assignee: str | None = None
    """Our account, if the issue was assigned to it: taking that away stops the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedTask:
    """A task that is not worked on.

    Codes: ``issue_changed`` (a stranger has changed the issue since it was asked for; a comment says so),
    ``not_asked`` (nothing asks for it any more), ``taken`` (another task works on the issue). Nobody is told
    of the last two.
    """

    code: str
    message: str
    hint: str = ""


def make_task_id_prefix(forge: Forge, number: int) -> str:
    """Return what the ids of all tasks of an issue begin with."""
    path = forge.path
    if not re.fullmatch(rf"[\w./+-]{{1,{_PLACE}}}", path, re.ASCII) or path.startswith("/"):
        name = re.sub(r"[^\w.+-]+", "-", path.rstrip("/").rpartition("/")[2], flags=re.ASCII)
        path = f"{name[:_SLUG]}-{_digest(path)}"
    return f"{forge.name}:{path}#{number}@"


def make_task_id(forge: Forge, trigger: Trigger) -> str:
    """Return the id of the task that a trigger asks for: the same for all who find the trigger.

    A mention or remark is told by its id, so that it is one task however often it is changed. A label is
    told by when it was set; in a folder, which does not know that, by what Kakite has left below the issue
    before.
    """
    what = trigger.comment or trigger.asked or ("" if trigger.kind == "mention" else trigger.at.isoformat())
    return f"{make_task_id_prefix(forge, trigger.number)}{_digest(trigger.kind, what)}"


def get_task_suffix(task: str) -> str:
    """Return what tells a task from the others of its issue."""
    return task.rpartition("@")[2] or _digest(task)


async def find_pending_tasks(
    forge: Forge, names: LabelConfig, known: Mapping[str, bool] | None = None
) -> list[tuple[str, Trigger]]:
    """Return the tasks that wait, the oldest first.

    Left out are those of issues of which a task lives, since what people write there is for that task to
    hear, and mentions and remarks that were worked on already.

    Args:
        forge: where to look.
        names: the labels and the name.
        known: the tasks that were begun, by their ids: whether each still lives.

    Raises:
        ForgeError: the forge cannot be asked.
    """
    known = known or {}
    found: list[tuple[str, Trigger]] = []
    for trigger in await forge.find_triggers(names):
        place = make_task_id_prefix(forge, trigger.number)
        if any(lives and task.startswith(place) for task, lives in known.items()):
            continue
        task = _find_unused_id(make_task_id(forge, trigger), trigger, known)
        if task is not None:
            found.append((task, trigger))
    return found


def _find_unused_id(task: str, trigger: Trigger, known: Mapping[str, bool]) -> str | None:
    if task not in known:
        return task
    if not trigger.asked:
        return None
    # Somebody has deleted what Kakite wrote into the file, and set the label again.
    again = 2
    while f"{task}.{again}" in known:
        again += 1
    return f"{task}.{again}"


def encode_trigger(trigger: Trigger) -> dict[str, object]:
    """Return a trigger as JSON."""
    return {**asdict(trigger), "at": trigger.at.isoformat()}


def decode_trigger(value: Mapping[str, Any]) -> Trigger:
    """Return the trigger that ``encode_trigger`` wrote."""
    told: dict[str, Any] = {**value, "at": datetime.fromisoformat(value["at"])}
    return Trigger(**told)


def make_progress_key(task: str, branch: str) -> str:
    """Return the key of a task's progress comment. It keeps the branch, whatever becomes of the title."""
    return f"{_PROGRESS}{get_task_suffix(task)}={branch}"


def make_rejection_key(task: str) -> str:
    """Return the key of the comment that tells why a task was not begun."""
    return f"refused/{get_task_suffix(task)}"


def find_rejection(task: str, trigger: Trigger, issue: Issue, names: LabelConfig) -> RejectedTask | None:
    """Return why a task is not begun although it was asked for; None if it is, or was begun already."""
    if _is_begun(task, issue):
        return None  # what follows would mistake our own marks for another's
    state = find_state(issue.labels, names)
    if state == "processing":
        return RejectedTask(code="taken", message=f"another task works on issue {issue.number}")
    if not issue.open:
        return RejectedTask(code="not_asked", message=f"issue {issue.number} was closed meanwhile")
    if trigger.kind == "label" and state != "waiting":
        return RejectedTask(
            code="not_asked", message=f"the label of issue {issue.number} was taken away meanwhile"
        )
    if trigger.kind == "mention" and (trigger.comment or ISSUE_TEXT_ID) in issue.answered:
        return RejectedTask(
            code="taken", message=f"the mention in issue {issue.number} was answered meanwhile"
        )
    return None


def _is_begun(task: str, issue: Issue) -> bool:
    mine = get_task_suffix(task)
    return any(key == make_rejection_key(task) or key.startswith(f"{_PROGRESS}{mine}=") for key in issue.ours)


def generate_branch_names(issue: Issue) -> Iterable[str]:
    """Yield names for the branch of an issue, without end: the one it has had, and others."""
    begun = [key.partition("=")[2] for key in issue.ours if key.startswith(_PROGRESS)]
    first = begun[0] if begun and begun[0] else make_branch_name(issue.number, issue.title)
    yield first
    number = 2
    while True:
        yield f"{first}-r{number}"
        number += 1


def make_branch_name(number: int, title: str) -> str:
    """Return the branch for an issue: ``kakite/7-fix-login``, in small letters of ASCII."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = "-".join(re.findall(r"[a-z0-9]+", plain))[:_SLUG].strip("-")
    return f"kakite/{number}-{slug}" if slug else f"kakite/{number}"


async def find_free_branch(forge: Forge, issue: Issue) -> tuple[str, PullRequest | None]:
    """Return the branch to work on, and its open pull request: none that people have merged or closed.

    Raises:
        ForgeError: the forge cannot be asked.
    """
    for name in generate_branch_names(issue):
        requests = await forge.list_pull_requests(name)
        opened = next((each for each in requests if each.state == "open"), None)
        if opened is not None or not requests:
            return name, opened
    raise AssertionError("there are too many names to try")


def build_accepted_task(
    trigger: Trigger,
    taken: issue_snapshot.IssueSnapshot,
    names: LabelConfig,
    *,
    repository: tuple[str, str],
    branch: str,
    request: PullRequest | None,
    remarks: Sequence[Comment] = (),
) -> AcceptedTask:
    """Return what a task is about.

    Args:
        trigger: what asked for it.
        taken: the issue as it was then.
        names: how we are called.
        repository: its address without credentials, and its default branch.
        branch: where the work goes, if there is no pull request yet.
        request: the open one of the issue.
        remarks: what is to be answered there.
    """
    text = issue_snapshot.render_snapshot(taken)
    if remarks:
        said = load_prompt("review").format(remarks=issue_snapshot.render_review_comments(remarks))
        text = f"{text}\n\n{said}"
    address, default = repository
    return AcceptedTask(
        issue=trigger.number,
        title=escape_one_line(taken.title)[:_TITLE],
        text=text,
        address=taken.address,
        repository=address,
        default_branch=default,
        branch=request.branch if request else branch,
        base=request.base if request else default,
        request=request.number if request else None,
        ids=(ISSUE_TEXT_ID, *collect_handled_ids(taken.comments, remarks, names)),
        seen=tuple(sorted({*taken.seen, *map(issue_snapshot.make_version_token, remarks)})),
        asked_at=trigger.at.isoformat(),
    )


def render_request(
    trigger: Trigger, comments: Iterable[Comment], remarks: Sequence[Comment], since: datetime | None
) -> str:
    """Return what comments ask for, for ``AcceptedTask.said``; empty where no comment does.

    ``since`` is when the task before was accepted, of which this one goes on with the conversation.
    """
    if not trigger.comment:
        return ""
    fresh = [
        each
        for each in comments
        if each.id == trigger.comment or (since is not None and (each.edited or each.created) > since)
    ]
    told = (issue_snapshot.render_comments(fresh), issue_snapshot.render_review_comments(remarks))
    return "\n\n".join(filter(None, told))


def collect_handled_ids(
    comments: Iterable[Comment], remarks: Iterable[Comment], names: LabelConfig
) -> list[str]:
    """Return the ids of what would ask for work again, were it not said that it is taken up."""
    calling = [each.id for each in comments if has_mention(each.text, names.mention)]
    return list(dict.fromkeys([*calling, *(remark.id for remark in remarks)]))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:12]
