"""A session may be killed at any moment: what was answered is there, and nothing is done twice."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kakite.agent.observe.events import ToolResultEvent
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder
from kakite.models.messages import Reply, ToolMessage, UserMessage
from tests.agent.session import killed
from tests.agent.session.chats import Chat, run_command, say, text
from tests.bounds import WITHIN

CALLS = 12
SAVES = 3 * CALLS
"""About how often a session of so many calls is stored: after a reply, before its call, after the result."""


def go_on(folder: Path, project: Path, deaths: list[int]) -> tuple[int, int]:
    """Go on with the session until it ends or dies; return the exit code and how many messages it stored."""
    words = [sys.executable, killed.__file__, str(folder), str(project), str(CALLS), *map(str, deaths)]
    done = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", timeout=WITHIN, check=False)
    told = done.stdout.split()
    return done.returncode, int(told[-1]) if told else 0


@pytest.mark.slow
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


@pytest.mark.anyio
async def test_a_call_is_told_as_done_also_where_the_person_interrupts_while_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = Chat(
        folder=tmp_path / "run", project=tmp_path / "mine", turns=(run_command("echo x >> log"), say("Done."))
    )
    loop, save = asyncio.get_running_loop(), RunFolder.save
    async with chat.open() as session:

        async def interrupt() -> None:
            session.interrupt()

        def save_slowly(record: RunFolder, run: RunState) -> None:
            save(record, run)
            if isinstance(run.messages[-1], ToolMessage) and run.phase == "chat":
                asyncio.run_coroutine_threadsafe(interrupt(), loop).result(WITHIN)

        monkeypatch.setattr(RunFolder, "save", save_slowly)
        result = await session.prompt(text("go"))
        assert result.reason == "interrupted"
        (told,) = (message for message in session.run.messages if isinstance(message, ToolMessage))
    assert not told.is_error
    assert (chat.project / "log").read_text(encoding="utf-8") == "x\n"


@pytest.mark.anyio
async def test_a_result_is_shown_once_it_is_stored(tmp_path: Path) -> None:
    chat = Chat(folder=tmp_path / "run", project=tmp_path / "mine", turns=(run_command("true"), say("Done.")))
    stored: list[int] = []

    class Watching(list[object]):
        def append(self, event: object) -> None:
            if isinstance(event, ToolResultEvent):
                messages = RunFolder(chat.folder).load().messages
                stored.extend(isinstance(message, ToolMessage) for message in messages[-1:])

    chat.events = Watching()  # pyright: ignore[reportAttributeAccessIssue] - its `append` alone is used
    async with chat.open() as session:
        await session.prompt(text("go"))
    assert stored == [True]
