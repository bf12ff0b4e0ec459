"""A confined tree of files: read with a version, written whole or not at all, undone."""

from kakite.workspace.beneath import kernel_confines
from kakite.workspace.contents import File, version_of
from kakite.workspace.denied import DENIED, names_denied
from kakite.workspace.differing import difference
from kakite.workspace.entries import Author, Write
from kakite.workspace.failures import WorkspaceError
from kakite.workspace.forgetting import Forgetting
from kakite.workspace.history import KEPT_DAYS, History
from kakite.workspace.journals import Journal, journals_of, latest, open_history, writes_of
from kakite.workspace.listing import Entry, Found, Listing, Walked
from kakite.workspace.place import READ_LIMIT
from kakite.workspace.planning import Undoing, Writing
from kakite.workspace.state import state_folder, state_path
from kakite.workspace.tree import Workspace

__all__ = [
    "DENIED",
    "KEPT_DAYS",
    "READ_LIMIT",
    "Author",
    "Entry",
    "File",
    "Forgetting",
    "Found",
    "History",
    "Journal",
    "Listing",
    "Undoing",
    "Walked",
    "Workspace",
    "WorkspaceError",
    "Write",
    "Writing",
    "difference",
    "journals_of",
    "kernel_confines",
    "latest",
    "names_denied",
    "open_history",
    "state_folder",
    "state_path",
    "version_of",
    "writes_of",
]
