"""``kakite edit``: applies a model's reply, or JSON lines, to files below the current folder."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kakite.cli.replay.command import replay
from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from kakite.cli.after_edit import AfterEditReport
    from kakite.cli.suggestion_files import SuggestionFiles
    from kakite.edit import EditFailure, FileChange, FilesResult, Operation, SourceText
    from kakite.edit.formats.format_error import FormatName
    from kakite.edit.suggestions.model import RefusedBatch
    from kakite.workspace import EditLog, File, Workspace

_DIFF_COLUMNS, _DIFF_LINES = 400, 200  # of a suggestion that are shown to a person


class EditGroup(TyperGroup):
    """A command with files, whose first word may also name a command of its own."""

    allow_interspersed_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the first word for a command if it is one, and all words for files and options otherwise."""
        if args and args[0] in self.commands:
            ctx._protected_args, ctx.args = args[:1], args[1:]
            return ctx.args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the first word names, alone, or else the edit."""
        if not ctx._protected_args:
            return super().invoke(ctx)
        (name,) = ctx._protected_args
        with self.commands[name].make_context(name, ctx.args, parent=ctx) as inner:
            return inner.command.invoke(inner)


app = typer.Typer(epilog="Write `./replay` for a file that has the name of a command.")
app.command("replay")(replay)


@app.callback(invoke_without_command=True)
def edit(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", help="The files that may change. Default: the files that the reply names."
        ),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Answer JSON requests from standard input, line by line.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; the exit code says whether the reply would apply.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the changes as a unified diff.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Apply the edits that fit, and report the others.")
    ] = False,
    reply_format: Annotated[
        str, typer.Option("--format", help="auto, search_replace, udiff, apply_patch, json, xml or whole.")
    ] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document to standard output.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", metavar="ID", help="Apply a refusal's suggestion, by its id, instead of a reply."
        ),
    ] = None,
) -> None:
    """Apply a model's reply from standard input to files below the current folder: all of it, or nothing.

    With FILE, only these files may change or be created; the reply may name one by the end of its path.
    When Kakite refuses an edit, it may suggest what the model probably meant; --accept applies that.
    Exit codes: 0 applied; 1 refused, or the reply is malformed; 2 wrong usage; 3 something outside failed.
    """
    if jsonl:
        if files:
            raise UsageError(
                f"--jsonl edits the texts in its requests, not `{files[0]}`",
                hint="leave the files out, or leave out --jsonl to apply a reply to them",
            )
        _check_alone("--jsonl", accept=accept)
        _answer_lines()
        return
    telling = _OutputOptions(check=check, diff=diff, as_json=as_json)
    if accept:
        _check_alone("--accept", files=files, partial=partial)
        raise typer.Exit(_accept(accept, telling))
    raise typer.Exit(_apply_reply(files or [], telling, partial=partial, name=reply_format))


def _check_alone(option: str, **others: object) -> None:
    """Refuse what an option would pass over."""
    given = next((name for name, value in others.items() if value), "")
    if given:
        word = "FILE" if given == "files" else f"--{given}"
        raise UsageError(f"{option} takes no {word}", hint=f"leave out {word} or {option}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputOptions:
    """The options of the output."""

    check: bool
    diff: bool
    as_json: bool


def _answer_lines() -> None:
    from kakite.edit.jsonl_protocol import JsonlSession

    lines = JsonlSession()
    if sys.stdin.isatty():
        typer.echo("reading requests from your terminal, one JSON object per line; end with Ctrl-D", err=True)
    for line in sys.stdin.buffer:
        answer = lines.answer(line.rstrip(b"\r\n").decode("utf-8", "surrogateescape"))
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


def _apply_reply(names: Sequence[str], telling: _OutputOptions, *, partial: bool, name: str) -> int:
    def apply(workspace: Workspace, run: str) -> FilesResult:
        if sys.stdin.isatty():
            typer.echo(
                "reading the model's reply from your terminal; end with Ctrl-D on an empty line", err=True
            )
        reply = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        writing = None if telling.check else run
        return _apply_and_write(workspace, names, reply, run=writing, partial=partial, name=name)

    return _run_in_workspace(apply, telling)


def _accept(identities: Sequence[str], telling: _OutputOptions) -> int:
    from kakite.edit import FilesResult, SourceText
    from kakite.edit.suggestions.model import accept_batch, merge_suggestions

    kept = _open_suggestions()

    def apply(workspace: Workspace, run: str) -> FilesResult:
        suggestion = merge_suggestions([kept.find(identity) for identity in dict.fromkeys(identities)])
        present = _read_existing(workspace, [file.path for file in suggestion.files])
        sources = {path: SourceText.from_bytes(file.data) for path, file in present.items()}
        result = FilesResult(files=accept_batch(suggestion, sources))
        if not telling.check:
            _write(workspace, present, _read_modes(workspace, result), result, run)
            for identity in identities:
                kept.remove(identity)
        else:
            _read_modes(workspace, result)
        return result

    return _run_in_workspace(apply, telling)


def _run_in_workspace(apply: Callable[[Workspace, str], FilesResult], telling: _OutputOptions) -> int:
    """Apply something to the files below the current folder, tell of it, and return the exit code."""
    from kakite.cli.after_edit import run_after_edit
    from kakite.workspace import Workspace

    run = secrets.token_hex(8)
    try:
        journal = None if telling.check else _open_edit_log()
        workspace = Workspace(["."], history=journal)
        try:
            result = apply(workspace, run)
            following = run_after_edit(workspace, result, check=telling.check)
        finally:
            workspace.close()
    except KakiteError as error:
        if telling.as_json:
            _print_json(ok=False, written=False, files=[], failures=[_to_error_json(error)])
        error.is_reported = telling.as_json
        error.hint = _format_user_hint(error)
        raise
    _print_result(result, following, telling)
    if journal is not None and result.files:
        typer.echo(f"undo it: kakite undo --run {run}", err=True)
    if result.failures:
        _print_failures(result.failures)
    return 1 if result.failures else 0


def _format_user_hint(error: KakiteError) -> str:
    """Return the hint of what stopped all of it, for a person instead of a model."""
    from kakite.edit.formats.format_error import FormatError

    if isinstance(error, FormatError):
        return error.hint.replace(
            "Write each edit like this:", "the reply must contain each edit like this:", 1
        )
    return _HINTS.get(error.code, error.hint)


_HINTS: Mapping[str, str] = {
    "file_not_found": "check the name; it is relative to the current folder",
    "overlap": "accept one of them and look at the file; then apply the reply with the other edit again",
    "stale": "apply the reply again: Kakite then reads the file as it is now",
    "suggestion_gone": "look at the file as it is now, and apply the reply again if you still want it",
}


def _open_suggestions() -> SuggestionFiles:
    from kakite.cli.suggestion_files import SuggestionFiles

    return SuggestionFiles(os.environ, os.path.realpath("."))


def _read_existing(workspace: Workspace, paths: Sequence[str]) -> dict[str, File]:
    from kakite.workspace import WorkspaceError

    present: dict[str, File] = {}
    for path in paths:
        try:
            present[path] = workspace.read(path)
        except WorkspaceError as error:
            if error.code != "file_not_found":
                raise
    return present


def _open_edit_log() -> EditLog | None:
    """Return the user's journal of this folder; None where it cannot be used: an edit does not need it."""
    from kakite.cli.light_settings import load_history_days
    from kakite.workspace import WorkspaceError, ensure_state_folder, open_edit_log

    try:
        history = open_edit_log(
            ensure_state_folder(os.environ), os.path.realpath("."), days=load_history_days(os.environ)
        )
        history.open()
    except (OSError, WorkspaceError):
        return None
    return history


