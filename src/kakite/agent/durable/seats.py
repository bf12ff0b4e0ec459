"""Which worker a story on Temporal is told at: it has a seat there, and all its steps are done there.

What a step leaves on its machine (an open sandbox, a work tree) is of use to the next one only on the same
machine, and a server hands steps to whoever asks first. So a story takes a seat: an activity that lasts until
the story rests or ends, and tells the story the queue that only its worker takes from. A worker has as many
seats as stories it may have in hand. A seat whose worker dies is seen by its heartbeats, and the story takes
another one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final, cast

from temporalio import activity
from temporalio.common import RawValue

from kakite.agent.durable.seam import Effect, Json, attempt

SEAT: Final = "kakite_seat"
"""The activity that a story sits on."""
SEATED: Final = "kakite_seated"
"""The signal that tells a story the number of its seat, and the queue of its worker."""
BEAT: Final = timedelta(seconds=1)
"""Between two signs of life of a seat, at most: a story that rises is noticed with the next one."""


class Seats:
    """The seats of one worker, and the doing of the steps of who sits there."""

    def __init__(self, effects: Mapping[str, Effect], number: int) -> None:
        self.queue = f"kakite-worker-{secrets.token_hex(8)}"
        """What only this worker takes from."""
        self._effects = effects
        self._free = asyncio.Semaphore(number)

    @activity.defn(name=SEAT)
    async def sit(self, number: int) -> None:
        """Hold a seat for a story until it rises, after waiting for one that is free."""
        info = activity.info()
        async with _beating(BEAT), self._free:
            story = activity.client().get_workflow_handle(str(info.workflow_id), run_id=info.workflow_run_id)
            await story.signal(SEATED, args=[number, self.queue])
            await asyncio.Event().wait()

    @activity.defn(dynamic=True)
    async def perform(self, args: Sequence[RawValue]) -> Json:
        """Perform a step."""
        value = cast("Json", activity.payload_converter().from_payload(args[0].payload))
        async with _beating():
            return await attempt(self._effects, activity.info().activity_type, value)


@asynccontextmanager
async def _beating(most: timedelta | None = None) -> AsyncGenerator[None]:
    """Show all the while that this process lives; cancelling is heard in the answers."""
    third = (activity.info().heartbeat_timeout or BEAT) / 3
    beating = asyncio.create_task(_beat(third if most is None else min(most, third)))
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat(between: timedelta) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(between.total_seconds())
