"""Applies a batch to several files, whole or not at all. It takes and returns values; it touches no disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Protocol

from kakite.edit.changes import Change, ChangeSet
from kakite.edit.edit_batch import apply
from kakite.edit.errors.model import EditError, EditFailure, FailureCode
from kakite.edit.errors.person_messages import add_notebook_hint
from kakite.edit.formats.target_file import is_same_file
from kakite.edit.source_text import SourceText
from kakite.edit.types import (
    DEFAULT_OPTIONS,
    CreateFile,
    DeleteFile,
    Edit,
    FileChange,
    FilesResult,
    MatchOptions,
    MoveFile,
    Operation,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ExistenceCheck(Protocol):
    """Tells which other files exist, beyond those whose text was given."""

    def __call__(self, path: str) -> bool:
        """Return whether a file exists at this path."""
        ...


def apply_to_files(
    files: Mapping[str, str | bytes | SourceText],
    operations: Sequence[Operation],
    *,
    partial: bool = False,
    settings: MatchOptions = DEFAULT_OPTIONS,
    exists: ExistenceCheck | None = None,
) -> FilesResult:
    """Apply a batch to files, given by relative paths with ``/``.

    Args:
        files: the texts that may be edited. An edit without a path means the only one.
        operations: edits, and files to create, delete and move; all against the originals.
        partial: apply what can be applied; the rest is in ``FilesResult.failures``.
        settings: how much matching forgives.
        exists: tells of further files that must not be overwritten.

    Raises:
        EditError: an operation could not be applied; nothing is.
    """
    batch = _Batch(files, settings, exists, _resolve_short_paths(files, operations, exists))
    for index, operation in enumerate(operations):
        batch.add(index, operation)
    batch.apply_edits()
    failures = sorted(batch.failures, key=lambda failure: failure.index)
    if failures and not partial:
        raise EditError(failures)
    return FilesResult(files=batch.list_changes(), failures=tuple(failures))


def _resolve_short_paths(
    files: Mapping[str, object], operations: Sequence[Operation], exists: ExistenceCheck | None
) -> dict[str, str]:
    """Return the file that each shortened path means: the only one that ends like it.

    A path that anything else has, or that the reply itself also gives in full, is not shortened. A
    path that is longer than the file's is another file.
    """
    named = {clean_path(path) for operation in operations for path in _list_paths(operation)}
    short: dict[str, str] = {}
    for path in {clean_path(operation.path) for operation in operations if _has_search(operation)}:
        alike = [known for known in files if path and known.endswith(f"/{path}")]
        if path is None or path in files or len(alike) != 1 or alike[0] in named:
            continue
        if exists is None or not exists(path):
            short[path] = alike[0]
    made = {path for operation in operations if not _has_search(operation) for path in _list_paths(operation)}
    return {path: known for path, known in short.items() if path not in map(clean_path, made)}


def _has_search(operation: Operation) -> bool:
    return isinstance(operation, Edit) and bool(operation.search.strip())


def _list_paths(operation: Operation) -> tuple[str, ...]:
    return (operation.path, operation.to) if isinstance(operation, MoveFile) else (operation.path,)


class _Batch:
    """The operations of one batch, sorted by file."""

    def __init__(
        self,
        files: Mapping[str, str | bytes | SourceText],
        settings: MatchOptions,
        exists: ExistenceCheck | None,
        shortened: Mapping[str, str],
    ) -> None:
        self._files = {path: _as_source(text) for path, text in files.items()}
        self._settings = settings
        self._exists = exists
        self._shortened = shortened
        self._edits: dict[str, list[tuple[int, Edit]]] = {}
        self._created: dict[str, tuple[int, CreateFile]] = {}
        self._deleted: dict[str, tuple[int, str | None]] = {}
        self._moved: dict[str, tuple[int, str]] = {}
        self._filled: dict[str, tuple[int, str]] = {}
        """The text of files that have nothing to look for."""
        self._results: dict[str, Result] = {}
        self.failures: list[EditFailure] = []

    def add(self, index: int, operation: Operation) -> None:
        """Sort an operation to its file, or note why it has none."""
        path = clean_path(operation.path) if operation.path or not isinstance(operation, Edit) else ""
        if path is None:
            self._refuse(index, "bad_path", operation.path, "is outside of the folder, or no path at all")
            return
        match operation:
            case Edit():
                self._add_edit(index, operation, path)
            case CreateFile():
                self._create(index, path, operation)
            case DeleteFile():
                self._delete(index, path, operation.text)
            case MoveFile():
                self._move(index, path, operation.to)

    def _add_edit(self, index: int, edit: Edit, path: str) -> None:
        known = self._resolve_path(path)
        if not path and known is not None and not _can_mean(edit, known):
            self._refuse_mentioned(index, edit)
        elif known is not None:
            self._edits.setdefault(known, []).append((index, edit))
        elif not path:
            which = "there are several" if self._files else "none was given"
            self._refuse(index, "bad_path", "", f"is missing: the reply names no file, and {which}")
        elif not edit.search.strip() and not edit.must_exist:
            self._create(index, path, CreateFile(path=path, text=edit.replace))
        else:
            self._refuse(index, "file_missing", path, "is not among the files")

    def _refuse_mentioned(self, index: int, edit: Edit) -> None:
        names = ", ".join(f"`{name}`" for name in edit.mentioned[:5])
        message = f"the edit names no file, and the text above it is about {names}"
        hint = "Write the path of the file, alone on the line above the edit"
        self.failures.append(EditFailure(index=index, code="bad_path", message=message, hint=hint))

    def _resolve_path(self, path: str) -> str | None:
        """Return the file that a path names: itself, the only one, or the one it is short for."""
        if not path:
            return next(iter(self._files)) if len(self._files) == 1 else None
        return path if path in self._files else self._shortened.get(path)

    def _is_gone(self, path: str) -> bool:
        return path in self._deleted or path in self._moved

    def _collect_taken(self) -> set[str]:
        """Return where files are, or will be, as far as this batch knows."""
        there = {path for path in self._files if not self._is_gone(path)}
        return there | self._created.keys() | {to for _, to in self._moved.values()}

    def _is_taken(self, path: str) -> bool:
        """Tell whether a file cannot be put there: it, a folder, or a file in place of a folder is there."""
        folders = _list_folders(path)
        if any(
            taken == path or taken in folders or path in _list_folders(taken)
            for taken in self._collect_taken()
        ):
            return True
        return self._exists is not None and not self._is_gone(path) and self._exists(path)

    def _create(self, index: int, path: str, file: CreateFile) -> None:
        if file.overwrite != "never" and path in self._files and not self._is_gone(path):
            self._overwrite(index, path, file)
        elif self._is_taken(path):
            self._refuse(index, "file_exists", path, "exists already")
        else:
            self._created[path] = (index, file)

    def _overwrite(self, index: int, path: str, file: CreateFile) -> None:
        """Take the whole text of a file that is there, as an edit of all of it."""
        old = self._files[path].text
        if file.overwrite == "if_most_stays" and (lost := _count_lost_lines(old, file.text)):
            why = f"has {lost} lines that are not in the reply, which does not say that it gives all"
            self._refuse(index, "file_exists", path, why)
        elif not old.strip():
            self._filled[path] = (index, file.text)
        elif _normalize_line_ends(old) != _normalize_line_ends(file.text):
            edit = Edit(search=old, replace=file.text, path=path)
            self._edits.setdefault(path, []).append((index, edit))

    def _delete(self, index: int, path: str, text: str | None) -> None:
        if path not in self._files or self._is_gone(path):
            self._refuse(index, "file_missing", path, "is not among the files")
        else:
            self._deleted[path] = (index, text)

    def _move(self, index: int, path: str, to: str) -> None:
        target = clean_path(to)
        if target is None:
            self._refuse(index, "bad_path", to, "is outside of the folder, or no path at all")
        elif path not in self._files or self._is_gone(path):
            self._refuse(index, "file_missing", path, "is not among the files")
        elif target == path:
            return
        elif self._is_taken(target):
            self._refuse(index, "file_exists", target, "exists already")
        else:
            self._moved[path] = (index, target)

    def _refuse(self, index: int, code: FailureCode, path: str, why: str) -> None:
        known = ", ".join(f"`{name}`" for name in list(self._files)[:10])
        message = f"the file `{path}` {why}" if path else f"the file {why}"
        hint = f"Name one of the files: {known}"
        if code == "bad_path" and path:
            hint = "Give a path relative to the folder, and below it: no `..`, no `/` at its start"
        elif code == "file_exists":
            hint = "Edit the file, or take another name; to replace all of it, choose the format `whole`"
        elif not known:
            hint = (
                "Check the path; to create a file, send an empty SEARCH"
                if path
                else "Name the file alone on the line above its edit; one without an extension as `./name`"
            )
        self.failures.append(
            EditFailure(index=index, code=code, message=message, hint=hint, path=path, found=path)
        )

    def apply_edits(self) -> None:
        """Apply the edits of each file, and check the content of the files to delete."""
        for path, (index, text) in list(self._deleted.items()):
            if text is not None:
                self._check_deleted(index, path, text)
        for path, edits in self._edits.items():
            if path in self._deleted:
                for index, _ in edits:
                    self._refuse(index, "file_missing", path, "is deleted by the same reply")
                continue
            bare = [edit for _, edit in edits]
            result = apply(self._files[path], bare, partial=True, settings=self._settings)
            self._results[path] = result
            self.failures += [_reindex_failure(failure, edits, path) for failure in result.failures]
            if result.failures and path in self._moved:
                self._hold_back(path)
        for path, (_, text) in self._filled.items():
            if path not in self._results:
                self._results[path] = _build_fill_result(self._files[path], text)

    def _check_deleted(self, index: int, path: str, text: str) -> None:
        """Keep a file whose content is not what the reply removes."""
        removal = (index, Edit(search=text, replace=""))
        result = apply(self._files[path], [removal[1]], partial=True, settings=self._settings)
        for failure in result.failures:  # what it suggests would leave the file, without its lines
            self.failures.append(with_fields(_reindex_failure(failure, [removal], path), suggestion=None))
        if result.text.strip():
            del self._deleted[path]
        if result.text.strip() and not result.failures:
            line = next(line for line in result.text.splitlines() if line.strip())
            self.failures.append(
                EditFailure(
                    index=index,
                    code="near_miss",
                    message=f"the file has more than the reply removes, first `{line[:100].strip()}`",
                    hint="Remove every line of the file, as it stands now, or edit the file",
                    path=path,
                    found=line[:200],
                )
            )

    def _hold_back(self, path: str) -> None:
        """Leave a file where it is: half of what its move belongs to failed."""
        index, target = self._moved.pop(path)
        self.failures.append(
            EditFailure(
                index=index,
                code="file_operation",
                message=f"the file `{path}` is not moved to `{target}`, since an edit of it failed",
                hint="Send the failed edit again, and the move with it",
                path=path,
            )
        )

    def list_changes(self) -> tuple[FileChange, ...]:
        """Return what becomes of each file, in the order in which files can come, move and go."""
        found = [(index, self._build_deletion(path)) for path, (index, _) in self._deleted.items()]
        found += [
            (index, _build_creation(path, file, index)) for path, (index, file) in self._created.items()
        ]
        for path in {**self._edits, **self._filled, **self._moved}:
            if path not in self._deleted and (change := self._build_change(path)) is not None:
                found.append((self._moved.get(path, (change.indices[0],))[0], change))
        return tuple(change for _, change in sorted(found, key=lambda pair: pair[0]))

    def _build_deletion(self, path: str) -> FileChange:
        return FileChange(path=path, before=self._files[path], after=None, indices=(self._deleted[path][0],))

    def _build_change(self, path: str) -> FileChange | None:
        result = self._results.get(path)
        moved = self._moved.get(path)
        if moved is None and (result is None or not result.changes):
            return None
        whole = [self._filled[path]] if path in self._filled else []
        indices = [index for index, _ in (*self._edits.get(path, []), *whole)] + ([moved[0]] if moved else [])
        return FileChange(
            path=path,
            before=self._files[path],
            after=result.source if result else self._files[path],
            to=moved[1] if moved else "",
            result=result,
            indices=tuple(sorted(indices)),
        )


def _build_fill_result(source: SourceText, text: str) -> Result:
    text = source.find_line_end(0).join(_normalize_line_ends(text).split("\n"))
    changes = ChangeSet.of(len(source.text), [Change(0, len(source.text), text)])
    after = source.replace(changes)
    return Result(text=after.text, changes=changes, matches=(), source=after)


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _count_lost_lines(old: str, new: str) -> int:
    """Return how many lines of a text another one leaves out, if that is more than a third of them."""
    lines = Counter(line.strip() for line in old.splitlines() if line.strip())
    lost = (lines - Counter(line.strip() for line in new.splitlines())).total()
    return lost if lost * 3 > lines.total() else 0


def _build_creation(path: str, file: CreateFile, index: int) -> FileChange:
    return FileChange(
        path=path,
        before=None,
        after=SourceText(file.text),
        indices=(index,),
        is_executable=file.is_executable,
    )


def _can_mean(edit: Edit, path: str) -> bool:
    """Tell whether an edit without a path can be for a file, after what the prose above it mentions."""
    names = [name.removeprefix("./").lstrip("/") for name in edit.mentioned]
    return not names or any(is_same_file(path, name) or is_same_file(name, path) for name in names)


def _list_folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _reindex_failure(failure: EditFailure, edits: Sequence[tuple[int, Edit]], path: str) -> EditFailure:
    """Return a failure of one file's batch with its number in the whole batch."""
    other = edits[failure.other][0] if failure.other >= 0 else -1
    found = with_fields(failure, index=edits[failure.index][0], other=other, path=path)
    return with_fields(found, hint=add_notebook_hint(found.hint, found))


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
