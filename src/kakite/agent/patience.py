"""How long a run waited for a person: that time is not the run's own."""

from __future__ import annotations

import time

from kakite.host import Answer, Approver, Question


class Patience:
    """Asks whoever is asked, and adds up how long that took. An Approver."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self.seconds = 0.0
        """All waits together."""

    async def ask(self, question: Question) -> Answer:
        """Ask the person about a call."""
        began = time.monotonic()
        try:
            return await self._approver.ask(question)
        finally:
            self.seconds += time.monotonic() - began
