"""A fake GitLab: the operations that an agent needs, over one project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kakite.agent.review.diff import parse_diff
from kakite_testing.forges.access import Access
from kakite_testing.forges.app import (
    ForgeRefusal,
    ForgeRequest,
    ForgeResponse,
    Identity,
    RateLimit,
    Route,
    build_route,
    paginate,
)
from kakite_testing.forges.gitlab_json import GitLabSerializer, build_user, compute_user_id, format_time
from kakite_testing.forges.store import ForgeState, Item, require_pull


class FakeGitLabApi:
    """The API under ``/api/v4``."""

    prefix = "/api/v4"

    def __init__(self, state: ForgeState, bodies: GitLabSerializer, access: Access) -> None:
        self._state = state
        self._bodies = bodies
        self._access = access
        self.routes: Sequence[Route] = self._build_routes()

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        told = headers.get("private-token") or (token if kind.lower() == "bearer" else "")
        return self._access.find_identity(told)

    def identify_git(self, username: str, password: str) -> Identity | None:
        """Return who asks by git: the password is the token, the name does not matter."""
        return self._access.find_identity(password) if username else None

    def refuse(self, refusal: ForgeRefusal) -> ForgeResponse:
        """Say no as GitLab does."""
        message = refusal.errors or f"{refusal.status} {refusal.message}"
        return ForgeResponse(status=refusal.status, body={"message": message}, headers=refusal.headers)

    def build_rate_headers(self, limit: RateLimit) -> Mapping[str, str]:
        """Return GitLab's headers."""
        return {
            "ratelimit-limit": str(limit.limit),
            "ratelimit-remaining": str(limit.remaining),
            "ratelimit-observed": str(limit.used),
            "ratelimit-reset": str(int(limit.reset)),
        }

    def build_rate_refusal(self, limit: RateLimit) -> ForgeRefusal:
        """GitLab says 429."""
        return ForgeRefusal(429, "Too Many Requests", headers=self.build_rate_headers(limit))

    def _build_routes(self) -> list[Route]:
        project = "/projects/{project}"
        issue, request = f"{project}/issues/{{number}}", f"{project}/merge_requests/{{number}}"
        return [
            build_route("get /user", self._get_user),
            build_route("get /users", self._list_users),
            build_route("get /personal_access_tokens/self", self._get_token),
            build_route(f"get {project}", self._restrict_to_project(self._get_project)),
            build_route(f"get {project}/members/all/{{member}}", self._restrict_to_project(self._get_member)),
            build_route(f"get {project}/issues", self._restrict_to_project(self._list_issues)),
            build_route(f"get {issue}", self._restrict_to_project(self._get_issue)),
            build_route(f"put {issue}", self._restrict_to_project(self._edit_issue), "write"),
            build_route(
                f"get {issue}/resource_label_events", self._restrict_to_project(self._list_label_events)
            ),
            *self._build_note_routes(issue, self._state.get_issue),
            build_route(
                f"get {project}/merge_requests", self._restrict_to_project(self._list_merge_requests)
            ),
            build_route(
                f"post {project}/merge_requests",
                self._restrict_to_project(self._create_merge_request),
                "write",
            ),
            build_route(f"get {request}", self._restrict_to_project(self._get_merge_request)),
            build_route(f"put {request}", self._restrict_to_project(self._edit_merge_request), "write"),
            *self._build_note_routes(request, self._state.get_pull),
            build_route(f"post {request}/discussions", self._restrict_to_project(self._create_discussion)),
        ]

    def _build_note_routes(self, place: str, find: Callable[[int], Item]) -> list[Route]:
        def read(_who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
            return self._paginate(asked, self._bodies.build_notes(find(int(number))), newest_first=True)

        def create(who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
            item = find(int(number))
            note = self._state.comment(item, asked.json["body"], by=who.login)
            return ForgeResponse(status=201, body=self._bodies.build_note(item, note))

        def edit(who: Identity, asked: ForgeRequest, number: str, note: str) -> ForgeResponse:
            item = find(int(number))
            found = next((each for each in item.notes if each.id == int(note)), None)
            if found is None:
                raise LookupError(note)
            if found.author != who.login and not self._state.has_level(who.login, "admin"):
                raise ForgeRefusal(403, "Forbidden")
            self._state.edit_comment(item, found, asked.json["body"], by=who.login)
            return ForgeResponse(body=self._bodies.build_note(item, found))

        return [
            build_route(f"get {place}/notes", self._restrict_to_project(read)),
            build_route(f"post {place}/notes", self._restrict_to_project(create)),
            build_route(f"put {place}/notes/{{note}}", self._restrict_to_project(edit)),
        ]

    def _restrict_to_project(self, answer: Callable[..., ForgeResponse]) -> Callable[..., ForgeResponse]:
        def check(who: Identity, asked: ForgeRequest, project: str, **parts: str) -> ForgeResponse:
            if project not in {"1", f"{self._state.owner}/{self._state.name}"}:
                raise LookupError(project)
            return answer(who, asked, **parts)

        return check

    # Accounts

    def _get_user(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        return ForgeResponse(body=build_user(who.login))

    def _list_users(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        wanted = asked.get_query("username")
        known = {*self._state.people, *(item.author for item in self._state.items)}
        return self._paginate(
            asked, [build_user(each) for each in known if each.casefold() == wanted.casefold()]
        )

    def _get_token(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        return ForgeResponse(
            body={"id": 1, "active": True, "scopes": ["read_api" if who.read_only else "api"]}
        )

    def _get_project(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        return ForgeResponse(body=self._bodies.build_project())

    def _get_member(self, who: Identity, asked: ForgeRequest, member: str) -> ForgeResponse:
        for login, level in self._state.people.items():
            if compute_user_id(login) == int(member) and level != "none":
                return ForgeResponse(body=self._bodies.build_member(login))
        raise LookupError(member)

    # Issues

    def _list_issues(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        wanted = {label for label in asked.get_query("labels").split(",") if label}
        found = [
            item
            for item in self._state.issues
            if _is_in_state(item, asked.get_query("state", "all"))
            and wanted <= set(item.labels)
            and format_time(item.updated) >= asked.get_query("updated_after")
        ]
        return self._paginate(asked, [self._bodies.build_issue(item) for item in _sort_items(found, asked)])

    def _get_issue(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        return ForgeResponse(body=self._bodies.build_issue(self._state.get_issue(int(number))))

    def _edit_issue(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item, told = self._state.get_issue(int(number)), asked.json
        self._state.edit(item, by=who.login, title=told.get("title"), text=told.get("description"))
        for label in _parse_labels(told.get("remove_labels")):
            self._state.unlabel(item, label, by=who.login)
        for label in _parse_labels(told.get("add_labels")):
            self._state.label(item, label, by=who.login)
        if told.get("state_event") == "close":
            self._state.close(item, by=who.login)
        return ForgeResponse(body=self._bodies.build_issue(item))

    def _list_label_events(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        return self._paginate(asked, self._bodies.build_label_events(self._state.get_issue(int(number))))

    # Merge requests

    def _list_merge_requests(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        branch, author = asked.get_query("source_branch"), asked.get_query("author_id")
        bodies = [
            self._bodies.build_merge_request(item) for item in _sort_items(list(self._state.pulls), asked)
        ]
        found = [
            body
            for body in bodies
            if asked.get_query("state", "all") in {"all", body["state"]}
            and branch in {"", body["source_branch"]}
            and author in {"", str(body["author"]["id"])}
        ]
        return self._paginate(asked, found)

    def _create_merge_request(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        told = asked.json
        source, target = told["source_branch"], told["target_branch"]
        for branch in (source, target):
            if self._bodies.repository.get_head(branch) is None:
                raise ForgeRefusal(422, "", errors=[f'Branch "{branch}" does not exist'])
        for item in self._state.pulls:
            if item.pull and item.open and item.pull.head == source:
                said = f"Another open merge request already exists for this source branch: !{item.number}"
                raise ForgeRefusal(409, "", errors=[said])
        made = self._state.open_pull(
            told["title"], told.get("description", ""), by=who.login, head=source, base=target
        )
        return ForgeResponse(status=201, body=self._bodies.build_merge_request(made))

    def _get_merge_request(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        return ForgeResponse(body=self._bodies.build_merge_request(self._state.get_pull(int(number))))

    def _edit_merge_request(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item, told = self._state.get_pull(int(number)), asked.json
        self._state.edit(item, by=who.login, title=told.get("title"), text=told.get("description"))
        if "target_branch" in told and item.pull:
            item.pull.base = told["target_branch"]
        if told.get("state_event") == "close":
            self._state.close(item, by=who.login)
        return ForgeResponse(body=self._bodies.build_merge_request(item))

    def _create_discussion(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        """Begin a thread, beside a line only if the diff shows it so."""
        item, told = self._state.get_pull(int(number)), asked.json
        place: dict[str, Any] = {}
        if position := told.get("position"):
            self._refuse_position(item, position)
            place = {"kind": "line", "path": position["new_path"], "line": position["new_line"]}
        note = self._state.comment(item, told["body"], by=who.login, **place)
        return ForgeResponse(status=201, body=self._bodies.build_discussion(item, note))

    def _refuse_position(self, item: Item, position: dict[str, Any]) -> None:
        refs: dict[str, str] = self._bodies.build_diff_refs(item) or {}
        pull, repository = require_pull(item), self._bodies.repository
        shown = parse_diff(repository.git("diff", f"refs/heads/{pull.base}...refs/heads/{pull.head}"))
        file = shown.find(position["new_path"])
        line: int = position["new_line"]
        hunk = file.find_hunk(line, line) if file else None
        wanted: dict[str, object] | None = None
        if hunk is not None and file is not None:
            old_line = hunk.old_lines[line - hunk.start]
            wanted = {**refs, "old_path": file.old_path or file.path, "old_line": old_line}
        if wanted is None or any(position.get(name) != value for name, value in wanted.items()):
            said = 'Bad request - Note {:line_code=>["can\'t be blank", "must be a valid line code"]}'
            raise ForgeRefusal(400, said)

    def _paginate(
        self, asked: ForgeRequest, items: Sequence[Any], *, newest_first: bool = False
    ) -> ForgeResponse:
        if newest_first and asked.get_query("sort", "desc") == "desc":
            items = items[::-1]
        page, headers, last = paginate(asked, items, self._bodies.server)
        number = asked.get_query("page", "1")
        return ForgeResponse(body=page, headers={**headers, "x-page": number, "x-total-pages": str(last)})


def _is_in_state(item: Item, state: str) -> bool:
    return state == "all" or item.open == (state == "opened")


def _sort_items(items: list[Item], asked: ForgeRequest) -> list[Item]:
    by_update = asked.get_query("order_by", "created_at") == "updated_at"
    ordered = sorted(items, key=lambda item: item.updated if by_update else item.created)
    return ordered if asked.get_query("sort", "desc") == "asc" else ordered[::-1]


def _parse_labels(told: Any) -> list[str]:
    return [label.strip() for label in str(told or "").split(",") if label.strip()]
