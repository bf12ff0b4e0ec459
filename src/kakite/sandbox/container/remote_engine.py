"""Copies the task's folders to an engine on another machine and back, whole or not at all.

Such an engine keeps three volumes of a task: its project, its home, and an empty one that is made when both
are whole. Only where all three exist they hold the task's work. Anything less is a copy that was cut short:
it is removed, and made again of what the host has, which stays as it is until all is back.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kakite.sandbox.backends import engine
from kakite.sandbox.base import SandboxError
from kakite.sandbox.files.copy import copy_in, copy_out, remove
from kakite.workspace import openat2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kakite.sandbox.backends.engine import ContainerEngine
    from kakite.sandbox.base import Sandbox

_CALL = 60.0
_LONG = 600.0
_MARK = "whole"
# Who cannot read a file of their own cannot copy it either.
_READABLE = """exec find "$1" -type d ! -perm -500 -exec chmod u+rx {} ";" \
  -o -type f ! -perm -400 -exec chmod u+r {} ";"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVolumes:
    """The volumes of one task on one engine."""

    task: str
    """What the names of its volumes begin with."""
    containers: ContainerEngine

    @property
    def project(self) -> str:
        """The volume with the project."""
        return f"{self.task}-project"

    @property
    def home(self) -> str:
        """The volume with the home."""
        return f"{self.task}-home"

    @property
    def mark(self) -> str:
        """The volume that is there when the others are whole."""
        return f"{self.task}-{_MARK}"


def name_task_volumes(containers: ContainerEngine, folder: Path) -> TaskVolumes:
    """Return the names of the volumes for a task's folder of this user."""
    return TaskVolumes(
        task=f"kakite-work-{engine.compute_digest(f'{engine.get_user_label()} {folder}')}",
        containers=containers,
    )


def is_mark(volume: str) -> bool:
    """Tell whether a volume is the one that says that a task's others are whole."""
    return volume.endswith(f"-{_MARK}")


def get_task_prefix(volume: str) -> str:
    """Return what the names of all volumes of the same task begin with."""
    return volume.rpartition("-")[0]


def has_work(of: TaskVolumes) -> bool:
    """Tell whether the engine has the task's work; a copy that was cut short is removed. Blocks.

    Raises:
        SandboxError: the engine does not answer, or another program uses such a copy.
    """
    named = ("--filter", f"name={of.task}-", "--format", "{{.Name}}")
    there = set(of.containers.call("volume", "ls", *named, timeout=_CALL).split())
    if there >= {of.project, of.home, of.mark}:
        return True
    for name in sorted(there):
        _remove(of.containers, name)
    return False


async def upload(sandbox: Sandbox, places: Mapping[str, Path], to: TaskVolumes) -> None:
    """Copy folders of the host to the paths inside that they are for, and mark them as whole.

    Raises:
        SandboxError: they cannot be copied. What arrived is not taken for work.
    """
    for target, source in places.items():
        await copy_in(sandbox, source, target)
    await sandbox.exec(("sync",), timeout=_LONG)  # the mark must not be there before what it is for
    await asyncio.to_thread(_set_mark, to)


async def download(sandbox: Sandbox, places: Mapping[str, Path], of: TaskVolumes, size: int) -> None:
    """Copy the paths inside to the folders of the host that they are for, which are replaced by that.

    None is replaced before all are there. Until then the engine keeps the work, for the next time.

    Raises:
        SandboxError: they cannot be copied, or hold more than ``size`` bytes.
    """
    await asyncio.to_thread(repair_folders, places.values())
    for source, target in places.items():
        await sandbox.exec(("sh", "-c", _READABLE, "sh", source), timeout=_LONG)
        await copy_out(sandbox, source, _get_new_path(target), size=size, links="all")
    await asyncio.to_thread(_replace, list(places.values()))
    await asyncio.to_thread(_remove, of.containers, of.mark)


def delete_volumes(of: TaskVolumes) -> None:
    """Remove the volumes that held the work, where no container uses them any more. Blocks.

    Raises:
        SandboxError: the engine does not answer, or something uses them.
    """
    for name in (of.project, of.home):
        _remove(of.containers, name)


def repair_folders(folders: Iterable[Path]) -> None:
    """Remove what is left of a copy to the host that was cut short. Blocks."""
    for folder in folders:
        if _get_old_path(folder).exists() and not folder.exists():
            _get_old_path(folder).rename(folder)
        remove(_get_new_path(folder))
        remove(_get_old_path(folder))


def _get_new_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.new")


def _get_old_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.old")


def _replace(folders: list[Path]) -> None:
    os.sync()  # the engine's copy goes next
    for folder in folders:
        parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not openat2.exchange(parent, folder.name, _get_new_path(folder).name):
                folder.rename(_get_old_path(folder))
                _get_new_path(folder).rename(folder)
            os.fsync(parent)
        finally:
            os.close(parent)
    repair_folders(folders)


def _set_mark(of: TaskVolumes) -> None:
    labels = ("--label", f"{engine.WORK}=1", "--label", f"{engine.OWNER}={engine.get_user_label()}")
    of.containers.call("volume", "create", *labels, of.mark, timeout=_CALL)


def _remove(containers: ContainerEngine, name: str) -> None:
    try:
        containers.call("volume", "rm", name, timeout=_CALL)
    except SandboxError as error:
        raise SandboxError(
            f"Kakite cannot remove a copy of this task on the engine: {error.message}",
            hint="another program may work on the task: wait for its end, or see `kakite sandbox list`",
        ) from error
