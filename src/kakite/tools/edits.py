"""Edits of files, planned first and then carried out: the one way in which tools write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kakite.edit import Change, ChangeSet, SourceText
from kakite.tools.after_write import Written, check_syntax, follow, told_problem
from kakite.tools.arguments import ToolError
from kakite.tools.binding import bound_to, digest_of
from kakite.tools.changed import (
    check_binary,
    check_read,
    check_whole,
    note_creation,
    note_moves,
    note_view,
    note_write,
)
from kakite.tools.copied import check_no_numbers
from kakite.tools.line_diff import LineDiff
from kakite.tools.listing import bounded, split_lines
from kakite.tools.scope import Scope, is_binary
from kakite.tools.snippets import LINE_SHOWN, first_hunks, lines_shown, shown_change, snippet
from kakite.tools.threads import check_wanted
from kakite.tools.toolset import ToolResult
from kakite.workspace import READ_LIMIT, Author, File, WorkspaceError, Writing, version_of

BATCH_MOST = 128 * 1024 * 1024  # characters of all files that one call writes
COMPARED_MOST = 4 * 1024 * 1024  # characters of two texts that are compared line by line
FILES_TOLD = 8  # whose changes are in an answer
TRIES = 4  # to plan again, when somebody who takes no turns writes between our look and our write
_CHANGED_MEANWHILE = frozenset({"stale", "file_exists", "file_not_found"})

EMPTY = SourceText.from_bytes(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """What becomes of one file, not yet written."""

    path: str
    version: str | None
    """Of the file as it was read; None if it is to be created."""
    source: SourceText
    changes: ChangeSet
    before: bytes | None = None
    """What was read; None if it is to be created, or not known."""
    made: SourceText | None = None
    """The new text, where it is known already."""

    @property
    def diff(self) -> str:
        """The change as a unified diff; of very long lines the part around the change."""
        return shown_change(self.changes, self.source.text, self.path)

    def after(self) -> SourceText:
        """Return the new text."""
        return self.made or self.source.replace(self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a call would do, and what it says once that is done."""

    told: str
    edits: tuple[FileEdit, ...] = ()
    forgiven: tuple[str, ...] = ()
    """In what the quoted text differed from the file."""
    writings: tuple[Writing, ...] = ()
    """What becomes of files besides, as they are moved or removed."""
    diff: str = ""
    """What that is, as it is shown."""
    tells_diff: bool = False
    """Whether the answer has to show what changed, as ``told`` does not."""


def carry_out(
    scope: Scope, plan: Callable[[], Plan], *, paths: Iterable[str], by: Author, preview: bool
) -> ToolResult:
    """Do what the plan says, whole or not at all, or with ``preview`` only show it.

    Whoever writes to one of these paths as we do waits until we are through, in this and in every other
    process. A plan is made anew when somebody else changed a file while it was made, a few times.

    Raises:
        KakiteError: what the plan raises; ``stale`` when others keep on writing.
    """
    if preview:
        planned = plan()
        _check_read(scope, planned)
        ready = _ready(scope, planned)
        for each in ready.writings:
            scope.check_writable(each.path)
        warned = _warned(previewed(ready.diff, ready.bound), planned)
        return _naming(warned, _other_names(scope, ready))
    with scope.turn(paths):
        for tries_left in reversed(range(TRIES)):
            check_wanted()
            try:
                return _done(scope, plan(), by)
            except _OvertakenError as error:
                if not tries_left:
                    raise error.reason from error
    raise AssertionError("the last try returns or raises")


class _OvertakenError(Exception):
    """Somebody else wrote between our look and our write."""

    def __init__(self, reason: WorkspaceError) -> None:
        super().__init__(reason.message)
        self.reason = reason


def _check_read(scope: Scope, planned: Plan) -> None:
    for edit in planned.edits:
        if edit.version is not None:
            check_read(scope, edit.path)
    for each in planned.writings:
        if each.expected is not None and not is_binary(each.before or b""):  # what is none cannot be viewed
            check_read(scope, each.path)


def _done(scope: Scope, planned: Plan, by: Author) -> ToolResult:
    _check_read(scope, planned)
    ready = _ready(scope, planned)
    check_wanted()
    if outdated(ready.bound):
        return refused_outdated(ready.diff, ready.bound)
    others = _other_names(scope, ready)
    try:
        scope.write_all(ready.writings, by=by)
    except WorkspaceError as error:
        if error.code in _CHANGED_MEANWHILE:
            raise _OvertakenError(error) from error
        raise
    note_moves(scope, planned.writings)
    return _naming(_followed(scope, planned, ready), others)


