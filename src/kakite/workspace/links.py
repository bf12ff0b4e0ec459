"""From a path to the root that it lies beneath: by way of absolute links too, if they stay beneath one.

The kernel follows links beneath one folder, and takes an absolute one for a way out.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from kakite.workspace.failures import WorkspaceError
from kakite.workspace.naming import check_name
from kakite.workspace.roots import Root, find_root, link_target, opened_beneath

LINK_HOPS = 40  # what the kernel allows
_PARTS_MOST = 1000  # of a path with all its links written out

_Done = TypeVar("_Done")


def locate(roots: Sequence[Root], path: str) -> tuple[Root, str]:
    """Return the root that a path lies beneath, by its text, and the rest of it.

    Raises:
        WorkspaceError: ``path_escapes``, ``bad_path``, ``root_gone``.
    """
    check_name(path)
    if not path.startswith("/"):
        roots[0].require_there(path)
        return roots[0], path
    found = find_root(roots, path)
    if found is not None:
        found[0].require_there(path)
        return found
    where = ", ".join(f"`{root.path}`" for root in roots)
    raise WorkspaceError(
        "path_escapes", path, f"`{path}` lies out of the workspace", hint=f"use a path below {where}"
    )


def follow(roots: Sequence[Root], path: str, action: Callable[[Root, str], _Done]) -> _Done:
    """Do what is to be done with a path, or with where an absolute link on it leads, beneath a root.

    Raises:
        WorkspaceError: as ``locate``.
        OSError: as the action; EXDEV, ELOOP: the links lead elsewhere, or nowhere.
    """
    root, relative = locate(roots, path)
    for _ in range(LINK_HOPS):
        try:
            return action(root, relative)
        except OSError as error:
            link = None
            if error.errno == errno.EXDEV:
                with suppress(OSError):  # what it named is gone meanwhile
                    link = _absolute_link(root.descriptor, relative)
            onward = None if link is None else find_root(roots, link[0])
            if link is None or onward is None:
                raise
            root, relative = onward[0], f"{onward[1]}/{link[1]}" if link[1] else onward[1]
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _absolute_link(root: int, relative: str) -> tuple[str, str] | None:
    """Return where the first absolute link on this way below a folder leads, and what comes behind it."""
    left, way = relative.split("/")[::-1], list[str]()
    for _ in range(_PARTS_MOST):
        if not left:
            break
        part = left.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            if not way:
                break
            way.pop()
            continue
        with opened_beneath(root, "/".join(way) or ".", os.O_PATH | os.O_DIRECTORY) as folder:
            target = link_target(folder, part)
        if target is None:
            way.append(part)
        elif target.startswith("/"):
            return target, "/".join(left[::-1])
        else:
            left += target.split("/")[::-1]
    return None
