"""The folders that a session's context comes from: the project's, and the person's own.

Of a project, a workspace reads: no link of it leads out. The person's own folders are theirs, and links in
them lead where they put them. Everything that is read has a most that is read of it.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from kakite.agent.session.context.secret_files import is_secret
from kakite.errors import KakiteError
from kakite.state_paths import get_state_path
from kakite.workspace import EditLog, Workspace, WorkspaceError
from kakite.workspace.errors import translate_os_errors

Origin = Literal["project", "user", "kakite"]
"""Whose a text is: the repository's, or the person's own."""

MAX_ENTRIES = 1000
"""Entries of one folder of skills or commands that are looked at."""
_MAX_LEVELS = 100  # folders between a repository's root and a session's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextProblem:
    """Something that was left out, or is not as it should be."""

    path: str
    message: str
    line: int = 0
    """Counted from 1; 0: all of it."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The folder that a session works in, and the repository around it."""

    workspace: Workspace
    """Of the repository's root, or of the session's folder where there is no repository."""
    folder: str
    """The session's folder below the root; ``.``: the root itself."""

    @property
    def path(self) -> str:
        """The absolute path of the session's folder."""
        return self.locate(self.folder)

    def locate(self, relative: str) -> str:
        """Return the absolute path of what lies here below the root."""
        return posixpath.normpath(posixpath.join(self.workspace.folder, relative))

    def resolve(self, path: str) -> str:
        """Return a path below the root, given as the session names it: from its folder on, or absolutely.

        What lies outside stays outside, and the workspace refuses it.
        """
        full = self.workspace.canonicalize(posixpath.join(self.path, path))
        return posixpath.relpath(full, self.workspace.folder)

    def name(self, relative: str) -> str:
        """Return how the session names what lies here below the root."""
        return posixpath.relpath(relative, self.folder)

    def list_levels(self) -> tuple[str, ...]:
        """Return the folders from the root down to the session's, below the root."""
        return list_levels(self.folder)


def list_levels(folder: str) -> tuple[str, ...]:
    """Return the folders on the way from the root to this one, both included; at most a hundred."""
    parts = [] if folder == "." else folder.split("/")
    return (".", *("/".join(parts[: count + 1]) for count in range(min(len(parts), _MAX_LEVELS))))


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFolders:
    """Where the person keeps what is theirs in every project."""

    home: Path
    config: Path
    """The folder of all programs' settings."""

    @property
    def kakite(self) -> Path:
        """Kakite's own folder of settings."""
        return self.config / "kakite"

    def shorten(self, path: Path) -> str:
        """Return the path as people write it: ``~`` for their home."""
        try:
            return f"~/{path.relative_to(self.home)}"
        except ValueError:
            return str(path)


def get_person_folders(environ: Mapping[str, str]) -> PersonFolders:
    """Return the person's folders; none of them need be there."""
    home = Path(environ.get("HOME") or Path.home())
    named = environ.get("XDG_CONFIG_HOME", "")
    return PersonFolders(home=home, config=Path(named) if named.startswith("/") else home / ".config")


def open_project(folder: Path, environ: Mapping[str, str]) -> Project:
    """Open the project of a session that works in this folder.

    Its root is the next folder upwards that has a ``.git``, which the person or the folder's owner has put
    there: what a stranger puts into ``/tmp`` is no project around yours.

    Raises:
        WorkspaceError: there is no such folder.
    """
    folder = Path(os.path.realpath(folder))
    root = _find_root(folder)
    history = EditLog(None, state=get_state_path(environ))  # which hides Kakite's own files
    return Project(workspace=Workspace([root], history=history), folder=os.path.relpath(folder, root))


def _find_root(folder: Path) -> Path:
    try:
        owners = {os.geteuid(), folder.stat().st_uid}
    except OSError:
        return folder  # the workspace says what is wrong with it
    for above in (folder, *folder.parents[:_MAX_LEVELS]):
        try:
            if (above / ".git").lstat().st_uid in owners:
                return above
        except OSError:
            continue
    return folder


