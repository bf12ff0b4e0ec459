"""The loops that the guide shows for other people's libraries, word for word, against the real formats."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from kakite.host.open import HostOptions, open_host
from kakite.host.policy.rules import evaluate_rules, parse_rule
from kakite.models.scripted_model import Scenario
from kakite.tools import ToolCall, Toolset, open_toolset
from kakite.workspace import Workspace
from kakite_testing.fake_providers.server import ScenarioServer, serve_scenario
from tests.host.project import Project, tool

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[2] / "docs"

SCRIPT = """
title: an edit, and a failure
turns:
  - calls:
      - {tool: text_editor, arguments: {command: str_replace, path: x, old_str: one, new_str: "1"}}
      - {tool: text_editor, arguments: {command: view, path: nowhere}}
  - expect:
      tool_results:
        - {tool: text_editor, contains: ["Edited"]}
        - {tool: text_editor, contains: ["file_not_found"]}
    calls:
      - {tool: text_editor, arguments: {command: view, path: x}}
  - expect:
      tool_result: {tool: text_editor, contains: ["two"]}
    say: all done
"""


def recipe(mark: str) -> Callable[..., Awaitable[str]]:
    """Return the function of the guide that has this mark in it."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("host*.md")))
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", pages, re.DOTALL) if mark in block)
    names: dict[str, Any] = {"json": json, "ToolCall": ToolCall}
    exec(code, names)  # the very words of the guide
    return names["chat"]


@pytest.fixture
def toolset(tmp_path: Path) -> Toolset:
    (tmp_path / "x").write_bytes(b"one\ntwo\n")
    return open_toolset(Workspace([tmp_path]), ("editor",))


async def check(server: ScenarioServer, said: str, tmp_path: Path) -> None:
    assert said == "all done"
    assert (tmp_path / "x").read_bytes() == b"1\ntwo\n"
    assert server.violations == ()
    assert server.playback.turns_left == 0


async def test_the_loop_for_the_openai_library_works_as_shown(toolset: Toolset, tmp_path: Path) -> None:
    async with serve_scenario(Scenario.parse(SCRIPT)) as server:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none", max_retries=0) as client:
            messages = [{"role": "user", "content": "go"}]
            said = await recipe("chat.completions")(client, "scripted", messages, toolset)
        await check(server, said, tmp_path)


async def test_the_loop_for_the_anthropic_library_works_as_shown(toolset: Toolset, tmp_path: Path) -> None:
    async with serve_scenario(Scenario.parse(SCRIPT)) as server:
        async with anthropic.AsyncAnthropic(
            base_url=server.anthropic_url, api_key="none", max_retries=0
        ) as client:
            messages = [{"role": "user", "content": "go"}]
            said = await recipe("client.messages.create")(client, "scripted", messages, toolset)
        await check(server, said, tmp_path)


def rules_of_the_guide(mark: str) -> list[Any]:
    page = (DOCS / "host-approval.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if mark in each)
    return [parse_rule(each) for each in json.loads(block)]


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("find . -name x", "allow"),
        (["find", ".", "-name", "x"], "allow"),
        ("find . -delete", "deny"),
        ("find . -name x -del'ete'", "deny"),
        (["find", ".", "-delete"], "deny"),
        ("find . -exec rm x +", "deny"),
        ("find . -execdir rm x +", "deny"),
        ("find . -okdir rm x +", "deny"),
        ("find . -fprintf /tmp/x y", "deny"),
        ("find . -name x; find . -delete", "deny"),
        (["find", ".", ";", "rm", "x"], "ask"),
        ("env find . -delete", "ask"),
        ("git log --oneline", "allow"),
        ("git log --output=x", "deny"),
        ("git -c core.pager=x log", "ask"),
        ("git push", "ask"),
        ("rm x", "ask"),
    ],
)
async def test_the_recipe_for_commands_that_do_more_than_their_name_does_as_it_says(
    command: object, decision: str
) -> None:
    call = ToolCall(id="1", name="files__run_command", arguments={"command": command})
    assert evaluate_rules(rules_of_the_guide("find ** -delete"), call).decision == decision


async def test_an_entry_of_a_trusted_server_lets_go_what_only_looks(tmp_path: Path) -> None:
    page = (DOCS / "host-approval.md").read_text(encoding="utf-8")
    (entry,) = (each for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if '"trusted"' in each)
    project = Project(tmp_path)
    looks = tool("look", annotations={"readOnlyHint": True, "openWorldHint": False})
    sends = tool("send", annotations={"readOnlyHint": False})
    told = json.loads(entry)["mcpServers"]["docs"] | project.told("docs", looks, sends)
    project.write({"docs": told}, user=True)
    async with open_host(project.folder, HostOptions(rules=()), environ=project.environ()) as opened:
        await opened.list_tools()
        codes = [
            (await opened.call(ToolCall(id="1", name=f"docs__{name}", arguments={}))).code
            for name in ("look", "send")
        ]
    assert codes == ["", "approval_required"]
