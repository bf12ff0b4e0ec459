"""The named sets of tools that ``kakite serve`` offers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from kakite.errors import UsageError
from kakite.tools.accepting import accept_suggestion
from kakite.tools.after_edit import AfterEdit
from kakite.tools.apply_diffs import apply_diffs
from kakite.tools.apply_patch import apply_patch
from kakite.tools.edit_formats import DEFAULT, EditorOptions
from kakite.tools.edit_lines import edit_lines
from kakite.tools.find_in_files import find_in_files
from kakite.tools.glob import glob
from kakite.tools.jobs import Jobs
from kakite.tools.moves import moving_tools
from kakite.tools.offers import Offer, Offers
from kakite.tools.read_files import reading_tools
from kakite.tools.rules import CommandRules
from kakite.tools.run_command import run_command
from kakite.tools.scope import Scope
from kakite.tools.search_and_replace import search_and_replace
from kakite.tools.text_editor import text_editor
from kakite.tools.write_files import writing_tools
from kakite.workspace import Workspace

SETS = ("editor", "files", "shell")
DEFAULT_SETS = ("editor", "files")
EVERYTHING = CommandRules()
_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")  # what all models take, with room for the name of a command


def open_toolset(
    workspace: Workspace,
    names: Sequence[str] = DEFAULT_SETS,
    *,
    editor: EditorOptions = DEFAULT,
    read_only: bool = False,
    commands: CommandRules = EVERYTHING,
    run: str = "",
    after_edit: Sequence[AfterEdit] = (),
) -> Offers:
    """Return the tools of these sets, working on this workspace.

    Args:
        workspace: what the tools see.
        names: which sets, of ``SETS``, in the order in which their tools are listed.
        editor: how the tools that edit are offered.
        read_only: offer only what reads.
        commands: what ``run_command`` may run.
        after_edit: commands for each file that a tool has written.
        run: what the journal calls the writes of this toolset, so that they can be undone together.

    Raises:
        UsageError: there is no such set, the editor's name is none or another tool's, or there are rules for
            commands and no commands.
    """
    _check_sets(names, commands, editor.name)
    run = run or secrets.token_hex(8)
    scope = Scope(workspace, require_read=editor.require_read, after_edit=after_edit)
    scope.shows_anchors = editor.format == "anchors"
    offers: list[Offer] = []
    for name in dict.fromkeys(names):
        match name:
            case "editor":
                offers += text_editor(scope, editor, read_only=read_only, run=run)
                offers += _by_format(scope, editor, run)
            case "files":
                offers += _file_tools(scope, run)
                if "editor" not in names:
                    offers += [accept_suggestion(scope, run), *_by_format(scope, editor, run)]
            case _:
                jobs = Jobs(scope)
                offers += [run_command(scope, commands, jobs), *([] if read_only else jobs.offers())]
    _check_distinct([offer.tool.name for offer in offers])
    return Offers(*(offer for offer in offers if not read_only or offer.tool.effect == "read"))


def _check_sets(names: Sequence[str], commands: CommandRules, editor_name: str) -> None:
    for name in names:
        if name not in SETS:
            raise UsageError(f"there is no set of tools `{name}`", hint=f"known are {', '.join(SETS)}")
    if commands != EVERYTHING and "shell" not in names:
        raise UsageError("there are rules for commands, and no commands", hint="add the set shell")
    if not _NAME.fullmatch(editor_name):
        hint = "use up to 50 ASCII letters, digits, `_` and `-`"
        raise UsageError(f"`{editor_name}` is no name for a tool", hint=hint)


def _by_format(scope: Scope, editor: EditorOptions, run: str) -> list[Offer]:
    """Return the tool for how the model edits, where it is one of its own."""
    match editor.format:
        case "anchors":
            return [edit_lines(scope, run)]
        case "patch":
            return [apply_patch(scope, run)]
        case _:
            return []


def _check_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two tools would be called `{name}`", hint="give the editor another name")


def _file_tools(scope: Scope, run: str) -> list[Offer]:
    return [
        *reading_tools(scope),
        glob(scope),
        find_in_files(scope),
        *writing_tools(scope, run),
        *moving_tools(scope, run),
        apply_diffs(scope, run),
        search_and_replace(scope, run),
    ]
