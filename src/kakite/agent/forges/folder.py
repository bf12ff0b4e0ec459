"""The files of the embedded forge: found by number, read whole, changed by many at once without loss.

Processes of Kakite wait for each other (a lock on the folder). People with editors do not, so a change is put
in the place of the very bytes that it was made from, or made again from what is there now. Links are not
followed: what lies elsewhere is none of the forge's.
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

from kakite.agent.forges.forge import ForgeCode, ForgeError
from kakite.agent.forges.page import Page, PageError, format_page, parse_page, settings_of
from kakite.visible import visible_name
from kakite.workspace import Workspace, WorkspaceError
from kakite.workspace.beneath import open_beneath
from kakite.workspace.contents import version_of
from kakite.workspace.failures import naming
from kakite.workspace.waiting import pauses

Kind = Literal["issues", "pulls"]

MOST = 1024 * 1024  # bytes of a file
WAIT = 30.0  # s for others to end their change
SETTLED = 0.2  # s after which an editor that writes a file piece by piece is through with it

_ATTEMPTS = 20  # against an editor that saves again and again
_NAME = re.compile(r"(\d{1,9})(?:-[^/]*)?\.md")
_KNOWN_FOR = 2.0  # s; a file younger than this may change without its time telling

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
    "forge_not_found": "name a folder that is there",
    "forge_forbidden": "be allowed to read and write there, and have files and folders where links are",
    "forge_rejected": "make it shorter",
    "forge_unavailable": "see that the disk has room and works, then try again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A file as it was read."""

    number: int
    path: str
    """Relative to the forge's folder."""
    page: Page
    settings: Mapping[str, str | list[str]]
    version: str
    changed: datetime

    @property
    def is_fresh(self) -> bool:
        """Whether somebody may be writing it just now."""
        return 0 <= time.time() - self.changed.timestamp() < SETTLED


_Stamp = tuple[int, int, int]