def _other_names(scope: Scope, ready: _Ready) -> dict[str, int]:
    """Return how many other names the files have that are to be replaced, where they have any."""
    found: dict[str, int] = {}
    for each in ready.writings:
        if each.expected is not None:
            with suppress(WorkspaceError):  # the write tells what is wrong
                found[each.path] = scope.other_names(each.path)
    return {path: count for path, count in found.items() if count}


def _naming(result: ToolResult, others: Mapping[str, int]) -> ToolResult:
    """Return a result that tells of other names, which a write leaves with the old text."""
    if not others:
        return result
    told = "; ".join(f"`{path}` has {count} other name{'s' * (count > 1)}" for path, count in others.items())
    note = f"Note: {told} (hard links), which keep the old text"
    return replace(
        result, text=f"{result.text}\n{note}", details={**result.details, "other_names": dict(others)}
    )


def _followed(scope: Scope, plan: Plan, ready: _Ready) -> ToolResult:
    """Do what follows the write, and tell both."""
    written = [each for each in map(_written, plan.edits) if each is not None]
    aftermath = follow(scope, written)
    now = {each.path: each.after.text for each in aftermath.files}
    diff = ready.diff
    if aftermath.files != written:
        diff = "".join(_diff_of(each) for each in aftermath.files) + plan.diff
    answers = [plan.told] if len(plan.edits) == 1 else [_part_of(plan.told, each) for each in plan.edits]
    notes = [
        _noted(scope, each, now.get(each.path), told) for each, told in zip(plan.edits, answers, strict=True)
    ]
    details = {"diff": shown_diff(diff), "forgiven": list(plan.forgiven), **aftermath.details}
    changed = told_changes(plan.edits) if plan.tells_diff else ""
    parts = [plan.told, changed, *notes, *aftermath.told]
    return ToolResult(text="\n".join(filter(None, parts)), details=details)


def told_changes(edits: Sequence[FileEdit]) -> str:
    """Return the first hunks of what changes in files that were there, each after its name if several are."""
    told: list[str] = []
    for edit in edits:
        if edit.version is not None and edit.changes:
            hunks = first_hunks(edit.diff)
            told.append(f"{edit.path}:\n{hunks}" if len(edits) > 1 else hunks)
    more = [f"… and {len(told) - FILES_TOLD} more files"] if len(told) > FILES_TOLD else []
    return "\n".join([*told[:FILES_TOLD], *more])


def _part_of(told: str, edit: FileEdit) -> str:
    """Return the part of an answer that shows what one of several files became; empty if it shows none."""
    shown = snippet(edit.after().text, edit.changes) if lines_shown(told) else ""
    return shown if shown in told else ""


def _noted(scope: Scope, edit: FileEdit, now: str | None, told: str) -> str:
    """Remember what the session knows of a file, after the commands; return what there is to say of it."""
    old, after = edit.source.text, edit.after().text
    if edit.version is None:
        was_known = note_creation(scope, edit.path, after if now is None else now)
        return f"`{edit.path}` was gone since you last saw it; this made it anew." if was_known else ""
    if now is not None and now != after:
        return note_write(scope, edit.path, old, LineDiff(old, now).changes())
    note = note_write(scope, edit.path, old, edit.changes)
    if shown := lines_shown(told):
        note_view(scope, edit.path, after, shown, LINE_SHOWN)
    return note


def _warned(result: ToolResult, plan: Plan) -> ToolResult:
    """Return what a preview answers, with what would not parse any more."""
    problems = check_syntax([each for each in map(_written, plan.edits) if each is not None])
    if not problems:
        return result
    text = "\n".join([result.text, *map(told_problem, problems)])
    return replace(result, text=text, details={**result.details, "syntax": problems})


def _written(edit: FileEdit) -> Written | None:
    if not edit.changes and edit.version is not None:
        return None
    before = None if edit.version is None else edit.source
    return Written(path=edit.path, before=before, after=edit.after())


