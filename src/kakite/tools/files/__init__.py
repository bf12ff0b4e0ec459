"""The file tools: read, write, move, apply diffs."""
