"""Follows the files that patches in the format of ``apply_patch`` change, of codex and of opencode."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, cast

from kakite.cli.replay.recorded_edit import Ending, KnownTexts, RecordedEdit, replay_hunks
from kakite.cli.replay.unified_hunks import read_hunks

if TYPE_CHECKING:
    from kakite.edit import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What the client says that a patch did to a file."""

    path: str
    moved: str = ""
    """Where to, if it was moved."""
    is_gone: bool = False
    text: str | None = None
    """The whole text of after, if it is told."""
    diff: str = ""


@dataclass
class PatchedFiles:
    """The texts of files so far, and the folder that a patch names them from."""

    folder: str = "/"
    texts: KnownTexts = field(default_factory=KnownTexts)

    def replay(
        self, key: str, patch: str, changes: Iterable[FileChange], ending: Ending
    ) -> Iterator[RecordedEdit]:
        """Yield the edit that a patch is, unless it only makes files, and learn what it did."""
        from kakite.edit import CreateFile

        operations = self._parse(patch)
        edited = {each.path for each in operations if not isinstance(each, CreateFile)}
        before = {path: text for path in edited if (text := self.texts.get(f"/{path}")) is not None}
        known = before if len(before) == len(edited) else None
        after = self._learn(changes) if ending == "applied" else None
        if edited or not operations:
            whole_key = f"{key}\0{patch}"
            yield RecordedEdit(key=whole_key, operations=operations, before=known, after=after, ending=ending)

    def _parse(self, patch: str) -> tuple[Operation, ...]:
        from kakite.edit import FormatError, MoveFile, parse

        try:
            operations = parse(patch, "apply_patch")
        except FormatError:
            return ()
        return tuple(
            with_fields(each, path=self._name(each.path), to=self._name(each.to))
            if isinstance(each, MoveFile)
            else with_fields(each, path=self._name(each.path))
            for each in operations
        )

    def _name(self, path: str) -> str:
        """Return a path from the root on, without its slash: the engine takes relative ones alone."""
        return posixpath.normpath(posixpath.join(self.folder, path)).lstrip("/")

    def _learn(self, changes: Iterable[FileChange]) -> dict[str, str] | None:
        """Remember the files that a patch has written, and return them; None if one is not known."""
        after: dict[str, str | None] = {}
        for each in changes:
            text = each.text
            if text is None and not each.is_gone:
                old, hunks = self.texts.get(each.path), read_hunks(each.diff)
                text = replay_hunks(old, hunks) if old is not None and hunks else None
            self.texts.set(each.path, None)
            self.texts.set(each.moved or each.path, text)
            if not each.is_gone:
                after[self._name(each.moved or each.path)] = text
        return cast("dict[str, str]", after) if after and None not in after.values() else None
