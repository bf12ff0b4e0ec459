"""``kakite edit``: a model's reply applied to files below the current folder, or JSON lines."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from kakite.cli.edit_following import Following
    from kakite.cli.suggestion_files import SuggestionFiles
    from kakite.edit import Failure, FileChange, FilesResult, Operation, SourceText
    from kakite.edit.formats.format_error import FormatName
    from kakite.edit.suggestions import RefusedBatch
    from kakite.workspace import File, History, Workspace

_DIFF_COLUMNS, _DIFF_LINES = 400, 200  # of a suggestion that are shown to a person


def edit(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", help="The files that may change. Default: those that the reply names."
        ),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One request a line in, one answer a line out.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; the exit code tells.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the changes as a unified diff.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Apply what can be applied, tell the rest.")
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
            "--accept", metavar="ID", help="Apply what a refusal suggested, by its id, not a reply."
        ),
    ] = None,
) -> None:
    """Apply a model's reply (standard input) to files below the current folder: whole or not at all.

    With FILE, only these files change or come to be; a reply may name one by the end of its path.
    A refusal may suggest what was probably meant; --accept applies that.
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
    telling = _Telling(check=check, diff=diff, as_json=as_json)
    if accept:
        _check_alone("--accept", files=files, partial=partial)
        raise typer.Exit(_accept(accept, telling))
    raise typer.Exit(_apply_reply(files or [], telling, partial=partial, name=reply_format))


