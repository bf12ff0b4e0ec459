"""``kakite chat`` at a real terminal: what the session's own tools show, and the keys that answer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kakite_testing.fake_providers import run_scenario_server
from tests.cli.program import argv, environment
from tests.cli.terminal import Terminal
from tests.cli.test_chat import KEY, arguments, ask, script

pytestmark = pytest.mark.slow


@contextmanager
def talking(tmp_path: Path, *turns: dict[str, Any]) -> Generator[Terminal]:
    """Yield a terminal in which the first message was sent; afterwards the person leaves."""
    for name in ("person", "project"):
        (tmp_path / name).mkdir()
    env = environment(tmp_path / "person", OPENAI_API_KEY=KEY, PROMPT_TOOLKIT_NO_CPR="1")
    with run_scenario_server(script(*turns)) as server:
        words = argv(*arguments(server, "go"))
        terminal = Terminal(words, env, tmp_path / "project")
        try:
            yield terminal
            terminal.press("\x04")
            assert terminal.wait() == 0
        finally:
            terminal.program.kill()
            terminal.program.wait()


@pytest.mark.parametrize(
    ("keys", "told"),
    [("2\r", "blue"), ("like the sea\r", "like the sea"), ("\x1b", "no answer"), ("\x03", "no answer")],
)
def test_a_question_is_answered_by_a_number_by_words_or_not_at_all(
    tmp_path: Path, keys: str, told: str
) -> None:
    heard = {"say": "Understood.", "expect": {"tool_result": {"is_error": False, "contains": [told]}}}
    with talking(tmp_path, ask(), heard) as terminal:
        terminal.expect("? Which?")
        terminal.expect("1. red  like fire")
        terminal.expect("2. blue")
        terminal.expect("Type a number")
        terminal.press(keys)
        terminal.expect("Understood.")


def test_the_checklist_is_shown_when_it_changes(tmp_path: Path) -> None:
    steps = [{"text": "read", "status": "completed"}, {"text": "write\x1b[2J", "status": "in_progress"}]
    calls = {"calls": [{"tool": "update_plan", "arguments": {"steps": steps}}]}
    with talking(tmp_path, calls, {"say": "Understood."}) as terminal:
        terminal.expect("☑ read")
        terminal.expect("▸ write")
        terminal.expect("Understood.")
        assert "write\x1b[2J" not in terminal.raw


def test_the_calls_of_a_sub_agent_stand_below_its_task(tmp_path: Path) -> None:
    tasks = [{"description": "the value", "prompt": "What is here?"}]
    view = {"calls": [{"tool": "text_editor", "arguments": {"command": "view", "path": "."}}]}
    calls = {"calls": [{"tool": "task", "arguments": {"tasks": tasks}}]}
    with talking(tmp_path, calls, view, {"say": "Nothing."}, {"say": "Understood."}) as terminal:
        terminal.expect("the value: ✓ text_editor: view .")
        terminal.expect("✓ task")
        terminal.expect("Understood.")
