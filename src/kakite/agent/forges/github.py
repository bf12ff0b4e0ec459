"""GitHub as a forge, through its REST API, and GraphQL for the edit history of texts.

GitHubReader parses answers into our values; it reads only the fields that are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kakite.agent.forges.base import (
    Comment,
    ForgeCode,
    ForgeError,
    GitCredentials,
    Issue,
    IssueEvent,
    PullRequest,
    Repository,
    ReviewComment,
    Trigger,
)
from kakite.agent.forges.github_api import GitHubApp, GitHubSession, GitHubToken
from kakite.agent.forges.http_client import (
    ApiRequest,
    ForgeClient,
    RetryPolicy,
    guard_parsing,
    make_forge_error,
)
from kakite.agent.forges.labels import (
    IssueState,
    LabelConfig,
    format_marker,
    parse_handled_ids,
    parse_marker,
    parse_markers,
)
from kakite.agent.forges.triggers import (
    FetchedIssue,
    Poller,
    PostedText,
    Review,
    WriteAccessCache,
    add_issue_marker,
    parse_issue_marker,
    strip_issue_marker,
)

_GHOST: Final = "ghost"  # stands for those whose account is gone
_WRITERS: Final = frozenset({"admin", "maintain", "write"})
_REFUSALS: Final[Mapping[str, ForgeCode]] = {
    "FORBIDDEN": "forge_forbidden",
    "NOT_FOUND": "forge_not_found",
    "RATE_LIMITED": "forge_rate_limited",
}
# Three kinds of things have numbers of their own.
_REMARK: Final = "remark-"
_REVIEW: Final = "review-"
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


class GitHubReader:
    """Reads one repository."""

    def __init__(self, path: str, exchange: ForgeClient, session: GitHubSession) -> None:
        self._owner, _, self._name = path.partition("/")
        self.root = f"/repos/{quote(self._owner, safe='')}/{quote(self._name, safe='')}"
        """Where the repository is in the API."""
        self._exchange = exchange
        self._session = session
        self._account = ""

    async def get_account(self) -> str:
        """Return the account that our token writes as."""
        if not self._account and self._session.is_app:
            self._account = f"{await self._exchange.run_exclusive(self._session.get_slug)}[bot]"
        elif not self._account:
            body = await self._exchange.get("/user")
            with guard_parsing(_FORGE, "the token's account"):
                self._account = str(body["login"])
        return self._account

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody may write, by the permission that GitHub tells of them."""
        if actor == _GHOST:
            return False
        try:
            body = await self._exchange.get(f"{self.root}/collaborators/{quote(actor, safe='')}/permission")
        except ForgeError as error:
            if error.code == "forge_not_found":  # no such account any more
                return False
            raise
        with guard_parsing(_FORGE, "a permission"):
            return str(body["permission"]) in _WRITERS

    async def list_labelled_issues(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        found = await self._exchange.get_all_pages(f"{self.root}/issues", state="open", labels=label)
        with guard_parsing(_FORGE, "issues"):
            return {int(each["number"]) for each in found if "pull_request" not in each}

    async def list_texts_since(self, since: datetime) -> Sequence[PostedText]:
        """Return the texts of open issues and the comments that were written or changed since."""
        asked = {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ"), "sort": "updated", "direction": "asc"}
        issues = await self._exchange.get_all_pages(f"{self.root}/issues", state="open", **asked)
        comments = await self._exchange.get_all_pages(f"{self.root}/issues/comments", **asked)
        with guard_parsing(_FORGE, "comments"):
            return [
                PostedText(
                    number=_parse_issue_number(each),
                    text=parse_text(each["body"]),
                    at=parse_time(each["updated_at"]),
                )
                for each in [*(issue for issue in issues if "pull_request" not in issue), *comments]
            ]

    async def find_label_event(self, number: int, label: str, trust: WriteAccessCache) -> IssueEvent | None:
        """Return who set a label the last time that somebody did."""
        events = await self._exchange.get_all_pages(f"{self.root}/issues/{number}/events")
        with guard_parsing(_FORGE, "events"):
            for each in reversed(events):
                if each["event"] == "labeled" and str(each["label"]["name"]).casefold() == label.casefold():
                    actor, at = parse_login(each["actor"]), parse_time(each["created_at"])
                    break
            else:
                return None
        return IssueEvent(actor=actor, at=at, trusted=await trust.can_write(actor))

    async def fetch_issue(self, number: int, trust: WriteAccessCache) -> FetchedIssue:
        """Return an issue with the comments of people, and what our own comments have taken up."""
        body = await self._exchange.get(f"{self.root}/issues/{number}")
        with guard_parsing(_FORGE, "an issue"):
            author, created = parse_login(body["user"]), parse_time(body["created_at"])
            if "pull_request" in body:
                raise make_forge_error(
                    "forge_not_found", _FORGE, ApiRequest(method="GET", path=f"#{number}"), "a pull request"
                )
            if body["number"] != number:  # it was moved to another repository, and we were led there
                raise make_forge_error(
                    "forge_not_found", _FORGE, ApiRequest(method="GET", path=f"#{number}"), "moved"
                )
        comments, ours = await self.list_comments(number, trust)
        answered = parse_handled_ids(ours)
        revisions = await self._list_events(number, created, trust)
        trusted = await trust.can_write(author)
        with guard_parsing(_FORGE, "an issue"):
            issue = Issue(
                number=number,
                title=str(body["title"]),
                text=parse_text(body["body"]),
                author=author,
                trusted=trusted,
                created=created,
                revisions=revisions,
                labels=frozenset(str(each["name"]) for each in body["labels"]),
                assignees=frozenset(parse_login(each) for each in body["assignees"]),
                open=body["state"] == "open",
                comments=tuple(comments),
                address=str(body["html_url"]),
                updated=parse_time(body["updated_at"]),
                ours=parse_markers(ours),
                answered=answered,
            )
        return FetchedIssue(issue=issue, answered=answered)

    async def list_comments(self, number: int, trust: WriteAccessCache) -> tuple[list[Comment], list[str]]:
        """Return what people wrote below an issue, and what we did, the oldest first."""
        own = await self.get_account()
        theirs: list[Comment] = []
        ours: list[str] = []
        for body in await self._exchange.get_all_pages(f"{self.root}/issues/{number}/comments"):
            with guard_parsing(_FORGE, "a comment"):
                comment = _parse_comment(body)
            if comment.author == own and parse_marker(comment.text) is not None:
                ours.append(comment.text)
            else:
                theirs.append(replace(comment, trusted=await trust.can_write(comment.author)))
        return theirs, ours

    async def list_review_comments(
        self, number: int, trust: WriteAccessCache
    ) -> tuple[list[ReviewComment], frozenset[str]]:
        """Return what people wrote on a pull request, and what our own comments there have taken up."""
        comments, ours = await self.list_comments(number, trust)
        answered = parse_handled_ids(ours)
        found = [_as_review_comment(comment) for comment in comments]
        beside = await self._exchange.get_all_pages(f"{self.root}/pulls/{number}/comments")
        reviews = await self._exchange.get_all_pages(f"{self.root}/pulls/{number}/reviews")
        with guard_parsing(_FORGE, "a review"):
            parts = [(_REMARK, each, each["created_at"]) for each in beside]
            # One that is being written has no time yet, and is shown to its author alone.
            parts += [
                (_REVIEW, each, each["submitted_at"])
                for each in reviews
                if parse_text(each["body"]).strip() and each.get("submitted_at")
            ]
        for prefix, body, at in parts:
            with guard_parsing(_FORGE, "a review"):
                author = parse_login(body["user"])
            trusted = await trust.can_write(author)
            with guard_parsing(_FORGE, "a review"):
                found.append(_parse_review_comment(prefix, body, author, parse_time(at), trusted=trusted))
        told = [replace(each, answered=each.id in answered) for each in found]
        return sorted(told, key=lambda each: each.created), answered

    async def list_reviews(self, trust: WriteAccessCache) -> Sequence[Review]:
        """Return all open pull requests of ours with what was written on them."""
        own = await self.get_account()
        found: list[Review] = []
        for body in await self._exchange.get_all_pages(f"{self.root}/pulls", state="open"):
            with guard_parsing(_FORGE, "a pull request"):
                issue = (
                    parse_issue_marker(parse_text(body["body"])) if parse_login(body["user"]) == own else None
                )
                request = parse_pull_request(body)
            if issue is None:
                continue
            remarks, answered = await self.list_review_comments(request.number, trust)
            found.append(Review(request=request, issue=issue, remarks=remarks, answered=answered))
        return found

    async def query_graphql(self, query: str, values: Mapping[str, Any]) -> Any:
        """Return what a query of GraphQL is answered with.

        Raises:
            ForgeError: it is refused.
        """
        body = await self._exchange.write("POST", "/graphql", {"query": query, "variables": dict(values)})
        with guard_parsing(_FORGE, "an answer of GraphQL"):
            errors = body.get("errors")
            if not errors:
                return body["data"]
            kind, told = str(errors[0].get("type", "")), str(errors[0]["message"])
        code: ForgeCode = _REFUSALS.get(kind, "forge_rejected")
        raise make_forge_error(code, _FORGE, ApiRequest(method="POST", path="/graphql"), told)

    async def _list_events(
        self, number: int, created: datetime, trust: WriteAccessCache
    ) -> tuple[IssueEvent, ...]:
        changes = await self._list_text_edits(number)
        events = await self._exchange.get_all_pages(f"{self.root}/issues/{number}/events")
        with guard_parsing(_FORGE, "events"):
            changes += [
                (parse_time(each["created_at"]), parse_login(each["actor"]))
                for each in events
                if each["event"] == "renamed"
            ]
        # The history of a text that was changed begins with its first writing.
        later = sorted({change for change in changes if change[0] > created})
        return tuple([IssueEvent(actor=who, at=at, trusted=await trust.can_write(who)) for at, who in later])

    async def _list_text_edits(self, number: int) -> list[tuple[datetime, str]]:
        found: list[tuple[datetime, str]] = []
        after: str | None = None
        while True:
            values = {"owner": self._owner, "name": self._name, "number": number, "after": after}
            data = await self._exchange.retry(lambda values=values: self.query_graphql(_EDITS, values))
            with guard_parsing(_FORGE, "the history of a text"):
                edits = data["repository"]["issue"]["userContentEdits"]
                if not edits:
                    return found
                found += [
                    (parse_time(each["editedAt"]), parse_login(each["editor"])) for each in edits["nodes"]
                ]
                if not edits["pageInfo"]["hasNextPage"]:
                    return found
                after = str(edits["pageInfo"]["endCursor"])


def parse_pull_request(body: Any) -> PullRequest:
    """Return a pull request."""
    with guard_parsing(_FORGE, "a pull request"):
        state = "open" if body["state"] == "open" else "merged" if body.get("merged_at") else "closed"
        return PullRequest(
            number=int(body["number"]),
            branch=str(body["head"]["ref"]),
            base=str(body["base"]["ref"]),
            state=state,
            draft=bool(body.get("draft")),
            title=str(body["title"]),
            text=strip_issue_marker(parse_text(body["body"])),
            address=str(body["html_url"]),
        )


def parse_login(user: Any) -> str:
    """Return an account's name."""
    return str(user["login"]) if user else _GHOST


def parse_text(body: Any) -> str:
    r"""Return a text with ``\n`` between lines."""
    return str(body or "").replace("\r\n", "\n")


def parse_time(told: Any) -> datetime:
    """Return a time."""
    return datetime.fromisoformat(str(told)).astimezone(UTC)


def _parse_issue_number(body: Any) -> int:
    return int(body["number"]) if "number" in body else int(str(body["issue_url"]).rpartition("/")[2])


def _parse_comment(body: Any) -> Comment:
    created, edited = parse_time(body["created_at"]), parse_time(body["updated_at"])
    return Comment(
        id=str(int(body["id"])),
        author=parse_login(body["user"]),
        text=parse_text(body["body"]),
        created=created,
        edited=edited if edited > created else None,
        trusted=False,
    )


def _as_review_comment(comment: Comment) -> ReviewComment:
    return ReviewComment(
        id=comment.id,
        author=comment.author,
        text=comment.text,
        path="",
        line=None,
        created=comment.created,
        trusted=comment.trusted,
    )


def _parse_review_comment(
    prefix: str, body: Any, author: str, created: datetime, *, trusted: bool
) -> ReviewComment:
    line = body.get("line")
    return ReviewComment(
        id=f"{prefix}{int(body['id'])}",
        author=author,
        text=parse_text(body["body"]),
        path=str(body.get("path") or ""),
        line=None if line is None else int(line),
        created=created,
        trusted=trusted,
    )


API_URL: Final = "https://api.github.com"
_FORGE: Final = "GitHub"
_RIGHTS: Final = ("contents", "issues", "pull_requests")
_DRAFTS: Final = {
    False: "markPullRequestReadyForReview",
    True: "convertPullRequestToDraft",
}


class GitHubForge:
    """One repository on GitHub, or on a GitHub Enterprise Server."""

    name = "github"
    longest = 65_536

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
        self.path = path
        patience = patience or RetryPolicy()
        self._session = GitHubSession(
            path, access, api_url=api_url, timeout=patience.timeout, between_writes=between_writes
        )
        self._exchange = ForgeClient(_FORGE, self._session.send, patience)
        self._reads = GitHubReader(path, self._exchange, self._session)
        self._root = self._reads.root
        self._poll = Poller(self._reads)

    async def check(self) -> None:
        """Make sure that code, issues and pull requests can be read and written."""
        body = await self._exchange.get(self._root)
        with guard_parsing(_FORGE, "the repository"):
            archived, has_issues = bool(body.get("archived")), bool(body.get("has_issues", True))
        if archived or not has_issues:
            raise ForgeError(
                "forge_rejected",
                f"`{self.path}` {'is archived' if archived else 'has no issues'}",
                hint="change it in the repository's settings",
            )
        if not await self._has_rights():
            raise ForgeError(
                "forge_forbidden",
                f"the token may not write to `{self.path}`",
                hint="give it read and write access to contents, issues and pull requests",
            )

    async def get_repository(self) -> Repository:
        """Return where the code is, with a token that holds for some minutes at least."""
        body = await self._exchange.get(self._root)
        token = await self._exchange.run_exclusive(self._session.get_token)
        with guard_parsing(_FORGE, "the repository"):
            address = str(body["clone_url"])
            if urlsplit(address).scheme not in {"http", "https"} or "@" in address:
                raise ValueError("clone_url")
            return Repository(
                address=address,
                default_branch=str(body["default_branch"]),
                credentials=GitCredentials("x-access-token", token),
            )

    async def find_triggers(self, names: LabelConfig) -> Sequence[Trigger]:
        """Return everything that waits now, the oldest first; at most one for each issue."""
        return await self._poll.find_triggers(names)

    async def get_issue(self, number: int) -> Issue:
        """Return an issue with all its comments but Kakite's own."""
        return (await self._reads.fetch_issue(number, WriteAccessCache(self.can_write))).issue

    async def get_account(self) -> str:
        """Return the name of the account that the token is of."""
        return await self._reads.get_account()

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody may write, by the permission that GitHub tells of them."""
        return await self._reads.can_write(actor)

    async def set_state_label(self, number: int, state: IssueState, names: LabelConfig) -> None:
        """Set the label of a state, then take the other four away."""
        await self._exchange.retry(lambda: self._set_state_label(number, names.get_label(state), names))

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address."""
        return await self._exchange.retry(
            lambda: self._put_comment(number, key, f"{format_marker(key)}\n{text}")
        )

    async def put_pull_request_comment(self, request: int, key: str, text: str) -> str:
        """Write below a pull request, like ``put_comment``."""
        return await self.put_comment(request, key, text)  # a pull request is an issue with something more

    async def put_pull_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring our open pull request of this branch up to date, or make one.

        One that somebody else has opened of the branch stays as it is, and is returned.
        """
        told = {"title": title, "body": add_issue_marker(text, issue), "base": base}
        try:
            return await self._exchange.retry(lambda: self._put_pull_request(branch, told, draft=draft))
        except ForgeError as error:
            if error.code != "forge_rejected" or not await self._list_pull_requests(branch, "open"):
                raise
        # Somebody, or an attempt of ours whose answer was lost, was faster.
        return await self._exchange.retry(lambda: self._put_pull_request(branch, told, draft=draft))

    async def list_pull_requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch in any state, the newest first."""
        return [parse_pull_request(body) for body in await self._list_pull_requests(branch, "all")]

    async def get_pull_request(self, number: int) -> PullRequest:
        """Return a pull request."""
        return parse_pull_request(await self._exchange.get(f"{self._root}/pulls/{number}"))

    async def list_review_comments(self, request: int) -> Sequence[ReviewComment]:
        """Return what was written below a pull request and beside its lines, the oldest first."""
        return (await self._reads.list_review_comments(request, WriteAccessCache(self.can_write)))[0]

    async def _has_rights(self) -> bool:
        if not self._session.is_app:
            return await self.can_write(await self._reads.get_account())
        rights = await self._exchange.run_exclusive(self._session.get_permissions)
        return all(rights.get(each) == "write" for each in _RIGHTS)

    async def _set_state_label(self, number: int, wanted: str, names: LabelConfig) -> None:
        place = f"{self._root}/issues/{number}"
        body = await self._exchange.get(place)
        with guard_parsing(_FORGE, "labels"):
            present = [str(each["name"]) for each in body["labels"]]
        others = {label.casefold() for label in names.labels} - {wanted.casefold()}
        if wanted.casefold() not in map(str.casefold, present):
            await self._exchange.write("POST", f"{place}/labels", {"labels": [wanted]})
        for label in present:
            if label.casefold() in others:
                await self._drop_label(place, label)

    async def _drop_label(self, place: str, label: str) -> None:
        try:
            await self._exchange.write("DELETE", f"{place}/labels/{quote(label, safe='')}")
        except ForgeError as error:
            if error.code != "forge_not_found":  # somebody has taken it away meanwhile
                raise

    async def _put_comment(self, number: int, key: str, wanted: str) -> str:
        own = await self._reads.get_account()
        for body in await self._exchange.get_all_pages(f"{self._root}/issues/{number}/comments"):
            with guard_parsing(_FORGE, "a comment"):
                present, address = parse_text(body["body"]), str(body["html_url"])
                is_it = parse_login(body["user"]) == own and parse_marker(present) == key
                place = f"{self._root}/issues/comments/{int(body['id'])}"
            if is_it:
                if present != wanted:
                    await self._exchange.write("PATCH", place, {"body": wanted})
                return address
        created = await self._exchange.write(
            "POST", f"{self._root}/issues/{number}/comments", {"body": wanted}
        )
        with guard_parsing(_FORGE, "a comment"):
            return str(created["html_url"])

    async def _put_pull_request(self, branch: str, told: dict[str, str], *, draft: bool) -> PullRequest:
        own = await self._reads.get_account()
        for body in await self._list_pull_requests(branch, "open"):
            with guard_parsing(_FORGE, "a pull request"):
                ours = (
                    parse_login(body["user"]) == own
                    and parse_issue_marker(parse_text(body["body"])) is not None
                )
            return (
                await self._update_pull_request(body, told, draft=draft) if ours else parse_pull_request(body)
            )
        return parse_pull_request(
            await self._exchange.write(
                "POST", f"{self._root}/pulls", {**told, "head": branch, "draft": draft}
            )
        )

    async def _update_pull_request(self, body: Any, told: dict[str, str], *, draft: bool) -> PullRequest:
        with guard_parsing(_FORGE, "a pull request"):
            number, node = int(body["number"]), str(body["node_id"])
            present = {"title": body["title"], "body": parse_text(body["body"]), "base": body["base"]["ref"]}
        changed = {name: value for name, value in told.items() if present[name] != value}
        if changed:
            body = await self._exchange.write("PATCH", f"{self._root}/pulls/{number}", changed)
        if parse_pull_request(body).draft != draft:
            await self._reads.query_graphql(_build_draft_mutation(_DRAFTS[draft]), {"request": node})
            body = {**body, "draft": draft}
        return parse_pull_request(body)

    async def _list_pull_requests(self, branch: str, state: str) -> list[Any]:
        owner = self.path.partition("/")[0]
        found = await self._exchange.get_all_pages(
            f"{self._root}/pulls", head=f"{owner}:{branch}", state=state
        )
        with guard_parsing(_FORGE, "pull requests"):
            # An Enterprise Server takes a `head` that it cannot read for none, and tells of all.
            mine = [each for each in found if each["head"]["ref"] == branch]
            return sorted(mine, key=lambda each: int(each["number"]), reverse=True)


def _build_draft_mutation(name: str) -> str:
    """Return the one change of a pull request that only GraphQL can make."""
    return (
        f"mutation($request: ID!) {{ {name}(input: {{pullRequestId: $request}}) "
        "{ pullRequest { isDraft } } }"
    )
