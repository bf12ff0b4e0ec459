"""Language models on the loopback, for other people's agents: they call tools, and are then done."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from tests.bounds import WITHIN

Json = dict[str, Any]


@dataclass(kw_only=True)
class Loopback:
    """Where it listens, and what it was sent."""

    url: str = ""
    requests: list[Json] = field(default_factory=list[Json])

    @property
    def offered(self) -> str:
        """The tools that it was offered, as the client wrote them."""
        return json.dumps([request.get("tools", []) for request in self.requests])

    @property
    def told(self) -> str:
        """What it was told last, the result of its call among it."""
        return json.dumps(self.requests[-1], ensure_ascii=False)

    def messages(self, request: Json) -> Iterator[Json]:
        """Answer as Anthropic does."""
        raise NotImplementedError

    def responses(self, request: Json) -> Iterator[Json]:
        """Answer as OpenAI's responses API does."""
        raise NotImplementedError

    def generate(self, request: Json) -> Iterator[Json]:
        """Answer as Google does."""
        raise NotImplementedError


@dataclass
class Model(Loopback):
    """Calls one tool."""

    server: str
    """The MCP server whose tool it calls, as the client knows it."""
    tool: str
    arguments: Json

    def messages(self, request: Json) -> Iterator[Json]:
        called = any("tool_result" in json.dumps(each) for each in request["messages"])
        call: Json = {"type": "tool_use", "id": "call_1", "name": f"mcp__{self.server}__{self.tool}"}
        wants_call = not called and self.tool in json.dumps(request.get("tools", []))
        block: Json = {**call, "input": {}} if wants_call else {"type": "text", "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(self.arguments)}
            if wants_call
            else {"type": "text_delta", "text": "done"}
        )
        yield from message(block, delta, "tool_use" if wants_call else "end_turn")

    def responses(self, request: Json) -> Iterator[Json]:
        called = any(each.get("type") == "function_call_output" for each in request["input"])
        item: Json = {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "content": [{"type": "output_text", "text": "done"}],
        }
        if not called:
            item = {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": self.tool,
                "namespace": f"mcp__{self.server}",
                "arguments": json.dumps(self.arguments),
            }
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage, "output": [item]}}


@dataclass
class Script(Loopback):
    """Makes one call after the other, by the names that the client offers."""

    calls: Sequence[Callable[[str], tuple[str, Json]]]
    """What it calls, and how, once it is told how the last call went."""

    @property
    def tools(self) -> set[str]:
        """The names of the tools that it was offered."""
        tools = [tool for request in self.requests for tool in request.get("tools", [])]
        return {each["name"] for tool in tools for each in tool.get("functionDeclarations", [tool])}

    def messages(self, request: Json) -> Iterator[Json]:
        contents = [each["content"] for each in request["messages"] if isinstance(each["content"], list)]
        results = [part for parts in contents for part in parts if part["type"] == "tool_result"]
        call = self._choose(request, results)
        if call is None:
            yield from message(
                {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn"
            )
            return
        name, arguments = call
        block: Json = {"type": "tool_use", "id": f"call_{len(results)}", "name": name, "input": {}}
        delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield from message(block, delta, "tool_use")

    def generate(self, request: Json) -> Iterator[Json]:
        from google.genai.types import Candidate, Content, FinishReason, GenerateContentResponse, Part

        parts = [part for each in request["contents"] for part in each["parts"]]
        call = self._choose(request, [part for part in parts if "functionResponse" in part])
        part = Part.from_function_call(name=call[0], args=call[1]) if call else Part(text="done")
        content = Content(role="model", parts=[part])
        told = Candidate(content=content, finish_reason=FinishReason.STOP, index=0)
        response = GenerateContentResponse(candidates=[told])
        yield response.model_dump(mode="json", by_alias=True, exclude_none=True)

    def _choose(self, request: Json, results: Sequence[Json]) -> tuple[str, Json] | None:
        if not request.get("tools") or len(results) == len(self.calls):
            return None
        return self.calls[len(results)](json.dumps(results[-1], ensure_ascii=False) if results else "")


def message(block: Json, delta: Json, reason: str) -> Iterator[Json]:
    """Return the events of a message with one block, as Anthropic sends them."""
    usage = {"input_tokens": 7, "output_tokens": 3}
    head: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield {"type": "message_start", "message": {**head, "stop_reason": None, "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    yield {"type": "message_stop"}


Said = tuple[int, str, bytes]
"""What a server says: the status, the type of the content and the content."""


def as_events(events: Iterable[Json]) -> Said:
    """Return a stream of events, which have names where they have types."""
    lines = ""
    for each in events:
        lines += f"event: {each['type']}\n" if "type" in each else ""
        lines += f"data: {json.dumps(each)}\n\n"
    return 200, "text/event-stream", lines.encode()


@contextmanager
def answering(answer: Callable[[str, Json], Said]) -> Generator[str]:
    """Serve what is answered to each path and request; yield the address, which has no path."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._say(*answer(self.path.partition("?")[0], request))

        def do_HEAD(self) -> None:
            self._say(200, "text/plain", b"")

        def do_GET(self) -> None:
            self._say(404, "text/plain", b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
            pass

        def _say(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(WITHIN)


Served = TypeVar("Served", bound=Loopback)


@contextmanager
def serving(model: Served) -> Generator[Served]:
    """Serve the model; its ``url`` has no path."""

    def answer(path: str, request: Json) -> Said:
        answers = {
            "/v1/messages": model.messages,
            "/v1/responses": model.responses,
            "/v1beta/models/scripted:streamGenerateContent": model.generate,
        }
        if path not in answers:
            return 404, "text/plain", b""
        model.requests.append(request)
        return as_events(answers[path](request))

    with answering(answer) as model.url:
        yield model
