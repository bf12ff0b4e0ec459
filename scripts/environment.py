"""Tell whether what is installed is what is locked, and enough: ``python -m scripts.environment``.

pip installs `requirements.lock` without resolving anything. So this looks afterwards for what pip would have
looked for: that each package has what it asks for, in a version that it takes, with the extras that others
ask of it. Exits with 1, and says why, where something does not fit together.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
OURS = ("kakite[all]", "kakite-testing")
HERE: Mapping[str, Any] = default_environment()


def entries() -> Generator[tuple[Requirement, str]]:
    """Yield what the lock file names, each with the lines of its hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for first, hashes in re.findall(r"^(\S.*?) \\\n((?: {4}.*\n?)+)", text, re.MULTILINE):
        yield Requirement(first), hashes.rstrip()


def wanted() -> list[Requirement]:
    """Return what a checkout is for: both packages with all extras, and the tools to work on them."""
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [*map(Requirement, OURS), *map(Requirement, project["dependency-groups"]["dev"])]


def follow(
    roots: Iterable[Requirement], environment: Mapping[str, Any] = HERE
) -> Generator[tuple[str, Requirement]]:
    """Yield these requirements and all that they lead to, through extras too, each with who asks for it."""
    rest = [("the project", root) for root in roots]
    seen: set[str] = set()
    while rest:
        who, one = rest.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        yield who, one
        extras = one.extras or {""}
        rest.extend(
            (one.name, further)
            for further in map(Requirement, _requires(one.name))
            if any(holds(further, environment, extra) for extra in extras)
        )


def holds(requirement: Requirement, environment: Mapping[str, Any] = HERE, extra: str = "") -> bool:
    """Tell whether a requirement counts on this machine, for this extra."""
    return requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra})


def problems() -> Generator[str]:
    """Yield what is not as the lock file says, and what is asked for and not there."""
    locked = [requirement for requirement, _ in entries() if holds(requirement)]
    for requirement in locked:
        version = _version(requirement.name)
        if not (version and requirement.specifier.contains(version, prereleases=True)):
            yield f"requirements.lock has {_said(requirement)}, and {version or 'none'} is installed"
    names = {canonicalize_name(requirement.name) for requirement in locked}
    for who, asked in follow([*wanted(), *locked]):
        version = _version(asked.name)
        if canonicalize_name(asked.name) not in names | {Requirement(ours).name for ours in OURS}:
            yield f"{who} asks for {_said(asked)}, which requirements.lock does not have"
        elif version and not asked.specifier.contains(version, prereleases=True):
            yield f"{who} asks for {_said(asked)}, and {version} is installed"


def _requires(name: str) -> list[str]:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # what another Python or system needs
        return []


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _said(requirement: Requirement) -> str:
    return str(requirement).partition(";")[0].strip()


def main() -> int:
    """Look, tell; return the exit code."""
    if found := sorted(set(problems())):
        hint = "hint: after a change of pyproject.toml, `make lock`; else `make clean install`"
        sys.stderr.write("\n".join(["the environment is not what is locked:", *found, hint, ""]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
