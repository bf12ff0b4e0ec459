"""Finds, reads and changes the files of the local forge, without lost updates.

Processes of Kakite wait for each other with a lock on the folder. People with editors do not, so a change
replaces only the bytes that it was made from, or is made again from the new ones. Links are not followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from weakref import finalize

from kakite.agent.forges.base import ForgeCode, ForgeError
from kakite.agent.forges.local.document import (
    DocumentError,
    IssueDocument,
    format_document,
    get_settings,
    parse_document,
)
from kakite.backoff import poll_with_backoff
from kakite.terminal_text import escape_one_line
from kakite.workspace import Workspace, WorkspaceError
from kakite.workspace.content import compute_version
from kakite.workspace.errors import translate_os_errors
from kakite.workspace.openat2 import open_beneath

FileKind = Literal["issues", "pulls"]

MAX_BYTES = 1024 * 1024  # bytes of a file
LOCK_TIMEOUT = 30.0  # s for others to end their change
SETTLE_TIME = 0.2  # s after which an editor that writes a file piece by piece is through with it

_ATTEMPTS = 20  # against an editor that saves again and again
_NAME = re.compile(r"(\d{1,9})(?:-[^/]*)?\.md")
_CACHE_MIN_AGE = 2.0  # s; a file younger than this may change without its time telling

_CODES: dict[str, ForgeCode] = {
    "file_not_found": "forge_not_found",
    "no_permission": "forge_forbidden",
    "write_denied": "forge_forbidden",
    "path_escapes": "forge_forbidden",
    "is_a_mount": "forge_forbidden",
    "too_large": "forge_rejected",
    "bad_path": "forge_rejected",
}
_HINTS: dict[ForgeCode, str] = {
    "forge_not_found": "name a folder that exists",
    "forge_forbidden": "be allowed to read and write there, and have files and folders where links are",
    "forge_rejected": "make it shorter",
    "forge_unavailable": "check that the disk works and has room, then try again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeFile:
    """A file as it was read."""

    number: int
    path: str
    """Relative to the forge's folder."""
    page: IssueDocument
    settings: Mapping[str, str | list[str]]
    version: str
    changed: datetime

    @property
    def is_fresh(self) -> bool:
        """Whether somebody may be writing it just now."""
        return 0 <= time.time() - self.changed.timestamp() < SETTLE_TIME


_Stamp = tuple[int, int, int]


