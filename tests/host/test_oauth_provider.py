"""Being let in by a remote server, against a real authorization server on loopback."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from kakite.host.audit_log import AuditLog
from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry, SourceLocation, StdioServer
from kakite.host.oauth.authorization_flow import ProtectedResource
from kakite.host.oauth.provider import (
    AuthorizationError,
    AuthorizationPage,
    LoginPageOpener,
    OAuthAuth,
    create_auth,
)
from kakite.host.oauth.token_store import CredentialsError, TokenFile
from kakite.host.policy.approval import CallOutcome
from kakite.redaction import Redaction
from kakite.tools.toolset import ToolCall, ToolResult
from tests.bounds import WITHIN
from tests.host.authority import Answerer, Authority, Seen, Site, always, listening, running, told

pytestmark = pytest.mark.anyio

OTHER = Path(__file__).with_name("logged_in.py")


class Person:
    """Opens the page and goes where it sends; by hand if told so."""

    def __init__(self, *, answers: bool = True) -> None:
        self.pages: list[AuthorizationPage] = []
        self.answers = answers
        self.opened = asyncio.Event()
        self.came_back: list[httpx2.Response] = []
        self._walks: set[asyncio.Task[None]] = set()

    async def open_page(self, page: AuthorizationPage) -> None:
        self.pages.append(page)
        self.opened.set()
        if self.answers:
            walk = asyncio.create_task(self._walk(page))
            self._walks.add(walk)

    async def shown(self) -> str:
        """Return what the browser shows at last."""
        async with asyncio.timeout(WITHIN):
            await asyncio.gather(*self._walks)
        return self.came_back[-1].text

    async def _walk(self, page: AuthorizationPage) -> None:
        async with httpx2.AsyncClient(verify=False) as browser:
            sent = await browser.get(page.address)
            if "Location" in sent.headers:
                self.came_back.append(await browser.get(sent.headers["Location"]))


@pytest.fixture
def authority() -> Generator[Authority]:
    with running() as authority:
        yield authority


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "logins"


def entry(url: str, **oauth: Any) -> ServerEntry:
    return ServerEntry(
        name="there",
        reached=HttpServer(url=url, oauth=OAuthClient(**oauth)),
        origin=SourceLocation(file="", line=1, scope="user"),
    )


def auth(
    authority: Authority,
    folder: Path,
    visitor: LoginPageOpener | None = None,
    patience: float = WITHIN,
    **oauth: Any,
) -> OAuthAuth:
    made = create_auth(entry(authority.url, **oauth), folder, visitor=visitor, patience=patience)
    assert made is not None
    return made


async def ask(auth: OAuthAuth, url: str, **options: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(verify=False, auth=auth, timeout=WITHIN, **options) as client:
        return await client.post(url, json={})


async def refused(auth: OAuthAuth, url: str, **options: Any) -> AuthorizationError:
    with pytest.raises(AuthorizationError) as caught:
        await ask(auth, url, **options)
    return caught.value


def bearers(site: Site) -> list[str]:
    return [seen.headers.get("authorization", "").removeprefix("Bearer ") for seen in site.asked("/mcp")]


async def test_a_login_is_asked_of_the_person_and_the_request_then_goes_through(
    authority: Authority, folder: Path
) -> None:
    person = Person()
    answer = await ask(auth(authority, folder, person), authority.url)
    assert answer.status_code == 200
    [page] = person.pages
    assert page.server == "there"
    assert page.host == urlsplit(authority.issuer.url).netloc
    assert page.address.startswith(f"{authority.issuer.url}/authorize?")
    assert "Thank you" in await person.shown()
    [registered] = authority.clients.values()
    assert registered["client_name"] == "Kakite"
    assert [urlsplit(str(uri)).hostname for uri in registered["redirect_uris"]] == ["127.0.0.1"]
    assert parse_qs(urlsplit(page.address).query)["resource"] == [authority.url]


@pytest.mark.slow
async def test_tokens_are_used_again_by_another_process_without_a_person(
    authority: Authority, folder: Path
) -> None:
    await ask(auth(authority, folder, Person()), authority.url)
    assert ran(authority, folder) == [200]
    assert len(authority.issuer.asked("/authorize")) == 1


async def test_ended_tokens_are_renewed_before_they_are_sent(authority: Authority, folder: Path) -> None:
    authority.lifetime = 0
    await ask(auth(authority, folder, Person()), authority.url)
    [old] = authority.access
    authority.lifetime = 3600
    answer = await ask(auth(authority, folder), authority.url)
    assert answer.status_code == 200
    assert bearers(authority.server).count(old) == 1
    assert authority.issuer.asked("/token")[-1].form["resource"] == authority.url


async def test_tokens_that_the_server_ended_early_are_renewed(authority: Authority, folder: Path) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    authority.access.clear()
    assert (await ask(mine, authority.url)).status_code == 200
    assert len(authority.issuer.asked("/authorize")) == 1


async def test_tokens_that_come_later_are_in_no_trace(authority: Authority, folder: Path) -> None:
    redaction = Redaction()
    trace = AuditLog(folder.parent / "t", arguments=True, redaction=redaction)
    mine = create_auth(entry(authority.url), folder, visitor=Person(), learn=redaction.add_secrets)
    assert mine is not None
    assert (await ask(mine, authority.url)).status_code == 200
    old = mine.credentials.secrets
    authority.access.clear()
    assert (await ask(mine, authority.url)).status_code == 200
    secrets = {*old, *mine.credentials.secrets} - {""}
    assert len(secrets) > 2, "they were renewed"
    call = ToolCall(id="1", name="x", arguments={"said": sorted(secrets)})
    result = ToolResult(text="")
    done = CallOutcome(
        call=call, server="s", tool="x", decision="allow", by="", result=result, seconds=0, waited=0
    )
    trace.record(done)
    kept = trace.file.read_text(encoding="utf-8")
    assert "said" in kept
    assert not any(secret in kept for secret in secrets)


async def test_a_renewal_without_a_new_refresh_token_or_scope_keeps_the_old_ones(
    authority: Authority, folder: Path
) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    kept = mine.credentials.tokens
    authority.access = {"short": "read"}
    authority.issuer.instead["/token"] = lambda _: told(
        200, {"access_token": "short", "token_type": "bearer"}
    )
    assert (await ask(mine, authority.url)).status_code == 200
    assert kept
    assert mine.credentials.tokens
    assert mine.credentials.tokens.refresh_token == kept.refresh_token
    assert mine.credentials.tokens.scope == "read"


@pytest.mark.slow
async def test_two_processes_at_once_renew_the_tokens_once(authority: Authority, folder: Path) -> None:
    authority.lifetime = 0
    await ask(auth(authority, folder, Person()), authority.url)
    authority.lifetime = 3600
    authority.issuer.seen.clear()
    assert ran(authority, folder, processes=3) == [200, 200, 200]
    # A refresh token that is used a second time ends them all: this one was used once.
    assert len(authority.issuer.asked("/token")) == 1


async def test_tasks_at_once_ask_the_person_once(authority: Authority, folder: Path) -> None:
    person = Person()
    mine = auth(authority, folder, person)
    answers = await asyncio.gather(*(ask(mine, authority.url) for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert len(person.pages) == 1


async def test_two_hosts_at_once_ask_the_person_once(authority: Authority, folder: Path) -> None:
    person = Person()
    hosts = [auth(authority, folder, person) for _ in range(3)]
    answers = await asyncio.gather(*(ask(host, authority.url) for host in hosts))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len(person.pages) == 1


async def test_a_request_that_waits_for_its_answer_keeps_no_other_waiting(
    authority: Authority, folder: Path
) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    flow = mine.async_auth_flow(httpx2.Request("POST", authority.url))
    await anext(flow)  # sent, and not answered
    async with asyncio.timeout(WITHIN):
        assert (await ask(mine, authority.url)).status_code == 200
    await flow.aclose()


async def test_without_a_person_the_way_on_is_told_and_nothing_is_registered(
    authority: Authority, folder: Path
) -> None:
    error = await refused(auth(authority, folder), authority.url)
    assert error.code == "authorization_required"
    assert "kakite host login there" in error.hint
    assert not authority.issuer.seen


async def test_an_answer_with_another_state_is_not_believed(authority: Authority, folder: Path) -> None:
    """A page of a stranger that finds the port brings a code of the stranger's own account."""
    person = Person(answers=False)
    mine = auth(authority, folder, person)
    asking = asyncio.create_task(ask(mine, authority.url))
    async with asyncio.timeout(WITHIN):
        await person.opened.wait()
    query = parse_qs(urlsplit(person.pages[0].address).query)
    [back] = query["redirect_uri"]
    async with httpx2.AsyncClient(verify=False) as stranger:
        for state in ("", "wrong", query["state"][0] + "x"):
            sent = f"{back}?{urlencode({'code': 'theirs', 'state': state, 'iss': authority.issuer.url})}"
            assert (await stranger.get(sent)).status_code == 400
    assert not authority.issuer.asked("/token")
    person.answers = True
    await person.open_page(person.pages[0])
    assert (await asking).status_code == 200


