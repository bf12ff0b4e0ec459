"""Compare the lock file with known weaknesses, without a network: ``advisories.py all.zip [LOCK]``.

``all.zip`` is OSV's export of the ecosystem PyPI, fetched wherever there is a network:
https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip. Exits with 1 if a locked version is weak.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from licences import LOCK, locked
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

LOOKED_AT: Mapping[str, str] = {}
"""Of weaknesses that do not reach us, why: by their ids."""


def found(export: Path, lock: Path = LOCK) -> Generator[str]:
    """Yield a line for each weakness of a locked version."""
    versions = {str(canonicalize_name(name)): version for name, version in locked(lock)}
    with zipfile.ZipFile(export) as archive:
        for name in archive.namelist():
            record = json.loads(archive.read(name))
            if "withdrawn" in record or record["id"] in LOOKED_AT:
                continue
            for affected in record.get("affected", []):
                package = str(canonicalize_name(affected.get("package", {}).get("name", "")))
                if package in versions and hit(affected, versions[package]):
                    summary = record.get("summary", "")
                    yield f"{package} {versions[package]}: {record['id']} {summary}".rstrip()


def hit(affected: Mapping[str, Any], version: str) -> bool:
    """Tell whether a version is among those that are affected: named, or in one of the ranges."""
    ranges = [each["events"] for each in affected.get("ranges", []) if each.get("type") == "ECOSYSTEM"]
    return version in affected.get("versions", []) or any(_within(events, version) for events in ranges)


def _within(events: list[Mapping[str, str]], version: str) -> bool:
    """Go through a range's events in the order of their versions; the last that counts decides."""
    inside = False
    for kind, at in sorted(((kind, at) for event in events for kind, at in event.items()), key=_order):
        reached = at == "0" or Version(version) >= _version(at)
        if kind == "introduced" and reached:
            inside = True
        elif (kind == "fixed" and reached) or (kind == "last_affected" and Version(version) > _version(at)):
            inside = False
    return inside


def _order(event: tuple[str, str]) -> tuple[Version, bool]:
    return _version(event[1]), event[0] == "introduced"


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:  # none of this ecosystem: before all others
        return Version("0.dev0")


if __name__ == "__main__":
    if len(sys.argv) not in {2, 3}:
        sys.exit(__doc__)
    lines = list(found(Path(sys.argv[1]), *map(Path, sys.argv[2:])))
    sys.stdout.write("\n".join([*lines, f"{len(lines)} known weaknesses\n"]))
    sys.exit(1 if lines else 0)
