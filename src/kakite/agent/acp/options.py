"""What a person can choose in a session: modes, options, commands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from acp import schema

from kakite.models.model import EFFORTS

if TYPE_CHECKING:
    from kakite.agent.run.state import RunState
    from kakite.agent.session.context import SlashCommand

MODES = (
    ("ask", "Ask", "Kakite asks before each edit and command"),
    ("edits", "Edit", "Kakite edits files without asking, and asks before each command"),
    ("all", "Everything", "Kakite asks nothing"),
    ("plan", "Plan", "The model only looks, and answers with a plan"),
)
COMMANDS = (
    ("compact", "Shorten what the model is shown of the conversation", ""),
    (
        "rewind",
        "Go back to before one of your messages",
        "which message, and what: both, files, conversation",
    ),
    ("undo", "Take back the last rewind", ""),
    ("diff", "Show what has changed since the session began", ""),
    (
        "commit",
        "Commit what has changed since the session began",
        "the message; without one the model writes it",
    ),
    ("rename", "Give the session another title", "the title"),
    ("cost", "Show tokens, cost and time", ""),
    ("context", "Show what fills the model's context", ""),
    ("tools", "List the model's tools", ""),
    ("help", "List the commands", ""),
)
"""The commands that Kakite carries out itself: what each does, and what may stand behind it."""
PROVIDER_EFFORT = "default"
"""The effort that stands for none: what the provider does by itself."""


def build_modes(run: RunState) -> schema.SessionModeState:
    """Return the modes, and which one is on."""
    modes = [schema.SessionMode(id=name, name=shown, description=told) for name, shown, told in MODES]
    return schema.SessionModeState(current_mode_id=run.task.approve, available_modes=modes)


def build_options(run: RunState, models: Iterable[str]) -> list[Any]:
    """Return the options as they stand; of models those, and the one that is on."""
    modes = [
        schema.SessionConfigSelectOption(value=name, name=shown, description=told)
        for name, shown, told in MODES
    ]
    efforts = [
        schema.SessionConfigSelectOption(value=level, name=level) for level in (PROVIDER_EFFORT, *EFFORTS)
    ]
    names = dict.fromkeys((run.task.model, *models))
    choices = [schema.SessionConfigSelectOption(value=name, name=name) for name in names if name]
    return [
        _build_select("mode", "What goes without asking", run.task.approve, modes),
        _build_select("model", "Model", run.task.model, choices),
        _build_select("effort", "How much the model thinks", run.task.effort or PROVIDER_EFFORT, efforts),
    ]


def build_commands(own: Sequence[SlashCommand]) -> schema.AvailableCommandsUpdate:
    """Return the update that names all commands: the project's and the person's, and ours."""
    commands = [_build_command(*each) for each in list_commands(own)]
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update", available_commands=commands
    )


def list_commands(own: Sequence[SlashCommand]) -> Sequence[tuple[str, str, str]]:
    """Return the commands, ours first: the name of each, what it does, and what may stand behind it."""
    ours = {name for name, _, _ in COMMANDS}
    further = (
        (
            command.name,
            command.description or f"Send the message of {command.path}",
            command.argument_hint or "what to add",
        )
        for command in own
        if command.name not in ours
    )
    return (*COMMANDS, *further)


def _build_command(name: str, told: str, hint: str) -> schema.AvailableCommand:
    after = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint)) if hint else None
    return schema.AvailableCommand(name=name, description=told, input=after)


def _build_select(
    option: Literal["mode", "model", "effort"],
    name: str,
    current: str,
    choices: list[schema.SessionConfigSelectOption],
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=option,
        name=name,
        category="thought_level" if option == "effort" else option,
        current_value=current,
        options=choices,
    )
