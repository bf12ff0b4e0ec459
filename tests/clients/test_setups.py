"""What docs/clients.md shows is what `--print-config` prints, and is read as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kakite.cli.client_setup import build_client_setup
from kakite.cli.serve_options import ServeOptions
from tests.clients.conftest import Node
from tests.clients.test_npm import INSPECTOR

PAGE = (Path(__file__).parents[2] / "docs/clients.md").read_text(encoding="utf-8")
ROOT = "/home/you/project"


def shown() -> Mapping[str, tuple[str, str]]:
    return {
        name: (kind, text)
        for kind, name, text in re.findall(r'```(json|toml) title="(.*?)"\n(.*?)```', PAGE, re.DOTALL)
    }


def parsed(kind: str, text: str) -> Any:
    return json.loads(text) if kind == "json" else tomllib.loads(text)


def test_every_client_is_shown() -> None:
    assert {*shown()} == {"claude-code", "codex", "pi", "vscode", "cursor"}


@pytest.mark.parametrize("client", shown())
def test_what_is_shown_is_what_is_printed(client: str) -> None:
    kind, text = shown()[client]
    printed = parsed(kind, build_client_setup(client, ServeOptions(root=(ROOT,)), project=Path(ROOT)).text)
    servers = printed.get("mcpServers") or printed.get("servers") or printed["mcp_servers"]
    entry = servers["kakite"]
    # On this page the program is found by its name, and nothing is left of this machine.
    entry["args"] = entry["args"][entry["args"].index("serve") :]
    entry["command"] = "kakite"
    assert parsed(kind, text) == printed


def setup_of(client: str, root: Path) -> str:
    return build_client_setup(client, ServeOptions(root=(str(root),))).text


@pytest.mark.client
def test_the_inspector_starts_the_server_from_cursors_file(node: Node, root: Path) -> None:
    file = node.folder / "mcp.json"
    file.write_text(setup_of("cursor", root), encoding="utf-8")
    called = ("--config", str(file), "--server", "kakite", "--method", "tools/list")
    listed = json.loads(node.run(INSPECTOR, "--cli", *called).stdout)
    assert listed["tools"][0]["name"] == "text_editor"


@pytest.mark.client
def test_our_reader_of_vs_codes_files_starts_the_server_from_them(root: Path, tmp_path: Path) -> None:
    (root / ".vscode").mkdir()
    (root / ".vscode/mcp.json").write_text(setup_of("vscode", root), encoding="utf-8")

    def kakite(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kakite", "host", *words],
            cwd=root, capture_output=True, encoding="utf-8", timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kakite("import", "vscode", "kakite", "--user")
    (offered,) = (
        each for each in json.loads(kakite("tools", "--json"))["servers"] if each["name"] == "kakite"
    )
    assert "text_editor" in json.dumps(offered)
