"""Defines the part of a workspace that a session's tools see: all of it, or a folder that the model chose."""

from __future__ import annotations

import codecs
import os
import posixpath
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from kakite.edit import SourceText
from kakite.edit.suggestions.model import SuggestionStore
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import current_call
from kakite.tools.changes.seen_content import SeenContent, SeenContentStore
from kakite.tools.text_pages import escape_bytes
from kakite.tools.worker_threads import PathLocks
from kakite.workspace import Author, File, FileWrite, Listing, UndoPlan, WalkedFile, Workspace, WorkspaceError

if TYPE_CHECKING:
    from kakite.tools.after_edit import AfterEditCommand


class Scope:
    """A workspace, and for each session the folder beneath its roots where relative paths start.

    Once narrowed, nothing outside of that folder is named. What confines is the workspace: beneath its roots
    a link may still lead from one folder into another.
    """

    def __init__(
        self, workspace: Workspace, *, require_read: bool = False, after_edit: Sequence[AfterEditCommand] = ()
    ) -> None:
        self.workspace = workspace
        self.require_read = require_read
        """Whether a file that is there must have been shown before it is edited."""
        self.shows_anchors = False
        """Whether lines of files are shown with the anchors by which they are edited."""
        self.after_edit = tuple(after_edit)
        """Commands for files that were written."""
        self.turns = PathLocks()
        self.accepted_by: tuple[str, str] | None = None
        """The tool that accepts suggestions, and the command of it, if it needs one; None if none does."""
        self._guard = threading.Lock()
        self._notes: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()
        self._suggestions: WeakKeyDictionary[object, SuggestionStore] = WeakKeyDictionary()
        self._sights = SeenContentStore()
        self._folders: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        """Of the sessions that narrowed it, as long as they live; absolute."""

    @property
    def suggestions(self) -> SuggestionStore:
        """The suggestions of refused edits in this session. Clients that have none share one."""
        with self._guard:
            return self._suggestions.setdefault(current_call().session_key, SuggestionStore())

    @property
    def _folder(self) -> str:
        """The folder that this session narrowed itself to; empty if the whole workspace is meant."""
        call = current_call()
        folder = "" if call.session is None else self._folders.get(call.session, "")
        expected = call.cwd
        if expected and escape_bytes(folder or self.workspace.roots[0]) != expected:
            raise WorkspaceError(
                "workspace_moved",
                expected,
                f"relative paths do not start in `{expected}` any more, so that nothing was done",
                hint="the server was started again: call set_workspace again",
            )
        return folder

    @property
    def folder(self) -> str:
        """The absolute path of the folder where relative paths start."""
        return self._folder or self.workspace.roots[0]

    def narrow(self, path: str) -> str:
        """Narrow to a folder beneath the roots, given absolutely or from the first root; return its path.

        Raises:
            ToolError: ``no_session``.
            WorkspaceError: it is no folder, or lies out of the workspace.
        """
        session = current_call().session
        if session is None:
            raise ToolError(
                "this client has no session, so that no folder can be remembered for it",
                hint="give every path from the first root, or absolutely",
                code="no_session",
            )
        roots = self.workspace.roots
        folder = posixpath.normpath(posixpath.join(roots[0], self.workspace.get_real_path(path)))
        if not self.workspace.is_folder(path if not path or "\0" in path else folder):
            raise WorkspaceError("not_a_directory", path, f"`{path}` is not a folder")
        self._folders.pop(session, None)
        self._suggestions.pop(session, None)  # their paths would name other files
        if folder != roots[0]:
            self._folders[session] = folder
        return folder

    def to_workspace_path(self, path: str) -> str:
        """Return the path as the workspace takes it.

        Raises:
            WorkspaceError: it leads out of the folder that this is narrowed to.
        """
        folder = self._folder
        if not folder or not path:
            return path
        full = posixpath.normpath(posixpath.join(folder, self.workspace.get_real_path(path)))
        if full != folder and not full.startswith(f"{folder}/"):
            raise WorkspaceError(
                "path_escapes",
                path,
                f"`{path}` lies out of `{folder}`, which set_workspace chose",
                hint="use a path below it, or call set_workspace again",
            )
        # A slash at the end says that a folder is meant.
        return f"{full}/" if path.endswith("/") else full

    def canonicalize(self, path: str) -> str:
        """Return the absolute path without detours: two paths with the same one name the same file."""
        return posixpath.normpath(posixpath.join(self.folder, self.workspace.get_real_path(path)))

    def to_relative(self, path: str) -> str:
        """Return a path that the workspace gave, relative to the folder where relative paths start."""
        full = posixpath.join(self.workspace.roots[0], path)
        return full.removeprefix(f"{self.folder}/")

    def get_seen(self, path: str) -> SeenContent | None:
        """Return what this session has seen of a file."""
        return self._sights.get(current_call().session_key, self._build_seen_key(path))

    def remember(self, path: str, sight: SeenContent | None) -> None:
        """Remember what this session has seen of a file; None: nothing any more."""
        self._sights.put(current_call().session_key, self._build_seen_key(path), sight)

    @contextmanager
    def hold_notes(self, paths: Iterable[str]) -> Generator[None]:
        """Let no other call of ours read or write these files until it is noted what was seen of them.

        Else a view could note what it read before another call's write, after that write was noted.
        Whoever waits for other processes takes this afterwards, so that a view never waits for them.
        """
        with ExitStack() as held:
            for key in sorted({self._build_lock_key(path) for path in paths}):
                with self._guard:
                    lock = self._notes.setdefault(key, threading.RLock())
                held.enter_context(lock)
            yield

    def _build_lock_key(self, path: str) -> str:
        try:
            return self._build_seen_key(path)
        except (ValueError, WorkspaceError):  # no path: what comes next says so
            return path

    def list_seen_files(self) -> list[str]:
        """Return the absolute paths of the files that this session has seen, the latest first."""
        return self._sights.list_paths(current_call().session_key)

    def _build_seen_key(self, path: str) -> str:
        """Return by what a file is remembered: links to it are the same file."""
        name = self.canonicalize(path)
        try:
            return os.path.realpath(name)
        except OSError:  # somebody moves folders and links on the way just now
            return name

    def read(self, path: str) -> File:
        """Read a regular file, as ``Workspace.read``."""
        with self._resolve_path(path) as full:
            return self.workspace.read(full)

    def find(self, path: str) -> File | None:
        """Read a regular file; None if there is nothing."""
        try:
            return self.read(path)
        except WorkspaceError as error:
            if error.code != "file_not_found":
                raise
            return None

    def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder, as ``Workspace.is_folder``."""
        with self._resolve_path(path) as full:
            return self.workspace.is_folder(full)

    def is_link(self, path: str) -> bool:
        """Return whether the path itself is a link, as ``Workspace.is_link``."""
        with self._resolve_path(path) as full:
            return self.workspace.is_link(full)

    def get_mode(self, path: str) -> int:
        """Return the permission bits of a file, as ``Workspace.get_mode``."""
        with self._resolve_path(path) as full:
            return self.workspace.get_mode(full)

    @contextmanager
    def open_folder(self, path: str) -> Generator[int]:
        """Yield a descriptor of the folder, as ``Workspace.open_folder``."""
        with ExitStack() as opened:
            with self._resolve_path(path) as full:
                folder = opened.enter_context(self.workspace.open_folder(full))
            yield folder

    def walk(self, path: str, *, depth: int, limit: int, ignored: bool, size: int = sys.maxsize) -> Listing:
        """List a folder, as ``Workspace.walk``; ``size`` is in characters as answers spell them."""
        with self._resolve_path(path) as full:
            return self.workspace.walk(
                full, depth=depth, limit=limit, size=size, measure=_measure_path, ignored=ignored
            )

    def list_tree(self, path: str, *, depth: int, limit: int, size: int) -> tuple[Listing, list[str]]:
        """List a folder without what is ignored, and name what is left out of the folder itself for that."""
        listing = self.walk(path, depth=depth, limit=limit, size=size, ignored=False)
        kept = {entry.path for entry in listing}
        if any(not each.path for each in listing.unlisted):
            return listing, []
        top = self.walk(path, depth=1, limit=limit, ignored=True)
        left_out = [entry for entry in top if entry.path not in kept]
        return listing, [f"{entry.path}/" if entry.is_folder else entry.path for entry in left_out]

    def walk_files(self, path: str) -> Iterator[WalkedFile]:
        """Yield each file beneath a folder that is not ignored, as ``Workspace.walk_files``."""
        with self._resolve_path(path) as full:
            yield from self.workspace.walk_files(full)

    @contextmanager
    def lock_files(self, paths: Iterable[str]) -> Generator[None]:
        """Keep others who take turns from writing these files meanwhile, as ``Workspace.turn``."""
        named = {self.to_workspace_path(path): path for path in paths}
        try:
            with self.workspace.turn(list(named)):
                yield
        except WorkspaceError as error:
            for full, path in named.items():
                _restore_path_in_error(error, full, path)
            raise

    def write_all(
        self, writings: Sequence[FileWrite], *, by: Author, on_locked: Callable[[], object]
    ) -> None:
        """Write several files, all or none of them, as ``Workspace.write_all``."""
        named = {self.to_workspace_path(each.path): each.path for each in writings}
        try:
            self.workspace.write_all(
                [_replace_path(each, self.to_workspace_path(each.path)) for each in writings],
                by=by,
                on_locked=on_locked,
            )
        except WorkspaceError as error:
            for full, path in named.items():
                _restore_path_in_error(error, full, path)
            raise

    def count_hard_links(self, path: str) -> int:
        """Return how many other names a file has, as ``Workspace.count_hard_links``."""
        with self._resolve_path(path) as full:
            return self.workspace.count_hard_links(full)

    def amend(self, path: str, written: bytes) -> File | None:
        """Take what a program has made of a file into the last write of it, as ``Workspace.amend``."""
        with self._resolve_path(path) as full:
            return self.workspace.amend(full, written)

    def to_root_relative(self, path: str) -> str:
        """Return a path from the root that it lies below."""
        full = self.canonicalize(path)
        below = [
            full.removeprefix(f"{root}/") for root in self.workspace.roots if full.startswith(f"{root}/")
        ]
        return min(below, key=len, default=full.lstrip("/"))

    def check_writable(self, path: str) -> None:
        """Check whether a file may be written at this path, as ``Workspace.check_writable``."""
        with self._resolve_path(path) as full:
            self.workspace.check_writable(full)

    def plan_undo(self, path: str, run: str) -> tuple[UndoPlan, ...]:
        """Return what undoing the last write of this file would do, as ``Workspace.plan_undo``."""
        with self._resolve_path(path) as full:
            return self.workspace.plan_undo(full, by=run)

    def apply_undo(self, undoing: Sequence[UndoPlan], path: str) -> None:
        """Apply the plan, as ``Workspace.apply_undo``. ``path`` is how the file was named."""
        with self._resolve_path(path):
            self.workspace.apply_undo(undoing)

    @contextmanager
    def _resolve_path(self, path: str) -> Generator[str]:
        """Yield the full path; errors name the path as the caller wrote it."""
        full = self.to_workspace_path(path)
        try:
            yield full
        except WorkspaceError as error:
            _restore_path_in_error(error, full, path)
            raise


_AROUND = 12  # characters: what is said of an entry, and its line end


def _measure_path(path: str) -> int:
    return _AROUND + (len(path) if path.isascii() else len(escape_bytes(path)))


def _replace_path(writing: FileWrite, path: str) -> FileWrite:
    return replace(writing, path=path)


def _restore_path_in_error(error: WorkspaceError, full: str, path: str) -> None:
    """Let an error name this path as the caller wrote it."""
    error.message = error.message.replace(f"`{full}`", f"`{path}`")
    if error.path == full:
        error.path = path


def decode_text(file: File, path: str) -> SourceText:
    """Return a file's text.

    Raises:
        ToolError: ``binary_file``.
    """
    if not is_binary(file.data):
        return SourceText.from_bytes(file.data)
    raise ToolError(f"`{path}` is a binary file ({len(file.data):,} bytes)", code="binary_file")


_SAMPLE = 64 * 1024  # bytes; all of a large binary file would take seconds to look at
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE, codecs.BOM_UTF8)


def is_binary(data: bytes) -> bool:
    """Return whether this is no text: it has NUL characters, in every encoding that it could be in."""
    if b"\0" not in data:
        return False
    sample = data if data.startswith(_MARKS) else data[:_SAMPLE]
    text = SourceText.from_bytes(sample if b"\0" in sample else data).text
    return "\0" in text or not (data.startswith(_MARKS) or _is_plausible_text(text))


_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_WHOLE_PAGE = re.compile("[\u0100-\uffff]")


def _is_plausible_text(text: str) -> bool:
    """Return whether text with two bytes a character is one: without a mark, any bytes can be read so."""
    if _CONTROL.search(text):
        return False
    # A NUL has to come from a letter that needs one byte, not from one of the first in a page of 256.
    odd = sum(ord(found[0]) % 256 == 0 for found in _WHOLE_PAGE.finditer(text))
    return odd < sum(map(text.count, " \netaoin"))
