"""The person's commands for files that were edited. It loads nothing where there are none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.cli.kept_days import own_file

if TYPE_CHECKING:
    from kakite.tools import AfterEdit


def own_edit_commands(environ: Mapping[str, str], folder: str) -> tuple[AfterEdit, ...]:
    """Return the commands that the person's own settings name for files in a folder.

    Raises:
        UsageError: the settings are wrong.
    """
    files = [own_file(environ), Path(environ.get("KAKITE_CONFIG") or os.devnull)]
    if not environ.get("KAKITE_AFTER_EDIT") and not any(map(_names_any, files)):
        return ()
    from kakite.cli.settings import own_commands
    from kakite.tools import read_commands

    return read_commands(own_commands(environ, os.path.realpath(folder)))


def _names_any(file: Path) -> bool:
    try:
        return b"after_edit" in file.read_bytes()
    except OSError:
        return False
