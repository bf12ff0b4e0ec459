"""What a server over HTTP gives one client, so that it has something left for the others."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from tests.bounds import WITHIN

from kakite.http.security import TransportSecurity
from kakite.serve import build_server
from kakite.serve.streamable_http import (
    DEFAULT_LIMITS,
    BindAddress,
    ServerLimits,
    get_url,
    listen,
    serve_http,
)
from kakite.tools import bind_call, open_toolset
from kakite.tools.scope import Scope
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
WHO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": WHO}


@asynccontextmanager
async def serving(folder: Path, limits: ServerLimits = DEFAULT_LIMITS) -> AsyncGenerator[httpx2.AsyncClient]:
    workspace = Workspace([folder])
    server = build_server(open_toolset(workspace))
    listening = listen(BindAddress(host="127.0.0.1", port=0))
    running = asyncio.create_task(serve_http(server, listening, TransportSecurity(host="127.0.0.1"), limits))
    try:
        with anyio.fail_after(WITHIN):
            async with httpx2.AsyncClient(
                base_url=get_url(listening).removesuffix("/mcp"), headers=HEADERS
            ) as client:
                yield client
    finally:
        running.cancel()
        await asyncio.wait({running}, timeout=WITHIN)
        listening.close()
        workspace.close()


async def opened(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/mcp", json=INITIALIZE)


async def session(client: httpx2.AsyncClient) -> dict[str, str]:
    """Open a session and return the headers that name it."""
    ids = {"Mcp-Session-Id": (await opened(client)).headers["mcp-session-id"]}
    ids["MCP-Protocol-Version"] = "2025-11-25"
    return ids


async def called(client: httpx2.AsyncClient, ids: dict[str, str], tool: str, **arguments: object) -> str:
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    return (await client.post("/mcp", json=call, headers=ids)).text


async def use(client: httpx2.AsyncClient, ids: dict[str, str]) -> None:
    """Use a session as a client does: say that it is initialized, and call a tool."""
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await client.post("/mcp", json=note, headers=ids)).status_code == 202
    assert "1 | x" in await called(client, ids, "read_files", path="who")


def error_of(answer: httpx2.Response) -> tuple[int, dict[str, Any]]:
    told = json.loads(answer.content)
    assert told["jsonrpc"] == "2.0"
    return answer.status_code, told["error"]


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(body_time=0.05)) as client:
        for method in ("POST", "GET", "DELETE"):
            place = urlsplit(str(client.base_url))
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            head = f"{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{{"
            writer.write(head.encode())
            answer = await reader.read()  # up to the end: it closes the connection
            assert b" 408 " in answer.splitlines()[0]
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"].endswith("0.05 s")
            writer.close()
        assert (await opened(client)).status_code == 200


HALF = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
WHOLE = b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def connected(
    client: httpx2.AsyncClient, sent: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(str(client.base_url))
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(sent)
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server closes the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.parametrize("sent", [b"", HALF, HALF + b"X: ", WHOLE + HALF, WHOLE + WHOLE[:9]])
async def test_headers_that_do_not_end_are_not_waited_for(tmp_path: Path, sent: bytes) -> None:
    async with serving(tmp_path, ServerLimits(head_time=0.1)) as client:
        reader, writer = await connected(client, sent)
        whole = await ended(reader)
        assert whole.count(b"HTTP/1.1 404") == sent.count(WHOLE)
        writer.close()
        assert (await opened(client)).status_code == 200


async def test_who_asks_nothing_makes_room_for_who_does(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(head_time=60, connections=3)) as client:
        waiting = [await connected(client, HALF) for _ in range(20)]
        assert (await opened(client)).status_code == 200
        assert all([not await ended(reader) for reader, _ in waiting[:15]])
        for _, writer in waiting:
            writer.close()


async def test_when_all_connections_are_in_use_another_is_told_to_come_back(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(connections=3, body_time=60)) as client:
        body = HALF + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        busy = [await connected(client, body + b"{") for _ in range(3)]
        while (answer := await opened(client)).status_code != 503:  # until all three are seen
            pass
        status, error = error_of(answer)
        assert (status, "come back" in error["message"]) == (503, True)
        for _, writer in busy:
            writer.close()
        while (await opened(client)).status_code == 503:
            pass


async def test_a_body_over_the_limit_is_refused_in_words_also_to_who_only_sends(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(body=100_000)) as client:
        for length in (b"Content-Length: 300000", b"Transfer-Encoding: chunked"):
            head = HALF + b"Connection: close\r\n" + length + b"\r\n\r\n"
            chunk = b"x" * 300_000 if b"C" in length[:1] else b"493e0\r\n" + b"x" * 300_000 + b"\r\n0\r\n\r\n"
            reader, writer = await connected(client, head + chunk)
            answer = await ended(reader)
            assert b" 413 " in answer.splitlines()[0]
            assert "100,000 bytes" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
            writer.close()


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/jsonp", "multipart/form-data; application/json"]
)
async def test_a_body_of_another_kind_is_told_so(tmp_path: Path, kind: str) -> None:
    async with serving(tmp_path) as client:
        status, error = error_of(await client.post("/mcp", json=INITIALIZE, headers={"Content-Type": kind}))
        assert (status, "application/json" in error["message"]) == (415, True)
        kind = "application/json; charset=utf-8"
        answer = await client.post("/mcp", json=INITIALIZE, headers={"Content-Type": kind})
        assert answer.status_code == 200


async def test_so_many_sessions_are_open_at_once_and_one_that_ends_makes_room(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(sessions=2)) as client:
        first, second = await opened(client), await opened(client)
        assert (first.status_code, second.status_code) == (200, 200)
        ids = {
            "Mcp-Session-Id": first.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        assert (await client.delete("/mcp", headers=ids)).status_code == 200
        assert (await opened(client)).status_code == 200
        ids["Mcp-Session-Id"] = second.headers["mcp-session-id"]
        assert (await client.delete("/mcp", headers=ids)).status_code == 200  # it did not have to go


async def test_a_session_that_nobody_uses_ends(tmp_path: Path) -> None:
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with serving(tmp_path, ServerLimits(sessions=1, idle_time=0.05)) as client:
        assert (await opened(client)).status_code == 200
        while (await client.post("/mcp", json=ping)).status_code == 503:  # which takes nobody's place
            pass


async def test_sessions_that_nobody_uses_make_room_for_new_ones(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(sessions=3, unused_time=0)) as client:
        (tmp_path / "who").write_text("x", encoding="utf-8")
        used = await session(client)
        await use(client, used)
        for _ in range(9):
            assert (await opened(client)).status_code == 200
        assert "1 | x" in await called(client, used, "read_files", path="who")


async def test_of_sessions_that_were_used_the_one_idle_for_longest_makes_room(tmp_path: Path) -> None:
    async with serving(tmp_path, ServerLimits(sessions=2, unused_time=0)) as client:
        (tmp_path / "who").write_text("x", encoding="utf-8")
        first, second = await session(client), await session(client)
        for each in (first, second, first):
            await use(client, each)
        assert (await opened(client)).status_code == 200
        assert "1 | x" in await called(client, first, "read_files", path="who")
        assert (await client.delete("/mcp", headers=second)).status_code == 404


async def test_a_session_keeps_its_folder_whatever_others_come_and_go(tmp_path: Path) -> None:
    for folder in (".", "sub"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "who").write_text(folder, encoding="utf-8")
    async with serving(tmp_path, ServerLimits(sessions=3)) as client:
        first = await session(client)
        await called(client, first, "set_workspace", path="sub")
        for _ in range(9):
            other = await session(client)
            assert "root to" in await called(client, other, "set_workspace", path="sub")
            assert (await client.delete("/mcp", headers=other)).status_code == 200
        assert "1 | sub" in await called(client, first, "read_files", path="who")
        await called(client, first, "set_workspace", path=".")
        assert "1 | ." in await called(client, first, "read_files", path="who")


@pytest.mark.slow
def test_sessions_are_remembered_as_long_as_they_live_and_no_longer(tmp_path: Path) -> None:
    class Session:
        pass

    (tmp_path / "sub").mkdir()
    workspace = Workspace([tmp_path])
    scope = Scope(workspace)
    sessions = [Session() for _ in range(1000)]

    def each(work: Callable[[], str]) -> set[str]:
        told: set[str] = set()
        for session in sessions:
            with bind_call(session=session):
                told.add(work())
        return told

    assert each(lambda: scope.narrow("sub")) == {f"{tmp_path}/sub"}
    assert each(lambda: scope.workspace.folder) == {f"{tmp_path}/sub"}
    ended = [weakref.ref(session) for session in sessions]
    sessions.clear()
    gc.collect()
    assert not [session for session in ended if session() is not None]
    workspace.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", [None, "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("[]", -32600),
        ("[[]]", -32600),
        ("1", -32600),
        ("null", -32600),
        ('"x"', -32600),
        ("{}", -32600),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        ('{"jsonrpc":"2.0","id":7,"method":3}', -32600),
        ("", -32700),
        ("{", -32700),
        ("[" * 100_000, -32700),
        ("\ud800", -32700),
    ],
)
async def test_a_body_that_is_no_message_is_told_so_in_plain_words(
    tmp_path: Path, version: str | None, body: str, code: int
) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    async with serving(tmp_path) as client:
        answer = await client.post("/mcp", content=body.encode(errors="surrogatepass"), headers=headers)
        status, error = error_of(answer)
        assert (status, error["code"]) == (400, code)
        assert "pydantic" not in answer.text
        assert "http" not in answer.text
        assert json.loads(answer.content)["id"] == (7 if '"id":7' in body else None)
