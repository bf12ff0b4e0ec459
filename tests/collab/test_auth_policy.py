"""Who is let in, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.auth.policy import (
    AuthPolicy,
    Denial,
    Permissions,
    TrustedProxy,
    User,
    build_csp,
    create_guest_name,
    parse_networks,
    resolve_permissions,
)
from tests.collab.server import TOKEN, serving

DOOR = AuthPolicy(
    host="127.0.0.1",
    port=8765,
    token=TOKEN,
    origins=("https://notes.example.org",),
    proxy=TrustedProxy(header="x-user", addresses=parse_networks(["10.0.0.0/8", "::1"])),
    rights={"ann": {"*": "read", "docs": "write"}, "*": {"docs/open.md": "read"}},
)
NAME = DOOR.cookie
HOST = {"host": "127.0.0.1:8765"}
PAGE = {"origin": "http://127.0.0.1:8765"}
PUBLIC = {"host": "notes.example.org"}
COOKIE = {"cookie": f"{NAME}={DOOR.sign_cookie('write', 'Guest 1')}"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("method", "headers", "client", "status"),
    [
        ("GET", {}, "127.0.0.1", 401),
        ("GET", BEARER, "127.0.0.1", None),
        ("POST", BEARER, "127.0.0.1", None),
        ("GET", {"authorization": f"Basic {TOKEN}"}, "127.0.0.1", 401),
        ("GET", {"authorization": "Bearer "}, "127.0.0.1", 401),
        ("GET", COOKIE, "127.0.0.1", None),
        ("GET", {"cookie": f"{NAME}={TOKEN}"}, "127.0.0.1", 401),
        ("GET", {"cookie": f"kakite-collab-1={DOOR.sign_cookie('write', 'x')}"}, "127.0.0.1", 401),
        ("GET", {"cookie": f"{NAME}=write.é.; ;;=="}, "127.0.0.1", 401),
        ("POST", COOKIE, "127.0.0.1", 403),
        ("POST", {**COOKIE, **PAGE}, "127.0.0.1", None),
        ("POST", {**COOKIE, "origin": "http://127.0.0.1:3000"}, "127.0.0.1", 403),
        ("POST", {**COOKIE, "origin": "null"}, "127.0.0.1", 403),
        ("GET", {**BEARER, "host": "stranger.example"}, "127.0.0.1", 421),
        ("GET", {**BEARER, "origin": "http://stranger.example"}, "127.0.0.1", 403),
        ("POST", {**PUBLIC, **COOKIE, "origin": "https://notes.example.org"}, "127.0.0.1", None),
        ("POST", {**PUBLIC, **COOKIE, "origin": "http://notes.example.org"}, "127.0.0.1", 421),
        ("GET", {"x-user": "ann"}, "10.1.2.3", None),
        ("GET", {"x-user": "ann"}, "127.0.0.1", 401),
        ("GET", {"x-user": "ann"}, "", 401),
        ("GET", {"x-user": ""}, "10.1.2.3", 401),
        ("POST", {"x-user": "ann"}, "10.1.2.3", 403),
    ],
)
def test_a_request_brings_what_lets_it_in(
    method: str, headers: Mapping[str, str], client: str, status: int | None
) -> None:
    entered = DOOR.authenticate(method, {**HOST, **headers}, client)
    assert (entered.status if isinstance(entered, Denial) else None) == status


@pytest.mark.slow
@given(st.text(max_size=40))
def test_no_cookie_but_ours_opens(value: str) -> None:
    entered = DOOR.authenticate("GET", {**HOST, "cookie": f"{NAME}={value}"}, "127.0.0.1")
    assert isinstance(entered, Denial)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_changed_cookie_opens_nothing(at: int, to: int) -> None:
    whole = DOOR.sign_cookie("read", "Guest 1")
    at %= len(whole)
    changed = f"{whole[:at]}{chr(to)}{whole[at + 1 :]}"
    entered = DOOR.authenticate("GET", {**HOST, "cookie": f"{NAME}={changed}"}, "127.0.0.1")
    assert isinstance(entered, Denial) or changed == whole


@pytest.mark.parametrize(
    ("name", "page", "right"),
    [
        ("ann", "a.md", "read"),
        ("ann", "docs/a.md", "write"),
        ("ann", "docs.md", "read"),
        ("ben", "docs/open.md", "read"),
        ("ben", "docs/a.md", "none"),
    ],
)
def test_the_longest_pattern_says_what_a_person_may_do(name: str, page: str, right: str) -> None:
    assert resolve_permissions(name, DOOR.rights).get_level(page) == right


def test_one_whom_nobody_speaks_of_may_do_nothing_where_anybody_is_named() -> None:
    assert resolve_permissions("ben", {"ann": {"*": "write"}}).highest_level == "none"
    assert resolve_permissions("ben", {}).highest_level == "write"
    assert Permissions(pages=()).get_level("a.md") == "none"


def test_a_persons_colour_is_always_the_same() -> None:
    assert len({User(name="千", signed_in_by="link").color for _ in range(3)}) == 1


def test_guests_are_told_apart_by_the_one_letter_that_a_page_shows() -> None:
    names = {create_guest_name() for _ in range(200)}
    assert len({name[0] for name in names}) > 15
    assert len(names) > 150


@pytest.mark.slow
@given(st.text(max_size=30))
def test_a_host_cannot_change_the_policy(host: str) -> None:
    rule = build_csp(host, "n")
    assert rule.count(";") == build_csp("a", "n").count(";")
    assert "unsafe" not in rule.replace(host, "") or "unsafe" in host


@pytest.mark.slow
@pytest.mark.anyio
async def test_people_whom_a_proxy_names_see_and_write_what_they_may(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("open.md", "secret.md"):
        (pages / name).write_bytes(b"x\n")
    settings = tmp_path / "settings.yaml"
    told = {
        "collab_proxy_header": "X-Forwarded-User",
        "collab_proxy_addresses": ["127.0.0.1"],
        "collab_people": {"ann": {"*": "write"}, "*": {"open.md": "read"}},
    }
    settings.write_text(yaml.safe_dump(told), encoding="utf-8")
    async with (
        serving(pages, environ={"KAKITE_CONFIG": str(settings)}) as server,
        httpx.AsyncClient(base_url=server.url, headers={"X-Forwarded-User": "ben"}) as ben,
        httpx.AsyncClient(base_url=server.url, headers={"X-Forwarded-User": "ann"}) as ann,
    ):
        me = (await ben.get("/api/me")).json()
        assert (me["name"], me["signed_in_by"], me["can"]["write"]) == ("ben", "proxy", False)
        assert [each["name"] for each in (await ben.get("/api/pages")).json()["pages"]] == ["open.md"]
        assert (await ben.get("/api/pages/secret.md")).status_code == 404
        assert (await ben.get("/api/pages/open.md")).json()["writable"] is False
        assert (await ann.get("/api/pages/secret.md")).json()["writable"] is True


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_link_leads_to_its_page_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "a?b#c.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server, httpx.AsyncClient(base_url=server.url) as client:
        for path, leads in (
            ("p/a%3Fb%23c.md", "/p/a%3Fb%23c.md"),
            ("/stranger.example/p", "/stranger.example/p"),
        ):
            answer = await client.get(f"{server.url}{path}?token={TOKEN}")
            assert (answer.status_code, answer.headers["location"]) == (303, leads)