def _apply_and_write(
    workspace: Workspace, names: Sequence[str], reply: str, *, run: str | None, partial: bool, name: str
) -> FilesResult:
    """Apply a reply, written as this ``run``; without one nothing is written."""
    from kakite.edit import EditError, FilesResult, SourceText, parse

    operations = parse(reply, _parse_format(name))
    present = _read(workspace, names, operations)
    sources = {path: SourceText.from_bytes(file.data) for path, file in present.items()}
    try:
        result = _apply_operations(workspace, names, sources, operations)
    except EditError as error:
        failures = [with_fields(failure, suggestion=None) for failure in error.failures]
        return FilesResult(files=(), failures=tuple(failures))
    if result.failures and not partial:
        return FilesResult(files=(), failures=_refuse(sources, result, rest=False))
    modes = _read_modes(workspace, result)
    _warn_hard_links(workspace, result)
    if run is not None:
        _write(workspace, present, modes, result, run)
    if not result.failures:
        return result
    return FilesResult(files=result.files, failures=_refuse(sources, result, rest=run is not None))


def _refuse(sources: Mapping[str, SourceText], result: FilesResult, *, rest: bool) -> tuple[EditFailure, ...]:
    """Return the failures, and keep what they suggest. ``rest``: everything else was applied."""
    from kakite.edit.suggestions.model import refuse, refuse_rest

    place = os.path.realpath(".")
    if rest:
        return _save_suggestions(refuse_rest(sources, result, place=place))
    return _save_suggestions(refuse(sources, result, place=place))


