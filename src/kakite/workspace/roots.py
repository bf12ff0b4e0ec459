"""The opened roots of a workspace, and which of them an absolute path lies beneath."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from weakref import finalize

from kakite.workspace.failures import naming


class Root:
    """An opened root. It is closed when nobody uses it any more, so that no call can meet another folder."""

    def __init__(self, path: str) -> None:
        """Open the folder.

        Raises:
            WorkspaceError: it is not there, or no folder.
        """
        with naming(path):
            self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.path = os.path.realpath(path)
            given = os.path.abspath(path)
        self.names = tuple(PurePosixPath(name).parts for name in (self.path, given))
        """What absolute paths below it begin with: its real path, or the one it was given by."""
        finalize(self, os.close, self.descriptor)


def find_root(roots: Sequence[Root], path: str) -> tuple[Root, str] | None:
    """Return the root that an absolute path lies beneath and the rest of the path; None if there is none."""
    parts = PurePosixPath(path).parts
    for root in roots:
        for own in root.names:
            if parts[: len(own)] == own:
                return root, "/".join(parts[len(own) :]) or "."
    return None
