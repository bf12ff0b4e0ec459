"""The worker: runs each task as a durable workflow."""
