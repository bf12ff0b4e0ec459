"""The last write of a file taken back: this session's own first, and another one's not without a word."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kakite.edit import SourceText
from kakite.tools.binding import digest_of
from kakite.tools.changed import note_undo
from kakite.tools.edits import by_lines, outdated, previewed, refused_outdated, shown_diff
from kakite.tools.scope import Scope, is_binary
from kakite.tools.snippets import first_hunks, shown_change
from kakite.tools.toolset import ToolResult
from kakite.workspace import Undoing, version_of


def undo_last(scope: Scope, path: str, *, run: str, preview: bool) -> ToolResult:
    """Take back the last write of a file, or with ``preview`` only show it. ``run`` is this session's.

    Raises:
        WorkspaceError: ``nothing_to_undo``; ``stale`` if the file is not what that write left, or others
            wrote to it after this session did.
    """
    undoing = scope.undoing(path, run)
    diff = _diff(undoing, path, scope)
    bound = digest_of([[each.key, _version(each.before), _version(each.after)] for each in undoing])
    if preview:
        return previewed(diff, bound)
    if outdated(bound):
        return refused_outdated(diff, bound)
    scope.take_back(undoing, path)
    for each in undoing:
        note_undo(scope, each)
    changed = first_hunks(diff) if len(undoing) == 1 and undoing[0].before and undoing[0].after else ""
    text = "\n".join(filter(None, [_told(undoing, path, scope), changed]))
    last = undoing[0].last
    details = {"diff": shown_diff(diff)}
    if last is None or last.run == run:
        return ToolResult(text=text, details=details)
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last.time))
    text += (
        f"\nNo edit of `{path}` by this session was left: this was one of another session, "
        f"by `{last.tool or 'an edit'}` at {when}. Do it again if that was not meant"
    )
    return ToolResult(text=text, details={**details, "run": last.run})


def _told(undoing: Sequence[Undoing], path: str, scope: Scope) -> str:
    if len(undoing) > 1:
        here, other = undoing
        ends = (path, scope.shown(other.path))
        back, gone = ends if here.after is not None else ends[::-1]
        return f"Undid the move: `{back}` is there again, `{gone}` is not"
    if undoing[0].after is None:
        return f"Removed `{path}`, which the last edit had created"
    if undoing[0].before is None:
        return f"Brought back `{path}`, which was deleted"
    return f"Undid the last edit of `{path}`"


def _diff(undoing: Sequence[Undoing], path: str, scope: Scope) -> str:
    names = [path, *(scope.shown(each.path) for each in undoing[1:])]
    return "".join(_change(each, name) for each, name in zip(undoing, names, strict=True))


def _change(undoing: Undoing, path: str) -> str:
    before, after = undoing.before or b"", undoing.after or b""
    if is_binary(before) or is_binary(after):
        return f"Binary file {path}: {len(before):,} bytes become {len(after):,}\n"
    now = SourceText.from_bytes(before).text
    return shown_change(by_lines(now, SourceText.from_bytes(after).text), now, path)


def _version(data: bytes | None) -> str | None:
    return None if data is None else version_of(data)
