"""GitLab as a forge: its merge requests are pull requests here.

GitLabReader parses answers into our values, and reads only the fields that are used. GitLabSession sends
the requests; it is the only user of python-gitlab.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlsplit

from kakite.agent.forges.base import (
    Comment,
    ForgeError,
    GitCredentials,
    Issue,
    IssueEvent,
    PullRequest,
    Repository,
    ReviewComment,
    Trigger,
)
from kakite.agent.forges.http_client import (
    ApiRequest,
    ApiResponse,
    ForgeClient,
    RetryPolicy,
    guard_parsing,
    make_forge_error,
    redact_secret,
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

if TYPE_CHECKING:
    import requests
    from gitlab import Gitlab


DRAFT_PREFIX: Final = "Draft: "
"""What makes a title one of a draft."""
_GHOST: Final = "ghost"
_DEVELOPER: Final = 30
"""The lowest level of access that may push."""
# GitLab notes these itself, in these words, whatever the language of the one who did it.
_REVISED: Final = re.compile(r"changed (?:the )?(?:title|description)\b|marked the (?:checklist|task)")
_IS_DRAFT: Final = re.compile(r"(?:\s*(?:draft:|\[draft\]|\(draft\)))+\s*", re.IGNORECASE)
_STATES: Final[dict[str, Literal["open", "merged", "closed"]]] = {
    "opened": "open",
    "locked": "open",  # for the moment that a merge takes
    "merged": "merged",
    "closed": "closed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueNotes:
    """The notes below an issue or merge request."""

    theirs: Sequence[ReviewComment]
    edited: dict[str, datetime]
    """When comments were changed, by their ids."""
    ours: tuple[str, ...]
    """The keys of our own comments."""
    answered: frozenset[str]
    """What our own comments have taken up."""
    revisions: tuple[IssueEvent, ...]
    """Who changed title and text."""


class GitLabReader:
    """Reads one project."""

    def __init__(self, path: str, exchange: ForgeClient) -> None:
        self.root = f"/projects/{quote(path, safe='')}"
        """Where the project is in the API."""
        self._exchange = exchange
        self._account = ""

    async def get_account(self) -> str:
        """Return the account that our token writes as."""
        if not self._account:
            body = await self._exchange.get("/user")
            with guard_parsing(_FORGE, "the token's account"):
                self._account = str(body["username"])
        return self._account

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody is a member, also by a group, with the right to push."""
        if actor == _GHOST:
            return False
        found = await self._exchange.get("/users", username=actor)
        with guard_parsing(_FORGE, "an account"):
            number = next((int(each["id"]) for each in found if is_same_name(each["username"], actor)), None)
        if number is None:
            return False
        try:
            body = await self._exchange.get(f"{self.root}/members/all/{number}")
        except ForgeError as error:
            if error.code == "forge_not_found":
                return False
            raise
        with guard_parsing(_FORGE, "a member"):
            return int(body["access_level"]) >= _DEVELOPER and body.get("state", "active") == "active"

    async def list_labelled_issues(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        found = await self._exchange.get_all_pages(
            f"{self.root}/issues", state="opened", scope="all", labels=label
        )
        with guard_parsing(_FORGE, "issues"):
            return {int(each["iid"]) for each in found}

    async def list_texts_since(self, since: datetime) -> Sequence[PostedText]:
        """Return the texts and comments of open issues that were changed since."""
        bodies = await self._exchange.get_all_pages(
            f"{self.root}/issues",
            state="opened",
            scope="all",
            updated_after=since.strftime("%Y-%m-%dT%H:%M:%SZ"),
            order_by="updated_at",
            sort="asc",
        )
        found: list[PostedText] = []
        for body in bodies:
            with guard_parsing(_FORGE, "an issue"):
                number, at, talked = (
                    int(body["iid"]),
                    parse_time(body["updated_at"]),
                    bool(body["user_notes_count"]),
                )
                texts = [parse_text(body["description"])]
            if talked:  # there is no list of all comments in a project
                notes = await self._fetch_notes(f"{self.root}/issues/{number}")
                with guard_parsing(_FORGE, "a comment"):
                    texts += [parse_text(each["body"]) for each in notes if not each["system"]]
            found += [PostedText(number=number, text=each, at=at) for each in texts]
        return found

    async def find_label_event(self, number: int, label: str, trust: WriteAccessCache) -> IssueEvent | None:
        """Return who set a label the last time that somebody did."""
        events = await self._exchange.get_all_pages(f"{self.root}/issues/{number}/resource_label_events")
        with guard_parsing(_FORGE, "events"):
            setting = [
                (parse_time(each["created_at"]), int(each["id"]), parse_login(each["user"]))
                for each in events
                if each["action"] == "add" and each["label"] and is_same_name(each["label"]["name"], label)
            ]
        if not setting:
            return None
        at, _, actor = max(setting)
        return IssueEvent(actor=actor, at=at, trusted=await trust.can_write(actor))

    async def fetch_issue(self, number: int, trust: WriteAccessCache) -> FetchedIssue:
        """Return an issue with the comments of people, and what our own comments have taken up."""
        place = f"{self.root}/issues/{number}"
        body = await self._exchange.get(place)
        notes = await self.list_notes(place, trust)
        with guard_parsing(_FORGE, "an issue"):
            author = parse_login(body["author"])
        trusted = await trust.can_write(author)
        with guard_parsing(_FORGE, "an issue"):
            issue = Issue(
                number=number,
                title=str(body["title"]),
                text=parse_text(body["description"]),
                author=author,
                trusted=trusted,
                created=parse_time(body["created_at"]),
                revisions=notes.revisions,
                labels=frozenset(map(str, body["labels"])),
                assignees=frozenset(parse_login(each) for each in body["assignees"]),
                open=body["state"] == "opened",
                comments=tuple(_as_comment(each, notes.edited.get(each.id)) for each in notes.theirs),
                address=str(body["web_url"]),
                updated=parse_time(body["updated_at"]),
                ours=notes.ours,
                answered=notes.answered,
            )
        return FetchedIssue(issue=issue, answered=notes.answered)

    async def list_notes(self, place: str, trust: WriteAccessCache) -> IssueNotes:
        """Return what stands below an issue or merge request."""
        own = await self.get_account()
        theirs: list[ReviewComment] = []
        edited: dict[str, datetime] = {}
        ours: list[str] = []
        revisions: list[IssueEvent] = []
        for body in await self._fetch_notes(place):
            with guard_parsing(_FORGE, "a comment"):
                remark, is_system, changed = (
                    _parse_review_comment(body),
                    bool(body["system"]),
                    parse_time(body["updated_at"]),
                )
            if not is_system and remark.author == own and parse_marker(remark.text) is not None:
                ours.append(remark.text)
                continue
            trusted = await trust.can_write(remark.author)
            if not is_system:
                theirs.append(replace(remark, trusted=trusted))
                if changed > remark.created:
                    edited[remark.id] = changed
            elif _REVISED.match(remark.text):
                revisions.append(IssueEvent(actor=remark.author, at=remark.created, trusted=trusted))
        answered = parse_handled_ids(ours)
        return IssueNotes(
            theirs=[replace(each, answered=each.id in answered) for each in theirs],
            edited=edited,
            ours=parse_markers(ours),
            answered=answered,
            revisions=tuple(revisions),
        )

    async def list_reviews(self, trust: WriteAccessCache) -> Sequence[Review]:
        """Return all open merge requests of ours with what was written on them."""
        own = await self.get_account()
        found: list[Review] = []
        for body in await self._exchange.get_all_pages(
            f"{self.root}/merge_requests", state="opened", scope="all"
        ):
            with guard_parsing(_FORGE, "a merge request"):
                issue = (
                    parse_issue_marker(parse_text(body["description"]))
                    if parse_login(body["author"]) == own
                    else None
                )
            if issue is None:
                continue
            request = parse_merge_request(body)
            notes = await self.list_notes(f"{self.root}/merge_requests/{request.number}", trust)
            found.append(
                Review(
                    request=request,
                    issue=issue,
                    remarks=notes.theirs,
                    answered=notes.answered,
                )
            )
        return found

    async def _fetch_notes(self, place: str) -> list[Any]:
        return await self._exchange.get_all_pages(f"{place}/notes", sort="asc", order_by="created_at")


def parse_merge_request(body: Any) -> PullRequest:
    """Return a merge request, its title without what makes it a draft."""
    with guard_parsing(_FORGE, "a merge request"):
        return PullRequest(
            number=int(body["iid"]),
            branch=str(body["source_branch"]),
            base=str(body["target_branch"]),
            state=_STATES[body["state"]],
            draft=bool(body["draft"]),
            title=strip_draft_prefix(str(body["title"])),
            text=strip_issue_marker(parse_text(body["description"])),
            address=str(body["web_url"]),
        )


def strip_draft_prefix(title: str) -> str:
    """Return a title without what makes it one of a draft."""
    found = _IS_DRAFT.match(title)
    return title[found.end() :] if found else title


def parse_login(user: Any) -> str:
    """Return an account's name."""
    return str(user["username"]) if user else _GHOST


def parse_text(body: Any) -> str:
    r"""Return a text with ``\n`` between lines."""
    return str(body or "").replace("\r\n", "\n")


def parse_time(told: Any) -> datetime:
    """Return a time."""
    return datetime.fromisoformat(str(told)).astimezone(UTC)


def is_same_name(one: Any, other: str) -> bool:
    """Return whether two names are the same, in upper or lower case."""
    return str(one).casefold() == other.casefold()


def _parse_review_comment(body: Any) -> ReviewComment:
    position: Any = body.get("position") or {}
    line = position.get("new_line")
    return ReviewComment(
        id=str(int(body["id"])),
        author=parse_login(body["author"]),
        text=parse_text(body["body"]),
        path=str(position.get("new_path") or ""),
        line=None if line is None else int(line),
        created=parse_time(body["created_at"]),
        trusted=False,
    )


def _as_comment(remark: ReviewComment, edited: datetime | None) -> Comment:
    return Comment(
        id=remark.id,
        author=remark.author,
        text=remark.text,
        created=remark.created,
        edited=edited,
        trusted=remark.trusted,
    )


class GitLabSession:
    """Asks one GitLab. Not safe for several threads at once."""

    def __init__(self, token: str, *, url: str, timeout: float) -> None:
        self._token = token
        self._url = url
        self._timeout = timeout
        self._client: Gitlab | None = None
        self._last: list[requests.Response] = []

    def get_token(self) -> str:
        """Return the token."""
        return self._token

    def send(self, question: ApiRequest) -> ApiResponse:
        """Send a request and return the answer."""
        from gitlab.exceptions import GitlabError, RedirectError

        if self._client is None:
            self._client = self._connect()
        self._last.clear()
        try:
            self._client.http_request(
                question.method.lower(),
                question.path,
                query_data=dict(question.query),
                post_data=dict(question.body) if question.body is not None else None,
                extra_headers=dict(question.headers),
                obey_rate_limit=False,  # asking again is up to us
                retry_transient_errors=False,
                max_retries=0,
            )
        except RedirectError:
            raise make_forge_error(
                "forge_bad_reply", "GitLab", question, "a redirection to another place"
            ) from None
        except GitlabError:
            pass  # its answer, which the library keeps only a part of, is here
        response = self._last[-1]
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = ApiResponse(status=response.status_code, headers=headers, text=response.text)
        return redact_secret(answer, self._token)

    def _connect(self) -> Gitlab:
        import requests
        from gitlab import Gitlab

        session = requests.Session()
        session.auth = _skip_auth  # without one the library looks for a password in ~/.netrc
        session.hooks["response"].append(self._save_response)
        return Gitlab(
            self._url,
            private_token=self._token,
            timeout=self._timeout,
            user_agent="kakite",
            session=session,
        )

    def _save_response(self, response: requests.Response, **_: Any) -> None:
        self._last.append(response)


def _skip_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


URL: Final = "https://gitlab.com"
_FORGE: Final = "GitLab"


class GitLabForge:
    """One project on GitLab."""

    name = "gitlab"
    longest = 1_000_000

    def __init__(self, path: str, token: str, *, url: str = URL, patience: RetryPolicy | None = None) -> None:
        """Take a project; nothing is asked yet.

        Args:
            path: ``group/name``, with all groups between.
            token: of a person, a project or a group, with the scope ``api`` and the role Developer.
            url: the address of the server.
            patience: how long to wait for it.
        """
        self.path = path
        patience = patience or RetryPolicy()
        self._session = GitLabSession(token, url=url, timeout=patience.timeout)
        self._exchange = ForgeClient(_FORGE, self._session.send, patience)
        self._reads = GitLabReader(path, self._exchange)
        self._root = self._reads.root
        self._poll = Poller(self._reads)

    async def check(self) -> None:
        """Make sure that code, issues and merge requests can be read and written."""
        body = await self._exchange.get(self._root)
        with guard_parsing(_FORGE, "the project"):
            shut = [name for name in ("issues", "merge_requests") if _is_disabled(body, name)]
            archived = bool(body.get("archived"))
        if archived or shut:
            what = "is archived" if archived else f"has no {shut[0].replace('_', ' ')}"
            raise ForgeError(
                "forge_rejected", f"`{self.path}` {what}", hint="change it in the project's settings"
            )
        if not (await self._has_full_scope() and await self.can_write(await self._reads.get_account())):
            raise ForgeError(
                "forge_forbidden",
                f"the token may not write to `{self.path}`",
                hint="give it the scope `api` and the role Developer",
            )

    async def get_repository(self) -> Repository:
        """Return where the code is, with the token."""
        body = await self._exchange.get(self._root)
        with guard_parsing(_FORGE, "the project"):
            address = str(body["http_url_to_repo"])
            if urlsplit(address).scheme not in {"http", "https"} or "@" in address:
                raise ValueError("http_url_to_repo")
            return Repository(
                address=address,
                default_branch=str(body["default_branch"]),
                credentials=GitCredentials("oauth2", self._session.get_token()),
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
        """Return whether somebody is a member of the project with the right to push."""
        return await self._reads.can_write(actor)

    async def set_state_label(self, number: int, state: IssueState, names: LabelConfig) -> None:
        """Set the label of a state and take the other four away, in one go."""
        await self._exchange.retry(lambda: self._set_state_label(number, names.get_label(state), names))

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address."""
        return await self._put_note(f"{self._root}/issues/{number}", key, text)

    async def put_pull_request_comment(self, request: int, key: str, text: str) -> str:
        """Write below a merge request, like ``put_comment``."""
        return await self._put_note(f"{self._root}/merge_requests/{request}", key, text)

    async def put_pull_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring our open merge request of this branch up to date, or make one.

        One that somebody else has opened of the branch stays as it is, and is returned.
        """
        told = {
            "title": f"{DRAFT_PREFIX}{title}" if draft else title,
            "description": add_issue_marker(text, issue),
            "target_branch": base,
        }
        return await self._exchange.retry(lambda: self._put_merge_request(branch, told))

    async def list_pull_requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the merge requests of a branch in any state, the newest first."""
        return [parse_merge_request(body) for body in await self._list_merge_requests(branch, "all")]

    async def get_pull_request(self, number: int) -> PullRequest:
        """Return a merge request."""
        return parse_merge_request(await self._exchange.get(f"{self._root}/merge_requests/{number}"))

    async def list_review_comments(self, request: int) -> Sequence[ReviewComment]:
        """Return what was written below a merge request and beside its lines, the oldest first."""
        place = f"{self._root}/merge_requests/{request}"
        return (await self._reads.list_notes(place, WriteAccessCache(self.can_write))).theirs

    async def _has_full_scope(self) -> bool:
        """Return whether the token has the scope for the whole API, where it tells its scopes."""
        try:
            body = await self._exchange.get("/personal_access_tokens/self")
        except ForgeError as error:
            if error.code == "forge_unauthorized":
                raise
            return error.code in {"forge_not_found", "forge_rejected"}  # one of another kind
        with guard_parsing(_FORGE, "the token"):
            return "api" in body["scopes"]

    async def _set_state_label(self, number: int, wanted: str, names: LabelConfig) -> None:
        place = f"{self._root}/issues/{number}"
        body = await self._exchange.get(place)
        with guard_parsing(_FORGE, "labels"):
            present = [str(each) for each in body["labels"]]
        ours = [each for each in present if any(is_same_name(each, label) for label in names.labels)]
        others = [each for each in ours if each != wanted]
        told = {
            **({} if wanted in present else {"add_labels": wanted}),
            **({"remove_labels": ",".join(others)} if others else {}),
        }
        if told:
            await self._exchange.write("PUT", place, told)

    async def _put_note(self, place: str, key: str, text: str) -> str:
        return await self._exchange.retry(
            lambda: self._put_note_once(place, key, f"{format_marker(key)}\n{text}")
        )

    async def _put_note_once(self, place: str, key: str, wanted: str) -> str:
        own = await self._reads.get_account()
        page = await self._exchange.get(place)
        with guard_parsing(_FORGE, "an address"):
            address = str(page["web_url"])
        for body in await self._exchange.get_all_pages(f"{place}/notes", sort="asc", order_by="created_at"):
            with guard_parsing(_FORGE, "a comment"):
                present, number = parse_text(body["body"]), int(body["id"])
                is_it = (
                    parse_login(body["author"]) == own and not body["system"] and parse_marker(present) == key
                )
            if is_it:
                if present != wanted:
                    await self._exchange.write("PUT", f"{place}/notes/{number}", {"body": wanted})
                return f"{address}#note_{number}"
        created = await self._exchange.write("POST", f"{place}/notes", {"body": wanted})
        with guard_parsing(_FORGE, "a comment"):
            return f"{address}#note_{int(created['id'])}"

    async def _put_merge_request(self, branch: str, told: dict[str, str]) -> PullRequest:
        own = await self._reads.get_account()
        for body in await self._list_merge_requests(branch, "opened"):
            with guard_parsing(_FORGE, "a merge request"):
                ours = (
                    parse_login(body["author"]) == own
                    and parse_issue_marker(parse_text(body["description"])) is not None
                )
            return await self._update_merge_request(body, told) if ours else parse_merge_request(body)
        made = {**told, "source_branch": branch}
        return parse_merge_request(await self._exchange.write("POST", f"{self._root}/merge_requests", made))

    async def _update_merge_request(self, body: Any, told: dict[str, str]) -> PullRequest:
        with guard_parsing(_FORGE, "a merge request"):
            number = int(body["iid"])
            present = {
                "title": body["title"],
                "description": parse_text(body["description"]),
                "target_branch": body["target_branch"],
            }
        changed = {name: value for name, value in told.items() if present[name] != value}
        if changed:
            body = await self._exchange.write("PUT", f"{self._root}/merge_requests/{number}", changed)
        return parse_merge_request(body)

    async def _list_merge_requests(self, branch: str, state: str) -> list[Any]:
        found = await self._exchange.get_all_pages(
            f"{self._root}/merge_requests", source_branch=branch, state=state, scope="all"
        )
        with guard_parsing(_FORGE, "merge requests"):
            return sorted(found, key=lambda each: int(each["iid"]), reverse=True)


def _is_disabled(project: Any, part: str) -> bool:
    return project.get(f"{part}_access_level", "enabled") == "disabled"
