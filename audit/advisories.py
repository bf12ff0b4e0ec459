"""Compare what is locked, and what is in the page, with known weaknesses, without a network.

``advisories.py EXPORT...``: OSV's exports of PyPI and of npm, fetched wherever there is a network from
https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip and the same with ``npm``. Exits with 1 if a
version is weak, with 2 if there is no export of one of the two.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from licences import LOCK, NOTICES, bundled, locked
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

LOOKED_AT: Mapping[str, str] = {}
"""Of weaknesses that do not reach us, why: by their ids."""


def weaknesses(exports: list[Path], used: Mapping[str, Mapping[str, str]]) -> Generator[str]:
    """Yield a line for each weakness of a version that is used: `used` has them by ecosystem and name.

    Raises:
        LookupError: one of the ecosystems is in none of the exports; said after all lines.
    """
    missing = set(used)
    for record in _records(exports):
        for affected in record.get("affected", []):
            package = affected.get("package", {})
            ecosystem = package.get("ecosystem", "")
            missing.discard(ecosystem)
            if record["id"] in LOOKED_AT or "withdrawn" in record:
                continue
            name = canonicalize_name(package["name"]) if ecosystem == "PyPI" else package.get("name", "")
            version = used.get(ecosystem, {}).get(name)
            if version and hit(affected, version):
                yield f"{name} {version}: {record['id']} {record.get('summary', '')}".rstrip()
    if missing:
        raise LookupError(f"no export of {', '.join(sorted(missing))} among these files")


def _records(exports: list[Path]) -> Generator[dict[str, Any]]:
    for export in exports:
        with zipfile.ZipFile(export) as archive:
            for name in archive.namelist():
                yield json.loads(archive.read(name))


def hit(affected: Mapping[str, Any], version: str) -> bool:
    """Tell whether a version is among those that are affected: named, or in one of the ranges."""
    return version in affected.get("versions", []) or any(
        _within(each["events"], version, ORDERS[each["type"]])
        for each in affected.get("ranges", [])
        if each.get("type") in ORDERS
    )


def _within(events: list[Mapping[str, str]], version: str, order: Order) -> bool:
    """Go through a range's events in the order of their versions; the last that counts decides."""
    inside = False
    every = [(order(at), kind == "introduced", kind, at) for event in events for kind, at in event.items()]
    for place, _, kind, at in sorted(every, key=lambda each: each[:2]):
        reached = at == "0" or order(version) >= place
        if kind == "introduced" and reached:
            inside = True
        elif (kind == "fixed" and reached) or (kind == "last_affected" and order(version) > place):
            inside = False
    return inside


def _python(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:  # none of this ecosystem: before all others
        return Version("0.dev0")


def _semantic(text: str) -> tuple[Any, ...]:
    """Return what sorts versions as semver.org does; parts that are no number sort after those that are."""
    numbers, _, before = text.partition("+")[0].partition("-")
    parts = [_part(each) for each in before.split(".")] if before else []
    return [_part(each) for each in numbers.split(".")], not before, parts


def _part(text: str) -> tuple[bool, int, str]:
    return (False, int(text), "") if text.isdecimal() else (True, 0, text)


Order = Callable[[str], Any]
ORDERS: Mapping[str, Order] = {"ECOSYSTEM": _python, "SEMVER": _semantic}
"""By which order a range is to be read."""


def main(words: list[str] | None = None) -> int:
    """Print the weaknesses; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exports", nargs="+", type=Path)
    parser.add_argument("--lock", type=Path, default=LOCK)
    parser.add_argument("--notices", type=Path, default=NOTICES)
    given = parser.parse_args(words)
    used = {
        "PyPI": {str(canonicalize_name(name)): version for name, version in locked(given.lock)},
        "npm": {name: version for name, version, _ in bundled(given.notices)},
    }
    found: list[str] = []
    try:
        for line in weaknesses(given.exports, used):
            found.append(line)
            sys.stdout.write(f"{line}\n")
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{len(found)} known weaknesses\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
