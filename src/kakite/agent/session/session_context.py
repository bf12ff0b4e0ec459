"""All that a session is given besides its messages: loaded when it begins, and used by every front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kakite.agent.run.state import ProjectInstruction
from kakite.agent.session.context import (
    ContextProblem,
    Project,
    Skill,
    SlashCommand,
    expand_command,
    expand_mentions,
    find_nested,
    get_person_folders,
    load_commands,
    load_instructions,
    load_shipped_commands,
    load_skills,
    open_project,
)
from kakite.models.messages import UserMessage
from kakite.tools.toolset import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Instructions, skills and commands, as they were when they were loaded."""

    project: Project
    instructions: tuple[ProjectInstruction, ...] = ()
    nested: tuple[str, ...] = ()
    """Files with instructions for folders below."""
    skills: tuple[Skill, ...] = ()
    commands: tuple[SlashCommand, ...] = ()
    problems: tuple[ContextProblem, ...] = ()
    """What was left out, for the person."""

    def build_message(self, text: str, images: Sequence[Image] = ()) -> UserMessage:
        """Return the message that a text makes: a command is expanded, and what it names by ``@`` is read."""
        return self.read_message(text, images)[0]

    def read_message(
        self, text: str, images: Sequence[Image] = ()
    ) -> tuple[UserMessage, tuple[ContextProblem, ...]]:
        """Return the message that a text makes, and what the person should know of what it names."""
        command, arguments = self.find_command(text)
        body = text if command is None else expand_command(command, arguments)
        expanded = expand_mentions(body, self.project, typed=None if command is None else text)
        prompt = expanded.to_prompt()
        if expanded.problems:
            prompt += "".join(f"\n[{problem}]" for problem in expanded.problems)
        pictures = (*images, *expanded.images)
        message = UserMessage(text=prompt, images=pictures, shown=text if prompt != text else "")
        return message, expanded.problems

    def find_command(self, text: str) -> tuple[SlashCommand | None, str]:
        """Return the command that a text calls, with its arguments; None: it calls none."""
        name, _, arguments = text.partition(" ")
        found = {f"/{command.name}": command for command in self.commands}
        return found.get(name.strip()), arguments.strip()

    def find_nested_instructions(self, path: str) -> tuple[ProjectInstruction, ...]:
        """Return the instructions of the folders that lead to a file."""
        found = find_nested(path, self.project)
        return tuple(ProjectInstruction(path=file.path, text=file.text) for file in found.files)


def load_session_context(folder: Path, environ: Mapping[str, str]) -> SessionContext:
    """Load what the person and the project say about sessions in this folder.

    Raises:
        WorkspaceError: there is no such folder.
    """
    project, person = open_project(folder, environ), get_person_folders(environ)
    instructions = load_instructions(project, person)
    skills, skill_problems = load_skills(project, person)
    commands, command_problems = load_commands(project, person)
    return SessionContext(
        project=project,
        instructions=tuple(ProjectInstruction(path=file.path, text=file.text) for file in instructions.files),
        nested=instructions.nested,
        skills=skills,
        commands=_add_shipped(commands),
        problems=(*instructions.problems, *skill_problems, *command_problems),
    )


def _add_shipped(commands: tuple[SlashCommand, ...]) -> tuple[SlashCommand, ...]:
    """Return the commands with those that come with Kakite, but for names that are taken."""
    names = {command.name for command in commands}
    shipped = (command for command in load_shipped_commands() if command.name not in names)
    return tuple(sorted((*commands, *shipped), key=lambda command: command.name))
