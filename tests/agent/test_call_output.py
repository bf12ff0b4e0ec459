"""What a command prints is shown while it runs: the latest, and not more often than wanted."""

from __future__ import annotations

import pytest

from kakite.agent.run.call_output import watch_output
from kakite.tools.call_context import current_call, report
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio


async def test_the_latest_is_shown_after_a_pause() -> None:
    shown: list[str] = []
    with watch_output(shown.append, 0.01):
        for number in range(100):
            report(number, f"line {number}")
        assert shown == ["line 0"]
        await until(lambda: len(shown) == 2)
        assert shown == ["line 0", "line 99"]
    assert current_call().on_progress is None


async def test_what_is_under_way_at_the_end_is_not_shown_later() -> None:
    shown: list[str] = []
    with watch_output(shown.append, 1000.0):
        report(1, "one")
        report(2, "two")
    assert shown == ["one"]
