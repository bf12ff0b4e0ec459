"""The named sets of tools that ``kakite serve`` offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kakite.errors import UsageError
from kakite.tools.offers import Offer, Offers
from kakite.tools.run_command import run_command
from kakite.tools.text_editor import text_editor
from kakite.workspace import Workspace

SETS: dict[str, Callable[[Workspace], Offer]] = {
    "editor": text_editor,
    "shell": lambda workspace: run_command(workspace.roots[0]),
}


def open_toolset(workspace: Workspace, names: Sequence[str]) -> Offers:
    """Return the tools of these sets, working on this workspace.

    Raises:
        UsageError: there is no such set.
    """
    for name in names:
        if name not in SETS:
            raise UsageError(f"there is no set of tools `{name}`", hint=f"known are {', '.join(SETS)}")
    return Offers(*(SETS[name](workspace) for name in names))
