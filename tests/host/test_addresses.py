"""Servers that run elsewhere: their headers are for them alone, and they come and go like programs."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from kakite.host.config.model import HttpServer, ServerEntry, Timeouts
from kakite.host.server.server import ServerError
from tests.bounds import WITHIN
from tests.host.making import ORIGIN, call, serving
from tests.serve.test_streamable_http import TOKEN
from tests.serve.test_streamable_http import serving as kakite_serving

pytestmark = pytest.mark.anyio

HEADERS = {"Authorization": "Bearer very-secret-token", "X-Key": "another-secret"}


def elsewhere(url: str, **more: Any) -> ServerEntry:
    address = HttpServer(url=url, headers=more.pop("headers", HEADERS), **more)
    return ServerEntry(name="far", reached=address, origin=ORIGIN, timeouts=Timeouts(start=10))


@dataclass
class Web:
    """A web server of the tests that answers every POST in one way, and notes what it was asked."""

    status: int = 200
    location: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    url: str = ""
    older: int = 0
    """What a server of the transport before answers to a first request; 0: it is none."""
    events: queue.Queue[str] = field(default_factory=queue.Queue[str])


TOOL: dict[str, Any] = {"name": "echo", "inputSchema": {"type": "object"}}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    if "id" not in message:
        return None
    told: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            info = {"name": "web", "version": "1"}
            made: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return {**told, "result": made}
        case "tools/list":
            return {**told, "result": {"tools": [TOOL]}}
        case "tools/call":
            said = json.dumps(message["params"].get("arguments"))
            said += "x" * message["params"]["arguments"].get("more", 0)
            return {**told, "result": {"content": [{"type": "text", "text": said}]}}
        case _:
            return {**told, "error": {"code": -32601, "message": "Method not found"}}


class Listening(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: Web) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.state = state
        state.url = f"http://127.0.0.1:{self.server_port}"


class Asked(BaseHTTPRequestHandler):
    @property
    def state(self) -> Web:
        assert isinstance(self.server, Listening)
        return self.server.state

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        state = self.state
        state.asked.append((self.path, dict(self.headers)))
        if self.path == "/sse" and state.older:
            self.tell(state.older, b"no")
        elif state.location:
            self.tell(307, b"", Location=state.location)
        elif state.status != 200:
            self.tell(state.status, b"no")
        else:
            self.obey(json.loads(body))

    def obey(self, message: dict[str, Any]) -> None:
        told = answer(message)
        data = json.dumps(told) if told else ""
        if self.path != "/messages":
            self.tell(200 if data else 202, data.encode())
            return
        self.tell(202, b"")
        if data:
            self.state.events.put(data)

    def do_GET(self) -> None:
        self.state.asked.append((self.path, dict(self.headers)))
        if self.path != "/sse":
            self.tell(405, b"")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while event := self.state.events.get():
            self.wfile.write(f"event: message\ndata: {event}\n\n".encode())
            self.wfile.flush()

    def tell(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@contextmanager
def web(**options: Any) -> Generator[Web]:
    state = Web(**options)
    server = Listening(state)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield state
    finally:
        state.events.put("")
        server.shutdown()
        server.server_close()


@pytest.mark.slow
async def test_our_own_server_over_http_is_used_with_its_token(tmp_path: Path) -> None:
    with kakite_serving(tmp_path, token=TOKEN) as ours:
        entry = elsewhere(ours.url, headers={"Authorization": f"Bearer {TOKEN}"})
        async with serving(entry, tmp_path) as server:
            assert "text_editor" in {each.tool.name for each in await server.list_definitions()}
            result = await server.call(call("text_editor", command="view", path="x"))
            assert "one" in result.text


async def test_one_that_refuses_us_is_named_with_its_answer_and_without_our_headers(tmp_path: Path) -> None:
    with web(status=401) as there:
        async with serving(elsewhere(f"{there.url}/mcp?key=also-a-secret"), tmp_path) as server:
            with pytest.raises(ServerError) as caught:
                await server.list_definitions()
    told = f"{caught.value.message} {caught.value.hint} {server.status}"
    assert "401 Unauthorized" in caught.value.message
    assert not any(secret in told for secret in ("very-secret-token", "another-secret", "also-a-secret"))


async def test_headers_do_not_follow_a_redirect_to_another_host(tmp_path: Path) -> None:
    with web() as other, web(location=f"{other.url}/mcp") as there:
        async with serving(elsewhere(f"{there.url}/mcp"), tmp_path) as server:
            with pytest.raises(ServerError):
                await server.list_definitions()
    assert there.asked[0][1]["Authorization"] == "Bearer very-secret-token"
    assert other.asked == []


async def test_no_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web() as proxy, web() as there:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with serving(elsewhere(f"{there.url}/mcp"), tmp_path) as server:
            assert (await server.call(call("echo", a=1))).text == '{"a": 1}'
    assert proxy.asked == []


@pytest.mark.parametrize(
    "url",
    ["http://example.org/mcp", "http://127.0.0.1.example.org/", "http://10.0.0.1/", "ftp://127.0.0.1/", "x"],
)
async def test_plain_http_is_spoken_to_this_machine_alone(tmp_path: Path, url: str) -> None:
    async with serving(elsewhere(url), tmp_path) as server:
        with pytest.raises(ServerError) as caught:
            await server.list_definitions()
    assert "https://" in caught.value.message


async def test_an_address_where_nobody_is_fails_at_once(tmp_path: Path) -> None:
    with web() as gone:
        url = gone.url
    async with serving(elsewhere(url), tmp_path) as server:
        with anyio.fail_after(WITHIN), pytest.raises(ServerError) as caught:
            await server.list_definitions()
    assert "`far`" in caught.value.message


async def test_the_old_transport_of_two_addresses_is_spoken_too(tmp_path: Path) -> None:
    with web() as there:
        async with serving(elsewhere(f"{there.url}/sse", sse=True), tmp_path) as server:
            assert (await server.call(call("echo", a=1))).text == '{"a": 1}'
    assert {asked[1]["X-Key"] for asked in there.asked} == {"another-secret"}


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_of_the_old_transport_is_recognised(status: int, tmp_path: Path) -> None:
    with web(older=status) as there:
        async with serving(elsewhere(f"{there.url}/sse"), tmp_path) as server:
            assert (await server.call(call("echo", a=1))).text == '{"a": 1}'
    assert {asked[1]["X-Key"] for asked in there.asked} == {"another-secret"}


@pytest.mark.parametrize("status", [400, 404, 405, 403, 500])
async def test_a_server_that_speaks_neither_transport_fails_with_its_first_answer(
    status: int, tmp_path: Path
) -> None:
    with web(status=status) as there:
        async with serving(elsewhere(there.url), tmp_path) as server:
            with anyio.fail_after(WITHIN), pytest.raises(ServerError) as caught:
                await server.list_definitions()
    assert f"{status} " in caught.value.message


async def test_a_connection_that_is_lost_is_opened_again_by_the_next_use(tmp_path: Path) -> None:
    with web() as there:
        async with serving(elsewhere(f"{there.url}/sse", sse=True), tmp_path) as server:
            await server.start()
            there.events.put("")  # ends the stream
            lost = await server.call(call("echo", a=1))
            assert lost.is_error
            assert server.status.kind == "resting"
            assert (await server.call(call("echo", a=2))).text == '{"a": 2}'


async def test_an_answer_that_is_too_long_is_cut_off_and_named(tmp_path: Path) -> None:
    with web() as there:
        async with serving(elsewhere(f"{there.url}/mcp"), tmp_path) as server:
            result = await server.call(call("echo", more=40_000_000))
            assert (result.code, "more than 32 MiB" in result.text) == ("server_failed", True)
            assert not (await server.call(call("echo", more=1_000_000))).is_error


async def test_a_server_that_goes_away_during_use_is_named_and_rests(tmp_path: Path) -> None:
    with web() as there:
        async with serving(elsewhere(f"{there.url}/mcp"), tmp_path) as server:
            await server.start()
            there.status = 503
            result = await server.call(call("echo"))
            assert result.is_error
            there.status = 200
            assert (await server.call(call("echo", a=2))).text == '{"a": 2}'


async def test_a_server_in_plain_http_elsewhere_is_spoken_to_when_its_entry_says_so(tmp_path: Path) -> None:
    entry = elsewhere("http://far.invalid/mcp", insecure=True)
    async with serving(replace(entry, timeouts=Timeouts(start=5)), tmp_path) as server:
        with pytest.raises(ServerError) as caught:
            await server.list_definitions()
    assert "https://" not in caught.value.message
