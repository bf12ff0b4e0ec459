"""Plans what `kakite install` changes in files, and writes the plan: all of it, or nothing."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from kakite import state_files
from kakite.cli.client_setup import get_user_file
from kakite.cli.install.clients import Place, WantedFile, list_wanted
from kakite.cli.install.json_entries import (
    Entry,
    UnclearPlaceError,
    add_entry,
    find_items,
    get_value,
    list_line_ends,
    remove_entry,
)
from kakite.cli.install.record import FileRecord, find_records, is_alike, load_records, save_records, to_file
from kakite.cli.install.toml_block import TomlError, add_block, parse_toml, remove_block
from kakite.edit import Change, ChangeSet
from kakite.errors import ExternalError, KakiteError
from kakite.host.config import jsonc
from kakite.state_paths import get_state_path

_LOCK_TIMEOUT = 10.0  # s that another `kakite install` may take
_MAX_BYTES = 32 * 1024 * 1024  # Claude Code keeps much else in the file that has its servers


class InstallError(KakiteError):
    """A file stands against it, and nothing was written. Its code says why."""


class FileAccessError(ExternalError):
    """A file cannot be read or written. Code: ``client_file_failed``."""

    code = "client_file_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """What happens to one file."""

    path: Path
    """As the client knows it."""
    before: bytes | None
    """None: there is no such file."""
    after: bytes | None
    """None: there will be none."""
    changes: ChangeSet
    """Of the text before, or of an empty one."""
    record: FileRecord | None
    """What is to be remembered of it."""
    obsolete_folders: tuple[str, ...] = ()
    """Folders to remove, where they are empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What happens to all files."""

    files: tuple[PlannedFile, ...]
    notes: tuple[str, ...] = ()
    """What is left as it is, in words."""

    @property
    def links(self) -> tuple[Path, ...]:
        """The files that change and are links: what they lead to is written."""
        return tuple(each.path for each in self.changes if each.path.is_symlink())

    @property
    def changes(self) -> tuple[PlannedFile, ...]:
        """The files that change."""
        return tuple(each for each in self.files if each.before != each.after)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A text on its way, and all its changes so far."""

    text: str
    changes: ChangeSet

    @classmethod
    def of(cls, text: str) -> _Draft:
        return cls(text, ChangeSet.of(len(text), []))

    def then(self, change: ChangeSet) -> _Draft:
        return _Draft(change.apply(self.text), self.changes.compose(change))


def plan_install(place: Place, *, steers: bool, hosts: bool = False) -> Plan:
    """Return what makes the client use the server; ``hosts``: and the project's servers through Kakite.

    Raises:
        InstallError: ``client_file_broken``, ``client_file_unclear``, ``server_exists``, ``own_file_exists``.
        FileAccessError: a file cannot be read.
    """
    records = _load(place.environ)
    wanted = list_wanted(place, steers=steers, hosts=hosts)
    notes: list[str] = []
    planned = [_plan_file(place, each, records.get(to_file(each.path))) for each in wanted]
    kept = {to_file(each.path) for each in wanted}
    like = _make_record(place)
    others = [path for path in find_records(records, like) if path not in kept]
    planned += [_plan_removal(Path(path), records[path], notes) for path in others]
    return Plan(files=tuple(planned), notes=tuple(notes))


def plan_uninstall(place: Place) -> Plan:
    """Return what takes out again what was installed.

    Raises:
        InstallError: ``client_file_broken``, ``entry_changed``.
        FileAccessError: a file cannot be read.
    """
    records = _load(place.environ)
    ours = {path: records[path] for path in find_records(records, _make_record(place))}
    notes: list[str] = []
    planned = [_plan_removal(Path(path), record, notes) for path, record in ours.items()]
    if not ours:  # installed by another person or machine, or what was remembered is lost
        hosts = place.client == "pi"
        both = (*list_wanted(place, steers=True, hosts=hosts), *list_wanted(place, steers=False))
        guesses = {path: each for each in reversed(both) if (path := to_file(each.path)) not in records}
        planned = [
            _plan_removal(each.path, _guess_record(place, each), notes, is_guess=True)
            for each in guesses.values()
        ]
    return Plan(files=tuple(planned), notes=tuple(notes))


