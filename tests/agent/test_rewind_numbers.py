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
