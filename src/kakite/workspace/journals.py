"""Where the journals of all workspaces lie, and which of them tell of a folder."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kakite.workspace.entries import Write
from kakite.workspace.failures import WorkspaceError
from kakite.workspace.forgetting import Forgetting
from kakite.workspace.history import KEPT_DAYS, History

_DAY = 24 * 60 * 60  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A journal that is kept, and the folders that it tells of."""

    history: History
    roots: tuple[str, ...]
    """Absolute; the first one is where relative paths started, if it is known."""


def open_history(state: Path, root: str, *, days: float | None = KEPT_DAYS) -> History:
    """Return the journal of the workspace with this first root, below the user's state folder.

    Edits are forgotten after so many ``days``, also those of workspaces that nobody opens any more.
    """
    own = _file(state, root)
    if days is not None:
        for file in (state / "history").glob("*.sqlite"):
            if file != own and _is_left(file, days):
                _forget_all(file, state, days)
    return History(own, state=state, days=days)


def _is_left(file: Path, days: float) -> bool:
    """Return whether nothing was written there for so long."""
    try:
        return time.time() - file.stat().st_mtime > days * _DAY
    except OSError:
        return False


def _forget_all(file: Path, state: Path, days: float) -> None:
    left = History(file, state=state, days=days)
    with suppress(WorkspaceError):
        left.forget(Forgetting(before=time.time() - days * _DAY))
    left.close()


def journals_of(state: Path, folders: Sequence[str]) -> tuple[str, list[Journal]]:
    """Return the first of these folders that was a root of any workspace, and the journals of those.

    Journals that cannot be read are passed over, but not the one that is the folder's own: that turns out
    when it is used. Without any, it is the first folder.
    """
    kept = [_kept(file, state) for file in sorted((state / "history").glob("*.sqlite"))]
    for folder in folders:
        own = _file(state, folder)
        found = [each for each in kept if folder in each.roots or each.history.file == own]
        if found:
            return folder, [each if each.roots else replace(each, roots=(folder,)) for each in found]
    return folders[0], []


def writes_of(journals: Sequence[Journal], path: str | None = None, *, limit: int = 100) -> list[Write]:
    """Return the latest writes that these journals tell of, those taken back too, the last one first.

    Raises:
        WorkspaceError: ``history_failed``, ``busy``.
    """
    told = [write for each in journals for write in each.history.writes(path, limit=limit, undone=True)]
    return sorted(told, key=lambda write: (write.time, write.id), reverse=True)[:limit]


def latest(journals: Sequence[Journal], path: str | None = None, run: str | None = None) -> Journal | None:
    """Return the journal with the last write of this file or run, or of all; None if there is no such write.

    Raises:
        WorkspaceError: ``history_failed``, ``busy``.
    """
    last = {write.time: each for each in journals for write in each.history.writes(path, run=run, limit=1)}
    return last[max(last)] if last else None


def _kept(file: Path, state: Path) -> Journal:
    looked_at = History(file, state=state, days=None)
    roots: tuple[str, ...] = ()
    with suppress(WorkspaceError):
        roots = looked_at.roots()
    looked_at.close()
    return Journal(history=History(file, state=state, days=None), roots=roots)


def _file(state: Path, root: str) -> Path:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return state / "history" / f"{name}.sqlite"