class Folder:
    """The folder of a forge. May be used from several threads and processes at once."""

    def __init__(self, path: Path) -> None:
        """Open the folder.

        Raises:
            ForgeError: it is not there, or cannot be opened.
        """
        with _telling(str(path)):
            self._workspace = Workspace([path], denied=())
            self.path = Path(self._workspace.roots[0])
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._close = finalize(self, os.close, self._descriptor)
        self._known: dict[str, tuple[_Stamp, Leaf | ForgeError]] = {}
        self._ours: dict[str, str] = {}  # versions that we have written last, by paths

    def close(self) -> None:
        """Give the folder back."""
        self._workspace.close()
        self._close()

    def make(self, kind: Kind) -> None:
        """Make the folder for these files, if there is none, and see that it can be written.

        Raises:
            ForgeError: it cannot.
        """
        with _telling(str(self.path / kind)):
            with suppress(FileExistsError):
                os.mkdir(kind, dir_fd=self._descriptor)
            with self._opened(kind) as folder:
                if not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with self._locked():
            pass

    def all(self, kind: Kind) -> tuple[list[Leaf], list[ForgeError]]:
        """Return all files that can be read, by number, and what is wrong with the others."""
        names = self._names(kind)
        looked = {number: self._look(kind, number, found) for number, found in sorted(names.items())}
        if young := [number for number, found in looked.items() if isinstance(found, _FreshError)]:
            time.sleep(SETTLED)  # somebody may be saving them just now
            looked |= {number: self._look(kind, number, names[number]) for number in young}
        paths = {f"{kind}/{name}" for found in names.values() for name in found}
        for path in [path for path in self._known if path.startswith(f"{kind}/") and path not in paths]:
            del self._known[path]
        leaves = [found for found in looked.values() if isinstance(found, Leaf)]
        errors = [found for found in looked.values() if isinstance(found, ForgeError)]
        return leaves, [error for error in errors if error.code != "forge_not_found"]  # those that went

    def one(self, kind: Kind, number: int) -> Leaf:
        """Return the file with this number.

        Raises:
            ForgeError: there is none, or several; or it cannot be read.
        """
        found = self._look(kind, number, self._names(kind).get(number, []))
        if isinstance(found, ForgeError) and (
            isinstance(found, _FreshError) or found.code == "forge_not_found"
        ):
            time.sleep(SETTLED)  # somebody may be saving it just now, some editors by taking it away first
            found = self._look(kind, number, self._names(kind).get(number, []))
        if isinstance(found, ForgeError):
            raise found
        return found

    def change(self, kind: Kind, number: int, edit: Callable[[Page], Page]) -> Leaf:
        """Change a file, again from the start if somebody else does so meanwhile. Returns what is there now.

        Raises:
            ForgeError: it cannot be read or written, or is changed by somebody all the time.
        """
        with self._locked():
            return self._changed(kind, number, edit)

    def put(self, kind: Kind, found: Callable[[Leaf], bool], edit: Callable[[Page | None], Page]) -> Leaf:
        """Change the newest file of which ``found`` says so, or make a new one with the next number.

        Raises:
            ForgeError: as ``change``.
        """
        with self._locked():
            leaves = [leaf for leaf in self.all(kind)[0] if found(leaf)]
            return self._changed(kind, leaves[-1].number, edit) if leaves else self._made(kind, edit(None))

    def _changed(self, kind: Kind, number: int, edit: Callable[[Page], Page]) -> Leaf:
        for _ in range(_ATTEMPTS):
            leaf = self.one(kind, number)
            if leaf.is_fresh and self._ours.get(leaf.path) != leaf.version:
                time.sleep(SETTLED)  # who is still writing it would write on into what we have replaced
                continue
            with _naming_lines(leaf.path):
                data = format_page(edit(leaf.page))
            if version_of(data) == leaf.version or self._written(leaf.path, data, leaf.version):
                return self.one(kind, number)
            time.sleep(SETTLED / 4)  # somebody saved at this very moment
        raise ForgeError(
            "forge_conflict",
            f"number {number} in `{self.path / kind}` was changed each time that it was to be written",
            hint="close it in the program that keeps saving it",
        )

    def _made(self, kind: Kind, page: Page) -> Leaf:
        data = format_page(page)
        for _ in range(_ATTEMPTS):
            number = max(self._names(kind), default=0) + 1
            if self._written(f"{kind}/{number:03}.md", data, None):
                return self.one(kind, number)
        raise ForgeError("forge_conflict", f"somebody else makes files in `{self.path / kind}` all the time")

    def _written(self, path: str, data: bytes, expected: str | None) -> bool:
        """Write a file; return false if it is not what it was."""
        if len(data) > MOST:
            told = f"`{path}` would be larger than {MOST >> 10} KiB"
            raise ForgeError("forge_rejected", told, hint=_HINTS["forge_rejected"])
        try:
            self._workspace.write(path, data, expected=expected)
        except WorkspaceError as error:
            if error.code in {"stale", "file_exists"} or (expected and error.code == "file_not_found"):
                return False
            raise _told(error) from error
        self._ours[path] = version_of(data)
        return True

    def _names(self, kind: Kind) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        with _telling(str(self.path / kind)):
            try:
                with self._opened(kind) as folder, os.scandir(folder) as scan:
                    for name in sorted(item.name for item in scan):
                        if matched := _NAME.fullmatch(name):
                            found.setdefault(int(matched[1]), []).append(name)
            except FileNotFoundError:
                if os.fstat(self._descriptor).st_nlink == 0:
                    raise
                return {}
        return found

    def _look(self, kind: Kind, number: int, names: list[str]) -> Leaf | ForgeError:
        if not names:
            hint = f"the name of its file in `{self.path / kind}` begins with the number"
            return ForgeError("forge_not_found", f"there is no number {number} in `{kind}`", hint=hint)
        if len(names) > 1:
            told = " and ".join(f"`{kind}/{visible_name(name)}`" for name in names)
            hint = "give all but one of them another number"
            return ForgeError("forge_bad_reply", f"{told} have the same number", hint=hint)
        path = f"{kind}/{names[0]}"
        try:
            with _telling(path), self._opened(kind) as folder, _opened_file(folder, names[0]) as file:
                return self._read(file, number, path)
        except ForgeError as error:
            return error

    def _read(self, file: int, number: int, path: str) -> Leaf | ForgeError:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return ForgeError("forge_bad_reply", f"`{path}` is no file", hint="remove it, or make it one")
        stamp = about.st_ino, about.st_mtime_ns, about.st_size
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        found = _parsed(file, about, number, path)
        age = time.time() - about.st_mtime
        if 0 <= age < _KNOWN_FOR:
            self._known.pop(path, None)
        else:
            self._known[path] = stamp, found
        return _FreshError.of(found) if isinstance(found, ForgeError) and 0 <= age < SETTLED else found

    @contextmanager
    def _opened(self, kind: Kind) -> Generator[int]:
        folder = open_beneath(self._descriptor, kind, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Be the only one of Kakite's processes and threads that changes something."""
        with _telling(str(self.path)):
            lock = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            waiting = pauses(WAIT, threading.Event())
            while not _taken(lock, self.path):
                if next(waiting, waiting) is waiting:
                    told = f"`{self.path}` has been in use by another process for {WAIT:g} s"
                    raise ForgeError("forge_unavailable", told, hint="let it end, then try again")
            yield
        finally:
            os.close(lock)  # which frees it


class _FreshError(ForgeError):
    """What is wrong with a file that has been changed just now."""

    @classmethod
    def of(cls, error: ForgeError) -> _FreshError:
        return cls("forge_bad_reply", error.message, hint=error.hint)


@contextmanager
def _opened_file(folder: int, name: str) -> Generator[int]:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _parsed(file: int, about: os.stat_result, number: int, path: str) -> Leaf | ForgeError:
    with open(file, "rb", closefd=False) as stream:
        data = stream.read(MOST + 1)
    if len(data) > MOST:
        told = f"`{path}` is larger than {MOST >> 10} KiB"
        return ForgeError("forge_bad_reply", told, hint="put what is long into a file of the repository")
    try:
        with _naming_lines(path):
            page = parse_page(data)
    except ForgeError as error:
        return error
    changed = datetime.fromtimestamp(about.st_mtime, UTC)
    return Leaf(
        number=number,
        path=path,
        page=page,
        settings=settings_of(page),
        version=version_of(data),
        changed=changed,
    )


def _taken(lock: int, path: Path) -> bool:
    try:
        with _telling(str(path)):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _naming_lines(path: str) -> Generator[None]:
    """Tell of a broken file by its name and line."""
    try:
        yield
    except PageError as error:
        told = f"`{visible_name(path)}:{error.line}`: {error}"
        raise ForgeError("forge_bad_reply", told, hint=error.hint) from error


@contextmanager
def _telling(path: str) -> Generator[None]:
    """Turn what the system or the workspace says into an error of the forge."""
    try:
        yield
    except BlockingIOError:
        raise
    except WorkspaceError as error:
        raise _told(error) from error
    except OSError as error:
        try:
            with naming(visible_name(path)):
                raise
        except WorkspaceError as named:
            raise _told(named) from error


def _told(error: WorkspaceError) -> ForgeError:
    code = _CODES.get(error.code, "forge_unavailable")
    return ForgeError(code, error.message, hint=_HINTS[code])
