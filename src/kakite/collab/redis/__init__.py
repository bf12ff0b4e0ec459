"""Several processes that serve the same documents through Redis."""
