"""A session for the tests that is killed while its files are brought back; run as a program.

``killed_rewind.py FOLDER PROJECT``: works in two turns, says ``ready``, rewinds to before the second, and
says ``done``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.agent.session.chats import Chat, run_command, say, text

FILES = 300
FIRST = f"for n in $(seq {FILES}); do echo first > $n; done"
SECOND = f"for n in $(seq {FILES}); do echo second > $n; done; echo x > new; rm 1"


def create_chat(folder: Path, project: Path) -> Chat:
    """Return the session of these tests."""
    turns = (run_command(FIRST), say("One."), run_command(SECOND), say("Two."))
    return Chat(folder=folder, project=project, turns=turns)


async def main(folder: Path, project: Path) -> None:
    async with create_chat(folder, project).open() as session:
        await session.prompt(text("first"))
        await session.prompt(text("second"))
        print("ready", flush=True)  # noqa: T201 - told to the test
        await session.rewind(session.run.points[1])
        print("done", flush=True)  # noqa: T201 - told to the test


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
