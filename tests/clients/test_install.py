"""Real claude, codex and pi edit through what `kakite install` wrote, and nothing is left of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.install.program import Person
from tests.cli.screen import ENTER, open_screen, squeeze
from tests.clients.conftest import CLIS, FILE, Node, environment
from tests.clients.model import Json, Model, message, serving
from tests.clients.test_agents import claude_environment, codex_settings, found, run

pytestmark = [pytest.mark.client, pytest.mark.usefixtures("clis")]

PROMPT = "Write 2 instead of two in x.txt."
DRIFTING = {"old_str": "    if two:\n        return 'two'", "new_str": "    if two:\n        return '2'"}
"""Blanks for tabs, and no returns: not as it stands in the file."""
EDITED = FILE.replace(b"'two'", b"'2'")
EDIT = {"command": "str_replace", "path": "x.txt", **DRIFTING}


@pytest.fixture
def me(tmp_path: Path) -> Person:
    me = Person(tmp_path / "home")
    me.home.mkdir()
    return me


def test_claude_edits_with_kakite_and_has_no_edit_of_its_own(me: Person, root: Path, file: Path) -> None:
    claude = found("claude")
    me.write(
        ".claude/settings.json",
        '{\n  "permissions": {"deny": ["Bash(curl:*)"]}\n}\n',
    )
    me.write(".claude.json", '{\n  "mcpServers": {},\n  "hasCompletedOnboarding": true\n}')
    before = me.files()
    me.install("claude")
    with serving(Model("kakite", "text_editor", EDIT)) as model:
        allowed = ["--allowedTools", "mcp__kakite", "--output-format", "json"]
        more = {
            **claude_environment(model),
            "MCP_CONNECTION_NONBLOCKING": "false",
        }  # else it may ask too early
        said = run([claude, "-p", *allowed], me.home, root, PROMPT, **more)
    assert json.loads(said)["is_error"] is False
    assert file.read_bytes() == EDITED
    offered = {tool["name"] for request in model.requests for tool in request.get("tools", [])}
    assert "mcp__kakite__text_editor" in offered
    assert not offered & {"Edit", "Write", "NotebookEdit", "MultiEdit"}
    assert "Edit files with Kakite" in json.dumps(model.requests)
    me.uninstall("claude")
    after = me.files()
    assert after[".claude/settings.json"] == before[".claude/settings.json"]
    assert ".claude/skills" not in after
    state = json.loads(after[".claude.json"] or b"")  # claude itself writes more into it
    assert state["mcpServers"] == {}


def test_codex_edits_with_kakite(me: Person, root: Path, file: Path) -> None:
    codex = found("codex")
    with serving(Model("kakite", "text_editor", EDIT)) as model:
        me.write(".codex/config.toml", codex_settings(model).rstrip() + "  # mine")
        before = me.files()
        me.install("codex")
        installed = me.files()
        argv = [codex, "exec", "--json", "--ephemeral", "--skip-git-repo-check", "-s", "read-only"]
        for setting in ("required=true", 'default_tools_approval_mode="approve"'):
            argv += ["-c", f"mcp_servers.kakite.{setting}"]
        run([*argv, "-"], me.home, root, PROMPT, LOOPBACK_KEY="none")
    assert file.read_bytes() == EDITED
    assert "Edit files with Kakite" in json.dumps(model.requests)
    me.uninstall("codex")
    after = me.files()
    assert {name: after[name] for name in before} == before
    assert not {*installed} - {*before} & {*after}


class ByName(Model):
    """Calls a tool of the client's own by its plain name."""

    def messages(self, request: Json) -> Iterator[Json]:
        called = any("tool_result" in json.dumps(each) for each in request["messages"])
        if called:
            yield from message(
                {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn"
            )
            return
        block: Json = {"type": "tool_use", "id": "call_1", "name": self.tool, "input": {}}
        delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(self.arguments)}
        yield from message(block, delta, "tool_use")


PI_EDIT = {
    "path": "x.txt",
    "edits": [{"oldText": DRIFTING["old_str"], "newText": DRIFTING["new_str"]}],
}
PI_CALLS: list[tuple[str, Json, str, dict[str, bytes]]] = [
    ("edit", PI_EDIT, "Edited `x.txt`", {"x.txt": EDITED}),
    ("edit", {"path": "x.txt", "edits": [{"oldText": "nowhere", "newText": ""}]}, '"is_error": true', {}),
    ("read", {"path": "x.txt", "offset": 4}, "three", {}),
    ("write", {"path": "new.txt", "content": "new\n"}, "tool_result", {"new.txt": b"new\n"}),
    ("write", {"path": "x.txt", "content": "not read"}, '"is_error": true', {}),
]


@pytest.mark.parametrize(("tool", "arguments", "told", "left"), PI_CALLS)
def test_pis_own_tools_are_kakites(
    tool: str, arguments: Json, told: str, left: dict[str, bytes], node: Node, root: Path, file: Path
) -> None:
    pi = CLIS / "@earendil-works/pi-coding-agent/dist/bundle/cli.js"
    if not pi.exists():
        pytest.skip("`pi` is not installed: `make clis` does it")
    me = Person(node.folder)
    with serving(ByName("kakite", tool, arguments)) as model:
        entry: Json = {"baseUrl": model.url, "api": "anthropic-messages", "apiKey": "none"}
        entry["models"] = [{"id": "scripted"}]
        me.write(".pi/agent/models.json", json.dumps({"providers": {"loopback": entry}}))
        before = me.files()
        me.install("pi")
        argv = [str(node.program), str(pi), "--print", "--offline", "--no-session"]
        run([*argv, "--model", "loopback/scripted", PROMPT], me.home, root)
    assert told in model.told
    assert {each.name: each.read_bytes() for each in root.iterdir()} == {"x.txt": FILE, **left}
    assert "All edits of a call land, or none" in model.offered
    me.uninstall("pi")
    after = me.files()
    assert {name: after[name] for name in before} == before
    assert ".pi/agent/extensions" not in after


def test_pi_does_not_say_that_an_edit_failed_which_landed(node: Node, root: Path, file: Path) -> None:
    """Its own view of `edit` looks for the place by itself."""
    pi = CLIS / "@earendil-works/pi-coding-agent/dist/bundle/cli.js"
    if not pi.exists():
        pytest.skip("`pi` is not installed: `make clis` does it")
    me = Person(node.folder)
    with serving(ByName("kakite", "edit", PI_EDIT)) as model:
        entry: Json = {"baseUrl": model.url, "api": "anthropic-messages", "apiKey": "none"}
        entry["models"] = [{"id": "scripted"}]
        me.write(".pi/agent/models.json", json.dumps({"providers": {"loopback": entry}}))
        me.install("pi")
        argv = [str(node.program), str(pi), "--offline", "--no-session", "--model", "loopback/scripted"]
        with open_screen(argv, environment(me.home), root) as screen:
            screen.wait_for("[Extensions]")  # until then it takes no message
            screen.press(PROMPT)
            screen.wait_for(PROMPT)
            screen.press(ENTER)
            screen.wait_for("done")
            assert file.read_bytes() == EDITED
            assert squeeze("Edited `x.txt`") in screen.text
            assert squeeze("Could not find") not in screen.text
