"""Runs and watches one MCP server."""
