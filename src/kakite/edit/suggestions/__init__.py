"""Suggests what a refused edit probably meant."""
