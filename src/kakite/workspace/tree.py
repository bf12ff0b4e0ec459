"""A confined tree of files: read with a version, written whole or not at all, undone."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from kakite.workspace import beneath
from kakite.workspace.failures import WorkspaceError, naming
from kakite.workspace.history import Author, History, Write

READ_LIMIT = 32 * 1024 * 1024  # bytes; a source file over this is generated, and no model can read it
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
)
"""Names that tools may not write, nor anything below them: changing them runs code later, on the host."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An opened folder and a name in it that is no link: where a file is, or may come to be."""

    folder: int
    name: str
    path: str
    """Relative to the root, for people and for the deny-list."""
    key: str
    """Absolute, the identity of the file for its history."""


def version_of(data: bytes) -> str:
    """Return the version of this content."""
    return hashlib.sha256(data).hexdigest()


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
        """Open the folders. Without a ``history``, writes can be undone as long as this object lives."""
        if not roots:
            raise WorkspaceError("no_root", "", "a workspace needs a folder", hint="give one with --root DIR")
        self._roots: tuple[_Root, ...] = tuple(_open_root(os.fspath(root)) for root in roots)
        self._denied = frozenset(name.casefold() for name in denied)
        self.history = history or History(None)

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
            data = _read_regular(file, path)
        return File(path=real, data=data, version=version_of(data))

    def write(self, path: str, data: bytes, *, expected: str | None, by: Author = _NOBODY) -> File:
        """Replace the content of a file, or create it, whole or not at all, and remember how to undo it.

        ``expected`` is the version that the caller has read; None says that the file must not exist.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_exists``, ``write_denied``, …
        """
        with naming(path), self._held(path, create_folders=expected is None) as place:
            _write(place, path, data, expected, _Telling(self.history, place.key, by))
        return File(path=place.path, data=data, version=version_of(data))

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
            telling = _TakingBack(self.history, last)
            if before is None:
                telling.begin(None, b"", "")
                _remove(place, path, last.after)
                telling.settle()
            else:
                _write(place, path, before, last.after, telling)

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

        Version control's own folders are named but not entered; links are named but not followed.
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
    def _place(self, path: str, *, create_folders: bool) -> Generator[_Place]:
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
                    yield _Place(folder=folder, name=name, path=real, key=key)
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
                    hint="leave it to the person: changing it would run code later",
                )

    @contextmanager
    def _held(self, path: str, *, create_folders: bool) -> Generator[_Place]:
        """Yield the place with its writes held for us, once what a crash left there is settled."""
        with self._place(path, create_folders=create_folders) as place, self.history.locked(place.key):
            for write in self.history.unsettled(place.key):
                _settle(place, path, write, self.history)
            yield place

    def _undoable(self, place: _Place, path: str) -> tuple[Write, bytes | None]:
        last = self.history.last(place.key)
        if last is None:
            raise WorkspaceError("nothing_to_undo", path, f"no edit of `{path}` is left to undo")
        present = _present(place, path)[0]
        _require(path, last.after, present)
        assert present is not None
        return last, self.history.content_before(last, present)


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


def _read_regular(file: int, path: str) -> bytes:
    status = os.fstat(file)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    with open(file, "rb", closefd=False) as stream:
        data = stream.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise WorkspaceError("too_large", path, f"`{path}` is larger than {READ_LIMIT >> 20} MiB")
    return data


class _Telling:
    """Tells the history of a write, before and after it happens."""

    def __init__(self, history: History, key: str, by: Author) -> None:
        self._history = history
        self._key = key
        self._by = by
        self._id = 0

    def begin(self, before: bytes | None, after: bytes, temporary: str) -> None:
        versions = (None if before is None else version_of(before), version_of(after))
        self._id = self._history.begin(
            self._key, before=before, after=after, versions=versions, by=self._by, temporary=temporary
        )

    def settle(self) -> None:
        self._history.mark(self._id, "done")

    def fail(self) -> None:
        self._history.drop(self._id)


class _TakingBack:
    """Tells the history that a write is taken back."""

    def __init__(self, history: History, write: Write) -> None:
        self._history = history
        self._id = write.id

    def begin(self, before: bytes | None, after: bytes, temporary: str) -> None:  # noqa: ARG002 - as _Telling
        self._history.mark(self._id, "undoing", temporary=temporary)

    def settle(self) -> None:
        self._history.mark(self._id, "undone")

    def fail(self) -> None:
        self._history.mark(self._id, "done")


