"""Earlier versions of a page: those of its writes, and those that people gave a name."""
