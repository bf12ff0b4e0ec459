"""Real Copilot CLI edits with Kakite: a hook sends it there. `npm install @github/copilot` installs it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.install.program import Person
from tests.clients.conftest import FILE
from tests.clients.model import Json, Script, serving
from tests.clients.test_agents import run
from tests.clients.test_install import DRIFTING, EDIT, EDITED, PROMPT

pytestmark = [pytest.mark.client, pytest.mark.usefixtures("clis")]

SERVERS = '{"mcpServers": {}}'
EDITOR = "kakite-text_editor"


@pytest.fixture
def me(tmp_path: Path) -> Person:
    me = Person(tmp_path / "home")
    me.write(".copilot/mcp-config.json", SERVERS)
    return me


def ask(me: Person, root: Path, model: Script) -> None:
    """Let Copilot CLI do what the model says, without asking."""
    copilot = shutil.which("copilot")
    if copilot is None:
        pytest.skip("`copilot` is not on the PATH, and too large to install for one test")
    provider = {"BASE_URL": model.url, "TYPE": "anthropic", "API_KEY": "none"}
    run(
        [copilot, "--model", "scripted", "--allow-all-tools", "--prompt", PROMPT],
        me.home,
        root,
        XDG_CACHE_HOME=str(me.home.parent / "cache"),  # it unpacks itself there
        COPILOT_OFFLINE="true",
        COPILOT_AUTO_UPDATE="false",
        **{f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()},
    )


def test_copilot_edits_with_kakite_and_writes_only_its_plans_itself(
    me: Person, root: Path, file: Path
) -> None:
    before = me.files()
    me.install("copilot")
    installed = me.files()
    plan = me.home / ".copilot/session-state/plan.md"

    def edit(told: str) -> tuple[str, Json]:
        assert "Denied by preToolUse hook" in told
        assert file.read_bytes() == FILE
        return EDITOR, EDIT

    def edit_stale(told: str) -> tuple[str, Json]:
        assert "forgiven" in told
        file.write_bytes(EDITED + b"!")
        return EDITOR, {"command": "str_replace", "path": "x.txt", "old_str": "\nthree\n", "new_str": "\n3\n"}

    def accept(told: str) -> tuple[str, Json]:
        assert file.read_bytes() == EDITED + b"!"
        return EDITOR, {"command": "accept", "suggestion": re.findall(r'suggestion\W+"(\w+)', told)[0]}

    script = Script(
        [
            lambda _: ("edit", {"path": str(file), **DRIFTING}),
            edit,
            edit_stale,
            accept,
            lambda _: ("create", {"path": str(plan), "file_text": "1. Count.\n"}),
        ]
    )
    with serving(script) as model:
        ask(me, root, model)
    assert file.read_bytes() == EDITED.replace(b"three", b"3!")
    assert plan.read_text(encoding="utf-8") == "1. Count.\n"
    assert "Edit files with Kakite" in json.dumps(model.requests)
    me.uninstall("copilot")
    after = me.files()
    assert {name: after[name] for name in before} == before
    assert not {*installed} - {*before} & {*after}