def carry_out(plan: Plan, environ: Mapping[str, str]) -> None:
    """Write the plan.

    Raises:
        InstallError: ``changed_meanwhile``: a file is not any more what it was; nothing was written.
        FileAccessError: a file cannot be written; what was written before is taken back.
    """
    try:
        with state_files.lock_file(get_state_path(environ) / "installs.lock", _LOCK_TIMEOUT):
            _write_all(plan, environ)
    except OSError as error:
        raise _make_state_error(error) from error


def _write_all(plan: Plan, environ: Mapping[str, str]) -> None:
    for each in plan.files:
        if _read(each.path) != each.before:
            raise InstallError(
                f"`{each.path}` was changed while you were asked; nothing was written",
                hint="run the command again; end the client first if it writes the file all the time",
                code="changed_meanwhile",
            )
    known = load_records(environ)
    save_records(environ, _list_begun(known, plan))  # a crash must not leave what nobody knows of
    done: list[PlannedFile] = []
    try:
        for each in plan.changes:
            done.append(each)
            is_private = each.record is not None and each.record.scope == "user"
            _write(each.path, each.after, is_private=is_private)
    except OSError as error:
        if _take_back(done):
            with suppress(OSError):
                save_records(environ, known)
        raise _make_access_error(done[-1].path, error) from error
    for each in plan.files:
        _remove_folders(each.obsolete_folders)
    save_records(environ, _list_done(known, plan))


def _take_back(done: Sequence[PlannedFile]) -> bool:
    """Make files what they were before; tell whether all are: else what is known of them stays."""
    *written, failed = done  # which is what it was: files are replaced whole or not at all
    is_whole = True
    for each in reversed(written):
        try:
            _write(each.path, each.before)
        except OSError:
            is_whole = False
    for each in (failed, *reversed(written)):
        _remove_folders(each.record.folders if each.record and each.before is None else ())
    return is_whole


def _list_begun(known: Mapping[str, FileRecord], plan: Plan) -> dict[str, FileRecord]:
    """Return what is to be remembered while files are written: of each what it was, too."""
    records = dict(known)
    for each in plan.files:
        if each.record is not None:
            earlier = known.get(to_file(each.path))
            is_same = earlier is None or earlier == each.record
            records[to_file(each.path)] = each.record if is_same else replace(each.record, earlier=earlier)
    return records


def _list_done(known: Mapping[str, FileRecord], plan: Plan) -> dict[str, FileRecord]:
    records = dict(known)
    for each in plan.files:
        if each.record is not None:
            records[to_file(each.path)] = each.record
        else:
            records.pop(to_file(each.path), None)
            _pass_on_folders(records, each.obsolete_folders)
    return records


def _pass_on_folders(records: dict[str, FileRecord], folders: Sequence[str]) -> None:
    """Let folders that could not be removed yet go with another file of ours in them."""
    for folder in reversed(folders):
        inside = next((path for path in records if path.startswith(f"{folder}/")), None)
        if inside and folder not in records[inside].folders:
            records[inside] = replace(records[inside], folders=(folder, *records[inside].folders))


def _load(environ: Mapping[str, str]) -> dict[str, FileRecord]:
    try:
        records = load_records(environ)
    except OSError as error:
        raise _make_state_error(error) from error
    return {path: _find_latest(Path(path), record) for path, record in records.items()}


def _find_latest(path: Path, record: FileRecord) -> FileRecord:
    """Return what a file has of us: who wrote it anew may have been killed before."""
    if record.earlier is None:
        return record
    try:
        is_as_written = _is_as_written(path, record)
    except KakiteError:  # it cannot be read, and may be another project's
        return record
    return replace(record, earlier=None) if is_as_written else _find_latest(path, record.earlier)


def _is_as_written(path: Path, record: FileRecord) -> bool:
    text = _decode(path, _read(path))
    if record.text:
        return _is_same_text(text, record.text)
    if record.block:
        return _has_block(text, record.block)
    try:
        value = jsonc.parse(text).value
    except jsonc.JsoncError:
        return True
    return all(
        find_items(found, each.value) is not None if each.is_items else found == each.value
        for each in record.entries
        for found in [_find(value, each.path)]
    )


def _is_same_text(one: str, other: str) -> bool:
    """Return whether texts are the same but for their line ends, which git and editors change."""
    return list_line_ends(one) == list_line_ends(other)


