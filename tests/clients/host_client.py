"""Kakite's host as the conformance suite's client: what each scenario wants done, through what we ship.

The suite starts this program with the address of its own server as the last argument, and names the scenario
in the environment. It does what a model and a person would: lists the tools, calls each, answers questions
with yes, logs in where that is asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry, SourceLocation, Timeouts
from kakite.host.oauth.provider import AuthorizationPage
from kakite.host.server.client_features import Elicitation, ElicitationResult
from kakite.host.server.server import HostContext, Server, ServerError, ServerToolDefinition
from kakite.tools import ToolCall

VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))

ECHO = "json_schema_echo"
"""A tool that wants to be told what we saw of the other one."""
EXAMPLES: dict[str, Any] = {
    "string": "x",
    "number": 1,
    "integer": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


class Willing:
    """A person who says yes to everything: fills in nothing, logs in, and goes where the page sends."""

    async def elicit(self, asked: Elicitation) -> ElicitationResult:  # noqa: ARG002 - whatever it is
        return ElicitationResult(action="accept")

    async def open_page(self, page: AuthorizationPage) -> None:
        async with httpx2.AsyncClient(verify=False) as browser:
            back = (await browser.get(page.address)).headers["Location"]
            assert urlsplit(back).hostname == "127.0.0.1", back
            await browser.get(back)


def referee(url: str) -> ServerEntry:
    oauth = OAuthClient(
        id=CONTEXT.get("client_id", ""),
        secret=CONTEXT.get("client_secret", ""),
        metadata_url="https://conformance-test.local/client-metadata.json",
    )
    return ServerEntry(
        name="referee",
        reached=HttpServer(url=url, oauth=oauth),
        origin=SourceLocation(file="", line=1, scope="user"),
        # The older revisions have no way to ask for the era: their suite refuses the question itself.
        protocol="legacy" if VERSION < "2026" else "auto",
        timeouts=Timeouts(start=60),
    )


def example(definition: ServerToolDefinition) -> dict[str, Any]:
    """Return arguments that a tool takes."""
    schema = definition.tool.parameters
    return {
        name: EXAMPLES[schema["properties"][name].get("type", "string")]
        for name in schema.get("required", [])
    }


def calls(definitions: tuple[ServerToolDefinition, ...]) -> list[ToolCall]:
    """Return what is to be called: what the scenario says, else every tool once."""
    told: list[dict[str, Any]] = CONTEXT.get("toolCalls") or [
        {"name": each.tool.name, "arguments": example(each)} for each in definitions
    ]
    shown = {each.tool.name: each.raw["inputSchema"] for each in definitions if each.tool.name != ECHO}
    for one in told:
        if one["name"] == ECHO:
            one["arguments"] = {"schema": next(iter(shown.values()))}
    return [ToolCall(id=str(at), name=one["name"], arguments=one["arguments"]) for at, one in enumerate(told)]


async def play(server: Server) -> bool:
    """Return whether everything went well."""
    well = True
    for call in calls(await server.list_definitions()):
        result = await server.call(call)
        sys.stdout.write(f"{call.name}: {result.text}\n")
        well = well and not result.is_error
    return well


async def main(url: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        person = Willing()
        surroundings = HostContext(
            environ=os.environ, project=Path(folder), state=Path(folder), elicit=person, visitor=person
        )
        server = Server(referee(url), surroundings)
        try:
            return 0 if await play(server) else 1
        except ServerError as error:
            sys.stderr.write(f"{error.code}: {error.message}\n{error.hint}\n")
            return 3
        finally:
            await server.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
