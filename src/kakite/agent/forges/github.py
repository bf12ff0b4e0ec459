"""GitHub's API as values: REST, and GraphQL for the edit history of texts and for drafts.

Reads only the fields that are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from kakite.agent.forges.base import (
    Comment,
    ForgeCode,
    ForgeError,
    GitCredentials,
    Issue,
    IssueEvent,
    PullRequest,
    Repository,
)
from kakite.agent.forges.github_session import GitHubApp, GitHubSession, GitHubToken
from kakite.agent.forges.http_client import ApiRequest, ForgeClient, RetryPolicy, ignore, make_forge_error
from kakite.agent.forges.rest import (
    GHOST,
    FoundRequest,
    PostedText,
    ThreadKind,
    parse_edit_time,
    parse_text,
    parse_time,
    to_repository,
)
from kakite.agent.forges.reviews import ReviewComment, ReviewTarget, format_suggestion_block

API_URL: Final = "https://api.github.com"
_FORGE: Final = "GitHub"
_WRITERS: Final = frozenset({"admin", "maintain", "write"})
_RIGHTS: Final = ("contents", "issues", "pull_requests")
_REFUSALS: Final[Mapping[str, ForgeCode]] = {
    "FORBIDDEN": "forge_forbidden",
    "NOT_FOUND": "forge_not_found",
    "RATE_LIMITED": "forge_rate_limited",
}
# Three kinds of things have numbers of their own.
_REMARK: Final = "remark-"
_REVIEW: Final = "review-"
_VIEWER: Final = "query { viewer { login } }"
_EDITS: Final = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    issue(number: $number) {
      userContentEdits(first: 100, after: $after) {
        nodes { editedAt editor { login } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
"""
# The one change of a pull request that only GraphQL can make.
_SET_DRAFT: Final = """
mutation($request: ID!) {{
  {}(input: {{pullRequestId: $request}}) {{ pullRequest {{ isDraft }} }}
}}
"""
_DRAFTS: Final = {False: "markPullRequestReadyForReview", True: "convertPullRequestToDraft"}

T = TypeVar("T")


