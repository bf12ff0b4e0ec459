"""What a fake GitHub tells by webhooks."""

from __future__ import annotations

from typing import Any

from kakite.testing.forges.github_bodies import GitHubBodies, user
from kakite.testing.forges.state import Happening, Note

_ACTIONS = {"renamed": "edited", "merged": "closed"}


def describe_github(happening: Happening, bodies: GitHubBodies) -> tuple[str, dict[str, Any]]:
    """Return the event's name and its payload."""
    item = happening.item
    payload: dict[str, Any] = {
        "action": _ACTIONS.get(happening.action, happening.action),
        "repository": bodies.repo(),
        "sender": user(happening.actor),
    }
    if happening.label is not None:
        payload["label"] = bodies.label(happening.label)
    if item.pull is not None:
        payload |= {"number": item.number, "pull_request": bodies.whole_pull(item)}
    if happening.note is not None:
        return _describe_note(happening, happening.note, payload, bodies)
    if item.pull is not None:
        return "pull_request", payload
    return "issues", payload | {"issue": bodies.issue(item)}


def _describe_note(
    happening: Happening, note: Note, payload: dict[str, Any], bodies: GitHubBodies
) -> tuple[str, dict[str, Any]]:
    item = happening.item
    if note.kind == "line":
        return "pull_request_review_comment", payload | {"comment": bodies.remark(item, note)}
    if note.kind == "review":
        return "pull_request_review", payload | {"action": "submitted", "review": bodies.review(item, note)}
    payload.pop("pull_request", None)
    return "issue_comment", payload | {"issue": bodies.issue(item), "comment": bodies.comment(item, note)}