def _save_suggestions(refused: RefusedBatch) -> tuple[EditFailure, ...]:
    """Keep the suggestions; one that cannot be is told no more."""
    kept = _open_suggestions()
    known = {suggestion.id for suggestion in refused.suggestions if kept.add(suggestion)}
    return tuple(
        failure
        if failure.suggestion is None or failure.suggestion.id in known
        else with_fields(failure, suggestion=None)
        for failure in refused.failures
    )


def _warn_hard_links(workspace: Workspace, result: FilesResult) -> None:
    from kakite.cli.console import escape_one_line

    for change in result.files:
        others = workspace.count_hard_links(change.path) if change.before is not None else 0
        if others:
            told = f"{escape_one_line(change.path)} has {others} other name{'s' * (others > 1)} (hard links)"
            typer.echo(f"{told}, which keep the old text", err=True)


def _read_modes(workspace: Workspace, result: FilesResult) -> dict[str, int]:
    return {
        change.path: _read_writable_mode(workspace, change.path) for change in result.files if change.before
    }


def _read_writable_mode(workspace: Workspace, path: str) -> int:
    """Return the permission bits of a file, and refuse one that nobody may write: that is somebody's will.

    Neither a replaced file nor a user who may do everything would ever be stopped by them.
    """
    from kakite.workspace import WorkspaceError

    mode = workspace.get_mode(path)
    if not mode & 0o222:
        hint = "if it may change, make it writable first: chmod u+w"
        raise WorkspaceError("write_denied", path, f"`{path}` is read-only", hint=hint)
    return mode


def _parse_format(name: str) -> FormatName:
    from typing import get_args

    from kakite.edit.formats.format_error import FormatName

    for known in get_args(FormatName):
        if name == known:
            return known
    raise UsageError(f"there is no format `{name}`", hint=f"use one of {', '.join(get_args(FormatName))}")


def _read(workspace: Workspace, names: Sequence[str], operations: Sequence[Operation]) -> dict[str, File]:
    """Read the files named on the command line, or else by the reply, that exist."""
    from kakite.workspace import WorkspaceError

    present: dict[str, File] = {}
    for path in names or [operation.path for operation in operations if operation.path]:
        try:
            file = workspace.read(path)
        except WorkspaceError as error:
            if error.code not in {"file_not_found", "bad_path", "path_escapes"} or path in names:
                _raise_unless_created(error, path, names, operations)
            continue
        present[_normalize_path(path) if not path.startswith("/") else file.path] = file
    return present


def _raise_unless_created(
    error: KakiteError, path: str, names: Sequence[str], operations: Sequence[Operation]
) -> None:
    """Raise, unless the file is named to be created."""
    made = [made for operation in operations for made in (operation.path, getattr(operation, "to", ""))]
    creates = any(made and _normalize_path(made) == _normalize_path(path) for made in made)
    if error.code == "file_not_found" and path in names and creates:
        return
    raise error


def _normalize_path(path: str) -> str:
    return str(PurePosixPath(path))


def _apply_operations(
    workspace: Workspace,
    names: Sequence[str],
    sources: Mapping[str, SourceText],
    operations: Sequence[Operation],
) -> FilesResult:
    """Return what can be applied, and what cannot.

    Raises:
        EditError: it would also create files that are not among those given.
    """
    from kakite.edit import EditError, apply_to_files

    result = apply_to_files(sources, operations, partial=True, exists=lambda path: _exists(workspace, path))
    outside = (
        []
        if not names
        else [_build_outside_failure(change) for change in result.files if not _is_named(change, names)]
    )
    if outside:
        raise EditError(sorted((*result.failures, *outside), key=lambda failure: failure.index))
    return result


def _exists(workspace: Workspace, path: str) -> bool:
    from kakite.workspace import WorkspaceError

    try:
        workspace.read(path)
    except WorkspaceError as error:
        return error.code != "file_not_found"
    return True


def _is_named(change: FileChange, names: Sequence[str]) -> bool:
    named = {_normalize_path(name) for name in names}
    new = [path for path in (change.path if change.before is None else "", change.to) if path]
    return all(path in named for path in new)


def _build_outside_failure(change: FileChange) -> EditFailure:
    from kakite.edit import EditFailure

    path = change.to or change.path
    return EditFailure(
        index=change.indices[0] if change.indices else 0,
        code="bad_path",
        message=f"the reply creates `{path}`, which is not one of the files given",
        hint="If Kakite may create it, name it on the command line too",
        path=path,
    )


