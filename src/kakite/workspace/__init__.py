"""A confined tree of files: read with a version, written whole or not at all, undone."""

from kakite.state_paths import ensure_state_folder, get_state_path
from kakite.workspace.atomic_file import READ_LIMIT
from kakite.workspace.buffers import Buffers, make_buffer_error
from kakite.workspace.content import File, compute_version, format_diff
from kakite.workspace.edit_log import (
    RETENTION_DAYS,
    EditLog,
    StoredEditLog,
    find_edit_logs,
    find_latest,
    list_writes,
    open_edit_log,
)
from kakite.workspace.edit_log_rows import Author, LoggedWrite, PruneFilter
from kakite.workspace.errors import WorkspaceError
from kakite.workspace.listing import Entry, FoundFile, Listing, WalkedFile
from kakite.workspace.openat2 import has_openat2
from kakite.workspace.roots import get_inherited_path
from kakite.workspace.transaction import FileWrite
from kakite.workspace.undo import UndoPlan
from kakite.workspace.workspace import Workspace
from kakite.workspace.write_denylist import DEFAULT_DENYLIST, build_denylist

__all__ = [
    "DEFAULT_DENYLIST",
    "READ_LIMIT",
    "RETENTION_DAYS",
    "Author",
    "Buffers",
    "EditLog",
    "Entry",
    "File",
    "FileWrite",
    "FoundFile",
    "Listing",
    "LoggedWrite",
    "PruneFilter",
    "StoredEditLog",
    "UndoPlan",
    "WalkedFile",
    "Workspace",
    "WorkspaceError",
    "build_denylist",
    "compute_version",
    "ensure_state_folder",
    "find_edit_logs",
    "find_latest",
    "format_diff",
    "get_inherited_path",
    "get_state_path",
    "has_openat2",
    "list_writes",
    "make_buffer_error",
    "open_edit_log",
]