def _has_block(text: str, block: str) -> bool:
    return any(each in text for each in list_line_ends(block.strip()))


def _make_record(place: Place) -> FileRecord:
    if place.scope == "project":
        return FileRecord(client=place.client, scope=place.scope, project=str(place.project.resolve()))
    home = str(get_user_file(place.client, place.environ))
    return FileRecord(client=place.client, scope=place.scope, home=home)


def _guess_record(place: Place, wanted: WantedFile) -> FileRecord:
    """Return what install would have written, for a file that nothing is remembered of."""
    base = _make_record(place)
    return replace(base, entries=wanted.entries, block=wanted.block, text=wanted.text)


def _plan_file(place: Place, wanted: WantedFile, known: FileRecord | None) -> PlannedFile:
    data = _read(wanted.path)
    text = _decode(wanted.path, data)
    base = _make_record(place)
    if known and _is_still_there(known, text):
        if not is_alike(known, base):
            raise _make_shared_error(wanted.path, known)
        base = known
    if data is None:
        folders = known.folders if known else ()
        base = replace(base, is_created=True, folders=folders or _list_missing_folders(wanted.path))
    elif _is_blank(text):
        base = replace(base, blank=text)
    with _Explaining(wanted.path):
        if wanted.text:
            draft, record = _plan_text(wanted, _Draft.of(text), base, is_there=data is not None)
        elif wanted.block:
            draft, record = _plan_block(wanted, _Draft.of(text), base)
        else:
            draft, record = _plan_entries(wanted, _Draft.of(text), base)
    after = data if draft.text == text else draft.text.encode()
    _check_writable(wanted.path, data, after)
    return PlannedFile(path=wanted.path, before=data, after=after, changes=draft.changes, record=record)


def _is_blank(text: str) -> bool:
    return not text.removeprefix("\ufeff").strip(" \t\r\n")


def _is_still_there(known: FileRecord, text: str) -> bool:
    """Return whether a file has something of what was written, so that it is the same one."""
    if known.text or known.block:
        return _is_same_text(text, known.text) or bool(known.block and _has_block(text, known.block))
    try:
        value = jsonc.parse(text).value
    except jsonc.JsoncError:
        return bool(text)
    return any(_find(value, each.path) is not _NOTHING for each in known.entries)


_Outcome = tuple[_Draft, FileRecord | None]


def _plan_text(wanted: WantedFile, draft: _Draft, base: FileRecord, *, is_there: bool) -> _Outcome:
    if is_there and _is_same_text(draft.text, wanted.text):
        return draft, base if base.text else None
    if is_there and not (base.text and _is_same_text(draft.text, base.text)):
        raise InstallError(
            f"`{wanted.path}` is there, and `kakite install` did not write it",
            hint="move it away if you do not need it, or install with --keep-built-in",
            code="own_file_exists",
        )
    return draft.then(_replace_all(draft.text, wanted.text)), replace(base, text=wanted.text)


def _replace_all(text: str, new: str) -> ChangeSet:
    return ChangeSet.of(len(text), [Change(0, len(text), new).narrow(text)])


def _plan_block(wanted: WantedFile, draft: _Draft, base: FileRecord) -> _Outcome:
    value = parse_toml(draft.text)
    if base.block and base.block.strip() != wanted.block.replace("\n", _get_newline(base.block)).strip():
        with suppress(LookupError):
            draft = draft.then(remove_block(draft.text, base.block, wanted.server))
            value = parse_toml(draft.text)
    found = _find(value, wanted.server)
    if found is _NOTHING:
        change, written = add_block(draft.text, wanted.block)
        return draft.then(change), replace(base, block=written)
    if found != get_value(parse_toml(wanted.block), wanted.server):
        raise _make_server_error(wanted, draft.text)
    return draft, base if base.block else None


