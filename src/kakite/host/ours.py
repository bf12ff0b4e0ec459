"""Which server is Kakite's own, so that it is believed without being told to."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from kakite.host.entries import Program, ServerEntry

_HARMLESS = "KAKITE_"


def is_ours(entry: ServerEntry, environ: Mapping[str, str]) -> bool:
    """Return whether an entry starts ``kakite serve`` of this very installation, unchanged by what it sets.

    Its word then counts as that of a trusted server: its previews are asked for, and show what an edit does.
    """
    reached = entry.reached
    if not isinstance(reached, Program) or reached.args[:1] != ("serve",):
        return False
    if any(not name.startswith(_HARMLESS) for name in reached.env):
        return False  # PYTHONPATH, LD_PRELOAD and their like
    found = shutil.which(reached.command, path=environ.get("PATH"))
    own = Path(sysconfig.get_path("scripts")) / "kakite"
    if found is None or not Path(found).is_absolute():
        return False  # it is looked up from the server's folder, not from ours
    return own.is_file() and Path(found).samefile(own)
