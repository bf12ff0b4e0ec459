"""The commands of ``kakite agent``."""
