"""`kakite models` shows what a server says, and obeys none of it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.bounds import WITHIN
from tests.cli.program import Outcome, kakite


def list_models(home: Path, body: bytes) -> Outcome:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}/v1"
            return kakite("models", "vllm", home=home, env={"VLLM_BASE_URL": address})
        finally:
            server.shutdown()
            thread.join(WITHIN)


@pytest.mark.parametrize(
    "name", ["a\x1b]0;title\x07\x1b[31mred", "\u202eevil", "a[/b]", "[red]m", "\ud800"], ids=ascii
)
def test_a_name_is_shown_and_not_obeyed(tmp_path: Path, name: str) -> None:
    outcome = list_models(tmp_path, json.dumps({"data": [{"id": name}]}).encode())
    assert outcome.code == 0, outcome.stderr
    assert not any(sign in outcome.stdout for sign in "\x1b\x07\u202e")
    assert "[" not in name or name.replace("\x1b", "\\u001b").replace("\x07", "\\u0007") in outcome.stdout


def test_an_answer_that_nests_without_end_is_told(tmp_path: Path) -> None:
    outcome = list_models(tmp_path, b"[" * 100_000)
    assert "internal" not in outcome.stderr
