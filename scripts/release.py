"""Build a release into a folder, and print its hashes: ``python -m scripts.release [FOLDER]``.

``scripts.packages`` makes it from what git has at HEAD, so that nothing else of the folder gets in. Nothing
is uploaded, and no tag is made. Exits with 1, and says why, where something does not fit together.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator
from io import BytesIO
from pathlib import Path

from scripts.packages import NOBODY, find_commit, load_facts

ROOT = Path(__file__).parents[1]
STAMPED = {
    "docker/kakite/compose.yaml": re.compile(r"image: kakite/\w+:(\S+)"),
    "man/kakite.1": re.compile(r'"Kakite (\d[^"]*)"'),
    "testing/pyproject.toml": re.compile(r'(?:^version = "|"kakite==)([^"]+)"', re.MULTILINE),
}
"""Files with the version in them, and where."""


def problems(release: str) -> Generator[str]:
    """Yield what keeps HEAD from being this release."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## (.+)$", changelog, re.MULTILINE)[0]
    if not re.fullmatch(rf"{re.escape(release)} - \d{{4}}-\d\d-\d\d", newest):
        yield f"CHANGELOG.md begins with `## {newest}`, and not with `## {release} - YEAR-MONTH-DAY`"
    for name, stamp in STAMPED.items():
        found = set(stamp.findall((ROOT / name).read_text(encoding="utf-8")))
        if found != {release}:
            yield f"{name} names {', '.join(sorted(found)) or 'no version'}, and not {release}"
    if load_facts().owner == NOBODY:
        yield f"the line `mcp-name` of README.md still names {NOBODY}: put the account there that publishes"
    if changed := _git("status", "--porcelain").decode().strip():
        yield f"the checkout has changes that are not committed:\n{changed}"
    tags = _git("tag", "--list", f"v{release}").decode().split()
    if tags and _git("rev-parse", f"v{release}^{{commit}}") != _git("rev-parse", "HEAD"):
        yield f"the tag v{release} is another commit"


def build(into: Path) -> str:
    """Make all that is published from HEAD; return the hashes, a file a line."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        with tarfile.open(fileobj=BytesIO(_git("archive", "HEAD"))) as archive:
            archive.extractall(source, filter="data")
        return subprocess.run(
            [sys.executable, "-m", "scripts.packages", str(into.absolute()), find_commit()],
            cwd=source,
            env={**os.environ, "PYTHONPATH": str(source / "src")},
            check=True,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ).stdout


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def main(folder: Path) -> int:
    """Check, build, print; return the exit code."""
    release = load_facts().version
    if found := list(problems(release)):
        sys.stderr.write("\n".join([f"this is not the release {release}:", *found, ""]))
        return 1
    sys.stdout.write(build(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:2] or ["dist"])))
