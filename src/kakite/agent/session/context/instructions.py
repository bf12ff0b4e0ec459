"""Loads the instructions that a person and a project give to whoever works there: AGENTS.md.

A project's files count from the repository's root down to the session's folder. Those of folders below are
given to the model when it first touches something there (``find_nested``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from kakite.agent.run.agents_md import MAX_FILE_BYTES, MAX_NESTED_FILES, MAX_TOTAL_BYTES, decode_text
from kakite.agent.session.context.mention_syntax import MentionCandidate, find_candidates
from kakite.agent.session.context.project import (
    ContextProblem,
    Origin,
    PersonFolders,
    PersonSourceFolder,
    Project,
    ProjectSourceFolder,
    SourceFolder,
    list_levels,
    to_problem,
)
from kakite.workspace import WorkspaceError

FILE_NAMES = ("AGENTS.md", "CLAUDE.md")
"""Of each folder the first one that is there counts."""
MAX_IMPORT_DEPTH = 5
"""Imports within imports."""
_MAX_FILES = 50  # with all that they import
_MAX_WALKED = 100_000  # files below the session's folder that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """A file of instructions, as it was when it was read."""

    path: str
    """As the session names it."""
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """What a session is told at its start."""

    files: tuple[Instruction, ...] = ()
    """The person's first, then the project's from its root down; each before what it imports."""
    nested: tuple[str, ...] = ()
    """Files that count for folders below, which are given when something there is touched."""
    problems: tuple[ContextProblem, ...] = ()


def load_instructions(project: Project, person: PersonFolders) -> Instructions:
    """Return the person's own instructions, and the project's down to the session's folder. Never raises."""
    reader = _Reader()
    for path in (person.kakite, person.home / ".agents"):
        reader.add_folder(PersonSourceFolder(person, path), FILE_NAMES[:1])
    for level in project.list_levels():
        reader.add_folder(ProjectSourceFolder(project, level), FILE_NAMES)
    return Instructions(
        files=tuple(reader.files),
        nested=tuple(_list_nested(project, reader)),
        problems=tuple(reader.problems),
    )


def find_nested(path: str, project: Project) -> Instructions:
    """Return the instructions that count for this path, besides those that a session is told at its start.

    ``path`` is as the session names it; it need not exist. Never raises.
    """
    relative = project.resolve(path)
    reader = _Reader()
    if relative != ".." and not relative.startswith("../"):
        told = set(project.list_levels())
        for level in list_levels(posixpath.dirname(relative) or "."):
            if level not in told:
                reader.add_folder(ProjectSourceFolder(project, level), FILE_NAMES)
    return Instructions(files=tuple(reader.files), problems=tuple(reader.problems))


def format_instructions(files: Iterable[Instruction]) -> str:
    """Return the files as a prompt shows them."""
    return "\n\n".join(f'<file path="{file.path}">\n{file.text.strip()}\n</file>' for file in files)


def _list_nested(project: Project, reader: _Reader) -> Iterator[str]:
    """Yield the files below the session's folder, sorted, of each folder the one that counts."""
    folders: set[str] = set()
    found: list[str] = []
    try:
        for file in islice(project.workspace.walk_files(project.folder), _MAX_WALKED):
            folder, _, name = file.below.rpartition("/")
            if not folder or name not in FILE_NAMES or folder in folders:
                continue  # AGENTS.md is sorted before CLAUDE.md
            folders.add(folder)
            if "`" not in file.below and file.below.isprintable():
                found.append(file.below)
            if len(found) == MAX_NESTED_FILES:
                break
    except WorkspaceError as error:
        reader.problems.append(to_problem(project.name(project.folder), error))
    yield from found


