"""GitLab's API as values: its merge requests are pull requests here.

Reads only the fields that are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import quote

from kakite.agent.forges.base import (
    Comment,
    ForgeError,
    GitCredentials,
    Issue,
    IssueEvent,
    PullRequest,
    Repository,
)
from kakite.agent.forges.gitlab_session import GitLabSession
from kakite.agent.forges.http_client import ApiRequest, ForgeClient, RetryPolicy, ignore, make_forge_error
from kakite.agent.forges.rest import (
    GHOST,
    FoundRequest,
    PostedText,
    ThreadKind,
    is_same_name,
    parse_edit_time,
    parse_text,
    parse_time,
    to_repository,
)
from kakite.agent.forges.reviews import ReviewComment, ReviewTarget, format_suggestion_block

URL: Final = "https://gitlab.com"
DRAFT_PREFIX: Final = "Draft: "
"""What makes a title one of a draft."""
_FORGE: Final = "GitLab"
_DEVELOPER: Final = 30
"""The lowest level of access that may push."""
_MOST_ABOVE: Final = 100
"""Lines above its own that a suggestion may replace."""
# GitLab notes these itself, in these words, whatever the language of the one who did it.
_REVISED: Final = re.compile(r"changed (?:the )?(?:title|description)\b|marked the (?:checklist|task)")
_IS_DRAFT: Final = re.compile(r"(?:\s*(?:draft:|\[draft\]|\(draft\)))+\s*", re.IGNORECASE)
_STATES: Final[dict[str, Literal["open", "merged", "closed"]]] = {
    "opened": "open",
    "locked": "open",  # for the moment that a merge takes
    "merged": "merged",
    "closed": "closed",
}
_PLACES: Final[Mapping[ThreadKind, str]] = {"issue": "issues", "request": "merge_requests"}


class GitLabApi:
    """One project on GitLab."""

    name = "gitlab"
    longest = 1_000_000
    ignores_label_case = False
    rights_hint = "give it the scope `api` and the role Developer"

    def __init__(self, path: str, token: str, *, url: str = URL, patience: RetryPolicy | None = None) -> None:
        """Take a project; nothing is asked yet.

        Args:
            path: ``group/name``, with all groups between.
            token: of a person, a project or a group, with the scope ``api`` and the role Developer.
            url: the address of the server.
            patience: how long to wait for it.
        """
        patience = patience or RetryPolicy()
        self.path = path
        self._session = GitLabSession(token, url=url, timeout=patience.timeout)
        self.client = ForgeClient(_FORGE, self._session.send, patience)
        self._root = f"/projects/{quote(path, safe='')}"

    async def fetch_account(self) -> str:
        """Return the name of the token's account."""
        return await self.client.get("/user", lambda body: str(body["username"]))

    async def find_obstacle(self) -> str:
        """Return why nobody can work in this project; empty if nothing is."""
        return await self.client.get(self._root, _parse_obstacle)

    async def check_token(self) -> bool | None:
        """Return False if the token has not the scope for the whole API; else its account's rights count."""
        try:
            scopes = await self.client.get("/personal_access_tokens/self", lambda body: list(body["scopes"]))
        except ForgeError as error:
            if error.code == "forge_unauthorized":
                raise
            return None if error.code in {"forge_not_found", "forge_rejected"} else False  # of another kind
        return None if "api" in scopes else False

    async def fetch_repository(self) -> Repository:
        """Return where the code is, with the token."""
        repository = await self.client.get(
            self._root, lambda body: to_repository(body["http_url_to_repo"], body["default_branch"])
        )
        return replace(repository, credentials=GitCredentials("oauth2", self._session.get_token()))

    async def can_write(self, actor: str) -> bool:
        """Return whether somebody is a member, also by a group, with the right to push."""
        found = await self.client.get_all("/users", _parse_user, username=actor)
        number = next((number for login, number in found if is_same_name(login, actor)), None)
        if number is None:
            return False
        return await self.client.get(f"{self._root}/members/all/{number}", _parse_right_to_push)

    async def list_labelled_issues(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        found = await self.client.get_all(
            f"{self._root}/issues", lambda body: int(body["iid"]), state="opened", scope="all", labels=label
        )
        return set(found)

    async def list_texts_since(self, since: str) -> Sequence[PostedText]:
        """Return the texts of open issues that were changed since, and all comments of each."""
        issues = await self.client.get_all(
            f"{self._root}/issues",
            lambda body: (_parse_posted_text(body), bool(body["user_notes_count"])),
            state="opened",
            scope="all",
            updated_after=since,
            order_by="updated_at",
            sort="asc",
        )
        found: list[PostedText] = []
        for posted, has_comments in issues:
            found.append(posted)
            if has_comments:  # there is no list of all comments in a project
                number, _, at = posted
                found += [(number, each.text, at) for each in await self.list_comments("issue", number)]
        return found

    async def list_label_events(self, number: int) -> Sequence[tuple[str, IssueEvent]]:
        """Return the labels that were ever set, the oldest first."""
        events = await self.client.get_all(
            f"{self._root}/issues/{number}/resource_label_events", _parse_label_event
        )
        setting = sorted([each for each in events if each is not None], key=lambda each: each[0])
        return [(label, event) for _, label, event in setting]

    async def fetch_issue(self, number: int) -> Issue:
        """Return an issue without its revisions and comments."""
        return await self.client.get(f"{self._root}/issues/{number}", lambda body: _parse_issue(number, body))

    async def fetch_thread(self, issue: Issue) -> tuple[Sequence[IssueEvent], Sequence[Comment]]:
        """Return the revisions of an issue, and all comments below it."""
        notes = await self._list_notes("issue", issue.number)
        revisions = [
            IssueEvent(actor=note.author, at=note.created)
            for note, is_system in notes
            if is_system and _REVISED.match(note.text)
        ]
        return revisions, [note for note, is_system in notes if not is_system]

    async def change_labels(self, number: int, *, add: Sequence[str], remove: Sequence[str]) -> None:
        """Set labels and take others away, in one request."""
        fields = {
            name: ",".join(labels)
            for name, labels in (("add_labels", add), ("remove_labels", remove))
            if labels
        }
        if fields:
            await self.client.write("PUT", f"{self._root}/issues/{number}", ignore, fields)

    async def list_comments(self, kind: ThreadKind, number: int) -> Sequence[Comment]:
        """Return the notes of people below an issue or merge request, those beside its lines among them."""
        return [note for note, is_system in await self._list_notes(kind, number) if not is_system]

    async def save_comment(self, kind: ThreadKind, number: int, present: Comment | None, text: str) -> str:
        """Leave a note with this text, in place of the one that is present. Returns its address."""
        place = f"{self._root}/{_PLACES[kind]}/{number}"
        page = await self.client.get(place, lambda body: str(body["web_url"]))
        wanted = {"body": text}
        if present is None:
            note = await self.client.write("POST", f"{place}/notes", lambda body: int(body["id"]), wanted)
            return f"{page}#note_{note}"
        if present.text != text:
            await self.client.write("PUT", f"{place}/notes/{present.id}", ignore, wanted)
        return f"{page}#note_{present.id}"

    async def list_remarks(self, number: int) -> Sequence[Comment]:
        """Return the notes of people below a merge request and beside its lines."""
        return await self.list_comments("request", number)

    async def fetch_review_target(self, number: int) -> ReviewTarget:
        """Return a merge request with its commits, which GitLab may need a moment to know."""
        place = f"{self._root}/merge_requests/{number}"
        return await self.client.retry(lambda: self.client.get(place, _parse_review_target))

    def format_suggestion(self, start: int, end: int, lines: Sequence[str]) -> str:
        """Return the block that the page offers to apply to the remark's line and those above it.

        Empty if there are too many, or if a line could end the block for what looks for quick actions, which
        knows only fences of three letters.
        """
        if end - start > _MOST_ABOVE or any(each.lstrip().startswith("```") for each in lines):
            return ""
        return format_suggestion_block(f"suggestion:-{end - start}+0", lines)

    async def create_review(self, target: ReviewTarget, text: str, remarks: Sequence[ReviewComment]) -> str:
        """Write each remark as a thread beside its line, and the text as a note after all of them."""
        for each in remarks:
            await self._create_discussion(target, each)
        return await self.save_comment("request", target.request.number, None, text)

    async def _create_discussion(self, target: ReviewTarget, remark: ReviewComment) -> None:
        place = f"{self._root}/merge_requests/{target.request.number}/discussions"
        wanted = {"body": remark.text, "position": _to_position(target, remark)}
        try:
            await self.client.write("POST", place, ignore, wanted)
        except ForgeError as error:
            if error.code != "forge_rejected":
                raise
            # GitLab shows no such line, as of a file whose changes it does not show at all.
            marker, _, said = remark.text.partition("\n")
            await self.client.write("POST", place, ignore, {"body": f"{marker}\n{remark.place}\n\n{said}"})

    async def fetch_request(self, number: int) -> FoundRequest:
        """Return a merge request."""
        return await self.client.get(f"{self._root}/merge_requests/{number}", _parse_request)

    async def list_requests(self, state: Literal["open", "all"], branch: str = "") -> Sequence[FoundRequest]:
        """Return the merge requests, of one branch or of all."""
        query = {"source_branch": branch} if branch else {}
        return await self.client.get_all(
            f"{self._root}/merge_requests",
            _parse_request,
            state="opened" if state == "open" else state,
            scope="all",
            **query,
        )

    def to_fields(self, *, title: str, text: str, base: str, draft: bool) -> dict[str, Any]:
        """Return what a merge request is to have, by GitLab's names."""
        title = f"{DRAFT_PREFIX}{title}" if draft else title
        return {"title": title, "description": text, "target_branch": base}

    async def create_request(self, branch: str, fields: Mapping[str, Any]) -> FoundRequest:
        """Make a merge request."""
        return await self.client.write(
            "POST", f"{self._root}/merge_requests", _parse_request, {**fields, "source_branch": branch}
        )

    async def change_request(self, found: FoundRequest, fields: Mapping[str, Any]) -> FoundRequest:
        """Change these fields of a merge request."""
        place = f"{self._root}/merge_requests/{found.request.number}"
        return await self.client.write("PUT", place, _parse_request, dict(fields))

    async def _list_notes(self, kind: ThreadKind, number: int) -> list[tuple[Comment, bool]]:
        """Return what stands below an issue or merge request, each with whether GitLab itself wrote it."""
        place = f"{self._root}/{_PLACES[kind]}/{number}/notes"
        return await self.client.get_all(place, _parse_note, sort="asc", order_by="created_at")


def strip_draft_prefix(title: str) -> str:
    """Return a title without what makes it one of a draft."""
    found = _IS_DRAFT.match(title)
    return title[found.end() :] if found else title


def _parse_login(user: Any) -> str:
    return str(user["username"]) if user else GHOST


def _parse_user(body: Any) -> tuple[str, int]:
    return str(body["username"]), int(body["id"])


def _parse_right_to_push(member: Any) -> bool:
    return int(member["access_level"]) >= _DEVELOPER and member.get("state", "active") == "active"


def _parse_obstacle(body: Any) -> str:
    if body.get("archived"):
        return "is archived"
    parts = [part for part in _PLACES.values() if body.get(f"{part}_access_level") == "disabled"]
    return f"has no {parts[0].replace('_', ' ')}" if parts else ""


def _parse_posted_text(body: Any) -> PostedText:
    number, at = int(body["iid"]), parse_time(body["updated_at"])
    return number, parse_text(body["description"]), at


def _parse_label_event(body: Any) -> tuple[tuple[datetime, int], str, IssueEvent] | None:
    """Return the order, label and event of a setting; None if it was taken away, or is no label any more."""
    if body["action"] != "add" or not body["label"]:
        return None
    at = parse_time(body["created_at"])
    event = IssueEvent(actor=_parse_login(body["user"]), at=at)
    return (at, int(body["id"])), str(body["label"]["name"]), event


def _parse_issue(number: int, body: Any) -> Issue:
    return Issue(
        number=number,
        title=str(body["title"]),
        text=parse_text(body["description"]),
        author=_parse_login(body["author"]),
        created=parse_time(body["created_at"]),
        labels=frozenset(map(str, body["labels"])),
        assignees=frozenset(_parse_login(each) for each in body["assignees"]),
        open=body["state"] == "opened",
        address=str(body["web_url"]),
        updated=parse_time(body["updated_at"]),
    )


def _parse_note(body: Any) -> tuple[Comment, bool]:
    position: Any = body.get("position") or {}
    line = position.get("new_line")
    note = Comment(
        id=str(int(body["id"])),
        author=_parse_login(body["author"]),
        text=parse_text(body["body"]),
        created=parse_time(body["created_at"]),
        edited=parse_edit_time(body),
        path=str(position.get("new_path") or ""),
        line=None if line is None else int(line),
    )
    return note, bool(body["system"])


def _parse_review_target(body: Any) -> ReviewTarget:
    request, refs = _parse_request(body).request, body["diff_refs"]
    if not refs or not refs["head_sha"]:
        asked = ApiRequest(method="GET", path=f"!{request.number}")
        raise make_forge_error("forge_unavailable", _FORGE, asked, "a merge request that is being prepared")
    return ReviewTarget(
        request=request,
        head=str(refs["head_sha"]),
        base=str(refs["start_sha"]),
        reference=f"refs/merge-requests/{request.number}/head",
        merge_base=str(refs["base_sha"]),
    )


def _to_position(target: ReviewTarget, remark: ReviewComment) -> dict[str, Any]:
    place: dict[str, Any] = {
        "position_type": "text",
        "base_sha": target.merge_base,
        "start_sha": target.base,
        "head_sha": target.head,
        "old_path": remark.old_path or remark.path,
        "new_path": remark.path,
        "new_line": remark.end,
    }
    if remark.old_line is not None:  # a line that stays is known by both numbers
        place["old_line"] = remark.old_line
    return place


def _parse_request(body: Any) -> FoundRequest:
    title, text, base = str(body["title"]), parse_text(body["description"]), str(body["target_branch"])
    return FoundRequest(
        request=PullRequest(
            number=int(body["iid"]),
            branch=str(body["source_branch"]),
            base=base,
            state=_STATES[body["state"]],
            draft=bool(body["draft"]),
            title=strip_draft_prefix(title),
            text=text,
            address=str(body["web_url"]),
        ),
        author=_parse_login(body["author"]),
        fields={"title": title, "description": text, "target_branch": base},
    )
