"""Kakite applies the edits of AI models to files: each one where the model meant it, or not at all."""

__version__ = "0.1.0"
