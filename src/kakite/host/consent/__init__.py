"""Remembers which servers and tools the user agreed to."""
