"""The demo: a small project with a failing test, and what its scripted model says."""
