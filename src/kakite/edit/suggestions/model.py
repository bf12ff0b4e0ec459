"""Defines suggestions: what accepting one changes in a text or in the files of a batch.

``SuggestionStore`` keeps the latest suggestions of one session, to be accepted by their ids. It is bounded:
the oldest go first.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from dataclasses import replace as with_fields
from threading import Lock
from typing import TYPE_CHECKING, TypedDict

from kakite.edit.changes import Change, ChangeSet, ChangeSetJson
from kakite.edit.diff_output import ABSENT, unified_diff
from kakite.edit.errors.model import EditSuggestion
from kakite.edit.source_text import SourceText, split_lines
from kakite.edit.types import FileChange, FilesResult, Result
from kakite.errors import KakiteError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kakite.edit.errors.model import EditFailure


ID_LENGTH = 10
"""Hexadecimal digits of an id: short, since models repeat it, and not to be guessed."""


class CollidingSuggestionsError(KakiteError):
    """Two suggestions cannot be accepted together."""

    code = "overlap"


class SuggestionGoneError(KakiteError):
    """There is no such suggestion any more: it was accepted, the text changed, or it was never made."""

    code = "suggestion_gone"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="look at the text as it is now, and send the edit again")


def create_suggestion(text: str, changes: ChangeSet) -> EditSuggestion:
    """Return the suggestion to make these changes of a text."""
    return EditSuggestion(
        id=_compute_suggestion_id(text, changes),
        line=_find_first_line(text, changes),
        diff=unified_diff(changes, text),
        changes=changes,
    )


def accept(text: str | SourceText, suggestion: EditSuggestion) -> Result:
    """Return what a suggestion makes of the text that it was made for.

    Raises:
        SuggestionGoneError: the text is another by now.
    """
    source = text if isinstance(text, SourceText) else SourceText(text)
    changes = suggestion.changes
    if _compute_suggestion_id(source.text, changes) != suggestion.id:
        raise SuggestionGoneError("the text is not the one that the suggestion was made for")
    return _build_result(source, changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSuggestion:
    """The change of one file that a suggestion proposes."""

    path: str
    version: str | None
    """Of the content that it was made for; None for a file that must not be there."""
    changes: ChangeSet | None
    """None for a file that is deleted."""
    to: str = ""
    """Where the file moves; empty if it stays."""


class BatchSuggestionJson(TypedDict):
    """A BatchSuggestion as JSON: its id, and path, version, changes and target of each file."""

    id: str
    files: list[tuple[str, str | None, ChangeSetJson | None, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSuggestion:
    """The changes of a refused batch's files that a suggestion proposes, whole or not at all."""

    id: str
    files: tuple[FileSuggestion, ...]

    @property
    def size(self) -> int:
        """The number of characters that it inserts."""
        changed = (file.changes.changes for file in self.files if file.changes is not None)
        return sum(len(change.insert) for changes in changed for change in changes)

    def to_json(self) -> BatchSuggestionJson:
        """Return it as plain JSON values."""
        files = [
            (file.path, file.version, None if file.changes is None else file.changes.to_json(), file.to)
            for file in self.files
        ]
        return {"id": self.id, "files": files}

    @classmethod
    def from_json(cls, data: BatchSuggestionJson) -> BatchSuggestion:
        """Read what ``to_json`` gave.

        Raises:
            ValueError: it is something else.
        """
        try:
            files = tuple(
                FileSuggestion(
                    path=path,
                    version=version,
                    changes=None if changes is None else ChangeSet.from_json(changes),
                    to=to,
                )
                for path, version, changes, to in data["files"]
            )
            return cls(id=data["id"], files=files)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a suggestion: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBatch:
    """The failures of a batch as they are told, and what accepting the ids in them does."""

    failures: tuple[EditFailure, ...]
    suggestions: tuple[BatchSuggestion, ...] = ()


def compute_source_version(source: SourceText) -> str:
    """Return what tells this content from every other: of its bytes, or of a text that never was bytes."""
    if source.body is not None:
        return hashlib.sha256(source.bom + source.body).hexdigest()
    return hashlib.sha256(b"text\0" + source.text.encode("utf-8", "surrogatepass")).hexdigest()


def refuse(sources: Mapping[str, SourceText], result: FilesResult, *, place: str = "") -> RefusedBatch:
    """Return how a batch that was not applied is refused.

    Where every failure has a suggestion, all of them have one id, which stands for the whole batch: its
    refused edits as suggested, and all others as they were sent. Else each id stands for its own edit alone,
    and so it does where some are losses and some are not: nobody accepts a loss along with a suggestion.

    Args:
        sources: the files that the batch may have edited, as they are.
        result: what could be applied, and the failures; the paths of both are keys of ``sources``.
        place: what tells these files from others of the same names.
    """
    is_mixed = len({each.suggestion.is_loss for each in result.failures if each.suggestion}) > 1
    whole = None if is_mixed else _complete(sources, result)
    if whole is not None:
        suggestion = _build_suggestion(whole, place)
        diff = "".join(map(format_file_diff, whole))
        failures = tuple(_attach_suggestion(failure, suggestion.id, diff) for failure in result.failures)
        return RefusedBatch(failures=failures, suggestions=(suggestion,))
    each = [_refuse_alone(sources, failure, place) for failure in result.failures]
    return RefusedBatch(
        failures=tuple(failure for failure, _ in each),
        suggestions=tuple(suggestion for _, suggestion in each if suggestion is not None),
    )


