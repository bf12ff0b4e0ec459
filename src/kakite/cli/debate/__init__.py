"""The commands of ``kakite debate``."""
