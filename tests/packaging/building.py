"""The project built as for a release, from a copy of the checkout, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines import ROOT

WITHIN = 300  # s
UV = Path(sys.executable).parent / "uv"
UVX = UV.with_name("uvx")
FRESH = pytest.mark.xdist_group("engines")
"""What installs wheels of the folder that one process fills."""


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a program to its end; return what it printed."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def tracked() -> list[str]:
    """Return what the repository has, as git lists it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    if not names:
        pytest.skip("this is no checkout of git")
    return [name for name in names.decode().strip("\0").split("\0") if (ROOT / name).is_file()]


def copied(folder: Path, *, umask: int = 0o022, epoch: int | None = None) -> Path:
    """Copy what the repository has into a new folder, with other rights and times if asked for."""
    for name in tracked():
        target = folder / name
        for parent in reversed(target.relative_to(folder).parents):
            (folder / parent).mkdir(exist_ok=True, parents=True, mode=0o777 & ~umask)
        target.write_bytes((ROOT / name).read_bytes())
        executable = (ROOT / name).stat().st_mode & 0o100
        target.chmod((0o777 if executable else 0o666) & ~umask)
        if epoch is not None:
            os.utime(target, (epoch, epoch))
    return folder


def built(source: Path, into: Path, *kinds: str, **env: str) -> list[Path]:
    """Build with the build system that is installed here; return the files in the order of `kinds`."""
    into.mkdir(exist_ok=True, parents=True)
    chosen = [word for kind in kinds for word in ("--target", kind)]
    run(sys.executable, "-m", "hatchling", "build", *chosen, "--directory", into, cwd=source, **env)
    endings = {"wheel": "*.whl", "sdist": "*.tar.gz"}
    return [next(into.glob(endings[kind])) for kind in kinds]


def unpacked(sdist: Path, into: Path) -> Path:
    """Unpack a source distribution; return its one folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    (folder,) = into.iterdir()
    return folder


@contextmanager
def wheelhouse(place: Path) -> Generator[Path]:
    """Yield a folder with our wheel and all that it needs, as the images get it."""
    if sys.version_info[:2] != (3, 11) or sys.platform != "linux":
        pytest.skip("the wheels are those of Debian 12's Python 3.11")
    folder = place / "wheels"
    run(sys.executable, "-m", "scripts.wheels", folder, cwd=ROOT)
    yield folder
    shutil.rmtree(folder)
