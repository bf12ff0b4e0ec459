"""Servers of a configuration, for the tests: made of the program that misbehaves as it is told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kakite.host.config.model import ServerEntry, SourceLocation, StdioServer, Timeouts
from kakite.host.server.server import HostContext, Server
from kakite.tools import ToolCall

ROUGH = Path(__file__).with_name("rough.py")
ORIGIN = SourceLocation(file="mcp.json", line=1, scope="user")


def rough(name: str = "rough", /, *, env: Mapping[str, str] | None = None, **options: Any) -> ServerEntry:
    """Return the entry of a server that behaves so."""
    program = StdioServer(command=sys.executable, args=("-S", str(ROUGH), json.dumps(options)), env=env or {})
    return ServerEntry(name=name, reached=program, origin=ORIGIN, timeouts=Timeouts(start=20))


def surroundings(folder: Path, **more: Any) -> HostContext:
    """Return surroundings whose state lies in that folder."""
    environ = more.pop("environ", {"PATH": os.environ["PATH"], "HOME": str(folder)})
    return HostContext(environ=environ, project=more.pop("project", folder), state=folder / "state", **more)


@asynccontextmanager
async def serving(entry: ServerEntry, folder: Path, **more: Any) -> AsyncGenerator[Server]:
    """Yield a server, not started yet; stop it at the end."""
    server = Server(entry, surroundings(folder, **more), patience=0.2)
    try:
        yield server
    finally:
        await server.stop()


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a call."""
    return ToolCall(id="1", name=name, arguments=arguments)


def marked(mark: str) -> list[int]:
    """Return the processes whose environment has the mark."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                environment = (place / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in environment:
                found.append(int(place.name))
    return found
