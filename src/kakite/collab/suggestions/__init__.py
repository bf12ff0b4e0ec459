"""Suggested changes of a document."""
