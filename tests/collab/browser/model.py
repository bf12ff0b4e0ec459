"""A language model on the loopback that says what a test lets it say, bit by bit, as OpenAI streams it."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.bounds import WITHIN

PACE = 0.005  # s between two bits


def edit(page: str, search: str, replace: str) -> str:
    """Return an edit as a model writes it."""
    return f"{page}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@dataclass
class Speaker:
    """What it says to whoever asks, and what it was asked."""

    url: str = ""
    says: str = "Nothing to do."
    bit: int = 5
    """Characters that come at a time."""
    pace: float = PACE
    """Seconds between two bits."""
    holds: threading.Event = field(default_factory=threading.Event)
    """Until this is set, it says all but the last bit."""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __post_init__(self) -> None:
        self.holds.set()

    @property
    def environ(self) -> dict[str, str]:
        """What the program that asks it needs."""
        return {"OPENAI_API_KEY": "a key of the tests"}

    @property
    def options(self) -> list[str]:
        """The options of the command."""
        return ["--model", "openai:scripted", "--base-url", f"{self.url}/v1"]


@contextmanager
def speaking() -> Generator[Speaker]:
    """Serve a model as long as the block lasts."""
    speaker = Speaker()
    rest = threading.Event()  # never set: waiting for it is the model's pace

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            speaker.requests.append(request)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(ConnectionError):  # whoever asked went away
                self._speak(speaker.says)

        def _speak(self, text: str) -> None:
            bits = [text[at : at + speaker.bit] for at in range(0, len(text), speaker.bit)]
            for number, bit in enumerate(bits):
                if number == len(bits) - 1:
                    speaker.holds.wait(WITHIN)
                self._tell({"delta": {"role": "assistant", "content": bit}, "finish_reason": None})
                rest.wait(speaker.pace)
            self._tell({"delta": {}, "finish_reason": "stop"})
            usage = {"prompt_tokens": 1834, "completion_tokens": len(bits), "total_tokens": 1834 + len(bits)}
            self._send({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _tell(self, choice: dict[str, object]) -> None:
            self._send({"choices": [{"index": 0, **choice}]})

        def _send(self, chunk: dict[str, object]) -> None:
            head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
            self.wfile.write(f"data: {json.dumps({**head, **chunk})}\n\n".encode())
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        speaker.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield speaker
        finally:
            speaker.holds.set()
            server.shutdown()
            thread.join(WITHIN)
