"""Logs in to remote MCP servers with OAuth."""
