"""What commands of one task see of the host's files, mounted once for all of them.

A process in a mount namespace of its own has it below one folder, and what it starts takes all of that over
in one go: bubblewrap reads the whole table of mounts for each single one. What differs from command to
command is mounted by each.

A mount that hides a file goes with the file when that is replaced, as ``passwd`` replaces ``/etc/shadow``. So
before each command is looked whether everything is still as it was made; else it is made again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kakite.sandbox.mounts import vanished

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kakite.sandbox.folder import TaskFolder
    from kakite.sandbox.mounts import Mount

_NAMESPACE = ("--unshare-user", "--cap-drop", "ALL")
_AS_ROOT = ("--cap-add", "CAP_SETFCAP")
"""Without it a namespace within would have no root."""
_HOST = ("--dev-bind", "/", "/")
"""All of it, for what starts the commands is our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is mounted once, and what by each command."""

    folder: TaskFolder
    planned: tuple[Mount, ...]
    """All of it in order, the paths as commands see them."""
    empty: tuple[str, ...] = ()
    """Folders in which something may be mounted by each command."""

    @property
    def top(self) -> Path:
        """Where it lies, for who starts the commands."""
        return self.folder.view

    def made(self) -> tuple[str, ...]:
        """Return bubblewrap's words that make it."""
        top = str(self.top)
        first: tuple[Mount, ...] = (("--tmpfs", "/"), *(("--dir", path) for path in self.empty))
        mounts = ((*mount[:-1], f"{top}{mount[-1]}".rstrip("/")) for mount in (*first, *self._once()))
        root = _AS_ROOT if os.getuid() == 0 else ()
        return (*_NAMESPACE, *root, *_HOST, *(word for mount in mounts for word in mount))

    def entered(self) -> tuple[str, ...]:
        """Return bubblewrap's words for each command."""
        own = self._of_each()
        mounts = (mount for mount in self.planned if _is_below(mount[-1], own))
        return (*self.mark, *(word for mount in mounts if not vanished(self.folder, mount) for word in mount))

    @property
    def mark(self) -> tuple[str, ...]:
        """What stands in the arguments of each command's bubblewrap, and nobody else's."""
        return ("--dev-bind", str(self.top), "/")

    def places(self) -> Iterator[tuple[str, str, str]]:
        """Yield what has to hold before each command, for its starter."""
        masks = {str(self.folder.empty_file), str(self.folder.empty_folder)}
        for mount in self._once():
            place = f"{self.top}{mount[-1]}"
            if mount[0] in {"--bind", "--ro-bind"}:
                hides = mount[1] in masks
                yield ("hidden", "", place) if hides else ("shown", mount[1], place)
            elif mount[0] == "--tmpfs":
                yield "hidden", "", place

    def _of_each(self) -> tuple[PurePosixPath, ...]:
        """Return where each command has something of its own: its processes, and what is in memory."""
        kinds = {"--proc", "--perms"}
        return tuple(PurePosixPath(mount[-1]) for mount in self.planned if mount[0] in kinds)

    def _once(self) -> Iterator[Mount]:
        own = self._of_each()
        for mount in self.planned:
            if PurePosixPath(mount[-1]) in own and mount[0] != "--remount-ro":
                yield ("--dir", mount[-1])
            elif not _is_below(mount[-1], own) and not vanished(self.folder, mount):
                yield mount


def _is_below(path: str, folders: tuple[PurePosixPath, ...]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
