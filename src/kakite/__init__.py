"""Kakite: edits by language models land right or not at all."""

__version__ = "0.1.0"
