"""A fake GitLab: the operations that an agent needs, over one project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kakite.testing.forges.front import Rate
from kakite.testing.forges.github_access import Access
from kakite.testing.forges.gitlab_bodies import GitLabBodies, stamp, user, user_id
from kakite.testing.forges.state import Item, Ledger
from kakite.testing.forges.wire import Asked, Identity, Refusal, Reply, Route, paged, route


class GitLabFace:
    """The API under ``/api/v4``."""

    prefix = "/api/v4"

    def __init__(self, ledger: Ledger, bodies: GitLabBodies, access: Access) -> None:
        self._ledger = ledger
        self._bodies = bodies
        self._access = access
        self.routes: Sequence[Route] = self._routes()

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        told = headers.get("private-token") or (token if kind.lower() == "bearer" else "")
        return self._access.whose(told)

    def identify_git(self, username: str, password: str) -> Identity | None:
        """Return who asks by git: the password is the token, the name does not matter."""
        return self._access.whose(password) if username else None

    def refuse(self, refusal: Refusal) -> Reply:
        """Say no as GitLab does."""
        message = refusal.errors or f"{refusal.status} {refusal.message}"
        return Reply(status=refusal.status, body={"message": message}, headers=refusal.headers)

    def rate(self, limit: Rate) -> Mapping[str, str]:
        """Return GitLab's headers."""
        return {
            "ratelimit-limit": str(limit.limit),
            "ratelimit-remaining": str(limit.remaining),
            "ratelimit-observed": str(limit.used),
            "ratelimit-reset": str(int(limit.reset)),
        }

    def exhausted(self, limit: Rate) -> Refusal:
        """GitLab says 429."""
        return Refusal(429, "Too Many Requests", headers=self.rate(limit))

    def _routes(self) -> list[Route]:
        project = "/projects/{project}"
        issue, request = f"{project}/issues/{{number}}", f"{project}/merge_requests/{{number}}"
        return [
            route("get /user", self._user),
            route("get /users", self._users),
            route("get /personal_access_tokens/self", self._token),
            route(f"get {project}", self._ours(self._project)),
            route(f"get {project}/members/all/{{member}}", self._ours(self._member)),
            route(f"get {project}/issues", self._ours(self._issues)),
            route(f"get {issue}", self._ours(self._issue)),
            route(f"put {issue}", self._ours(self._edit_issue), "write"),
            route(f"get {issue}/resource_label_events", self._ours(self._label_events)),
            *self._note_routes(issue, self._ledger.issue),
            route(f"get {project}/merge_requests", self._ours(self._requests)),
            route(f"post {project}/merge_requests", self._ours(self._new_request), "write"),
            route(f"get {request}", self._ours(self._request)),
            route(f"put {request}", self._ours(self._edit_request), "write"),
            *self._note_routes(request, self._ledger.pull),
        ]

    def _note_routes(self, place: str, find: Callable[[int], Item]) -> list[Route]:
        def read(_who: Identity, asked: Asked, number: str) -> Reply:
            return self._page(asked, self._bodies.notes(find(int(number))), newest_first=True)

        def new(who: Identity, asked: Asked, number: str) -> Reply:
            item = find(int(number))
            note = self._ledger.comment(item, asked.json["body"], by=who.login)
            return Reply(status=201, body=self._bodies.note(item, note))

        def edit(who: Identity, asked: Asked, number: str, note: str) -> Reply:
            item = find(int(number))
            found = next((each for each in item.notes if each.id == int(note)), None)
            if found is None:
                raise LookupError(note)
            if found.author != who.login and not self._ledger.may(who.login, "admin"):
                raise Refusal(403, "Forbidden")
            self._ledger.edit_comment(item, found, asked.json["body"], by=who.login)
            return Reply(body=self._bodies.note(item, found))

        return [
            route(f"get {place}/notes", self._ours(read)),
            route(f"post {place}/notes", self._ours(new)),
            route(f"put {place}/notes/{{note}}", self._ours(edit)),
        ]

    def _ours(self, answer: Callable[..., Reply]) -> Callable[..., Reply]:
        def check(who: Identity, asked: Asked, project: str, **parts: str) -> Reply:
            if project not in {"1", f"{self._ledger.owner}/{self._ledger.name}"}:
                raise LookupError(project)
            return answer(who, asked, **parts)

        return check

    # Accounts

    def _user(self, who: Identity, asked: Asked) -> Reply:
        return Reply(body=user(who.login))

    def _users(self, who: Identity, asked: Asked) -> Reply:
        wanted = asked.value("username")
        known = {*self._ledger.people, *(item.author for item in self._ledger.items)}
        return self._page(asked, [user(each) for each in known if each.casefold() == wanted.casefold()])

    def _token(self, who: Identity, asked: Asked) -> Reply:
        return Reply(body={"id": 1, "active": True, "scopes": ["read_api" if who.read_only else "api"]})

    def _project(self, who: Identity, asked: Asked) -> Reply:
        return Reply(body=self._bodies.project())

    def _member(self, who: Identity, asked: Asked, member: str) -> Reply:
        for login, level in self._ledger.people.items():
            if user_id(login) == int(member) and level != "none":
                return Reply(body=self._bodies.member(login))
        raise LookupError(member)

    # Issues

    def _issues(self, who: Identity, asked: Asked) -> Reply:
        wanted = {label for label in asked.value("labels").split(",") if label}
        found = [
            item
            for item in self._ledger.issues
            if _in_state(item, asked.value("state", "all"))
            and wanted <= set(item.labels)
            and stamp(item.updated) >= asked.value("updated_after")
        ]
        return self._page(asked, [self._bodies.issue(item) for item in _sorted(found, asked)])

    def _issue(self, who: Identity, asked: Asked, number: str) -> Reply:
        return Reply(body=self._bodies.issue(self._ledger.issue(int(number))))

    def _edit_issue(self, who: Identity, asked: Asked, number: str) -> Reply:
        item, told = self._ledger.issue(int(number)), asked.json
        self._ledger.edit(item, by=who.login, title=told.get("title"), text=told.get("description"))
        for label in _labels(told.get("remove_labels")):
            self._ledger.unlabel(item, label, by=who.login)
        for label in _labels(told.get("add_labels")):
            self._ledger.label(item, label, by=who.login)
        if told.get("state_event") == "close":
            self._ledger.close(item, by=who.login)
        return Reply(body=self._bodies.issue(item))

    def _label_events(self, who: Identity, asked: Asked, number: str) -> Reply:
        return self._page(asked, self._bodies.label_events(self._ledger.issue(int(number))))

    # Merge requests

    def _requests(self, who: Identity, asked: Asked) -> Reply:
        branch, author = asked.value("source_branch"), asked.value("author_id")
        bodies = [self._bodies.request(item) for item in _sorted(list(self._ledger.pulls), asked)]
        found = [
            body
            for body in bodies
            if asked.value("state", "all") in {"all", body["state"]}
            and branch in {"", body["source_branch"]}
            and author in {"", str(body["author"]["id"])}
        ]
        return self._page(asked, found)

    def _new_request(self, who: Identity, asked: Asked) -> Reply:
        told = asked.json
        source, target = told["source_branch"], told["target_branch"]
        for branch in (source, target):
            if self._bodies.repository.head(branch) is None:
                raise Refusal(422, "", errors=[f'Branch "{branch}" does not exist'])
        for item in self._ledger.pulls:
            if item.pull and item.open and item.pull.head == source:
                said = f"Another open merge request already exists for this source branch: !{item.number}"
                raise Refusal(409, "", errors=[said])
        made = self._ledger.open_pull(
            told["title"], told.get("description", ""), by=who.login, head=source, base=target
        )
        return Reply(status=201, body=self._bodies.request(made))

    def _request(self, who: Identity, asked: Asked, number: str) -> Reply:
        return Reply(body=self._bodies.request(self._ledger.pull(int(number))))

    def _edit_request(self, who: Identity, asked: Asked, number: str) -> Reply:
        item, told = self._ledger.pull(int(number)), asked.json
        self._ledger.edit(item, by=who.login, title=told.get("title"), text=told.get("description"))
        if "target_branch" in told and item.pull:
            item.pull.base = told["target_branch"]
        if told.get("state_event") == "close":
            self._ledger.close(item, by=who.login)
        return Reply(body=self._bodies.request(item))

    def _page(self, asked: Asked, items: Sequence[Any], *, newest_first: bool = False) -> Reply:
        if newest_first and asked.value("sort", "desc") == "desc":
            items = items[::-1]
        page, headers, last = paged(asked, items, self._bodies.server)
        number = asked.value("page", "1")
        return Reply(body=page, headers={**headers, "x-page": number, "x-total-pages": str(last)})


def _in_state(item: Item, state: str) -> bool:
    return state == "all" or item.open == (state == "opened")


def _sorted(items: list[Item], asked: Asked) -> list[Item]:
    by_update = asked.value("order_by", "created_at") == "updated_at"
    ordered = sorted(items, key=lambda item: item.updated if by_update else item.created)
    return ordered if asked.value("sort", "desc") == "asc" else ordered[::-1]


def _labels(told: Any) -> list[str]:
    return [label.strip() for label in str(told or "").split(",") if label.strip()]
