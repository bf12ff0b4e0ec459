"""A confined tree of files: read with a version, written whole or not at all, undone."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from kakite.workspace import beneath
from kakite.workspace.failures import WorkspaceError, naming

READ_LIMIT = 32 * 1024 * 1024  # bytes; a source file over this is generated, and no model can read it
LINK_HOPS = 40  # what the kernel allows
UNDO_DEPTH = 50  # edits kept for each file

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
class _Undo:
    before: bytes | None
    """None: the file did not exist."""
    after: str
    """The version that the edit left; another one now means that somebody else wrote since."""


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
    """Absolute, the identity of the file for undo."""


def version_of(data: bytes) -> str:
    """Return the version of this content."""
    return hashlib.sha256(data).hexdigest()


class Workspace:
    """One or more folders that tools may see, and nothing else.

    Relative paths lie in the first root; absolute ones must lie beneath one of them. Not safe for use
    from several threads at once.
    """

    def __init__(self, roots: Sequence[str | os.PathLike[str]], *, denied: Sequence[str] = DENIED) -> None:
        if not roots:
            raise WorkspaceError("no_root", "", "a workspace needs a folder", hint="give one with --root DIR")
        self._roots: tuple[_Root, ...] = tuple(_open_root(os.fspath(root)) for root in roots)
        self._denied = frozenset(name.casefold() for name in denied)
        self._undo: defaultdict[str, list[_Undo]] = defaultdict(list)

    def close(self) -> None:
        """Give the folders' descriptors back. The workspace cannot be used any more."""
        for root in self._roots:
            os.close(root.descriptor)
        self._roots = ()

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

    def write(self, path: str, data: bytes, *, expected: str | None) -> File:
        """Replace the content of a file, or create it, whole or not at all, and remember how to undo it.

        ``expected`` is the version that the caller has read; None says that the file must not exist.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_exists``, ``write_denied``, …
        """
        with naming(path), self._place(path, create_folders=expected is None) as place:
            before = _write(place, path, data, expected)
            version = version_of(data)
            self._remember(place.key, _Undo(before=before, after=version))
        return File(path=place.path, data=data, version=version)

    def undoable(self, path: str) -> bytes | None:
        """Return what ``undo`` would bring back; None means that it would remove the file.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if the file changed since that write.
        """
        with naming(path), self._place(path, create_folders=False) as place:
            last = self._last(place, path)
            _require(path, last.after, _present(place, path)[0])
        return last.before

    def undo(self, path: str) -> None:
        """Take the last write of this file back: its content before, or, if that created it, its absence.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if the file changed since that write.
        """
        with naming(path), self._place(path, create_folders=False) as place:
            last = self._last(place, path)
            if last.before is None:
                _remove(place, path, last.after)
            else:
                _write(place, path, last.before, last.after)
            self._undo[place.key].pop()

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

    def _last(self, place: _Place, path: str) -> _Undo:
        if not self._undo[place.key]:
            raise WorkspaceError("nothing_to_undo", path, f"no edit of `{path}` is left to undo")
        return self._undo[place.key][-1]

    def _remember(self, key: str, entry: _Undo) -> None:
        self._undo[key] = [*self._undo[key], entry][-UNDO_DEPTH:]


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


def _write(place: _Place, path: str, data: bytes, expected: str | None) -> bytes | None:
    before, status = _present(place, path)
    _require(path, expected, before)
    temporary = f".{secrets.token_hex(8)}.kakite"
    try:
        _fill(place, temporary, data, status)
        if expected is None:
            beneath.rename_to_new(place.folder, temporary, place.name)
        else:
            _replace(place, path, temporary, expected)
        os.fsync(place.folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.folder)
    return before


def _replace(place: _Place, path: str, temporary: str, expected: str) -> None:
    if not beneath.exchange(place.folder, temporary, place.name):
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    if not _has_version(replace(place, name=temporary), path, expected):
        # Somebody wrote between our look and the exchange: what is theirs goes back to its name.
        beneath.exchange(place.folder, temporary, place.name)
        raise _stale(path)


def _has_version(place: _Place, path: str, expected: str) -> bool:
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
