"""Talks to a task's container and cleans up after it."""
