"""What GitHub's REST API says of things, as JSON: the fields that clients look at, and no others."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kakite.testing.forges.repository import BareRepository
from kakite.testing.forges.state import Change, Item, Ledger, Note, Pull

_EVENTS = {"labeled", "unlabeled", "assigned", "unassigned", "renamed", "closed", "reopened", "merged"}
"""Changes that the REST API tells of. Of a changed text it does not."""


def stamp(moment: datetime) -> str:
    """Return a time as GitHub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def user(login: str) -> dict[str, Any]:
    """Return what is said of an account wherever it occurs."""
    number = zlib.crc32(login.casefold().encode()) % 1_000_000 + 1
    kind = "Bot" if login.endswith("[bot]") else "User"
    return {"login": login, "id": number, "node_id": f"U_{number}", "type": kind, "site_admin": False}


@dataclass(frozen=True, slots=True)
class GitHubBodies:
    """Bodies for one repository on one server."""

    ledger: Ledger
    repository: BareRepository
    server: str
    """Where its pages are, without a slash at the end."""

    @property
    def page(self) -> str:
        """The address of the repository's page."""
        return f"{self.server}/{self.ledger.owner}/{self.ledger.name}"

    @property
    def api(self) -> str:
        """The address of the repository in the API."""
        return f"{self.server}/api/v3/repos/{self.ledger.owner}/{self.ledger.name}"

    def repo(self) -> dict[str, Any]:
        """Return the repository."""
        owner, name = self.ledger.owner, self.ledger.name
        return {
            "id": 1,
            "node_id": "R_1",
            "name": name,
            "full_name": f"{owner}/{name}",
            "owner": user(owner),
            "private": True,
            "html_url": self.page,
            "url": self.api,
            "clone_url": f"{self.page}.git",
            "default_branch": self.repository.default_branch,
            "archived": False,
            "has_issues": True,
        }

    def label(self, name: str) -> dict[str, Any]:
        """Return a label."""
        return {"id": zlib.crc32(name.encode()), "name": name, "color": "ededed", "default": False}

    def issue(self, item: Item) -> dict[str, Any]:
        """Return an issue, or a pull request as one."""
        body = self._shared(item) | {
            "url": f"{self.api}/issues/{item.number}",
            "html_url": self.address(item),
            "comments": sum(note.kind == "comment" for note in item.notes),
        }
        if item.pull is not None:
            body["pull_request"] = {
                "url": f"{self.api}/pulls/{item.number}",
                "html_url": self.address(item),
                "diff_url": f"{self.address(item)}.diff",
                "patch_url": f"{self.address(item)}.patch",
            }
        return body

    def pull(self, item: Item) -> dict[str, Any]:
        """Return a pull request."""
        pull = item.pull
        assert pull is not None
        merged = stamp(item.updated) if pull.merged else None
        return self._shared(item) | {
            "url": f"{self.api}/pulls/{item.number}",
            "html_url": self.address(item),
            "draft": pull.draft,
            "merged_at": merged,
            "head": self._side(pull.head),
            "base": self._side(pull.base),
        }

    def whole_pull(self, item: Item) -> dict[str, Any]:
        """Return a pull request that was asked for by its number."""
        assert item.pull is not None
        return self.pull(item) | {"merged": item.pull.merged}

    def comment(self, item: Item, note: Note) -> dict[str, Any]:
        """Return a comment on an issue or in the conversation of a pull request."""
        return self._note(note) | {
            "url": f"{self.api}/issues/comments/{note.id}",
            "html_url": f"{self.address(item)}#issuecomment-{note.id}",
            "issue_url": f"{self.api}/issues/{item.number}",
        }

    def remark(self, item: Item, note: Note) -> dict[str, Any]:
        """Return a remark beside a line of a pull request."""
        return self._note(note) | {
            "url": f"{self.api}/pulls/comments/{note.id}",
            "html_url": f"{self.address(item)}#discussion_r{note.id}",
            "pull_request_url": f"{self.api}/pulls/{item.number}",
            "path": note.path,
            "line": note.line,
            "original_line": note.line,
            "side": "RIGHT",
        }

    def review(self, item: Item, note: Note) -> dict[str, Any]:
        """Return a review."""
        return {
            "id": note.id,
            "node_id": f"PRR_{note.id}",
            "user": user(note.author),
            "body": note.text,
            "state": "COMMENTED",
            "html_url": f"{self.address(item)}#pullrequestreview-{note.id}",
            "pull_request_url": f"{self.api}/pulls/{item.number}",
            "submitted_at": stamp(note.created),
        }

    def events(self, item: Item) -> list[dict[str, Any]]:
        """Return what happened to an issue, as far as it is told."""
        return [
            self._event(item, index, change) for index, change in enumerate(item.changes) if _told(change)
        ]

    def address(self, item: Item) -> str:
        """Return the page of an issue or pull request."""
        return f"{self.page}/{'issues' if item.pull is None else 'pull'}/{item.number}"

    def sha(self, branch: str) -> str:
        """Return the last commit of a branch, or what GitHub says of one that is gone."""
        return self.repository.head(branch) or "0" * 40

    def _shared(self, item: Item) -> dict[str, Any]:
        people = [user(login) for login in item.assignees]
        return {
            "id": item.id,
            "node_id": node_id(item),
            "number": item.number,
            "title": item.title,
            "body": item.text or None,
            "user": user(item.author),
            "labels": [self.label(name) for name in item.labels],
            "assignees": people,
            "assignee": people[0] if people else None,
            "state": "open" if item.open else "closed",
            "locked": False,
            "created_at": stamp(item.created),
            "updated_at": stamp(item.updated),
            "closed_at": None if item.open else stamp(item.updated),
            "author_association": "NONE",
        }

    def _note(self, note: Note) -> dict[str, Any]:
        return {
            "id": note.id,
            "node_id": f"IC_{note.id}",
            "user": user(note.author),
            "body": note.text,
            "created_at": stamp(note.created),
            "updated_at": stamp(note.updated),
            "author_association": "NONE",
        }

    def _side(self, branch: str) -> dict[str, Any]:
        owner = self.ledger.owner
        return {
            "label": f"{owner}:{branch}",
            "ref": branch,
            "sha": self.sha(branch),
            "user": user(owner),
            "repo": self.repo(),
        }

    def _event(self, item: Item, index: int, change: Change) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": change.id,
            "node_id": f"E_{change.id}",
            "event": change.kind,
            "actor": user(change.actor),
            "created_at": stamp(change.at),
        }
        if change.kind in {"labeled", "unlabeled"}:
            body["label"] = {"name": change.value, "color": "ededed"}
        elif change.kind in {"assigned", "unassigned"}:
            body |= {"assignee": user(change.value), "assigner": user(change.actor)}
        elif change.kind == "renamed":
            body["rename"] = {"from": change.value, "to": _title_after(item, item.changes[index + 1 :])}
        return body


def node_id(item: Item) -> str:
    """Return the name of an issue or pull request in GraphQL."""
    return f"{'I' if item.pull is None else 'PR'}_{item.id}"


def edits(item: Item) -> list[dict[str, Any]]:
    """Return a text's history as GraphQL does: nothing, or the newest first with the first writing."""
    edited = [change for change in item.changes if change.kind == "edited"]
    nodes = [{"editedAt": stamp(each.at), "editor": {"login": each.actor}} for each in reversed(edited)]
    first = {"editedAt": stamp(item.created), "editor": {"login": item.author}}
    return [*nodes, first] if nodes else []


def pull_of(item: Item) -> Pull:
    """Return what a pull request has beside an issue."""
    if item.pull is None:
        raise LookupError(item.number)
    return item.pull


def _told(change: Change) -> bool:
    return change.kind in _EVENTS


def _title_after(item: Item, later: Sequence[Change]) -> str:
    return next((change.value for change in later if change.kind == "renamed"), item.title)
