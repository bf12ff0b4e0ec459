"""A task asks its person after about 45 minutes, however long a provider wants it to wait."""

from __future__ import annotations

import anyio.lowlevel
import pytest

from kakite.agent.worker.workflow import RETRY_DELAYS
from tests.agent.test_workflow import DONE, DOWN, START, Steps, told
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio
YEARS = 10 * 365 * 86_400.0  # s


async def test_a_provider_that_wants_years_is_told_to_the_person() -> None:
    steps = Steps(advance=[{**DOWN, "after": YEARS}, DONE])
    async with told(steps) as client:

        async def waits() -> bool:
            return (await client.describe(START["id"])).topic == "pause"

        await until(waits)
        client.advance(10 * sum(RETRY_DELAYS))  # seven hours
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        assert (await client.describe(START["id"])).topic != "pause"
