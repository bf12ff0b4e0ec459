"""``kakite models``: what can be used now, of providers with a key and of servers of one's own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kakite.models.catalog import list_priced_models, suggest_model
from kakite.models.providers import PROVIDERS
from tests.bounds import WITHIN
from tests.cli.program import kakite


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        listed = {"object": "list", "data": [{"id": "qwen3-coder"}, {"id": "a-small-one"}, {"id": 3}]}
        body = json.dumps(listed).encode() if self.path == "/v1/models" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Say nothing."""


@contextmanager
def serving() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join(WITHIN)


def test_models_of_providers_with_a_key_have_windows_and_prices(tmp_path: Path) -> None:
    done = kakite("models", "--json", home=tmp_path, env={"ANTHROPIC_API_KEY": "sk-secret"})
    assert done.code == 0, done.stderr
    names = {each["name"]: each for each in done.json["models"]}
    assert all(name.startswith("anthropic:") for name in names)
    known = names["anthropic:claude-sonnet-4-5"]
    assert (known["context_window"], known["input_price"], known["output_price"]) == (200_000, 3.0, 15.0)
    assert "sk-secret" not in done.stdout + done.stderr


def test_a_server_of_ones_own_says_what_it_has(tmp_path: Path) -> None:
    with serving() as address:
        done = kakite("models", home=tmp_path, env={"OLLAMA_BASE_URL": address})
    assert done.code == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "ollama:a-small-one",
        "ollama:qwen3-coder",
    ]


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    done = kakite("models", "vllm", "--json", home=tmp_path, env={"VLLM_BASE_URL": address})
    (silent,) = done.json["unreachable"]
    assert (done.code, silent["provider"], silent["address"]) == (0, "vllm", address)


def test_without_a_key_the_way_on_is_told_and_a_provider_can_be_named(tmp_path: Path) -> None:
    nothing = kakite("models", home=tmp_path, env={"OLLAMA_BASE_URL": "http://127.0.0.1:9/v1"})
    assert (nothing.code, nothing.stdout) == (0, "")
    assert "set a provider's key" in nothing.stderr
    assert "openai:gpt-5" in kakite("models", "openai", home=tmp_path).stdout
    assert kakite("models", "opnai", home=tmp_path).code == 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_model_of_the_list_can_be_named(provider: str) -> None:
    models = list_priced_models(provider)
    assert [each.name for each in models] == sorted({each.name for each in models})
    assert all(each.name.startswith(f"{provider}:") and each.output_price is not None for each in models)


def test_a_wrong_name_suggests_the_nearest_one() -> None:
    assert suggest_model("anthropic:claude-sonet-4-5") == "anthropic:claude-sonnet-4-5"
    assert suggest_model("anthropic:claude-sonnet-4-5") == ""
    assert suggest_model("ollama:whatever") == ""


def test_a_wrong_provider_suggests_the_nearest_one_and_clouds_have_models(tmp_path: Path) -> None:
    wrong = kakite("models", "bedrok", home=tmp_path)
    assert (wrong.code, "`bedrock`" in wrong.stderr) == (2, True)
    for name, model in (("bedrock", "claude"), ("vertex", "gemini"), ("xai", "grok")):
        listed = kakite("models", name, home=tmp_path).stdout
        assert model in listed