async def test_nobody_who_comes_back_in_time_is_told(authority: Authority, folder: Path) -> None:
    mine = auth(authority, folder, Person(answers=False), patience=0.3)
    error = await refused(mine, authority.url)
    assert error.code == "authorization_timeout"
    # The page may have said that it does not know us: next time we introduce ourselves again.
    assert mine.credentials.client is None


async def test_a_person_who_says_no_is_told_so(authority: Authority, folder: Path) -> None:
    def deny(seen: Seen) -> tuple[int, dict[str, str], bytes]:
        brought = {"error": "access_denied", "state": seen.query["state"], "iss": authority.issuer.url}
        return 302, {"Location": f"{seen.query['redirect_uri']}?{urlencode(brought)}"}, b""

    authority.issuer.instead["/authorize"] = deny
    person = Person()
    error = await refused(auth(authority, folder, person), authority.url)
    assert error.code == "authorization_denied"
    assert "access_denied" in error.message
    assert "Not logged in" in await person.shown()


async def test_more_rights_are_asked_for_besides_those_there_are(authority: Authority, folder: Path) -> None:
    person = Person()
    mine = auth(authority, folder, person)
    await ask(mine, authority.url)
    authority.scope = "write"
    assert (await ask(auth(authority, folder, person), authority.url)).status_code == 200
    assert parse_qs(urlsplit(person.pages[1].address).query)["scope"] == ["read write"]