class GitHubApi:
    """One repository on GitHub, or on a GitHub Enterprise Server."""

    name = "github"
    longest = 65_536
    ignores_label_case = True
    rights_hint = "give it read and write access to contents, issues and pull requests"

    def __init__(
        self,
        path: str,
        access: GitHubToken | GitHubApp,
        *,
        api_url: str = API_URL,
        patience: RetryPolicy | None = None,
        between_writes: float = 1.0,
    ) -> None:
        """Take a repository; nothing is asked yet.

        Args:
            path: ``owner/name``.
            access: a token, or an App that is installed there.
            api_url: the base address of the API; ``https://HOST/api/v3`` of an Enterprise Server.
            patience: how long to wait for it.
            between_writes: seconds; GitHub asks for one between two changes.
        """
        patience = patience or RetryPolicy()
        self.path = path
        self._session = GitHubSession(
            path, access, api_url=api_url, timeout=patience.timeout, between_writes=between_writes
        )
        self.client = ForgeClient(_FORGE, self._session.send, patience)
        self._owner, _, self._name = path.partition("/")
        self._root = f"/repos/{quote(self._owner, safe='')}/{quote(self._name, safe='')}"

    async def fetch_account(self) -> str:
        """Return the name of the token's account, or of the App's."""
        if self._session.is_app:
            return f"{await self.client.run_exclusive(self._session.get_slug)}[bot]"
        if self._session.is_installation:
            # REST tells an installation nothing of itself.
            return await self.client.retry(lambda: self._query_graphql(_VIEWER, {}, _parse_viewer))
        return await self.client.get("/user", lambda body: str(body["login"]))

    async def find_obstacle(self) -> str:
        """Return why nobody can work in this repository; empty if nothing is."""
        return await self.client.get(self._root, _parse_obstacle)

    async def check_token(self) -> bool | None:
        """Return whether an App may do what is needed; None for a token of a person.

        GitHub tells no rights of a token that a job of GitHub Actions was given: it refuses what is too much.
        """
        if not self._session.is_app:
            return True if self._session.is_installation else None
        rights = await self.client.run_exclusive(self._session.get_permissions)
        return all(rights.get(each) == "write" for each in _RIGHTS)

    async def fetch_repository(self) -> Repository:
        """Return where the code is, with a token that holds for some minutes at least."""
        repository = await self.client.get(
            self._root, lambda body: to_repository(body["clone_url"], body["default_branch"])
        )
        token = await self.client.run_exclusive(self._session.get_token)
        return replace(repository, credentials=GitCredentials("x-access-token", token))

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody may write, by the permission that GitHub tells of them."""
        place = f"{self._root}/collaborators/{quote(actor, safe='')}/permission"
        return await self.client.get(place, lambda body: str(body["permission"])) in _WRITERS

    async def list_labelled_issues(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        found = await self.client.get_all(
            f"{self._root}/issues", _parse_issue_number, state="open", labels=label
        )
        return {number for number in found if number is not None}

    async def list_texts_since(self, since: str) -> Sequence[PostedText]:
        """Return the texts of open issues and the comments that were written or changed since."""
        asked = {"since": since, "sort": "updated", "direction": "asc"}
        issues = await self.client.get_all(f"{self._root}/issues", _parse_posted_text, state="open", **asked)
        comments = await self.client.get_all(f"{self._root}/issues/comments", _parse_posted_text, **asked)
        return [each for each in [*issues, *comments] if each is not None]

    async def list_label_events(self, number: int) -> Sequence[tuple[str, IssueEvent]]:
        """Return the labels that were ever set, the oldest first."""
        events = await self.client.get_all(f"{self._root}/issues/{number}/events", _parse_label_event)
        return [each for each in events if each is not None]

    async def fetch_issue(self, number: int) -> Issue:
        """Return an issue without its revisions and comments."""
        return await self.client.get(f"{self._root}/issues/{number}", lambda body: _parse_issue(number, body))

    async def fetch_thread(self, issue: Issue) -> tuple[Sequence[IssueEvent], Sequence[Comment]]:
        """Return the revisions of an issue, and all comments below it."""
        comments = await self.list_comments("issue", issue.number)
        return await self._list_revisions(issue), comments

    async def change_labels(self, number: int, *, add: Sequence[str], remove: Sequence[str]) -> None:
        """Set labels in one request, then take others away in one request each."""
        place = f"{self._root}/issues/{number}/labels"
        if add:
            await self.client.write("POST", place, ignore, {"labels": list(add)})
        for label in remove:
            try:
                await self.client.write("DELETE", f"{place}/{quote(label, safe='')}", ignore)
            except ForgeError as error:
                if error.code != "forge_not_found":  # somebody has taken it away meanwhile
                    raise

    async def list_comments(self, kind: ThreadKind, number: int) -> Sequence[Comment]:
        """Return the comments below an issue; a pull request is an issue with something more."""
        del kind
        return await self.client.get_all(f"{self._root}/issues/{number}/comments", _parse_comment)

    async def save_comment(self, kind: ThreadKind, number: int, present: Comment | None, text: str) -> str:
        """Leave a comment with this text, in place of the one that is present. Returns its address."""
        del kind
        wanted = {"body": text}
        if present is None:
            place = f"{self._root}/issues/{number}/comments"
            return await self.client.write("POST", place, lambda body: str(body["html_url"]), wanted)
        if present.text != text:
            await self.client.write("PATCH", f"{self._root}/issues/comments/{present.id}", ignore, wanted)
        return present.address

    async def list_remarks(self, number: int) -> Sequence[Comment]:
        """Return the comments below a pull request, those beside its lines, and the texts of reviews."""
        pull = f"{self._root}/pulls/{number}"
        comments = await self.list_comments("request", number)
        beside = await self.client.get_all(f"{pull}/comments", _parse_remark)
        reviews = await self.client.get_all(f"{pull}/reviews", _parse_review)
        found = [*comments, *beside, *(each for each in reviews if each is not None)]
        return sorted(found, key=lambda each: each.created)

    async def fetch_review_target(self, number: int) -> ReviewTarget:
        """Return a pull request with its commits."""
        return await self.client.get(f"{self._root}/pulls/{number}", _parse_review_target)

    def format_suggestion(self, start: int, end: int, lines: Sequence[str]) -> str:
        """Return the block that the page offers to apply to the lines of its remark."""
        del start, end
        return format_suggestion_block("suggestion", lines)

    async def create_review(self, target: ReviewTarget, text: str, remarks: Sequence[ReviewComment]) -> str:
        """Write a review that neither approves nor blocks, with all its remarks, in one request."""
        wanted: dict[str, Any] = {"commit_id": target.head, "event": "COMMENT", "body": text}
        if remarks:
            wanted["comments"] = [_to_review_comment(each) for each in remarks]
        place = f"{self._root}/pulls/{target.request.number}/reviews"
        return await self.client.write("POST", place, lambda body: str(body["html_url"]), wanted)

    async def fetch_request(self, number: int) -> FoundRequest:
        """Return a pull request."""
        return await self.client.get(f"{self._root}/pulls/{number}", _parse_request)

    async def list_requests(self, state: Literal["open", "all"], branch: str = "") -> Sequence[FoundRequest]:
        """Return the pull requests, of one branch or of all."""
        query = {"head": f"{self._owner}:{branch}"} if branch else {}
        found = await self.client.get_all(f"{self._root}/pulls", _parse_request, state=state, **query)
        # An Enterprise Server takes a `head` that it cannot read for none, and tells of all.
        return [each for each in found if branch in {"", each.request.branch}]

    def to_fields(self, *, title: str, text: str, base: str, draft: bool) -> dict[str, Any]:
        """Return what a pull request is to have, by GitHub's names."""
        return {"title": title, "body": text, "base": base, "draft": draft}

    async def create_request(self, branch: str, fields: Mapping[str, Any]) -> FoundRequest:
        """Make a pull request."""
        return await self.client.write(
            "POST", f"{self._root}/pulls", _parse_request, {**fields, "head": branch}
        )

    async def change_request(self, found: FoundRequest, fields: Mapping[str, Any]) -> FoundRequest:
        """Change these fields of a pull request."""
        plain = {name: value for name, value in fields.items() if name != "draft"}
        if plain:
            place = f"{self._root}/pulls/{found.request.number}"
            found = await self.client.write("PATCH", place, _parse_request, plain)
        if "draft" in fields:
            mutation = _SET_DRAFT.format(_DRAFTS[fields["draft"]])
            await self._query_graphql(mutation, {"request": found.fields["node_id"]}, ignore)
            found = replace(found, request=replace(found.request, draft=fields["draft"]))
        return found

    async def _list_revisions(self, issue: Issue) -> list[IssueEvent]:
        edits = await self._list_text_edits(issue.number)
        renamings = await self.client.get_all(f"{self._root}/issues/{issue.number}/events", _parse_renaming)
        # The history of a text that was changed begins with its first writing.
        later = {each for each in (*edits, *renamings) if each is not None and each.at > issue.created}
        return sorted(later, key=lambda each: (each.at, each.actor))

    async def _list_text_edits(self, number: int) -> list[IssueEvent]:
        found: list[IssueEvent] = []
        after: str | None = None
        while True:
            values = {"owner": self._owner, "name": self._name, "number": number, "after": after}
            edits, after = await self.client.retry(
                lambda values=values: self._query_graphql(_EDITS, values, _parse_edits)
            )
            found += edits
            if after is None:
                return found

    async def _query_graphql(self, query: str, values: dict[str, Any], parse: Callable[[Any], T]) -> T:
        return await self.client.write(
            "POST",
            "/graphql",
            lambda body: parse(_unwrap_graphql(body)),
            {"query": query, "variables": values},
        )


