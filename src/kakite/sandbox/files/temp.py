"""Makes temporary folders that also go away when their process is killed: the next one removes them.

A lock marks the folders in use. It is the kernel's, so that it ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def temporary_folder(purpose: str) -> Generator[Path]:
    """Yield a new folder ``kakite-PURPOSE-…`` that only this user may look into; it is gone after.

    Those for the same purpose that nobody holds any more are removed first.
    """
    prefix = f"kakite-{purpose}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_abandoned(left)
    folder, lock = _create_locked(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _create_locked(prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):  # somebody took it for abandoned before we held it
            lock = _open_folder(folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    lock = _open_folder(folder)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
