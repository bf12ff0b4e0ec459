"""Explains why an edit was refused."""
