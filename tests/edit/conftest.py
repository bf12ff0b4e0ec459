"""Settings for the laws of the engine: none of them is a test of speed."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("edit", deadline=None)
settings.load_profile("edit")
