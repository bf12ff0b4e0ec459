"""The MCP Inspector and the TypeScript SDK use our server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import HERE, PACKAGES, Node, server_argv

pytestmark = pytest.mark.client

INSPECTOR = PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
EDIT = {"command": "str_replace", "path": "x.txt", "old_str": "two", "new_str": "2"}
VIEW = {"command": "view", "path": "x.txt"}
WRONG = {"command": "str_replace", "path": "x.txt", "old_str": "nowhere to be found", "new_str": ""}


def inspect(node: Node, root: Path, *arguments: str, era: str = "legacy") -> tuple[int, Any]:
    # The inspector takes options of the server for its own, so it gets them from a file.
    command, *rest = server_argv(root)
    config = node.folder / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {"kakite": {"command": command, "args": rest}}}), encoding="utf-8"
    )
    called = ("--protocol-era", era, "--config", str(config), "--server", "kakite", *arguments)
    done = node.run(INSPECTOR, "--cli", *called)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_finds_nothing_to_complain_of_in_the_tools(era: str, node: Node, root: Path) -> None:
    status, listed = inspect(node, root, "--method", "tools/list", "--strict", era=era)
    assert status == 0
    assert [tool["name"] for tool in listed["tools"]][:2] == ["text_editor", "set_workspace"]


def test_the_inspector_views_edits_and_sees_an_error(node: Node, root: Path) -> None:
    def call(arguments: dict[str, str]) -> Any:
        given = ("--tool-name", "text_editor", "--tool-args-json", json.dumps(arguments))
        return inspect(node, root, "--method", "tools/call", *given)[1]

    assert "2\ttwo" in call(VIEW)["content"][0]["text"]
    assert not call(EDIT)["isError"]
    assert call(WRONG)["isError"]
    assert (root / "x.txt").read_text(encoding="utf-8") == "one\n2\n"


def test_the_typescript_sdk_views_edits_and_sees_an_error(node: Node, root: Path) -> None:
    steps = [{"name": "text_editor", "arguments": each} for each in (VIEW, EDIT, WRONG)]
    done = node.run(HERE / "session.mjs", json.dumps(steps), *server_argv(root))
    assert (done.returncode, done.stderr) == (0, "")
    listed, viewed, edited, refused = json.loads(done.stdout)
    assert listed["tools"][0]["name"] == "text_editor"
    assert "2\ttwo" in viewed["content"][0]["text"]
    assert not edited["isError"]
    assert refused["isError"]
    assert (root / "x.txt").read_text(encoding="utf-8") == "one\n2\n"