def refuse_rest(sources: Mapping[str, SourceText], result: FilesResult, *, place: str = "") -> RefusedBatch:
    """Return how the rest of a batch is refused, of which everything else was applied.

    Its suggestions are for the files as they are then; one that touches what was applied is left out.
    """
    now = dict(sources)
    applied: dict[str, tuple[str, ChangeSet]] = {}
    for change in result.files:
        now.pop(change.path, None)
        if change.after is not None:
            now[change.to or change.path] = change.after
            made = change.result.changes if change.result else ChangeSet(len(change.after.text))
            applied[change.path] = change.to or change.path, made
    failures = [_rebase_failure(failure, applied.get(failure.path)) for failure in result.failures]
    return refuse(now, FilesResult(files=(), failures=tuple(failures)), place=place)


def accept_batch(
    suggestion: BatchSuggestion, sources: Mapping[str, SourceText | None]
) -> tuple[FileChange, ...]:
    """Return what a suggestion makes of files: None stands for one that is not there.

    Raises:
        SuggestionGoneError: a file is not what it was.
    """
    changes: list[FileChange] = []
    for file in suggestion.files:
        source = sources.get(file.path)
        if (None if source is None else compute_source_version(source)) != file.version:
            where = f"`{file.path}`" if file.path else "the text"
            raise SuggestionGoneError(f"{where} is not what it was when the edit was suggested")
        changes.append(_accept_file(file, source))
    return tuple(changes)


def merge_suggestions(suggestions: Sequence[BatchSuggestion]) -> BatchSuggestion:
    """Return several suggestions as one.

    Raises:
        CollidingSuggestionsError: two of them change the same place, or a file that another one moves.
    """
    files: dict[str, FileSuggestion] = {}
    for suggestion in suggestions:
        for file in suggestion.files:
            other = files.get(file.path)
            joined = file if other is None else _merge_file(other, file)
            if joined is None:
                raise CollidingSuggestionsError(
                    f"two of the suggestions collide in `{file.path}`",
                    hint="accept one of them, look at the file, and send the other edit again",
                )
            files[file.path] = joined
    return BatchSuggestion(id=suggestions[0].id, files=tuple(files.values()))


def format_file_diff(change: FileChange) -> str:
    """Return what becomes of a file as a unified diff."""
    old = change.before.text if change.before else ""
    new = change.after.text if change.after else ""
    return unified_diff(
        change.result.changes if change.result else _replace_all(old, new),
        old,
        path=change.path or "file" if change.before else ABSENT,
        to=ABSENT if change.after is None else change.to or change.path or "file",
    )


def _replace_all(old: str, new: str) -> ChangeSet:
    return ChangeSet.of(len(old), [Change(0, len(old), new)] if old != new else [])


