"""Finds and creates the user's state folder, which is closed to others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def get_state_path(environ: Mapping[str, str]) -> Path:
    """Return where the folder is, or would be."""
    home = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".local" / "state")
    return Path(home) / "kakite"


def ensure_state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder, made if missing, with mode 0700."""
    folder = get_state_path(environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder
