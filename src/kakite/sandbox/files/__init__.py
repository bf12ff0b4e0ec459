"""The folders of a task, and copying them in and out."""
