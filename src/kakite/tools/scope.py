"""Keeps, for each session, the folder of the workspace that it chose, and what it has seen there."""

from __future__ import annotations

import codecs
import os
import re
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from kakite.edit import SourceText
from kakite.edit.suggestions.model import SuggestionStore
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import current_call
from kakite.tools.changes.seen_content import SeenContent, SeenContentStore
from kakite.tools.text_pages import escape_bytes
from kakite.tools.worker_threads import PathLocks
from kakite.workspace import File, Workspace, WorkspaceError

if TYPE_CHECKING:
    from kakite.tools.after_edit import AfterEditCommand


class Scope:
    """A workspace as each session sees it: from the folder on that it chose, and what it has seen there."""

    def __init__(
        self,
        workspace: Workspace | None,
        *,
        require_read: bool = False,
        after_edit: Sequence[AfterEditCommand] = (),
    ) -> None:
        self._whole = workspace
        """None: each call brings the folders that it may use."""
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
        self._suggestions: WeakKeyDictionary[object, tuple[Workspace, SuggestionStore]] = WeakKeyDictionary()
        """Of each session, with the workspace that their paths are of."""
        self._sights = SeenContentStore()
        self._views: WeakKeyDictionary[object, tuple[Workspace, Workspace]] = WeakKeyDictionary()
        """Of the sessions that chose a folder, as long as they live: the workspace, and the view of it."""

    @property
    def whole(self) -> Workspace:
        """All of the workspace, whatever folder a session chose.

        Raises:
            WorkspaceError: ``no_root``.
        """
        found = current_call().workspace or self._whole
        if found is None:
            raise WorkspaceError(
                "no_root", "", "no folder is open", hint="start the server with a folder: --root DIR"
            )
        return found

    @property
    def workspace(self) -> Workspace:
        """The workspace, from the folder on that this session chose.

        Raises:
            WorkspaceError: ``workspace_moved``: the call says that it is another folder.
        """
        call = current_call()
        view = self.whole if call.session is None else self._find_view(call.session)
        if call.cwd and escape_bytes(view.folder) != call.cwd:
            raise WorkspaceError(
                "workspace_moved",
                call.cwd,
                f"relative paths do not start in `{call.cwd}` any more, so that nothing was done",
                hint="the server was started again: call set_workspace again",
            )
        return view

    def _find_view(self, session: object) -> Workspace:
        whole = self.whole
        chosen, view = self._views.get(session, (whole, whole))
        if chosen is whole:
            return view
        try:
            moved = whole.at(view.folder)
        except WorkspaceError as error:
            raise WorkspaceError(
                "workspace_moved",
                view.folder,
                f"the client took `{view.folder}`, which set_workspace chose, out of its folders",
                hint="call set_workspace with a folder that is still among them",
            ) from error
        self._views[session] = (whole, moved)
        return moved

    def narrow(self, path: str) -> str:
        """Start this session's paths at a folder, given absolutely or from the first root; return its path.

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
        whole = self.whole
        view = whole.at(path)
        self._views[session] = (whole, view)
        self._suggestions.pop(session, None)  # their paths would name other files
        return view.folder

    @property
    def suggestions(self) -> SuggestionStore:
        """The suggestions of refused edits in this session. Clients that have none share one."""
        session, whole = current_call().session_key, self.whole
        with self._guard:
            of, store = self._suggestions.get(session, (None, SuggestionStore()))
            if of is not whole:
                store = SuggestionStore()  # the paths of the others would name other files
                self._suggestions[session] = (whole, store)
            return store

    def get_seen(self, path: str) -> SeenContent | None:
        """Return what this session has seen of a file."""
        return self._sights.get(current_call().session_key, self._build_seen_key(path))

    def remember(self, path: str, sight: SeenContent | None) -> None:
        """Remember what this session has seen of a file; None: nothing any more."""
        self._sights.put(current_call().session_key, self._build_seen_key(path), sight)

    def list_seen_files(self) -> list[str]:
        """Return the absolute paths of the files that this session has seen, the latest first."""
        return self._sights.list_paths(current_call().session_key)

    def _build_seen_key(self, path: str) -> str:
        """Return by what a file is remembered: links to it are the same file."""
        name = self.workspace.canonicalize(path)
        try:
            return os.path.realpath(name)
        except (
            OSError,
            ValueError,
        ):  # somebody moves folders and links on the way just now, or it is no path
            return name

    @contextmanager
    def hold_notes(self, paths: Iterable[str]) -> Generator[None]:
        """Let no other call of ours read or write these files until it is noted what was seen of them.

        Else a view could note what it read before another call's write, after that write was noted.
        Whoever waits for other processes takes this afterwards, so that a view never waits for them.
        """
        with ExitStack() as held:
            for key in sorted({self._build_seen_key(path) for path in paths}):
                with self._guard:
                    lock = self._notes.setdefault(key, threading.RLock())
                held.enter_context(lock)
            yield


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
