"""What the model has seen of a file, and what changed since."""
