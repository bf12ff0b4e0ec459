"""Real Gemini CLI edits with Kakite, and asks about that where it would ask about edits of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.install.program import Person
from tests.clients.conftest import CLIS, FILE, Node
from tests.clients.model import Json, Script, serving
from tests.clients.test_agents import run
from tests.clients.test_install import EDIT, EDITED, PROMPT

pytestmark = [pytest.mark.client, pytest.mark.usefixtures("clis")]

SETTINGS = """{
\t"general": { "enableAutoUpdate": false },\r
\t"privacy": { "usageStatisticsEnabled": false }, // mine
\t"security": { "auth": { "selectedType": "gemini-api-key" } }
}"""
EDITOR = "mcp_kakite_text_editor"
BUILT_IN = {"replace", "write_file"}


@pytest.fixture
def me(node: Node) -> Person:
    me = Person(node.folder)
    me.write(".gemini/settings.json", SETTINGS)
    return me


def ask(node: Node, root: Path, model: Script, mode: str) -> None:
    """Let Gemini CLI do what the model says, and ask about that as it does in this mode."""
    gemini = CLIS / "@google/gemini-cli/bundle/gemini.js"
    if not gemini.exists():
        pytest.skip("`gemini` is not installed: `make clis` does it")
    options = ["--model", "scripted", "--approval-mode", mode, "--skip-trust", "--prompt", PROMPT]
    variables = {"GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_API_KEY": "none"}
    run([str(node.program), str(gemini), *options], node.folder, root, **variables)


def test_gemini_edits_with_kakite(me: Person, node: Node, root: Path, file: Path) -> None:
    before = me.files()
    me.install("gemini")
    installed = me.files()

    def edit_stale(told: str) -> tuple[str, Json]:
        assert "forgiven" in told
        file.write_bytes(EDITED + b"!")
        return EDITOR, {"command": "str_replace", "path": "x.txt", "old_str": "\nthree\n", "new_str": "\n3\n"}

    def accept(told: str) -> tuple[str, Json]:
        assert '"error"' in told
        assert file.read_bytes() == EDITED + b"!"
        return EDITOR, {"command": "accept", "suggestion": re.findall(r'suggestion\W+"(\w+)', told)[0]}

    view = {"command": "view", "path": "x.txt"}
    with serving(Script([lambda _: (EDITOR, view), lambda _: (EDITOR, EDIT), edit_stale, accept])) as model:
        ask(node, root, model, "auto_edit")
    assert file.read_bytes() == EDITED.replace(b"three", b"3!")
    assert not BUILT_IN & model.tools
    assert "Edit files with Kakite" in json.dumps(model.requests)
    me.uninstall("gemini")
    after = me.files()
    assert {name: after[name] for name in before} == before
    assert not {*installed} - {*before} & {*after}


def test_a_plan_of_gemini_is_made_without_an_edit_of_kakite(
    me: Person, node: Node, root: Path, file: Path
) -> None:
    me.install("gemini")
    with serving(Script([lambda _: (EDITOR, EDIT)])) as model:
        ask(node, root, model, "plan")
    assert file.read_bytes() == FILE
    assert model.tools >= BUILT_IN
    assert "mcp_kakite_read_files" in model.tools
    assert EDITOR not in model.tools
