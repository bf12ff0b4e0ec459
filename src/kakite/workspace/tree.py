"""A confined tree of files: read with a version, written whole or not at all, undone."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from kakite.workspace import beneath
from kakite.workspace.failures import WorkspaceError, naming
from kakite.workspace.history import Author, History, Write
from kakite.workspace.place import (
    Place,
    TakingBack,
    Telling,
    content,
    is_temporary,
    read_regular,
    remove,
    require,
    settle,
    version_of,
    write,
)

LINK_HOPS = 40  # what the kernel allows
_NOBODY = Author()

DENIED = (
    ".git",
    ".hg",
    ".svn",
    ".ssh",
    ".gnupg",
    ".pi",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".cursor",
    ".mcp.json",
    ".husky",
    ".envrc",
    ".devcontainer",
    ".zed",
    ".vs",
    ".gitmodules",
    "kakite.yaml",
)
"""Names that tools may not write, nor anything below them.

What version control, editors, agents and hooks of the shell take from there can run code on the person's
machine when they merely open or enter the folder, and keys. No claim that nothing else can: a build script
runs once the person builds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file as it was when read."""

    path: str
    """Relative to its root, links resolved."""
    data: bytes
    version: str
    """SHA-256 of the data, hexadecimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that a folder lists."""

    path: str
    """Relative to the listed folder."""
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    path: str
    descriptor: int


class Workspace:
    """One or more folders that tools may see, and nothing else.

    Relative paths lie in the first root; absolute ones must lie beneath one of them. Not safe for use
    from several threads at once.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        *,
        denied: Sequence[str] = DENIED,
        history: History | None = None,
    ) -> None:
        """Open the folders, and settle what a process that was killed left in the middle.

        Without a ``history``, writes can be undone as long as this object lives.
        """
        if not roots:
            raise WorkspaceError("no_root", "", "a workspace needs a folder", hint="give one with --root DIR")
        self._roots: tuple[_Root, ...] = tuple(_open_root(os.fspath(root)) for root in roots)
        self._denied = frozenset(name.casefold() for name in denied)
        self.history = history or History(None)
        for path in self.history.unsettled_paths():
            self._settle(path)

    def close(self) -> None:
        """Give the folders' descriptors back. The workspace cannot be used any more."""
        for root in self._roots:
            os.close(root.descriptor)
        self._roots = ()
        self.history.close()

    @property
    def roots(self) -> tuple[str, ...]:
        """The absolute paths of the roots, the first one being where relative paths start."""
        return tuple(root.path for root in self._roots)

    def read(self, path: str) -> File:
        """Read a regular file.

        Raises:
            WorkspaceError: it is not there, not a file, too large, or out of the workspace.
        """
        root, relative = self._locate(path)
        with naming(path), _opened(root.descriptor, relative, os.O_RDONLY | os.O_NONBLOCK) as file:
            real = _below(root, os.readlink(f"/proc/self/fd/{file}"), relative)
            data = read_regular(file, path)
        return File(path=real, data=data, version=version_of(data))

    def mode(self, path: str) -> int:
        """Return the permission bits of a file.

        Raises:
            WorkspaceError: it is not there, or lies out of the workspace.
        """
        root, relative = self._locate(path)
        with naming(path), _opened(root.descriptor, relative, os.O_PATH) as found:
            return stat.S_IMODE(os.fstat(found).st_mode)

    def write(
        self,
        path: str,
        data: bytes,
        *,
        expected: str | None,
        mode: int | None = None,
        by: Author = _NOBODY,
    ) -> File:
        """Replace the content of a file, or create it, whole or not at all, and remember how to undo it.

        ``expected`` is the version that the caller has read; None says that the file must not exist.
        ``mode`` are the permission bits of a file that is created; one that is replaced keeps its own.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_exists``, ``write_denied``, …
        """
        with naming(path), self._held(path, create_folders=expected is None) as place:
            write(place, path, data, expected, Telling(self.history, place.key, by), mode)
        return File(path=place.path, data=data, version=version_of(data))

    def remove(self, path: str, *, expected: str, by: Author = _NOBODY) -> None:
        """Remove a file of this version, and remember how to bring it back.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_not_found``, …
        """
        with naming(path), self._held(path, create_folders=False) as place:
            remove(place, path, expected, Telling(self.history, place.key, by))

    def undoable(self, path: str) -> bytes | None:
        """Return what ``undo`` would bring back; None means that it would remove the file.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if the file changed since that write.
        """
        with naming(path), self._held(path, create_folders=False) as place:
            return self._undoable(place, path)[1]

    def undo(self, path: str) -> None:
        """Take the last write of this file back: its content before, or, if that created it, its absence.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if the file changed since that write.
        """
        with naming(path), self._held(path, create_folders=False) as place:
            last, before = self._undoable(place, path)
            telling = TakingBack(self.history, last)
            if before is None:
                remove(place, path, last.after, telling)
            else:
                write(place, path, before, last.after or None, telling)

    def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder.

        Raises:
            WorkspaceError: there is nothing, or it lies out of the workspace.
        """
        root, relative = self._locate(path)
        with naming(path), _opened(root.descriptor, relative, os.O_PATH) as found:
            return stat.S_ISDIR(os.fstat(found).st_mode)

    def walk(self, path: str, *, depth: int, limit: int) -> list[Entry]:
        """List a folder and what lies up to ``depth`` levels below, sorted, at most ``limit`` entries.

        Version control's own folders are named but not entered; links are named but not followed. What is
        still being written is left out.
        """
        root, relative = self._locate(path)
        with naming(path), _opened(root.descriptor, relative, os.O_RDONLY | os.O_DIRECTORY) as folder:
            entries: list[Entry] = []
            _list_into(entries, folder, "", depth, limit)
        return entries

    def _locate(self, path: str) -> tuple[_Root, str]:
        _check_name(path)
        if not path.startswith("/"):
            return self._roots[0], path
        parts = PurePosixPath(path).parts
        for root in self._roots:
            own = PurePosixPath(root.path).parts
            if parts[: len(own)] == own:
                return root, "/".join(parts[len(own) :]) or "."
        where = ", ".join(f"`{root.path}`" for root in self._roots)
        raise WorkspaceError(
            "path_escapes", path, f"`{path}` lies out of the workspace", hint=f"use a path below {where}"
        )

    @contextmanager
    def _place(self, path: str, *, create_folders: bool) -> Generator[Place]:
        root, relative = self._locate(path)
        self._check_writable(relative, path)
        if create_folders:
            _make_folders(root.descriptor, relative)
        for _ in range(LINK_HOPS):
            parent, name = _split(relative, path)
            with _opened(root.descriptor, parent, os.O_RDONLY | os.O_DIRECTORY) as folder:
                link = _link_target(folder, name)
                if link is None:
                    key = f"{os.readlink(f'/proc/self/fd/{folder}')}/{name}"
                    real = _below(root, key, relative)
                    self._check_writable(real, path)
                    yield Place(folder=folder, name=name, path=real, key=key)
                    return
                if link.startswith("/"):
                    raise OSError(errno.EXDEV, "absolute link")
                relative = f"{parent}/{link}"
        raise OSError(errno.ELOOP, "too many links")

    def _check_writable(self, relative: str, path: str) -> None:
        for part in PurePosixPath(relative).parts:
            if part.casefold() in self._denied:
                raise WorkspaceError(
                    "write_denied",
                    path,
                    f"`{part}` may not be written by tools",
                    hint="leave it to the person: what is there can run code on their machine, or is secret",
                )

    @contextmanager
    def _held(self, path: str, *, create_folders: bool) -> Generator[Place]:
        """Yield the place with its writes held for us, once what a crash left there is settled."""
        with self._place(path, create_folders=create_folders) as place, self.history.locked(place.key):
            for write in self.history.unsettled(place.key):
                settle(place, path, write, self.history)
            yield place

    def _settle(self, path: str) -> None:
        """Settle this file's writes, unless another process is at it, or the file is not ours to reach."""
        with (
            suppress(OSError, WorkspaceError),
            self._place(path, create_folders=False) as place,
            self.history.locked(place.key, wait=False) as held,
        ):
            for write in self.history.unsettled(place.key) if held else ():
                settle(place, path, write, self.history)

    def _undoable(self, place: Place, path: str) -> tuple[Write, bytes | None]:
        last = self.history.last(place.key)
        if last is None:
            raise WorkspaceError("nothing_to_undo", path, f"no edit of `{path}` is left to undo")
        present = content(place, path)[0]
        require(path, last.after or None, present)
        return last, self.history.content_before(last, present or b"")


