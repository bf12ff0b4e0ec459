"""``fetch_page``: what of the web may be reached, and what the model is given of it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.session.page_fetch import (
    MAX_PAGE_BYTES,
    MAX_REDIRECTS,
    FetchedPage,
    PageError,
    PageFetcher,
    extract_text,
)
from kakite.agent.session.session_tools import PAGE_CHARS, create_fetch_page_tool
from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.processes import Network
from kakite.sandbox.egress.policy import AddressScope, IPAddress, classify_address
from tests.agent.session.chats import Chat, say, text

pytestmark = pytest.mark.anyio

HOME = ip_address("127.0.0.1")
Answer = tuple[int, Mapping[str, str], bytes]
HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass
class Site:
    """A server on loopback, and a name by which a person has allowed it."""

    port: int
    pages: dict[str, Answer] = field(default_factory=dict[str, Answer])
    asked: list[str] = field(default_factory=list[str])

    def url(self, path: str, host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def fetcher(self, *hosts: str, network: Network = "open", resolve: Any = None) -> PageFetcher:
        named = hosts or (f"site.test:{self.port}",)
        return PageFetcher(network, named, {}, resolve=resolve or resolving(HOME))


def resolving(*addresses: IPAddress) -> Callable[[str, int], Awaitable[Sequence[IPAddress]]]:
    async def resolve(host: str, port: int) -> Sequence[IPAddress]:
        return addresses

    return resolve


@asynccontextmanager
async def serving(**pages: Answer) -> AsyncGenerator[Site]:
    site = Site(0, {f"/{name}": page for name, page in pages.items()})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        site.asked.append(path)
        status, headers, body = site.pages.get(path, (404, {}, b""))
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        site.port = server.sockets[0].getsockname()[1]
        yield site


ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6), st.sampled_from([HOME, ip_address("::1")]))


@given(st.lists(ADDRESSES, min_size=1, max_size=3).filter(lambda each: all(map(is_closed, each))))
async def test_a_name_never_leads_to_an_address_that_is_not_public(
    addresses: list[IPv4Address | IPv6Address],
) -> None:
    with pytest.raises(PageError) as caught:
        await PageFetcher("open", (), {}, resolve=resolving(*addresses)).fetch("https://name.test/")
    assert caught.value.code == "host_denied"


def is_closed(address: IPAddress) -> bool:
    return classify_address(address) > AddressScope.PUBLIC


@given(ADDRESSES.filter(is_closed), st.sampled_from(["http", "https"]))
async def test_an_address_that_is_not_public_is_never_reached(address: IPAddress, scheme: str) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    with pytest.raises(PageError) as caught:
        await PageFetcher("open", (), {}).fetch(f"{scheme}://{host}/")
    assert caught.value.code == "host_denied"


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://a.test/", "//a.test/", "", "https://", "http://user@a.test/"),
        *("http://2130706433/", "http://0x7f000001/", "http://127.1/", "http://a.test:x/", "http://a b/"),
        *("http://[::1", "http://a..test/", "javascript:alert(1)", "http://a.test:99999/"),
    ],
)
async def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    with pytest.raises(PageError) as caught:
        await PageFetcher("open", (), {}, resolve=resolving(HOME)).fetch(url)
    assert caught.value.code == "bad_url"


@pytest.mark.parametrize(
    ("network", "url", "code"),
    [
        ("registries", "https://example.com/", "host_denied"),
        ("open", "http://name.test:8080/", "host_denied"),
        ("open", "http://metadata.google.internal/", "host_denied"),
    ],
)
async def test_hosts_and_ports_are_those_of_the_sandbox(network: Network, url: str, code: str) -> None:
    with pytest.raises(PageError) as caught:
        await PageFetcher(network, (), {}, resolve=resolving(HOME)).fetch(url)
    assert caught.value.code == code


@pytest.mark.parametrize("network", ["open", "registries"])
async def test_a_host_that_the_person_named_is_reached(network: Network) -> None:
    async with serving(a=(200, HTML, b"<p>Hi</p>")) as site:
        page = await site.fetcher(network=network).fetch(site.url("/a#part"))
        assert (page.url, page.kind, page.data) == (site.url("/a"), "text/html", b"<p>Hi</p>")


async def test_a_redirect_is_judged_as_what_it_leads_to() -> None:
    async with serving(a=(302, {"Location": "/b"}, b""), b=(200, HTML, b"moved")) as site:
        assert (await site.fetcher().fetch(site.url("/a"))).url == site.url("/b")
        for target in (site.url("/b", "127.0.0.1"), site.url("/b", "other.test"), "http://169.254.169.254/"):
            site.pages["/a"] = (302, {"Location": target}, b"")
            site.asked.clear()
            with pytest.raises(PageError) as caught:
                await site.fetcher().fetch(site.url("/a"))
            assert caught.value.code == "host_denied"
            assert site.asked == ["/a"]
        site.pages["/a"] = (302, {"Location": "file:///etc/passwd"}, b"")
        with pytest.raises(PageError) as caught:
            await site.fetcher().fetch(site.url("/a"))
        assert caught.value.code == "bad_url"


async def test_redirects_come_to_an_end() -> None:
    async with serving(a=(302, {"Location": "/a"}, b"")) as site:
        with pytest.raises(PageError) as caught:
            await site.fetcher().fetch(site.url("/a"))
        assert caught.value.code == "page_failed"
        assert len(site.asked) == MAX_REDIRECTS + 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, HTML, b"x" * (MAX_PAGE_BYTES + 1)), "page_too_large"),
        (
            (200, {**HTML, "Content-Encoding": "gzip"}, gzip.compress(bytes(MAX_PAGE_BYTES * 20))),
            "page_too_large",
        ),
        ((200, {**HTML, "Content-Encoding": "gzip"}, b"no gzip at all"), "page_failed"),
        ((200, {**HTML, "Content-Encoding": "br"}, b"x"), "page_failed"),
        ((200, {"Content-Type": "image/png"}, b"x"), "not_text"),
        ((500, HTML, b"x"), "page_failed"),
    ],
)
async def test_what_is_no_page_of_this_size_is_refused(answer: Answer, code: str) -> None:
    async with serving(a=answer) as site:
        with pytest.raises(PageError) as caught:
            await site.fetcher().fetch(site.url("/a"))
    assert caught.value.code == code


@given(st.binary(max_size=2000), st.booleans())
async def test_a_page_comes_as_it_is(data: bytes, packed: bool) -> None:
    headers = {"Content-Type": "text/plain", **({"Content-Encoding": "gzip"} if packed else {})}
    async with serving(a=(200, headers, gzip.compress(data) if packed else data)) as site:
        assert (await site.fetcher().fetch(site.url("/a"))).data == data


@given(st.binary(max_size=3000), st.sampled_from(["text/html", "text/plain", "application/json"]), st.text())
def test_any_page_has_a_text(data: bytes, kind: str, charset: str) -> None:
    extract_text(FetchedPage(url="", kind=kind, charset=charset, data=data)).encode()


@pytest.mark.parametrize("charset", ["shift_jis", "utf-7", "hex", "idna", "undefined", "no such one"])
def test_the_charset_of_a_page_counts_where_there_is_one(charset: str) -> None:
    told = "書き手" if charset == "shift_jis" else "plain"
    data = told.encode("shift_jis")
    for kind in ("text/html", "text/plain"):
        assert extract_text(FetchedPage(url="", kind=kind, charset=charset, data=data)) == told
    meta = b"<meta charset=shift_jis><p>" + "書き手".encode("shift_jis")
    assert extract_text(FetchedPage(url="", kind="text/html", charset="", data=meta)) == "書き手"


def test_html_becomes_markdown_without_what_is_not_to_be_read() -> None:
    page = b"<head><title>T</title></head><script>x()</script><h1>Head</h1><p>A <a href='/b'>link</a></p>"
    shown = extract_text(FetchedPage(url="", kind="text/html", charset="", data=page))
    assert shown == "# Head\n\nA [link](/b)"
    deep = b"<div>" * 20_000 + b"deep"
    assert "deep" in extract_text(FetchedPage(url="", kind="text/html", charset="", data=deep))


@dataclass
class Person:
    """Somebody who is asked about each call."""

    allow: bool
    asked: list[str] = field(default_factory=list[str])

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.asked.append(question.call.arguments["url"])
        return ApprovalResponse(allowed=self.allow, reason="the person said no")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ask", "edits"])
@pytest.mark.parametrize("allow", [True, False])
async def test_the_person_is_asked_and_a_long_page_comes_in_pieces(
    tmp_path: Path, mode: str, allow: bool
) -> None:
    body = json.dumps(["x" * PAGE_CHARS, "the end"]).encode()
    async with serving(a=(200, {"Content-Type": "application/json"}, body)) as site:

        def fetch(**more: Any) -> dict[str, Any]:
            return {"tool": "fetch_page", "arguments": {"url": site.url("/a"), **more}}

        heard = ["the end"] if allow else ["said no"]
        turns: tuple[dict[str, Any], ...] = (
            {"calls": [fetch()]},
            {"calls": [fetch(offset=PAGE_CHARS)]},
            say("Read.", expect={"tool_result": {"is_error": not allow, "contains": heard}}),
        )
        person = Person(allow)
        scene = Chat(
            folder=tmp_path / "s",
            project=tmp_path / "project",
            turns=turns,
            approve=mode,
            approver=person,
            builtin=(create_fetch_page_tool(site.fetcher()),),
        )
        async with scene.open() as session:
            assert (await session.prompt(text("read it"))).text == "Read."
        assert person.asked == [site.url("/a")] * 2
        assert site.asked == (["/a"] * 2 if allow else [])


async def test_what_may_be_asked_of_a_host_holds_for_pages_too() -> None:
    pages = {"ok": (200, HTML, b"yes"), "ok-go": (302, {"Location": "/no"}, b""), "no": (200, HTML, b"no")}
    async with serving(**pages) as site:
        rules = {
            "path": f"GET site.test:{site.port}/ok*",
            "method": f"POST site.test:{site.port}/*",
            "port": "site.test/*",
        }

        async def fetch(rule: str, path: str) -> str:
            fetcher = PageFetcher("registries", (), {}, requests=(rules[rule],), resolve=resolving(HOME))
            try:
                return (await fetcher.fetch(site.url(path))).data.decode()
            except PageError as error:
                return error.code

        assert await fetch("path", "/ok") == "yes"
        for rule, path in (("path", "/no"), ("path", "/ok/../no"), ("method", "/ok"), ("port", "/ok")):
            assert await fetch(rule, path) == "host_denied"
        assert await fetch("path", "/ok-go") == "host_denied"
        assert "/no" not in site.asked
