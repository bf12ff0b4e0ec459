"""The folder of a task on the host: its project, its home and its temporary files."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.sandbox import ownership

if TYPE_CHECKING:
    from pathlib import Path


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
        """What is shown in place of a hidden folder."""
        return self.path / "empty"

    @property
    def empty_file(self) -> Path:
        """What is shown in place of a hidden file."""
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
        """Where bubblewrap mounts what programs see; empty for everybody else."""
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

    async def take_back(self) -> None:
        """Make all of it ours again, where programs in a container had it as another user.

        Raises:
            SandboxError: only root can, and we are not; code ``folder_not_yours``.
        """
        for folder in (self.project, self.home):
            await asyncio.to_thread(ownership.take_back, folder)

    def put_seccomp(self, program: bytes) -> None:
        """Write the list of system calls, whole or not at all."""
        fresh = self.path / "seccomp.new"
        fresh.write_bytes(program)
        fresh.replace(self.seccomp)

    async def empty_temporary(self) -> None:
        """Delete the temporary files, as far as their modes let us."""
        await asyncio.to_thread(shutil.rmtree, self.temporary, ignore_errors=True)
