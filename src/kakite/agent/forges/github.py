"""GitHub as a forge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

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
from kakite.agent.forges.github_reads import GitHubReads, login, pull_request, text
from kakite.agent.forges.github_session import App, GitHubSession, Token
from kakite.agent.forges.names import Names, key_of, marker
from kakite.agent.forges.poll import Poll, Trust, issue_of, with_issue

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
        access: Token | App,
        *,
        api_url: str = API_URL,
        patience: Patience | None = None,
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
        patience = patience or Patience()
        self._session = GitHubSession(
            path, access, api_url=api_url, timeout=patience.timeout, between_writes=between_writes
        )
        self._exchange = Exchange(_FORGE, self._session.send, patience)
        self._reads = GitHubReads(path, self._exchange, self._session)
        self._root = self._reads.root
        self._poll = Poll(self._reads)

    async def check(self) -> None:
        """Make sure that code, issues and pull requests can be read and written."""
        body = await self._exchange.get(self._root)
        with reading(_FORGE, "the repository"):
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

    async def repository(self) -> Repository:
        """Return where the code is, with a token that holds for some minutes at least."""
        body = await self._exchange.get(self._root)
        token = await self._exchange.alone(self._session.token)
        with reading(_FORGE, "the repository"):
            address = str(body["clone_url"])
            if urlsplit(address).scheme not in {"http", "https"} or "@" in address:
                raise ValueError("clone_url")
            return Repository(
                address=address,
                default_branch=str(body["default_branch"]),
                credentials=Credentials("x-access-token", token),
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
        """Tell whether somebody may write, by the permission that GitHub tells of them."""
        return await self._reads.may_write(actor)

    async def mark(self, number: int, state: State, names: Names) -> None:
        """Set the label of a state, then take the other four away."""
        await self._exchange.repeat(lambda: self._mark(number, names.label(state), names))

    async def put_comment(self, number: int, key: str, text: str) -> str:
        """Write below an issue, in place of what was put there with the same key. Returns its address."""
        return await self._exchange.repeat(lambda: self._put(number, key, f"{marker(key)}\n{text}"))

    async def put_remark(self, request: int, key: str, text: str) -> str:
        """Write below a pull request, like ``put_comment``."""
        return await self.put_comment(request, key, text)  # a pull request is an issue with something more

    async def put_request(
        self, *, issue: int, branch: str, base: str, title: str, text: str, draft: bool
    ) -> PullRequest:
        """Bring our open pull request of this branch up to date, or make one.

        One that somebody else has opened of the branch stays as it is, and is returned.
        """
        told = {"title": title, "body": with_issue(text, issue), "base": base}
        try:
            return await self._exchange.repeat(lambda: self._put_request(branch, told, draft=draft))
        except ForgeError as error:
            if error.code != "forge_rejected" or not await self._requests(branch, "open"):
                raise
        # Somebody, or an attempt of ours whose answer was lost, was faster.
        return await self._exchange.repeat(lambda: self._put_request(branch, told, draft=draft))

    async def requests(self, branch: str) -> Sequence[PullRequest]:
        """Return the pull requests of a branch in any state, the newest first."""
        return [pull_request(body) for body in await self._requests(branch, "all")]

    async def request(self, number: int) -> PullRequest:
        """Return a pull request."""
        return pull_request(await self._exchange.get(f"{self._root}/pulls/{number}"))

    async def remarks(self, request: int) -> Sequence[Remark]:
        """Return what was written below a pull request and beside its lines, the oldest first."""
        return (await self._reads.remarks(request, Trust(self.may_write)))[0]

    async def _has_rights(self) -> bool:
        if not self._session.is_app:
            return await self.may_write(await self._reads.account())
        rights = await self._exchange.alone(self._session.rights)
        return all(rights.get(each) == "write" for each in _RIGHTS)

    async def _mark(self, number: int, wanted: str, names: Names) -> None:
        place = f"{self._root}/issues/{number}"
        body = await self._exchange.get(place)
        with reading(_FORGE, "labels"):
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

    async def _put(self, number: int, key: str, wanted: str) -> str:
        own = await self._reads.account()
        for body in await self._exchange.pages(f"{self._root}/issues/{number}/comments"):
            with reading(_FORGE, "a comment"):
                present, address = text(body["body"]), str(body["html_url"])
                is_it = login(body["user"]) == own and key_of(present) == key
                place = f"{self._root}/issues/comments/{int(body['id'])}"
            if is_it:
                if present != wanted:
                    await self._exchange.write("PATCH", place, {"body": wanted})
                return address
        created = await self._exchange.write(
            "POST", f"{self._root}/issues/{number}/comments", {"body": wanted}
        )
        with reading(_FORGE, "a comment"):
            return str(created["html_url"])

    async def _put_request(self, branch: str, told: dict[str, str], *, draft: bool) -> PullRequest:
        own = await self._reads.account()
        for body in await self._requests(branch, "open"):
            with reading(_FORGE, "a pull request"):
                ours = login(body["user"]) == own and issue_of(text(body["body"])) is not None
            return await self._update_request(body, told, draft=draft) if ours else pull_request(body)
        return pull_request(
            await self._exchange.write(
                "POST", f"{self._root}/pulls", {**told, "head": branch, "draft": draft}
            )
        )

    async def _update_request(self, body: Any, told: dict[str, str], *, draft: bool) -> PullRequest:
        with reading(_FORGE, "a pull request"):
            number, node = int(body["number"]), str(body["node_id"])
            present = {"title": body["title"], "body": text(body["body"]), "base": body["base"]["ref"]}
        changed = {name: value for name, value in told.items() if present[name] != value}
        if changed:
            body = await self._exchange.write("PATCH", f"{self._root}/pulls/{number}", changed)
        if pull_request(body).draft != draft:
            await self._reads.graphql(_draft_mutation(_DRAFTS[draft]), {"request": node})
            body = {**body, "draft": draft}
        return pull_request(body)

    async def _requests(self, branch: str, state: str) -> list[Any]:
        owner = self.path.partition("/")[0]
        found = await self._exchange.pages(f"{self._root}/pulls", head=f"{owner}:{branch}", state=state)
        with reading(_FORGE, "pull requests"):
            # An Enterprise Server takes a `head` that it cannot read for none, and tells of all.
            mine = [each for each in found if each["head"]["ref"] == branch]
            return sorted(mine, key=lambda each: int(each["number"]), reverse=True)


def _draft_mutation(name: str) -> str:
    """Return the one change of a pull request that only GraphQL can make."""
    return (
        f"mutation($request: ID!) {{ {name}(input: {{pullRequestId: $request}}) "
        "{ pullRequest { isDraft } } }"
    )
