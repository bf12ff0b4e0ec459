"""A file is read under its own name, also while others exchange its content."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kakite.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

_WRITER = """
import sys
from kakite.workspace import Workspace
workspace = Workspace([sys.argv[1]])
while True:
    for text in (b"one", b"two"):
        workspace.write("a", text, expected=workspace.read("a").version)
        print(flush=True)
"""


@pytest.mark.linux
def test_a_file_that_is_written_meanwhile_is_read_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"two")
    workspace = Workspace([tmp_path])
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        try:
            for _ in range(400):  # between two lines it writes once: every look falls into another moment
                assert writer.stdout.readline()
                found = [workspace.read("a") for _ in range(5)]
                assert {file.path for file in found} == {"a"}
                assert {file.data for file in found} <= {b"one", b"two"}
        finally:
            writer.kill()
