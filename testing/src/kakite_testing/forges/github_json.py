"""Serializes a fake GitHub's state as the JSON of its REST API and webhooks.

Only the fields that clients read.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kakite_testing.forges.repository import BareRepository
from kakite_testing.forges.store import ForgeNote, ForgeState, Item, TimelineEvent, WebhookEvent

_EVENTS = {"labeled", "unlabeled", "assigned", "unassigned", "renamed", "closed", "reopened", "merged"}
"""Changes that the REST API tells of. Of a changed text it does not."""


def format_time(moment: datetime) -> str:
    """Return a time as GitHub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def build_user(login: str) -> dict[str, Any]:
    """Return what is said of an account wherever it occurs."""
    number = zlib.crc32(login.casefold().encode()) % 1_000_000 + 1
    kind = "Bot" if login.endswith("[bot]") else "User"
    return {"login": login, "id": number, "node_id": f"U_{number}", "type": kind, "site_admin": False}


@dataclass(frozen=True, slots=True)
class GitHubSerializer:
    """Bodies for one repository on one server."""

    state: ForgeState
    repository: BareRepository
    server: str
    """Where its pages are, without a slash at the end."""

    @property
    def page(self) -> str:
        """The address of the repository's page."""
        return f"{self.server}/{self.state.owner}/{self.state.name}"

    @property
    def api(self) -> str:
        """The address of the repository in the API."""
        return f"{self.server}/api/v3/repos/{self.state.owner}/{self.state.name}"

    def build_repo(self) -> dict[str, Any]:
        """Return the repository."""
        owner, name = self.state.owner, self.state.name
        return {
            "id": 1,
            "node_id": "R_1",
            "name": name,
            "full_name": f"{owner}/{name}",
            "owner": build_user(owner),
            "private": True,
            "html_url": self.page,
            "url": self.api,
            "clone_url": f"{self.page}.git",
            "default_branch": self.repository.default_branch,
            "archived": False,
            "has_issues": True,
        }

    def build_label(self, name: str) -> dict[str, Any]:
        """Return a label."""
        return {"id": zlib.crc32(name.encode()), "name": name, "color": "ededed", "default": False}

    def build_issue(self, item: Item) -> dict[str, Any]:
        """Return an issue, or a pull request as one."""
        body = self._build_shared(item) | {
            "url": f"{self.api}/issues/{item.number}",
            "html_url": self.build_url(item),
            "comments": sum(note.kind == "comment" for note in item.notes),
        }
        if item.pull is not None:
            body["pull_request"] = {
                "url": f"{self.api}/pulls/{item.number}",
                "html_url": self.build_url(item),
                "diff_url": f"{self.build_url(item)}.diff",
                "patch_url": f"{self.build_url(item)}.patch",
            }
        return body

    def build_pull(self, item: Item) -> dict[str, Any]:
        """Return a pull request."""
        pull = item.pull
        assert pull is not None
        merged = format_time(item.updated) if pull.merged else None
        return self._build_shared(item) | {
            "url": f"{self.api}/pulls/{item.number}",
            "html_url": self.build_url(item),
            "draft": pull.draft,
            "merged_at": merged,
            "head": self._build_branch(pull.head),
            "base": self._build_branch(pull.base),
        }

    def build_full_pull(self, item: Item) -> dict[str, Any]:
        """Return a pull request that was asked for by its number."""
        assert item.pull is not None
        return self.build_pull(item) | {"merged": item.pull.merged}

    def build_comment(self, item: Item, note: ForgeNote) -> dict[str, Any]:
        """Return a comment on an issue or in the conversation of a pull request."""
        return self._build_note(note) | {
            "url": f"{self.api}/issues/comments/{note.id}",
            "html_url": f"{self.build_url(item)}#issuecomment-{note.id}",
            "issue_url": f"{self.api}/issues/{item.number}",
        }

    def build_review_comment(self, item: Item, note: ForgeNote) -> dict[str, Any]:
        """Return a remark beside a line of a pull request."""
        return self._build_note(note) | {
            "url": f"{self.api}/pulls/comments/{note.id}",
            "html_url": f"{self.build_url(item)}#discussion_r{note.id}",
            "pull_request_url": f"{self.api}/pulls/{item.number}",
            "path": note.path,
            "line": note.line,
            "original_line": note.line,
            "side": "RIGHT",
        }

    def build_review(self, item: Item, note: ForgeNote) -> dict[str, Any]:
        """Return a review."""
        return {
            "id": note.id,
            "node_id": f"PRR_{note.id}",
            "user": build_user(note.author),
            "body": note.text,
            "state": "COMMENTED",
            "html_url": f"{self.build_url(item)}#pullrequestreview-{note.id}",
            "pull_request_url": f"{self.api}/pulls/{item.number}",
            "submitted_at": format_time(note.created),
        }

    def build_events(self, item: Item) -> list[dict[str, Any]]:
        """Return what happened to an issue, as far as it is told."""
        return [
            self._build_event(item, index, change)
            for index, change in enumerate(item.changes)
            if _is_reported(change)
        ]

    def build_url(self, item: Item) -> str:
        """Return the page of an issue or pull request."""
        return f"{self.page}/{'issues' if item.pull is None else 'pull'}/{item.number}"

    def get_sha(self, branch: str) -> str:
        """Return the last commit of a branch, or what GitHub says of one that is gone."""
        return self.repository.get_head(branch) or "0" * 40

    def _build_shared(self, item: Item) -> dict[str, Any]:
        people = [build_user(login) for login in item.assignees]
        return {
            "id": item.id,
            "node_id": build_node_id(item),
            "number": item.number,
            "title": item.title,
            "body": item.text or None,
            "user": build_user(item.author),
            "labels": [self.build_label(name) for name in item.labels],
            "assignees": people,
            "assignee": people[0] if people else None,
            "state": "open" if item.open else "closed",
            "locked": False,
            "created_at": format_time(item.created),
            "updated_at": format_time(item.updated),
            "closed_at": None if item.open else format_time(item.updated),
            "author_association": "NONE",
        }

    def _build_note(self, note: ForgeNote) -> dict[str, Any]:
        return {
            "id": note.id,
            "node_id": f"IC_{note.id}",
            "user": build_user(note.author),
            "body": note.text,
            "created_at": format_time(note.created),
            "updated_at": format_time(note.updated),
            "author_association": "NONE",
        }

    def _build_branch(self, branch: str) -> dict[str, Any]:
        owner = self.state.owner
        return {
            "label": f"{owner}:{branch}",
            "ref": branch,
            "sha": self.get_sha(branch),
            "user": build_user(owner),
            "repo": self.build_repo(),
        }

    def _build_event(self, item: Item, index: int, change: TimelineEvent) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": change.id,
            "node_id": f"E_{change.id}",
            "event": change.kind,
            "actor": build_user(change.actor),
            "created_at": format_time(change.at),
        }
        if change.kind in {"labeled", "unlabeled"}:
            body["label"] = {"name": change.value, "color": "ededed"}
        elif change.kind in {"assigned", "unassigned"}:
            body |= {"assignee": build_user(change.value), "assigner": build_user(change.actor)}
        elif change.kind == "renamed":
            body["rename"] = {"from": change.value, "to": _find_title_after(item, item.changes[index + 1 :])}
        return body


