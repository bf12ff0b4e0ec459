"""Finds the place of the text that an edit means."""
