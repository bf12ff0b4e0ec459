"""The official conformance suite, over HTTP, against the wire code of `kakite serve`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.conftest import PACKAGES, Node, refusals

pytestmark = pytest.mark.client

RUNS = {
    "0.1.16": ("conformance",),
    "2025-11-25": ("conformance-next", "--requirements", "2025-11-25"),
    "2026-07-28": ("conformance-next", "--requirements", "2026-07-28"),
}
REQUIRED = {"0.1.16": 30, "2025-11-25": 30, "2026-07-28": 37}


@pytest.fixture
def url() -> Generator[str]:
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("fixture.py")], stdout=subprocess.PIPE, encoding="utf-8"
    ) as program:
        try:
            assert program.stdout is not None
            yield program.stdout.readline().strip()
        finally:
            program.kill()


@pytest.mark.parametrize("name", RUNS)
def test_every_required_scenario_passes(name: str, url: str, node: Node, tmp_path: Path) -> None:
    package, *options = RUNS[name]
    suite = PACKAGES / package / "dist" / "index.js"
    out = tmp_path / "out"
    done = node.run(suite, "server", "--url", url, *options, "-o", out)
    summary, _, _ = done.stdout.partition("=== SUMMARY ===")[2].partition("Not scored")
    passed = re.findall(r"^✓ ([\w-]+): (\d+) passed, 0 failed", summary, re.MULTILINE)
    assert done.returncode == 0, f"{summary}\n{refusals(out)}"
    assert sum(int(count) > 0 for _, count in passed) >= REQUIRED[name]
