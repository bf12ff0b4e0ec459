"""Toolset in, MCP server out."""

from kakite.serve.server import build_server, serve_stdio

__all__ = ["build_server", "serve_stdio"]
