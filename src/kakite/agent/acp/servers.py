"""Makes entries of the MCP servers that an editor names for a session. Pure.

The editor's person consented to them by configuring them. Their variables and headers are nowhere stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acp import RequestError, schema

from kakite.host.config.model import HttpServer, ServerEntry, SourceLocation, StdioServer

_ORIGIN = SourceLocation(file="(the editor)", line=1, scope="user")


def to_server_entries(servers: Sequence[Any]) -> tuple[ServerEntry, ...]:
    """Return the entries of these servers; of two with one name the later counts.

    Raises:
        RequestError: there is one of a kind that we did not say we can.
    """
    found = {server.name: _to_entry(server) for server in servers}
    return tuple(found.values())


def _to_entry(server: Any) -> ServerEntry:
    match server:
        case schema.McpServerStdio(command=command, args=args):
            env = {each.name: each.value for each in server.env}
            reached: StdioServer | HttpServer = StdioServer(command=command, args=tuple(args), env=env)
        case schema.HttpMcpServer(url=url) | schema.SseMcpServer(url=url):
            headers = {each.name: each.value for each in server.headers}
            reached = HttpServer(url=url, headers=headers, sse=isinstance(server, schema.SseMcpServer))
        case _:
            raise RequestError.invalid_params({"mcpServers": f"`{server.name}` is of an unknown kind"})
    return ServerEntry(name=server.name, reached=reached, origin=_ORIGIN)
