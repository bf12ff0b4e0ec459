"""Folders in which a test plants files, and a program that swaps folders and links in one of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_SWAPPING = """
import ctypes, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
def swap(one, other):
    libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
print("ready", flush=True)
while True:
    swap("d", "to-outside")         # a folder and a link to one outside
    swap("p/q", "to-sub")           # the same in the middle of a path
    swap("f", "to-file")            # a file and a link to one outside
    swap("d", "p")                  # two folders, so that `..` leads elsewhere
    swap("new/x", "to-file")        # `d/x` might lead outside by itself
    swap("d", "to-outside")
    swap("d", "p")
"""


@contextmanager
def swapping(root: Path) -> Generator[None]:
    """Let another process swap what lies in ``root``, as long as the block lasts."""
    with subprocess.Popen([sys.executable, "-c", _SWAPPING, str(root)], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            swapper.kill()


def plant(folder: Path, files: dict[str, bytes]) -> None:
    """Write files, with their folders."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
