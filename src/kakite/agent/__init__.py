"""The coding agent: from a task to a pushed branch."""
