"""`make release`: built from what is committed, and only where everything says the same version."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kakite import __version__
from tests.packaging.building import built, copied

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of ours whose changelog begins with the version."""
    folder = copied(tmp_path / "checkout")
    changelog = folder / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(
        re.sub(r"^## .*", f"## {__version__} - 2026-11-23", text, count=1, flags=re.MULTILINE), "utf-8"
    )
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    return folder


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, timeout=60)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "all")


def release(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.release", "dist"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", timeout=300, check=False
    )


def test_a_release_is_what_everybody_builds_and_its_hashes_are_printed(
    checkout: Path, tmp_path: Path
) -> None:
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    told = {name: digest for digest, name in (line.split("  ") for line in done.stdout.splitlines())}
    files = {file.name: file for file in (checkout / "dist").iterdir()}
    assert told == {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
    others = built(checkout, tmp_path / "others", "wheel", "sdist")
    others += built(checkout / "testing", tmp_path / "fakes", "wheel")
    assert {file.name: file.read_bytes() for file in others} == {
        name: file.read_bytes() for name, file in files.items()
    }


def test_a_wheel_is_of_the_one_build_system_that_is_asked_for_and_carries_the_notices(checkout: Path) -> None:
    (wheel,) = built(checkout, checkout / "dist", "wheel")
    with zipfile.ZipFile(wheel) as archive:
        folder = f"kakite-{__version__}.dist-info"
        made_by = re.findall(r"^Generator: hatchling (\S+)$", archive.read(f"{folder}/WHEEL").decode(), re.M)
        notices = archive.read(f"{folder}/licenses/src/kakite/collab/page/licences.txt")
        assert archive.read("kakite/collab/page/licences.txt") == notices
    assert re.findall(r'"hatchling==(\S+)"', (checkout / "pyproject.toml").read_text("utf-8")) == made_by * 2
    assert b"yjs " in notices


def test_no_release_of_what_is_still_called_unreleased(checkout: Path) -> None:
    changelog = checkout / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(text.replace("## ", "## Unreleased\n\n## ", 1), encoding="utf-8")
    commit(checkout)
    refused(checkout, "CHANGELOG.md")


def test_no_release_where_files_name_another_version(checkout: Path) -> None:
    init = checkout / "src/kakite/__init__.py"
    init.write_text(init.read_text("utf-8").replace(__version__, "9.9.9"), encoding="utf-8")
    commit(checkout)
    refused(checkout, "CHANGELOG.md", "compose.yaml", "kakite.1", "testing/pyproject.toml")


def test_no_release_of_what_is_not_committed_or_tagged_elsewhere(checkout: Path) -> None:
    (checkout / "stray").write_text("", encoding="utf-8")
    refused(checkout, "stray")
    git(checkout, "tag", f"v{__version__}")
    commit(checkout)
    refused(checkout, f"v{__version__}")


def refused(checkout: Path, *reasons: str) -> None:
    done = release(checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert all(reason in done.stderr for reason in reasons), done.stderr
    assert not (checkout / "dist").exists()
