"""The tools that run commands."""
