"""Toolset in, MCP server out."""

from kakite.serve.server import McpServer, build_server
from kakite.serve.stdio import serve_stdio

__all__ = ["McpServer", "build_server", "serve_stdio"]
