"""The named sets of tools that ``kakite serve`` offers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from kakite.errors import UsageError
from kakite.tools.offers import Offer, Offers
from kakite.tools.rules import CommandRules
from kakite.tools.run_command import run_command
from kakite.tools.text_editor import EDITOR_NAME, text_editor
from kakite.workspace import Workspace

SETS = ("editor", "files", "shell")
DEFAULT_SETS = ("editor", "files")
EVERYTHING = CommandRules()


def open_toolset(
    workspace: Workspace,
    names: Sequence[str] = DEFAULT_SETS,
    *,
    editor_name: str = EDITOR_NAME,
    split_editor: bool = False,
    read_only: bool = False,
    commands: CommandRules = EVERYTHING,
    run: str = "",
) -> Offers:
    """Return the tools of these sets, working on this workspace.

    Args:
        workspace: what the tools see.
        names: which sets, of ``SETS``, in the order in which their tools are listed.
        editor_name: what ``text_editor`` is called.
        split_editor: offer a tool for each of its commands, ``text_editor_view`` and so on.
        read_only: offer only what reads.
        commands: what ``run_command`` may run.
        run: what the journal calls the writes of this toolset, so that they can be undone together.

    Raises:
        UsageError: there is no such set.
    """
    for name in names:
        if name not in SETS:
            raise UsageError(f"there is no set of tools `{name}`", hint=f"known are {', '.join(SETS)}")
    run = run or secrets.token_hex(8)
    offers: list[Offer] = []
    if "editor" in names:
        offers += [text_editor(workspace)]
    if "shell" in names:
        offers += [run_command(workspace.roots[0], commands)]
    return Offers(*(offer for offer in offers if not read_only or offer.tool.effect == "read"))
