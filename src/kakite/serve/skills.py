"""Offers an Agent Skill with the tools: the extension ``io.modelcontextprotocol/skills``, and a resource."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import mcp_types as mcp
from mcp.shared.exceptions import MCPError

from kakite.serve.resources import add_readable
from kakite.serve.server import TOOLS_TTL_MS, Context, McpServer

EXTENSION = "io.modelcontextprotocol/skills"
_MIME = "text/markdown"


class ListSkillsResult(mcp.CacheableResult):
    """What ``skills/list`` answers."""

    result_type: Literal["complete"] = "complete"
    skills: list[dict[str, Any]]


class GetSkillResult(mcp.CacheableResult):
    """What ``skills/get`` answers."""

    result_type: Literal["complete"] = "complete"
    skill: dict[str, Any]


class GetSkillRequestParams(mcp.RequestParams):
    """The skill that ``skills/get`` asks for."""

    uri: str


def add_skill(server: McpServer, name: str, load: Callable[[], str]) -> None:
    """Let the server offer one skill, besides the resources that it has by then.

    Args:
        server: which.
        name: of the skill, as the head of its text has it.
        load: returns the text of ``SKILL.md``; called once, when a client asks.
    """
    uri = f"skill://{name}/SKILL.md"
    text = cache(load)
    server.extensions[EXTENSION] = {}

    async def list_skills(_context: Context, _params: mcp.PaginatedRequestParams) -> ListSkillsResult:
        return ListSkillsResult(skills=[_describe(uri, text())], ttl_ms=TOOLS_TTL_MS, cache_scope="public")

    async def get_skill(_context: Context, params: GetSkillRequestParams) -> GetSkillResult:
        if params.uri != uri:
            raise MCPError(mcp.INVALID_PARAMS, f"there is no skill `{params.uri[:200]}`", {"uri": params.uri})
        return GetSkillResult(skill=_describe(uri, text()), ttl_ms=TOOLS_TTL_MS, cache_scope="public")

    server.add_request_handler("skills/list", mcp.PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", GetSkillRequestParams, get_skill)
    _add_resource(server, uri, text)


def _add_resource(server: McpServer, uri: str, text: Callable[[], str]) -> None:
    """List the skill before the other resources, and let it be read as they are."""
    add_readable(
        server, uri, lambda _context: mcp.TextResourceContents(uri=uri, mime_type=_MIME, text=text())
    )
    others = server.get_request_handler("resources/list")
    if others is None:
        raise ValueError("the server has no resources")

    async def list_resources(context: Context, params: mcp.PaginatedRequestParams) -> Any:
        listed: Any = await others.handler(context, params)
        if params.cursor is None:
            listed.resources.insert(0, _to_resource(uri, text()))
        return listed

    server.add_request_handler("resources/list", mcp.PaginatedRequestParams, list_resources)


def _describe(uri: str, text: str) -> dict[str, Any]:
    """Return the entry of a skill that is one file, with the hash that a client compares."""
    data = text.encode()
    file = {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
    return {"uri": uri, "frontmatter": _read_head(text), "resources": [file]}


def _to_resource(uri: str, text: str) -> mcp.Resource:
    head = _read_head(text)
    return mcp.Resource(
        uri=uri,
        name=head["name"],
        description=head["description"],
        mime_type=_MIME,
        size=len(text.encode()),
    )


def _read_head(text: str) -> dict[str, Any]:
    import yaml

    return yaml.safe_load(text.split("---\n", 2)[1])
