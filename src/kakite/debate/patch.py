"""Makes a patch of what a debate ends in: the edit engine checks each side's edits, and a person applies one.

A side's edits count whole or not at all, against the copy of the files that all sides have read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kakite.debate.files import FileSnapshot, is_shown_name
from kakite.debate.model import Debate, DebateError, compute_ranking
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from kakite.edit import FileChange, Operation, SourceText


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedPatch:
    """Edits of a side that the engine could apply."""

    side: str
    changes: tuple[FileChange, ...]
    diff: str
    """As ``git apply`` takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPatch:
    """Edits of a side that could not be applied, and why."""

    side: str
    reason: str


def build_patches(debate: Debate, files: FileSnapshot) -> tuple[ProposedPatch | RefusedPatch, ...]:
    """Return what the edits in each side's latest answer make of the files, the best answer first."""
    answers = debate.turn.answers
    ranked = [each.side for each in compute_ranking(debate)]
    order = [*ranked, *(name for name in debate.terms.names if name not in ranked)]
    return tuple(_build_patch(name, answers[name].text, files) for name in order if name in answers)


def apply_patch(folder: Path, patch: ProposedPatch, *, run: str, environ: Mapping[str, str]) -> None:
    """Write a patch to the person's files, all of it or nothing.

    Raises:
        KakiteError: a file is another one by now (``stale``), or may not be written.
    """
    from kakite.workspace import Author, FileWrite, Workspace, ensure_state_folder, open_edit_log

    history = open_edit_log(ensure_state_folder(environ), os.path.realpath(folder))
    with closing(Workspace([folder], history=history)) as workspace:
        writes: list[FileWrite] = []
        for change in patch.changes:
            expected = None
            if change.before is not None:
                now = workspace.read(change.path)
                if now.data != change.before.to_bytes():
                    raise DebateError(
                        f"`{change.path}` is not as the sides read it: nothing was changed",
                        hint="start the debate again, or apply the diff by yourself",
                        code="bad_files",
                    )
                expected = now.version
            if change.after is None or change.to:
                writes.append(FileWrite(path=change.path, data=None, expected=expected))
            if change.after is not None:
                data = change.after.to_bytes()
                at = None if change.to else expected
                writes.append(FileWrite(path=change.to or change.path, data=data, expected=at))
        workspace.write_all(writes, by=Author(tool="kakite debate", run=run))


def _build_patch(side: str, text: str, files: FileSnapshot) -> ProposedPatch | RefusedPatch:
    from kakite.edit import apply_to_files, parse
    from kakite.edit.suggestions.model import format_file_diff

    try:
        operations = parse(text)
        sources = _read_sources(operations, files.folder)
        result = apply_to_files(
            sources, operations, exists=lambda path: _find(files.folder, path) is not None
        )
    except KakiteError as error:
        return RefusedPatch(side=side, reason=error.message)
    if hidden := [path for path in _list_paths(result.files) if not is_shown_name(path)]:
        return RefusedPatch(side=side, reason=f"`{hidden[0]}` is a file that nobody may write")
    diff = "".join(map(format_file_diff, result.files))
    if not diff:
        return RefusedPatch(side=side, reason="its edits change nothing")
    return ProposedPatch(side=side, changes=result.files, diff=diff)


def _list_paths(changes: tuple[FileChange, ...]) -> Iterator[str]:
    for change in changes:
        yield change.path
        if change.to:
            yield change.to


def _read_sources(operations: Iterable[Operation], folder: Path) -> dict[str, SourceText]:
    from kakite.edit import SourceText

    named = dict.fromkeys(str(PurePosixPath(each.path)) for each in operations if each.path)
    found = {path: _find(folder, path) for path in named}
    return {path: SourceText.from_bytes(file.read_bytes()) for path, file in found.items() if file}


def _find(folder: Path, path: str) -> Path | None:
    """Return a file of the copy; None if there is none, or it would lie elsewhere."""
    place = (folder / path).resolve()
    return place if place.is_relative_to(folder.resolve()) and place.is_file() else None
