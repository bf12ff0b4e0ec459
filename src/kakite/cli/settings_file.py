"""Finds the file of the person's own settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kakite.processes import UNTRUSTED_HOME


def get_user_settings_file(environ: Mapping[str, str]) -> Path:
    """Return where the person's own settings are, if they have any; no file where the home is not theirs."""
    if environ.get(UNTRUSTED_HOME):
        return Path(os.devnull)
    folder = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "kakite" / "kakite.yaml"