def _get_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _plan_entries(wanted: WantedFile, draft: _Draft, base: FileRecord) -> _Outcome:
    if _is_blank(draft.text):
        draft = draft.then(_replace_all(draft.text, "{}\n"))
    kept: list[Entry] = []
    for entry in base.entries:
        if any(_is_part(entry, each) for each in wanted.entries):
            kept.append(entry)
            continue
        with suppress(LookupError):
            draft = draft.then(remove_entry(draft.text, entry))
    for entry in wanted.entries:
        found = _find(jsonc.parse(draft.text).value, entry.path)
        missing = _list_missing_items(found, entry) if entry.is_items else entry.value
        if found == entry.value or (entry.is_items and not missing):
            continue
        if found is not _NOTHING and not entry.is_items:
            raise _make_server_error(wanted, draft.text)
        change, written = add_entry(draft.text, replace(entry, value=missing))
        draft = draft.then(change)
        kept.append(written)
    return draft, replace(base, entries=tuple(kept)) if kept else None


def _is_part(known: Entry, wanted: Entry) -> bool:
    """Return whether an entry that was written is still wanted: as it is, or as some of the items."""
    if (known.path, known.is_items) != (wanted.path, wanted.is_items):
        return False
    return set(known.value) <= set(wanted.value) if known.is_items else known.value == wanted.value


def _list_missing_items(found: object, entry: Entry) -> list[object]:
    there = cast("list[object]", found) if isinstance(found, list) else []
    return [each for each in entry.value if each not in there]


_NOTHING = object()
"""What is where a key leads nowhere: ``null`` is something."""


def _find(value: object, path: Sequence[str]) -> object:
    try:
        return get_value(value, path)
    except LookupError:
        return _NOTHING


def _make_shared_error(path: Path, known: FileRecord) -> InstallError:
    scope = f"project {known.project}" if known.project else known.scope
    return InstallError(
        f"`{path}` is the file into which `kakite install {known.client}` wrote for another place ({scope})",
        hint="two places share this file, by a link perhaps: uninstall the other one first",
        code="client_file_unclear",
    )


def _make_server_error(wanted: WantedFile, text: str) -> InstallError:
    name = ".".join(wanted.server)
    line = 1
    with suppress(jsonc.JsoncError):
        line = jsonc.parse(text).get_line(wanted.server)
    at = "" if wanted.block else f":{line}"
    return InstallError(
        f"{wanted.path}{at}: there is a server `{name}`, and `kakite install` did not write it",
        hint="remove or rename it, then run the command again",
        code="server_exists",
    )


def _plan_removal(path: Path, record: FileRecord, notes: list[str], *, is_guess: bool = False) -> PlannedFile:
    data = _read(path)
    text = _decode(path, data)
    draft = _Draft.of(text)
    if data is not None:
        with _Explaining(path):
            draft = _take_out(path, record, draft, notes, is_guess=is_guess)
    is_ours = record.is_created or bool(record.text)
    is_empty = draft.text != text and "".join(draft.text.split()) in {"", "{}"}
    is_gone = data is None or (is_ours and is_empty)
    if is_gone and draft.text:
        draft = draft.then(_replace_all(draft.text, ""))
    elif is_empty and record.blank is not None:
        draft = draft.then(_replace_all(draft.text, record.blank))
    after = None if is_gone else data if draft.text == text else draft.text.encode()
    _check_writable(path, data, after)
    folders = record.folders
    if is_guess and record.text:
        folders = (str(path.parent),)
    return PlannedFile(
        path=path, before=data, after=after, changes=draft.changes, record=None,
        obsolete_folders=folders if is_gone else (),
    )  # fmt: skip


def _take_out(path: Path, record: FileRecord, draft: _Draft, notes: list[str], *, is_guess: bool) -> _Draft:
    if record.text:
        if _is_same_text(draft.text, record.text):
            return draft.then(_replace_all(draft.text, ""))
        return _leave(path, draft, notes, is_guess=is_guess)
    if record.block:
        return _take_block(path, record.block, draft, notes, is_guess=is_guess)
    for entry in reversed(record.entries):
        found = _find(jsonc.parse(draft.text).value, entry.path)
        if entry.is_items:
            draft = _take_items(entry, draft, is_guess=is_guess)
        elif found == entry.value:
            draft = draft.then(remove_entry(draft.text, entry))
        elif found is not _NOTHING:
            draft = _leave(path, draft, notes, is_guess=is_guess)
    return draft


def _take_block(path: Path, block: str, draft: _Draft, notes: list[str], *, is_guess: bool) -> _Draft:
    ((section, servers),) = parse_toml(block).items()
    server = (section, *servers)
    try:
        return draft.then(remove_block(draft.text, block, server))
    except LookupError:
        if _find(parse_toml(draft.text), server) is _NOTHING:
            return draft
        return _leave(path, draft, notes, is_guess=is_guess)


