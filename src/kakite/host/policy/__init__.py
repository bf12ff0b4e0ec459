"""Decides which calls may run: rules first, then the user."""