def build_node_id(item: Item) -> str:
    """Return the name of an issue or pull request in GraphQL."""
    return f"{'I' if item.pull is None else 'PR'}_{item.id}"


def build_edit_history(item: Item) -> list[dict[str, Any]]:
    """Return a text's history as GraphQL does: nothing, or the newest first with the first writing."""
    edited = [change for change in item.changes if change.kind == "edited"]
    nodes = [{"editedAt": format_time(each.at), "editor": {"login": each.actor}} for each in reversed(edited)]
    first = {"editedAt": format_time(item.created), "editor": {"login": item.author}}
    return [*nodes, first] if nodes else []


def _is_reported(change: TimelineEvent) -> bool:
    return change.kind in _EVENTS


def _find_title_after(item: Item, later: Sequence[TimelineEvent]) -> str:
    return next((change.value for change in later if change.kind == "renamed"), item.title)


_ACTIONS = {"renamed": "edited", "merged": "closed"}


def describe_github(happening: WebhookEvent, bodies: GitHubSerializer) -> tuple[str, dict[str, Any]]:
    """Return the event's name and its payload."""
    item = happening.item
    payload: dict[str, Any] = {
        "action": _ACTIONS.get(happening.action, happening.action),
        "repository": bodies.build_repo(),
        "sender": build_user(happening.actor),
    }
    if happening.label is not None:
        payload["label"] = bodies.build_label(happening.label)
    if item.pull is not None:
        payload |= {"number": item.number, "pull_request": bodies.build_full_pull(item)}
    if happening.note is not None:
        return _describe_note(happening, happening.note, payload, bodies)
    if item.pull is not None:
        return "pull_request", payload
    return "issues", payload | {"issue": bodies.build_issue(item)}


def _describe_note(
    happening: WebhookEvent, note: ForgeNote, payload: dict[str, Any], bodies: GitHubSerializer
) -> tuple[str, dict[str, Any]]:
    item = happening.item
    if note.kind == "line":
        return "pull_request_review_comment", payload | {"comment": bodies.build_review_comment(item, note)}
    if note.kind == "review":
        return "pull_request_review", payload | {
            "action": "submitted",
            "review": bodies.build_review(item, note),
        }
    payload.pop("pull_request", None)
    return "issue_comment", payload | {
        "issue": bodies.build_issue(item),
        "comment": bodies.build_comment(item, note),
    }
