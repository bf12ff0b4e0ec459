"""A session may be killed at any moment: what was answered is there, and nothing is done twice."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kakite.agent.run.store import RunFolder
from kakite.models.messages import Reply, ToolMessage, UserMessage
from tests.agent.session import killed
from tests.bounds import WITHIN

pytestmark = pytest.mark.slow

CALLS = 12
SAVES = 3 * CALLS
"""About how often a session of so many calls is stored: after a reply, before its call, after the result."""


def go_on(folder: Path, project: Path, deaths: list[int]) -> tuple[int, int]:
    """Go on with the session until it ends or dies; return the exit code and how many messages it stored."""
    words = [sys.executable, killed.__file__, str(folder), str(project), str(CALLS), *map(str, deaths)]
    done = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", timeout=WITHIN, check=False)
    told = done.stdout.split()
    return done.returncode, int(told[-1]) if told else 0


@pytest.mark.timeout(2400)
def test_killed_at_any_save_nothing_is_lost_and_nothing_is_done_twice(
    tmp_path: Path, proof: bool, seed: int
) -> None:
    drawn = random.Random(seed)
    for number in range(40 if proof else 1):
        folder, project = tmp_path / f"s{number}", tmp_path / f"p{number}"
        project.mkdir()
        deaths = [drawn.choice((-1, 1)) * at for at in sorted(drawn.sample(range(3, SAVES), 5))]
        code, stored = -9, 0
        for _ in range(len(deaths) + 1):
            code, told = go_on(folder, project, deaths)
            stored = max(stored, told)
            if RunFolder(folder).file.exists():
                assert len(RunFolder(folder).load().messages) >= stored, deaths
            if code == 0:
                break
            assert code == -9
        assert code == 0, deaths
        check_session(folder, project)


def check_session(folder: Path, project: Path) -> None:
    """Each call has one result; what was answered was done once, and what was cut off once at most."""
    run = RunFolder(folder).load()
    assert run.phase == "idle"
    assert run.summary == "all done"
    calls = [call.id for message in run.messages if isinstance(message, Reply) for call in message.calls]
    results = [message for message in run.messages if isinstance(message, ToolMessage)]
    assert calls == [result.call_id for result in results] == [f"c{number}" for number in range(CALLS)]
    log = (project / "log").read_text(encoding="utf-8").split()
    assert len(log) == len(set(log)), "a command ran twice"
    answered = {result.call_id[1:] for result in results if not result.is_error}
    assert answered <= set(log)
    said = [
        message.text for message in run.messages if isinstance(message, UserMessage) and message.from_person
    ]
    assert said == ["go on"] * len(said)
