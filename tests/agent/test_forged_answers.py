"""What commands plant answers for no later call of a tool."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kakite.cli.light_settings import load_after_edit_commands
from kakite.models.messages import ToolMessage
from kakite.processes import UNTRUSTED_HOME
from kakite.tools import find_ripgrep
from tests.agent.test_runner import command, run_of
from tests.cli.program import skip_without
from tests.repositories import make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FORGE = "#!/bin/sh\\necho FORGED >> /tmp/forged\\necho FORGED\\n"
SETTINGS = 'after_edit:\\n  "*.txt": "sh /workspace/home/format {file}"\\n'
CREATE: dict[str, Any] = {
    "calls": [
        {"tool": "text_editor", "arguments": {"command": "create", "path": "new.txt", "file_text": "x\n"}}
    ]
}
END_SERVER = (
    "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q '^[^ ]*python[^ ]* -I -m kakite' && "
    "kill -9 ${p#/proc/}; done; sleep 5"
)


@pytest.fixture
def place() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def bubblewrap() -> str:
    skip_without("bubblewrap")
    return "bubblewrap"


async def read_answers(place: Path, *turns: dict[str, Any], kind: str, setup: bool = False) -> list[str]:
    remote = make_remote(place, {"a": "1\n", "requirements.txt": "\n"})
    run = await run_of(place, remote, *turns, kind=kind, setup=setup)
    return [message.text for message in run.messages if isinstance(message, ToolMessage)]


async def test_a_shell_in_the_home_answers_for_no_command(place: Path, bubblewrap: str) -> None:
    plant = command(f"printf '{FORGE}' > ~/venv/bin/sh; chmod +x ~/venv/bin/sh; command -v sh; echo 2 > b")
    planted, later = await read_answers(place, plant, command("cat a; exit 3"), kind=bubblewrap, setup=True)
    assert "/venv/bin/sh" in planted
    assert "exit code 3" in later
    assert "FORGED" not in later


async def test_settings_in_the_home_are_none_of_the_server_that_is_started_again(
    place: Path, bubblewrap: str
) -> None:
    plant = command(
        f"mkdir -p ~/.config/kakite; printf '{FORGE}' > ~/format; "
        f"printf '{SETTINGS}' > ~/.config/kakite/kakite.yaml; grep after_edit ~/.config/kakite/kakite.yaml"
    )
    planted, _, edited, seen = await read_answers(
        place, plant, command(END_SERVER), CREATE, command("ls; cat /tmp/forged"), kind=bubblewrap
    )
    assert "after_edit" in planted
    assert "FORGED" not in edited + seen
    assert "new.txt" in seen


def test_a_server_takes_no_settings_and_no_program_from_a_home_that_is_not_the_persons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = tmp_path / ".config" / "kakite" / "kakite.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text('after_edit: {"*.txt": "sh format {file}"}', encoding="utf-8")
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": f"{program.parent}{os.pathsep}/nowhere"}
    theirs = {**environ, UNTRUSTED_HOME: "1"}
    assert find_ripgrep(environ) == str(program)
    assert find_ripgrep(theirs) is None
    assert load_after_edit_commands(environ, "")
    assert load_after_edit_commands(theirs, "") == ()