def _unwrap_graphql(body: Any) -> Any:
    """Return what a query of GraphQL is answered with.

    Raises:
        ForgeError: it is refused.
    """
    errors = body.get("errors")
    if not errors:
        return body["data"]
    code: ForgeCode = _REFUSALS.get(str(errors[0].get("type", "")), "forge_rejected")
    asked = ApiRequest(method="POST", path="/graphql")
    raise make_forge_error(code, _FORGE, asked, str(errors[0]["message"]))


def _parse_edits(data: Any) -> tuple[list[IssueEvent], str | None]:
    """Return a page of changes of a text, and where the next one begins."""
    edits = data["repository"]["issue"]["userContentEdits"]
    if not edits:
        return [], None
    page = edits["pageInfo"]
    found = [_to_event(each["editor"], each["editedAt"]) for each in edits["nodes"]]
    return found, str(page["endCursor"]) if page["hasNextPage"] else None


def _parse_viewer(data: Any) -> str:
    return str(data["viewer"]["login"])


def _parse_login(user: Any) -> str:
    return str(user["login"]) if user else GHOST


def _parse_obstacle(body: Any) -> str:
    if body.get("archived"):
        return "is archived"
    return "" if body.get("has_issues", True) else "has no issues"


def _parse_issue_number(body: Any) -> int | None:
    """Return the number of an issue, or of the one that a comment is below; None of a pull request."""
    if "pull_request" in body:
        return None
    return int(body["number"]) if "number" in body else int(str(body["issue_url"]).rpartition("/")[2])


