"""What GitHub tells, as our values. Of answers only the fields that are used are looked at.

The REST API, and GraphQL for the history of texts, which it alone has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from kakite.agent.forges.answers import Question, failure, reading
from kakite.agent.forges.exchange import Exchange
from kakite.agent.forges.forge import (
    Comment,
    ForgeCode,
    ForgeError,
    Issue,
    PullRequest,
    Remark,
    Revision,
)
from kakite.agent.forges.github_session import GitHubSession
from kakite.agent.forges.names import answers_in, key_of, keys_in
from kakite.agent.forges.poll import Review, Thread, Trust, Written, issue_of, without_issue

_FORGE: Final = "GitHub"
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


class GitHubReads:
    """Reads one repository."""

    def __init__(self, path: str, exchange: Exchange, session: GitHubSession) -> None:
        self._owner, _, self._name = path.partition("/")
        self.root = f"/repos/{quote(self._owner, safe='')}/{quote(self._name, safe='')}"
        """Where the repository is in the API."""
        self._exchange = exchange
        self._session = session
        self._account = ""

    async def account(self) -> str:
        """Return the account that our token writes as."""
        if not self._account and self._session.is_app:
            self._account = f"{await self._exchange.alone(self._session.slug)}[bot]"
        elif not self._account:
            body = await self._exchange.get("/user")
            with reading(_FORGE, "the token's account"):
                self._account = str(body["login"])
        return self._account

    async def may_write(self, actor: str) -> bool:
        """Tell whether somebody may write, by the permission that GitHub tells of them."""
        if actor == _GHOST:
            return False
        try:
            body = await self._exchange.get(f"{self.root}/collaborators/{quote(actor, safe='')}/permission")
        except ForgeError as error:
            if error.code == "forge_not_found":  # no such account any more
                return False
            raise
        with reading(_FORGE, "a permission"):
            return str(body["permission"]) in _WRITERS

    async def labelled(self, label: str) -> set[int]:
        """Return the open issues with a label."""
        found = await self._exchange.pages(f"{self.root}/issues", state="open", labels=label)
        with reading(_FORGE, "issues"):
            return {int(each["number"]) for each in found if "pull_request" not in each}

    async def written_since(self, since: datetime) -> Sequence[Written]:
        """Return the texts of open issues and the comments that were written or changed since."""
        asked = {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ"), "sort": "updated", "direction": "asc"}
        issues = await self._exchange.pages(f"{self.root}/issues", state="open", **asked)
        comments = await self._exchange.pages(f"{self.root}/issues/comments", **asked)
        with reading(_FORGE, "comments"):
            return [
                Written(number=_number(each), text=text(each["body"]), at=time(each["updated_at"]))
                for each in [*(issue for issue in issues if "pull_request" not in issue), *comments]
            ]

    async def set_label(self, number: int, label: str, trust: Trust) -> Revision | None:
        """Return who set a label the last time that somebody did."""
        events = await self._exchange.pages(f"{self.root}/issues/{number}/events")
        with reading(_FORGE, "events"):
            for each in reversed(events):
                if each["event"] == "labeled" and str(each["label"]["name"]).casefold() == label.casefold():
                    actor, at = login(each["actor"]), time(each["created_at"])
                    break
            else:
                return None
        return Revision(actor=actor, at=at, trusted=await trust.of(actor))

    async def thread(self, number: int, trust: Trust) -> Thread:
        """Return an issue with the comments of people, and what our own comments have taken up."""
        body = await self._exchange.get(f"{self.root}/issues/{number}")
        with reading(_FORGE, "an issue"):
            author, created = login(body["user"]), time(body["created_at"])
            if "pull_request" in body:
                raise failure(
                    "forge_not_found", _FORGE, Question(method="GET", path=f"#{number}"), "a pull request"
                )
            if body["number"] != number:  # it was moved to another repository, and we were led there
                raise failure("forge_not_found", _FORGE, Question(method="GET", path=f"#{number}"), "moved")
        comments, ours = await self.comments(number, trust)
        answered = answers_in(ours)
        revisions = await self._revisions(number, created, trust)
        trusted = await trust.of(author)
        with reading(_FORGE, "an issue"):
            issue = Issue(
                number=number,
                title=str(body["title"]),
                text=text(body["body"]),
                author=author,
                trusted=trusted,
                created=created,
                revisions=revisions,
                labels=frozenset(str(each["name"]) for each in body["labels"]),
                assignees=frozenset(login(each) for each in body["assignees"]),
                open=body["state"] == "open",
                comments=tuple(comments),
                address=str(body["html_url"]),
                updated=time(body["updated_at"]),
                ours=keys_in(ours),
                answered=answered,
            )
        return Thread(issue=issue, answered=answered)

    async def comments(self, number: int, trust: Trust) -> tuple[list[Comment], list[str]]:
        """Return what people wrote below an issue, and what we did, the oldest first."""
        own = await self.account()
        theirs: list[Comment] = []
        ours: list[str] = []
        for body in await self._exchange.pages(f"{self.root}/issues/{number}/comments"):
            with reading(_FORGE, "a comment"):
                comment = _comment(body)
            if comment.author == own and key_of(comment.text) is not None:
                ours.append(comment.text)
            else:
                theirs.append(replace(comment, trusted=await trust.of(comment.author)))
        return theirs, ours

    async def remarks(self, number: int, trust: Trust) -> tuple[list[Remark], frozenset[str]]:
        """Return what people wrote on a pull request, and what our own comments there have taken up."""
        comments, ours = await self.comments(number, trust)
        answered = answers_in(ours)
        found = [_as_remark(comment) for comment in comments]
        beside = await self._exchange.pages(f"{self.root}/pulls/{number}/comments")
        reviews = await self._exchange.pages(f"{self.root}/pulls/{number}/reviews")
        with reading(_FORGE, "a review"):
            parts = [(_REMARK, each, each["created_at"]) for each in beside]
            # One that is being written has no time yet, and is shown to its author alone.
            parts += [
                (_REVIEW, each, each["submitted_at"])
                for each in reviews
                if text(each["body"]).strip() and each.get("submitted_at")
            ]
        for prefix, body, at in parts:
            with reading(_FORGE, "a review"):
                author = login(body["user"])
            trusted = await trust.of(author)
            with reading(_FORGE, "a review"):
                found.append(_remark(prefix, body, author, time(at), trusted=trusted))
        told = [replace(each, answered=each.id in answered) for each in found]
        return sorted(told, key=lambda each: each.created), answered

    async def reviews(self, trust: Trust) -> Sequence[Review]:
        """Return all open pull requests of ours with what was written on them."""
        own = await self.account()
        found: list[Review] = []
        for body in await self._exchange.pages(f"{self.root}/pulls", state="open"):
            with reading(_FORGE, "a pull request"):
                issue = issue_of(text(body["body"])) if login(body["user"]) == own else None
                request = pull_request(body)
            if issue is None:
                continue
            remarks, answered = await self.remarks(request.number, trust)
            found.append(Review(request=request, issue=issue, remarks=remarks, answered=answered))
        return found

    async def graphql(self, query: str, values: Mapping[str, Any]) -> Any:
        """Return what a query of GraphQL is answered with.

        Raises:
            ForgeError: it is refused.
        """
        body = await self._exchange.write("POST", "/graphql", {"query": query, "variables": dict(values)})
        with reading(_FORGE, "an answer of GraphQL"):
            errors = body.get("errors")
            if not errors:
                return body["data"]
            kind, told = str(errors[0].get("type", "")), str(errors[0]["message"])
        code: ForgeCode = _REFUSALS.get(kind, "forge_rejected")
        raise failure(code, _FORGE, Question(method="POST", path="/graphql"), told)

    async def _revisions(self, number: int, created: datetime, trust: Trust) -> tuple[Revision, ...]:
        changes = await self._text_edits(number)
        events = await self._exchange.pages(f"{self.root}/issues/{number}/events")
        with reading(_FORGE, "events"):
            changes += [
                (time(each["created_at"]), login(each["actor"]))
                for each in events
                if each["event"] == "renamed"
            ]
        # The history of a text that was changed begins with its first writing.
        later = sorted({change for change in changes if change[0] > created})
        return tuple([Revision(actor=who, at=at, trusted=await trust.of(who)) for at, who in later])

    async def _text_edits(self, number: int) -> list[tuple[datetime, str]]:
        found: list[tuple[datetime, str]] = []
        after: str | None = None
        while True:
            values = {"owner": self._owner, "name": self._name, "number": number, "after": after}
            data = await self._exchange.repeat(lambda values=values: self.graphql(_EDITS, values))
            with reading(_FORGE, "the history of a text"):
                edits = data["repository"]["issue"]["userContentEdits"]
                if not edits:
                    return found
                found += [(time(each["editedAt"]), login(each["editor"])) for each in edits["nodes"]]
                if not edits["pageInfo"]["hasNextPage"]:
                    return found
                after = str(edits["pageInfo"]["endCursor"])


def pull_request(body: Any) -> PullRequest:
    """Return a pull request."""
    with reading(_FORGE, "a pull request"):
        state = "open" if body["state"] == "open" else "merged" if body.get("merged_at") else "closed"
        return PullRequest(
            number=int(body["number"]),
            branch=str(body["head"]["ref"]),
            base=str(body["base"]["ref"]),
            state=state,
            draft=bool(body.get("draft")),
            title=str(body["title"]),
            text=without_issue(text(body["body"])),
            address=str(body["html_url"]),
        )


def login(user: Any) -> str:
    """Return an account's name."""
    return str(user["login"]) if user else _GHOST


