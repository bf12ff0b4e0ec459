"""Write the licences of all that the lock file names, and of the page: ``licences.py > licences.md``.

Those of Python's packages are read from what is installed, those of JavaScript's from the notices that come
with the page of ``kakite collab``, which its build writes from what is in it. Exits with 1, and says why, if
there is a licence that is not among the allowed ones and that nobody looked at.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
NOTICES = ROOT / "src/kakite/collab/page/licences.txt"
ALLOWED = frozenset(
    {
        *("0BSD", "BSD-2-Clause", "BSD-3-Clause", "BSD License", "3-Clause BSD License"),
        *("ISC", "ISC License (ISCL)", "MIT", "MIT License", "MIT-0"),
        *("Apache-2.0", "Apache Software License"),
        *("MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)"),
        *("CNRI-Python", "PSF-2.0"),
    }
)
"""What Kakite may be given on with. All that is not named here is refused."""
NO_LICENCES = frozenset({"DFSG approved", "OSI Approved"})
"""Classifiers that name none."""
LOOKED_AT = {
    "psycopg": "LGPL: dbos imports it; used as it is, never changed",
    "psycopg-binary": "LGPL: as psycopg",
    "pyte": "LGPL: only in the tests; used as it is, never changed",
    "pygithub": "LGPL: only with the extra `forges`; used as it is, never changed",
    "python-gitlab": "LGPL: only with the extra `forges`; used as it is, never changed",
}
"""Why one that is refused otherwise is all right."""
ELSEWHERE = {
    "agent-client-protocol": "Apache-2.0",  # says so by the file alone that lies beside its metadata
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
    lines += [
        "",
        "## JavaScript in the page of `kakite collab`",
        "",
        "The texts of these licences come with the page: `kakite/collab/page/licences.txt` in the wheel.",
        "",
        "| package | version | licence |",
        "| --- | --- | --- |",
        *(f"| {name} | {version} | {said} |" for name, version, said in bundled()),
    ]
    return "\n".join(lines) + "\n"


def locked(lock: Path = LOCK) -> list[tuple[str, str]]:
    """Return name and version of every package in the lock file."""
    return re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)


def bundled(notices: Path = NOTICES) -> list[tuple[str, str, str]]:
    """Return name, version and licence of every package of which something is in the page."""
    rule = f"\n{'-' * 78}\n\n"
    heads = [part.partition("\n")[0] for part in notices.read_text(encoding="utf-8").split(rule)[1:]]
    found = [re.fullmatch(r"(\S+) (\S+) \((.+)\)", head) for head in heads]
    return [(one[1], one[2], one[3]) for one in found if one]


def licence(name: str) -> str:
    """Return what a package says of its licence, shortly; ``unknown`` if it says nothing."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    try:
        about = cast("Any", importlib.metadata.metadata(name))  # a message of headers
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
    classifiers = cast("list[str]", about.get_all("Classifier") or [])
    told = [text for text in classifiers if text.startswith("License ::")]
    classes = [name for text in told if (name := text.rpartition(" :: ")[2]) not in NO_LICENCES]
    said = cast(
        "tuple[str | None, ...]", (about.get("License-Expression"), "; ".join(classes), about.get("License"))
    )
    return next((text.strip().splitlines()[0][:60] for text in said if text and text.strip()), "unknown")


def allowed(said: str) -> bool:
    """Tell whether a package names allowed licences alone; of several to choose from one will do."""
    every = (part.strip() for part in re.split(r" AND |;", said))
    return all(not ALLOWED.isdisjoint(part.split(" OR ")) for part in every)


def refused() -> list[str]:
    """Return the packages whose licence somebody has to look at first, each with it."""
    found = [(name, licence(name)) for name, _ in locked() if name not in LOOKED_AT]
    found += [(name, said) for name, _, said in bundled()]
    return [f"{name}: {said}" for name, said in found if not allowed(said)]


if __name__ == "__main__":
    sys.stdout.write(page())
    for line in refused():
        sys.stderr.write(f"{line}\n")
    sys.exit(1 if refused() else 0)
