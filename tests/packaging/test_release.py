"""`make release`: built from what is committed, and only where everything says the same version."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from scripts.packages import NOBODY

from kakite import __version__
from tests.packaging.building import built, copied

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of ours whose changelog begins with the version, and that somebody publishes."""
    folder = copied(tmp_path / "checkout")
    readme = folder / "README.md"
    readme.write_text(readme.read_text("utf-8").replace(f"io.github.{NOBODY}/", "io.github.A-Team/"), "utf-8")
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
    dist = checkout / "dist"
    files = {str(file.relative_to(dist)): file for file in dist.rglob("*") if file.is_file()}
    assert told == {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
    others = built(checkout, tmp_path / "others", "wheel", "sdist")
    others += built(checkout / "testing", tmp_path / "fakes", "wheel")
    assert [files[file.name].read_bytes() for file in others] == [file.read_bytes() for file in others]
    (bundle,) = (name for name in files if name.endswith(".mcpb"))
    server = json.loads(files["server.json"].read_text(encoding="utf-8"))
    assert told[bundle] in {each.get("fileSha256") for each in server["packages"]}
    assert {server["name"]} == names_in(others[0])
    assert f"/a-team/kakite-serve:{__version__}" in files["docker-mcp/kakite/server.yaml"].read_text("utf-8")


def names_in(wheel: Path) -> set[str]:
    """Return the names in the MCP registry that the page of a package on PyPI proves."""
    with zipfile.ZipFile(wheel) as archive:
        page = archive.read(f"kakite-{__version__}.dist-info/METADATA").decode()
    return set(re.findall(r"mcp-name: (\S+)", page))


def test_two_releases_of_a_commit_are_the_same_bytes(checkout: Path) -> None:
    first, second = release(checkout), release(checkout)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout == second.stdout


def test_a_wheel_is_of_the_one_build_system_that_is_asked_for_and_carries_the_notices(checkout: Path) -> None:
    (wheel,) = built(checkout, checkout / "dist", "wheel")
    with zipfile.ZipFile(wheel) as archive:
        folder = f"kakite-{__version__}.dist-info"
        made_by = re.findall(r"^Generator: hatchling (\S+)$", archive.read(f"{folder}/WHEEL").decode(), re.M)
        notices = archive.read(f"{folder}/licenses/src/kakite/collab/page/licences.txt")
        assert archive.read("kakite/collab/page/licences.txt") == notices
    assert re.findall(r'"hatchling==(\S+)"', (checkout / "pyproject.toml").read_text("utf-8")) == made_by * 2
    assert b"yjs " in notices


def test_no_release_without_the_account_that_publishes(checkout: Path) -> None:
    readme = checkout / "README.md"
    readme.write_text(readme.read_text("utf-8").replace("io.github.A-Team/", f"io.github.{NOBODY}/"), "utf-8")
    commit(checkout)
    refused(checkout, "mcp-name")


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
