"""The assistant that writes along."""
