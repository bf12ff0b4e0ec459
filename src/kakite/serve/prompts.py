"""Texts that a server offers to a client's person, as MCP prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mcp_types as mcp
from mcp.shared.exceptions import MCPError

from kakite.serve.server import Context, McpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text that a person picks in the client, for the client's model."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    """What a person may fill in, and what each is for; all may be left out."""
    text: Callable[[Mapping[str, str]], str]
    """Returns the text with what was filled in."""


def add_prompts(server: McpServer, prompts: Sequence[Prompt]) -> None:
    """Let the server list these prompts and give their texts."""
    known = {each.name: each for each in prompts}

    async def list_prompts(
        _context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListPromptsResult:
        return mcp.ListPromptsResult(prompts=[_listed(each) for each in known.values()])

    async def get_prompt(_context: Context, params: mcp.GetPromptRequestParams) -> mcp.GetPromptResult:
        found = known.get(params.name)
        if found is None:
            told = f"there is no prompt `{params.name[:100]}`; there is {', '.join(known)}"
            raise MCPError(mcp.INVALID_PARAMS, told)
        text = found.text(params.arguments or {})
        message = mcp.PromptMessage(role="user", content=mcp.TextContent(type="text", text=text))
        return mcp.GetPromptResult(description=found.description, messages=[message])

    server.add_request_handler("prompts/list", mcp.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", mcp.GetPromptRequestParams, get_prompt)


def _listed(prompt: Prompt) -> mcp.Prompt:
    arguments = [
        mcp.PromptArgument(name=name, description=told, required=False)
        for name, told in prompt.arguments.items()
    ]
    return mcp.Prompt(
        name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments
    )
