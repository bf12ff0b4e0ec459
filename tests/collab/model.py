"""A language model on the loopback that says what a test lets it say, piece by piece, as OpenAI does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


def block(search: str, replace: str, page: str = "") -> str:
    """Return an edit as a model writes it."""
    return f"{page}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@dataclass
class Speaker:
    """What it says to whoever asks, and what it was asked."""

    url: str = ""
    pieces: list[str] = field(default_factory=lambda: ["Nothing to do."])
    held_from: int = 1_000_000
    """Pieces from this one on wait for `free`."""
    free: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Is set when somebody goes away in the middle."""

    @property
    def environ(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": "a key of the tests"}

    @property
    def options(self) -> list[str]:
        return ["--model", "openai:scripted", "--base-url", f"{self.url}/v1"]


@asynccontextmanager
async def speaking() -> AsyncGenerator[Speaker]:
    """Serve a model as long as the block lasts."""
    speaker = Speaker()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            except asyncio.IncompleteReadError:  # somebody looked whether anybody listens
                return
            length = int(head.partition("content-length:")[2].split("\r\n", 1)[0])
            speaker.requests.append(json.loads(await reader.readexactly(length)))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            gone = asyncio.create_task(reader.read())
            for number, piece in enumerate(speaker.pieces):
                if number >= speaker.held_from:
                    waiting = asyncio.create_task(speaker.free.wait())
                    await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
                    if gone.done():
                        speaker.left.set()
                        return
                send(writer, {"choices": [choice({"role": "assistant", "content": piece}, None)]})
                await writer.drain()
            usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
            send(writer, {"choices": [choice({}, "stop")]})
            send(writer, {"choices": [], "usage": usage})
            writer.write(b"data: [DONE]\n\n")
            await writer.drain()
            gone.cancel()
        finally:
            with suppress(ConnectionError):
                writer.close()
                await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    speaker.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield speaker
    finally:
        speaker.free.set()
        server.close()
        await server.wait_closed()


def choice(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def send(writer: asyncio.StreamWriter, chunk: dict[str, Any]) -> None:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    writer.write(f"data: {json.dumps({**head, **chunk})}\n\n".encode())
