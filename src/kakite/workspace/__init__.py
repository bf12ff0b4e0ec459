"""A confined tree of files: read with a version, written whole or not at all, undone."""

from kakite.workspace.beneath import kernel_confines
from kakite.workspace.failures import WorkspaceError
from kakite.workspace.history import Author, History, Write, open_history
from kakite.workspace.listing import Entry, Found
from kakite.workspace.place import version_of
from kakite.workspace.state import state_folder, state_path
from kakite.workspace.tree import File, Workspace

__all__ = [
    "Author",
    "Entry",
    "File",
    "Found",
    "History",
    "Workspace",
    "WorkspaceError",
    "Write",
    "kernel_confines",
    "open_history",
    "state_folder",
    "state_path",
    "version_of",
]