def _take_items(entry: Entry, draft: _Draft, *, is_guess: bool) -> _Draft:
    """Take out all items; of a list that somebody sorted otherwise, each that is there."""
    found = _find(jsonc.parse(draft.text).value, entry.path)
    if find_items(found, entry.value) is not None:
        return draft.then(remove_entry(draft.text, entry))
    for item in () if is_guess else entry.value:
        with suppress(LookupError):
            draft = draft.then(remove_entry(draft.text, replace(entry, value=[item])))
    return draft


def _leave(path: Path, draft: _Draft, notes: list[str], *, is_guess: bool) -> _Draft:
    if not is_guess:
        raise InstallError(
            f"what `kakite install` wrote into `{path}` was changed since; nothing was removed",
            hint="remove it yourself, or put it back as it was, then run the command again",
            code="entry_changed",
        )
    notes.append(f"what is in `{path}` is not of `kakite install`, and stays")
    return draft


class _Explaining:
    """Turns what a parser says into an error of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, jsonc.JsoncError | TomlError):
            raise InstallError(
                f"{self._path}:{error.line}: {error.reason}; nothing was written",
                hint="correct the file, then run the command again",
                code="client_file_broken",
            ) from None
        if isinstance(error, UnclearPlaceError):
            raise InstallError(
                f"{self._path}:{error.line}: {error.reason}; nothing was written",
                hint="change that, or add the server yourself: `kakite serve --root . --print-config CLIENT`",
                code="client_file_unclear",
            ) from None
        if isinstance(error, RecursionError):
            raise InstallError(
                f"{self._path}: what is in it lies too deep in each other; nothing was written",
                hint="add the server yourself: `kakite serve --root . --print-config CLIENT`",
                code="client_file_unclear",
            ) from None


def _read(path: Path) -> bytes | None:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # of a FIFO nothing is waited for
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise FileAccessError(f"`{path}` is no regular file", hint="move it away, then try again")
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _make_access_error(path, error) from error
    if len(data) > _MAX_BYTES:
        raise FileAccessError(f"`{path}` is too large", hint="add the server with the client's own command")
    return data


def _check_writable(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Refuse a file that its owner has made read-only: replacing it would pass over that."""
    if before is not None and before != after and not path.stat().st_mode & 0o222:
        raise FileAccessError(f"`{path}` is read-only", hint=f"chmod u+w {shlex.quote(str(path))}")


def _decode(path: Path, data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = (data or b"").count(b"\n", 0, error.start) + 1
        raise InstallError(
            f"{path}:{line}: it is not UTF-8; nothing was written",
            hint="save the file as UTF-8, then run the command again",
            code="client_file_broken",
        ) from None


def _write(path: Path, data: bytes | None, *, is_private: bool = False) -> None:
    """Write through links; a file that is there keeps its mode. A person's own file is for nobody else."""
    place = path.resolve()
    if data is None:
        place.unlink(missing_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = 0o600 if is_private else 0o666 & ~_get_umask()
    about = place.stat() if place.exists() else None
    mode = about.st_mode & 0o7777 if about else fresh
    owner = (about.st_uid, about.st_gid) if about else None
    state_files.replace(place, data, mode=mode, owner=owner)


def _get_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _list_missing_folders(path: Path) -> tuple[str, ...]:
    return tuple(str(each) for each in reversed(path.resolve().parents) if not each.exists())


def _remove_folders(folders: Sequence[str]) -> None:
    for each in reversed(folders):
        with suppress(OSError):
            Path(each).rmdir()


def _make_access_error(path: Path, error: OSError) -> FileAccessError:
    reason, hint = state_files.explain_os_error(error, path)
    if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        hint = f"look at what is there: ls -ld {shlex.quote(str(path.parent))} {shlex.quote(str(path))}"
    return FileAccessError(f"`{path}` cannot be used: {reason}", hint=hint)


def _make_state_error(error: OSError) -> FileAccessError:
    path = Path("installs.json")
    reason, hint = state_files.explain_os_error(error, path)
    return FileAccessError(f"`{path}` cannot be used: {reason}", hint=hint)
