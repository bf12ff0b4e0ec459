"""``kakite agent rm``: runs of this machine are removed, and none by mistake."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner, Result

from kakite.agent.run.state import RunState, Task
from kakite.agent.run.store import RunFolder, RunStore
from kakite.cli.agent.run import app
from kakite.errors import KakiteError
from kakite.workspace import ensure_state_folder

DAY = 24 * 60 * 60


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def store(phase: Literal["act", "done"] = "done", *, age: int = 0) -> RunFolder:
    """Store a run that was saved so many days ago."""
    record = RunStore(ensure_state_folder(os.environ)).create_run()
    task = Task(
        id=record.id,
        text="Greet",
        repository="/repository",
        branch="topic",
        model="openai:x",
        sandbox="local",
        approve="ask",
        max_turns=9,
    )
    with record.lock():
        record.save(replace(RunState(task=task, base="0" * 40), phase=phase))
    record.task.mkdir()
    (record.task / "work").write_bytes(b"not pushed")
    then = record.file.stat().st_mtime - age * DAY - 1
    os.utime(record.file, (then, then))
    return record


def rm(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rm", *arguments])


def kept() -> set[str]:
    return {record.id for record in RunStore(ensure_state_folder(os.environ)).list_runs()}


def test_what_is_named_is_removed_with_all_of_it_and_nothing_else() -> None:
    one, other, third = store(), store(), store()
    done = rm(one.id, third.id[:6])
    assert (done.exit_code, done.stdout.split()) == (0, [one.id, third.id])
    assert kept() == {other.id}
    assert not one.folder.exists()
    assert not third.folder.exists()


def test_a_run_that_can_be_resumed_is_removed_by_force_alone() -> None:
    ended, unfinished = store(), store("act")
    refused = rm(ended.id, unfinished.id)
    assert isinstance(refused.exception, KakiteError)
    assert (refused.exception.code, unfinished.id in refused.exception.hint) == ("run_unfinished", True)
    assert kept() == {ended.id, unfinished.id}, "none of them is removed"
    assert rm("--force", ended.id, unfinished.id).exit_code == 0
    assert kept() == set()


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_run_that_a_process_works_on_stays(force: tuple[str, ...]) -> None:
    other, record = store(), store()
    with record.lock():
        refused = rm(other.id, record.id, *force)
        old = rm("--older-than", "0", *force, "--json")
    assert isinstance(refused.exception, KakiteError)
    assert refused.exception.code == "run_busy"
    assert json.loads(old.stdout) == {"removed": [other.id]}
    assert kept() == {record.id}


def test_old_ones_are_removed_together_the_unfinished_by_force_alone() -> None:
    new, old, unfinished = store(age=29), store(age=30), store("act", age=31)
    done = rm("--older-than", "30", "--json")
    assert json.loads(done.stdout) == {"removed": [old.id]}
    assert kept() == {new.id, unfinished.id}
    assert rm("--older-than", "30", "--force").stdout.split() == [unfinished.id]
    assert kept() == {new.id}


def test_a_run_of_which_something_cannot_be_removed_is_still_listed() -> None:
    record = store()
    elsewhere = record.folder.parent / "elsewhere"
    record.task.rename(elsewhere)
    record.task.symlink_to(elsewhere)  # nothing behind a link is removed
    failed = rm(record.id)
    assert isinstance(failed.exception, OSError)
    assert kept() == {record.id}
    assert (elsewhere / "work").exists()


def test_one_that_nobody_can_read_is_removed_by_its_id() -> None:
    record = store()
    record.file.write_bytes(b"{}\n")
    assert rm(record.id).exit_code == 0
    assert kept() == set()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "bad_usage"),
        (("no-such-run",), "task_unknown"),
        (("..",), "task_unknown"),
        (("",), "task_unknown"),
    ],
)
def test_what_names_no_run_removes_nothing(arguments: tuple[str, ...], code: str) -> None:
    record = store()
    refused = rm(*arguments)
    assert isinstance(refused.exception, KakiteError)
    assert refused.exception.code == code
    assert kept() == {record.id}
