"""The fake forges themselves: what a test may rely on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kakite_testing.forges import (
    BOT,
    FakeForge,
    FakeGitHub,
    FakeGitLab,
    Fault,
    ForgeRequest,
    ForgeResponse,
    app,
    fake_github,
    fake_gitlab,
)
from tests.bounds import WITHIN
from tests.contracts import github_contract

FAKES = {"github": fake_github, "gitlab": fake_gitlab}


@pytest.fixture(params=sorted(FAKES))
def fake(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[FakeForge]:
    with FAKES[request.param](tmp_path) as running:
        yield running


class Said:
    """What a fake answered."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.json: Any = json.loads(body) if body else None


def ask(fake: FakeForge, path: str, *, token: str | None = None, **headers: str) -> Said:
    root = "/api/v3/repos/team/app" if isinstance(fake, FakeGitHub) else "/api/v4/projects/team%2Fapp"
    headers["Authorization"] = f"Bearer {fake.token if token is None else token}"
    request = urllib.request.Request(f"{fake.server}{root}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WITHIN) as answer:
            return Said(answer.status, lowered(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Said(error.code, lowered(error.headers), error.read())


def lowered(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], check=False, capture_output=True, timeout=60)


def url_for(fake: FakeForge, token: str) -> str:
    return fake.git_url.replace("://", f"://any:{token}@")


def test_pages_lead_from_one_to_the_next_until_all_is_told(fake: FakeForge) -> None:
    for number in range(7):
        fake.state.open_issue(str(number), by="ann")
    titles: list[str] = []
    path = "/issues?per_page=3&page=1"
    while path:
        said = ask(fake, path)
        titles += [each["title"] for each in said.json]
        links = [part for part in said.headers.get("link", "").split(", ") if 'rel="next"' in part]
        path = f"/issues?{links[0].partition('?')[2].partition('>')[0]}" if links else ""
    assert sorted(titles) == [str(number) for number in range(7)]


def test_an_answer_that_still_holds_is_not_told_again_and_not_counted(fake: FakeForge) -> None:
    fake.state.open_issue("Bug", by="ann")
    first = ask(fake, "/issues/1")
    used = fake.front.rate.used
    assert ask(fake, "/issues/1", **{"If-None-Match": first.headers["etag"]}).status == 304
    assert fake.front.rate.used == used
    fake.state.edit(fake.state.get_issue(1), by="ann", title="Worse")
    assert ask(fake, "/issues/1", **{"If-None-Match": first.headers["etag"]}).json["title"] == "Worse"


def test_nobody_gets_in_without_a_token_that_holds(fake: FakeForge) -> None:
    assert ask(fake, "", token="x").status == 401
    assert ask(fake, "").status == 200
    fake.access.expire()
    assert ask(fake, "").status == 401
    assert git("ls-remote", url_for(fake, fake.token)).returncode != 0


def test_a_push_needs_the_right_to_write(fake: FakeForge, tmp_path: Path) -> None:
    fake.state.people["mallory"] = "read"
    clone = tmp_path / "clone"
    assert git("clone", "-q", url_for(fake, fake.access.grant("mallory")), str(clone)).returncode == 0
    refused = [
        fake.access.grant("mallory"),
        fake.access.grant(BOT, read_only=True),
    ]
    for token in refused:
        assert git("-C", str(clone), "push", url_for(fake, token), "HEAD:refs/heads/x").returncode != 0
    assert fake.repository.get_head("x") is None
    assert git("-C", str(clone), "push", url_for(fake, fake.token), "HEAD:refs/heads/x").returncode == 0
    assert fake.repository.get_head("x") == fake.repository.get_head("main")


def test_a_fault_meets_as_many_fitting_requests_as_it_is_meant_for(fake: FakeForge) -> None:
    fake.fail(Fault(status=503, path="/issues", times=2))
    assert [ask(fake, path).status for path in ("", "/issues", "/issues", "/issues")] == [200, 503, 503, 200]


def test_a_late_answer_comes_late_and_whole(fake: FakeForge) -> None:
    fake.fail(Fault(delay=0.3))
    begin = time.monotonic()
    assert ask(fake, "").status == 200
    assert time.monotonic() - begin >= 0.3


def test_others_are_answered_while_one_waits(fake: FakeForge, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()

    async def wait(_: float) -> None:
        assert await asyncio.to_thread(is_over.wait, WITHIN)

    monkeypatch.setattr(app, "asyncio", SimpleNamespace(sleep=wait))
    fake.fail(Fault(delay=2, path="/issues$"))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(ask, fake, "/issues")
        while fake.front.faults[0].times:
            assert not late.done()
        assert ask(fake, "").status == 200
        assert not late.done()
        is_over.set()
        assert late.result(timeout=WITHIN).status == 200


def test_what_is_kept_of_requests_holds_no_token(fake: FakeForge) -> None:
    ask(fake, "")
    assert fake.token not in repr(fake.front.asked)


def test_the_times_tell_the_order_in_which_things_happened(fake: FakeForge) -> None:
    item = fake.state.open_issue("Bug", by="ann", labels=("a", "b"))
    note = fake.state.comment(item, "x", by="ann")
    times = [item.created, *(change.at for change in item.changes), note.created, item.updated]
    assert times == sorted(times)
    assert len(set(times)) == 4


def test_numbers_are_shared_on_github_alone(fake: FakeForge) -> None:
    fake.state.open_issue("Bug", by="ann")
    pull = fake.state.open_pull("P", by="ann", head="main", base="main")
    assert pull.number == (1 if isinstance(fake, FakeGitLab) else 2)


def test_a_query_that_github_would_not_know_is_found_and_so_is_an_answer_it_would_not_give() -> None:
    contract = github_contract()
    known = 'query($n: Int!) { repository(owner: "a", name: "b") { issue(number: $n) { __typename } } }'

    def asked(query: str, **values: object) -> ForgeRequest:
        body = json.dumps({"query": query, "variables": values}).encode()
        return ForgeRequest(method="POST", path="/api/graphql", body=body)

    assert contract.check_request(asked(known, n=1)) is None
    assert "non-integer" in (contract.check_request(asked(known, n="one")) or "")
    assert "numbr" in (contract.check_request(asked(known.replace("number", "numbr"), n=1)) or "")
    drafts = 'mutation { convertPullRequestToDraft(input: {pullRequestId: "x"}) { pullRequest { isDraft } } }'
    right = {"data": {"convertPullRequestToDraft": {"pullRequest": {"isDraft": True}}}}
    assert contract.check_request(asked(drafts)) is None
    assert contract.check_response(asked(drafts), ForgeResponse(body=right)) is None
    assert contract.check_response(
        asked(drafts), ForgeResponse(body={"data": {"pullRequest": {"isDraft": True}}})
    )
