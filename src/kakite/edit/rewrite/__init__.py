"""Fits the new text into the file: indentation, left-out lines, literals."""
