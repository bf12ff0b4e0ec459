"""Shows what calls change as whole old and new texts, which the events of a session do not carry.

The texts are read in the project before a call and after it. What is no text is named, and not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from acp import schema

from kakite.agent.acp.editor_buffers import EditorBuffers
from kakite.edit import SourceText
from kakite.errors import KakiteError
from kakite.tools.scope import is_binary
from kakite.workspace import Workspace, compute_version

ToolContent = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent

MAX_SHOWN_BYTES = 1 << 20
"""Bytes of a file that a diff shows whole."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_GIT_HEAD = "diff --git a/"


def text_content(text: str) -> schema.ContentToolCallContent:
    """Return a text as the content of a call."""
    block = schema.TextContentBlock(type="text", text=text)
    return schema.ContentToolCallContent(type="content", content=block)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSnapshot:
    """A file as it was when it was looked at."""

    text: str | None = None
    """None: there is no file, or none that can be shown."""
    version: str = ""
    """Of its content; empty: there is no file."""
    size: int = 0

    @property
    def can_be_shown(self) -> bool:
        """Whether a diff can show it, also that it is not there."""
        return self.text is not None or not self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffHunk:
    """A hunk of a unified diff, with the lines around the change."""

    start: int
    """The number of the line above it, in the old text."""
    new_start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def reverse(self) -> DiffHunk:
        """Return the hunk that takes it back."""
        return DiffHunk(start=self.new_start, new_start=self.start, old=self.new, new=self.old)


@dataclass(slots=True, kw_only=True)
class FileDiff:
    """What a diff says of one file."""

    path: str
    to: str | None
    """Its name afterwards; None: it is deleted."""
    hunks: list[DiffHunk] = field(default_factory=list[DiffHunk])

    def apply(self, old: str) -> str | None:
        """Return the text that it makes of the old one; None where it does not fit."""
        return _apply_hunks(old, self.hunks)

    def take_back(self, new: str) -> str | None:
        """Return the text that it made the new one of; None where it does not fit."""
        return _apply_hunks(new, [each.reverse() for each in self.hunks])


@dataclass(kw_only=True)
class EditedFiles:
    """The files that calls change: their texts before, and after."""

    project: Path
    inside: str
    """The path of the project as commands see it."""
    buffers: EditorBuffers | None = None
    """The files as the editor has them; None: as they are on the disk."""
    _workspace: Workspace | None = None
    _before: dict[str, dict[str, FileSnapshot]] = field(default_factory=dict[str, "dict[str, FileSnapshot]"])

    def to_host_path(self, path: str) -> str:
        """Return the absolute path on the host of a path that the model named."""
        named = PurePosixPath(self.inside, path)
        try:
            relative = named.relative_to(self.inside)
        except ValueError:
            return str(named)
        return str(Path(self.project, relative))

    def note(self, call_id: str, paths: list[str]) -> None:
        """Read the files that a call is going to change."""
        self._before[call_id] = {path: self._read_disk(path) for path in paths}

    def show_preview(self, diff: str) -> list[ToolContent]:
        """Return what a call would change, by the diff of its preview."""
        shown: list[ToolContent] = []
        for each in parse_diff(diff):
            old = self._read(each.path)
            new = each.apply(old.text or "") if old.can_be_shown else None
            if new is None and old.can_be_shown:  # it was cut, or the file is another one by now
                return [text_content(f"```diff\n{diff}\n```")]
            shown += self._show(each, old, new)
        return shown or ([text_content(f"```diff\n{diff}\n```")] if diff else [])

    def _show(self, change: FileDiff, old: FileSnapshot, new: str | None) -> Iterator[ToolContent]:
        if new is None:
            what = "is deleted" if change.to is None else "changes"
            yield text_content(f"`{change.path}` {what} ({old.size:,} bytes that are no text to show)")
        elif change.to is None:
            yield self._to_diff(change.path, old.text, "")
        elif change.to != change.path:
            yield self._to_diff(change.path, old.text, "")
            yield self._to_diff(change.to, None, new)
        else:
            yield self._to_diff(change.path, old.text, new)

    def show_result(self, call_id: str, diff: str = "") -> list[ToolContent]:
        """Return what a call has changed; of files that it did not name, by its diff."""
        shown: list[ToolContent] = []
        noted = self._before.pop(call_id, {})
        for path, noted_before in noted.items():
            replaced = self._take_replaced(path)
            old = replaced or noted_before
            new = self._read(path) if replaced else self._read_disk(path)
            if new.version == old.version:
                continue
            if old.can_be_shown and new.can_be_shown:
                shown.append(self._to_diff(path, old.text, new.text or ""))
            else:
                told = f"`{path}`: {old.size:,} bytes became {new.size:,}, which are no text to show"
                shown.append(text_content(told))
        known = {self.to_host_path(path) for path in noted}
        for each in parse_diff(diff):
            if each.to is not None and self.to_host_path(each.path) not in known:
                replaced, new = self._take_replaced(each.to), self._read(each.to)
                if new.text is None:
                    continue
                old_text = replaced.text if replaced else each.take_back(new.text)
                if old_text is not None:
                    shown.append(self._to_diff(each.to, old_text, new.text))
        return shown

    def _take_replaced(self, path: str) -> FileSnapshot | None:
        """Return what the editor's file was before it was given the text that it has now."""
        text = self.buffers.replaced.pop(self.to_host_path(path), None) if self.buffers else None
        return None if text is None else _create_snapshot(text)

    def _to_diff(self, path: str, old: str | None, new: str) -> schema.FileEditToolCallContent:
        return schema.FileEditToolCallContent(
            type="diff", path=self.to_host_path(path), old_text=old, new_text=new
        )

    def _read(self, path: str) -> FileSnapshot:
        """Return a file as the editor had it last, where the editor was asked; else as it is on the disk."""
        known = self.buffers.known.get(self.to_host_path(path)) if self.buffers else None
        return self._read_disk(path) if known is None else _create_snapshot(known)

    def _read_disk(self, path: str) -> FileSnapshot:
        host = Path(self.to_host_path(path))
        try:  # by the workspace: a link that a command made leads nowhere
            self._workspace = self._workspace or Workspace([self.project])
            data = self._workspace.read(str(host.relative_to(self.project))).data
        except (ValueError, OSError, KakiteError):
            return FileSnapshot()
        if len(data) > MAX_SHOWN_BYTES or is_binary(data):
            return FileSnapshot(version=compute_version(data), size=len(data))
        text = SourceText.from_bytes(data).text
        return FileSnapshot(text=text, version=compute_version(data), size=len(data))


