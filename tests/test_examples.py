"""Every example in Python runs as it stands: the programs of docs/examples.md, and all pages' blocks."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from anthropic.types import model_param

from kakite.host.policy.approval import DenyingApprover
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite.tools.toolset_factory import open_toolset
from kakite.workspace import Workspace
from kakite_testing.fake_providers import run_scenario_server
from tests.bounds import WITHIN

pytestmark = pytest.mark.docs

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
    own = Path(__file__).read_text(encoding="utf-8").partition("\n# --- the shorter")[0]
    tried = re.findall(r'"(\w+\.py)"', own)
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
    with run_scenario_server(Scenario.parse(EDITS.replace("SAID", told))) as server:
        keys = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.anthropic_url}
        more = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.openai_url}
        printed = run(name, tmp_path, f"{answer}\n", **keys, **more)
        assert server.violations == ()
    assert "-old\n+new" in printed
    assert printed.rstrip().endswith("that is all")
    assert (tmp_path / "notes.md").read_text(encoding="utf-8") == text


def test_the_servers_of_a_project_in_an_agent_of_pydantic_ai(tmp_path: Path) -> None:
    files_of(tmp_path)
    script = """
title: a look
turns:
  - expect: {tools_include: [files__text_editor]}
    calls: [{tool: files__text_editor, arguments: {command: view, path: notes.md}}]
  - say: it says old
"""
    with run_scenario_server(Scenario.parse(script)) as model:
        keys = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": model.anthropic_url}
        assert run("pydantic_ai_host.py", tmp_path, **keys) == "it says old\n"
        assert model.violations == ()


@pytest.mark.slow
def test_a_sandbox(tmp_path: Path) -> None:
    printed = run("sandbox.py", tmp_path)
    assert "from inside" in printed
    assert "root:" not in printed


# --- the shorter examples of the other pages: each runs as it stands, with the names that it takes for given

BLOCK = re.compile(r"^```python.*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GREETING = "{title: greeting, turns: [{say: Hello there.}]}"


def blocks() -> dict[str, str]:
    """Return the Python of all pages but examples.md, by the page and which it is there."""
    pages = {page.stem: page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/**/*.md"))}
    pages |= {page.stem: page.read_text(encoding="utf-8") for page in ROOT.glob("README*.md")}
    return {
        f"{name}-{n}": code
        for name, page in pages.items()
        if name != "examples"
        for n, code in enumerate(BLOCK.findall(page))
    }


def play(name: str, **given: Any) -> dict[str, Any]:
    """Run an example, and return its names; ``await`` may stand outside of functions, as in a notebook."""
    names = {"__name__": "__main__", **given}
    code = compile(blocks()[name], name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    going = eval(code, names)
    if inspect.iscoroutine(going):
        asyncio.run(asyncio.wait_for(going, WITHIN))
    return names


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_is_played() -> None:
    played = set(re.findall(r'play\(\s*"([\w-]+)"', Path(__file__).read_text(encoding="utf-8")))
    # The loops for two SDKs are taken from the page, and run, by tests/host/test_recipes.py.
    loops = {name for name, code in blocks().items() if code.startswith("async def chat(client,")}
    assert len(loops) == 2
    assert 'recipe("client.messages.create")(' in (ROOT / "tests/host/test_recipes.py").read_text("utf-8")
    assert {*blocks()} == played | loops


def test_an_edit_of_a_text() -> None:
    names = play("edit-0", text="b = 1\n" * 11 + "a = 1\n")
    assert names["result"].text.endswith("b = 1\na = 2\n")


def test_suggestions_and_the_assistant(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycrdt")
    reply = "<<<<<<< SEARCH\nfirst line\n=======\nfirst\n>>>>>>> REPLACE\n"
    turns = {"title": "shorter", "turns": [{"say": reply}]}
    names = play("collab-0", model=ScriptedModel(Scenario.parse(json.dumps(turns))))
    assert str(names["text"]) == "first line\nnew line\n"  # what the assistant found is a suggestion
    printed = capsys.readouterr().out
    assert "edit {" in printed
    assert printed.splitlines()[-1].startswith("done {'status': 'done'")


def test_a_workflow_that_waits_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dbos")
    from kakite.durable.dbos.client import DbosWorkflowClient

    async def draft(start: Any) -> Any:
        return f"patch of {start['issue']}"

    async def apply(patch: Any) -> Any:
        return f"applied {patch}"

    async def answered() -> None:
        workflow = "owner/repo#42"
        async with DbosWorkflowClient(tmp_path) as client:
            while workflow not in [each.id for each in await client.list_workflows()]:  # noqa: ASYNC110 - what else tells?
                await asyncio.sleep(0.05)
            await client.signal(workflow, "answer", "yes")

    async def both(main: Any) -> None:
        async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as tasks:
            tasks.create_task(main(tmp_path, {"draft": draft, "apply": apply}))
            tasks.create_task(answered())

    asyncio.run(both(play("durable-0")["main"]))
    assert capsys.readouterr().out == "applied patch of 42\n"


def test_a_fake_forge(tmp_path: Path) -> None:
    seen: list[Any] = []

    def run_your_client(url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        root = f"{url}/repos/team/app"
        seen.append(httpx2.get(f"{root}/issues/1", headers=headers).json()["title"])
        lost = httpx2.post(f"{root}/issues/1/comments", headers=headers, json={"body": "hi"})
        seen.append((lost.status_code, len(httpx2.get(f"{root}/issues/1/comments", headers=headers).json())))

    fake = play("forges-0", folder=tmp_path, run_your_client=run_your_client)["fake"]
    assert fake.path == "team/app"
    assert seen == ["Bug", (502, 1)]  # done, but the answer was lost


def files_of(folder: Path) -> Path:
    """Configure a server of the folder's files, in the person's own file."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kakite/mcp-servers.json"
    server = {"command": sys.executable, "args": ["-m", "kakite", "serve", "--root", str(folder)]}
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"mcpServers": {"files": server}}), encoding="utf-8")
    return config


def test_the_host_in_a_program(here: Path) -> None:
    files_of(here)
    names = play("host-0", my_approver=DenyingApprover())
    assert "files__text_editor" in [tool.name for tool in names["tools"]]
    assert names["result"].code


# A program that ends closes its connections so; here many run in one process.
leaves_clients_open = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@leaves_clients_open
def test_tools_for_an_agent_of_pydantic_ai(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_scenario_server(Scenario.parse(GREETING)) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.anthropic_url)
        offers = open_toolset(Workspace([here]), ("editor",))
        names = play("host-approval-0", toolset=offers)
        assert asyncio.run(names["agent"].run("hi")).output == "Hello there."
        (asked,) = model.requests
        assert [tool["name"] for tool in asked.json["tools"]] == ["text_editor"]
    del names
    gc.collect()


@leaves_clients_open
def test_a_model_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with run_scenario_server(Scenario.parse(GREETING)) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.anthropic_url)
        play("models-0")
    gc.collect()
    assert capsys.readouterr().out.startswith("Hello there. ")


@leaves_clients_open
def test_a_scripted_model_and_one_over_the_wire() -> None:
    play("models-1")  # these assert for themselves
    play("models-2")
    gc.collect()


@pytest.mark.slow
def test_a_command_in_a_sandbox(here: Path) -> None:
    names = play("sandbox-0")
    assert names["done"].exit_code != 0  # there is nothing to test in there
    assert (here / "run-1/project").is_dir()


def test_files_written_together_and_taken_back(here: Path) -> None:
    (here / "a.py").write_bytes(b"old\n")
    names = play("workspace-0")
    assert names["file"].data == b"old\n"
    assert (here / "a.py").read_bytes() == b"old\n"
    assert not (here / "b.py").exists()


def test_no_page_names_a_model_that_its_provider_does_not_offer_any_longer() -> None:
    offered = re.findall(r'"(claude-[\w-]+)"', inspect.getsource(model_param))
    told = "\n".join(page.read_text("utf-8") for page in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("README*")])
    named = set(re.findall(r"\bclaude-(?:fable|haiku|mythos|opus|sonnet)-[\w-]*\w", told))
    assert named
    assert named <= {*offered} - {*DEPRECATED_MODELS}
    assert len(named) == len({each.split("-")[1] for each in named})  # the same one everywhere


def test_what_examples_import_is_there_also_in_their_middle() -> None:
    for name, code in blocks().items():
        for module, imported in re.findall(r"^ *from (kakite[\w.]*) import (.+?)$", code, re.MULTILINE):
            for each in imported.split(","):
                assert hasattr(import_module(module), each.strip()), name
