"""The MCP tools of the debate server."""