_EXECUTABLE = 0o777
"""Permissions of a program that is created, as far as the person's own mask lets them."""


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write(
    workspace: Workspace,
    present: Mapping[str, File],
    modes: Mapping[str, int],
    result: FilesResult,
    run: str,
) -> None:
    """Write all of it, or, when one file cannot be written, nothing; the journal knows it by ``run``."""
    from kakite.workspace import Author, FileWrite

    wanted: dict[str, tuple[bytes | None, int | None]] = {}
    for change in result.files:
        if change.after is None or change.to:
            wanted[change.path] = None, None
        if change.after is not None:
            mode = (
                modes[change.path]
                if change.to
                else _EXECUTABLE & ~_read_umask()
                if change.is_executable
                else None
            )
            wanted[change.to or change.path] = change.after.to_bytes(), mode
    writes = [
        FileWrite(
            path=path, data=data, expected=present[path].version if path in present else None, mode=mode
        )
        for path, (data, mode) in wanted.items()
    ]
    workspace.write_all(writes, by=Author(tool="kakite edit", run=run))


def _print_json(
    *,
    ok: bool,
    written: bool,
    files: list[dict[str, object]],
    failures: list[dict[str, object]],
    following: AfterEditReport | None = None,
) -> None:
    syntax, after_edit = (following.syntax, following.after_edit) if following else ([], [])
    first = [{name: each[name] for name in ("code", "message", "hint")} for each in failures[:1]]
    document = {
        "ok": ok,
        "written": written,
        "files": files,
        "failures": failures,
        **({"error": first[0]} if first else {}),
        "syntax": syntax,
        "after_edit": after_edit,
    }
    typer.echo(json.dumps(document))  # in ASCII: a file's undecodable bytes have no UTF-8


def _to_error_json(error: KakiteError) -> dict[str, object]:
    """Return what stopped all of it in the shape of a failure: it belongs to no edit."""
    path: object = getattr(error, "path", "")
    said = {"code": error.code, "message": error.message, "hint": error.hint}
    return {"index": -1, **said, "candidates": [], "path": path}


def _print_result(result: FilesResult, following: AfterEditReport, telling: _OutputOptions) -> None:
    from kakite.terminal_text import escape_control

    if telling.as_json:
        from kakite.edit.jsonl_protocol import encode_failure

        _print_json(
            ok=not result.failures,
            written=not telling.check and bool(result.files),
            files=[_to_change_json(change) for change in result.files],
            failures=[{**encode_failure(failure), "path": failure.path} for failure in result.failures],
            following=following,
        )
    for change in result.files:
        if telling.diff and not telling.as_json:
            sys.stdout.buffer.write(_format_diff(change).encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()
        typer.echo(_format_summary(change, check=telling.check), err=True)
    for told in following.told:
        typer.echo(escape_control(told), err=True)


def _print_failures(failures: Sequence[EditFailure]) -> None:
    from kakite.edit import render_for_person

    typer.echo(render_for_person(failures), err=True)
    _print_suggestions(failures)


def _print_suggestions(failures: Sequence[EditFailure]) -> None:
    """Say what was probably meant or would be lost, and how to accept it: each suggestion once."""
    from kakite.edit.diff_output import cut_diff
    from kakite.terminal_text import escape_control

    suggested = {failure.suggestion.id: failure.suggestion for failure in failures if failure.suggestion}
    for identity, suggestion in suggested.items():
        shown = "\n".join(cut_diff(suggestion.diff, context=3, columns=_DIFF_COLUMNS, lines=_DIFF_LINES))
        head, tail = (
            ("loses lines", "if the loss is meant") if suggestion.is_loss else ("suggested", "accept it")
        )
        typer.echo(f"\n{head}:\n{escape_control(shown)}\n{tail}: kakite edit --accept {identity}", err=True)


def _to_change_json(change: FileChange) -> dict[str, object]:
    from kakite.edit.jsonl_protocol import encode_match

    matches = change.result.matches if change.result else ()
    return {
        "path": change.path,
        "to": change.to or None,
        "change": _classify_change(change),
        "applied": [encode_match(match) for match in matches],
        "diff": _format_diff(change),
    }


def _classify_change(change: FileChange) -> str:
    if change.before is None:
        return "created"
    if change.after is None:
        return "deleted"
    return "moved" if change.to else "edited"


def _format_diff(change: FileChange) -> str:
    from kakite.edit.suggestions.model import format_file_diff

    return format_file_diff(change)


def _format_summary(change: FileChange, *, check: bool) -> str:
    what = f"would be {_classify_change(change)}" if check else _classify_change(change)
    matches = change.result.matches if change.result else ()
    forgiven = sorted({kind.replace("_", " ") for match in matches for kind in match.forgiven})
    how = f" (forgiven: {', '.join(forgiven)})" if forgiven else ""
    to = f" to {change.to}" if change.to else ""
    return f"{change.path} {what}{to}{how}"