def _diff_of(written: Written) -> str:
    before = written.before.text if written.before else ""
    return shown_change(whole(before, written.after.text), before, written.path)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A plan, written out."""

    diff: str
    writings: tuple[Writing, ...]
    bound: str
    """A digest of which files become what, from what."""


def check_size(path: str, characters: int) -> None:
    """Refuse a text of so many characters before it is made, if no file may be so large.

    Raises:
        ToolError: ``too_large``.
    """
    if characters > READ_LIMIT:
        raise ToolError(
            f"`{path}` would be larger than {READ_LIMIT >> 20} MiB",
            hint="nothing was changed; write less, or with `run_command` if it is offered",
            code="too_large",
        )


def _check_sizes(plan: Plan) -> None:
    for edit in plan.edits:
        check_size(edit.path, edit.changes.new_length)
    if sum(edit.changes.new_length for edit in plan.edits) > BATCH_MOST:
        raise ToolError(
            f"the files would be larger than {BATCH_MOST >> 20} MiB together",
            hint="nothing was changed; write fewer files in one call",
            code="too_large",
        )


def _check_text(plan: Plan) -> None:
    for edit in plan.edits:
        if any("\0" in each.insert for each in edit.changes.changes):
            raise ToolError(
                f"`{edit.path}` would become a binary file: the new text has a NUL character in it",
                hint="nothing was changed; write an escape of the language, such as \\0, or leave it out",
                code="binary_file",
            )


def _ready(scope: Scope, plan: Plan) -> _Ready:
    _check_sizes(plan)
    _check_text(plan)
    writings = [*map(_writing, plan.edits), *plan.writings]
    becoming = [(scope.identity(each.path), each.expected, each.version) for each in writings]
    changed = tuple(each for each in writings if each.version != each.expected)
    diff = "".join([*(edit.diff for edit in plan.edits), plan.diff])
    return _Ready(diff, changed, digest_of(becoming))


def _writing(edit: FileEdit) -> Writing:
    data = edit.after().to_bytes()
    return Writing(
        path=edit.path, data=data, expected=edit.version, before=edit.before, version=version_of(data)
    )


def previewed(diff: str, bound: str) -> ToolResult:
    """Return what a preview answers; a call that is ``bound`` to it does this or nothing."""
    shown = shown_diff(diff)
    text = f"Preview, nothing was written:\n{shown or '(no difference)'}"
    return ToolResult(text=text, details={"diff": shown, "bound": bound})


def outdated(bound: str) -> bool:
    """Return whether the call that is performed now was bound to a preview that showed something else."""
    return bound_to() not in {"", bound}


def refused_outdated(diff: str, bound: str) -> ToolResult:
    """Return the refusal of a call that is bound to something else, with what it would do now."""
    shown = shown_diff(diff)
    return ToolResult(
        text="Error (changed_since_preview): nothing was written, since the edit would no longer do what its "
        f"preview showed; it would now do this:\n{shown or '(no difference)'}\n"
        "hint: look at it, and if this is what you mean, send the call again",
        is_error=True,
        code="changed_since_preview",
        details={"diff": shown, "bound": bound},
    )


def shown_diff(diff: str) -> str:
    """Return as much of a diff as an answer may hold; a cut one says so."""
    return bounded(diff, "the diff goes on")


def whole(old: str, new: str) -> ChangeSet:
    """Return the change that puts one text in place of another."""
    return ChangeSet.of(len(old), [Change(0, len(old), new).narrowed(old)])


def by_lines(old: str, new: str) -> ChangeSet:
    """Return the change that leads from one text to the other, in the lines that differ alone."""
    if len(old) + len(new) > COMPARED_MOST:
        return whole(old, new)
    changes = LineDiff(old, new).changes().changes
    return ChangeSet.of(len(old), (each.narrowed(old) for each in changes))


def overwriting(scope: Scope, file: File | None, path: str, text: str) -> FileEdit:
    """Return the edit that gives a file this content, in the encoding that it has.

    None stands for a new file; a binary one becomes UTF-8.

    Raises:
        ToolError: ``not_encodable``; ``not_read`` or ``changed_since_read`` where it would replace what the
            model has not seen.
    """
    source = EMPTY if file is None or is_binary(file.data) else SourceText.from_bytes(file.data)
    changes = by_lines(source.text, encodable(source, text, path))
    if file is not None and source is EMPTY:
        check_binary(scope, path, file)
    elif file is not None:
        check_whole(scope, path, source.text, text)
    return FileEdit(
        path=path,
        version=file.version if file else None,
        source=source,
        changes=changes,
        before=file.data if file else None,
    )


def insertion(source: SourceText, lines: list[str], after: int, text: str) -> Change:
    """Return the change that puts whole lines after this one (0: at the top), with the line ends there.

    Raises:
        ToolError: ``wrapped``: the lines have line numbers before them.
    """
    check_no_numbers(text, lines[max(0, after - 1) : after + 1])
    offset = sum(len(line) for line in lines[:after])
    end = source.line_end_at(offset)
    inserted = end.join(line.rstrip("\r\n") for line in split_lines(text) or [""])
    unfinished = offset > 0 and source.text[offset - 1] not in "\r\n"
    return Change(offset, offset, end + inserted if unfinished else inserted + end)


def encodable(source: SourceText, text: str, path: str) -> str:
    """Return the text, if the file can hold it.

    Raises:
        ToolError: ``not_encodable``.
    """
    if character := source.unencodable(text):
        raise ToolError(
            f"`{path}` is {source.encoding} and cannot hold {character!a}",
            hint="write it with characters of that encoding",
            code="not_encodable",
        )
    return text
