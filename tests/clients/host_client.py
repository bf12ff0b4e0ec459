"""Kakite's host as the conformance suite's client: what each of its scenarios wants done, through what we ship.

The suite starts this program with the address of its own server as the last argument, and names the scenario
in the environment. ``python host_client.py URL``
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from kakite.host.authorization import Page, authorization_of
from kakite.host.entries import Address, OAuthClient, Origin, ServerEntry

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


class Browser:
    """A person who says yes: fetches the page, and goes where it sends."""

    async def visit(self, page: Page) -> None:
        async with httpx2.AsyncClient() as client:
            answer = await client.get(page.address)
            back = answer.headers["Location"]
            assert urlsplit(back).hostname == "127.0.0.1", back
            await client.get(back)


def entry(url: str) -> ServerEntry:
    oauth = OAuthClient(
        id=CONTEXT.get("client_id", ""),
        secret=CONTEXT.get("client_secret", ""),
        metadata_url="https://conformance-test.local/client-metadata.json",
    )
    return ServerEntry(
        name="referee",
        reached=Address(url=url, oauth=oauth),
        origin=Origin(file="", line=1, scope="user"),
        protocol="legacy" if VERSION < "2026" else "auto",
    )


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Client]:
    with tempfile.TemporaryDirectory() as state:
        auth = authorization_of(entry(url), Path(state), visitor=Browser(), patience=10)
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(create_mcp_http_client(auth=auth))
            client = Client(streamable_http_client(url, http_client=http), mode=entry(url).protocol)
            yield await stack.enter_async_context(client)


async def main(url: str) -> None:
    async with connected(url) as client:
        tools = await client.list_tools()
        calls = CONTEXT.get("toolCalls")
        if calls is None:
            calls = [{"name": tool.name, "arguments": {}} for tool in tools.tools]
        for call in calls:
            arguments = call["arguments"]
            if call["name"] == "add_numbers":
                arguments = {"a": 2, "b": 3}
            print(await client.call_tool(call["name"], arguments))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
