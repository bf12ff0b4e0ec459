"""Tries to escape from a sandbox, to test it."""
