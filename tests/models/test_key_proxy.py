"""The proxy that holds a provider's key: who has its token asks with it, nobody else reaches anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import examples

from kakite.models.key_proxy import build_key_proxy, find_upstream
from kakite.models.model import ModelConfigError

KEY, TOKEN = "sk-real", "token-of-the-proxy"
HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


@dataclass
class Upstream:
    url: str = ""
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list[Any])


@contextmanager
def upstream() -> Generator[Upstream]:
    known = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            known.seen.append((self.path, headers, body))
            self.send_response(302 if self.path.endswith("/away") else 200)
            self.send_header("location", "http://127.0.0.1:9/")
            self.end_headers()
            self.wfile.write(b"told")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    known.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield known
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def ask(address: str, path: str, headers: dict[str, str], body: bytes = b"") -> httpx2.Response:
    async def send() -> httpx2.Response:
        transport = httpx2.ASGITransport(build_key_proxy(address, KEY, TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://proxy") as client:
            return await client.post(path, headers=headers, content=body)

    return asyncio.run(send())


@pytest.fixture(scope="module")
def far() -> Generator[Upstream]:
    with upstream() as known:
        yield known


@settings(max_examples=examples(30))
@given(
    given_headers=st.dictionaries(
        st.sampled_from(HEADERS), st.sampled_from([TOKEN, f"Bearer {TOKEN}", "other", f"{TOKEN}x", ""])
    ),
    body=st.binary(max_size=50),
)
def test_the_key_goes_where_the_token_was_and_nowhere_else(
    far: Upstream, given_headers: dict[str, str], body: bytes
) -> None:
    far.seen.clear()
    answer = ask(far.url, "/chat?x=1", given_headers, body)
    known = [name for name, value in given_headers.items() if value.removeprefix("Bearer ") == TOKEN]
    if not known:
        assert (answer.status_code, far.seen) == (401, [])
        return
    ((path, headers, told),) = far.seen
    assert (answer.status_code, answer.text, path, told) == (200, "told", "/v1/chat?x=1", body)
    assert {name: headers[name] for name in HEADERS if name in headers} == {
        name: given_headers[name].replace(TOKEN, KEY) for name in known
    }


def test_no_redirect_is_followed_and_a_server_that_is_gone_is_told_without_the_key() -> None:
    with upstream() as far:
        assert ask(far.url, "/away", {"x-api-key": TOKEN}).status_code == 302
    gone = ask(far.url, "/chat", {"x-api-key": TOKEN})
    assert (gone.status_code, KEY in gone.text) == (502, False)


def test_the_address_of_a_provider_is_known_or_must_be_given() -> None:
    assert find_upstream("anthropic:x", "") == "https://api.anthropic.com"
    assert find_upstream("groq:x", "http://127.0.0.1:1/v1/") == "http://127.0.0.1:1/v1"
    with pytest.raises(ModelConfigError) as refused:
        find_upstream("groq:x", "")
    assert refused.value.code == "model_no_address"
