"""Events of what was done are shown once that is stored: what a person has seen is there after a kill."""

from __future__ import annotations

from kakite.agent.observe.events import (
    ModelReplyEvent,
    PlanCreated,
    PlanUpdated,
    RunEvent,
    RunListener,
    ToolResultEvent,
)

_OUTCOMES = (ModelReplyEvent, ToolResultEvent, PlanCreated, PlanUpdated)


class EventBuffer:
    """Passes events on in their order; those that tell an outcome wait for ``flush``, and all after them."""

    def __init__(self, listener: RunListener) -> None:
        self._listener = listener
        self._waiting: list[RunEvent] = []

    def show(self, event: RunEvent) -> None:
        """Pass an event on, or keep it. A RunListener."""
        if self._waiting or isinstance(event, _OUTCOMES):
            self._waiting.append(event)
        else:
            self._listener(event)

    def flush(self) -> None:
        """Pass on what waits: it is stored."""
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._listener(event)
