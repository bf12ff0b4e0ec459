"""The demo: a small project with a failing test, and the script of its model."""
