"""Plans edits of files and then carries them out: all tools write in this way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from kakite.edit import Change, ChangeSet, SourceText
from kakite.tools.after_write import WrittenFile, check_syntax, format_syntax_problem, run_after_write
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import compute_digest, current_call, raise_if_cancelled
from kakite.tools.changes.line_diff import LineDiff
from kakite.tools.changes.outside_changes import (
    check_binary,
    check_read,
    check_whole,
    note_creation,
    note_moves,
    note_view,
    note_write,
)
from kakite.tools.changes.seen_content import merge_spans
from kakite.tools.editor.anchors import check_no_numbers
from kakite.tools.editor.snippets import (
    LINE_SHOWN,
    parse_shown_lines,
    render_change_diff,
    render_snippet,
    take_first_hunks,
)
from kakite.tools.scope import Scope, is_binary
from kakite.tools.text_pages import split_lines, truncate_text
from kakite.tools.toolset import ToolResult
from kakite.workspace import READ_LIMIT, Author, File, FileWrite, WorkspaceError, compute_version

MAX_BATCH = 128 * 1024 * 1024  # characters of all files that one call writes
MAX_COMPARED = 4 * 1024 * 1024  # characters of two texts that are compared line by line
FILES_TOLD = 8  # whose changes are in an answer
TRIES = 4  # to plan again, when somebody who takes no turns writes between our look and our write
_CHANGED_MEANWHILE = frozenset({"stale", "file_exists", "file_not_found"})

EMPTY = SourceText.from_bytes(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """The edit of one file, not yet written."""

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
        return render_change_diff(self.changes, self.source.text, self.path)

    def to_source(self) -> SourceText:
        """Return the new text."""
        return self.made or self.source.replace(self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """The edits that a call would make, and its answer once they are made."""

    told: str
    edits: tuple[FileEdit, ...] = ()
    forgiven: tuple[str, ...] = ()
    """In what the quoted text differed from the file."""
    writings: tuple[FileWrite, ...] = ()
    """What becomes of files besides, as they are moved or removed."""
    diff: str = ""
    """What that is, as it is shown."""
    tells_diff: bool = False
    """Whether the answer has to show what changed, as ``told`` does not."""


def apply_plan(
    scope: Scope, plan: Callable[[], EditPlan], *, paths: Iterable[str], by: Author, preview: bool
) -> ToolResult:
    """Do what the plan says, whole or not at all, or with ``preview`` only show it.

    Whoever writes to one of these paths as we do waits until we are through, in this and in every other
    process. A plan is made anew when somebody else changed a file while it was made, a few times.

    Raises:
        KakiteError: what the plan raises; ``stale`` when others keep on writing.
    """
    if preview:
        planned = plan()
        ready = _prepare(scope, planned)
        for each in ready.writings:
            scope.workspace.check_writable(each.path)
        warned = _add_syntax_warnings(build_preview_result(ready.diff, ready.bound), planned)
        return _add_hard_link_note(warned, _count_hard_links(scope, ready))
    with scope.workspace.turn(paths):
        for tries_left in reversed(range(TRIES)):
            raise_if_cancelled()
            try:
                return _write_plan(scope, plan(), by)
            except _ConcurrentWriteError as error:
                if not tries_left:
                    raise error.reason from error
    raise AssertionError("the last try returns or raises")


class _ConcurrentWriteError(Exception):
    """Somebody else wrote between our look and our write."""

    def __init__(self, reason: WorkspaceError) -> None:
        super().__init__(reason.message)
        self.reason = reason


def _check_read(scope: Scope, planned: EditPlan) -> None:
    for edit in planned.edits:
        if edit.version is not None:
            check_read(scope, edit.path)
    for each in planned.writings:
        if each.expected is not None and not is_binary(each.before or b""):  # what is none cannot be viewed
            check_read(scope, each.path)


def _write_plan(scope: Scope, planned: EditPlan, by: Author) -> ToolResult:
    ready = _prepare(scope, planned)
    raise_if_cancelled()
    if is_stale(ready.bound):
        return build_stale_result(ready.diff, ready.bound)
    others = _count_hard_links(scope, ready)
    notes = scope.hold_notes(each.path for each in ready.writings)
    with ExitStack() as held:
        try:
            scope.workspace.write_all(ready.writings, by=by, on_locked=lambda: held.enter_context(notes))
        except WorkspaceError as error:
            if error.code in _CHANGED_MEANWHILE:
                raise _ConcurrentWriteError(error) from error
            raise
        note_moves(scope, planned.writings)
        return _add_hard_link_note(_finish_write(scope, planned, ready), others)


def _count_hard_links(scope: Scope, ready: _PreparedPlan) -> dict[str, int]:
    """Return how many other names the files have that are to be replaced, where they have any."""
    found: dict[str, int] = {}
    for each in ready.writings:
        if each.expected is not None:
            with suppress(WorkspaceError):  # the write tells what is wrong
                found[each.path] = scope.workspace.count_hard_links(each.path)
    return {path: count for path, count in found.items() if count}


def _add_hard_link_note(result: ToolResult, others: Mapping[str, int]) -> ToolResult:
    """Return a result that tells of other names, which a write leaves with the old text."""
    if not others:
        return result
    told = "; ".join(f"`{path}` has {count} other name{'s' * (count > 1)}" for path, count in others.items())
    note = f"Note: {told} (hard links), which keep the old text"
    return replace(
        result, text=f"{result.text}\n{note}", details={**result.details, "other_names": dict(others)}
    )


def _finish_write(scope: Scope, plan: EditPlan, ready: _PreparedPlan) -> ToolResult:
    """Do what follows the write, and tell both."""
    written = [each for each in map(_to_written_file, plan.edits) if each is not None]
    aftermath = run_after_write(scope, written)
    now = {each.path: each.after.text for each in aftermath.files}
    diff = ready.diff
    if aftermath.files != written:
        diff = "".join(_render_file_diff(each) for each in aftermath.files) + plan.diff
    answers = (
        [plan.told] if len(plan.edits) == 1 else [_extract_snippet(plan.told, each) for each in plan.edits]
    )
    notes = [
        _note_file(scope, each, now.get(each.path), told)
        for each, told in zip(plan.edits, answers, strict=True)
    ]
    details = {"diff": truncate_diff(diff), "forgiven": list(plan.forgiven), **aftermath.details}
    changed = format_changes(plan.edits) if plan.tells_diff else ""
    parts = [plan.told, changed, *notes, *aftermath.told]
    return ToolResult(text="\n".join(filter(None, parts)), details=details)


def format_changes(edits: Sequence[FileEdit]) -> str:
    """Return the first hunks of what changes in files that were there, each after its name if several are."""
    told: list[str] = []
    for edit in edits:
        if edit.version is not None and edit.changes:
            hunks = take_first_hunks(edit.diff)
            told.append(f"{edit.path}:\n{hunks}" if len(edits) > 1 else hunks)
    more = [f"… and {len(told) - FILES_TOLD} more files"] if len(told) > FILES_TOLD else []
    return "\n".join([*told[:FILES_TOLD], *more])


def _extract_snippet(told: str, edit: FileEdit) -> str:
    """Return the part of an answer that shows what one of several files became; empty if it shows none."""
    shown = render_snippet(edit.to_source().text, edit.changes) if parse_shown_lines(told) else ""
    return shown if shown in told else ""


def _note_file(scope: Scope, edit: FileEdit, now: str | None, told: str) -> str:
    """Remember what the session knows of a file, after the commands; return what there is to say of it."""
    old, after = edit.source.text, edit.to_source().text
    if edit.version is None:
        was_known = note_creation(scope, edit.path, after if now is None else now)
        return f"`{edit.path}` was gone since you last saw it; this made it anew." if was_known else ""
    if now is not None and now != after:
        return note_write(scope, edit.path, old, LineDiff(old, now).to_changes())
    note = note_write(scope, edit.path, old, edit.changes)
    if shown := parse_shown_lines(told):
        note_view(scope, edit.path, after, merge_spans(shown), LINE_SHOWN)
    return note


def _add_syntax_warnings(result: ToolResult, plan: EditPlan) -> ToolResult:
    """Return what a preview answers, with what would not parse any more."""
    problems = check_syntax([each for each in map(_to_written_file, plan.edits) if each is not None])
    if not problems:
        return result
    text = "\n".join([result.text, *map(format_syntax_problem, problems)])
    return replace(result, text=text, details={**result.details, "syntax": problems})


def _to_written_file(edit: FileEdit) -> WrittenFile | None:
    if not edit.changes and edit.version is not None:
        return None
    before = None if edit.version is None else edit.source
    return WrittenFile(path=edit.path, before=before, after=edit.to_source())


def _render_file_diff(written: WrittenFile) -> str:
    before = written.before.text if written.before else ""
    return render_change_diff(build_whole_change(before, written.after.text), before, written.path)


@dataclass(frozen=True, slots=True)
class _PreparedPlan:
    """A plan, written out."""

    diff: str
    writings: tuple[FileWrite, ...]
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


def _check_contents(plan: EditPlan) -> None:
    for edit in plan.edits:
        check_size(edit.path, edit.changes.new_length)
        if any("\0" in each.insert for each in edit.changes.changes):
            raise ToolError(
                f"`{edit.path}` would become a binary file: the new text has a NUL character in it",
                hint="nothing was changed; write an escape of the language, such as \\0, or leave it out",
                code="binary_file",
            )
    if sum(edit.changes.new_length for edit in plan.edits) > MAX_BATCH:
        raise ToolError(
            f"the files would be larger than {MAX_BATCH >> 20} MiB together",
            hint="nothing was changed; write fewer files in one call",
            code="too_large",
        )


def _prepare(scope: Scope, plan: EditPlan) -> _PreparedPlan:
    _check_read(scope, plan)
    _check_contents(plan)
    canonicalize = scope.workspace.canonicalize
    writings = [*map(_to_file_write, plan.edits), *plan.writings]
    becoming = [(canonicalize(each.path), each.expected, each.version) for each in writings]
    changed = tuple(each for each in writings if each.version != each.expected)
    diff = "".join([*(edit.diff for edit in plan.edits), plan.diff])
    return _PreparedPlan(diff, changed, compute_digest(becoming))


def _to_file_write(edit: FileEdit) -> FileWrite:
    data = edit.to_source().to_bytes()
    return FileWrite(
        path=edit.path, data=data, expected=edit.version, before=edit.before, version=compute_version(data)
    )


def build_preview_result(diff: str, bound: str) -> ToolResult:
    """Return what a preview answers; a call that is ``bound`` to it does this or nothing."""
    shown = truncate_diff(diff)
    text = f"Preview, nothing was written:\n{shown or '(no difference)'}"
    return ToolResult(text=text, details={"diff": shown, "bound": bound})


def is_stale(bound: str) -> bool:
    """Return whether the call that is performed now was bound to a preview that showed something else."""
    return current_call().preview not in {"", bound}


def build_stale_result(diff: str, bound: str) -> ToolResult:
    """Return the refusal of a call that is bound to something else, with what it would do now."""
    shown = truncate_diff(diff)
    return ToolResult(
        text="Error (changed_since_preview): nothing was written, since the edit would no longer do what its "
        f"preview showed; it would now do this:\n{shown or '(no difference)'}\n"
        "hint: look at it, and if this is what you mean, send the call again",
        is_error=True,
        code="changed_since_preview",
        details={"diff": shown, "bound": bound},
    )


def truncate_diff(diff: str) -> str:
    """Return as much of a diff as an answer may hold; a cut one says so."""
    return truncate_text(diff, "the diff goes on")


def build_whole_change(old: str, new: str) -> ChangeSet:
    """Return the change that puts one text in place of another."""
    return ChangeSet.of(len(old), [Change(0, len(old), new).narrow(old)])


def diff_by_lines(old: str, new: str) -> ChangeSet:
    """Return the change that leads from one text to the other, in the lines that differ alone."""
    if len(old) + len(new) > MAX_COMPARED:
        return build_whole_change(old, new)
    changes = LineDiff(old, new).to_changes().changes
    return ChangeSet.of(len(old), (each.narrow(old) for each in changes))


def plan_overwrite(scope: Scope, file: File | None, path: str, text: str) -> FileEdit:
    """Return the edit that gives a file this content, in the encoding that it has.

    None stands for a new file; a binary one becomes UTF-8.

    Raises:
        ToolError: ``not_encodable``; ``not_read`` or ``changed_since_read`` where it would replace what the
            model has not seen.
    """
    source = EMPTY if file is None or is_binary(file.data) else SourceText.from_bytes(file.data)
    changes = diff_by_lines(source.text, require_encodable(source, text, path))
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


def build_insertion(source: SourceText, lines: list[str], after: int, text: str) -> Change:
    """Return the change that puts whole lines after this one (0: at the top), with the line ends there.

    Raises:
        ToolError: ``wrapped``: the lines have line numbers before them.
    """
    check_no_numbers(text, lines[max(0, after - 1) : after + 1], after + 1)
    offset = sum(len(line) for line in lines[:after])
    end = source.find_line_end(offset)
    inserted = end.join(line.rstrip("\r\n") for line in split_lines(text) or [""])
    unfinished = offset > 0 and source.text[offset - 1] not in "\r\n"
    return Change(offset, offset, end + inserted if unfinished else inserted + end)


def require_encodable(source: SourceText, text: str, path: str) -> str:
    """Return the text, if the file can hold it.

    Raises:
        ToolError: ``not_encodable``.
    """
    if character := source.find_unencodable(text):
        raise ToolError(
            f"`{path}` is {source.encoding} and cannot hold {character!a}",
            hint="write it with characters of that encoding",
            code="not_encodable",
        )
    return text