async def test_a_server_that_is_never_content_sends_the_person_to_its_page_once(
    authority: Authority, folder: Path
) -> None:
    authority.server.instead["/mcp"] = lambda _: told(
        401, {}, WWW_Authenticate=f'Bearer resource_metadata="{authority.server.url}/none"'
    )
    person = Person()
    mine = auth(authority, folder, person)
    for _ in range(3):
        assert (await refused(mine, authority.url)).code == "authorization_denied"
    assert len(person.pages) == 1


@pytest.mark.parametrize("place", ["renewal", "exchange"])
async def test_a_server_that_forgot_us_is_told_again_who_we_are(
    place: str, authority: Authority, folder: Path
) -> None:
    person = Person()
    mine = auth(authority, folder, person)
    await ask(mine, authority.url)
    if place == "exchange":
        authority.refresh.clear()  # then the person is asked, and the code is worth nothing

        def forget(seen: Seen) -> tuple[int, dict[str, str], bytes]:
            authority.clients.clear()
            del authority.issuer.instead["/authorize"]
            brought = {"code": "x", "state": seen.query["state"], "iss": authority.issuer.url}
            return 302, {"Location": f"{seen.query['redirect_uri']}?{urlencode(brought)}"}, b""

        authority.issuer.instead["/authorize"] = forget
    else:
        authority.clients.clear()
    authority.access.clear()
    assert (await ask(mine, authority.url)).status_code == 200
    assert len(authority.issuer.asked("/register")) == 2


async def test_we_come_back_as_who_we_were_registered(authority: Authority, folder: Path) -> None:
    """Authorization servers compare the address that the browser is sent back to, with its port."""
    person = Person()
    mine = auth(authority, folder, person)
    await ask(mine, authority.url)
    authority.access.clear()
    authority.refresh.clear()
    assert (await ask(mine, authority.url)).status_code == 200
    assert len(authority.issuer.asked("/register")) == 1


async def test_where_our_port_is_taken_we_are_registered_anew(authority: Authority, folder: Path) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    authority.access.clear()
    authority.refresh.clear()
    [registered] = authority.clients.values()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", urlsplit(str(registered["redirect_uris"][0])).port))
        taken.listen()
        assert (await ask(mine, authority.url)).status_code == 200
    assert len(authority.issuer.asked("/register")) == 2


async def test_a_configured_port_that_is_taken_is_told(authority: Authority, folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = await refused(auth(authority, folder, Person(), port=port), authority.url)
    assert str(port) in error.message


async def test_who_we_are_by_configuration_is_used_and_not_kept(authority: Authority, folder: Path) -> None:
    secret = authority.secret("configured")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    authority.clients["mine"] = {
        "client_secret": secret,
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
    }
    authority.metadata = {"token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"]}
    mine = auth(authority, folder, Person(), id="mine", secret=secret, port=port)
    assert (await ask(mine, authority.url)).status_code == 200
    authority.access.clear()
    assert (await ask(mine, authority.url)).status_code == 200, "and for a renewal"
    assert not authority.issuer.asked("/register")
    assert not any(secret in file.read_text(encoding="utf-8") for file in folder.iterdir())


