"""Reads the sessions of opencode: its database, and the folder of files that older versions wrote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kakite.cli.replay.json_values import Json, get_object, get_text, iter_objects
from kakite.cli.replay.patched_files import FileChange, PatchedFiles
from kakite.cli.replay.recorded_edit import Ending, KnownTexts, RecordedEdit, replay_hunks
from kakite.cli.replay.unified_hunks import read_hunks

DATABASES = "opencode*.db"
"""Its databases, by their names: other channels than the stable one have one of their own."""
_MESSAGES = "storage/message"
_LOOKING = {
    "read", "grep", "glob", "list", "lsp", "edit", "write", "apply_patch", "todowrite", "todoread",
    "webfetch", "websearch", "skill", "question",
}  # fmt: skip
_NO_PLACE = (
    "Could not find oldString",
    "oldString not found",
    "matches for oldString",
    "apply_patch verification failed",
)


def find_sessions(folder: Path) -> Iterator[Path]:
    """Yield the folders of sessions that older versions wrote into the folder of opencode."""
    yield from sorted(each for each in (folder / _MESSAGES).glob("ses_*") if each.is_dir())


def list_database(path: Path, most: int) -> Iterator[Iterator[Json | None]]:
    """Yield the parts of each session of a database; None for one that is no JSON or longer than ``most``.

    Raises:
        OSError: it cannot be read.
    """
    # Of a database that nobody has open, SQLite makes no files beside it if it is told so.
    is_open = Path(f"{path}-wal").exists()
    uri = f"{path.absolute().as_uri()}?{'mode=ro' if is_open else 'immutable=1'}"
    with _telling(), closing(sqlite3.connect(uri, uri=True)) as database:
        for (each,) in database.execute("SELECT DISTINCT session_id FROM part ORDER BY 1").fetchall():
            yield _iter_rows(database, each, most)


def _iter_rows(database: sqlite3.Connection, session: str, most: int) -> Iterator[Json | None]:
    asked = "SELECT CASE WHEN length(data) < ? THEN data END FROM part WHERE session_id = ? ORDER BY id"
    with _telling():
        for (folder,) in database.execute("SELECT directory FROM session WHERE id = ?", (session,)):
            yield {"type": "session", "directory": folder}
        for (data,) in database.execute(asked, (most, session)):
            yield _parse(data)


@contextmanager
def _telling() -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(0, str(error)) from error


def iter_files(session: Path, most: int) -> Iterator[Json | None]:
    """Yield the parts of a session that is a folder of files."""
    for about in session.parent.parent.glob(f"session/*/{session.name}.json"):
        yield {**(_parse(about.read_bytes()) or {}), "type": "session"}
    for message in sorted(session.glob("*.json")):
        for part in sorted((session.parent.parent / "part" / message.stem).glob("*.json")):
            yield _parse(part.read_bytes()) if part.stat().st_size < most else None


def _parse(data: str | bytes | None) -> Json | None:
    try:
        return get_object(json.loads(data or "")) or None
    except (ValueError, TypeError, RecursionError):
        return None


def read_opencode(parts: Iterable[Json]) -> Iterator[RecordedEdit]:
    """Yield the edits of a session in their order."""
    files = PatchedFiles()
    for part in parts:
        if part.get("type") == "session":
            files.folder = get_text(part, "directory") or "/"
        elif part.get("type") == "tool":
            yield from _read_call(files, part)


def _read_call(files: PatchedFiles, part: Json) -> Iterator[RecordedEdit]:
    texts = files.texts
    name, state = get_text(part, "tool"), get_object(part, "state")
    asked, told = get_object(state, "input"), get_object(state, "metadata")
    path, is_done = get_text(asked, "filePath"), state.get("status") == "completed"
    if name not in _LOOKING:
        texts.clear()
    elif name == "read" and is_done:
        _learn(texts, get_object(told, "display"))
    elif name == "write" or (name == "edit" and not get_text(asked, "oldString")):
        content = asked.get("content", asked.get("newString"))
        texts.set(path, content if is_done and isinstance(content, str) else None)
    elif name == "edit":
        yield _read_edit(texts, part, path)
    elif name == "apply_patch":
        patch = get_text(asked, "patchText")
        changes = [_to_change(each) for each in iter_objects(told.get("files"))]
        yield from files.replay(get_text(part, "callID"), patch, changes, _read_ending(part))


def _learn(texts: KnownTexts, shown: Json) -> None:
    """Remember a file that was read from its first line to its last."""
    text, is_whole = shown.get("text"), shown.get("lineEnd") == shown.get("totalLines") is not None
    if shown.get("lineStart") == 1 and is_whole and shown.get("truncated") is False and isinstance(text, str):
        texts.set(get_text(shown, "path"), f"{text}\n")  # which it shows without its end


def _read_edit(texts: KnownTexts, part: Json, path: str) -> RecordedEdit:
    from kakite.edit import Edit

    asked = get_object(part, "state", "input")
    difference = get_object(part, "state", "metadata", "filediff")
    told = difference.get("before")  # as older versions wrote it
    before, ending = told if isinstance(told, str) else texts.get(path), _read_ending(part)
    after = _find_after(before, difference) if ending == "applied" else None
    if ending == "applied":
        texts.set(path, after)
    edit = Edit(
        search=get_text(asked, "oldString"),
        replace=get_text(asked, "newString"),
        all=asked.get("replaceAll") is True,
        path="file",
    )
    return RecordedEdit(
        key=f"{get_text(part, 'callID')}\0{asked}",
        operations=(edit,),
        before=None if before is None else {"file": before},
        after=None if after is None else {"file": after},
        ending=ending,
    )


def _read_ending(part: Json) -> Ending:
    state = get_object(part, "state")
    if state.get("status") == "completed":
        return "applied"
    return "failed" if any(each in get_text(state, "error") for each in _NO_PLACE) else "not_tried"


def _find_after(before: str | None, difference: Json) -> str | None:
    after = difference.get("after")
    if isinstance(after, str):
        return after
    hunks = read_hunks(get_text(difference, "patch"))
    if before is None or not hunks:
        return None
    whole = replay_hunks(before, hunks)
    return whole if whole is not None else replay_hunks(before, _indent(before, hunks))


_Hunks = list[tuple[int, list[str]]]


def _indent(before: str, hunks: _Hunks) -> _Hunks:
    """Return hunks with the indentation that opencode takes from all lines of what it shows of an edit."""
    lines = before.split("\n")
    prefix, made = "", _Hunks()
    for start, hunk in hunks:
        at, whole = start - 1, list[str]()
        for line in hunk:
            sign, content = line[:1], line[1:]
            if sign in {" ", "-"} and 0 <= at < len(lines):
                if content.strip() and lines[at].endswith(content):
                    prefix = lines[at].removesuffix(content)
                content = lines[at] if lines[at].endswith(content) else content
                at += 1
            elif sign == "+" and content.strip():
                content = prefix + content
            whole.append(sign + content)
        made.append((start, whole))
    return made


def _to_change(file: Json) -> FileChange:
    kind, after = get_text(file, "type"), file.get("after")
    diff = get_text(file, "patch") or get_text(file, "diff")
    if kind == "add" and not isinstance(after, str):
        after = replay_hunks("", read_hunks(diff) or [])
    return FileChange(
        path=get_text(file, "filePath"),
        moved=get_text(file, "movePath"),
        is_gone=kind == "delete",
        text=after if isinstance(after, str) and kind != "delete" else None,
        diff=diff,
    )
