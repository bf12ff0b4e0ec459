"""A batch over several files: whole or not at all. Values in, values out; nothing is read or written here."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Protocol

from kakite.edit.edits import CreateFile, DeleteFile, Edit, MoveFile, Operation, Result
from kakite.edit.failures import EditError, Failure, FailureCode
from kakite.edit.planning import apply
from kakite.edit.settings import DEFAULT, Settings
from kakite.edit.source_text import SourceText

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What becomes of one file."""

    path: str
    """Where it is, or where it is created."""
    before: SourceText | None
    """None for a file that is created."""
    after: SourceText | None
    """None for a file that is deleted."""
    to: str = ""
    """Where it moves; empty if it stays."""
    result: Result | None = None
    """How its edits matched; None if it has none."""
    indices: tuple[int, ...] = ()
    """Which operations of the batch it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesResult:
    """What applying a batch to files gave."""

    files: tuple[FileChange, ...]
    """The files that change, in the order in which the batch names them first."""
    failures: tuple[Failure, ...] = ()
    """What was left out; always empty unless ``partial`` was asked for."""


class Existing(Protocol):
    """Tells which other files exist, beyond those whose text was given."""

    def __call__(self, path: str) -> bool:
        """Return whether a file exists at this path."""
        ...


def apply_to_files(
    files: Mapping[str, str | bytes | SourceText],
    operations: Sequence[Operation],
    *,
    partial: bool = False,
    settings: Settings = DEFAULT,
    exists: Existing | None = None,
) -> FilesResult:
    """Apply a batch to files, given by relative paths with ``/``.

    Args:
        files: the texts that may be edited. An edit without a path means the only one.
        operations: edits, and files to create, delete and move; all against the originals.
        partial: apply what can be applied; the rest is in ``FilesResult.failures``.
        settings: how much the ladder forgives.
        exists: tells of further files that must not be overwritten.

    Raises:
        EditError: an operation could not be applied; nothing is.
    """
    batch = _Batch(files, settings, exists)
    for index, operation in enumerate(operations):
        batch.take(index, operation)
    batch.apply_edits()
    failures = sorted(batch.failures, key=lambda failure: failure.index)
    if failures and not partial:
        raise EditError(failures)
    return FilesResult(files=batch.changes(), failures=tuple(failures))


class _Batch:
    """The operations of one batch, sorted by file."""

    def __init__(
        self, files: Mapping[str, str | bytes | SourceText], settings: Settings, exists: Existing | None
    ) -> None:
        self._files = {path: _as_source(text) for path, text in files.items()}
        self._settings = settings
        self._exists = exists
        self._edits: dict[str, list[tuple[int, Edit]]] = {}
        self._created: dict[str, tuple[int, str]] = {}
        self._deleted: dict[str, int] = {}
        self._moved: dict[str, tuple[int, str]] = {}
        self._results: dict[str, Result] = {}
        self._order: dict[str, None] = {}
        self.failures: list[Failure] = []

    def take(self, index: int, operation: Operation) -> None:
        """Sort an operation to its file, or note why it has none."""
        path = clean_path(operation.path) if operation.path or not isinstance(operation, Edit) else ""
        if path is None:
            self._refuse(index, "bad_path", operation.path, "is outside of the folder, or no path at all")
            return
        match operation:
            case Edit():
                self._take_edit(index, operation, path)
            case CreateFile():
                self._create(index, path, operation.text)
            case DeleteFile():
                self._delete(index, path)
            case MoveFile():
                self._move(index, path, operation.to)

    def _take_edit(self, index: int, edit: Edit, path: str) -> None:
        known = self._known(path)
        if known is not None:
            self._edits.setdefault(known, []).append((index, edit))
            self._order.setdefault(known)
        elif not path:
            self._refuse(index, "bad_path", "", "is missing: the reply names no file, and there are several")
        elif not edit.search.strip():
            self._create(index, path, edit.replace)
        else:
            self._refuse(index, "file_missing", path, "is not among the files")

    def _known(self, path: str) -> str | None:
        """Return the file that a path names: itself, the only one, or the only one that ends like it."""
        if path in self._files:
            return path
        if not path:
            return next(iter(self._files)) if len(self._files) == 1 else None
        alike = [known for known in self._files if known.endswith(f"/{path}") or path.endswith(f"/{known}")]
        return alike[0] if len(alike) == 1 else None

    def _is_taken(self, path: str) -> bool:
        targets = {to for _, to in self._moved.values()}
        gone = path in self._deleted or path in self._moved
        there = path in self._files or (self._exists is not None and self._exists(path))
        return path in self._created or path in targets or (there and not gone)

    def _create(self, index: int, path: str, text: str) -> None:
        if self._is_taken(path):
            self._refuse(index, "file_exists", path, "exists already")
            return
        self._created[path] = (index, text)
        self._order.setdefault(path)

    def _delete(self, index: int, path: str) -> None:
        if path not in self._files or path in self._deleted or path in self._moved:
            self._refuse(index, "file_missing", path, "is not among the files")
            return
        self._deleted[path] = index
        self._order.setdefault(path)

    def _move(self, index: int, path: str, to: str) -> None:
        target = clean_path(to)
        if target is None:
            self._refuse(index, "bad_path", to, "is outside of the folder, or no path at all")
        elif path not in self._files or path in self._deleted or path in self._moved:
            self._refuse(index, "file_missing", path, "is not among the files")
        elif self._is_taken(target):
            self._refuse(index, "file_exists", target, "exists already")
        else:
            self._moved[path] = (index, target)
            self._order.setdefault(path)

    def _refuse(self, index: int, code: FailureCode, path: str, why: str) -> None:
        known = ", ".join(f"`{name}`" for name in list(self._files)[:10]) or "none"
        message = f"the file `{path}` {why}" if path else f"the file {why}"
        hint = (
            f"Name one of the files: {known}"
            if code != "file_exists"
            else "Edit the file, or take another name"
        )
        self.failures.append(
            Failure(index=index, code=code, message=message, hint=hint, path=path, found=path)
        )

    def apply_edits(self) -> None:
        """Apply the edits of each file."""
        for path, edits in self._edits.items():
            if path in self._deleted:
                for index, _ in edits:
                    self._refuse(index, "file_missing", path, "is deleted by the same reply")
                continue
            bare = [edit for _, edit in edits]
            result = apply(self._files[path], bare, partial=True, settings=self._settings)
            self._results[path] = result
            self.failures += [_moved_failure(failure, edits, path) for failure in result.failures]

    def changes(self) -> tuple[FileChange, ...]:
        """Return what becomes of each file."""
        found = [self._change(path) for path in self._order]
        return tuple(change for change in found if change is not None)

    def _change(self, path: str) -> FileChange | None:
        if path in self._created and path not in self._files:
            index, text = self._created[path]
            return FileChange(path=path, before=None, after=SourceText(text), indices=(index,))
        before = self._files.get(path)
        if path in self._deleted:
            after = None
            if path in self._created:
                after = SourceText(self._created[path][1])
            return FileChange(path=path, before=before, after=after, indices=(self._deleted[path],))
        result = self._results.get(path)
        moved = self._moved.get(path)
        if moved is None and (result is None or not result.changes):
            return None
        indices = [index for index, _ in self._edits.get(path, [])] + ([moved[0]] if moved else [])
        return FileChange(
            path=path,
            before=before,
            after=result.source if result else before,
            to=moved[1] if moved else "",
            result=result,
            indices=tuple(sorted(indices)),
        )


def _moved_failure(failure: Failure, edits: Sequence[tuple[int, Edit]], path: str) -> Failure:
    """Return a failure of one file's batch with its number in the whole batch."""
    other = edits[failure.other][0] if failure.other >= 0 else -1
    return with_fields(failure, index=edits[failure.index][0], other=other, path=path)


def _as_source(text: str | bytes | SourceText) -> SourceText:
    if isinstance(text, SourceText):
        return text
    return SourceText.from_bytes(text) if isinstance(text, bytes) else SourceText(text)


def clean_path(path: str) -> str | None:
    """Return a relative path in its plain form, or None if it leaves the folder or is no path."""
    if not path.strip() or "\0" in path or any(ord(char) < 32 for char in path):
        return None
    path = path.strip().replace("\\", "/")
    if path.startswith(("/", "~")) or path[1:2] == ":":
        return None
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return "/".join(parts) if parts and ".." not in parts else None
