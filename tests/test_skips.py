"""Skips in CI: only those whose reason is listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines import ROOT
from tests.lanes import NO_TIME

CONFTEST = """
import os
from tests.lanes import find_deadline
from tests.skips import watcher
def pytest_configure(config):
    if deadline := find_deadline(os.environ):
        config.pluginmanager.register(deadline)
    if (found := watcher(os.environ)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(found)
"""
ALWAYS = "def test_fine(): pass\n"


def outcome(folder: Path, text: str, *words: str, **env: str) -> tuple[int, str]:
    """Run pytest on a module of this text; return its exit code and what it printed."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(f"import pytest\n{ALWAYS}{text}", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *words, "."],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def skipping(reason: str) -> str:
    return f"def test_skipped(): pytest.skip({reason!r})\n"


@pytest.mark.slow
@pytest.mark.parametrize("several", [(), ("-n", "2")], ids=["one_process", "several"])
def test_a_skip_that_is_not_listed_fails_ci_and_is_named(tmp_path: Path, several: tuple[str, ...]) -> None:
    missing = skipping("no Compose: `apt install docker-compose`")
    code, told = outcome(tmp_path, missing, *several, CI="true")
    assert code == 1
    assert "test_it.py::test_skipped: no Compose" in told
    assert outcome(tmp_path, missing, *several)[0] == 0, "on a person's machine it is only told"


@pytest.mark.slow
def test_a_module_that_is_skipped_as_a_whole_counts_too(tmp_path: Path) -> None:
    assert outcome(tmp_path, "pytest.importorskip('no_such_module')\n", CI="true")[0] != 0


def test_a_listed_skip_and_a_failure_that_is_expected_are_fine(tmp_path: Path) -> None:
    text = skipping("root may read everything") + "@pytest.mark.xfail\ndef test_x(): assert 0\n"
    assert outcome(tmp_path, text, CI="true")[0] == 0


@pytest.mark.slow
def test_a_coding_cli_may_be_missing_only_where_that_is_said(tmp_path: Path) -> None:
    missing = skipping("`codex` is not installed: `make clis` does it")
    assert outcome(tmp_path, missing, CI="true")[0] == 1
    assert outcome(tmp_path, missing, CI="true", KAKITE_CLIS="absent")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("several", [(), ("-n", "2")], ids=["one_process", "several"])
def test_what_has_not_begun_at_the_deadline_is_skipped_and_counted(
    tmp_path: Path, several: tuple[str, ...]
) -> None:
    text = "def test_late(): open('run', 'w').close()\n"
    code, told = outcome(tmp_path, text, "-rs", *several, CI="true", KAKITE_TESTS_UNTIL="1")
    assert code == 0
    assert "[2]" in told
    assert NO_TIME in told
    assert not (tmp_path / "run").exists()
    assert outcome(tmp_path, text, *several, CI="true", KAKITE_TESTS_UNTIL="99999999999")[0] == 0
    assert (tmp_path / "run").exists(), "before it, everything runs"
