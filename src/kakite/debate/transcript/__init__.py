"""A debate as JSON, Markdown and HTML."""
