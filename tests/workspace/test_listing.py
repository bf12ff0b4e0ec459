"""Listings of large trees: the upper levels first, and what is missing is told."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import examples

from kakite.workspace import Workspace

_NAMES = st.sampled_from(["a", "b", "c", "B", "a-"])
_PATHS = st.lists(st.lists(_NAMES, min_size=1, max_size=4), max_size=12)


@given(_PATHS, st.integers(0, 20), st.integers(1, 5), st.none() | st.integers(0, 60))
@settings(max_examples=examples(200), deadline=None)
def test_what_is_near_comes_first_and_all_that_is_missing_is_counted(
    paths: list[list[str]], limit: int, depth: int, size: int | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        for parts in paths:
            Path(name, *parts).mkdir(parents=True, exist_ok=True)
        workspace = Workspace([name])
        whole = [entry.path for entry in workspace.walk(".", depth=depth, limit=10_000)]
        listing = workspace.walk(".", depth=depth, limit=limit, size=sys.maxsize if size is None else size)
        workspace.close()
    shown = [entry.path for entry in listing]
    assert shown == [path for path in whole if path in set(shown)]
    assert len(shown) <= limit
    assert size is None or sum(map(len, shown)) <= size
    missing = [path for path in whole if path not in set(shown)]
    if missing and shown:
        assert max(path.count("/") for path in shown) <= min(path.count("/") for path in missing)
    told = {each.path: each.count for each in listing.unlisted}
    near = [path for path in missing if path.rpartition("/")[0] in {"", *shown}]
    counted = {f"{folder}/" if folder else "" for folder in (path.rpartition("/")[0] for path in near)}
    assert set(told) == counted
    assert sum(told.values()) == len(near)


def test_all_top_folders_of_a_large_tree_are_listed(tmp_path: Path) -> None:
    for folder in range(100):
        for number in range(30):
            file = tmp_path / f"pkg{folder:02}" / f"{number}"
            file.parent.mkdir(exist_ok=True)
            file.touch()
    workspace = Workspace([tmp_path])
    listing = workspace.walk(".", depth=50, limit=1000, ignored=False)
    workspace.close()
    tops = [entry.path for entry in listing if "/" not in entry.path]
    assert len(tops) == 100
    assert len(listing.entries) == 1000
    assert sum(each.count for each in listing.unlisted) == 2100
    assert listing.unlisted[-1].path == "pkg99/"


@pytest.mark.parametrize("depth", [1, 3])
def test_a_folder_that_is_gone_meanwhile_is_no_trouble(tmp_path: Path, depth: int) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b").chmod(0)
    workspace = Workspace([tmp_path])
    assert [entry.path for entry in workspace.walk(".", depth=depth, limit=9)] == ["a", "a/b"][:depth]
    workspace.close()
