"""Servers of a configuration that want a login: the person is asked, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from kakite.errors import UsageError
from kakite.host.config.model import HttpServer, ServerEntry, StdioServer, Timeouts
from kakite.host.oauth.login import LoginStatus, log_in, log_out
from kakite.host.oauth.provider import AuthorizationPage
from kakite.host.server.server import ServerError
from tests.cli.hosted import Hosted
from tests.host.authority import Authority, running
from tests.host.making import ORIGIN, call, serving, surroundings

pytestmark = pytest.mark.anyio


class Slow:
    """A person who takes some time."""

    def __init__(self, seconds: float = 0) -> None:
        self.seconds = seconds
        self.visits = 0
        self._walks: set[asyncio.Task[None]] = set()

    async def open_page(self, page: AuthorizationPage) -> None:
        self.visits += 1
        self._walks.add(asyncio.create_task(self._walk(page)))

    async def _walk(self, page: AuthorizationPage) -> None:
        await asyncio.sleep(self.seconds)
        async with httpx2.AsyncClient(verify=False) as browser:
            await browser.get((await browser.get(page.address)).headers["Location"])


@pytest.fixture
def authority() -> Generator[Authority]:
    with running() as authority:
        yield authority


def there(authority: Authority, *, start: float = 20) -> ServerEntry:
    timeouts = Timeouts(start=start, idle=start)
    return ServerEntry(name="there", reached=HttpServer(url=authority.url), origin=ORIGIN, timeouts=timeouts)


@pytest.mark.slow
async def test_a_server_that_wants_a_login_waits_for_the_person(authority: Authority, tmp_path: Path) -> None:
    person = Slow(seconds=4)
    async with serving(there(authority, start=3), tmp_path, visitor=person) as server:
        assert [each.tool.name for each in await server.list_definitions()] == ["echo"]
        assert (await server.call(call("echo"))).text == "here"
    assert person.visits == 1


async def test_the_next_host_is_let_in_without_a_person(authority: Authority, tmp_path: Path) -> None:
    async with serving(there(authority), tmp_path, visitor=Slow()) as server:
        await server.start()
    async with serving(there(authority), tmp_path) as server:
        await server.start()
        assert server.status.kind == "ready"


async def test_without_a_person_the_server_alone_fails_and_says_what_to_do(
    authority: Authority, tmp_path: Path
) -> None:
    async with serving(there(authority), tmp_path) as server:
        with pytest.raises(ServerError) as caught:
            await server.list_definitions()
        assert caught.value.code == "authorization_required"
        assert "kakite host login there" in caught.value.hint
        assert server.status.kind == "failed"
        assert "kakite host login there" in server.status.hint
    assert not authority.issuer.seen


@pytest.mark.slow
async def test_a_call_that_wants_more_rights_waits_for_the_person(
    authority: Authority, tmp_path: Path
) -> None:
    person = Slow()
    async with serving(there(authority), tmp_path, visitor=person) as server:
        await server.start()
        person.seconds = 4
        server.entry = there(authority, start=3)
        authority.scope = "write"
        assert (await server.call(call("echo"))).text == "here"
    assert person.visits == 2


async def test_a_call_that_wants_more_rights_fails_without_a_person_and_the_next_one_starts_anew(
    authority: Authority, tmp_path: Path
) -> None:
    async with serving(there(authority), tmp_path, visitor=Slow()) as server:
        await server.start()
    async with serving(there(authority), tmp_path) as server:
        await server.start()
        authority.scope = "write"
        result = await server.call(call("echo"))
        assert result.is_error
        assert result.code == "authorization_required"
        assert "kakite host login there" in result.text
        authority.scope = "read"
        assert (await server.call(call("echo"))).text == "here"


async def test_a_person_logs_in_and_out(authority: Authority, tmp_path: Path) -> None:
    person = Slow()
    there_now, around = there(authority), surroundings(tmp_path, visitor=person)
    found = await log_in(there_now, around)
    assert (found.issuer, found.scopes) == (authority.issuer.url, ("read",))
    assert found.expires_at
    await log_in(there_now, around)
    assert person.visits == 1, "who is logged in already is not asked"
    await log_in(there_now, around, anew=True)
    assert person.visits == 2
    assert log_out(there_now, around)
    assert not log_out(there_now, around)


@pytest.mark.slow
async def test_the_command_forgets_a_login_and_says_whether_there_was_one(
    authority: Authority, tmp_path: Path
) -> None:
    project = Hosted(tmp_path)
    project.write({"there": {"url": authority.url}}, user=True)
    around = replace(surroundings(tmp_path, visitor=Slow()), state=project.state / "host")
    await log_in(there(authority), around)
    first, again = project.host("logout", "there"), project.host("logout", "there")
    assert (first.code, again.code) == (0, 0), first.stderr + again.stderr
    assert first.stdout != again.stdout
    assert not log_out(there(authority), around)
    assert project.host("logout", "nowhere").code == 2


async def test_a_server_that_wants_no_login_gets_none(authority: Authority, tmp_path: Path) -> None:
    authority.access[""] = "read"
    found = await log_in(there(authority), surroundings(tmp_path))
    assert found == LoginStatus(issuer="", scopes=(), expires_at=None)


async def test_nobody_logs_in_to_a_program(tmp_path: Path) -> None:
    program = ServerEntry(name="here", reached=StdioServer(command="true"), origin=ORIGIN)
    with pytest.raises(UsageError) as caught:
        await log_in(program, surroundings(tmp_path))
    assert caught.value.code == "no_login"
