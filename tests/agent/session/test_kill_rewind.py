"""A session may be killed while it brings files back: nothing is lost, and the model is told."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.store import RunFolder
from kakite.agent.session.checkpoints import Checkpoints
from tests.agent.session import killed_rewind
from tests.agent.session.killed_rewind import FILES, create_chat
from tests.bounds import WITHIN

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.timeout(2400)]

KILLS, PROOF = 4, 40


def read_files(project: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8").strip() for file in project.iterdir()}


def rewind(folder: Path, project: Path, delay: float | None) -> float:
    """Let a session rewind, and kill it so long after it began to; return how long it lived from then on."""
    words = [sys.executable, "-m", killed_rewind.__name__, str(folder), str(project)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == b"ready\n"
            began = time.monotonic()
            # Its end is what we wait for; the kill falls where the time for that is over.
            ready, _, _ = select.select([process.stdout], [], [], WITHIN if delay is None else delay)
            assert ready or delay is not None
            return time.monotonic() - began
        finally:
            process.kill()


async def test_killed_within_a_rewind_nothing_is_lost_and_it_can_be_ended(
    tmp_path: Path, proof: bool, seed: int
) -> None:
    drawn = random.Random(seed)
    before = dict.fromkeys(map(str, range(1, FILES + 1)), "first")
    after = {**dict.fromkeys(map(str, range(2, FILES + 1)), "second"), "new": "x"}
    whole = rewind(tmp_path / "run", tmp_path / "mine", None)
    assert read_files(tmp_path / "mine") == before
    cut = 0
    for number in range(PROOF if proof else KILLS):
        folder, project = tmp_path / f"run{number}", tmp_path / f"mine{number}"
        rewind(folder, project, drawn.uniform(0, whole))
        found, run = read_files(project), RunFolder(folder).load()
        told = load_prompt("rewinding").format(text="second").strip()
        went_back = len(run.points) == 1
        assert found == before if went_back else told in run.notes or found == after
        cut += found not in (before, after)
        async with create_chat(folder, project).open() as session:
            if not went_back:  # the person does it again
                await session.rewind(session.run.points[1])
            assert read_files(project) == before
            assert [point.text for point in session.run.points] == ["first"]
            assert told not in session.run.notes
        await check_undo(folder, project, after)
    assert cut or not proof, "no kill fell into the middle of a rewind"


async def check_undo(folder: Path, project: Path, after: dict[str, str]) -> None:
    """What the rewind changed can be brought back: the first checkpoint that it made has all of it."""
    kept = Checkpoints(project, folder / "checkpoints", environ=os.environ)
    undo = next(each for each in await kept.list() if each.label.startswith("Before going back to"))
    await kept.restore(undo)
    assert read_files(project) == after
