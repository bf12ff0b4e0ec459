"""Real opencode edits through the plugin that `kakite install opencode` writes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.install.program import Person
from tests.clients.conftest import CLIS, FILE
from tests.clients.model import Json, Script, serving
from tests.clients.test_agents import run
from tests.clients.test_install import DRIFTING, EDITED, PROMPT

pytestmark = [pytest.mark.client, pytest.mark.usefixtures("clis")]

EDIT = {
    "filePath": "x.txt",
    "edits": [{"oldString": DRIFTING["old_str"], "newString": DRIFTING["new_str"]}],
}
SETTINGS = """{
  "$schema": "https://opencode.ai/config.json", // else opencode writes this line into the file
  "permission": { "edit": "allow" },
}
"""
BUILT_IN = {"edit", "write", "read", "bash", "glob", "grep", "skill", "task", "todowrite", "webfetch"}


@pytest.fixture
def me(tmp_path: Path) -> Person:
    me = Person(tmp_path / "home")
    me.home.mkdir()
    return me


def find_opencode() -> str:
    """Return the program itself: a script would put it in its place, which `make clis` does not run."""
    pinned = CLIS / "opencode-linux-x64-baseline/bin/opencode"
    program = str(pinned) if pinned.exists() else shutil.which("opencode")
    if program is None:
        pytest.skip("`opencode` is not installed: `make clis` does it")
    return program


def ask(me: Person, root: Path, model: Script, *, name: str = "scripted", **more: Json) -> None:
    """Let opencode do what the model says, with these settings besides."""
    provider: Json = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
        "models": {name: {}},
    }
    settings: Json = {
        "enabled_providers": ["loopback"],
        "provider": {"loopback": provider},
        "share": "disabled",
    }
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    run(
        [find_opencode(), "run", "--title", "scripted", "--model", f"loopback/{name}", PROMPT],
        me.home,
        root,
        OPENCODE_CONFIG_CONTENT=json.dumps({**settings, **more}),
        npm_config_offline="true",
        **{f"OPENCODE_DISABLE_{each}": "1" for each in quiet},
    )


def test_opencode_edits_with_kakite(me: Person, root: Path, file: Path) -> None:
    me.write(".config/opencode/opencode.jsonc", SETTINGS)
    before = me.files()
    me.install("opencode")
    installed = me.files()

    def edit_stale(told: str) -> tuple[str, Json]:
        assert "forgiven" in told
        file.write_bytes(EDITED + b"!")
        return "edit", {"filePath": "x.txt", "edits": [{"oldString": "\nthree\n", "newString": "\n3\n"}]}

    def accept(told: str) -> tuple[str, Json]:
        assert '"is_error": true' in told
        assert file.read_bytes() == EDITED + b"!"
        return "edit", {"suggestion": re.findall(r'suggestion\W+"(\w+)', told)[0]}

    script = Script(
        [
            lambda _: ("read", {"filePath": str(file)}),
            lambda _: ("edit", EDIT),
            edit_stale,
            accept,
            lambda _: ("write", {"filePath": "new.txt", "content": "new\n"}),
        ]
    )
    with serving(script) as model:
        ask(me, root, model)
    assert file.read_bytes() == EDITED.replace(b"three", b"3!")
    assert (root / "new.txt").read_bytes() == b"new\n"
    assert model.tools == BUILT_IN
    assert "All edits of a call land, or none" in json.dumps(model.requests)
    me.uninstall("opencode")
    after = me.files()
    assert {name: after[name] for name in before} == before
    assert not {*installed} - {*before} & {*after}


def test_a_rule_of_opencode_for_edits_holds_for_a_patch_that_kakite_applies(
    me: Person, root: Path, file: Path
) -> None:
    me.install("opencode")
    other = root / "y.md"
    other.write_bytes(b"a\r\nb\r\n")

    def patch(name: str, *lines: str) -> tuple[str, Json]:
        text = ["*** Begin Patch", f"*** Update File: {name}", "@@", *lines, "*** End Patch"]
        return "apply_patch", {"patchText": "\n".join(text)}

    def go_on(told: str) -> tuple[str, Json]:
        assert '"is_error": true' in told
        return patch("y.md", " a", "-b", "+c")

    with serving(Script([lambda _: patch("x.txt", "-three", "+3"), go_on])) as model:
        ask(me, root, model, name="gpt-5", permission={"edit": {"*": "allow", "*.txt": "deny"}})
    assert file.read_bytes() == FILE
    assert other.read_bytes() == b"a\r\nc\r\n"
    assert model.tools == {*BUILT_IN, "apply_patch"} - {"edit", "write"}