def _open_root(path: str) -> _Root:
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return _Root(path=os.path.realpath(path), descriptor=descriptor)


@contextmanager
def _opened(root: int, path: str, flags: int) -> Generator[int]:
    descriptor = beneath.open_beneath(root, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_name(path: str) -> None:
    if not path or "\0" in path:
        raise WorkspaceError("bad_path", path, "a path must be given, without NUL characters")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise WorkspaceError("bad_path", ascii(path), "a path must be text that has an encoding") from error


def _below(root: _Root, real: str, otherwise: str) -> str:
    prefix = root.path.rstrip("/") + "/"
    return real.removeprefix(prefix) if real.startswith(prefix) else otherwise


def _split(relative: str, path: str) -> tuple[str, str]:
    parent, _, name = relative.rstrip("/").rpartition("/")
    if name in {"", ".", ".."}:
        raise WorkspaceError("bad_path", path, f"`{path}` does not name a file")
    if any(character < " " or character == "\x7f" for character in name):
        raise WorkspaceError("bad_path", path, "a file name may not hold control characters")
    return parent or ".", name


def _link_target(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None  # no link, or nothing there yet
        raise


def _make_folders(root: int, relative: str) -> None:
    made = ""
    for part in PurePosixPath(relative).parent.parts:
        with _opened(root, made or ".", os.O_RDONLY | os.O_DIRECTORY) as folder, suppress(FileExistsError):
            os.mkdir(part, dir_fd=folder)
        made = f"{made}/{part}" if made else part


def _list_into(entries: list[Entry], folder: int, prefix: str, depth: int, limit: int) -> None:
    with os.scandir(folder) as scan:
        found = sorted((each for each in scan if not is_temporary(each.name)), key=lambda each: each.name)
    for item in found:
        if len(entries) >= limit:
            return
        is_folder = item.is_dir(follow_symlinks=False)
        entries.append(Entry(path=prefix + item.name, is_folder=is_folder))
        if is_folder and depth > 1 and item.name not in _OPAQUE:
            _enter(
                folder,
                item.name,
                lambda inner, name=item.name: _list_into(
                    entries, inner, f"{prefix}{name}/", depth - 1, limit
                ),
            )


_OPAQUE = frozenset({".git", ".hg", ".svn"})


def _enter(folder: int, name: str, visit: Callable[[int], None]) -> None:
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return  # gone or closed to us meanwhile: it stays listed by name
    try:
        visit(inner)
    finally:
        os.close(inner)
