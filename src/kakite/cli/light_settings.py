"""Loads the few settings that a quick start needs. Imports the settings' library only if they may be set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.cli.settings_file import get_user_settings_file
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.tools import AfterEditCommand

HISTORY_DAYS_VARIABLE = "KAKITE_HISTORY_DAYS"
_MAX_DAYS = 36_500


def load_history_days(environ: Mapping[str, str]) -> int:
    """Return how many days the journal keeps edits.

    The environment or the person's own settings say it, never those of a repository.

    Raises:
        UsageError: it is not a number of days, or the settings are wrong.
    """
    said = environ.get(HISTORY_DAYS_VARIABLE)
    if said:
        if not (said.isascii() and said.isdigit() and 1 <= int(said[:9]) <= _MAX_DAYS):
            raise UsageError(
                f"`{HISTORY_DAYS_VARIABLE}` is not a number of days: `{said[:50]}`", hint="give 1 or more"
            )
        return int(said)
    if environ.get("KAKITE_CONFIG") or get_user_settings_file(environ).is_file():
        from kakite.cli.settings import load_user_settings

        return load_user_settings(environ).history_days
    from kakite.workspace import RETENTION_DAYS

    return RETENTION_DAYS


def load_after_edit_commands(environ: Mapping[str, str], folder: str) -> tuple[AfterEditCommand, ...]:
    """Return the commands that the person's own settings name for files in a folder; empty: in any.

    Raises:
        UsageError: the settings are wrong.
    """
    files = [get_user_settings_file(environ), Path(environ.get("KAKITE_CONFIG") or os.devnull)]
    if not environ.get("KAKITE_AFTER_EDIT") and not any(map(_has_after_edit, files)):
        return ()
    from kakite.cli.settings import load_user_commands
    from kakite.tools import parse_after_edit_commands

    return parse_after_edit_commands(load_user_commands(environ, os.path.realpath(folder) if folder else ""))


def _has_after_edit(file: Path) -> bool:
    try:
        return b"after_edit" in file.read_bytes()
    except OSError:
        return False
