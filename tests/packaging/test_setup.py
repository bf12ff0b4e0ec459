"""`make install` in a fresh clone, from an index that has newer versions of everything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from scripts.environment import entries, holds

from tests.cli.program import environment
from tests.packaging.building import WITHIN, copied
from tests.packaging.index import fill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TOOL = "graphql-core"
"""One of the tools, which nothing else needs."""


@dataclass(frozen=True)
class Clone:
    """A fresh clone, of a person whose pip asks an index of its own."""

    folder: Path
    environ: Mapping[str, str]

    @property
    def lock(self) -> Path:
        return self.folder / "requirements.lock"

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", f"PYTHON={sys.executable}", *words],
            cwd=self.folder,
            env=dict(self.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=WITHIN,
            check=False,
        )

    def installed(self) -> dict[str, str]:
        """Return all packages with their versions, but those that each environment begins with."""
        command = [self.folder / ".venv/bin/python", "-m", "pip", "list", "--format", "json"]
        done = subprocess.run(
            command, env=dict(self.environ), capture_output=True, timeout=WITHIN, check=True
        )
        found = {canonicalize_name(each["name"]): each["version"] for each in json.loads(done.stdout)}
        return {
            name: found[name]
            for name in found
            if name not in {"pip", "setuptools", "kakite", "kakite-testing"}
        }

    def drop(self, name: str) -> None:
        """Take a package out of the lock."""
        text = self.lock.read_text(encoding="utf-8")
        rest = re.sub(rf"^{name}==.*(?:\n {{4}}.*)*\n", "", text, flags=re.MULTILINE)
        assert rest != text
        self.lock.write_text(rest, encoding="utf-8")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    folder = copied(tmp_path / "clone")
    (folder / "requirements.lock").write_text(fill(tmp_path / "index"), encoding="utf-8")
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    index = {"PIP_INDEX_URL": (tmp_path / "index").as_uri()}
    return Clone(folder, {**environment(tmp_path / "home"), **own, **index})


def test_what_is_locked_is_installed_whatever_the_index_has_got_since(clone: Clone) -> None:
    done = clone.make("install")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("Installing requirements.lock into .venv: 1 to 4 minutes")
    assert clone.installed() == {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==")
        for one, _ in entries()
        if holds(one)
    }
    assert clone.make("--question", "install").returncode == 0  # nothing is left to do


def test_what_left_the_lock_is_gone_after_the_next_install(clone: Clone) -> None:
    assert clone.make("install").returncode == 0
    assert TOOL in clone.installed()
    clone.drop(TOOL)
    project = clone.folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    project.write_text(re.sub(rf'^  "{TOOL}.*\n', "", text, flags=re.MULTILINE), encoding="utf-8")
    done = clone.make("install")
    assert done.returncode == 0, done.stderr[-3000:]
    assert TOOL not in clone.installed()


def test_a_lock_without_what_an_extra_needs_is_refused(clone: Clone) -> None:
    """google-genai asks for `google-auth[requests]`; only this extra and others' packages name requests."""
    clone.drop("requests")
    for _ in range(2):
        done = clone.make("install")
        assert done.returncode != 0
        assert re.search(r"^google-auth asks for requests", done.stderr, re.MULTILINE), done.stderr[-3000:]


def test_a_folder_that_is_no_environment_is_left_alone(clone: Clone, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine", encoding="utf-8")
    assert clone.make("install", f"VENV={mine}").returncode != 0
    assert [each.name for each in mine.iterdir()] == ["notes.txt"]
