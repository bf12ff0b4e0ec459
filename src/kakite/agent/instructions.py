"""What a model is told of its work before anything else: which parts, in which order. Pure.

The parts are files of ``prompts/``. Which are chosen depends on what is there alone, so that the same
circumstances give the same bytes, and a provider's cache of them stays valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kakite.agent.phrases import prompt
from kakite.agent.run import Run
from kakite.models.messages import UserMessage
from kakite.processes import Network
from kakite.tools.edit_formats import EditFormat

EditorKind = Literal["own", "other", "none"]
"""Kakite's ``text_editor``; the tools of another server; none: files are changed by commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What a run has to work with."""

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


@dataclass(frozen=True, slots=True)
class Part:
    """One part of what the model is told first."""

    name: str
    """What it says, for comparing: parts of one name say the same."""
    text: str


def parts(equipment: Equipment) -> tuple[Part, ...]:
    """Return the parts: what is to be done, commands, the editor, git, further tools, and the rules last."""
    network = f"system_network_{equipment.network}"
    return (
        _part("system", project=equipment.project),
        Part(f"commands, network {equipment.network}", _joined(prompt("system_commands"), prompt(network))),
        _editor(equipment),
        _part("system_git"),
        *_servers(equipment.servers),
        _part("system_rules"),
    )


def equipped(run: Run, chosen: Sequence[Part]) -> Run:
    """Return the run whose model knows what it has to work with. For right before it is asked.

    The first time that is what it is told before anything else, and stays these very bytes; what is another
    later on is a message, so that nothing that was said before changes.
    """
    names = tuple(part.name for part in chosen)
    if not run.system:
        return replace(run, system=_joined(*(part.text for part in chosen)) + "\n", equipment=names)
    fresh = [part.text for part in chosen if part.name not in run.equipment]
    if _had_servers(run.equipment) and not _had_servers(names):
        fresh.append(_NO_SERVERS)
    run = replace(run, equipment=names)
    if not fresh:
        return run
    told = UserMessage(text=prompt("equipment").format(parts=_joined(*fresh)).strip())
    return replace(run, messages=(*run.messages, told))


_SERVERS = "servers: "
_NO_SERVERS = "The further tools are not there any more."


def _had_servers(names: Sequence[str]) -> bool:
    return any(name.startswith(_SERVERS) for name in names)


_EDITORS: Mapping[EditFormat, str] = {
    "quote": "system_editor",
    "anchors": "system_editor_anchors",
    "patch": "system_editor_patch",
}


def _editor(equipment: Equipment) -> Part:
    match equipment.editor:
        case "own":
            return _part(_EDITORS[equipment.edit_format])
        case "none":
            return _part("system_no_editor")
        case "other":
            return _part(
                "system_other_editor",
                editor=equipment.editor_name,
                tools=_listed(equipment.editor_tools),
                project=equipment.project,
            )


def _servers(names: Sequence[str]) -> tuple[Part, ...]:
    if not names:
        return ()
    told = prompt("system_servers").format(servers=_listed(names))
    return (Part(f"{_SERVERS}{', '.join(names)}", told.strip()),)


def _part(name: str, **values: str) -> Part:
    return Part(name, prompt(name).format(**values).strip())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _joined(*texts: str) -> str:
    return "\n\n".join(text.strip() for text in texts)
