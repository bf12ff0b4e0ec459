"""Write the licences of all packages that the lock file names: ``licences.py > licences.md``.

They are read from what is installed. Exits with 1, and says why, if there is one that Kakite may not be given
on with and that nobody looked at.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
REFUSED = re.compile(
    r"GPL|GNU|SSPL|BUSL|Business Source|Commons Clause|Proprietary|Other/|unknown", re.IGNORECASE
)
LOOKED_AT = {
    "psycopg": "LGPL: dbos imports it; used as it is, never changed",
    "psycopg-binary": "LGPL: as psycopg",
    "pygithub": "LGPL: only with the extra `forges`; used as it is, never changed",
    "python-gitlab": "LGPL: only with the extra `forges`; used as it is, never changed",
}
"""Why one that is refused otherwise is all right."""
ELSEWHERE = {
    "async-timeout": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
}
"""Of packages for other systems and versions of Python, which need not be here; from their wheels."""


def page() -> str:
    """Return the list as Markdown."""
    lines = [
        "# Licences of what Kakite is built, tested and run with",
        "",
        "Written by `make licences` from what the packages say of themselves; a test compares.",
        "",
        "| package | version | licence | |",
        "| --- | --- | --- | --- |",
    ]
    for name, version in locked():
        lines.append(f"| {name} | {version} | {licence(name)} | {LOOKED_AT.get(name, '')} |")
    return "\n".join(lines) + "\n"


def locked(lock: Path = LOCK) -> list[tuple[str, str]]:
    """Return name and version of every package in the lock file."""
    return re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)


def licence(name: str) -> str:
    """Return what a package says of its licence, shortly; ``unknown`` if it says nothing."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    try:
        about = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
    told = [text for text in about.get_all("Classifier") or [] if text.startswith("License ::")]
    classes = [text.rpartition(" :: ")[2] for text in told]
    said = (about.get("License-Expression"), "; ".join(classes), about.get("License"))
    return next((text.strip().splitlines()[0][:60] for text in said if text and text.strip()), "unknown")


def refused() -> list[str]:
    """Return the packages whose licence somebody has to look at first, each with it."""
    found = ((name, licence(name)) for name, _ in locked() if name not in LOOKED_AT)
    return [f"{name}: {said}" for name, said in found if REFUSED.search(said)]


if __name__ == "__main__":
    sys.stdout.write(page())
    for line in refused():
        sys.stderr.write(f"{line}\n")
    sys.exit(1 if refused() else 0)
