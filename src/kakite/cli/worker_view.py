"""What a worker shows on a terminal: the steps of its tasks as they are done. Elsewhere plain lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from kakite.cli.screen import visible

if TYPE_CHECKING:
    from kakite.agent.events import Event
    from kakite.cli.terminal import Terminal


class WorkerView:
    """One worker's lines, and on a terminal its tasks' steps."""

    def __init__(self) -> None:
        self._terminal = _terminal() if sys.stderr.isatty() else None
        self.at_once: Callable[[], int] = lambda: 1
        """How many tasks are under way."""
        self.begun: Callable[[str], None] = lambda _task: None
        """Is told of each task that this worker is at."""

    def say(self, line: str) -> None:
        """Print a line of the worker's own."""
        if self._terminal is None:
            typer.echo(visible(line), err=True)
        else:
            self._terminal.say(line)

    def hear(self, task: str, event: Event) -> None:
        """Show what happens in a task."""
        self.begun(task)
        if self._terminal is not None:
            from kakite.agent.shift import short_of

            self._terminal.show(event, of=f"{short_of(task)} " if self.at_once() > 1 else "")

    def close(self) -> None:
        """Stop what moves on the screen."""
        if self._terminal is not None:
            self._terminal.close()


def _terminal() -> Terminal:
    from kakite.cli.terminal import Terminal

    return Terminal()
