"""The official conformance suite's client scenarios, against Kakite's host."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.conftest import PACKAGES, Node, refusals

pytestmark = [pytest.mark.client, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
PLACES = max(2, os.cpu_count() or 1)  # scenarios at a time
COMMAND = f"{sys.executable} -S {HERE / 'in_turn.py'} {PLACES} {HERE / 'host_client.py'}"
PATIENCE = 600  # s; for each scenario too, as those that wait for their turn wait in its time

NOT_OURS = {
    "auth/client-credentials-jwt": "an extension: a program logs in without a person",
    "auth/client-credentials-basic": "an extension: a program logs in without a person",
    "auth/enterprise-managed-authorization": "an extension: an employer logs in for the person",
    "auth/wif-jwt-bearer": "an extension: the machine that a program runs on logs in for it",
    "auth/dpop": "an extension: tokens that are worth nothing without a key",
    "auth/dpop-nonce": "an extension: as above",
}


def required(revision: str) -> set[str]:
    """Return the scenarios that conforming to a revision takes, as the suite itself lists them."""
    file = PACKAGES / "conformance-next" / "requirements" / f"{revision}.yaml"
    listed: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return set(listed["client"])


def run(node: Node, out: Path, package: str, *options: str) -> tuple[int, str]:
    """Run scenarios; return the exit code and the summary."""
    arguments = ["client", "--command", COMMAND, "--timeout", str(PATIENCE * 1000), "-o", str(out), *options]
    done = node.run(PACKAGES / package / "dist" / "index.js", *arguments, timeout=PATIENCE)
    summary = done.stdout.partition("SUITE SUMMARY")[2]
    return done.returncode, f"{summary}{done.stderr[-4000:]}\n{refusals(out)}"


def with_mark(mark: str, summary: str) -> dict[str, int]:
    """Return the scenarios with that mark, and how many checks each passed."""
    found = re.findall(rf"^{mark} ([\w/-]+): (\d+) passed, \d+ failed", summary, re.MULTILINE)
    return {name: int(passed) for name, passed in found}


@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_every_required_scenario_passes(revision: str, count: int, node: Node, tmp_path: Path) -> None:
    code, summary = run(node, tmp_path / "out", "conformance-next", "--requirements", revision)
    assert code == 0, summary
    passed = with_mark("✓", summary)
    wanted = required(revision)
    assert len(wanted) == count
    assert not [name for name in wanted if passed.get(name, 0) == 0], summary
    assert with_mark("✗", summary).keys() == NOT_OURS.keys(), (
        "what is not passed is said here, with its reason"
    )


def test_the_older_suite_passes_but_for_what_it_is_told(node: Node, tmp_path: Path) -> None:
    expected = str(HERE / "expected_failures.yaml")
    code, summary = run(
        node, tmp_path / "out", "conformance", "--suite", "all", "--expected-failures", expected
    )
    assert code == 0, summary
    assert sum(passed > 0 for passed in with_mark("✓", summary).values()) >= 22, summary
