"""A provider on loopback that keeps what it is asked and answers in a format; the formats of several."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.bounds import WITHIN

TEXT = ("I look ", "first.")
CALL = ("look", {"path": "a"})
INPUT, OUTPUT = 30, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that came in."""

    path: str
    headers: Mapping[str, str]
    """Lower-case names."""
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered."""

    content: bytes
    status: int = 200
    kind: str = "application/json"


class WireServer(ThreadingHTTPServer):
    """A provider on loopback."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients go away here."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, WireServer)
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_json = headers.get("content-type", "").startswith("application/json")
        asked = Asked(path=self.path, headers=headers, body=json.loads(body) if is_json else {})
        if is_json:
            self.server.asked.append(asked)
        answer = self.server.answer(asked)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Say nothing."""


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Generator[WireServer]:
    """Run a provider as long as the block lasts."""
    with WireServer(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(WITHIN)


def refuse(status: int, message: str) -> Answer:
    """Refuse in a form that all of them read: OpenAI's, Anthropic's and Google's at once, and Amazon's."""
    error = {"type": "error", "message": message, "code": status, "status": "REFUSED"}
    return Answer(
        content=json.dumps({"type": "error", "error": error, "message": message}).encode(), status=status
    )


def _encode_sse(events: Iterator[dict[str, Any]], *, named: bool = False) -> Answer:
    lines = (
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        if named
        else f"data: {json.dumps(event)}\n\n"
        for event in events
    )
    return Answer(content="".join(lines).encode(), kind="text/event-stream")


def stream_openai(_asked: Asked) -> Answer:
    """Say the text and the call as OpenAI's chat completions do; Groq, Mistral and others do the same."""

    def iterate() -> Iterator[dict[str, Any]]:
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
        name, arguments = CALL
        call = {"index": 0, "id": "call12345", "type": "function"}
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": t} for t in TEXT)]
        for delta in (*deltas, {"tool_calls": [{**call, "function": function}]}):
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
        last = {"index": 0, "delta": {"content": ""}, "finish_reason": "tool_calls"}
        yield {**head, "choices": [last], "usage": usage, "x_groq": {"id": "r1", "usage": usage}}

    answer = _encode_sse(iterate())
    return Answer(content=answer.content + b"data: [DONE]\n\n", kind=answer.kind)


def stream_responses(_asked: Asked) -> Answer:
    """Say the text and the call as OpenAI's Responses do."""

    def iterate() -> Iterator[dict[str, Any]]:
        name, arguments = CALL
        said: dict[str, Any] = {"type": "output_text", "text": "".join(TEXT), "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name, "status": "completed"}
        whole = {**call, "arguments": json.dumps(arguments)}
        response: dict[str, Any] = {"id": "r1", "object": "response", "created_at": 1, "model": "gpt-5-codex"}
        response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "output": []}
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
        added = {"type": "response.output_item.added", "output_index": 0}
        yield {**added, "item": {**message, "status": "in_progress", "content": []}}
        part = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        yield {"type": "response.content_part.added", **part, "part": {**said, "text": ""}}
        for text in TEXT:
            yield {"type": "response.output_text.delta", **part, "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", **part, "text": "".join(TEXT), "logprobs": []}
        done = {"type": "response.output_item.done", "output_index": 0}
        yield {**done, "item": {**message, "content": [said]}}
        yield {**added, "output_index": 1, "item": {**call, "status": "in_progress", "arguments": ""}}
        piece = {"item_id": "fc_1", "output_index": 1}
        yield {"type": "response.function_call_arguments.delta", **piece, "delta": whole["arguments"]}
        yield {
            "type": "response.function_call_arguments.done",
            **piece,
            "name": name,
            "arguments": whole["arguments"],
        }
        yield {**done, "output_index": 1, "item": whole}
        usage: dict[str, Any] = {
            "input_tokens": INPUT,
            "output_tokens": OUTPUT,
            "total_tokens": INPUT + OUTPUT,
        }
        usage |= {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        end: dict[str, Any] = {
            **response,
            "status": "completed",
            "output": [{**message, "content": [said]}, whole],
        }
        yield {"type": "response.completed", "response": {**end, "usage": usage}}

    def number() -> Iterator[dict[str, Any]]:
        yield from ({**event, "sequence_number": at} for at, event in enumerate(iterate()))

    return _encode_sse(number(), named=True)


def stream_anthropic(_asked: Asked) -> Answer:
    """Say the text and the call as Anthropic's messages do."""

    def iterate() -> Iterator[dict[str, Any]]:
        name, arguments = CALL
        message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "content": []}
        usage = {"input_tokens": INPUT, "output_tokens": 1}
        said = {"model": "claude-sonnet-4-5", "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield {"type": "message_start", "message": {**message, **said}}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for text in TEXT:
            delta = {"type": "text_delta", "text": text}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        block: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": name, "input": {}}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield {"type": "content_block_delta", "index": 1, "delta": delta}
        yield {"type": "content_block_stop", "index": 1}
        end = {"stop_reason": "tool_use", "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": OUTPUT}}
        yield {"type": "message_stop"}

    return _encode_sse(iterate(), named=True)


def stream_google(_asked: Asked) -> Answer:
    """Say the text and the call as Google's streamGenerateContent does."""

    def iterate() -> Iterator[dict[str, Any]]:
        name, arguments = CALL
        usage = {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT}
        parts = [*({"text": text} for text in TEXT), {"functionCall": {"name": name, "args": arguments}}]
        for part in parts:
            last = {"finishReason": "STOP"} if part is parts[-1] else {}
            content = {"role": "model", "parts": [part]}
            yield {
                "candidates": [{"index": 0, "content": content, **last}],
                "modelVersion": "gemini-2.5-pro",
                "usageMetadata": usage,
            }

    return _encode_sse(iterate())


def stream_bedrock(_asked: Asked) -> Answer:
    """Say the text and the call as Bedrock's ConverseStream does: in messages of Amazon's event stream."""
    name, arguments = CALL
    start = {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": name}}}
    piece = {"contentBlockIndex": 1, "delta": {"toolUse": {"input": json.dumps(arguments)}}}
    usage = {"inputTokens": INPUT, "outputTokens": OUTPUT, "totalTokens": INPUT + OUTPUT}
    events = [
        ("messageStart", {"role": "assistant"}),
        *(("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in TEXT),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockStart", start),
        ("contentBlockDelta", piece),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}),
    ]
    return Answer(
        content=b"".join(encode_event(*each) for each in events), kind="application/vnd.amazon.eventstream"
    )


def encode_event(name: str, payload: dict[str, Any], kind: str = "event") -> bytes:
    """Write one message of Amazon's event stream: lengths, headers, payload, each part with its checksum."""
    told = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    headers = b"".join(
        struct.pack(">B", len(key)) + key.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for key, value in told.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))
