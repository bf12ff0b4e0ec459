"""A confined tree of files: read with a version, written whole or not at all, undone."""

from kakite.workspace.beneath import kernel_confines
from kakite.workspace.contents import version_of
from kakite.workspace.differing import difference
from kakite.workspace.entries import Author, Write
from kakite.workspace.failures import WorkspaceError
from kakite.workspace.history import History, open_history
from kakite.workspace.listing import Entry, Found
from kakite.workspace.planning import Undoing
from kakite.workspace.state import state_folder, state_path
from kakite.workspace.tree import File, Workspace, Writing

__all__ = [
    "Author",
    "Entry",
    "File",
    "Found",
    "History",
    "Undoing",
    "Workspace",
    "WorkspaceError",
    "Write",
    "Writing",
    "difference",
    "kernel_confines",
    "open_history",
    "state_folder",
    "state_path",
    "version_of",
]