async def test_a_configured_secret_is_shown_to_nobody_but_who_was_shown_it_first(
    authority: Authority, folder: Path
) -> None:
    secret = authority.secret("configured")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    authority.clients["mine"] = {
        "client_secret": secret,
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
    }
    authority.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    mine = auth(authority, folder, Person(), id="mine", secret=secret, port=port)
    await ask(mine, authority.url)
    with running() as thief:
        path = "/.well-known/oauth-protected-resource/mcp"
        authority.server.instead[path] = lambda _: told(
            200, {"resource": authority.url, "authorization_servers": [thief.issuer.url]}
        )
        authority.access.clear()
        authority.refresh.clear()
        await refused(mine, authority.url)
        seen = [*thief.issuer.seen]
    assert seen
    assert not any(secret.encode() in one.body or secret in str(one.headers) for one in seen)


async def test_tokens_are_never_sent_to_another_host(authority: Authority, folder: Path) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    with listening(Site(lambda _: told(401, {}, WWW_Authenticate="Bearer"))) as stranger:
        authority.server.instead["/mcp"] = lambda _: (307, {"Location": f"{stranger.url}/mcp"}, b"")
        asked = len(authority.issuer.seen)
        answers = [
            await ask(mine, authority.url, follow_redirects=True),
            await ask(mine, f"{stranger.url}/mcp"),
            await ask(mine, authority.url.replace("127.0.0.1", "localhost"), follow_redirects=True),
        ]
        assert {answer.status_code for answer in answers} == {401}
        assert len(stranger.seen) == 3
        sent = "".join(str(seen) for seen in stranger.seen)
    assert "access-" not in sent
    assert len(authority.issuer.seen) == asked, "and nobody logs in for a stranger"


async def test_the_headers_of_an_entry_are_for_its_server_alone(authority: Authority, folder: Path) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url, headers={"X-Api-Key": "mine"})
    assert any(seen.headers.get("x-api-key") == "mine" for seen in authority.server.asked("/mcp"))
    assert not any("x-api-key" in seen.headers for seen in authority.issuer.seen)


async def test_what_is_kept_is_closed_to_others(authority: Authority, folder: Path) -> None:
    await ask(auth(authority, folder, Person()), authority.url)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert {file.suffix for file in files} == {".json", ".lock"}, "and nothing half-written stays"


async def test_what_is_kept_is_for_its_address_alone(authority: Authority, folder: Path) -> None:
    await ask(auth(authority, folder, Person()), authority.url)
    elsewhere = TokenFile(folder, f"{authority.url}/other")
    [kept] = folder.glob("*.json")
    kept.rename(elsewhere.path)
    assert not elsewhere.load().bearer


async def test_logged_out_the_person_is_asked_again(authority: Authority, folder: Path) -> None:
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    assert mine.forget()
    assert not list(folder.glob("*.json"))
    assert (await refused(auth(authority, folder), authority.url)).code == "authorization_required"


def broken(authority: Authority) -> dict[str, tuple[str, Answerer]]:
    """Return what may go wrong, with the path where another answer is given then."""
    garbled = json.dumps({"access_token": {"is": authority.secret("access")}, "token_type": 3})
    broken_line = {"access_token": f"{authority.secret('access')}\r\nx: y", "token_type": "Bearer"}
    refused = {"error": "invalid_grant", "error_description": authority.secret("told")}
    return {
        "registration refused": ("/register", always(told(400, {"error": authority.secret("odd")}))),
        "registration garbled": ("/register", always(told(201, {"client_secret": authority.secret("s")}))),
        "code refused": ("/token", always(told(400, refused))),
        "tokens garbled": ("/token", always((200, {"Content-Type": "application/json"}, garbled.encode()))),
        "tokens with a line end": ("/token", always(told(200, broken_line))),
        "an endless answer": ("/token", always((200, {}, b" " * (1 << 21)))),
        "the server is ill": ("/token", always((500, {}, b"<html>"))),
        "metadata garbled": ("/.well-known/oauth-authorization-server", always((500, {}, b"{"))),
    }


BROKEN = [
    *("registration refused", "registration garbled", "code refused", "tokens garbled"),
    *("tokens with a line end", "an endless answer", "the server is ill", "metadata garbled"),
]


