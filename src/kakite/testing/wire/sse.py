"""Server-sent events, cut where a careless client stumbles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.tools.toolset import JsonObject


def event(data: JsonObject | str, *, name: str = "") -> bytes:
    """Write one event as it goes over the wire."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


def packets(stream: bytes) -> Iterator[bytes]:
    """Cut an event in two, inside a character if it has one of several bytes: networks do that too."""
    middle = next((i for i, byte in enumerate(stream) if byte & 0xC0 == 0x80), len(stream) // 2)
    yield stream[:middle]
    yield stream[middle:]


def pieces(text: str, size: int = 7) -> Iterator[str]:
    """Cut a text as a provider cuts arguments: anywhere."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
