"""The search tools, and how they search."""