def text(body: Any) -> str:
    r"""Return a text with ``\n`` between lines."""
    return str(body or "").replace("\r\n", "\n")


def time(told: Any) -> datetime:
    """Return a time."""
    return datetime.fromisoformat(str(told)).astimezone(UTC)


def _number(body: Any) -> int:
    return int(body["number"]) if "number" in body else int(str(body["issue_url"]).rpartition("/")[2])


def _comment(body: Any) -> Comment:
    created, edited = time(body["created_at"]), time(body["updated_at"])
    return Comment(
        id=str(int(body["id"])),
        author=login(body["user"]),
        text=text(body["body"]),
        created=created,
        edited=edited if edited > created else None,
        trusted=False,
    )


def _as_remark(comment: Comment) -> Remark:
    return Remark(
        id=comment.id,
        author=comment.author,
        text=comment.text,
        path="",
        line=None,
        created=comment.created,
        trusted=comment.trusted,
    )


def _remark(prefix: str, body: Any, author: str, created: datetime, *, trusted: bool) -> Remark:
    line = body.get("line")
    return Remark(
        id=f"{prefix}{int(body['id'])}",
        author=author,
        text=text(body["body"]),
        path=str(body.get("path") or ""),
        line=None if line is None else int(line),
        created=created,
        trusted=trusted,
    )
