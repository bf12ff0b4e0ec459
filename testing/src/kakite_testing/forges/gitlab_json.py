"""Serializes a fake GitLab's state as the JSON of its REST API and webhooks.

Only the fields that clients read.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kakite_testing.forges.repository import BareRepository
from kakite_testing.forges.store import ForgeNote, ForgeState, Item, Level, TimelineEvent, WebhookEvent

LEVELS: Final[dict[Level, int]] = {"none": 0, "read": 20, "write": 30, "admin": 40}
"""GitLab's numbers: reporter, developer, maintainer."""


def format_time(moment: datetime) -> str:
    """Return a time as GitLab writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def compute_user_id(login: str) -> int:
    """Return the number of an account."""
    return zlib.crc32(login.casefold().encode()) % 1_000_000 + 1


def build_user(login: str) -> dict[str, Any]:
    """Return what is said of an account wherever it occurs."""
    return {"id": compute_user_id(login), "username": login, "name": login, "state": "active"}


@dataclass(frozen=True, slots=True)
class GitLabSerializer:
    """Bodies for one project on one server."""

    state: ForgeState
    repository: BareRepository
    server: str
    """Where its pages are, without a slash at the end."""

    @property
    def page(self) -> str:
        """The address of the project's page."""
        return f"{self.server}/{self.state.owner}/{self.state.name}"

    def build_project(self) -> dict[str, Any]:
        """Return the project."""
        owner, name = self.state.owner, self.state.name
        return {
            "id": 1,
            "name": name,
            "path_with_namespace": f"{owner}/{name}",
            "web_url": self.page,
            "http_url_to_repo": f"{self.page}.git",
            "default_branch": self.repository.default_branch,
            "archived": False,
            "issues_access_level": "enabled",
            "merge_requests_access_level": "enabled",
        }

    def build_member(self, login: str) -> dict[str, Any]:
        """Return a member of the project."""
        return build_user(login) | {"access_level": LEVELS[self.state.get_level(login)]}

    def build_issue(self, item: Item) -> dict[str, Any]:
        """Return an issue."""
        return self._build_shared(item) | {
            "state": "opened" if item.open else "closed",
            "user_notes_count": len(item.notes),
        }

    def build_merge_request(self, item: Item) -> dict[str, Any]:
        """Return a merge request."""
        pull = item.pull
        assert pull is not None
        state = "opened" if item.open else "merged" if pull.merged else "closed"
        return self._build_shared(item) | {
            "state": state,
            "draft": is_draft(item.title),
            "source_branch": pull.head,
            "target_branch": pull.base,
            "source_project_id": 1,
            "sha": self.repository.get_head(pull.head),
            "diff_refs": self.build_diff_refs(item),
        }

    def build_diff_refs(self, item: Item) -> dict[str, str] | None:
        """Return the commits that places in the diff are told by; None where a branch is gone."""
        pull = item.pull
        assert pull is not None
        head, start = self.repository.get_head(pull.head), self.repository.get_head(pull.base)
        if head is None or start is None:
            return None
        base = self.repository.git("merge-base", start, head)
        return {"base_sha": base, "head_sha": head, "start_sha": start}

    def build_discussion(self, item: Item, note: ForgeNote) -> dict[str, Any]:
        """Return a thread that begins with this note."""
        begun = self.build_note(item, note) | {
            "type": "DiffNote" if note.kind == "line" else "DiscussionNote"
        }
        return {"id": f"{note.id:040x}", "individual_note": False, "notes": [begun]}

    def build_note(self, item: Item, note: ForgeNote) -> dict[str, Any]:
        """Return a comment, or a remark beside a line."""
        body: dict[str, Any] = {
            "id": note.id,
            "type": "DiffNote" if note.kind == "line" else None,
            "body": note.text,
            "author": build_user(note.author),
            "created_at": format_time(note.created),
            "updated_at": format_time(note.updated),
            "system": False,
            "noteable_type": "Issue" if item.pull is None else "MergeRequest",
            "noteable_iid": item.number,
        }
        if note.kind == "line":
            body["position"] = {"new_path": note.path, "new_line": note.line, "position_type": "text"}
        return body

    def build_notes(self, item: Item) -> list[dict[str, Any]]:
        """Return comments, and what GitLab itself notes of changes, the oldest first."""
        told = [self.build_note(item, note) for note in item.notes]
        told += [
            _build_system_note(item, index) for index, each in enumerate(item.changes) if each.kind in _NOTED
        ]
        return sorted(told, key=lambda each: (each["created_at"], each["id"]))

    def build_label_events(self, item: Item) -> list[dict[str, Any]]:
        """Return who set and took away labels."""
        actions = {"labeled": "add", "unlabeled": "remove"}
        return [
            {
                "id": each.id,
                "user": build_user(each.actor),
                "created_at": format_time(each.at),
                "resource_type": "Issue",
                "label": {"name": each.value},
                "action": actions[each.kind],
            }
            for each in item.changes
            if each.kind in actions
        ]

    def build_url(self, item: Item) -> str:
        """Return the page of an issue or merge request."""
        return f"{self.page}/-/{'issues' if item.pull is None else 'merge_requests'}/{item.number}"

    def _build_shared(self, item: Item) -> dict[str, Any]:
        return {
            "id": item.id,
            "iid": item.number,
            "project_id": 1,
            "title": item.title,
            "description": item.text or None,
            "author": build_user(item.author),
            "labels": list(item.labels),
            "assignees": [build_user(login) for login in item.assignees],
            "created_at": format_time(item.created),
            "updated_at": format_time(item.updated),
            "web_url": self.build_url(item),
        }


def is_draft(title: str) -> bool:
    """Return whether a merge request is a draft: by its title."""
    return title.casefold().startswith(("draft:", "[draft]", "(draft)"))


_NOTED: Final = {"renamed", "edited", "assigned", "unassigned"}


def _build_system_note(item: Item, index: int) -> dict[str, Any]:
    change = item.changes[index]
    return {
        "id": change.id,
        "type": None,
        "body": _describe_change(change, item, item.changes[index + 1 :]),
        "author": build_user(change.actor),
        "created_at": format_time(change.at),
        "updated_at": format_time(change.at),
        "system": True,
        "noteable_iid": item.number,
    }


def _describe_change(change: TimelineEvent, item: Item, later: Sequence[TimelineEvent]) -> str:
    if change.kind == "edited":
        return "changed the description"
    if change.kind == "renamed":
        after = next((each.value for each in later if each.kind == "renamed"), item.title)
        return f"changed title from **{{-{change.value}-}}** to **{{+{after}+}}**"
    return f"{change.kind} {'to' if change.kind == 'assigned' else 'from'} @{change.value}"


_ACTIONS = {"opened": "open", "closed": "close", "reopened": "reopen", "merged": "merge"}


def describe_gitlab(happening: WebhookEvent, bodies: GitLabSerializer) -> tuple[str, dict[str, Any]]:
    """Return the event's name and its payload."""
    item = happening.item
    kind = "issue" if item.pull is None else "merge_request"
    about = bodies.build_issue(item) if item.pull is None else bodies.build_merge_request(item)
    payload: dict[str, Any] = {
        "user": build_user(happening.actor),
        "project": {"id": 1, "path_with_namespace": bodies.build_project()["path_with_namespace"]},
    }
    if happening.note is not None:
        noted = {"id": happening.note.id, "note": happening.note.text, "action": happening.action}
        attributes = noted | {"noteable_type": "Issue" if item.pull is None else "MergeRequest"}
        return "Note Hook", payload | {
            "object_kind": "note",
            "object_attributes": attributes,
            kind: {"iid": item.number, "title": item.title},
        }
    action = _ACTIONS.get(happening.action, "update")
    name = "Issue Hook" if item.pull is None else "Merge Request Hook"
    return name, payload | {
        "object_kind": kind,
        "object_attributes": {"iid": item.number, "state": about["state"], "action": action},
        "labels": [{"title": label} for label in item.labels],
    }
