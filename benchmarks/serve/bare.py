"""The least server that the MCP SDK can make, for comparison: one tool that says its text again."""

from __future__ import annotations

import asyncio

import mcp_types as mcp
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOL = mcp.Tool(
    name="echo",
    description="Say it again.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
)


async def list_tools(_context, _params):
    return mcp.ListToolsResult(tools=[TOOL])


async def call_tool(_context, params):
    return mcp.CallToolResult(content=[mcp.TextContent(type="text", text=params.arguments["text"])])


async def main():
    server = Server("bare", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


asyncio.run(main())
