"""What a path may be called. Looks at the text only."""

from __future__ import annotations

import os

from kakite.workspace.failures import WorkspaceError


def check_name(path: str) -> None:
    """Raise unless this could name something."""
    if not path or "\0" in path:
        raise WorkspaceError("bad_path", path, "a path must be given, without NUL characters")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise WorkspaceError("bad_path", ascii(path), "a path must be text that has an encoding") from error


def split_path(relative: str, path: str) -> tuple[str, str]:
    """Return the folder and the name of the file that a path names."""
    parent, _, name = relative.rpartition("/")
    if {name, path.rpartition("/")[2]} & {"", ".", ".."}:
        raise WorkspaceError(
            "bad_path", path, f"`{path}` names a folder, not a file", hint="add the file's name"
        )
    if any(character < " " or character == "\x7f" for character in relative):
        raise WorkspaceError("bad_path", path, "a path may not hold control characters")
    return parent or ".", name


def join_path(folder: str, name: str) -> str:
    """Return the path of a file in a folder, ``.`` being the root."""
    return name if folder == "." else f"{folder}/{name}"