@dataclass(slots=True)
class _Reader:
    """Reads files within what there is room for."""

    files: list[Instruction] = field(default_factory=list["Instruction"])
    problems: list[ContextProblem] = field(default_factory=list[ContextProblem])
    room: int = MAX_TOTAL_BYTES
    seen: set[str] = field(default_factory=set[str])
    """Where the files lie that were read."""

    def add_folder(self, folder: SourceFolder, names: Iterable[str]) -> None:
        """Add the first of these files that is there, and what it imports."""
        for name in names:
            if self._add(folder, name, MAX_IMPORT_DEPTH):
                return

    def _add(self, folder: SourceFolder, name: str, depth: int) -> bool:
        """Add a file with its imports. Returns whether it is there."""
        shown = folder.show(name)
        try:
            found = folder.read(name, MAX_FILE_BYTES)
        except WorkspaceError as error:
            self.problems.append(to_problem(shown, error))
            return True
        if found is None:
            return False
        if found.real in self.seen:
            return True
        if found.is_secret:
            self._tell(shown, "it is not imported: such a file may hold secrets")
            return True
        if self.room <= 0 or len(self.files) >= _MAX_FILES:
            self._tell(shown, "it is left out: there are too many instructions")
            return True
        self.seen.add(found.real)
        text = decode_text(found.data, min(MAX_FILE_BYTES, self.room))
        if not text and found.data:
            self._tell(shown, "it is left out: it is no UTF-8 text")
        if not text.strip():
            return True
        self.room -= len(found.data)
        self.files.append(Instruction(path=shown, text=text, origin=folder.origin))
        self._add_imports(folder, name, text, depth)
        return True

    def _add_imports(self, folder: SourceFolder, name: str, text: str, depth: int) -> None:
        for candidate in _find_imports(text):
            line = text.count("\n", 0, candidate.start) + 1
            if depth == 0:
                if candidate.is_path:
                    self._tell(folder.show(name), "imports are too deep here; the rest is left out", line)
                return
            if not self._add_first(folder, name, candidate, depth - 1) and candidate.is_path:
                path = candidate.readings[-1].path
                self._tell(folder.show(name), f"`@{path}` names no file that can be imported", line)

    def _add_first(self, folder: SourceFolder, name: str, candidate: MentionCandidate, depth: int) -> bool:
        for reading in candidate.readings:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), reading.path))
            if reading.lines is None and _is_within(folder, target) and self._add(folder, target, depth):
                return True
        return False

    def _tell(self, path: str, message: str, line: int = 0) -> None:
        self.problems.append(ContextProblem(path=path, message=message, line=line))


def _is_within(folder: SourceFolder, target: str) -> bool:
    """Return whether an import stays in the project, or in the folder of the person's file."""
    if target.startswith(("/", "~")):
        return False
    base = folder.path if isinstance(folder, ProjectSourceFolder) else "."
    return not posixpath.normpath(posixpath.join(base, target)).startswith("..")


def _find_imports(text: str) -> Iterator[MentionCandidate]:
    """Yield the imports of a Markdown text: ``@path``, but not in code."""
    if "@" not in text:
        return
    hidden = _find_code(text)
    for candidate in find_candidates(text):
        if not any(start <= candidate.start < end for start, end in hidden):
            yield candidate


_RUN = re.compile(r"`+")
_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+)?(?P<run>`{3,}|~{3,})(?P<info>[^\n]*)")


def _find_code(text: str) -> list[tuple[int, int]]:
    """Return where Markdown has code: fenced blocks, and spans within a line."""
    found: list[tuple[int, int]] = []
    at, opened = 0, ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if opened:
            found.append((at, at + len(line)))
            if fence and fence["run"].startswith(opened) and not fence["info"].strip():
                opened = ""
        elif fence and not (fence["run"][0] == "`" and "`" in fence["info"]):
            opened = fence["run"]
        else:
            found += [(at + start, at + end) for start, end in _find_spans(line)]
        at += len(line) + 1
    return found


def _find_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield the code spans of a line: from a run of backticks to the next one that is as long."""
    runs = list(_RUN.finditer(line))
    at = 0
    while at < len(runs):
        size = len(runs[at][0])
        close = next((each for each in range(at + 1, len(runs)) if len(runs[each][0]) == size), 0)
        if close:
            yield runs[at].start(), runs[close].end()
        at = max(close, at) + 1
