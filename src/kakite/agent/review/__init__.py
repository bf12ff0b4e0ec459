"""Reviews of changes: what changed, what a model found in it, and which of that holds."""