@pytest.mark.parametrize("what", BROKEN)
async def test_no_failure_shows_a_secret(
    what: str, authority: Authority, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path, answer = broken(authority)[what]
    authority.issuer.instead[path] = answer
    mine = auth(authority, folder, Person())
    error = await refused(mine, authority.url)
    shown = f"{error.message} {error.hint} {error!r} {mine!r} {mine.credentials!r} {trace(error)}"
    assert not secrets_in(shown, authority)
    assert not secrets_in(caplog.text, authority, but="code")
    assert "Traceback" not in caplog.text
    assert error.code == "authorization_failed"


async def test_nor_does_a_login_that_goes_well(
    authority: Authority, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    mine = auth(authority, folder, Person())
    await ask(mine, authority.url)
    authority.access.clear()
    await ask(mine, authority.url)
    file = TokenFile(folder, authority.url)
    assert not secrets_in(f"{mine!r} {mine.credentials!r} {file.load()!r} {file!r}", authority)
    assert not secrets_in(caplog.text, authority, but="code")


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"issuer": "https://elsewhere.example"}, "issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"authorization_endpoint": "http://elsewhere.example/authorize"}, "not protected"),
        ({"token_endpoint": "http://elsewhere.example/token"}, "not protected"),
        ({"registration_endpoint": "http://elsewhere.example/register"}, "not protected"),
    ],
)
async def test_an_authorization_server_that_is_not_safe_is_not_used(
    metadata: dict[str, Any], reason: str, authority: Authority, folder: Path
) -> None:
    authority.metadata = metadata
    error = await refused(auth(authority, folder, Person()), authority.url)
    assert error.code == "authorization_failed"
    assert reason in error.message
    assert not authority.access


@pytest.mark.parametrize(
    ("server", "address", "good"),
    [
        ("https://there.example/mcp", "https://login.example/a?b=c", True),
        ("https://there.example/mcp", "http://login.example/a", False),
        ("https://there.example/mcp", "http://127.0.0.1:8080/a", False),  # it has no business on this machine
        ("http://127.0.0.1:1/mcp", "http://localhost:2/a", True),
        ("http://127.0.0.1:1/mcp", "http://[::1]:2/a", True),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1.example/a", False),
        ("http://127.0.0.1:1/mcp", "http://localhost@evil.example/a", False),
        ("https://there.example/mcp", "javascript:alert(1)", False),
        ("https://there.example/mcp", "file:///etc/passwd", False),
        ("https://there.example/mcp", "https://login.example/\u202eexe", False),
        ("https://there.example/mcp", "https://login.example/ --flag", False),
        ("https://there.example/mcp", "https://login.example/\x1b]0;x\x07", False),
    ],
)
def test_only_addresses_that_are_protected_are_opened(server: str, address: str, *, good: bool) -> None:
    remote = ProtectedResource(name="there", url=server, oauth=OAuthClient())
    if good:
        remote.check_address(address)
    else:
        with pytest.raises(AuthorizationError):
            remote.check_address(address)


async def test_an_authorization_page_with_a_query_of_its_own_keeps_it(
    authority: Authority, folder: Path
) -> None:
    authority.metadata = {"authorization_endpoint": f"{authority.issuer.url}/authorize?tenant=1"}
    person = Person()
    assert (await ask(auth(authority, folder, person), authority.url)).status_code == 200
    assert parse_qs(urlsplit(person.pages[0].address).query)["tenant"] == ["1"]


async def test_a_description_of_us_that_is_not_protected_is_refused(
    authority: Authority, folder: Path
) -> None:
    for address in ("http://me.example/kakite.json", "https://me.example", "nonsense"):
        error = await refused(auth(authority, folder, Person(), metadata_url=address), authority.url)
        assert "`metadataUrl`" in error.message


def test_headers_that_say_who_we_are_win(tmp_path: Path) -> None:
    origin = SourceLocation(file="", line=1, scope="user")
    told = HttpServer(url="https://there.example/mcp", headers={"authorization": "Bearer mine"})
    for reached in (told, StdioServer(command="there")):
        assert create_auth(ServerEntry(name="there", reached=reached, origin=origin), tmp_path) is None


async def test_a_folder_that_cannot_be_used_is_told(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file", encoding="utf-8")
    with pytest.raises(CredentialsError) as caught:
        await ask(auth(authority, tmp_path / "state" / "logins", Person()), authority.url)
    assert caught.value.code == "credentials_unusable"


def secrets_in(text: str, authority: Authority, but: str = "nothing") -> list[str]:
    # The code is in the address that the browser fetches: the person of these tests logs it, not we.
    return [secret for secret in authority.secrets if secret in text and not secret.startswith(but)]


def trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def ran(authority: Authority, folder: Path, *, processes: int = 1) -> list[int]:
    """Return with what status so many other processes were answered, who have no person."""
    argv = [sys.executable, str(OTHER), authority.url, str(folder)]
    others = [subprocess.Popen(argv, stdout=subprocess.PIPE, encoding="utf-8") for _ in range(processes)]
    return [int(other.communicate(timeout=WITHIN)[0]) for other in others]
