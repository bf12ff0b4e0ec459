"""Remembers what `kakite install` wrote, so that exactly this is taken out again, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kakite import state_files
from kakite.cli.install.json_entries import Entry
from kakite.state_paths import ensure_state_folder, get_state_path

_NAME = "installs.json"
_MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """What was written into one file."""

    client: str
    scope: str
    project: str = ""
    """The folder of the project, if the file is one of a project."""
    home: str = ""
    """The client's own file of the person, which a variable of the environment may move."""
    entries: tuple[Entry, ...] = ()
    block: str = ""
    text: str = ""
    is_created: bool = False
    blank: str | None = None
    """The text of before, where there was a file with nothing in it."""
    folders: tuple[str, ...] = ()
    """The folders that were made for it, the outermost first."""
    earlier: FileRecord | None = None
    """What was written before this, as long as it is not sure that this was written."""


Records = Mapping[str, FileRecord]
"""By the file's real path."""


def load_records(environ: Mapping[str, str]) -> dict[str, FileRecord]:
    """Return what is remembered; what cannot be read counts as nothing.

    Raises:
        OSError: the file cannot be read.
    """
    data = state_files.read(get_state_path(environ) / _NAME, _MAX_BYTES)
    try:
        found = json.loads(data or b"{}")
        return {path: _to_record(value) for path, value in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def save_records(environ: Mapping[str, str], records: Records) -> None:
    """Store what is to be remembered.

    Raises:
        OSError: it cannot be written.
    """
    path = get_state_path(environ) / _NAME
    if not records and not path.exists():
        return
    ensure_state_folder(environ)
    stored = {file: asdict(record) for file, record in records.items()}
    state_files.replace(path, json.dumps(stored, indent=1).encode())  # also of paths that are no UTF-8


def _to_record(stored: dict[str, Any]) -> FileRecord:
    entries: list[dict[str, Any]] = [{**each, "path": tuple(each["path"])} for each in stored["entries"]]
    earlier = stored.get("earlier")
    more: dict[str, Any] = {
        "entries": tuple(Entry(**each) for each in entries),
        "folders": tuple(stored["folders"]),
        "earlier": _to_record(earlier) if earlier else None,
    }
    fields: dict[str, Any] = {**stored, **more}
    return FileRecord(**fields)


def find_records(records: Records, like: FileRecord) -> list[str]:
    """Return the files that were written for the same client, in the same scope and project."""
    return [path for path, each in records.items() if is_alike(each, like)]


def is_alike(one: FileRecord, other: FileRecord) -> bool:
    """Return whether both are of the same client, in the same scope and project."""
    return all(getattr(one, name) == getattr(other, name) for name in ("client", "scope", "project", "home"))


def to_file(path: Path) -> str:
    """Return the file itself, also where the path is a link to it."""
    return os.path.realpath(path)  # of links in circles it says nothing: whoever reads the file is told
