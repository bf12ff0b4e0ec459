"""What is GitHub's alone: Apps, limits, pages, drafts; and whether its fake is true to its contract."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from kakite.agent.forges.base import ForgeError
from kakite.agent.forges.factory import open_github
from kakite.agent.forges.github import GitHubApi
from kakite.agent.forges.github_session import GitHubApp, GitHubToken
from kakite.agent.forges.labels import LabelConfig, format_handled_ids
from kakite.agent.forges.rest import RestForge
from kakite.agent.git.mirror import GitError, Mirror
from kakite.agent.git.url import RepoUrl
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.issues.triage import AcceptedTask, encode_trigger, find_pending_tasks
from kakite.agent.worker.payloads import PublishedQuestion, TaskInput
from kakite.agent.worker.status import ErrorView, HumanInputRequest
from kakite.durable.blobs import BlobStore
from kakite.errors import UsageError
from kakite.redaction import Redaction
from kakite_testing.forges import FakeGitHub, Fault, fake_github
from tests.agent.forges.worlds import PATIENCE, github
from tests.contracts import github_contract

NAMES = LabelConfig()


@pytest.fixture
def fake(tmp_path: Path) -> Generator[FakeGitHub]:
    with fake_github(tmp_path, contract=github_contract()) as running:
        running.state.people["ann"] = "write"
        yield running


def app_forge(fake: FakeGitHub, tmp_path: Path) -> RestForge:
    app = fake.install_app("kakite")
    key = tmp_path / "app.pem"
    key.write_text(app.private_key, encoding="utf-8")
    key.chmod(stat.S_IRUSR)
    access = GitHubApp(id=str(app.id), key_file=key)
    return RestForge(GitHubApi(fake.path, access, api_url=fake.api_url, patience=PATIENCE, between_writes=0))


def token_requests(fake: FakeGitHub) -> int:
    return fake.count_requests("POST", "/access_tokens")


def test_an_app_writes_as_itself_and_knows_its_own_comments(fake: FakeGitHub, tmp_path: Path) -> None:
    forge = app_forge(fake, tmp_path)
    item = fake.state.open_issue("Bug", by="ann")
    note = fake.state.comment(item, "@kakite please", by="ann")

    async def work() -> None:
        await forge.check()
        assert [each.comment for each in await forge.find_triggers(NAMES)] == [str(note.id)]
        await forge.put_comment(1, "progress", format_handled_ids([str(note.id)]))
        await forge.put_comment(1, "progress", format_handled_ids([str(note.id)]) + "\nmore")
        assert await forge.find_triggers(NAMES) == []

    asyncio.run(work())
    assert [each.author for each in item.notes] == ["ann", "kakite[bot]"]
    assert token_requests(fake) == 1
    assert fake.violations == ()


def test_an_app_renews_a_token_that_ends_soon_before_it_is_used(fake: FakeGitHub, tmp_path: Path) -> None:
    fake.access.token_seconds = 200
    forge = app_forge(fake, tmp_path)

    async def ask() -> list[str]:
        found = [await forge.get_repository() for _ in range(2)]
        return [each.credentials.password for each in found if each.credentials]

    first, second = asyncio.run(ask())
    assert first != second


def test_an_app_renews_a_token_that_was_taken_back(fake: FakeGitHub, tmp_path: Path) -> None:
    forge = app_forge(fake, tmp_path)

    async def ask() -> None:
        await forge.check()
        fake.access.expire()
        await forge.check()

    asyncio.run(ask())
    assert token_requests(fake) == 2


def test_an_app_that_gets_no_token_for_a_moment_asks_again(fake: FakeGitHub, tmp_path: Path) -> None:
    forge = app_forge(fake, tmp_path)
    fake.fail(Fault(status=502, path="access_tokens$"))
    fake.state.open_issue("Bug", by="ann")
    assert asyncio.run(forge.get_issue(1)).title == "Bug"
    assert token_requests(fake) == 2


def test_an_app_that_may_not_write_is_told_before_anything_is_done(fake: FakeGitHub, tmp_path: Path) -> None:
    fake.access.app_rights["contents"] = "read"
    with pytest.raises(ForgeError) as raised:
        asyncio.run(app_forge(fake, tmp_path).check())
    assert raised.value.code == "forge_forbidden"


def test_a_token_of_an_app_is_in_no_log(
    fake: FakeGitHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    __import__("github")  # which sets its own level when it is loaded
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", "github")
    repository = asyncio.run(app_forge(fake, tmp_path).get_repository())
    assert repository.credentials is not None
    assert '"token": "[redacted]"' in caplog.text
    assert repository.credentials.password not in caplog.text


@pytest.mark.parametrize("content", [None, b"", b"no key", b"\xff"])
def test_a_key_that_is_none_is_a_matter_of_the_configuration(
    fake: FakeGitHub, tmp_path: Path, content: bytes | None
) -> None:
    key = tmp_path / "app.pem"
    if content is not None:
        key.write_bytes(content)
    forge = RestForge(
        GitHubApi(fake.path, GitHubApp(id="1", key_file=key), api_url=fake.api_url, patience=PATIENCE)
    )
    with pytest.raises(UsageError) as raised:
        asyncio.run(forge.check())
    assert raised.value.code == "bad_app_key"


def test_an_app_that_is_not_installed_is_not_found_or_unauthorized(fake: FakeGitHub, tmp_path: Path) -> None:
    forge = app_forge(fake, tmp_path)
    fake.access.uninstall()
    with pytest.raises(ForgeError) as raised:
        asyncio.run(forge.check())
    assert raised.value.code == "forge_unauthorized"


def test_a_spent_limit_tells_when_it_begins_anew(fake: FakeGitHub) -> None:
    fake.front.rate.limit, fake.front.rate.reset = 1, time.time() + 1000

    async def ask() -> None:
        await github(fake).get_pull_request(1)

    for code in ("forge_not_found", "forge_rate_limited"):
        fake.front.rate.used += code == "forge_rate_limited"
        with pytest.raises(ForgeError) as raised:
            asyncio.run(ask())
        assert raised.value.code == code
    assert raised.value.retry_after is not None
    assert 990 < raised.value.retry_after <= 1003


def test_a_secondary_limit_without_a_time_is_taken_for_a_minute(fake: FakeGitHub) -> None:
    fake.fail(Fault(status=403, message="You have exceeded a secondary rate limit", times=9))
    with pytest.raises(ForgeError) as raised:
        asyncio.run(github(fake).get_pull_request(1))
    assert (raised.value.code, raised.value.retry_after) == ("forge_rate_limited", 60)


def test_an_issue_number_of_a_pull_request_is_no_issue(fake: FakeGitHub) -> None:
    fake.repository.commit({"a": "b"}, "Work", branch="x")
    fake.state.open_pull("P", "@kakite look", by="ann", head="x", base="main")
    with pytest.raises(ForgeError) as raised:
        asyncio.run(github(fake).get_issue(1))
    assert raised.value.code == "forge_not_found"
    assert asyncio.run(github(fake).find_triggers(NAMES)) == []


@pytest.mark.parametrize("path", ["other/app", "team/none"])
def test_another_repository_is_not_found(fake: FakeGitHub, path: str) -> None:
    forge = RestForge(GitHubApi(path, GitHubToken(fake.token), api_url=fake.api_url, patience=PATIENCE))
    with pytest.raises(ForgeError) as raised:
        asyncio.run(forge.check())
    assert raised.value.code == "forge_not_found"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/repos/team/app/issues/1/comments", {"text": "x"}),
        ("POST", "/repos/team/app/pulls", {"title": "x", "base": "main"}),
        ("POST", "/repos/team/app/issues/1/labels", {"labels": [{"x": 1}]}),
        ("GET", "/repos/team/app/issues?state=merged", None),
        ("POST", "/repos/team/app/nothing", {}),
    ],
)
def test_a_request_that_breaks_githubs_contract_fails_a_test(
    fake: FakeGitHub, method: str, path: str, body: dict[str, object] | None
) -> None:
    from github import Auth, Github

    fake.state.open_issue("Bug", by="ann")
    client = Github(auth=Auth.Token(fake.token), base_url=fake.api_url, retry=None)
    status, _, _ = client.requester.requestJson(method, path, input=body)
    assert status == 400
    assert len(fake.violations) == 1


def test_git_is_given_another_token_when_the_one_that_it_has_ended_in_the_middle_of_a_task(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    app, key = fake.install_app(), tmp_path / "app.pem"
    key.write_text(app.private_key, encoding="utf-8")
    environ = {"KAKITE_GITHUB_APP_ID": str(app.id), "KAKITE_GITHUB_APP_KEY_FILE": str(key)}
    forge = open_github(fake.path, environ, api_url=fake.api_url)

    async def address() -> RepoUrl:
        found = await forge.get_repository()
        assert found.credentials is not None
        return RepoUrl(found.address, found.credentials.username, found.credentials.password)

    async def work() -> None:
        mirror = Mirror(tmp_path / "mirror.git", await address(), os.environ, fresh=address)
        await mirror.create()
        commit = await mirror.find_start_commit("main")
        await mirror.update_ref(commit)
        fake.access.expire()
        assert await mirror.push("topic")
        fake.access.expire()
        assert await mirror.fetch("topic") == commit
        fake.access.expire()
        fake.access.uninstall()
        with pytest.raises(GitError) as caught:
            await mirror.fetch("topic")
        assert (caught.value.code, "ghs_" in str(caught.value)) == ("fetch_failed", False)

    asyncio.run(work())
    assert fake.repository.get_head("topic") == fake.repository.get_head("main")


@pytest.mark.parametrize("name", ["KAKITE_GITHUB_APP_ID", "KAKITE_GITHUB_APP_KEY_FILE"])
def test_half_an_app_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_github("o/n", {name: "1", "KAKITE_GITHUB_TOKEN": "t"})
    assert caught.value.code == "missing_token"


def test_a_task_that_was_locked_out_goes_on_once_the_token_is_valid_again(
    fake: FakeGitHub, tmp_path: Path
) -> None:
    fake.state.open_issue("Bug", "It breaks", by="ann", labels=("kakite",))
    forge = github(fake)
    forge_activities = ForgeActivities(
        lambda _place: forge, NAMES, BlobStore(tmp_path / "blobs"), Redaction()
    )
    asks: HumanInputRequest = {"kind": "stuck", "digest": "d", "tool": "", "arguments": {}, "text": ""}
    error: ErrorView = {"code": "forge_unauthorized", "message": "GitHub answered 401", "hint": ""}

    async def answers() -> tuple[list[str], list[str]]:
        [(task, trigger)] = await find_pending_tasks(forge, NAMES)
        place = {"kind": "github", "path": fake.path, "url": ""}
        start = TaskInput(id=task, forge=place, trigger=encode_trigger(trigger), settings={}, on_ask="deny")
        begun = await forge_activities.accept(start)
        assert isinstance(begun, AcceptedTask)
        public = PublishedQuestion(start=start, accepted=begun, seen=tuple(begun.seen), asks=asks)
        fake.fail(Fault(status=401, times=1))
        with pytest.raises(ForgeError) as caught:
            await forge_activities.fetch_answers(replace(public, error=error))
        assert caught.value.code == "forge_unauthorized"
        found = [await forge_activities.fetch_answers(replace(public, error=each)) for each in (error, None)]
        return tuple([each.answer for each in said] for said in found)  # pyright: ignore[reportReturnType] - two

    assert asyncio.run(answers()) == (["more"], [])


def test_the_token_of_a_job_of_github_actions_works_and_knows_its_own_comments(fake: FakeGitHub) -> None:
    bot = "github-actions[bot]"
    fake.state.people[bot] = "write"
    forge = github(fake, fake.access.grant(bot, installation=True))
    asyncio.run(forge.check())
    assert asyncio.run(forge.get_account()) == bot