def _create_snapshot(text: str) -> FileSnapshot:
    data = text.encode(errors="surrogatepass")
    shown = text if len(data) <= MAX_SHOWN_BYTES else None
    return FileSnapshot(text=shown, version=compute_version(data), size=len(data))


def parse_diff(diff: str) -> list[FileDiff]:
    """Return what a unified diff says, file by file: nothing of one that was cut off."""
    files: list[FileDiff] = []
    rows = diff.split("\n")
    at = 0
    while at < len(rows):
        row = rows[at]
        at += 1
        head = _HUNK.match(row)
        if head and files:
            hunk, at = _parse_hunk(head, rows, at)
            files[-1].hunks.append(hunk)
        elif row.startswith(_GIT_HEAD) and at < len(rows) and rows[at].startswith("deleted file"):
            same = row.removeprefix(_GIT_HEAD)
            files.append(FileDiff(path=same[: (len(same) - 3) // 2], to=None))
        elif row.startswith("rename from ") and at < len(rows):
            to = rows[at].removeprefix("rename to ")
            files.append(FileDiff(path=row.removeprefix("rename from "), to=to))
        elif row.startswith("--- ") and at < len(rows) and rows[at].startswith("+++ "):
            path = row.removeprefix("--- ").removeprefix("a/")
            if not files or files[-1].path != path or files[-1].hunks:
                files.append(FileDiff(path=path, to=path))
            at += 1
        elif row.startswith("…"):  # the rest was cut off, and nobody knows of which files
            return []
    return files


def _parse_hunk(head: re.Match[str], rows: list[str], at: int) -> tuple[DiffHunk, int]:
    """Return a hunk, and where the diff goes on."""
    old: list[str] = []
    new: list[str] = []
    left = [1 if head[2] is None else int(head[2]), 1 if head[4] is None else int(head[4])]
    starts = [max(int(head[1]) - (left[0] > 0), 0), max(int(head[3]) - (left[1] > 0), 0)]
    sides: tuple[list[str], ...] = ()
    while at < len(rows) and (left != [0, 0] or rows[at].startswith("\\")):
        row = rows[at]
        at += 1
        if row.startswith("\\"):  # no line end in front of this
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
            continue
        sides = {"-": (old,), "+": (new,), " ": (old, new)}.get(row[:1], ())
        for side in sides:
            side.append(f"{row[1:]}\n")
            left[side is new] -= 1
        if not sides or min(left) < 0:
            return DiffHunk(start=starts[0], new_start=starts[1], old=("\0",), new=("\0",)), at
    if left != [0, 0]:
        old, new = ["\0"], ["\0"]
    return DiffHunk(start=starts[0], new_start=starts[1], old=tuple(old), new=tuple(new)), at


def _apply_hunks(old: str, hunks: list[DiffHunk]) -> str | None:
    lines, out, at = old.split("\n"), list[str](), 0
    lines = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    for hunk in hunks:
        end = hunk.start + len(hunk.old)
        if hunk.start < at or tuple(lines[hunk.start : end]) != hunk.old:
            return None
        out += [*lines[at : hunk.start], *hunk.new]
        at = end
    return "".join([*out, *lines[at:]])