def _write(
    place: _Place, path: str, data: bytes, expected: str | None, telling: _Telling | _TakingBack
) -> None:
    before, status = _present(place, path)
    _require(path, expected, before)
    temporary = f".{secrets.token_hex(8)}.kakite"
    telling.begin(before, data, temporary)
    try:
        _fill(place, temporary, data, status)
        if expected is None:
            beneath.rename_to_new(place.folder, temporary, place.name)
        else:
            _replace(place, path, temporary, expected)
        os.fsync(place.folder)
    except BaseException:
        _discard(place, temporary)
        telling.fail()
        raise
    _discard(place, temporary)
    telling.settle()


def _settle(place: _Place, path: str, write: Write, history: History) -> None:
    """Finish what a process left in the middle: the file tells how far it came."""
    undoing = write.state == "undoing"
    old, new = (write.after, write.before) if undoing else (write.before, write.after)
    beside = _version_beside(place, path, write.temporary)
    if beside not in {None, old, new} and _has_version(place, path, new):
        # Somebody wrote just before the exchange, and it was not looked at any more: theirs goes back.
        beneath.exchange(place.folder, write.temporary, place.name)
    happened = _has_version(place, path, new) if new else _present(place, path)[0] is None
    _discard(place, write.temporary)
    os.fsync(place.folder)
    if undoing:
        history.mark(write.id, "undone" if happened else "done")
    elif happened:
        history.mark(write.id, "done")
    else:
        history.drop(write.id)


def _version_beside(place: _Place, path: str, temporary: str) -> str | None:
    if not temporary:
        return None
    data = _present(replace(place, name=temporary), path)[0]
    return None if data is None else version_of(data)


def _discard(place: _Place, temporary: str) -> None:
    if temporary:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.folder)


def _replace(place: _Place, path: str, temporary: str, expected: str) -> None:
    if not beneath.exchange(place.folder, temporary, place.name):
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    if not _has_version(replace(place, name=temporary), path, expected):
        # Somebody wrote between our look and the exchange: what is theirs goes back to its name.
        beneath.exchange(place.folder, temporary, place.name)
        raise _stale(path)


def _has_version(place: _Place, path: str, expected: str | None) -> bool:
    try:
        data = _present(place, path)[0]
    except (OSError, WorkspaceError):
        return False  # a link, a folder, a device: not the file that was read
    return data is not None and version_of(data) == expected


def _remove(place: _Place, path: str, expected: str) -> None:
    _require(path, expected, _present(place, path)[0])
    os.unlink(place.name, dir_fd=place.folder)
    os.fsync(place.folder)


def _present(place: _Place, path: str) -> tuple[bytes | None, os.stat_result | None]:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(place.name, flags, dir_fd=place.folder)
    except FileNotFoundError:
        return None, None
    try:
        return _read_regular(file, path), os.fstat(file)
    finally:
        os.close(file)


def _require(path: str, expected: str | None, present: bytes | None) -> None:
    if expected is None and present is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if expected is not None and present is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if expected is not None and present is not None and version_of(present) != expected:
        raise _stale(path)


def _stale(path: str) -> WorkspaceError:
    return WorkspaceError(
        "stale",
        path,
        f"`{path}` was changed by someone else since it was read",
        hint="view the file again, then repeat the edit on what it says now",
    )


def _fill(place: _Place, temporary: str, data: bytes, like: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600 if like else 0o666, dir_fd=place.folder)
    with open(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        if like is not None:
            _copy_attributes(file, place, like)
        os.fsync(file)


def _copy_attributes(file: int, place: _Place, like: os.stat_result) -> None:
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(file, like.st_uid, like.st_gid)
    with suppress(OSError):  # a file system without extended attributes
        _copy_xattrs(file, place)
    os.fchmod(file, stat.S_IMODE(like.st_mode))


def _copy_xattrs(file: int, place: _Place) -> None:
    original = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        for name in os.listxattr(original):
            os.setxattr(file, name, os.getxattr(original, name))
    finally:
        os.close(original)


def _list_into(entries: list[Entry], folder: int, prefix: str, depth: int, limit: int) -> None:
    with os.scandir(folder) as scan:
        found = sorted(scan, key=lambda entry: entry.name)
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
