"""How many days the journal keeps edits: read without the settings' library where no file of settings is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kakite.errors import UsageError

VARIABLE = "KAKITE_HISTORY_DAYS"
_MOST = 36_500


def own_file(environ: Mapping[str, str]) -> Path:
    """Return where the person's own settings are, if they have any."""
    folder = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "kakite" / "kakite.yaml"


def kept_days(environ: Mapping[str, str]) -> int:
    """Return the days that the environment or the person's own settings say, never those of a repository.

    Raises:
        UsageError: it is no number of days, or the settings are wrong.
    """
    said = environ.get(VARIABLE)
    if said:
        if not (said.isascii() and said.isdigit() and 1 <= int(said[:9]) <= _MOST):
            raise UsageError(f"`{VARIABLE}` is no number of days: `{said[:50]}`", hint="give one from 1 on")
        return int(said)
    if environ.get("KAKITE_CONFIG") or own_file(environ).exists():
        from kakite.cli.settings import own_settings

        return own_settings(environ).history_days
    from kakite.workspace import KEPT_DAYS

    return KEPT_DAYS
