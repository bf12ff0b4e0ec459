"""Every program of docs/examples.md runs as it stands there; every other example is Python at least."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kakite.testing.script import Script
from kakite.testing.wire import script_server

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/examples.md").read_text(encoding="utf-8")
PROGRAMS: Mapping[str, str] = dict(re.findall(r'```python title="(.*?)"\n(.*?)```', PAGE, re.DOTALL))

EDITS = """
title: an edit that waits for a person
turns:
  - calls:
      - {tool: text_editor, arguments: {command: str_replace, path: notes.md, old_str: old, new_str: new}}
  - expect:
      tool_results: [{tool: text_editor, contains: [SAID]}]
    say: that is all
"""


def run(name: str, folder: Path, said: str = "", **more: str) -> str:
    """Run a program of the page as a person would, and return what it printed."""
    (folder / name).write_text(PROGRAMS[name], encoding="utf-8")
    (folder / "notes.md").write_text("old\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, name],
        cwd=folder, input=said, env={**os.environ, **more},
        capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_no_other_programs() -> None:
    tried = re.findall(r'"(\w+\.py)"', Path(__file__).read_text(encoding="utf-8"))
    assert {*PROGRAMS} == {*tried}


def test_an_edit(tmp_path: Path) -> None:
    assert run("edit.py", tmp_path).startswith(
        'def greet(name):\n    if name:\n        print("Hi, " + name)\n'
    )


def test_a_reply(tmp_path: Path) -> None:
    run("reply.py", tmp_path)
    assert (tmp_path / "notes.md").read_text(encoding="utf-8") == "new\n"
    assert (tmp_path / "added.md").read_text(encoding="utf-8") == "made by the reply\n"


@pytest.mark.parametrize(
    ("answer", "told", "text"), [("y", "Edited", "new\n"), ("n", "the person said no", "old\n")]
)
@pytest.mark.parametrize("name", ["anthropic_loop.py", "openai_loop.py"])
def test_a_loop_asks_and_does_as_it_is_told(
    name: str, answer: str, told: str, text: str, tmp_path: Path
) -> None:
    with script_server(Script.parse(EDITS.replace("SAID", told))) as server:
        keys = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.anthropic_url}
        more = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.openai_url}
        printed = run(name, tmp_path, f"{answer}\n", **keys, **more)
        assert server.violations == ()
    assert "-old\n+new" in printed
    assert printed.rstrip().endswith("that is all")
    assert (tmp_path / "notes.md").read_text(encoding="utf-8") == text


def test_the_servers_of_a_project_in_an_agent_of_pydantic_ai(tmp_path: Path) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kakite/mcp-servers.json"
    server = {"command": sys.executable, "args": ["-m", "kakite", "serve", "--root", str(tmp_path)]}
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"mcpServers": {"files": server}}), encoding="utf-8")
    script = """
title: a look
turns:
  - expect: {tools_include: [files__text_editor]}
    calls: [{tool: files__text_editor, arguments: {command: view, path: notes.md}}]
  - say: it says old
"""
    with script_server(Script.parse(script)) as model:
        keys = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": model.anthropic_url}
        assert run("pydantic_ai_host.py", tmp_path, **keys) == "it says old\n"
        assert model.violations == ()


@pytest.mark.slow
def test_a_sandbox(tmp_path: Path) -> None:
    printed = run("sandbox.py", tmp_path)
    assert "from inside" in printed
    assert "root:" not in printed


BLOCK = re.compile(r"^```python.*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, str]]:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/**/*.md"))}
    return [
        (f"{name}-{n}", code) for name, page in pages.items() for n, code in enumerate(BLOCK.findall(page))
    ]


@pytest.mark.parametrize(("name", "code"), [pytest.param(*each, id=each[0]) for each in blocks()])
def test_every_example_imports_what_there_is(name: str, code: str) -> None:
    compiled = "\n".join(["async def example():", *(f"    {line}" for line in code.splitlines())])
    try:
        compile(code, name, "exec")
    except SyntaxError:  # a part of a coroutine
        compile(compiled, name, "exec")
    for module, names in re.findall(r"^from (kakite[\w.]*) import (.+?)$", code, re.MULTILINE):
        for each in names.split(","):
            exec(f"from {module} import {each.strip()}", {})