class ForgeFolder:
    """The folder of a forge. May be used from several threads and processes at once."""

    def __init__(self, path: Path) -> None:
        """Open the folder.

        Raises:
            ForgeError: it is not there, or cannot be opened.
        """
        with _translate_errors(str(path)):
            self._workspace = Workspace([path], denied=())
            self.path = Path(self._workspace.roots[0])
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._close = finalize(self, os.close, self._descriptor)
        self._known: dict[str, tuple[_Stamp, ForgeFile | ForgeError]] = {}
        self._ours: dict[str, str] = {}  # versions that we have written last, by paths

    def close(self) -> None:
        """Give the folder back."""
        self._workspace.close()
        self._close()

    def create_folder(self, kind: FileKind) -> None:
        """Make the folder for these files, if there is none, and see that it can be written.

        Raises:
            ForgeError: it cannot.
        """
        with _translate_errors(str(self.path / kind)):
            with suppress(FileExistsError):
                os.mkdir(kind, dir_fd=self._descriptor)
            with self._open_folder(kind) as folder:
                if not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with self._lock():
            pass

    def read_all(self, kind: FileKind) -> tuple[list[ForgeFile], list[ForgeError]]:
        """Return all files that can be read, by number, and what is wrong with the others."""
        names = self._list_names(kind)
        looked = {number: self._find_file(kind, number, found) for number, found in sorted(names.items())}
        if young := [number for number, found in looked.items() if isinstance(found, _FreshError)]:
            time.sleep(SETTLE_TIME)  # somebody may be saving them just now
            looked |= {number: self._find_file(kind, number, names[number]) for number in young}
        paths = {f"{kind}/{name}" for found in names.values() for name in found}
        for path in [path for path in self._known if path.startswith(f"{kind}/") and path not in paths]:
            del self._known[path]
        leaves = [found for found in looked.values() if isinstance(found, ForgeFile)]
        errors = [found for found in looked.values() if isinstance(found, ForgeError)]
        return leaves, [error for error in errors if error.code != "forge_not_found"]  # those that went

    def read_one(self, kind: FileKind, number: int) -> ForgeFile:
        """Return the file with this number.

        Raises:
            ForgeError: there is none, or several; or it cannot be read.
        """
        found = self._find_file(kind, number, self._list_names(kind).get(number, []))
        if isinstance(found, ForgeError) and (
            isinstance(found, _FreshError) or found.code == "forge_not_found"
        ):
            time.sleep(
                SETTLE_TIME
            )  # somebody may be saving it just now, some editors by taking it away first
            found = self._find_file(kind, number, self._list_names(kind).get(number, []))
        if isinstance(found, ForgeError):
            raise found
        return found

    def change(
        self, kind: FileKind, number: int, edit: Callable[[IssueDocument], IssueDocument]
    ) -> ForgeFile:
        """Change a file, again from the start if somebody else does so meanwhile. Returns what is there now.

        Raises:
            ForgeError: it cannot be read or written, or is changed by somebody all the time.
        """
        with self._lock():
            return self._update(kind, number, edit)

    def put(
        self,
        kind: FileKind,
        found: Callable[[ForgeFile], bool],
        edit: Callable[[IssueDocument | None], IssueDocument],
    ) -> ForgeFile:
        """Change the newest file of which ``found`` says so, or make a new one with the next number.

        Raises:
            ForgeError: as ``change``.
        """
        with self._lock():
            leaves = [leaf for leaf in self.read_all(kind)[0] if found(leaf)]
            return self._update(kind, leaves[-1].number, edit) if leaves else self._create(kind, edit(None))

    def _update(
        self, kind: FileKind, number: int, edit: Callable[[IssueDocument], IssueDocument]
    ) -> ForgeFile:
        for _ in range(_ATTEMPTS):
            leaf = self.read_one(kind, number)
            if leaf.is_fresh and self._ours.get(leaf.path) != leaf.version:
                time.sleep(SETTLE_TIME)  # who is still writing it would write on into what we have replaced
                continue
            with _translate_document_errors(leaf.path):
                data = format_document(edit(leaf.page))
            if compute_version(data) == leaf.version or self._write(leaf.path, data, leaf.version):
                return self.read_one(kind, number)
            time.sleep(SETTLE_TIME / 4)  # somebody saved at this very moment
        raise ForgeError(
            "forge_conflict",
            f"number {number} in `{self.path / kind}` changed each time Kakite tried to write it",
            hint="close it in the other program that keeps saving it",
        )

    def _create(self, kind: FileKind, page: IssueDocument) -> ForgeFile:
        data = format_document(page)
        for _ in range(_ATTEMPTS):
            number = max(self._list_names(kind), default=0) + 1
            if self._write(f"{kind}/{number:03}.md", data, None):
                return self.read_one(kind, number)
        raise ForgeError(
            "forge_conflict", f"another program keeps creating files in `{self.path / kind}` all the time"
        )

    def _write(self, path: str, data: bytes, expected: str | None) -> bool:
        """Write a file; return false if it is not what it was."""
        if len(data) > MAX_BYTES:
            told = f"`{path}` would be larger than {MAX_BYTES >> 10} KiB"
            raise ForgeError("forge_rejected", told, hint=_HINTS["forge_rejected"])
        try:
            self._workspace.write(path, data, expected=expected)
        except WorkspaceError as error:
            if error.code in {"stale", "file_exists"} or (expected and error.code == "file_not_found"):
                return False
            raise _to_forge_error(error) from error
        self._ours[path] = compute_version(data)
        return True

    def _list_names(self, kind: FileKind) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        with _translate_errors(str(self.path / kind)):
            try:
                with self._open_folder(kind) as folder, os.scandir(folder) as scan:
                    for name in sorted(item.name for item in scan):
                        if matched := _NAME.fullmatch(name):
                            found.setdefault(int(matched[1]), []).append(name)
            except FileNotFoundError:
                if os.fstat(self._descriptor).st_nlink == 0:
                    raise
                return {}
        return found

    def _find_file(self, kind: FileKind, number: int, names: list[str]) -> ForgeFile | ForgeError:
        if not names:
            hint = f"the name of its file in `{self.path / kind}` begins with the number"
            return ForgeError("forge_not_found", f"there is no number {number} in `{kind}`", hint=hint)
        if len(names) > 1:
            told = " and ".join(f"`{kind}/{escape_one_line(name)}`" for name in names)
            hint = "keep the number for one of them and renumber the others"
            return ForgeError("forge_bad_reply", f"{told} have the same number", hint=hint)
        path = f"{kind}/{names[0]}"
        try:
            with (
                _translate_errors(path),
                self._open_folder(kind) as folder,
                _open_file(folder, names[0]) as file,
            ):
                return self._read_file(file, number, path)
        except ForgeError as error:
            return error

    def _read_file(self, file: int, number: int, path: str) -> ForgeFile | ForgeError:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return ForgeError("forge_bad_reply", f"`{path}` is not a file", hint="remove it, or make it one")
        stamp = about.st_ino, about.st_mtime_ns, about.st_size
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        found = _parse_file(file, about, number, path)
        age = time.time() - about.st_mtime
        if 0 <= age < _CACHE_MIN_AGE:
            self._known.pop(path, None)
        else:
            self._known[path] = stamp, found
        return _FreshError.of(found) if isinstance(found, ForgeError) and 0 <= age < SETTLE_TIME else found

    @contextmanager
    def _open_folder(self, kind: FileKind) -> Generator[int]:
        folder = open_beneath(self._descriptor, kind, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _lock(self) -> Generator[None]:
        """Be the only one of Kakite's processes and threads that changes something."""
        with _translate_errors(str(self.path)):
            lock = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            waiting = poll_with_backoff(LOCK_TIMEOUT, threading.Event())
            while not _try_lock(lock, self.path):
                if next(waiting, waiting) is waiting:
                    told = f"`{self.path}` has been in use by another process for {LOCK_TIMEOUT:g} s"
                    raise ForgeError("forge_unavailable", told, hint="let it end, then try again")
            yield
        finally:
            os.close(lock)  # which frees it


class _FreshError(ForgeError):
    """An error in a file that has been changed just now."""

    @classmethod
    def of(cls, error: ForgeError) -> _FreshError:
        return cls("forge_bad_reply", error.message, hint=error.hint)


@contextmanager
def _open_file(folder: int, name: str) -> Generator[int]:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _parse_file(file: int, about: os.stat_result, number: int, path: str) -> ForgeFile | ForgeError:
    with open(file, "rb", closefd=False) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        told = f"`{path}` is larger than {MAX_BYTES >> 10} KiB"
        return ForgeError("forge_bad_reply", told, hint="put what is long into a file of the repository")
    try:
        with _translate_document_errors(path):
            page = parse_document(data)
    except ForgeError as error:
        return error
    changed = datetime.fromtimestamp(about.st_mtime, UTC)
    return ForgeFile(
        number=number,
        path=path,
        page=page,
        settings=get_settings(page),
        version=compute_version(data),
        changed=changed,
    )


def _try_lock(lock: int, path: Path) -> bool:
    try:
        with _translate_errors(str(path)):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _translate_document_errors(path: str) -> Generator[None]:
    """Tell of a broken file by its name and line."""
    try:
        yield
    except DocumentError as error:
        told = f"`{escape_one_line(path)}:{error.line}`: {error}"
        raise ForgeError("forge_bad_reply", told, hint=error.hint) from error


@contextmanager
def _translate_errors(path: str) -> Generator[None]:
    """Turn what the system or the workspace says into an error of the forge."""
    try:
        yield
    except BlockingIOError:
        raise
    except WorkspaceError as error:
        raise _to_forge_error(error) from error
    except OSError as error:
        try:
            with translate_os_errors(escape_one_line(path)):
                raise
        except WorkspaceError as named:
            raise _to_forge_error(named) from error


def _to_forge_error(error: WorkspaceError) -> ForgeError:
    code = _CODES.get(error.code, "forge_unavailable")
    return ForgeError(code, error.message, hint=_HINTS[code])
