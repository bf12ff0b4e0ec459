"""Pictures in the results of tools: they reach the model, and one that takes none gets the text alone."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.bounds import WITHIN

from kakite.models.factory import open_model
from kakite.models.messages import Message, Reply, ToolMessage, UserMessage
from kakite.models.model import ModelError
from kakite.tools.toolset import Image, ToolCall

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
CALL = ToolCall(id="c1", name="text_editor", arguments={"command": "view", "path": "a.png"})
SHOWN: list[Message] = [
    UserMessage(text="Look."),
    Reply(calls=(CALL,), finish="tool_calls"),
    ToolMessage(
        call_id="c1", tool="text_editor", text="a picture", images=(Image(mime="image/png", data=PNG),)
    ),
]
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A dot."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class PictureServer(ThreadingHTTPServer):
    """A server in OpenAI's format that keeps what it is asked, and may have no eyes."""

    daemon_threads = True

    def __init__(self, *, sees: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sees = sees
        self.asked: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients go away here."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, PictureServer)
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append(asked)
        refused = PNG in asked and not self.server.sees
        told: dict[str, Any] = {"error": {"message": "no image_url here"}} if refused else ANSWER
        body = json.dumps(told).encode()
        self.send_response(400 if refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Say nothing."""


@contextmanager
def provider(*, sees: bool) -> Generator[PictureServer]:
    with PictureServer(sees=sees) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(WITHIN)


def open_at(server: PictureServer) -> Any:
    address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    return open_model("openai:m", base_url=address, environ={"OPENAI_API_KEY": "none"}, max_retries=0)


async def test_a_picture_in_a_result_reaches_the_model() -> None:
    with provider(sees=True) as server:
        reply = await open_at(server).reply("", SHOWN, [])
    assert reply.text == "A dot."
    (asked,) = server.asked
    assert PNG in asked
    assert "a picture" in asked


async def test_a_model_without_eyes_gets_the_text_alone_from_then_on() -> None:
    with provider(sees=False) as server:
        model = open_at(server)
        replies = [await model.reply("", SHOWN, []) for _ in range(2)]
    assert [each.text for each in replies] == ["A dot.", "A dot."]
    assert [PNG in asked for asked in server.asked] == [True, False, False]
    assert all("a picture" in asked for asked in server.asked)


async def test_a_picture_of_the_person_is_not_left_out_in_silence() -> None:
    asked: list[Message] = [UserMessage(text="What is this?", images=(Image(mime="image/png", data=PNG),))]
    with provider(sees=False) as server, pytest.raises(ModelError) as told:
        await open_at(server).reply("", asked, [])
    assert told.value.code == "model_rejected"
    assert len(server.asked) == 1
