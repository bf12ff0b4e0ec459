"""`/rewind` with a number of any length is answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kakite.agent.acp.commands import EditorCommands
from kakite.errors import KakiteError

pytestmark = pytest.mark.anyio


async def test_a_number_of_thousands_of_digits_is_no_point() -> None:
    session = cast("Any", SimpleNamespace(is_running=False, run=SimpleNamespace(points=())))
    view = cast("Any", SimpleNamespace(send=print))
    with pytest.raises(KakiteError):
        await EditorCommands(view).run(session, "/rewind " + "9" * 5000)


async def test_going_back_in_the_conversation_alone_leaves_the_files_to_undo() -> None:
    restored = SimpleNamespace(changes=SimpleNamespace(files=("a",)), skipped=())
    point = SimpleNamespace(text="one")

    async def rewind(_point: object, *, files: bool, conversation: bool) -> object:
        assert files != conversation
        return restored if files else None

    async def undo_rewind(given: object) -> object:
        assert given is restored
        return restored

    session = cast(
        "Any",
        SimpleNamespace(
            is_running=False, run=SimpleNamespace(points=(point,)), rewind=rewind, undo_rewind=undo_rewind
        ),
    )
    commands = EditorCommands(cast("Any", SimpleNamespace(send=print)))
    assert await commands.run(session, "/rewind 1 files")
    assert await commands.run(session, "/rewind 1 conversation")
    assert await commands.run(session, "/undo")
