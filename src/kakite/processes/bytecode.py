"""Finds the compiled bytecode of a script; a script that is run by its own name is compiled each time.

For the supervisor that is a quarter of its start, which every command pays.
"""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path


def find_bytecode(script: Path) -> Path:
    """Return what importing a script has left beside it, or the script where there is nothing of now."""
    made = Path(importlib.util.cache_from_source(script))
    if made.parent != script.parent / "__pycache__":  # not where ``ancestry`` knows it
        return script
    try:
        with made.open("rb") as file:
            head = file.read(16)
        about = script.stat()
    except OSError:
        return script
    of_now = struct.pack("<III", 0, int(about.st_mtime) & 0xFFFF_FFFF, about.st_size & 0xFFFF_FFFF)
    return made if head == importlib.util.MAGIC_NUMBER + of_now else script
