"""``kakite serve --http``: clients over a real socket, and who is not let in."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.bounds import WITHIN
from tests.forking import COMMAND, popen, run
from tests.serve.test_server import text

from kakite.errors import UsageError
from kakite.http.security import TransportSecurity
from kakite.serve.streamable_http import DEFAULT_LIMITS, BindAddress, parse_address

TOKEN = "a token for the tests"
VIEW = {"command": "view", "path": "x"}


@dataclass
class Server:
    url: str
    program: subprocess.Popen[str]
    folder: Path

    def request(
        self, body: object = None, *, method: str = "POST", raw: bytes | None = None, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request by hand and return the status, the headers and the first bytes of the answer."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=WITHIN)
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        try:
            connection.request(method, place.path, data, sent)
            answer = connection.getresponse()
            first = b"" if method == "GET" and answer.status == 200 else answer.read()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, first
        finally:
            connection.close()

    def open_session(self, **headers: Any) -> str:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        status, told, _ = self.request(message("initialize", **params), **headers)
        assert status == 200
        return told["mcp-session-id"]


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    at: str = "127.0.0.1:0",
    token: str = "",
    start: Callable[..., subprocess.Popen[str]] = popen,
) -> Generator[Server]:
    root = folder / "root"
    root.mkdir()
    (root / "x").write_bytes(b"one\n")
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = {
        **kept,
        "XDG_STATE_HOME": str(folder / "state"),
        **({"KAKITE_TOKEN": token} if token else {}),
    }
    argv = [*COMMAND, "serve", "--root", str(root), "--http", at, *arguments]
    with (
        (folder / "stderr").open("w", encoding="utf-8") as errors,
        start(argv, env=environment, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8") as program,
    ):
        try:
            assert program.stdout is not None
            yield Server(program.stdout.readline().strip(), program, folder)
        finally:
            program.kill()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("plain"), "--tools", "editor") as server:
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    folder = tmp_path_factory.mktemp("locked")
    # Not forked: a test reads how it was started.
    with serving(folder, "--tools", "editor", token=TOKEN, start=subprocess.Popen[str]) as server:
        yield server


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])
async def test_a_client_of_either_era_uses_the_tools(era: str, plain: Server) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(plain.url, mode=era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["text_editor"]
            assert text(await client.call_tool("text_editor", VIEW)) == "1\tone"
            refused = await client.call_tool("text_editor", {"command": "view", "path": "../x"})
            assert refused.is_error


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_client_with_the_token_uses_the_tools(locked: Server) -> None:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http_client:
        with anyio.fail_after(WITHIN):
            async with Client(streamable_http_client(locked.url, http_client=http_client)) as client:
                assert text(await client.call_tool("text_editor", VIEW)) == "1\tone"


@pytest.mark.slow
@pytest.mark.anyio
async def test_several_clients_edit_one_workspace_at_once_and_no_edit_is_lost(tmp_path: Path) -> None:
    with serving(tmp_path, "--tools", "editor") as server:
        (tmp_path / "root" / "shared").write_text("start\n", encoding="utf-8")

        async def edit(number: int) -> None:
            async with Client(server.url, mode="auto" if number % 2 else "legacy") as client:
                for turn in range(5):
                    insert = {
                        "command": "insert",
                        "path": "shared",
                        "insert_line": 0,
                        "insert_text": f"{number}.{turn}",
                    }
                    while (await client.call_tool("text_editor", insert)).is_error:
                        pass  # stale: somebody else was faster

        with anyio.fail_after(WITHIN):
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(edit, number)
        lines = (tmp_path / "root" / "shared").read_text(encoding="utf-8").split()
        assert sorted(lines) == sorted([*(f"{n}.{t}" for n in range(4) for t in range(5)), "start"])


@pytest.mark.slow
@pytest.mark.anyio
async def test_each_session_narrows_itself_alone_and_who_has_none_cannot(tmp_path: Path) -> None:
    with serving(tmp_path, "--tools", "files") as server:
        for folder in ("one", "two"):
            (tmp_path / "root" / folder).mkdir()
            (tmp_path / "root" / folder / "x").write_text(folder, encoding="utf-8")

        async def read(client: Client) -> str:
            return text(await client.call_tool("read_files", {"path": "x"}))

        with anyio.fail_after(WITHIN):
            async with (
                Client(server.url, mode="legacy") as one,
                Client(server.url, mode="legacy") as two,
                Client(server.url, mode="2026-07-28") as modern,
            ):
                assert not (await one.call_tool("set_workspace", {"path": "one"})).is_error
                assert not (await two.call_tool("set_workspace", {"path": "two"})).is_error
                refused = await modern.call_tool("set_workspace", {"path": "two"})
                assert (refused.is_error, (refused.meta or {})["kakite/code"]) == (True, "no_session")
                shown = [await read(client) for client in (one, two, modern)]
                assert shown == ["1 | one", "1 | two", "1 | one"]
                (tmp_path / "root" / "x").write_text("top", encoding="utf-8")
                assert [await read(client) for client in (one, two, modern)][2] == "1 | top"
                assert not (await one.call_tool("set_workspace", {"path": "."})).is_error
                assert [await read(client) for client in (one, two)] == ["1 | top", "1 | two"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.0.2.1", ""]
)
def test_a_strange_host_is_refused(host: str, plain: Server) -> None:
    assert plain.request(message("tools/list"), Host=host)[0] == 421


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example:80", "x"])
def test_a_page_of_a_stranger_is_refused(origin: str, plain: Server) -> None:
    status, headers, _ = plain.request(message("tools/list"), Origin=origin)
    assert status == 403
    assert "access-control-allow-origin" not in headers


@pytest.mark.slow
def test_a_page_of_this_machine_is_let_in(plain: Server) -> None:
    plain.open_session(Origin="http://localhost:3000")


@pytest.mark.slow
@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xff"],
)
def test_nobody_comes_in_without_the_token(authorization: str, locked: Server) -> None:
    for method in ("POST", "GET", "DELETE"):
        body = message("tools/list") if method == "POST" else None
        given: dict[str, Any] = {"Authorization": authorization} if authorization else {}
        status, headers, _ = locked.request(body, method=method, **given)
        assert (status, headers["www-authenticate"]) == (401, "Bearer")


def test_the_token_is_nowhere_to_be_read(locked: Server) -> None:
    assert TOKEN not in (locked.folder / "stderr").read_text(encoding="utf-8")
    arguments = Path(f"/proc/{locked.program.pid}/cmdline").read_bytes()
    assert TOKEN.encode() not in arguments


@pytest.mark.slow
def test_a_body_over_the_limit_is_refused_and_the_next_request_served(plain: Server) -> None:
    with suppress(ConnectionError):  # it need not even wait for the end
        assert plain.request(raw=b" " * (DEFAULT_LIMITS.body + 1))[0] == 413
    plain.open_session()


def test_a_body_within_the_limit_is_taken(plain: Server) -> None:
    session = plain.open_session()
    create = {
        "command": "create",
        "path": "big",
        "file_text": "x" * (DEFAULT_LIMITS.body - 4096),
        "overwrite": True,
    }
    call = message("tools/call", name="text_editor", arguments=create)
    status, _, answer = plain.request(call, Mcp_Session_Id=session, MCP_Protocol_Version="2025-11-25")
    assert status == 200
    assert b'"isError":true' not in answer


def test_a_session_ends_by_delete_and_is_then_unknown(plain: Server) -> None:
    session: dict[str, Any] = {"Mcp_Session_Id": plain.open_session(), "MCP_Protocol_Version": "2025-11-25"}
    assert plain.request(method="GET", **session)[0] == 200
    assert plain.request(method="DELETE", **session)[0] == 200
    assert plain.request(message("tools/list"), **session)[0] == 404
    assert plain.request(message("tools/list"), Mcp_Session_Id="made-up")[0] == 404


def test_other_paths_and_methods_are_not_served(plain: Server) -> None:
    assert Server(plain.url + "/x", plain.program, plain.folder).request(message("tools/list"))[0] == 404
    assert plain.request(method="PUT")[0] == 405


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_also_with_a_stream_open(number: signal.Signals, tmp_path: Path) -> None:
    with serving(tmp_path, "--tools", "editor") as server:
        session = server.open_session()
        place = urlsplit(server.url)
        stream = http.client.HTTPConnection(place.hostname or "", place.port, timeout=WITHIN)
        headers = {
            "Accept": "text/event-stream",
            "Mcp-Session-Id": session,
            "MCP-Protocol-Version": "2025-11-25",
        }
        stream.request("GET", place.path, headers=headers)
        assert stream.getresponse().status == 200
        server.program.send_signal(number)
        assert server.program.wait(WITHIN) == 128 + number
        stream.close()


@pytest.mark.slow
def test_a_server_with_commands_makes_a_token_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, "--tools", "shell") as server:
        assert server.request(message("tools/list"))[0] == 401
        told = (tmp_path / "stderr").read_text(encoding="utf-8")
        token = told.split("Bearer ")[1].split()[0]
        assert len(token) >= 40
        server.open_session(Authorization=f"Bearer {token}")


@pytest.mark.slow
def test_a_server_for_other_machines_makes_a_token_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, "--tools", "editor", at="0.0.0.0:0") as server:
        local = Server(server.url.replace("0.0.0.0", "127.0.0.1"), server.program, tmp_path)
        assert local.request(message("tools/list"))[0] == 401


@pytest.mark.slow
def test_an_address_in_use_is_told_with_its_code(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run([*COMMAND, "serve", "--root", str(tmp_path), "--http", at], encoding="utf-8", timeout=60)
    assert done.returncode == 3
    assert "listen_failed" in done.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [("127.0.0.1:80", BindAddress(host="127.0.0.1", port=80)), ("[::1]:0", BindAddress(host="::1", port=0))],
)
def test_an_address_is_a_host_and_a_port(given: str, expected: BindAddress) -> None:
    assert parse_address(given) == expected


@pytest.mark.parametrize("given", ["", "x", "x:", ":80", "x:y", "x:70000", "x:-1", "x:²"])
def test_what_is_no_address_is_told(given: str) -> None:
    with pytest.raises(UsageError):
        parse_address(given)


def test_for_other_machines_addresses_and_the_own_name_are_hosts_and_other_names_are_not() -> None:
    gate = TransportSecurity(host="files.example", token=TOKEN)
    known = {"authorization": f"Bearer {TOKEN}"}
    for host in ("files.example:80", "192.0.2.1:80", "[2001:db8::1]:80", "localhost"):
        assert gate.find_refusal({"host": host, **known}) is None
    assert gate.find_refusal({"host": "evil.example", **known}) == (
        421,
        "the Host header names another server",
    )
    own = {"host": "files.example:80", "origin": "http://files.example:80", **known}
    assert gate.find_refusal(own) is None
    assert gate.find_refusal({**own, "origin": "http://localhost:80"}) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1", "origin": "http://[bad"},
        {"host": "127.0.0.1", "origin": "http://evil.example@127.0.0.1"},
        {"host": "127.0.0.1", "origin": "chrome-extension://localhost"},
        {"host": "127.0.0.1", "origin": "null"},
        {"host": "evil@127.0.0.1"},
        {"host": "evil@127.0.0.1", "origin": "http://evil@127.0.0.1"},
        {"host": "127.0.0.1", "authorization": "Bearer \udcff"},
    ],
)
def test_headers_that_no_client_of_ours_sends_are_refused(headers: dict[str, str]) -> None:
    assert TransportSecurity(host="127.0.0.1", token="t").find_refusal(
        {"authorization": "Bearer t", **headers}
    )


@pytest.mark.slow
@pytest.mark.parametrize("token", ["abc ", "  ", "\u00fcn\u00ef", b"\xff".decode(errors="surrogateescape")])
def test_a_token_that_no_client_can_send_is_refused_at_the_start(token: str, tmp_path: Path) -> None:
    done = run(
        [*COMMAND, "serve", "--root", str(tmp_path), "--http", "127.0.0.1:0"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KAKITE_TOKEN": token},
        timeout=WITHIN,
    )
    assert done.returncode == 2
    assert b"KAKITE_TOKEN" in done.stderr


@pytest.mark.slow
def test_it_ends_in_silence_while_clients_still_send(tmp_path: Path) -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    half = head + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    with serving(tmp_path) as server, ExitStack() as connections:
        place = urlsplit(server.url)
        for sent in (head, half) * 10:
            connection = socket.create_connection((place.hostname or "", place.port or 0), timeout=WITHIN)
            connections.enter_context(connection).sendall(sent)
        server.open_session()
        server.program.send_signal(signal.SIGTERM)
        assert server.program.wait(WITHIN) == 143
        assert "Traceback" not in (tmp_path / "stderr").read_text(encoding="utf-8")
