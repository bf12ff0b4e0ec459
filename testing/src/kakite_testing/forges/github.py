"""A fake GitHub: the operations that an agent needs, over one repository."""

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
from kakite_testing.forges.github_json import (
    GitHubSerializer,
    build_edit_history,
    build_node_id,
    build_user,
    format_time,
)
from kakite_testing.forges.store import ForgeNote, ForgeState, Item, require_pull


class FakeGitHubApi:
    """The API under ``/api/v3``, and ``/api/graphql`` for the two things that it alone can do."""

    prefix = "/api"

    def __init__(self, state: ForgeState, bodies: GitHubSerializer, access: Access) -> None:
        self._state = state
        self._bodies = bodies
        self._access = access
        self.routes: Sequence[Route] = self._build_routes()

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks."""
        return self._access.identify(headers)

    def identify_git(self, username: str, password: str) -> Identity | None:
        """Return who asks by git: the password is the token, the name does not matter."""
        return self._access.find_identity(password) if username else None

    def refuse(self, refusal: ForgeRefusal) -> ForgeResponse:
        """Say no as GitHub does."""
        body: dict[str, Any] = {
            "message": refusal.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": str(refusal.status),
        }
        if refusal.errors:
            body["errors"] = refusal.errors
        return ForgeResponse(status=refusal.status, body=body, headers=refusal.headers)

    def build_rate_headers(self, limit: RateLimit) -> Mapping[str, str]:
        """Return GitHub's five headers."""
        return {
            "x-ratelimit-limit": str(limit.limit),
            "x-ratelimit-remaining": str(limit.remaining),
            "x-ratelimit-used": str(limit.used),
            "x-ratelimit-reset": str(int(limit.reset)),
            "x-ratelimit-resource": "core",
        }

    def build_rate_refusal(self, limit: RateLimit) -> ForgeRefusal:
        """GitHub says 403, not 429."""
        return ForgeRefusal(
            403, "API rate limit exceeded for user ID 1.", headers=self.build_rate_headers(limit)
        )

    def _build_routes(self) -> list[Route]:
        repo = "/v3/repos/{owner}/{repo}"
        issue, pull = f"{repo}/issues/{{number}}", f"{repo}/pulls/{{number}}"
        return [
            build_route("get /v3/user", self._get_user),
            build_route("get /v3/rate_limit", self._get_rate_limit),
            build_route("get /v3/app", self._get_app, "app"),
            build_route(f"get {repo}/installation", self._get_installation, "app"),
            build_route("post /v3/app/installations/{installation}/access_tokens", self._create_token, "app"),
            build_route("post /graphql", self._run_graphql),
            build_route(f"get {repo}", self._restrict_to_repository(self._get_repo)),
            build_route(
                f"get {repo}/collaborators/{{login}}/permission",
                self._restrict_to_repository(self._get_permission),
                "write",
            ),
            build_route(f"get {repo}/issues", self._restrict_to_repository(self._list_issues)),
            build_route(f"get {repo}/issues/comments", self._restrict_to_repository(self._list_all_comments)),
            build_route(
                f"patch {repo}/issues/comments/{{comment}}", self._restrict_to_repository(self._edit_comment)
            ),
            build_route(f"get {issue}", self._restrict_to_repository(self._get_issue)),
            build_route(f"get {issue}/comments", self._restrict_to_repository(self._list_comments)),
            build_route(f"post {issue}/comments", self._restrict_to_repository(self._create_comment)),
            build_route(f"get {issue}/events", self._restrict_to_repository(self._list_events)),
            build_route(f"get {issue}/timeline", self._restrict_to_repository(self._list_events)),
            build_route(f"post {issue}/labels", self._restrict_to_repository(self._add_labels), "write"),
            build_route(
                f"delete {issue}/labels/{{name}}", self._restrict_to_repository(self._drop_label), "write"
            ),
            build_route(f"get {repo}/pulls", self._restrict_to_repository(self._list_pulls)),
            build_route(f"post {repo}/pulls", self._restrict_to_repository(self._create_pull), "write"),
            build_route(f"get {pull}", self._restrict_to_repository(self._get_pull)),
            build_route(f"patch {pull}", self._restrict_to_repository(self._edit_pull), "write"),
            build_route(f"get {pull}/comments", self._restrict_to_repository(self._list_review_comments)),
            build_route(f"get {pull}/reviews", self._restrict_to_repository(self._list_reviews)),
            build_route(f"post {pull}/reviews", self._restrict_to_repository(self._create_review)),
        ]

    def _restrict_to_repository(self, answer: Callable[..., ForgeResponse]) -> Callable[..., ForgeResponse]:
        def check(who: Identity, asked: ForgeRequest, owner: str, repo: str, **parts: str) -> ForgeResponse:
            if (owner.casefold(), repo.casefold()) != (
                self._state.owner.casefold(),
                self._state.name.casefold(),
            ):
                raise LookupError(repo)
            return answer(who, asked, **parts)

        return check

    # Accounts

    def _get_user(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        if who.installation:
            raise ForgeRefusal(403, "Resource not accessible by integration")
        return ForgeResponse(body=build_user(who.login))

    def _get_rate_limit(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        return ForgeResponse(body={"resources": {}})

    def _get_app(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        app = self._access.app(who.app or 0)
        return ForgeResponse(body={"id": app.id, "slug": app.slug, "name": app.slug})

    def _get_installation(self, who: Identity, asked: ForgeRequest, owner: str, repo: str) -> ForgeResponse:
        if (owner, repo) != (self._state.owner, self._state.name):
            raise LookupError(repo)
        return ForgeResponse(body={"id": self._access.app(who.app or 0).installation, "app_id": who.app})

    def _create_token(self, who: Identity, asked: ForgeRequest, installation: str) -> ForgeResponse:
        if int(installation) != self._access.app(who.app or 0).installation:
            raise LookupError(installation)
        token = self._access.grant(who.login, installation=True)
        return ForgeResponse(status=201, body=self._build_token(token))

    def _build_token(self, token: str) -> dict[str, Any]:
        return {
            "token": token,
            "expires_at": self._access.format_expiry(token),
            "permissions": dict(self._access.app_rights),
            "repository_selection": "selected",
        }

    def _get_permission(self, who: Identity, asked: ForgeRequest, login: str) -> ForgeResponse:
        level = self._state.get_level(login)
        return ForgeResponse(body={"permission": level, "role_name": level, "user": build_user(login)})

    def _get_repo(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        return ForgeResponse(body=self._bodies.build_repo())

    # Issues

    def _list_issues(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        wanted = [label.casefold() for label in asked.get_query("labels").split(",") if label]
        found = [
            item
            for item in self._state.items
            if _is_in_state(item, asked.get_query("state", "open"))
            and set(wanted) <= {label.casefold() for label in item.labels}
            and format_time(item.updated) >= asked.get_query("since")
        ]
        return self._paginate(asked, [self._bodies.build_issue(item) for item in _sort_items(found, asked)])

    def _get_issue(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        return ForgeResponse(body=self._bodies.build_issue(self._state.get_issue(int(number))))

    def _list_events(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        return self._paginate(asked, self._bodies.build_events(self._state.get_issue(int(number))))

    def _list_all_comments(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        since = asked.get_query("since")
        found = [
            (item, note)
            for item in self._state.items
            for note in item.notes
            if note.kind == "comment" and format_time(note.updated) >= since
        ]
        found.sort(key=lambda each: each[1].updated, reverse=asked.get_query("direction") == "desc")
        return self._paginate(asked, [self._bodies.build_comment(*each) for each in found])

    def _list_comments(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item = self._state.get_issue(int(number))
        return self._paginate(
            asked, [self._bodies.build_comment(item, note) for note in item.notes if note.kind == "comment"]
        )

    def _create_comment(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item = self._state.get_issue(int(number))
        note = self._state.comment(item, asked.json["body"], by=who.login)
        return ForgeResponse(status=201, body=self._bodies.build_comment(item, note))

    def _edit_comment(self, who: Identity, asked: ForgeRequest, comment: str) -> ForgeResponse:
        item, note = self._find_note(int(comment))
        if note.author != who.login and not self._state.has_level(who.login, "write"):
            raise ForgeRefusal(403, "Must have admin rights to Repository.")
        self._state.edit_comment(item, note, asked.json["body"], by=who.login)
        return ForgeResponse(body=self._bodies.build_comment(item, note))

    def _find_note(self, number: int) -> tuple[Item, ForgeNote]:
        for item in self._state.items:
            for note in item.notes:
                if note.id == number and note.kind == "comment":
                    return item, note
        raise LookupError(number)

    def _add_labels(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item = self._state.get_issue(int(number))
        for label in asked.json["labels"]:
            self._state.label(item, label, by=who.login)
        return ForgeResponse(body=[self._bodies.build_label(name) for name in item.labels])

    def _drop_label(self, who: Identity, asked: ForgeRequest, number: str, name: str) -> ForgeResponse:
        item = self._state.get_issue(int(number))
        if not self._state.unlabel(item, name, by=who.login):
            raise ForgeRefusal(404, "Label does not exist")
        return ForgeResponse(body=[self._bodies.build_label(each) for each in item.labels])

    # Pull requests

    def _list_pulls(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        head = asked.get_query("head").partition(":")[2]
        found = [
            item
            for item in self._state.pulls
            if _is_in_state(item, asked.get_query("state", "open")) and head in {"", require_pull(item).head}
        ]
        return self._paginate(asked, [self._bodies.build_pull(item) for item in _sort_items(found, asked)])

    def _create_pull(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        told = asked.json
        head = told["head"].rpartition(":")[2]
        self._refuse_pull(head, told["base"])
        item = self._state.open_pull(
            told["title"],
            told.get("body") or "",
            by=who.login,
            head=head,
            base=told["base"],
            draft=bool(told.get("draft")),
        )
        return ForgeResponse(status=201, body=self._bodies.build_full_pull(item))

    def _refuse_pull(self, head: str, base: str) -> None:
        for name, branch in (("head", head), ("base", base)):
            if self._bodies.repository.get_head(branch) is None:
                raise _build_invalid({"resource": "PullRequest", "field": name, "code": "invalid"})
        if self._bodies.repository.count_ahead(head, base) == 0:
            raise _build_custom_invalid(f"No commits between {base} and {head}")
        for item in self._state.pulls:
            if item.open and (require_pull(item).head, require_pull(item).base) == (head, base):
                raise _build_custom_invalid(f"A pull request already exists for {self._state.owner}:{head}.")

    def _get_pull(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        return ForgeResponse(body=self._bodies.build_full_pull(self._state.get_pull(int(number))))

    def _edit_pull(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item, told = self._state.get_pull(int(number)), asked.json
        self._state.edit(item, by=who.login, title=told.get("title"), text=told.get("body"))
        if "base" in told:
            if self._bodies.repository.get_head(told["base"]) is None:
                raise _build_invalid({"resource": "PullRequest", "field": "base", "code": "invalid"})
            require_pull(item).base = told["base"]
        if told.get("state") == "closed":
            self._state.close(item, by=who.login)
        return ForgeResponse(body=self._bodies.build_full_pull(item))

    def _list_review_comments(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item = self._state.get_pull(int(number))
        return self._paginate(
            asked,
            [self._bodies.build_review_comment(item, note) for note in item.notes if note.kind == "line"],
        )

    def _list_reviews(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        item = self._state.get_pull(int(number))
        return self._paginate(
            asked, [self._bodies.build_review(item, note) for note in item.notes if note.kind == "review"]
        )

    def _create_review(self, who: Identity, asked: ForgeRequest, number: str) -> ForgeResponse:
        """Take all of a review, or refuse all of it: as GitHub does where a line is not in the diff."""
        item, told = self._state.get_pull(int(number)), asked.json
        pull, repository = require_pull(item), self._bodies.repository
        if told.get("commit_id") != repository.get_head(pull.head):
            raise _build_invalid({"resource": "PullRequestReview", "field": "commit_id", "code": "invalid"})
        shown = parse_diff(repository.git("diff", f"refs/heads/{pull.base}...refs/heads/{pull.head}"))
        for each in told.get("comments", ()):
            file, start = shown.find(each["path"]), each.get("start_line", each["line"])
            if file is None or file.find_hunk(start, each["line"]) is None:
                raise ForgeRefusal(422, "Unprocessable Entity", errors=["Line could not be resolved"])
        for each in told.get("comments", ()):
            place = {"path": each["path"], "line": each["line"]}
            self._state.comment(item, each["body"], by=who.login, kind="line", **place)
        note = self._state.comment(item, told["body"], by=who.login, kind="review")
        return ForgeResponse(body=self._bodies.build_review(item, note))

    # GraphQL: the history of a text, and drafts, which the REST API does not have

    def _run_graphql(self, who: Identity, asked: ForgeRequest) -> ForgeResponse:
        query = str(asked.json["query"])
        values: dict[str, Any] = asked.json.get("variables") or {}
        if "viewer" in query:
            return ForgeResponse(body={"data": {"viewer": {"login": who.login}}})
        if "userContentEdits" in query:
            item = self._state.get_issue(values["number"])
            history = {
                "nodes": build_edit_history(item),
                "pageInfo": {"hasNextPage": False, "endCursor": None},
            }
            return ForgeResponse(body={"data": {"repository": {"issue": {"userContentEdits": history}}}})
        for mutation, draft in (
            ("markPullRequestReadyForReview", False),
            ("convertPullRequestToDraft", True),
        ):
            if mutation in query:
                return self._set_draft(who, mutation, values["request"], draft=draft)
        return ForgeResponse(body={"errors": [{"message": "the fake does not know this query"}]})

    def _set_draft(self, who: Identity, mutation: str, node: str, *, draft: bool) -> ForgeResponse:
        if who.read_only or not self._state.has_level(who.login, "write"):
            error = {"type": "FORBIDDEN", "message": "Resource not accessible by personal access token"}
            return ForgeResponse(body={"data": {mutation: None}, "errors": [error]})
        item = next(each for each in self._state.pulls if build_node_id(each) == node)
        require_pull(item).draft = draft
        return ForgeResponse(body={"data": {mutation: {"pullRequest": {"isDraft": draft}}}})

    def _paginate(self, asked: ForgeRequest, items: Sequence[Any]) -> ForgeResponse:
        page, headers, _ = paginate(asked, items, self._bodies.server)
        return ForgeResponse(body=page, headers=headers)


def _is_in_state(item: Item, state: str) -> bool:
    return state == "all" or item.open == (state == "open")


def _sort_items(items: list[Item], asked: ForgeRequest) -> list[Item]:
    by_update = asked.get_query("sort", "created") == "updated"
    ordered = sorted(items, key=lambda item: item.updated if by_update else item.created)
    return ordered if asked.get_query("direction", "desc") == "asc" else ordered[::-1]


def _build_invalid(error: dict[str, str]) -> ForgeRefusal:
    return ForgeRefusal(422, "Validation Failed", errors=[error])


def _build_custom_invalid(message: str) -> ForgeRefusal:
    return _build_invalid({"resource": "PullRequest", "code": "custom", "message": message})
