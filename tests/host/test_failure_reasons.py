"""Why a remote server cannot be used: a code, the server and its address, a way on, and no secret."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kakite.host.config.model import HttpServer, ServerEntry, SourceLocation
from kakite.host.server.server import Server, ServerError
from tests.bounds import WITHIN
from tests.host.making import surroundings

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-0123456789"


class _Refusing(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(int(self.path.split("?")[0].strip("/")), SECRET)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_DELETE = do_POST  # noqa: N815 - as the library calls them

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
        """Say nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join(WITHIN)
    server.server_close()


async def refusal(url: str, folder: Path) -> ServerError:
    headers = {"Authorization": f"Bearer {SECRET}"}
    entry = ServerEntry(
        name="far",
        reached=HttpServer(url=url, headers=headers),
        origin=SourceLocation(file="f", line=1, scope="user"),
    )
    server = Server(entry, surroundings(folder))
    try:
        with pytest.raises(ServerError) as raised:
            await server.start()
    finally:
        await server.stop()
    error = raised.value
    told = error.message + error.hint + server.status.reason + server.status.hint
    assert SECRET not in told
    assert "`far`" in error.message
    assert error.hint
    return error


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "http_unauthorized"),
        (403, "http_forbidden"),
        (404, "http_not_found"),
        (405, "http_not_found"),
        (410, "http_error"),
        (429, "http_too_many"),
        (307, "http_redirected"),
        (500, "http_server_error"),
        (503, "http_server_error"),
    ],
)
async def test_what_a_server_answers_is_told(status: int, code: str, port: int, tmp_path: Path) -> None:
    where = f"http://127.0.0.1:{port}/{status}"
    error = await refusal(f"{where}?key={SECRET}", tmp_path)
    assert error.code == code
    assert f"`{where}`" in error.message


async def test_that_nobody_listens_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        where = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        error = await refusal(where, tmp_path)
    assert error.code == "connection_refused"
    assert where in error.message


async def test_that_the_host_is_not_known_is_told(tmp_path: Path) -> None:
    error = await refusal(f"https://me:{SECRET}@no-such-host.invalid/mcp", tmp_path)
    assert error.code == "host_unknown"
    assert "`https://no-such-host.invalid/mcp`" in error.message


async def test_that_no_protected_connection_comes_about_is_told(port: int, tmp_path: Path) -> None:
    assert (await refusal(f"https://127.0.0.1:{port}/mcp", tmp_path)).code == "tls_failed"
