"""Loads commands: Markdown files that a person calls by name, with arguments, as a message to the model.

Nothing of them is run: lines that other programs give to a shell stay text, and that is told.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from kakite.agent.front_matter import FrontMatterError
from kakite.agent.run.agents_md import decode_text
from kakite.agent.run.prompt import load_prompt
from kakite.agent.session.context.documents import MarkdownDocument, parse_markdown
from kakite.agent.session.context.project import (
    ContextProblem,
    Origin,
    PersonFolders,
    PersonSourceFolder,
    Project,
    ProjectSourceFolder,
    SourceFile,
    SourceFolder,
    to_problem,
)
from kakite.workspace import WorkspaceError

MAX_COMMANDS = 500
MAX_COMMAND_BYTES = 64 * 1024
"""Bytes that are read of one file."""
_MAX_DEPTH = 5  # folders in folders
_FOLDERS = (".agents/commands", ".claude/commands", ".opencode/command", ".opencode/commands")
_SHIPPED = ("init", "review")
_NAME = re.compile(r"[\w.-]+(?::[\w.-]+)*")
_PLACEHOLDER = re.compile(r"\$(ARGUMENTS|[1-9])(?![A-Za-z0-9_])")
_SHELL = re.compile(r"!`[^`\n]+`|^[ \t]*```+!", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A message that a person sends by its name."""

    name: str
    """Folders stand before a colon: ``git:commit``."""
    description: str
    argument_hint: str
    """What is shown of the arguments, such as ``[file]``."""
    body: str
    path: str
    """As the session names it; empty: it comes with Kakite."""
    origin: Origin


def load_commands(
    project: Project, person: PersonFolders
) -> tuple[tuple[SlashCommand, ...], tuple[ContextProblem, ...]]:
    """Return the commands of the project and the person, sorted by name, and what is wrong with others.

    Of two with one name the project's counts, there the one whose folder is nearest to the session's.
    Never raises.
    """
    found: dict[str, SlashCommand] = {}
    problems: list[ContextProblem] = []
    seen: set[str] = set()
    for folder in _list_folders(project, person):
        for command in _load_folder(folder, seen, problems):
            if command.name in found:
                told = f"`{found[command.name].path}` has the same name, and counts"
                problems.append(ContextProblem(path=command.path, message=told))
            elif len(found) < MAX_COMMANDS:
                found[command.name] = command
    return tuple(found[name] for name in sorted(found)), tuple(problems)


def load_shipped_commands() -> tuple[SlashCommand, ...]:
    """Return the commands that come with Kakite."""
    return tuple(_load_shipped(name) for name in _SHIPPED)


def _load_shipped(name: str) -> SlashCommand:
    document = parse_markdown(load_prompt(f"command_{name}"))
    return SlashCommand(
        name=name,
        description=document.get("description"),
        argument_hint=document.get("argument-hint"),
        body=document.body.strip(),
        path="",
        origin="kakite",
    )


def expand_command(command: SlashCommand, arguments: str) -> str:
    """Return the message of a command: ``$ARGUMENTS`` is all that the person wrote, ``$1`` its first word.

    Words are parted as in a shell. Where the command takes no arguments, what was written stands below it.
    """
    arguments = arguments.strip()
    words = split_arguments(arguments)

    def insert(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    if arguments and not _PLACEHOLDER.search(command.body):
        return f"{command.body}\n\n{arguments}"
    return _PLACEHOLDER.sub(insert, command.body)


def split_arguments(arguments: str) -> list[str]:
    """Return the words, of which quotes make one; where a quote does not end, blanks alone part them."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _list_folders(project: Project, person: PersonFolders) -> Iterator[SourceFolder]:
    for level in reversed(project.list_levels()):
        for name in _FOLDERS:
            yield ProjectSourceFolder(project, posixpath.join(level, name))
    for path in (
        person.kakite / "commands",
        person.home / ".agents/commands",
        person.home / ".claude/commands",
        person.config / "opencode/command",
        person.config / "opencode/commands",
    ):
        yield PersonSourceFolder(person, path)


def _load_folder(
    folder: SourceFolder, seen: set[str], problems: list[ContextProblem]
) -> Iterator[SlashCommand]:
    try:
        names = folder.list(_MAX_DEPTH)
    except WorkspaceError as error:
        problems.append(to_problem(folder.show("."), error))
        return
    for file in names:
        if file.endswith(".md") and (command := _load(folder, file, seen, problems)):
            yield command


def _load(
    folder: SourceFolder, file: str, seen: set[str], problems: list[ContextProblem]
) -> SlashCommand | None:
    shown = folder.show(file)
    name = file.removesuffix(".md").replace("/", ":")
    try:
        found = folder.read(file, MAX_COMMAND_BYTES)
        if found is None or found.real in seen:
            return None
        seen.add(found.real)
        document = parse_markdown(decode_text(found.data, MAX_COMMAND_BYTES))
    except WorkspaceError as error:
        problems.append(to_problem(shown, error))
        return None
    except FrontMatterError as error:
        problems.append(ContextProblem(path=shown, message=str(error), line=error.line))
        return None
    body = document.body.strip()
    if fault := _find_fault(name, body, found):
        problems.append(ContextProblem(path=shown, message=f"it is left out: {fault}"))
        return None
    problems += _find_shell_lines(shown, document)
    return SlashCommand(
        name=name,
        description=document.get("description") or _first_line(body),
        argument_hint=document.get("argument-hint"),
        body=body,
        path=shown,
        origin=folder.origin,
    )


def _find_fault(name: str, body: str, found: SourceFile) -> str:
    """Return why a file is no command; empty if it is one."""
    if found.is_secret:
        return "such a file may hold secrets"
    if not _NAME.fullmatch(name):
        return "its name has other than letters, digits and `._-`"
    return "" if body else "it has no text"


def _find_shell_lines(path: str, document: MarkdownDocument) -> Iterator[ContextProblem]:
    for match in _SHELL.finditer(document.body):
        line = document.body_line + document.body.count("\n", 0, match.start())
        told = "commands for a shell are not run: the model is shown this as text"
        yield ContextProblem(path=path, message=told, line=line)


def _first_line(body: str) -> str:
    """Return what a list says of a command without description."""
    line = " ".join(body.split("\n", 1)[0].lstrip("# \t").split())
    return line if len(line) <= 100 else f"{line[:99]}…"