def _check_alone(option: str, **others: object) -> None:
    """Refuse what an option would pass over."""
    given = next((name for name, value in others.items() if value), "")
    if given:
        word = "FILE" if given == "files" else f"--{given}"
        raise UsageError(f"{option} takes no {word}", hint=f"leave out {word}, or {option}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Telling:
    """How much is done, and how it is told."""

    check: bool
    diff: bool
    as_json: bool


def _answer_lines() -> None:
    from kakite.edit.jsonl import JsonLines

    lines = JsonLines()
    if sys.stdin.isatty():
        typer.echo("reading requests from here, one JSON object a line; Ctrl-D ends it", err=True)
    for line in sys.stdin.buffer:
        answer = lines.answer(line.rstrip(b"\r\n").decode("utf-8", "surrogateescape"))
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


def _apply_reply(names: Sequence[str], telling: _Telling, *, partial: bool, name: str) -> int:
    def apply(workspace: Workspace) -> FilesResult:
        if sys.stdin.isatty():
            typer.echo("reading the model's reply from here; Ctrl-D on a line of its own ends it", err=True)
        reply = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        return _result(workspace, names, reply, check=telling.check, partial=partial, name=name)

    return _in_workspace(apply, telling)


def _accept(identities: Sequence[str], telling: _Telling) -> int:
    from kakite.edit import FilesResult, SourceText
    from kakite.edit.suggestions import accept_batch, unite

    kept = _suggestions()

    def apply(workspace: Workspace) -> FilesResult:
        suggestion = unite([kept.find(identity) for identity in dict.fromkeys(identities)])
        present = _read_if_there(workspace, [file.path for file in suggestion.files])
        sources = {path: SourceText.from_bytes(file.data) for path, file in present.items()}
        result = FilesResult(files=accept_batch(suggestion, sources))
        if not telling.check:
            _write(workspace, present, _modes(workspace, result), result)
            for identity in identities:
                kept.remove(identity)
        else:
            _modes(workspace, result)
        return result

    return _in_workspace(apply, telling)


def _in_workspace(apply: Callable[[Workspace], FilesResult], telling: _Telling) -> int:
    """Apply something to the files below the current folder, tell of it, and return the exit code."""
    from kakite.cli.edit_following import follow_edit
    from kakite.workspace import Workspace

    try:
        workspace = Workspace(["."], history=None if telling.check else _journal())
        try:
            result = apply(workspace)
            following = follow_edit(workspace, result, check=telling.check)
        finally:
            workspace.close()
    except KakiteError as error:
        if telling.as_json:
            _print_json(ok=False, written=False, files=[], failures=[_error_shape(error)])
        raise
    _tell(result, following, telling)
    return 1 if result.failures else 0


def _suggestions() -> SuggestionFiles:
    from kakite.cli.suggestion_files import SuggestionFiles

    return SuggestionFiles(os.environ, os.path.realpath("."))


def _read_if_there(workspace: Workspace, paths: Sequence[str]) -> dict[str, File]:
    from kakite.workspace import WorkspaceError

    present: dict[str, File] = {}
    for path in paths:
        try:
            present[path] = workspace.read(path)
        except WorkspaceError as error:
            if error.code != "file_not_found":
                raise
    return present


def _journal() -> History | None:
    """Return the user's journal of this folder; None where it cannot be used: an edit does not need it."""
    from kakite.cli.kept_days import kept_days
    from kakite.workspace import WorkspaceError, open_history, state_folder

    try:
        history = open_history(state_folder(os.environ), os.path.realpath("."), days=kept_days(os.environ))
        history.open()
    except (OSError, WorkspaceError):
        return None
    return history


def _result(
    workspace: Workspace, names: Sequence[str], reply: str, *, check: bool, partial: bool, name: str
) -> FilesResult:
    from kakite.edit import EditError, FilesResult, SourceText, parse

    operations = parse(reply, _format(name))
    present = _read(workspace, names, operations)
    sources = {path: SourceText.from_bytes(file.data) for path, file in present.items()}
    try:
        result = _applied(workspace, names, sources, operations)
    except EditError as error:
        failures = [with_fields(failure, suggestion=None) for failure in error.failures]
        return FilesResult(files=(), failures=tuple(failures))
    if result.failures and not partial:
        return FilesResult(files=(), failures=_refuse(sources, result, rest=False))
    modes = _modes(workspace, result)
    _tell_of_other_names(workspace, result)
    if not check:
        _write(workspace, present, modes, result)
    if not result.failures:
        return result
    return FilesResult(files=result.files, failures=_refuse(sources, result, rest=not check))


def _refuse(sources: Mapping[str, SourceText], result: FilesResult, *, rest: bool) -> tuple[Failure, ...]:
    """Return the failures, and keep what they suggest. ``rest``: everything else was applied."""
    from kakite.edit.suggestions import refuse, refuse_rest

    place = os.path.realpath(".")
    if rest:
        return _keep(refuse_rest(sources, result, place=place))
    return _keep(refuse(sources, result, place=place))


def _keep(refused: RefusedBatch) -> tuple[Failure, ...]:
    """Keep the suggestions; one that cannot be is told no more."""
    kept = _suggestions()
    known = {suggestion.id for suggestion in refused.suggestions if kept.add(suggestion)}
    return tuple(
        failure
        if failure.suggestion is None or failure.suggestion.id in known
        else with_fields(failure, suggestion=None)
        for failure in refused.failures
    )


def _tell_of_other_names(workspace: Workspace, result: FilesResult) -> None:
    from kakite.cli.screen import visible_name

    for change in result.files:
        others = workspace.other_names(change.path) if change.before is not None else 0
        if others:
            told = f"{visible_name(change.path)} has {others} other name{'s' * (others > 1)} (hard links)"
            typer.echo(f"{told}, which keep the old text", err=True)


def _modes(workspace: Workspace, result: FilesResult) -> dict[str, int]:
    return {change.path: _writable_mode(workspace, change.path) for change in result.files if change.before}


def _writable_mode(workspace: Workspace, path: str) -> int:
    """Return the permission bits of a file, and refuse one that nobody may write: that is somebody's will.

    Neither a replaced file nor a user who may do everything would ever be stopped by them.
    """
    from kakite.workspace import WorkspaceError

    mode = workspace.mode(path)
    if not mode & 0o222:
        hint = "make it writable first, if it may change: chmod u+w"
        raise WorkspaceError("write_denied", path, f"`{path}` is read-only", hint=hint)
    return mode


def _format(name: str) -> FormatName:
    from typing import get_args

    from kakite.edit.formats.format_error import FormatName

    for known in get_args(FormatName):
        if name == known:
            return known
    raise UsageError(f"there is no format `{name}`", hint=f"known are {', '.join(get_args(FormatName))}")


def _read(workspace: Workspace, names: Sequence[str], operations: Sequence[Operation]) -> dict[str, File]:
    """Read the files named on the command line, or else by the reply, that exist."""
    from kakite.workspace import WorkspaceError

    present: dict[str, File] = {}
    for path in names or [operation.path for operation in operations if operation.path]:
        try:
            file = workspace.read(path)
        except WorkspaceError as error:
            if error.code not in {"file_not_found", "bad_path", "path_escapes"} or path in names:
                _missing_is_fine(error, path, names, operations)
            continue
        present[_plain(path) if not path.startswith("/") else file.path] = file
    return present


def _missing_is_fine(
    error: KakiteError, path: str, names: Sequence[str], operations: Sequence[Operation]
) -> None:
    """Raise, unless the file is named to be created."""
    made = [made for operation in operations for made in (operation.path, getattr(operation, "to", ""))]
    creates = any(made and _plain(made) == _plain(path) for made in made)
    if error.code == "file_not_found" and path in names and creates:
        return
    raise error


def _plain(path: str) -> str:
    return str(PurePosixPath(path))


def _applied(
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
    outside = [] if not names else [_outside(change) for change in result.files if not _named(change, names)]
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


def _named(change: FileChange, names: Sequence[str]) -> bool:
    named = {_plain(name) for name in names}
    new = [path for path in (change.path if change.before is None else "", change.to) if path]
    return all(path in named for path in new)


def _outside(change: FileChange) -> Failure:
    from kakite.edit import Failure

    path = change.to or change.path
    return Failure(
        index=change.indices[0] if change.indices else 0,
        code="bad_path",
        message=f"the reply creates `{path}`, which is not one of the files given",
        hint="Name it on the command line too, if it may be created",
        path=path,
    )


def _write(
    workspace: Workspace, present: Mapping[str, File], modes: Mapping[str, int], result: FilesResult
) -> None:
    """Write all of it, or, when one file cannot be written, nothing."""
    from kakite.workspace import Author, Writing

    wanted: dict[str, tuple[bytes | None, int | None]] = {}
    for change in result.files:
        if change.after is None or change.to:
            wanted[change.path] = None, None
        if change.after is not None:
            mode = modes[change.path] if change.to else None
            wanted[change.to or change.path] = change.after.to_bytes(), mode
    writes = [
        Writing(path=path, data=data, expected=present[path].version if path in present else None, mode=mode)
        for path, (data, mode) in wanted.items()
    ]
    workspace.write_all(writes, by=Author(tool="kakite edit", run=secrets.token_hex(8)))


def _print_json(
    *,
    ok: bool,
    written: bool,
    files: list[dict[str, object]],
    failures: list[dict[str, object]],
    following: Following | None = None,
) -> None:
    syntax, after_edit = (following.syntax, following.after_edit) if following else ([], [])
    document = {
        "ok": ok,
        "written": written,
        "files": files,
        "failures": failures,
        "syntax": syntax,
        "after_edit": after_edit,
    }
    typer.echo(json.dumps(document))  # in ASCII: a file's undecodable bytes have no UTF-8


def _error_shape(error: KakiteError) -> dict[str, object]:
    """Return what stopped all of it in the shape of a failure: it belongs to no edit."""
    path: object = getattr(error, "path", "")
    said = {"code": error.code, "message": error.message, "hint": error.hint}
    return {"index": -1, **said, "candidates": [], "path": path}


def _tell(result: FilesResult, following: Following, telling: _Telling) -> None:
    from kakite.edit import render_for_person
    from kakite.visible import visible

    if telling.as_json:
        from kakite.edit.jsonl import failure_json

        _print_json(
            ok=not result.failures,
            written=not telling.check and bool(result.files),
            files=[_shape(change) for change in result.files],
            failures=[{**failure_json(failure), "path": failure.path} for failure in result.failures],
            following=following,
        )
    for change in result.files:
        if telling.diff and not telling.as_json:
            sys.stdout.buffer.write(_diff(change).encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()
        typer.echo(_summary(change, check=telling.check), err=True)
    for told in following.told:
        typer.echo(visible(told), err=True)
    if result.failures:
        typer.echo(render_for_person(result.failures), err=True)
        _tell_suggestions(result.failures)


def _tell_suggestions(failures: Sequence[Failure]) -> None:
    """Say what was probably meant, and how to accept it: each suggestion once."""
    from kakite.edit.diff_cutting import cut_diff
    from kakite.visible import visible

    suggested = {failure.suggestion.id: failure.suggestion.diff for failure in failures if failure.suggestion}
    for identity, diff in suggested.items():
        shown = "\n".join(cut_diff(diff, context=3, columns=_DIFF_COLUMNS, lines=_DIFF_LINES))
        typer.echo(f"\nsuggested:\n{visible(shown)}\naccept it: kakite edit --accept {identity}", err=True)


def _shape(change: FileChange) -> dict[str, object]:
    from kakite.edit.jsonl import match_json

    matches = change.result.matches if change.result else ()
    return {
        "path": change.path,
        "to": change.to or None,
        "change": _kind(change),
        "applied": [match_json(match) for match in matches],
        "diff": _diff(change),
    }


def _kind(change: FileChange) -> str:
    if change.before is None:
        return "created"
    if change.after is None:
        return "deleted"
    return "moved" if change.to else "edited"


def _diff(change: FileChange) -> str:
    from kakite.edit.suggestions import diff_of_file

    return diff_of_file(change)


def _summary(change: FileChange, *, check: bool) -> str:
    what = f"would be {_kind(change)}" if check else _kind(change)
    matches = change.result.matches if change.result else ()
    forgiven = sorted({kind.replace("_", " ") for match in matches for kind in match.forgiven})
    how = f" (forgiven: {', '.join(forgiven)})" if forgiven else ""
    to = f" to {change.to}" if change.to else ""
    return f"{change.path} {what}{to}{how}"