class SourceFolder(Protocol):
    """A folder of instructions, skills or commands."""

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        ...

    def show(self, name: str) -> str:
        """Return how messages name a file of it."""
        ...

    def locate(self, name: str) -> str:
        """Return the absolute path of something in it; of the person's, links resolved."""
        ...

    def list(self, depth: int) -> tuple[str, ...]:
        """Return the names of what is in it, down to so many levels; nothing if there is no such folder.

        Raises:
            WorkspaceError: it cannot be listed.
        """
        ...

    def read(self, name: str, most: int) -> SourceFile | None:
        """Return what a file of it holds, up to one byte more than ``most``; None if there is no such file.

        Raises:
            WorkspaceError: it cannot be read, or lies elsewhere.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that was read."""

    data: bytes
    real: str
    """Where it lies, links resolved: two with the same one are the same file."""
    is_secret: bool = False
    """Whether its name, or that of what it leads to, is one of those that usually hold secrets."""


_NOTHING = {"file_not_found", "not_a_directory", "is_a_directory", "bad_path"}


@dataclass(frozen=True, slots=True)
class ProjectSourceFolder:
    """A folder of the project, which need not be there."""

    project: Project
    path: str
    """Below the root."""
    origin: Origin = "project"

    def show(self, name: str) -> str:
        """Return the path from the session's folder on."""
        return self.project.name(posixpath.join(self.path, name))

    def locate(self, name: str) -> str:
        """Return the absolute path of something in it."""
        return self.project.locate(posixpath.join(self.path, name))

    def list(self, depth: int) -> tuple[str, ...]:
        """Return what is in it. Links are named, and not followed."""
        try:
            listing = self.project.workspace.walk(self.path, depth=depth, limit=MAX_ENTRIES)
        except WorkspaceError as error:
            if error.code in _NOTHING:
                return ()
            raise
        return tuple(entry.path for entry in listing)

    def read(self, name: str, most: int) -> SourceFile | None:
        """Return the file, wherever a link leads within the project."""
        try:
            file = self.project.workspace.read(posixpath.join(self.path, name))
        except WorkspaceError as error:
            if error.code in _NOTHING:
                return None
            raise
        return SourceFile(
            data=file.data[: most + 1],
            real=self.project.locate(file.path),
            is_secret=is_secret(posixpath.join(self.path, name)) or is_secret(file.path),
        )


@dataclass(frozen=True, slots=True)
class PersonSourceFolder:
    """A folder of the person's own, which need not be there."""

    person: PersonFolders
    path: Path
    origin: Origin = "user"

    def show(self, name: str) -> str:
        """Return the path as people write it."""
        return self.person.shorten(self.path / name)

    def locate(self, name: str) -> str:
        """Return the absolute path of something in it, links resolved."""
        return os.path.realpath(self.path / name)

    def list(self, depth: int) -> tuple[str, ...]:
        """Return what is in it. Links are followed."""
        found: list[str] = []
        for name in _walk(self.path, "", depth):
            if len(found) == MAX_ENTRIES:
                break
            found.append(name)
        return tuple(found)

    def read(self, name: str, most: int) -> SourceFile | None:
        """Return the file, wherever a link leads."""
        file = self.path / name
        try:
            with translate_os_errors(str(file)):
                data = _read_file(file, most + 1)
        except WorkspaceError as error:
            if error.code in _NOTHING:
                return None
            raise
        if data is None:
            return None
        real = os.path.realpath(file)
        return SourceFile(data=data, real=real, is_secret=is_secret(name) or is_secret(Path(real).name))


def _read_file(file: Path, most: int) -> bytes | None:
    """Return the first bytes of a file; None if it is no regular one."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = b""
        while len(data) < most and (more := os.read(descriptor, most - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _walk(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        yield prefix + entry.name
        if depth > 1 and _is_folder(entry):
            yield from _walk(folder / entry.name, f"{prefix}{entry.name}/", depth - 1)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def to_problem(path: str, error: KakiteError) -> ContextProblem:
    """Return what is told of a file that could not be read."""
    return ContextProblem(path=path, message=error.message)
