"""Groups of commands whose help lists what is needed most first."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class _Ordered(TyperGroup):
    """A group that lists the commands of ``first`` before the others."""

    first: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order in which they are to be read."""
        known = super().list_commands(ctx)
        leading = [name for name in self.first if name in known]
        return leading + [name for name in known if name not in leading]


class Program(_Ordered):
    """``kakite`` itself."""

    first = (
        *("edit", "serve", "host", "agent", "debate", "collab", "sandbox"),
        *("undo", "history", "doctor"),
    )


class AgentCommands(_Ordered):
    """``kakite agent``: a run of one's own, workers and their tasks, then what looks at both."""

    first = (
        *("run", "demo", "resume", "list"),
        *("worker", "submit", "show", "pause", "approve", "cancel", "logs", "web", "export"),
    )
