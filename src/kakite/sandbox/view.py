"""What commands of one task see of the host's files, mounted once for all of them.

A process in a mount namespace of its own has it below one folder, and what it starts takes all of that over
in one go: bubblewrap reads the whole table of mounts for each single one. What differs from command to
command is mounted by each.

A mount that hides a file goes with it when that is replaced, as ``passwd`` replaces ``/etc/shadow``, and what
the host mounts later arrives there writable. So before each command is looked whether all is as it
should be, and nothing was mounted or unmounted there; else it is made again.
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
class Made:
    """How what is mounted once is made."""

    words: tuple[str, ...]
    """Bubblewrap's, for who starts the commands."""
    places: tuple[tuple[str, str, str], ...]
    """What has to hold before each command, for its starter."""


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

    def made(self) -> Made:
        """Tell how it is made, below one folder, and what has to hold then: from one look."""
        top = str(self.folder.view)
        root = _AS_ROOT if os.getuid() == 0 else ()
        words = [*_NAMESPACE, *root, *_HOST]
        places = [("top", "", top)]
        for mount in self.once:
            place = f"{top}{mount[-1]}".rstrip("/")
            gone = vanished(self.folder, mount)
            places += self._held(mount, place, gone=gone)
            if not gone:
                words += (*mount[:-1], place)
        return Made(words=tuple(words), places=tuple(places))

    def entered(self) -> tuple[str, ...]:
        """Return bubblewrap's words for each command."""
        there = (mount for mount in self.each if not vanished(self.folder, mount))
        return (*self.mark, *(word for mount in there for word in mount))

    def _held(self, mount: Mount, place: str, *, gone: bool) -> Iterator[tuple[str, str, str]]:
        if gone:
            yield "absent", "", place
        elif mount[0] == "--tmpfs" and mount[-1] != "/":
            yield "hidden", mount[-1], place
        elif mount[0] == "--dev":
            yield "own", "", place  # a folder in memory with a few devices: no mount of the host's gets there
        elif mount[0] in {"--bind", "--ro-bind"}:
            yield "masked" if mount[1] in self.folder.masks else "shown", mount[1], place
            if mount[0] == "--bind":
                yield "written", "", place


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
