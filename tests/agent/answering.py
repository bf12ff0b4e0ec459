"""A model whose reply follows from what it is shown alone, so that the same question has the same answer.

``SCRIPTS`` maps words of the task to turns: the n-th reply of a conversation is the n-th turn, but calls that
were cut short are made again. It speaks OpenAI's format on loopback, for any number of conversations at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kakite.agent.run.prompt import load_prompt
from kakite.models.scripted_model import ReachedTurn, ScriptedTurn
from kakite_testing.fake_providers import openai_format


class Answering:
    """What the server knows and has seen."""

    def __init__(self, scripts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.scripts = {
            words: [ScriptedTurn.model_validate_json(json.dumps(turn)) for turn in turns]
            for words, turns in scripts.items()
        }
        self.asked: list[str] = []
        """The words of each question's script, in order."""
        self.before: Callable[[str, int], int | None] = lambda _words, _number: None
        """Is called before a reply is given; what it returns is the status of an error."""
        self.url = ""

    def reply(self, body: Any) -> tuple[int, Any]:
        """Return status and body of the answer."""
        openai_format.parse_request(body)  # what a real provider would refuse is refused
        replies = sum(message["role"] == "assistant" for message in body["messages"])
        number = replies - sum(map(_cut_short, body["messages"]))
        first = next(str(message["content"]) for message in body["messages"] if message["role"] == "user")
        words = next(each for each in self.scripts if each in first)
        self.asked.append(words)
        if status := self.before(words, number):
            return status, openai_format.build_error("scripted failure", "api_error", None)
        turn = self.scripts[words][number]
        reached, model = ReachedTurn(number=replies + 1, turn=turn), str(body["model"])
        if body.get("stream"):
            return 200, b"".join(openai_format.stream(reached, model, body))
        return 200, openai_format.build_completion(reached, model)


def _cut_short(message: Any) -> bool:
    return message["role"] == "tool" and load_prompt("interrupted")[:40] in str(message["content"])


@contextmanager
def answering(
    scripts: Mapping[str, Sequence[Mapping[str, Any]]], host: str = "127.0.0.1", key: str = ""
) -> Generator[Answering]:
    """Serve these scripts as long as the block lasts; with ``key`` only to who sends it."""
    known = Answering(scripts)

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if key and self.headers["authorization"] != f"Bearer {key}":
                status, said = 401, openai_format.build_error("wrong key", "invalid_request_error", None)
            else:
                status, said = known.reply(body)
            is_stream = isinstance(said, bytes)
            data = said if is_stream else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own
            pass

    server = ThreadingHTTPServer((host, 0), Answer)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    known.url = f"http://{host}:{server.server_address[1]}/v1"
    try:
        yield known
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
