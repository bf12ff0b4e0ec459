"""Where Kakite keeps what it must remember: the user's state folder, closed to others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def state_path(environ: Mapping[str, str]) -> Path:
    """Return where the folder is, or would be."""
    home = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".local" / "state")
    return Path(home) / "kakite"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder, made if missing, with mode 0700."""
    folder = state_path(environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder
