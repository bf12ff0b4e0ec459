"""What a fake GitLab tells by webhooks."""

from __future__ import annotations

from typing import Any

from kakite.testing.forges.gitlab_bodies import GitLabBodies, user
from kakite.testing.forges.state import Happening

_ACTIONS = {"opened": "open", "closed": "close", "reopened": "reopen", "merged": "merge"}


def describe_gitlab(happening: Happening, bodies: GitLabBodies) -> tuple[str, dict[str, Any]]:
    """Return the event's name and its payload."""
    item = happening.item
    kind = "issue" if item.pull is None else "merge_request"
    about = bodies.issue(item) if item.pull is None else bodies.request(item)
    payload: dict[str, Any] = {
        "user": user(happening.actor),
        "project": {"id": 1, "path_with_namespace": bodies.project()["path_with_namespace"]},
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
