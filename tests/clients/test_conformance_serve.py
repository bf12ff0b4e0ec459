"""The official conformance suite against `kakite serve` itself: all but what needs tools of the suite."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.conftest import PACKAGES, Node, environment, refusals, server_argv

pytestmark = pytest.mark.client

MADE_UP = {
    # Tools, resources and prompts that the suite asks for by names of its own. `fixture.py` has them.
    "completion-complete",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-sampling",
    "tools-call-with-logging",
    "tools-call-with-progress",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "resources-read-binary",
    "resources-read-text",
    "resources-templates-read",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-list-roots",
    "input-required-result-basic-sampling",
    "input-required-result-capability-check",
    "input-required-result-multi-round",
    "input-required-result-multiple-input-requests",
    "input-required-result-non-tool-request",
    "input-required-result-request-state",
    "input-required-result-result-type",
    "input-required-result-tampered-state",
}
NOT_OFFERED = {
    # Optional, and not announced.
    "resources-subscribe",
    "resources-unsubscribe",
}
MADE_UP_CHECKS = {
    # Single checks of scenarios that pass otherwise: they call the tool `test_missing_capability`.
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
}


@pytest.fixture
def url(root: Path, tmp_path: Path) -> Generator[str]:
    with subprocess.Popen(
        server_argv(root, "--resources", "--http", "127.0.0.1:0"),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as program:
        try:
            assert program.stdout is not None
            yield program.stdout.readline().strip()
        finally:
            program.kill()


def read_failures(out: Path) -> dict[str, set[str]]:
    """Return the checks that failed, of each scenario that ran, by what the suite left in its folder."""
    failed: dict[str, set[str]] = {}
    for file in out.rglob("checks.json"):
        checks: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        failed[scenario] = {each["id"] for each in checks if each["status"] == "FAILURE"}
    return failed


@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 10), ("2026-07-28", 14)])
def test_all_required_scenarios_pass_but_those_of_made_up_tools(
    revision: str, count: int, url: str, node: Node, tmp_path: Path
) -> None:
    package, out = PACKAGES / "conformance-next", tmp_path / "out"
    node.run(package / "dist" / "index.js", "server", "--url", url, "--requirements", revision, "-o", out)
    listed: dict[str, Any] = yaml.safe_load(
        (package / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8")
    )
    required = set(listed["server"])
    failed = read_failures(out)
    assert required <= failed.keys()
    refused = {each for each in required if failed[each] - MADE_UP_CHECKS}
    assert refused == required & (MADE_UP | NOT_OFFERED), refusals(out)
    assert len(required - refused) == count
