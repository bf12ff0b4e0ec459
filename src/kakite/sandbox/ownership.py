"""The task's folders on the host, in which programs of another user write: no link of theirs is followed."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kakite.sandbox.sandbox import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


def give(folder: Path, uid: int, gid: int) -> None:
    """Give a folder and all of ours below it to a user. Only root can."""
    with _opened(folder) as top:
        os.fchown(top, uid, gid)
        # A file of several names may be somebody's elsewhere.
        _change_owner(top, lambda found: found.st_uid == os.geteuid() and not _has_names(found), uid, gid)


def take_back(folder: Path) -> None:
    """Make a folder ours that another user was given, with all that is that user's below it.

    Raises:
        SandboxError: it is another user's and we are not root, code ``folder_not_yours``.
    """
    with _opened(folder) as top:
        owner, ourselves = os.fstat(top).st_uid, os.geteuid()
        if owner == ourselves:
            return
        if ourselves != 0:
            raise SandboxError(
                f"`{folder}` belongs to user {owner}, for whom programs in a container worked there",
                hint=f"go on as root, or let root give it to you: chown -R {ourselves} {folder.parent}",
                code="folder_not_yours",
            )
        _change_owner(top, lambda found: found.st_uid == owner, ourselves, os.getegid())
        os.fchown(top, ourselves, os.getegid())  # last: whoever is cut short before begins again


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield top
    finally:
        os.close(top)


def _change_owner(top: int, whose: Callable[[os.stat_result], bool], uid: int, gid: int) -> None:
    for _, folders, files, fd in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                if whose(os.stat(name, dir_fd=fd, follow_symlinks=False)):
                    os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)


def _has_names(found: os.stat_result) -> bool:
    return found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)


def list_users(file: Path, user: str, home: str) -> Path:
    """Write the list of users that programs see: they ask it for the home as often as the environment."""
    uid, gid = user.split(":")
    name = "root" if uid == "0" else "user"
    file.write_text(
        f"{name}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
        encoding="utf-8",
    )
    return file


def allowed(kind: int) -> int:
    """Return how much of a resource (``resource.RLIMIT_…``) a program that we start may allow itself."""
    hard = resource.getrlimit(kind)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard
