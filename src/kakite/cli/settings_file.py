"""Finds the file of the person's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def get_user_settings_file(environ: Mapping[str, str]) -> Path:
    """Return where the person's own settings are, if they have any."""
    folder = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "kakite" / "kakite.yaml"
