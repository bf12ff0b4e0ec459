"""The local forge: a bare repository and Markdown files in a folder."""
