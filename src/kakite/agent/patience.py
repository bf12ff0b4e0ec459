"""How long a run waited for a person, which is not the run's own time, and what a no was for."""

from __future__ import annotations

import time

from kakite.host import Answer, Approver, Question
from kakite.host.questions import PLAIN_NO


class Patience:
    """Asks whoever is asked, and adds up how long that took. An Approver."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self.seconds = 0.0
        """All waits together."""
        self.objection = ""
        """Why a person said no to the last question; empty: they did not, or gave no reason."""

    async def ask(self, question: Question) -> Answer:
        """Ask the person about a call."""
        began, self.objection = time.monotonic(), ""
        try:
            answer = await self._approver.ask(question)
        finally:
            self.seconds += time.monotonic() - began
        if not answer.allowed and not answer.nobody and answer.reason != PLAIN_NO:
            self.objection = answer.reason
        return answer
