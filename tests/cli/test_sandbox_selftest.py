"""``kakite doctor --sandbox``, through the command."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from kakite.cli import sandbox_selftest
from kakite.cli.app import app
from kakite.processes import supervisor
from kakite.sandbox.selftest.cases import EscapeCase, load_cases
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, skip_without
from tests.cli.terminal import Terminal
from tests.sandbox.conftest import wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few attempts of each kind; all of them are tried in the tests of the sandbox."""
    names = {"read file", "kill", "mount", "fork bomb", "hooks"}
    chosen = tuple(attempt for attempt in load_cases() if attempt.name in names)
    monkeypatch.setattr("kakite.sandbox.selftest.cases.load_cases", lambda: chosen)


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_it_prints_what_was_tried_and_how_it_went() -> None:
    result = CliRunner().invoke(app, ["doctor", "--sandbox", "--json"])
    document = json.loads(result.stdout)
    by_name = {kind["name"]: kind for kind in document["sandboxes"]}
    assert by_name["local"]["attempts"] == []
    if not by_name["bubblewrap"]["available"]:
        pytest.skip("bubblewrap does not work here")
    assert (document["ok"], result.exit_code) == (True, 0)
    assert by_name["bubblewrap"]["held"] == 5
    assert set(by_name["bubblewrap"]["attempts"][0]) == {"name", "harm", "tries", "state", "told", "seconds"}


def test_an_escape_is_told_and_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    out = EscapeCase(name="out", harm="files", tries="get out", program="report_escape('here')")
    monkeypatch.setattr("kakite.sandbox.selftest.cases.load_cases", lambda: (out,))
    result = CliRunner().invoke(app, ["doctor", "--sandbox"])
    assert result.exit_code == 1
    if "bubblewrap: 0 of 1" not in result.stdout:
        pytest.skip("bubblewrap does not work here")
    assert "✗" in result.stdout
    assert "get out" in result.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_what_was_held_is_listed_on_demand_only() -> None:
    short, long = (
        CliRunner().invoke(app, ["doctor", "--sandbox", *words]).stdout for words in ([], ["--verbose"])
    )
    if "bubblewrap: 5 of 5" not in short:
        pytest.skip("bubblewrap does not work here")
    assert "✓" not in short
    assert "--verbose" in short
    assert long.count("✓") >= 5


@pytest.mark.slow
def test_at_a_terminal_it_is_told_what_is_being_tried(tmp_path: Path) -> None:
    skip_without("bubblewrap")
    terminal = Terminal(argv("doctor", "--sandbox"), environment(tmp_path), tmp_path)
    terminal.expect("ways out of bubblewrap")
    first, *_ = load_cases()
    terminal.expect(f"attempt  1/{len(load_cases())}  bubblewrap: {first.tries}")
    terminal.press("\x03")
    assert terminal.wait() == 130


def test_the_work_in_a_repository_is_the_agents_own() -> None:
    assert "Worktree" in sandbox_selftest.work_in_repository.__code__.co_names


@contextmanager
def proving(temporary: Path) -> Generator[subprocess.Popen[bytes]]:
    """The command, in the midst of an attempt."""
    environ = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "kakite", "doctor", "--sandbox", "--json"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as doctor:
        end = time.monotonic() + WITHIN
        while not list(temporary.glob("kakite-stage-*")) and doctor.poll() is None:
            assert time.monotonic() < end
            select.select([], [], [], 0.05)
        if doctor.poll() == 0:
            pytest.skip("nothing that isolates works here")
        yield doctor


@pytest.mark.slow
def test_a_signal_leaves_no_folder_behind(tmp_path: Path) -> None:
    with proving(tmp_path) as doctor:
        doctor.send_signal(signal.SIGTERM)
        _, told = doctor.communicate(timeout=WITHIN)
    assert doctor.returncode == 130
    assert told.startswith(b"Trying ")  # once, as this is no terminal
    assert told.count(b"\n") == 1
    assert list(tmp_path.glob("kakite-*")) == []


@pytest.mark.slow
def test_what_a_killed_one_leaves_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proving(tmp_path) as doctor:
        started = supervisor.list_descendants(doctor.pid)
        doctor.kill()
    for pid in started:
        with suppress(ProcessLookupError):
            wait_until_gone(pid)
    assert {path.name.split("-")[1] for path in tmp_path.glob("kakite-*")} >= {"proof", "stage"}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    held = EscapeCase(name="held", harm="files", tries="nothing", program="pass")
    monkeypatch.setattr("kakite.sandbox.selftest.cases.load_cases", lambda: (held,))
    assert CliRunner().invoke(app, ["doctor", "--sandbox"]).exit_code == 0
    assert list(tmp_path.glob("kakite-*")) == []
