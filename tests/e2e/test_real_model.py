"""A small real model behind an OpenAI-compatible server on this machine: whoever has one opts in.

``KAKITE_TEST_MODEL_URL`` is its address (``http://127.0.0.1:8080/v1``), ``KAKITE_TEST_MODEL`` its name there;
CONTRIBUTING.md tells how one is served. What such a model is worth is no matter here, only that whatever it
says and does ends in order.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.program import argv, environment
from tests.repositories import git, make_remote

from kakite.models.factory import open_model
from kakite.models.messages import UserMessage
from kakite.models.text_tool_calls import TextToolCallModel
from kakite.tools.toolset import Tool, ToolCall

URL = os.environ.get("KAKITE_TEST_MODEL_URL", "")
MODEL = f"openai:{os.environ.get('KAKITE_TEST_MODEL', 'local')}"
WRONG = """def total(prices):
    result = 0
    for price in prices:
        result = price
    return result
"""
TEST = "from shop import total\n\n\ndef test_total():\n    assert total([1, 2, 3]) == 6\n"
RULES = "Run the tests with `python3 -m pytest -q`.\n"
PROJECT = {"shop.py": WRONG, "test_shop.py": TEST, "AGENTS.md": RULES}
ISSUE = "---\ntitle: total is wrong\nlabels: [kakite]\nstate: open\n---\n"
TASK = "The function total in shop.py returns the last price. It must return the sum of all prices."
ENDS_OF_RUNS = {"done", "no_changes", "limit", "budget", "stuck", "refused", "conflict"}

pytestmark = [
    pytest.mark.skipif(not URL, reason="no real model: KAKITE_TEST_MODEL_URL is not set"),
    pytest.mark.timeout(1800),
]


def kakite(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(*arguments),
        env=environment(home, OPENAI_API_KEY="none", **env),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=1500,
        check=False,
    )


@pytest.mark.parametrize("calls", ["auto", "fenced"])
def test_a_run_with_a_small_model_ends_in_order(calls: str, tmp_path: Path) -> None:
    remote = make_remote(tmp_path, PROJECT)
    fixed = ["--branch", "fix", "--sandbox", "local", "--approve", "all", "--max-turns", "12"]
    model = ["--model", MODEL, "--base-url", URL, "--budget-minutes", "15", "--context-tokens", "8000"]
    arguments = ["agent", "run", TASK, "--repo", str(remote), *fixed, *model, "--json"]
    ended = kakite(tmp_path, *arguments, KAKITE_TOOL_CALLS=calls)
    told = json.loads(ended.stdout)
    assert told["status"] in ENDS_OF_RUNS, ended.stderr
    assert (ended.returncode == 0) == (told["status"] == "done"), ended.stderr
    assert told["usage"]["requests"] >= 1
    assert told["usage"]["output_tokens"] > 0
    assert told["pushed"] == ("fix" in git(remote, "branch", "--list", "fix"))
    exported = kakite(tmp_path, "agent", "export", told["id"], "--jsonl", "-")
    events = [json.loads(line) for line in exported.stdout.splitlines()]
    assert sum(each["type"] == "reply" for each in events) == told["usage"]["requests"]
    assert sum(each["type"] == "call" for each in events) == sum(each["type"] == "result" for each in events)


READ = Tool(
    name="read_file",
    description="Return the text of a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


@pytest.mark.anyio
async def test_a_call_of_a_small_model_is_read() -> None:
    """Not each one must be right: such models forget the form now and then."""
    model = TextToolCallModel(open_model(MODEL, base_url=URL, environ={"OPENAI_API_KEY": "none"}), "fenced")
    asked = UserMessage(text="Read the file shop.py. Answer with the tool call alone.")
    replies = [await model.reply("You are a programmer.", [asked], [READ]) for _ in range(5)]
    calls = [call for reply in replies for call in reply.calls if isinstance(call, ToolCall)]
    assert calls, [reply.text for reply in replies]
    assert {(call.name, call.arguments.get("path")) for call in calls} == {("read_file", "shop.py")}


def test_a_worker_with_a_small_model_tells_the_issue_how_it_ended(tmp_path: Path) -> None:
    forge = tmp_path / "forge"
    (forge / "issues").mkdir(parents=True)
    make_remote(forge, PROJECT, "repo.git")
    issue = forge / "issues" / "001-total.md"
    issue.write_text(f"{ISSUE}{TASK}\n", encoding="utf-8")
    fixed = ["--sandbox", "local", "--approve", "all", "--max-turns", "8", "--budget-minutes", "15"]
    model = ["--model", MODEL, "--base-url", URL, "--context-tokens", "8000", "--until-idle"]
    worked = kakite(tmp_path, "agent", "worker", "--forge", "local", str(forge), *fixed, *model)
    assert worked.returncode == 0, worked.stderr
    text = issue.read_text(encoding="utf-8")
    assert "kakite:processing" not in text
    assert any(f"kakite:{state}" in text for state in ("done", "paused", "stopped")), text
    assert text.count("## comment by") >= 1
