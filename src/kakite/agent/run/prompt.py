"""Builds the system prompt of a run from the files of ``prompts/``. Pure.

The chosen parts depend only on what the run has, so the same inputs give the same bytes, and a provider's
prompt cache stays valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kakite.agent.run.state import RunState
from kakite.models.messages import UserMessage
from kakite.processes import Network
from kakite.prompt_files import make_prompt_loader
from kakite.tools.editor.edit_formats import EditFormat

load_prompt = make_prompt_loader("kakite.agent")
"""Returns the text of ``prompts/NAME.md``."""


EditorKind = Literal["own", "other", "none"]
"""Kakite's ``text_editor``; the tools of another server; none: files are changed by commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInputs:
    """The inputs of a system prompt: what a run has to work with."""

    project: str
    """The checkout, as programs inside of the sandbox see it."""
    network: Network = "off"
    editor: EditorKind = "own"
    edit_format: EditFormat = "quote"
    """How text is named that Kakite's own editor changes."""
    editor_name: str = ""
    """Of another editor, what its server is called."""
    editor_tools: tuple[str, ...] = ()
    """And its tools."""
    servers: tuple[str, ...] = ()
    """Further servers whose tools are offered."""
    conversation: bool = False
    """Whether a person takes part, in their own folder; else it is a run, in a clone of its own."""
    commits: bool = False
    """Whether the model of a conversation can commit, by a tool."""
    branch: str = ""
    """The branch of the git worktree that a conversation works in; empty: it is the person's own folder."""
    subagent: bool = False
    """Whether it is a sub-agent, which only looks."""
    skills: str = ""
    """The list of skills; empty: there are none."""


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One part of the system prompt."""

    name: str
    """What it says, for comparing: parts of one name say the same."""
    text: str


def build_prompt_parts(equipment: PromptInputs) -> tuple[PromptPart, ...]:
    """Return the parts: what is to be done, commands, the editor, git, further tools, and the rules last."""
    if equipment.subagent:
        return (_build_part("system_task", project=equipment.project), *_build_skill_parts(equipment.skills))
    network = f"system_network_{equipment.network}"
    kind = "_chat" if equipment.conversation else ""
    return (
        _build_part(f"system{kind}", project=equipment.project),
        PromptPart(
            f"commands, network {equipment.network}",
            _join_texts(load_prompt("system_commands"), load_prompt(network)),
        ),
        _build_editor_part(equipment),
        *_build_git_parts(equipment),
        *_build_server_parts(equipment.servers),
        *_build_skill_parts(equipment.skills),
        _build_part(f"system_rules{kind}"),
    )


def update_system_prompt(run: RunState, chosen: Sequence[PromptPart]) -> RunState:
    """Return the run whose model knows what it has to work with. For right before it is asked.

    The first time that is what it is told before anything else, and stays these very bytes; what is another
    later on is a message, so that nothing that was said before changes.
    """
    names = tuple(part.name for part in chosen)
    if not run.system:
        return replace(run, system=_join_texts(*(part.text for part in chosen)) + "\n", equipment=names)
    fresh = [part.text for part in chosen if part.name not in run.equipment]
    if _has_servers(run.equipment) and not _has_servers(names):
        fresh.append(_NO_SERVERS)
    run = replace(run, equipment=names)
    if not fresh:
        return run
    told = UserMessage(text=load_prompt("tools_changed").format(parts=_join_texts(*fresh)).strip())
    return replace(run, messages=(*run.messages, told))


_SERVERS_PREFIX = "servers: "
_NO_SERVERS = "The further tools are not there any more."


def _has_servers(names: Sequence[str]) -> bool:
    return any(name.startswith(_SERVERS_PREFIX) for name in names)


_EDITORS: Mapping[EditFormat, str] = {
    "quote": "system_editor",
    "anchors": "system_editor_anchors",
    "patch": "system_editor_patch",
}


def _build_editor_part(equipment: PromptInputs) -> PromptPart:
    match equipment.editor:
        case "own":
            return _build_part(_EDITORS[equipment.edit_format])
        case "none":
            return _build_part("system_no_editor")
        case "other":
            return _build_part(
                "system_other_editor",
                editor=equipment.editor_name,
                tools=_format_names(equipment.editor_tools),
                project=equipment.project,
            )


def _build_git_parts(equipment: PromptInputs) -> tuple[PromptPart, ...]:
    if not equipment.conversation:
        return (_build_part("system_git"),)
    git = _build_part("system_git_commit" if equipment.commits else "system_git_chat")
    if not equipment.branch:
        return (git,)
    return (git, _build_part("system_git_worktree", branch=equipment.branch))


def _build_server_parts(names: Sequence[str]) -> tuple[PromptPart, ...]:
    if not names:
        return ()
    told = load_prompt("system_servers").format(servers=_format_names(names))
    return (PromptPart(f"{_SERVERS_PREFIX}{', '.join(names)}", told.strip()),)


def _build_skill_parts(skills: str) -> tuple[PromptPart, ...]:
    if not skills:
        return ()
    return (PromptPart("skills", load_prompt("system_skills").format(skills=skills.strip()).strip()),)


def _build_part(name: str, **values: str) -> PromptPart:
    return PromptPart(name, load_prompt(name).format(**values).strip())


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _join_texts(*texts: str) -> str:
    return "\n\n".join(text.strip() for text in texts)
