"""Helpers that all HTTP servers of Kakite share."""
