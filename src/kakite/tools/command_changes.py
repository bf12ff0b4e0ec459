"""What a command that the model ran changed in the files that it saw. It stands in none of its edits' way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from kakite.edit import SourceText
from kakite.tools.scope import Scope, is_binary
from kakite.workspace import WorkspaceError

COMMAND_FILES = 64  # of those seen last, that are looked at before and after a command
COMMAND_ROOM = 8 * 1024 * 1024  # characters of all of them


def seen_contents(scope: Scope) -> dict[str, str]:
    """Return what is in the files that the model saw last, before a command of its own runs."""
    contents: dict[str, str] = {}
    room = COMMAND_ROOM
    for path in scope.seen_files()[:COMMAND_FILES]:
        sight = scope.sight(path)
        room -= len(sight.text) if sight else 0
        text = _content(scope, path) if room > 0 else None
        if text is not None:
            contents[path] = text
    return contents


def note_command(scope: Scope, before: Mapping[str, str]) -> None:
    """Remember what a command of the model's own changed: that stands in none of its edits' way."""
    for path, text in before.items():
        sight, now = scope.sight(path), _content(scope, path)
        if sight is not None and now is not None and now != text:
            scope.remember(path, sight.cause(text, now))


def _content(scope: Scope, path: str) -> str | None:
    with suppress(WorkspaceError):
        data = scope.workspace.read(path).data
        return None if is_binary(data) else SourceText.from_bytes(data).text
    return None
