"""Lists the versions of a page's file that the edit log knows: one for each stretch of work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kakite.workspace.edit_log_rows import LoggedWrite

MAX_WRITES = 2_000
"""Writes of a file that are looked through, the last ones."""
_STRETCH = 600.0  # s: writes of one author so close together are one version
_TOOL = "collab: "


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """What a page's file held at some time."""

    id: str
    """The version of the content."""
    time: float
    """Seconds since 1970: when it was written, or, of what others wrote, when it was replaced."""
    by: str
    """Who wrote it: the people, or the tool's name; empty: somebody else, or not known."""
    run: str = ""
    """The run of the assistant or of an agent that wrote it."""


def list_file_versions(writes: Sequence[LoggedWrite]) -> list[FileVersion]:
    """Return the versions that these writes of one file left or replaced, the last one first.

    Writes of one author within ten minutes are one version: the last of them. A version that stands there
    several times is told once.
    """
    seen: set[str] = set()
    found: list[FileVersion] = []
    for each in _iter_versions(writes):
        if each.id not in seen:
            seen.add(each.id)
            found.append(each)
    return found


def _iter_versions(writes: Sequence[LoggedWrite]) -> Iterator[FileVersion]:
    newest: LoggedWrite | None = None
    for write, earlier in zip_longest(writes, writes[1:]):
        is_own = newest is not None and _is_same_stretch(newest, write)
        if write.after is not None and not is_own:
            yield FileVersion(id=write.after, time=write.time, by=_name_author(write), run=write.run)
        newest = newest if is_own else write
        # What the write replaced, where no write of ours had left it.
        if write.before is not None and (earlier is None or earlier.after != write.before):
            yield FileVersion(id=write.before, time=write.time, by="")
            newest = None


def _is_same_stretch(newest: LoggedWrite, write: LoggedWrite) -> bool:
    return (newest.tool, newest.run) == (write.tool, write.run) and newest.time - write.time < _STRETCH


def _name_author(write: LoggedWrite) -> str:
    return write.tool.removeprefix(_TOOL)
