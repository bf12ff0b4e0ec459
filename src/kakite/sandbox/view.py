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

    from kakite.sandbox.folder import TaskFolder
    from kakite.sandbox.mounts import Mount

_NAMESPACE = ("--unshare-user", "--cap-drop", "ALL")
_AS_ROOT = ("--cap-add", "CAP_SETFCAP")
"""Without it a namespace within would have no root."""
_HOST = ("--dev-bind", "/", "/")
"""All of it, for what starts the commands is our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is mounted once, and what by each command; the paths as commands see them."""

    folder: TaskFolder
    once: tuple[Mount, ...]
    each: tuple[Mount, ...]

    @property
    def mark(self) -> tuple[str, ...]:
        """What stands in the arguments of each command's bubblewrap, and nobody else's."""
        return ("--dev-bind", str(self.folder.view), "/")

    def made(self) -> tuple[str, ...]:
        """Return bubblewrap's words that make it, below one folder, for who starts the commands."""
        top = self.folder.view
        mounts = ((*mount[:-1], f"{top}{mount[-1]}".rstrip("/")) for mount in self._there(self.once))
        root = _AS_ROOT if os.getuid() == 0 else ()
        return (*_NAMESPACE, *root, *_HOST, *(word for mount in mounts for word in mount))

    def entered(self) -> tuple[str, ...]:
        """Return bubblewrap's words for each command."""
        return (*self.mark, *(word for mount in self._there(self.each) for word in mount))

    def places(self) -> Iterator[tuple[str, str, str]]:
        """Yield what has to hold before each command, for its starter."""
        masks = self.folder.masks
        for mount in self._there(self.once):
            place = f"{self.folder.view}{mount[-1]}"
            if mount[0] in {"--bind", "--ro-bind"}:
                yield ("hidden", "", place) if mount[1] in masks else ("shown", mount[1], place)
            elif mount[0] == "--tmpfs":
                yield "hidden", "", place

    def _there(self, mounts: tuple[Mount, ...]) -> Iterator[Mount]:
        return (mount for mount in mounts if not vanished(self.folder, mount))


def view_of(folder: TaskFolder, planned: tuple[Mount, ...], *, empty: str) -> View:
    """Tell what of this plan is mounted once; in ``empty`` each command may have something mounted.

    Each has its own of its processes and of what is in memory, and of all that lies below these.
    """
    own = {mount[-1] for mount in planned if mount[0] in {"--proc", "--perms"}}
    once: list[Mount] = [("--tmpfs", "/"), ("--dir", empty)]
    each: list[Mount] = []
    for mount in planned:
        if {str(path) for path in (PurePosixPath(mount[-1]), *PurePosixPath(mount[-1]).parents)} & own:
            each.append(mount)
        else:
            once.append(mount)
        if mount[0] in {"--proc", "--perms"}:
            once.append(("--dir", mount[-1]))
    return View(folder=folder, once=tuple(once), each=tuple(each))