def _compute_suggestion_id(text: str, changes: ChangeSet) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=ID_LENGTH // 2)
    digest.update(repr(changes.changes).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _identify(parts: object) -> str:
    written = json.dumps(parts, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()[:ID_LENGTH]


def _find_first_line(text: str, changes: ChangeSet) -> int:
    return len(split_lines(text[: changes.changes[0].start])) if changes else 1


def _build_result(source: SourceText, changes: ChangeSet) -> Result:
    new = source.replace(changes)
    return Result(text=new.text, changes=changes, matches=(), source=new)


def _refuse_alone(
    sources: Mapping[str, SourceText], failure: EditFailure, place: str
) -> tuple[EditFailure, BatchSuggestion | None]:
    alone = _complete(sources, FilesResult(files=(), failures=(failure,)))
    if alone is None:
        return with_fields(failure, suggestion=None), None
    suggestion = _build_suggestion(alone, place)
    return _attach_suggestion(failure, suggestion.id, "".join(map(format_file_diff, alone))), suggestion


def _attach_suggestion(failure: EditFailure, identity: str, diff: str) -> EditFailure:
    assert failure.suggestion is not None
    return with_fields(failure, suggestion=with_fields(failure.suggestion, id=identity, diff=diff))


def _rebase_failure(failure: EditFailure, applied: tuple[str, ChangeSet] | None) -> EditFailure:
    """Return a failure over the file that the rest of its batch left."""
    if failure.suggestion is None or applied is None:
        return failure
    path, made = applied
    changes = failure.suggestion.changes
    if _merge_changes([changes, made]) is None:
        return with_fields(failure, suggestion=None)
    moved = with_fields(failure.suggestion, changes=changes.map(made))
    return with_fields(failure, path=path, suggestion=moved)


def _complete(sources: Mapping[str, SourceText], result: FilesResult) -> tuple[FileChange, ...] | None:
    """Return what the batch does with every suggestion; None if one is missing, or two collide."""
    if any(change.is_executable for change in result.files):
        return None  # a suggestion knows texts only
    by_path: dict[str, list[ChangeSet]] = {}
    for failure in result.failures:
        suggestion = failure.suggestion
        if suggestion is None or not suggestion.changes or failure.path not in sources:
            return None
        by_path.setdefault(failure.path, []).append(suggestion.changes)
    changes = {change.path: change for change in result.files}
    for path, suggested in by_path.items():
        change = changes.get(path) or FileChange(path=path, before=sources[path], after=sources[path])
        made = change.result.changes if change.result else ChangeSet(len(sources[path].text))
        united = _merge_changes([made, *suggested])
        completed = None if united is None else _complete_file(change, united)
        if completed is None:
            return None
        changes[path] = completed
    return tuple(changes.values())


def _complete_file(change: FileChange, changes: ChangeSet) -> FileChange | None:
    source = change.before
    if source is None or change.after is None:
        return None
    if any(source.find_unencodable(each.insert) for each in changes.changes):
        return None
    result = _build_result(source, changes)
    matches = change.result.matches if change.result else ()
    return with_fields(change, after=result.source, result=with_fields(result, matches=matches))


def _merge_changes(each: Sequence[ChangeSet]) -> ChangeSet | None:
    """Return all of these changes at once; None if two of them touch."""
    changes = [change for one in each for change in one.changes]
    if any(one.length != each[0].length for one in each):
        return None
    try:
        united = ChangeSet.of(each[0].length, changes)
    except ValueError:
        return None
    return united if len(united.changes) == len(changes) else None


def _merge_file(one: FileSuggestion, other: FileSuggestion) -> FileSuggestion | None:
    if one == other:
        return one
    if one.version is None or one.version != other.version or one.to or other.to:
        return None
    if one.changes is None or other.changes is None:
        return None
    united = _merge_changes([one.changes, other.changes])
    return None if united is None else with_fields(one, changes=united)


def _build_suggestion(changes: Sequence[FileChange], place: str) -> BatchSuggestion:
    files = tuple(map(_build_file_suggestion, changes))
    suggestion = BatchSuggestion(id="", files=files)
    return with_fields(suggestion, id=_identify([place, suggestion.to_json()]))


def _build_file_suggestion(change: FileChange) -> FileSuggestion:
    before = change.before
    changes = change.result.changes if change.result else None
    if changes is None and change.after is not None:
        changes = _replace_all(before.text if before else "", change.after.text)
    return FileSuggestion(
        path=change.path,
        version=None if before is None else compute_source_version(before),
        changes=None if change.after is None else changes,
        to=change.to,
    )


def _accept_file(file: FileSuggestion, source: SourceText | None) -> FileChange:
    if file.changes is None:
        return FileChange(path=file.path, before=source, after=None)
    if source is None:
        return FileChange(path=file.path, before=None, after=SourceText(file.changes.apply("")), to=file.to)
    result = _build_result(source, file.changes)
    return FileChange(path=file.path, before=source, after=result.source, to=file.to, result=result)


MAX_SUGGESTIONS = 64
MAX_INSERTED_CHARACTERS = 8 * 1024 * 1024
"""That they insert together; a larger one is kept alone."""


class SuggestionStore:
    """Suggestions by their ids. Safe for several threads."""

    def __init__(self, *, most: int = MAX_SUGGESTIONS, characters: int = MAX_INSERTED_CHARACTERS) -> None:
        self._most = most
        self._characters = characters
        self._kept: dict[str, BatchSuggestion] = {}
        self._lock = Lock()

    def add(self, suggestion: BatchSuggestion) -> None:
        """Keep a suggestion, as the latest one."""
        with self._lock:
            self._kept.pop(suggestion.id, None)
            self._kept[suggestion.id] = suggestion
            sizes = {each.id: each.size for each in self._kept.values()}
            total = sum(sizes.values())
            for identity in list(self._kept)[:-1]:
                if len(self._kept) <= self._most and total <= self._characters:
                    break
                del self._kept[identity]
                total -= sizes[identity]

    def find(self, identity: str) -> BatchSuggestion:
        """Return the suggestion with this id.

        Raises:
            SuggestionGoneError: there is none.
        """
        with self._lock:
            found = self._kept.get(identity)
        if found is None:
            raise SuggestionGoneError(f"there is no suggestion `{identity[:40]}` to accept, or no longer")
        return found

    def remove(self, identity: str) -> None:
        """Forget a suggestion, if it is there."""
        with self._lock:
            self._kept.pop(identity, None)
