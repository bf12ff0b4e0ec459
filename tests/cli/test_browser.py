"""A person with a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ADDRESS = "https://login.example/authorize?state=x&scope=a%20b"
SCRIPT = f"""
import asyncio, os, sys
from kakite.cli.host.actions import BrowserOpener
from kakite.host.oauth.provider import AuthorizationPage
page = AuthorizationPage(server="tracker", address={ADDRESS!r})
asyncio.run(BrowserOpener(lambda line: print(line, file=sys.stderr), os.environ).open_page(page))
"""


def visit(tmp_path: Path, **environ: str) -> tuple[str, list[str]]:
    """Return what the person was told, and what the browser was given."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BROWSER": f"{browser} %s", **environ},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert not done.stdout
    return done.stderr, opened.read_text(encoding="utf-8").split() if opened.exists() else []


@pytest.mark.slow
def test_the_address_that_is_shown_with_its_host_is_opened(tmp_path: Path) -> None:
    told, opened = visit(tmp_path, DISPLAY=":0")
    assert "`tracker`" in told
    assert "login.example:" in told
    assert ADDRESS in told
    assert opened == [ADDRESS]


@pytest.mark.slow
def test_without_a_display_it_is_shown_only(tmp_path: Path) -> None:
    told, opened = visit(tmp_path)
    assert ADDRESS in told
    assert not opened
