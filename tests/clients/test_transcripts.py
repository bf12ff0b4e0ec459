"""Real clients write their transcripts; ``kakite edit replay`` counts what stands there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.install.program import Person
from tests.cli.program import kakite
from tests.clients.conftest import CLIS, Node
from tests.clients.model import Json, Model, Script, message, serving
from tests.clients.test_agents import claude_environment, codex_settings, run
from tests.clients.test_opencode import ask

pytestmark = [pytest.mark.client, pytest.mark.usefixtures("clis")]

Call = tuple[str, Json | str]


@dataclass
class Stepping(Model):
    """Makes one call after another, each once it has the result of the one before."""

    server: str = ""
    tool: str = ""
    arguments: Json = field(default_factory=dict[str, object])
    calls: Sequence[Call] = ()

    def messages(self, request: Json) -> Iterator[Json]:
        done = json.dumps(request["messages"]).count('"tool_result"')
        if not request.get("tools") or done >= len(self.calls):
            yield from message(
                {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn"
            )
            return
        name, asked = self.calls[done]
        block: Json = {"type": "tool_use", "id": f"call_{done}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(asked)}
        yield from message(block, delta, "tool_use")

    def responses(self, request: Json) -> Iterator[Json]:
        done = sum(str(each.get("type")).endswith("_output") for each in request["input"])
        said = [{"type": "output_text", "text": "done"}]
        item: Json = {"type": "message", "role": "assistant", "id": "msg_1", "content": said}
        if done < len(self.calls):
            name, asked = self.calls[done]
            call = {"id": f"ctc_{done}", "call_id": f"call_{done}", "name": name, "input": asked}
            item = {"type": "custom_tool_call", **call}
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage, "output": [item]}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(exist_ok=True)
    return folder


def found(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"`{name}` is not installed: `make clis` does it")
    return program


def counts(home: Path) -> tuple[str, Json, Json]:
    """Return whose transcripts were found, and what came of the applied and of the failed edits."""
    outcome = kakite("edit", "replay", "--json", home=home)
    assert outcome.code == 0, outcome.stderr
    (client,) = outcome.json["clients"]
    applied, failed = (
        {name: number for name, number in client[group].items() if number} for group in ("applied", "failed")
    )
    return client["client"], applied, failed


def test_transcripts_of_claude_are_replayed(home: Path, root: Path) -> None:
    claude = found("claude")
    (root / "x.txt").write_text("  one = 1\n  two = 2\n", encoding="utf-8")
    path = str(root / "x.txt")
    calls: list[Call] = [
        ("Read", {"file_path": path}),
        ("Edit", {"file_path": path, "old_string": "  two = 2", "new_string": "  two = 3"}),
        ("Edit", {"file_path": path, "old_string": "  two  = 3", "new_string": "  two = 4"}),
    ]
    with serving(Stepping(calls=calls)) as model:
        argv = [claude, "-p", "--setting-sources", "", "--allowedTools", "Read", "Edit"]
        run(argv, home, root, "Edit it.", **claude_environment(model))
    assert (root / "x.txt").read_text(encoding="utf-8") == "  one = 1\n  two = 3\n"
    assert counts(home) == ("claude-code", {"same": 1}, {"landed": 1})


def test_transcripts_of_codex_are_replayed(home: Path, root: Path) -> None:
    codex = found("codex")
    bodies = (
        "*** Add File: n.py\n+a = 1\n+b = 2\n",
        "*** Update File: n.py\n@@\n-a = 1\n+a = 3\n b = 2\n",
        "*** Update File: n.py\n@@\n-a  = 3\n+a = 4\n b = 2\n",
        "*** Update File: x.txt\n@@\n-two\n+2\n",
    )
    patches = [("apply_patch", f"*** Begin Patch\n{body}*** End Patch\n") for body in bodies]
    with serving(Stepping(calls=patches)) as model:
        (home / ".codex").mkdir()
        # It offers its patches to models alone that it knows.
        settings = codex_settings(model).replace('"scripted"', '"gpt-5.5"', 1)
        (home / ".codex/config.toml").write_text(settings, encoding="utf-8")
        argv = [codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-"]
        run(argv, home, root, "Edit it.", LOOPBACK_KEY="none")
    assert counts(home) == ("codex", {"same": 1, "text_unknown": 1}, {"landed": 1})


def test_transcripts_of_pi_are_replayed(node: Node, root: Path) -> None:
    pi = CLIS / "@earendil-works/pi-coding-agent/dist/bundle/cli.js"
    if not pi.exists():
        pytest.skip("`pi` is not installed: `make clis` does it")
    (root / "x.txt").write_text("  one = 1\n  two = 2\n", encoding="utf-8")
    calls: list[Call] = [
        ("read", {"path": "x.txt"}),
        ("edit", {"path": "x.txt", "edits": [{"oldText": "  two = 2", "newText": "  two = 3"}]}),
        ("edit", {"path": "x.txt", "edits": [{"oldText": "  two  = 3", "newText": "  two = 4"}]}),
    ]
    home = node.folder
    with serving(Stepping(calls=calls)) as model:
        entry: Json = {"baseUrl": model.url, "api": "anthropic-messages", "apiKey": "none"}
        entry["models"] = [{"id": "scripted"}]
        (home / ".pi/agent").mkdir(parents=True)
        told = json.dumps({"providers": {"loopback": entry}})
        (home / ".pi/agent/models.json").write_text(told, encoding="utf-8")
        argv = [str(node.program), str(pi), "--print", "--offline", "--approve"]
        run([*argv, "--model", "loopback/scripted", "Edit it."], home, root)
    assert counts(home) == ("pi", {"same": 1}, {"landed": 1})


def test_sessions_of_opencode_are_replayed(home: Path, root: Path) -> None:
    path = str(root / "x.txt")
    (root / "x.txt").write_text("  one = 1\n  two = 2\n", encoding="utf-8")
    calls: list[tuple[str, Json]] = [
        ("read", {"filePath": path}),
        ("edit", {"filePath": path, "oldString": "  two = 2", "newString": "  two = 3"}),
        ("edit", {"filePath": path, "oldString": "  two = 2", "newString": "  two = 4"}),
        ("write", {"filePath": str(root / "n.py"), "content": "a = 1\n"}),
        ("edit", {"filePath": str(root / "n.py"), "oldString": "a = 1", "newString": "a = 2"}),
    ]
    script = Script([lambda _, call=call: call for call in calls])
    with serving(script) as model:
        ask(Person(home), root, model, permission={"edit": "allow"})
    assert (root / "x.txt").read_text(encoding="utf-8") == "  one = 1\n  two = 3\n"
    client, applied, failed = counts(home)
    assert (client, applied) == ("opencode", {"same": 2})
    assert sum(failed.values()) == 1
