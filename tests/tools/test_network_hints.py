"""What a failed command tells of the network that it missed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.answers import read_answer

from kakite.tools import ToolCall, open_toolset
from kakite.tools.shell.failure_hints import get_network_hint, get_run_network
from kakite.workspace import Workspace

UNFOUND = "curl: (6) Could not resolve host: a.example"
REFUSED = "fatal: unable to access 'https://a.example/': CONNECT tunnel failed, response 403"


def run(folder: Path, script: str) -> dict[str, Any]:
    workspace = Workspace([folder])
    try:
        toolset = open_toolset(workspace, ["shell"])
        call = ToolCall(id="1", name="run_command", arguments={"command": script})
        result = asyncio.run(toolset.call(call))
    finally:
        workspace.close()
    return read_answer(result)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("KAKITE_RUN", "1")
    monkeypatch.setenv("KAKITE_NETWORK", "off")
    return monkeypatch


def test_a_command_that_misses_the_network_is_told_which_setting_allows_it(
    tmp_path: Path, inside: pytest.MonkeyPatch
) -> None:
    failed = run(tmp_path, f"echo '{UNFOUND}' >&2; exit 6")
    assert "`network`" in failed["hint"]
    inside.setenv("KAKITE_NETWORK", "registries")
    failed = run(tmp_path, f'echo "{REFUSED}" >&2; exit 128')
    assert "`hosts`" in failed["hint"]


def test_nothing_is_told_of_a_command_that_went_well_failed_otherwise_or_runs_elsewhere(
    tmp_path: Path, inside: pytest.MonkeyPatch
) -> None:
    assert "hint" not in run(tmp_path, f"echo '{UNFOUND}' >&2")
    assert "hint" not in run(tmp_path, "echo 'AssertionError: 1 != 2' >&2; exit 1")
    inside.delenv("KAKITE_RUN")
    assert "hint" not in run(tmp_path, f"echo '{UNFOUND}' >&2; exit 6")


def test_commands_know_the_network_that_their_server_was_given(
    tmp_path: Path, inside: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path, "echo $KAKITE_NETWORK-$https_proxy")["stdout"] == "off-"
    inside.setenv("KAKITE_NETWORK", "open")
    assert run(tmp_path, "echo $KAKITE_NETWORK-$https_proxy")["stdout"] == "open-http://127.0.0.1:3128"
    inside.delenv("KAKITE_RUN")  # a person's own setting says nothing of where we are
    assert run(tmp_path, "echo $KAKITE_NETWORK-$https_proxy")["stdout"] == "-"


@pytest.mark.parametrize(
    "output",
    [
        "npm error code EAI_AGAIN\nnpm error request failed, reason: getaddrinfo EAI_AGAIN registry.example",
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        "ERROR: No matching distribution: Could not find a version x (from versions: none)",
        "go: module lookup disabled by GOPROXY=off",
        "java.net.UnknownHostException: repo.example",
        "dial tcp: lookup proxy.example: no such host",
        "connect: Network is unreachable",
        "error: failed to lookup address information",
        UNFOUND,
    ],
)
def test_the_words_of_well_known_tools_are_known(output: str) -> None:
    for network in ("off", "registries", "open"):
        assert get_network_hint(network, output.encode())
    assert not get_network_hint(None, output.encode())


def test_a_refusal_cannot_come_from_a_network_that_is_off() -> None:
    assert not get_network_hint("off", REFUSED.encode())


def test_only_known_networks_are_believed() -> None:
    assert get_run_network({"KAKITE_RUN": "1", "KAKITE_NETWORK": "elsewhere"}) is None
    assert get_run_network({"KAKITE_NETWORK": "off"}) is None
