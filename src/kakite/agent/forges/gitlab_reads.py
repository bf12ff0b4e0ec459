"""What GitLab tells, as our values. Of answers only the fields that are used are looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import quote

from kakite.agent.forges.answers import reading
from kakite.agent.forges.exchange import Exchange
from kakite.agent.forges.forge import Comment, ForgeError, Issue, PullRequest, Remark, Revision
from kakite.agent.forges.names import answers_in, key_of, keys_in
from kakite.agent.forges.poll import Review, Thread, Trust, Written, issue_of, without_issue

DRAFT: Final = "Draft: "
"""What makes a title one of a draft."""
_FORGE: Final = "GitLab"
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
class Notes:
    """What stands below an issue or merge request."""

    theirs: Sequence[Remark]
    edited: dict[str, datetime]
    """When comments were changed, by their ids."""
    ours: tuple[str, ...]
    """The keys of our own comments."""
    answered: frozenset[str]
    """What our own comments have taken up."""
    revisions: tuple[Revision, ...]
    """Who changed title and text."""


class GitLabReads:
    """Reads one project."""

    def __init__(self, path: str, exchange: Exchange) -> None:
        self.root = f"/projects/{quote(path, safe='')}"
        """Where the project is in the API."""
        self._exchange = exchange
        self._account = ""

    async def account(self) -> str:
        """Return the account that our token writes as."""
        if not self._account:
            body = await self._exchange.get("/user")
            with reading(_FORGE, "the token's account"):
                self._account = str(body["username"])
        return self._account

    async def may_write(self, actor: str) -> bool:
        """Tell whether somebody is a member, also by a group, with the right to push."""
        if actor == _GHOST:
            return False
        found = await self._exchange.get("/users", username=actor)
        with reading(_FORGE, "an account"):
            number = next((int(each["id"]) for each in found if same(each["username"], actor)), None)
        if number is None:
            return False
        try:
            body = await self._exchange.get(f"{self.root}/members/all/{number}")
        except ForgeError as error:
            if error.code == "forge_not_found":
                return False
            raise
        with reading(_FORGE, "a member"):
            return int(body["access_level"]) >= _DEVELOPER and body.get("state", "active") == "active"

    async def labelled(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        found = await self._exchange.pages(f"{self.root}/issues", state="opened", scope="all", labels=label)
        with reading(_FORGE, "issues"):
            return {int(each["iid"]) for each in found}

    async def written_since(self, since: datetime) -> Sequence[Written]:
        """Return the texts and comments of open issues that were changed since."""
        bodies = await self._exchange.pages(
            f"{self.root}/issues",
            state="opened",
            scope="all",
            updated_after=since.strftime("%Y-%m-%dT%H:%M:%SZ"),
            order_by="updated_at",
            sort="asc",
        )
        found: list[Written] = []
        for body in bodies:
            with reading(_FORGE, "an issue"):
                number, at, talked = (
                    int(body["iid"]),
                    time(body["updated_at"]),
                    bool(body["user_notes_count"]),
                )
                texts = [text(body["description"])]
            if talked:  # there is no list of all comments in a project
                notes = await self._notes(f"{self.root}/issues/{number}")
                with reading(_FORGE, "a comment"):
                    texts += [text(each["body"]) for each in notes if not each["system"]]
            found += [Written(number=number, text=each, at=at) for each in texts]
        return found

    async def set_label(self, number: int, label: str, trust: Trust) -> Revision | None:
        """Return who set a label the last time that somebody did."""
        events = await self._exchange.pages(f"{self.root}/issues/{number}/resource_label_events")
        with reading(_FORGE, "events"):
            setting = [
                (time(each["created_at"]), int(each["id"]), login(each["user"]))
                for each in events
                if each["action"] == "add" and each["label"] and same(each["label"]["name"], label)
            ]
        if not setting:
            return None
        at, _, actor = max(setting)
        return Revision(actor=actor, at=at, trusted=await trust.of(actor))

    async def thread(self, number: int, trust: Trust) -> Thread:
        """Return an issue with the comments of people, and what our own comments have taken up."""
        place = f"{self.root}/issues/{number}"
        body = await self._exchange.get(place)
        notes = await self.notes(place, trust)
        with reading(_FORGE, "an issue"):
            author = login(body["author"])
        trusted = await trust.of(author)
        with reading(_FORGE, "an issue"):
            issue = Issue(
                number=number,
                title=str(body["title"]),
                text=text(body["description"]),
                author=author,
                trusted=trusted,
                created=time(body["created_at"]),
                revisions=notes.revisions,
                labels=frozenset(map(str, body["labels"])),
                assignees=frozenset(login(each) for each in body["assignees"]),
                open=body["state"] == "opened",
                comments=tuple(_as_comment(each, notes.edited.get(each.id)) for each in notes.theirs),
                address=str(body["web_url"]),
                updated=time(body["updated_at"]),
                ours=notes.ours,
                answered=notes.answered,
            )
        return Thread(issue=issue, answered=notes.answered)

    async def notes(self, place: str, trust: Trust) -> Notes:
        """Return what stands below an issue or merge request."""
        own = await self.account()
        theirs: list[Remark] = []
        edited: dict[str, datetime] = {}
        ours: list[str] = []
        revisions: list[Revision] = []
        for body in await self._notes(place):
            with reading(_FORGE, "a comment"):
                remark, is_system, changed = _remark(body), bool(body["system"]), time(body["updated_at"])
            if not is_system and remark.author == own and key_of(remark.text) is not None:
                ours.append(remark.text)
                continue
            trusted = await trust.of(remark.author)
            if not is_system:
                theirs.append(replace(remark, trusted=trusted))
                if changed > remark.created:
                    edited[remark.id] = changed
            elif _REVISED.match(remark.text):
                revisions.append(Revision(actor=remark.author, at=remark.created, trusted=trusted))
        answered = answers_in(ours)
        return Notes(
            theirs=[replace(each, answered=each.id in answered) for each in theirs],
            edited=edited,
            ours=keys_in(ours),
            answered=answered,
            revisions=tuple(revisions),
        )

    async def reviews(self, trust: Trust) -> Sequence[Review]:
        """Return all open merge requests of ours with what was written on them."""
        own = await self.account()
        found: list[Review] = []
        for body in await self._exchange.pages(f"{self.root}/merge_requests", state="opened", scope="all"):
            with reading(_FORGE, "a merge request"):
                issue = issue_of(text(body["description"])) if login(body["author"]) == own else None
            if issue is None:
                continue
            request = merge_request(body)
            notes = await self.notes(f"{self.root}/merge_requests/{request.number}", trust)
            found.append(
                Review(
                    request=request,
                    issue=issue,
                    remarks=notes.theirs,
                    answered=notes.answered,
                )
            )
        return found

    async def _notes(self, place: str) -> list[Any]:
        return await self._exchange.pages(f"{place}/notes", sort="asc", order_by="created_at")


def merge_request(body: Any) -> PullRequest:
    """Return a merge request, its title without what makes it a draft."""
    with reading(_FORGE, "a merge request"):
        return PullRequest(
            number=int(body["iid"]),
            branch=str(body["source_branch"]),
            base=str(body["target_branch"]),
            state=_STATES[body["state"]],
            draft=bool(body["draft"]),
            title=without_draft(str(body["title"])),
            text=without_issue(text(body["description"])),
            address=str(body["web_url"]),
        )


def without_draft(title: str) -> str:
    """Return a title without what makes it one of a draft."""
    found = _IS_DRAFT.match(title)
    return title[found.end() :] if found else title


def login(user: Any) -> str:
    """Return an account's name."""
    return str(user["username"]) if user else _GHOST


def text(body: Any) -> str:
    r"""Return a text with ``\n`` between lines."""
    return str(body or "").replace("\r\n", "\n")


def time(told: Any) -> datetime:
    """Return a time."""
    return datetime.fromisoformat(str(told)).astimezone(UTC)


def same(one: Any, other: str) -> bool:
    """Return whether two names are the same, in upper or lower case."""
    return str(one).casefold() == other.casefold()


def _remark(body: Any) -> Remark:
    position: Any = body.get("position") or {}
    line = position.get("new_line")
    return Remark(
        id=str(int(body["id"])),
        author=login(body["author"]),
        text=text(body["body"]),
        path=str(position.get("new_path") or ""),
        line=None if line is None else int(line),
        created=time(body["created_at"]),
        trusted=False,
    )


def _as_comment(remark: Remark, edited: datetime | None) -> Comment:
    return Comment(
        id=remark.id,
        author=remark.author,
        text=remark.text,
        created=remark.created,
        edited=edited,
        trusted=remark.trusted,
    )
