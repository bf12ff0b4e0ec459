"""A fake GitHub: the operations that an agent needs, over one repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kakite.testing.forges.front import Rate
from kakite.testing.forges.github_access import Access
from kakite.testing.forges.github_bodies import GitHubBodies, edits, node_id, pull_of, stamp, user
from kakite.testing.forges.state import Item, Ledger, Note
from kakite.testing.forges.wire import Asked, Identity, Refusal, Reply, Route, paged, route


class GitHubFace:
    """The API under ``/api/v3``, and ``/api/graphql`` for the two things that it alone can do."""

    prefix = "/api"

    def __init__(self, ledger: Ledger, bodies: GitHubBodies, access: Access) -> None:
        self._ledger = ledger
        self._bodies = bodies
        self._access = access
        self.routes: Sequence[Route] = self._routes()

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks."""
        return self._access.identify(headers)

    def identify_git(self, username: str, password: str) -> Identity | None:
        """Return who asks by git: the password is the token, the name does not matter."""
        return self._access.whose(password) if username else None

    def refuse(self, refusal: Refusal) -> Reply:
        """Say no as GitHub does."""
        body: dict[str, Any] = {
            "message": refusal.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": str(refusal.status),
        }
        if refusal.errors:
            body["errors"] = refusal.errors
        return Reply(status=refusal.status, body=body, headers=refusal.headers)

    def rate(self, limit: Rate) -> Mapping[str, str]:
        """Return GitHub's five headers."""
        return {
            "x-ratelimit-limit": str(limit.limit),
            "x-ratelimit-remaining": str(limit.remaining),
            "x-ratelimit-used": str(limit.used),
            "x-ratelimit-reset": str(int(limit.reset)),
            "x-ratelimit-resource": "core",
        }

    def exhausted(self, limit: Rate) -> Refusal:
        """GitHub says 403, not 429."""
        return Refusal(403, "API rate limit exceeded for user ID 1.", headers=self.rate(limit))

    def _routes(self) -> list[Route]:
        repo = "/v3/repos/{owner}/{repo}"
        issue, pull = f"{repo}/issues/{{number}}", f"{repo}/pulls/{{number}}"
        return [
            route("get /v3/user", self._user),
            route("get /v3/rate_limit", self._rate_limit),
            route("get /v3/app", self._app, "app"),
            route(f"get {repo}/installation", self._installation, "app"),
            route("post /v3/app/installations/{installation}/access_tokens", self._new_token, "app"),
            route("post /graphql", self._graphql),
            route(f"get {repo}", self._ours(self._repo)),
            route(f"get {repo}/collaborators/{{login}}/permission", self._ours(self._permission), "write"),
            route(f"get {repo}/issues", self._ours(self._issues)),
            route(f"get {repo}/issues/comments", self._ours(self._all_comments)),
            route(f"patch {repo}/issues/comments/{{comment}}", self._ours(self._edit_comment)),
            route(f"get {issue}", self._ours(self._issue)),
            route(f"get {issue}/comments", self._ours(self._comments)),
            route(f"post {issue}/comments", self._ours(self._new_comment)),
            route(f"get {issue}/events", self._ours(self._events)),
            route(f"get {issue}/timeline", self._ours(self._events)),
            route(f"post {issue}/labels", self._ours(self._add_labels), "write"),
            route(f"delete {issue}/labels/{{name}}", self._ours(self._drop_label), "write"),
            route(f"get {repo}/pulls", self._ours(self._pulls)),
            route(f"post {repo}/pulls", self._ours(self._new_pull), "write"),
            route(f"get {pull}", self._ours(self._pull)),
            route(f"patch {pull}", self._ours(self._edit_pull), "write"),
            route(f"get {pull}/comments", self._ours(self._remarks)),
            route(f"get {pull}/reviews", self._ours(self._reviews)),
        ]

    def _ours(self, answer: Callable[..., Reply]) -> Callable[..., Reply]:
        def check(who: Identity, asked: Asked, owner: str, repo: str, **parts: str) -> Reply:
            if (owner.casefold(), repo.casefold()) != (
                self._ledger.owner.casefold(),
                self._ledger.name.casefold(),
            ):
                raise LookupError(repo)
            return answer(who, asked, **parts)

        return check

    # Accounts

    def _user(self, who: Identity, asked: Asked) -> Reply:
        if who.installation:
            raise Refusal(403, "Resource not accessible by integration")
        return Reply(body=user(who.login))

    def _rate_limit(self, who: Identity, asked: Asked) -> Reply:
        return Reply(body={"resources": {}})

    def _app(self, who: Identity, asked: Asked) -> Reply:
        app = self._access.app(who.app or 0)
        return Reply(body={"id": app.id, "slug": app.slug, "name": app.slug})

    def _installation(self, who: Identity, asked: Asked, owner: str, repo: str) -> Reply:
        if (owner, repo) != (self._ledger.owner, self._ledger.name):
            raise LookupError(repo)
        return Reply(body={"id": self._access.app(who.app or 0).installation, "app_id": who.app})

    def _new_token(self, who: Identity, asked: Asked, installation: str) -> Reply:
        if int(installation) != self._access.app(who.app or 0).installation:
            raise LookupError(installation)
        token = self._access.grant(who.login, installation=True)
        return Reply(status=201, body=self._told_token(token))

    def _told_token(self, token: str) -> dict[str, Any]:
        return {
            "token": token,
            "expires_at": self._access.expiry(token),
            "permissions": dict(self._access.app_rights),
            "repository_selection": "selected",
        }

    def _permission(self, who: Identity, asked: Asked, login: str) -> Reply:
        level = self._ledger.level(login)
        return Reply(body={"permission": level, "role_name": level, "user": user(login)})

    def _repo(self, who: Identity, asked: Asked) -> Reply:
        return Reply(body=self._bodies.repo())

    # Issues

    def _issues(self, who: Identity, asked: Asked) -> Reply:
        wanted = [label.casefold() for label in asked.value("labels").split(",") if label]
        found = [
            item
            for item in self._ledger.items
            if _in_state(item, asked.value("state", "open"))
            and set(wanted) <= {label.casefold() for label in item.labels}
            and stamp(item.updated) >= asked.value("since")
        ]
        return self._page(asked, [self._bodies.issue(item) for item in _sorted(found, asked)])

    def _issue(self, who: Identity, asked: Asked, number: str) -> Reply:
        return Reply(body=self._bodies.issue(self._ledger.issue(int(number))))

    def _events(self, who: Identity, asked: Asked, number: str) -> Reply:
        return self._page(asked, self._bodies.events(self._ledger.issue(int(number))))

    def _all_comments(self, who: Identity, asked: Asked) -> Reply:
        since = asked.value("since")
        found = [
            (item, note)
            for item in self._ledger.items
            for note in item.notes
            if note.kind == "comment" and stamp(note.updated) >= since
        ]
        found.sort(key=lambda each: each[1].updated, reverse=asked.value("direction") == "desc")
        return self._page(asked, [self._bodies.comment(*each) for each in found])

    def _comments(self, who: Identity, asked: Asked, number: str) -> Reply:
        item = self._ledger.issue(int(number))
        return self._page(
            asked, [self._bodies.comment(item, note) for note in item.notes if note.kind == "comment"]
        )

    def _new_comment(self, who: Identity, asked: Asked, number: str) -> Reply:
        item = self._ledger.issue(int(number))
        note = self._ledger.comment(item, asked.json["body"], by=who.login)
        return Reply(status=201, body=self._bodies.comment(item, note))

    def _edit_comment(self, who: Identity, asked: Asked, comment: str) -> Reply:
        item, note = self._find_note(int(comment))
        if note.author != who.login and not self._ledger.may(who.login, "write"):
            raise Refusal(403, "Must have admin rights to Repository.")
        self._ledger.edit_comment(item, note, asked.json["body"], by=who.login)
        return Reply(body=self._bodies.comment(item, note))

    def _find_note(self, number: int) -> tuple[Item, Note]:
        for item in self._ledger.items:
            for note in item.notes:
                if note.id == number and note.kind == "comment":
                    return item, note
        raise LookupError(number)

    def _add_labels(self, who: Identity, asked: Asked, number: str) -> Reply:
        item = self._ledger.issue(int(number))
        for label in asked.json["labels"]:
            self._ledger.label(item, label, by=who.login)
        return Reply(body=[self._bodies.label(name) for name in item.labels])

    def _drop_label(self, who: Identity, asked: Asked, number: str, name: str) -> Reply:
        item = self._ledger.issue(int(number))
        if not self._ledger.unlabel(item, name, by=who.login):
            raise Refusal(404, "Label does not exist")
        return Reply(body=[self._bodies.label(each) for each in item.labels])

    # Pull requests

    def _pulls(self, who: Identity, asked: Asked) -> Reply:
        head = asked.value("head").partition(":")[2]
        found = [
            item
            for item in self._ledger.pulls
            if _in_state(item, asked.value("state", "open")) and head in {"", pull_of(item).head}
        ]
        return self._page(asked, [self._bodies.pull(item) for item in _sorted(found, asked)])

    def _new_pull(self, who: Identity, asked: Asked) -> Reply:
        told = asked.json
        head = told["head"].rpartition(":")[2]
        self._refuse_pull(head, told["base"])
        item = self._ledger.open_pull(
            told["title"],
            told.get("body") or "",
            by=who.login,
            head=head,
            base=told["base"],
            draft=bool(told.get("draft")),
        )
        return Reply(status=201, body=self._bodies.whole_pull(item))

    def _refuse_pull(self, head: str, base: str) -> None:
        for name, branch in (("head", head), ("base", base)):
            if self._bodies.repository.head(branch) is None:
                raise _invalid({"resource": "PullRequest", "field": name, "code": "invalid"})
        if self._bodies.repository.ahead(head, base) == 0:
            raise _custom(f"No commits between {base} and {head}")
        for item in self._ledger.pulls:
            if item.open and (pull_of(item).head, pull_of(item).base) == (head, base):
                raise _custom(f"A pull request already exists for {self._ledger.owner}:{head}.")

    def _pull(self, who: Identity, asked: Asked, number: str) -> Reply:
        return Reply(body=self._bodies.whole_pull(self._ledger.pull(int(number))))

    def _edit_pull(self, who: Identity, asked: Asked, number: str) -> Reply:
        item, told = self._ledger.pull(int(number)), asked.json
        self._ledger.edit(item, by=who.login, title=told.get("title"), text=told.get("body"))
        if "base" in told:
            if self._bodies.repository.head(told["base"]) is None:
                raise _invalid({"resource": "PullRequest", "field": "base", "code": "invalid"})
            pull_of(item).base = told["base"]
        if told.get("state") == "closed":
            self._ledger.close(item, by=who.login)
        return Reply(body=self._bodies.whole_pull(item))

    def _remarks(self, who: Identity, asked: Asked, number: str) -> Reply:
        item = self._ledger.pull(int(number))
        return self._page(
            asked, [self._bodies.remark(item, note) for note in item.notes if note.kind == "line"]
        )

    def _reviews(self, who: Identity, asked: Asked, number: str) -> Reply:
        item = self._ledger.pull(int(number))
        return self._page(
            asked, [self._bodies.review(item, note) for note in item.notes if note.kind == "review"]
        )

    # GraphQL: the history of a text, and drafts, which the REST API does not have

    def _graphql(self, who: Identity, asked: Asked) -> Reply:
        query = str(asked.json["query"])
        values: dict[str, Any] = asked.json.get("variables") or {}
        if "userContentEdits" in query:
            item = self._ledger.issue(values["number"])
            history = {"nodes": edits(item), "pageInfo": {"hasNextPage": False, "endCursor": None}}
            return Reply(body={"data": {"repository": {"issue": {"userContentEdits": history}}}})
        for mutation, draft in (
            ("markPullRequestReadyForReview", False),
            ("convertPullRequestToDraft", True),
        ):
            if mutation in query:
                return self._set_draft(who, mutation, values["request"], draft=draft)
        return Reply(body={"errors": [{"message": "the fake does not know this query"}]})

    def _set_draft(self, who: Identity, mutation: str, node: str, *, draft: bool) -> Reply:
        if who.read_only or not self._ledger.may(who.login, "write"):
            error = {"type": "FORBIDDEN", "message": "Resource not accessible by personal access token"}
            return Reply(body={"data": {mutation: None}, "errors": [error]})
        item = next(each for each in self._ledger.pulls if node_id(each) == node)
        pull_of(item).draft = draft
        return Reply(body={"data": {mutation: {"pullRequest": {"isDraft": draft}}}})

    def _page(self, asked: Asked, items: Sequence[Any]) -> Reply:
        page, headers, _ = paged(asked, items, self._bodies.server)
        return Reply(body=page, headers=headers)


def _in_state(item: Item, state: str) -> bool:
    return state == "all" or item.open == (state == "open")


def _sorted(items: list[Item], asked: Asked) -> list[Item]:
    by_update = asked.value("sort", "created") == "updated"
    ordered = sorted(items, key=lambda item: item.updated if by_update else item.created)
    return ordered if asked.value("direction", "desc") == "asc" else ordered[::-1]


def _invalid(error: dict[str, str]) -> Refusal:
    return Refusal(422, "Validation Failed", errors=[error])


def _custom(message: str) -> Refusal:
    return _invalid({"resource": "PullRequest", "code": "custom", "message": message})
