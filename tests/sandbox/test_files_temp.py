"""Temporary folders: gone when they are let go, and gone with the next one when their holder was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kakite.sandbox.files.temp import temporary_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_ours_alone_and_gone_after(place: Path) -> None:
    with temporary_folder("test") as folder:
        assert (folder.parent, folder.stat().st_mode & 0o777) == (place, 0o700)
        (folder / "file").touch()
    assert list(place.iterdir()) == []


def test_what_is_held_and_what_is_for_another_purpose_stays(place: Path) -> None:
    (place / "kakite-other-1").mkdir()
    with temporary_folder("test") as first, temporary_folder("test") as second:
        assert first.is_dir()
        assert first != second
    assert [path.name for path in place.iterdir()] == ["kakite-other-1"]


def test_what_a_killed_process_held_is_removed_by_the_next(place: Path) -> None:
    script = """
import os, tempfile
from kakite.sandbox.files.temp import temporary_folder
with temporary_folder("test") as folder:
    (folder / "file").touch()
    os.kill(os.getpid(), 9)
"""
    environ = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    (left,) = place.iterdir()
    with temporary_folder("test"):
        assert not left.exists()


def test_a_link_with_such_a_name_is_not_followed(place: Path) -> None:
    (place / "precious").mkdir()
    (place / "precious/file").touch()
    (place / "kakite-test-link").symlink_to("precious")
    with temporary_folder("test"):
        pass
    assert (place / "precious/file").exists()
