"""How much the program loads to show its help, beside a small program of the same command line library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounds import WITHIN

MORE = 150
"""Modules beside those of a typer program of one command; the agent's modules alone are more."""
SMALL = "import typer\napp = typer.Typer()\n@app.command()\ndef hello() -> None:\n    'Say hello.'\napp()\n"


def count_modules(*arguments: str) -> int:
    """Return how many modules a program loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "80"},
        timeout=WITHIN,
        check=True,
    )
    return done.stderr.count(b"import time:")


@pytest.mark.slow
def test_the_help_loads_little_more_than_a_small_program(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    small = count_modules(str(tmp_path / "small.py"), "--help")
    assert small > MORE
    assert count_modules("-m", "kakite", "--help") < small + MORE
