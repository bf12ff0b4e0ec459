"""Coding CLIs that fail in every way that real ones do, for tests of debates."""
