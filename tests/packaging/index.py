"""A package index of the day after: all that is locked, a newer version and a second file of each.

The packages have the names, versions and requirements of the real ones, as they are installed here, and
almost no files: nothing is fetched, and all of them are installed in seconds.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import zipfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.environment import entries, follow

WORKING = ("hatchling", "editables", "packaging")
"""What sets the checkout up: with all their files, and those of what they need."""


def fill(folder: Path) -> str:
    """Put the index into a folder; return a lock file of the real one's versions, with its hashes."""
    real = {canonicalize_name(one.name) for _, one in follow(map(Requirement, WORKING))}
    lock: list[str] = []
    for one, hashes in entries():
        name = canonicalize_name(one.name)
        known = hashes
        marker = f" ; {one.marker}" if one.marker else ""
        if list(importlib.metadata.distributions(name=one.name)):
            version = str(one.specifier).removeprefix("==")
            wheel = pack(folder / name, one.name, version, whole=name in real)
            pack(folder / name, one.name, f"{version}.post999")
            pack(folder / name, one.name, version, again="-1")
            digests = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in wheel.parent.glob("*")}
            links = [f'<a href="{file.name}#sha256={digests[file]}">{file.name}</a>' for file in digests]
            (folder / name / "index.html").write_text("\n".join(links), encoding="utf-8")
            known = f"    --hash=sha256:{digests[wheel]}"
        lock.append(f"{one.name}{one.specifier}{marker} \\\n{known}\n")
    return "".join(lock)


def pack(folder: Path, name: str, version: str, *, whole: bool = False, again: str = "") -> Path:
    """Make a wheel of what is installed: with its files, or of what it says of itself alone.

    `again` is the number of another build, other bytes that pip prefers where it may.
    """
    installed = importlib.metadata.distribution(name)
    stem = f"{re.sub(r'[-_.]+', '_', name)}-{version}"
    said = (installed.read_text("METADATA") or "").partition("\n\n")[0]
    files = {
        f"{stem}.dist-info/METADATA": re.sub(r"(?m)^Version: .*$", f"Version: {version}", said).encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/build": again.encode(),
    }
    if whole:
        about = installed.read_text("entry_points.txt") or ""
        files[f"{stem}.dist-info/entry_points.txt"] = about.encode()
        files |= {
            str(each): each.read_binary()
            for each in installed.files or ()
            if ".." not in each.parts and "dist-info" not in each.parts[0] and each.suffix != ".pyc"
        }
    record = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{stem}.dist-info/RECORD"] = "\n".join([*record, f"{stem}.dist-info/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}{again}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
