"""The folder of a task on the host: its project, its home and its temporary files.

Programs of another user write in it: no link of theirs is followed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


def give_ownership(folder: Path, uid: int, gid: int) -> None:
    """Give a folder and all of ours below it to a user. Only root can."""
    with _open_folder(folder) as top:
        os.fchown(top, uid, gid)
        # A file of several names may be somebody's elsewhere.
        _change_owner(
            top, lambda found: found.st_uid == os.geteuid() and not _has_hard_links(found), uid, gid
        )


def take_ownership(folder: Path) -> None:
    """Make a folder ours that another user was given, with all that is that user's below it.

    Raises:
        SandboxError: it is another user's and we are not root, code ``folder_not_yours``.
    """
    with _open_folder(folder) as top:
        owner, ourselves = os.fstat(top).st_uid, os.geteuid()
        if owner == ourselves:
            return
        if ourselves != 0:
            raise SandboxError(
                f"`{folder}` belongs to user {owner}, for whom programs in a container worked there",
                hint=f"continue as root, or have root give it to you: chown -R {ourselves} {folder.parent}",
                code="folder_not_yours",
            )
        _change_owner(top, lambda found: found.st_uid == owner, ourselves, os.getegid())
        os.fchown(top, ourselves, os.getegid())  # last: whoever is cut short before begins again


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
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


def _has_hard_links(found: os.stat_result) -> bool:
    return found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)


def write_passwd(file: Path, user: str, home: str) -> Path:
    """Write the list of users that programs see: they ask it for the home as often as the environment."""
    uid, gid = user.split(":")
    name = "root" if uid == "0" else "user"
    file.write_text(
        f"{name}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
        encoding="utf-8",
    )
    return file


def get_hard_limit(kind: int) -> int:
    """Return how much of a resource (``resource.RLIMIT_…``) a program that we start may allow itself."""
    hard = resource.getrlimit(kind)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """Folders that belong to one task alone. Only the user may look into them."""

    path: Path

    @property
    def project(self) -> Path:
        """The task's checkout."""
        return self.path / "project"

    @property
    def home(self) -> Path:
        """``HOME`` of its programs: their caches and settings stay over the task."""
        return self.path / "home"

    @property
    def temporary(self) -> Path:
        """``TMPDIR`` of its programs."""
        return self.path / "tmp"

    @property
    def empty_folder(self) -> Path:
        """The empty folder shown in place of a hidden one."""
        return self.path / "empty"

    @property
    def empty_file(self) -> Path:
        """The empty file shown in place of a hidden one."""
        return self.path / "empty.txt"

    @property
    def masks(self) -> tuple[str, str]:
        """Both of these."""
        return str(self.empty_folder), str(self.empty_file)

    @property
    def services(self) -> Path:
        """The sockets of the host's services."""
        return self.path / "services"

    @property
    def view(self) -> Path:
        """The folder on which bubblewrap mounts what programs see; empty for everybody else."""
        return self.path / "view"

    @property
    def seccomp(self) -> Path:
        """The list of system calls that programs are not given."""
        return self.path / "seccomp"

    def make(self) -> None:
        """Make what is not there yet."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.project, self.home, self.temporary, self.empty_folder, self.services, self.view):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.empty_file.touch(mode=0o400)

    async def take_ownership(self) -> None:
        """Make all of it ours again, where programs in a container had it as another user.

        Raises:
            SandboxError: only root can, and we are not; code ``folder_not_yours``.
        """
        for folder in (self.project, self.home):
            await asyncio.to_thread(take_ownership, folder)

    def put_seccomp(self, program: bytes) -> None:
        """Write the list of system calls, whole or not at all."""
        fresh = self.path / "seccomp.new"
        fresh.write_bytes(program)
        fresh.replace(self.seccomp)

    async def empty_temporary(self) -> None:
        """Delete the temporary files, as far as their modes let us."""
        await asyncio.to_thread(shutil.rmtree, self.temporary, ignore_errors=True)
