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

from kakite.testing.script import Script
from kakite.testing.wire.server import ScriptServer, serve_script
from kakite.tools import ToolCall, Toolset, open_toolset
from kakite.workspace import Workspace

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


async def check(server: ScriptServer, said: str, tmp_path: Path) -> None:
    assert said == "all done"
    assert (tmp_path / "x").read_bytes() == b"1\ntwo\n"
    assert server.violations == ()
    assert server.playback.turns_left == 0


async def test_the_loop_for_the_openai_library_works_as_shown(toolset: Toolset, tmp_path: Path) -> None:
    async with serve_script(Script.parse(SCRIPT)) as server:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none", max_retries=0) as client:
            messages = [{"role": "user", "content": "go"}]
            said = await recipe("chat.completions")(client, "scripted", messages, toolset)
        await check(server, said, tmp_path)


async def test_the_loop_for_the_anthropic_library_works_as_shown(toolset: Toolset, tmp_path: Path) -> None:
    async with serve_script(Script.parse(SCRIPT)) as server:
        async with anthropic.AsyncAnthropic(
            base_url=server.anthropic_url, api_key="none", max_retries=0
        ) as client:
            messages = [{"role": "user", "content": "go"}]
            said = await recipe("client.messages.create")(client, "scripted", messages, toolset)
        await check(server, said, tmp_path)
