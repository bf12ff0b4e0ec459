"""The commands of ``kakite host``."""