def _parse_posted_text(body: Any) -> PostedText | None:
    number, at = _parse_issue_number(body), parse_time(body["updated_at"])
    return None if number is None else (number, parse_text(body["body"]), at)


def _parse_label_event(body: Any) -> tuple[str, IssueEvent] | None:
    if body["event"] != "labeled":
        return None
    return str(body["label"]["name"]), _to_event(body["actor"], body["created_at"])


def _parse_renaming(body: Any) -> IssueEvent | None:
    return _to_event(body["actor"], body["created_at"]) if body["event"] == "renamed" else None


def _to_event(user: Any, at: Any) -> IssueEvent:
    return IssueEvent(actor=_parse_login(user), at=parse_time(at))


def _parse_issue(number: int, body: Any) -> Issue:
    # One that was moved to another repository is another issue there, and we were led to it.
    wrong = "a pull request" if "pull_request" in body else "moved" if int(body["number"]) != number else ""
    if wrong:
        asked = ApiRequest(method="GET", path=f"#{number}")
        raise make_forge_error("forge_not_found", _FORGE, asked, wrong)
    return Issue(
        number=number,
        title=str(body["title"]),
        text=parse_text(body["body"]),
        author=_parse_login(body["user"]),
        created=parse_time(body["created_at"]),
        labels=frozenset(str(each["name"]) for each in body["labels"]),
        assignees=frozenset(_parse_login(each) for each in body["assignees"]),
        open=body["state"] == "open",
        address=str(body["html_url"]),
        updated=parse_time(body["updated_at"]),
    )


def _parse_comment(body: Any) -> Comment:
    return Comment(
        id=str(int(body["id"])),
        author=_parse_login(body["user"]),
        text=parse_text(body["body"]),
        created=parse_time(body["created_at"]),
        edited=parse_edit_time(body),
        address=str(body["html_url"]),
    )


def _parse_remark(body: Any) -> Comment:
    line = body.get("line")
    return Comment(
        id=f"{_REMARK}{int(body['id'])}",
        author=_parse_login(body["user"]),
        text=parse_text(body["body"]),
        created=parse_time(body["created_at"]),
        path=str(body.get("path") or ""),
        line=None if line is None else int(line),
    )


def _parse_review(body: Any) -> Comment | None:
    """Return the text of a review. One that is being written has no time yet; only its author sees it."""
    text, at = parse_text(body["body"]), body.get("submitted_at")
    if not text.strip() or not at:
        return None
    return Comment(
        id=f"{_REVIEW}{int(body['id'])}",
        author=_parse_login(body["user"]),
        text=text,
        created=parse_time(at),
    )


def _parse_review_target(body: Any) -> ReviewTarget:
    request = _parse_request(body).request
    return ReviewTarget(
        request=request,
        head=str(body["head"]["sha"]),
        base=str(body["base"]["sha"]),
        reference=f"refs/pull/{request.number}/head",
    )


def _to_review_comment(remark: ReviewComment) -> dict[str, Any]:
    place: dict[str, Any] = {"path": remark.path, "line": remark.end, "side": "RIGHT", "body": remark.text}
    if remark.start < remark.end:  # one line has no beginning of its own there
        place |= {"start_line": remark.start, "start_side": "RIGHT"}
    return place


def _parse_request(body: Any) -> FoundRequest:
    draft, text, base = bool(body.get("draft")), parse_text(body["body"]), str(body["base"]["ref"])
    title, node_id = str(body["title"]), str(body["node_id"])
    return FoundRequest(
        request=PullRequest(
            number=int(body["number"]),
            branch=str(body["head"]["ref"]),
            base=base,
            state="open" if body["state"] == "open" else "merged" if body.get("merged_at") else "closed",
            draft=draft,
            title=title,
            text=text,
            address=str(body["html_url"]),
        ),
        author=_parse_login(body["user"]),
        fields={"title": title, "body": text, "base": base, "draft": draft, "node_id": node_id},
    )
