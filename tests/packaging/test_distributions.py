"""What is released: the same bytes whoever builds it, and nothing left out."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.building import built, copied, tracked, unpacked

pytestmark = pytest.mark.slow
LEFT_OUT = re.compile(r"\.ci/|\.github/|tests/data/[^/]*\.tar\.gz$")
"""Of the repository, what is of no use without it, or too large."""


def hashed(files: list[Path]) -> list[str]:
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("build")
    wheel, sdist = built(copied(place / "source"), place / "dist", "wheel", "sdist")
    return wheel, sdist


@pytest.mark.parametrize("stamp", [{}, {"SOURCE_DATE_EPOCH": "1700000000"}], ids=["plain", "with_an_epoch"])
def test_two_builds_from_other_folders_at_other_times_are_the_same_bytes(
    tmp_path: Path, stamp: dict[str, str]
) -> None:
    one = copied(tmp_path / "one", umask=0o022, epoch=1_500_000_000)
    other = copied(tmp_path / "a folder" / "elsewhere", umask=0o077, epoch=1_700_000_000)
    first = built(one, tmp_path / "first", "wheel", "sdist", **stamp)
    before = os.umask(0o077)
    try:
        second = built(
            other,
            tmp_path / "second",
            "wheel",
            "sdist",
            **stamp,
            TZ="Asia/Tokyo",
            LC_ALL="C",
            PYTHONHASHSEED="7",
        )
    finally:
        os.umask(before)
    assert hashed(first) == hashed(second)


def test_the_wheel_from_the_source_distribution_is_the_wheel_from_the_tree(
    distributions: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, sdist = distributions
    assert hashed(built(unpacked(sdist, tmp_path / "source"), tmp_path / "dist", "wheel")) == hashed([wheel])


def test_the_source_distribution_has_all_that_the_repository_has(distributions: tuple[Path, Path]) -> None:
    _, sdist = distributions
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in tracked() if name not in held and not LEFT_OUT.match(name)]
    assert missing == []


def test_the_wheel_has_every_file_of_the_package_the_recipes_and_the_manual_page(
    distributions: tuple[Path, Path],
) -> None:
    wheel, _ = distributions
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        page = archive.read(next(name for name in held if name.endswith("share/man/man1/kakite.1")))
    package = {
        name.removeprefix("src/")
        for name in tracked()
        if name.startswith("src/kakite/") and not name.endswith("/AGENTS.md")
    }
    recipes = {
        name.replace("docker/sandbox/", "kakite/sandbox/docker/")
        for name in tracked()
        if name.startswith("docker/sandbox/")
    }
    assert package | recipes <= held
    assert {"kakite/collab/page/app.js", "kakite/collab/page/licences.txt", "kakite/py.typed"} <= held
    assert page.startswith(b'.\\" Written by man/generate.py')
    others = {name for name in held - package - recipes if not name.startswith("kakite-")}
    assert others == set()


def test_the_wheel_of_the_fakes_has_every_file_of_its_package_and_the_licence(tmp_path: Path) -> None:
    (wheel,) = built(copied(tmp_path / "source") / "testing", tmp_path / "dist", "wheel")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith("kakite_testing-")}
        assert archive.read("kakite_testing/LICENSE").lstrip().startswith(b"Apache License")
    start = "testing/src/"
    package = {name.removeprefix(start) for name in tracked() if name.startswith(start)}
    assert held == package | {"kakite_testing/LICENSE"}
