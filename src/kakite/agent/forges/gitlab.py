"""GitLab as a forge. What it calls merge requests are pull requests here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kakite.agent.forges.answers import reading
from kakite.agent.forges.exchange import Exchange, Patience
from kakite.agent.forges.forge import (
    Credentials,
    ForgeError,
    Issue,
    PullRequest,
    Remark,
    Repository,
    State,
    Trigger,
)
from kakite.agent.forges.gitlab_reads import DRAFT, GitLabReads, login, merge_request, same, text
from kakite.agent.forges.gitlab_session import GitLabSession
from kakite.agent.forges.names import Names, key_of, marker
from kakite.agent.forges.poll import Poll, Trust, issue_of, with_issue

URL: Final = "https://gitlab.com"
_FORGE: Final = "GitLab"


class GitLabForge:
    """One project on GitLab."""

    name = "gitlab"
    longest = 1_000_000

    def __init__(self, path: str, token: str, *, url: str = URL, patience: Patience | None = None) -> None:
        """Take a project; nothing is asked yet.

        Args:
            path: ``group/name``, with all groups between.
            token: of a person, a project or a group, with the scope ``api`` and the role Developer.
            url: the address of the server.
            patience: how long to wait for it.
        """
        self.path = path
        patience = patience or Patience()
        self._session = GitLabSession(token, url=url, timeout=patience.timeout)
        self._exchange = Exchange(_FORGE, self._session.send, patience)
        self._reads = GitLabReads(path, self._exchange)
        self._root = self._reads.root
        self._poll = Poll(self._reads)

    async def check(self) -> None:
        """Make sure that code, issues and merge requests can be read and written."""
        body = await self._exchange.get(self._root)
        with reading(_FORGE, "the project"):
            shut = [name for name in ("issues", "merge_requests") if _is_shut(body, name)]
            archived = bool(body.get("archived"))
        if archived or shut:
            what = "is archived" if archived else f"has no {shut[0].replace('_', ' ')}"
            raise ForgeError(
                "forge_rejected", f"`{self.path}` {what}", hint="change it in the project's settings"
            )
        if not (await self._may_use_all() and await self.may_write(await self._reads.account())):
            raise ForgeError(
                "forge_forbidden",
                f"the token may not write to `{self.path}`",
                hint="give it the scope `api` and the role Developer",
            )

    async def repository(self) -> Repository:
        """Return where the code is, with the token."""
        body = await self._exchange.get(self._root)
        with reading(_FORGE, "the project"):
            address = str(body["http_url_to_repo"])
            if urlsplit(address).scheme not in {"http", "https"} or "@" in address:
                raise ValueError("http_url_to_repo")
            return Repository(
                address=address,
                default_branch=str(body["default_branch"]),
                credentials=Credentials("oauth2", self._session.token()),
            )

    async def triggers(self, names: Names) -> Sequence[Trigger]:
        """Return everything that waits now, the oldest first; at most one for each issue."""
        return await self._poll.triggers(names)

    async def issue(self, number: int) -> Issue:
        """Return an issue with all its comments but Kakite's own."""
        return (await self._reads.thread(number, Trust(self.may_write))).issue

    async def account(self) -> str:
        """Return the name of the account that the token is of."""
        return await self._reads.account()

    async def may_write(self, actor: str) -> bool:
        """Tell whether somebody is a member of the project with the right to push."""
        return await self._reads.may_write(actor)

    async def mark(self, number: int, state: State, names: Names) -> None:
        """Set the label of a state and take the other four away, in one go."""
        await self._exchange.repeat(lambda: self._mark(number, names.label(state), names))

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address."""
        return await self._put(f"{self._root}/issues/{number}", key, text)

    async def put_remark(self, request: int, key: str, text: str) -> str:
        """Write below a merge request, like ``put_comment``."""
        return await self._put(f"{self._root}/merge_requests/{request}", key, text)

    async def put_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring our open merge request of this branch up to date, or make one.

        One that somebody else has opened of the branch stays as it is, and is returned.
        """
        told = {
            "title": f"{DRAFT}{title}" if draft else title,
            "description": with_issue(text, issue),
            "target_branch": base,
        }
        return await self._exchange.repeat(lambda: self._put_request(branch, told))

    async def requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the merge requests of a branch in any state, the newest first."""
        return [merge_request(body) for body in await self._requests(branch, "all")]

    async def request(self, number: int) -> PullRequest:
        """Return a merge request."""
        return merge_request(await self._exchange.get(f"{self._root}/merge_requests/{number}"))

    async def remarks(self, request: int) -> Sequence[Remark]:
        """Return what was written below a merge request and beside its lines, the oldest first."""
        place = f"{self._root}/merge_requests/{request}"
        return (await self._reads.notes(place, Trust(self.may_write))).theirs

    async def _may_use_all(self) -> bool:
        """Tell whether the token has the scope for the whole API, where it tells its scopes."""
        try:
            body = await self._exchange.get("/personal_access_tokens/self")
        except ForgeError as error:
            if error.code == "forge_unauthorized":
                raise
            return error.code in {"forge_not_found", "forge_rejected"}  # one of another kind
        with reading(_FORGE, "the token"):
            return "api" in body["scopes"]

    async def _mark(self, number: int, wanted: str, names: Names) -> None:
        place = f"{self._root}/issues/{number}"
        body = await self._exchange.get(place)
        with reading(_FORGE, "labels"):
            present = [str(each) for each in body["labels"]]
        ours = [each for each in present if any(same(each, label) for label in names.labels)]
        others = [each for each in ours if each != wanted]
        told = {
            **({} if wanted in present else {"add_labels": wanted}),
            **({"remove_labels": ",".join(others)} if others else {}),
        }
        if told:
            await self._exchange.write("PUT", place, told)

    async def _put(self, place: str, key: str, text: str) -> str:
        return await self._exchange.repeat(lambda: self._put_once(place, key, f"{marker(key)}\n{text}"))

    async def _put_once(self, place: str, key: str, wanted: str) -> str:
        own = await self._reads.account()
        page = await self._exchange.get(place)
        with reading(_FORGE, "an address"):
            address = str(page["web_url"])
        for body in await self._exchange.pages(f"{place}/notes", sort="asc", order_by="created_at"):
            with reading(_FORGE, "a comment"):
                present, number = text(body["body"]), int(body["id"])
                is_it = login(body["author"]) == own and not body["system"] and key_of(present) == key
            if is_it:
                if present != wanted:
                    await self._exchange.write("PUT", f"{place}/notes/{number}", {"body": wanted})
                return f"{address}#note_{number}"
        created = await self._exchange.write("POST", f"{place}/notes", {"body": wanted})
        with reading(_FORGE, "a comment"):
            return f"{address}#note_{int(created['id'])}"

    async def _put_request(self, branch: str, told: dict[str, str]) -> PullRequest:
        own = await self._reads.account()
        for body in await self._requests(branch, "opened"):
            with reading(_FORGE, "a merge request"):
                ours = login(body["author"]) == own and issue_of(text(body["description"])) is not None
            return await self._update_request(body, told) if ours else merge_request(body)
        made = {**told, "source_branch": branch}
        return merge_request(await self._exchange.write("POST", f"{self._root}/merge_requests", made))

    async def _update_request(self, body: Any, told: dict[str, str]) -> PullRequest:
        with reading(_FORGE, "a merge request"):
            number = int(body["iid"])
            present = {
                "title": body["title"],
                "description": text(body["description"]),
                "target_branch": body["target_branch"],
            }
        changed = {name: value for name, value in told.items() if present[name] != value}
        if changed:
            body = await self._exchange.write("PUT", f"{self._root}/merge_requests/{number}", changed)
        return merge_request(body)

    async def _requests(self, branch: str, state: str) -> list[Any]:
        found = await self._exchange.pages(
            f"{self._root}/merge_requests", source_branch=branch, state=state, scope="all"
        )
        with reading(_FORGE, "merge requests"):
            return sorted(found, key=lambda each: int(each["iid"]), reverse=True)


def _is_shut(project: Any, part: str) -> bool:
    return project.get(f"{part}_access_level", "enabled") == "disabled"
