"""Creates the named toolsets that ``kakite serve`` offers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from kakite.errors import UsageError
from kakite.tools.after_edit import AfterEditCommand
from kakite.tools.editor.apply_patch import create_apply_patch_tool
from kakite.tools.editor.edit_formats import DEFAULT, EditorOptions
from kakite.tools.editor.edit_lines import create_edit_lines_tool
from kakite.tools.editor.suggestions import create_accept_suggestion_tool
from kakite.tools.editor.text_editor import create_text_editor_tools
from kakite.tools.files.apply_diffs import create_apply_diffs_tool
from kakite.tools.files.read_files import create_read_tools
from kakite.tools.files.search_and_replace import create_search_and_replace_tool
from kakite.tools.files.write_files import create_move_tools, create_write_tools
from kakite.tools.function_toolset import FunctionTool, FunctionToolset
from kakite.tools.scope import Scope
from kakite.tools.search.find_in_files import create_find_in_files_tool
from kakite.tools.search.glob import create_glob_tool
from kakite.tools.shell.background_jobs import Jobs
from kakite.tools.shell.command_rules import CommandRules
from kakite.tools.shell.run_command import create_run_command_tool
from kakite.workspace import Workspace

SETS = ("editor", "files", "search", "shell")
DEFAULT_SETS = ("editor", "files")
ALLOW_ALL = CommandRules()
_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")  # what all models take, with room for the name of a command


def open_toolset(
    workspace: Workspace | None,
    names: Sequence[str] = DEFAULT_SETS,
    *,
    editor: EditorOptions = DEFAULT,
    read_only: bool = False,
    commands: CommandRules = ALLOW_ALL,
    run: str = "",
    after_edit: Sequence[AfterEditCommand] = (),
) -> FunctionToolset:
    """Return the tools of these sets, working on this workspace.

    Args:
        workspace: what the tools see; None: what each call brings (``bind_call``), else they refuse it.
        names: which sets, of ``SETS``, in the order in which their tools are listed.
        editor: how the tools that edit are offered.
        read_only: offer only what reads.
        commands: what ``run_command`` may run.
        after_edit: commands for each file that a tool has written.
        run: what the edit log calls the writes of this toolset, so that they can be undone together.

    Raises:
        UsageError: there is no such set, the editor's name is none or another tool's, or there are rules for
            commands and no commands.
    """
    _check_sets(names, commands, editor.name)
    run = run or secrets.token_hex(8)
    scope = Scope(workspace, require_read=editor.require_read, after_edit=after_edit)
    scope.shows_anchors = editor.format == "anchors"
    offers: list[FunctionTool] = []
    for name in dict.fromkeys(names):
        match name:
            case "editor":
                offers += create_text_editor_tools(scope, editor, read_only=read_only, run=run)
                offers += _create_format_tools(scope, editor, run)
            case "files":
                offers += _create_file_tools(scope, run)
                if "editor" not in names:
                    offers += [
                        create_accept_suggestion_tool(scope, run),
                        *_create_format_tools(scope, editor, run),
                    ]
            case "search":
                if "files" not in names:  # which has them
                    offers += _create_search_tools(scope)
            case _:
                offers += _create_shell_tools(scope, commands, read_only=read_only)
    _check_distinct([offer.tool.name for offer in offers])
    return FunctionToolset(*(offer for offer in offers if not read_only or offer.tool.effect == "read"))


def _check_sets(names: Sequence[str], commands: CommandRules, editor_name: str) -> None:
    for name in names:
        if name not in SETS:
            raise UsageError(f"there is no set of tools `{name}`", hint=f"use some of {', '.join(SETS)}")
    if commands != ALLOW_ALL and "shell" not in names:
        raise UsageError(
            "there are rules for commands, but no tool that runs commands", hint="add the set shell"
        )
    if not _NAME.fullmatch(editor_name):
        hint = "use up to 50 ASCII letters, digits, `_` and `-`"
        raise UsageError(f"`{editor_name}` is not a valid tool name", hint=hint)


def _create_format_tools(scope: Scope, editor: EditorOptions, run: str) -> list[FunctionTool]:
    """Return the tool for how the model edits, where it is one of its own."""
    match editor.format:
        case "anchors":
            return [create_edit_lines_tool(scope, run)]
        case "patch":
            return [create_apply_patch_tool(scope, run)]
        case _:
            return []


def _check_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two tools would be called `{name}`", hint="give the editor another name")


def _create_shell_tools(scope: Scope, commands: CommandRules, *, read_only: bool) -> list[FunctionTool]:
    jobs = Jobs(scope)
    looking = [] if read_only else jobs.create_tools()
    return [create_run_command_tool(scope, commands, jobs), *looking]


def _create_search_tools(scope: Scope) -> list[FunctionTool]:
    return [create_glob_tool(scope), create_find_in_files_tool(scope)]


def _create_file_tools(scope: Scope, run: str) -> list[FunctionTool]:
    return [
        *create_read_tools(scope),
        *_create_search_tools(scope),
        *create_write_tools(scope, run),
        *create_move_tools(scope, run),
        create_apply_diffs_tool(scope, run),
        create_search_and_replace_tool(scope, run),
    ]
