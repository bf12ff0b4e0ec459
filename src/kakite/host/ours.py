"""Which server is Kakite's own, so that it is believed without being told to, and where it looks."""

from __future__ import annotations

import os
import posixpath
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kakite.host.entries import Program, ServerEntry

_HARMLESS = "KAKITE_"
_ROOT = "--root"


def is_ours(entry: ServerEntry, environ: Mapping[str, str]) -> bool:
    """Return whether an entry starts ``kakite serve`` of this very installation, unchanged by what it sets.

    Its word then counts as that of a trusted server: its previews are asked for, and show what an edit does.
    Whoever believes it has to start it ``as_ours``: what the name stands for may be another program by then.
    """
    reached = entry.reached
    if not isinstance(reached, Program) or reached.args[:1] != ("serve",):
        return False
    if any(not name.startswith(_HARMLESS) for name in reached.env):
        return False  # PYTHONPATH, LD_PRELOAD and their like
    found = shutil.which(reached.command, path=environ.get("PATH"))
    own = _own_program()
    if found is None or not Path(found).is_absolute():
        return False  # it is looked up from the server's folder, not from ours
    return own.is_file() and Path(found).samefile(own)


def as_ours(entry: ServerEntry) -> ServerEntry:
    """Return an entry that is ours so that nothing but our own program can be started by it."""
    assert isinstance(entry.reached, Program)
    return replace(entry, trusted=True, reached=replace(entry.reached, command=str(_own_program())))


def first_folder(program: Program, folder: str) -> str:
    """Return where relative paths of calls start in our own server that is started in an absolute folder.

    Empty if it has no folder at all.
    """
    root = next(_roots(program.args), "")
    return os.path.realpath(posixpath.join(folder, root)) if root else ""


def _roots(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word == _ROOT:
            yield from words[at + 1 : at + 2]
        elif word.startswith(f"{_ROOT}="):
            yield word.removeprefix(f"{_ROOT}=")


def _own_program() -> Path:
    return Path(sysconfig.get_path("scripts")) / "kakite"
