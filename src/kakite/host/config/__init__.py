"""Reads and writes the configuration of MCP servers."""
