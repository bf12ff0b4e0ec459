"""A task in, a pushed branch out."""
