"""Stores runs on disk after every finished step, so that another process can continue them.

A run is a file of JSON lines. Each line holds only what has changed since the one before.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from pydantic import TypeAdapter

from kakite.agent.run.state import RunState
from kakite.errors import KakiteError, UsageError
from kakite.models.messages import Reply

EMPTY_DELTA = b"{}\n"
"""The line of a run that has not changed."""
_APPEND_ONLY_FIELDS = ("messages", "steps")


def encode_delta(run: RunState, before: RunState | None) -> bytes:
    """Return the line that makes a run of the one before it; of None, all of it."""
    changed = {
        field.name
        for field in fields(RunState)
        if before is None or getattr(run, field.name) != getattr(before, field.name)
    }
    line = {name: getattr(run, name) for name in changed - {*_APPEND_ONLY_FIELDS, "pending"}}
    for name in changed.intersection(_APPEND_ONLY_FIELDS):
        line[name] = _encode_growth(run, before, name)
    if "pending" in changed:
        line["pending"] = _encode_pending(run)
    return as_json(line) + b"\n"


def as_json(value: object) -> bytes:
    """Return values of a run as a line of JSON, exactly: also the halves of characters that models write."""
    return json.dumps(_to_plain(value), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _to_plain(value: object) -> object:
    # Not by pydantic: it replaces such halves where they stand in keys, and refuses them elsewhere.
    if is_dataclass(value):
        return {field.name: _to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _to_plain(each) for name, each in items}
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in cast("Sequence[object]", value)]
    return value


def decode_run(data: bytes) -> tuple[RunState, int]:
    """Return the run that lines are, and how many bytes of them count: what was cut off by a crash does not.

    Raises:
        ValueError, TypeError, LookupError: they are no run.
    """
    whole = data.rpartition(b"\n")[0]
    state: dict[str, Any] = {}
    for line in whole.split(b"\n"):
        _apply(state, json.loads(line))
    if isinstance(waiting := state.get("pending"), int):
        state["pending"] = _get_last_calls(state["messages"], waiting)
    return _get_adapter().validate_python(state), len(whole) + 1


def _encode_growth(run: RunState, before: RunState | None, name: str) -> dict[str, object]:
    now = cast("tuple[object, ...]", getattr(run, name))
    then = cast("tuple[object, ...]", getattr(before, name)) if before else ()
    kept = len(then) if now[: len(then)] == then else 0
    return {"kept": kept, "added": now[kept:]}


def _encode_pending(run: RunState) -> object:
    """Return how many calls of the last reply wait; those themselves where they are not of it."""
    waiting = run.pending
    last = next((message for message in reversed(run.messages) if isinstance(message, Reply)), Reply())
    if waiting == last.calls[len(last.calls) - len(waiting) :]:
        return len(waiting)
    return waiting


def _get_last_calls(messages: list[Mapping[str, Any]], count: int) -> list[object]:
    replies = (message["calls"] for message in reversed(messages) if "calls" in message)
    calls = cast("list[object]", next(replies, ()))
    return calls[len(calls) - count :]


def _apply(state: dict[str, Any], line: object) -> None:
    if not isinstance(line, dict):
        raise TypeError("a line is not a JSON object")
    for name, value in cast("dict[str, Any]", line).items():
        if name in _APPEND_ONLY_FIELDS:
            grown = state.setdefault(name, [])
            grown[value["kept"] :] = value["added"]
        else:
            state[name] = value


@cache
def _get_adapter() -> TypeAdapter[RunState]:
    return TypeAdapter(RunState)


_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,80}")


class RunStoreError(KakiteError):
    """A stored run cannot be used.

    Codes: ``run_unknown``, ``run_busy``, ``run_unreadable``.
    """

    code = "run_unreadable"
    exit_code = 2


class RunStore:
    """The runs below one folder, a folder each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def create_run(self) -> RunFolder:
        """Return the record of a new run; nothing is written yet."""
        return RunFolder(self._folder / secrets.token_hex(4))

    def find(self, run_id: str) -> RunFolder:
        """Return the record of this run.

        Raises:
            RunStoreError: there is none.
        """
        record = RunFolder(self._folder / run_id)
        if not _ID.fullmatch(run_id) or not record.file.exists():
            raise RunStoreError(
                f"there is no run `{run_id}`",
                hint="`kakite agent list` lists them",
                code="run_unknown",
            )
        return record

    def list_runs(self) -> list[RunFolder]:
        """Return all records, the latest first."""
        records = [RunFolder(folder) for folder in self._folder.iterdir()]
        return sorted(
            (record for record in records if record.file.exists()),
            key=lambda record: record.file.stat().st_mtime,
            reverse=True,
        )


class RunFolder:
    """One run's folder: ``run.json``, the mirror of its repository, and the task folder of its sandbox.

    ``run.json`` has a line for each time that the run was stored, see ``kakite.agent.run.store``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self.file = folder / "run.json"
        self.mirror = folder / "mirror.git"
        self.task = folder / "task"
        self.source = folder / "source.git"
        """The repository of a run whose code comes out of a container."""
        self.code = folder / "code.tar"
        """All that lay in the folder with the code there."""
        self.check = folder / "check"
        """Where task folders for checks of what is committed are made; there only meanwhile."""
        self._stored: tuple[RunState, int] | None = None
        """What stands in the file, and how many bytes of it count."""

    def save(self, run: RunState) -> None:
        """Store the run: whole after a power cut, or the one before is."""
        before, size = self._stored or (None, 0)
        line = encode_delta(run, before)
        if line == EMPTY_DELTA:
            return
        self._stored = None  # should this fail, all of it is written the next time
        if before is None:
            self._replace(line)
        else:
            self._append(line, size)
        self._stored = run, size + len(line)

    def load(self) -> RunState:
        """Return the run as it was stored last.

        Raises:
            RunStoreError: it was written by another version, or by something else.
        """
        data = self.file.read_bytes()
        try:
            run, size = decode_run(data)
        except (ValueError, LookupError, TypeError) as error:
            raise RunStoreError(f"`{self.file}` is not a run that this version can read") from error
        self._stored = run, size
        return run

    def _replace(self, line: bytes) -> None:
        temporary = self.file.with_suffix(".new")
        with temporary.open("wb") as stream:
            _write(stream, line)
        temporary.replace(self.file)

    def _append(self, line: bytes, size: int) -> None:
        with self.file.open("r+b") as stream:
            stream.truncate(size)  # of a write that was cut short
            stream.seek(size)
            _write(stream, line)

    def note_failure(self, code: str) -> None:
        """Keep why the run has failed outside, empty: it goes on. Where that fails nobody knows."""
        with suppress(OSError):
            if self.file.exists():
                (self.folder / "failed").write_text(code, encoding="utf-8")

    def load_failure(self) -> str:
        """Return the code of the error that the run has failed with; empty for none."""
        try:
            return (self.folder / "failed").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the run for this process alone.

        Raises:
            RunStoreError: another process is working on it.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with (self.folder / "lock").open("w", encoding="utf-8") as lock:
            if not any(_try_lock(lock, fcntl.LOCK_EX) for _ in _iter_attempts()):
                raise RunStoreError(
                    f"another process is working on run `{self.id}`",
                    hint="wait for it, or stop it",
                    code="run_busy",
                )
            yield

    def get_saved_at(self) -> datetime:
        """Return when the run was stored last."""
        return datetime.fromtimestamp(self.file.stat().st_mtime, UTC)

    def is_busy(self) -> bool:
        """Return whether a process is working on the run."""
        try:
            with (self.folder / "lock").open(encoding="utf-8") as lock:
                return not _try_lock(lock, fcntl.LOCK_SH)
        except OSError:
            return False

    def remove(self) -> None:
        """Remove all of the run.

        Raises:
            OSError: a part of it cannot be removed. The run is still listed then, to be tried again.
        """
        for part in (self.mirror, self.task, self.check):
            if part.exists():
                shutil.rmtree(part)
        shutil.rmtree(self.folder)

    def discard_work(self, *, keep_branch: bool = False) -> None:
        """Remove the repository's copies of a run that needs them no more; what was said and done stays.

        With ``keep_branch`` the mirror stays: the work is in no other repository.
        """
        if not keep_branch:
            shutil.rmtree(self.mirror, ignore_errors=True)
        shutil.rmtree(self.task, ignore_errors=True)
        shutil.rmtree(self.check, ignore_errors=True)


def choose_branch_name(branch: str | None, task: str, run_id: str) -> str:
    """Return the branch to work on: the given one, or one made of the task's first words.

    Raises:
        UsageError: git would not take the name.
    """
    if branch is None:
        words = re.findall(r"[a-z0-9]+", task.lower())[:6]
        return f"kakite/{'-'.join([*words, run_id])[-60:].strip('-')}"
    forbidden = re.search(
        r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(/|$)|^[-/.]|/\.|[/.]$|^@$|^HEAD$", branch
    )
    if forbidden or not branch:
        raise UsageError(f"`{branch}` is not a valid branch name", code="bad_branch")
    return branch


def _try_lock(lock: TextIO, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _iter_attempts() -> Iterator[int]:
    """Yield a few times: who only looks whether a run is busy holds its lock for a moment as well."""
    for attempt in range(5):
        if attempt:
            time.sleep(0.02)
        yield attempt


def _write(stream: BinaryIO, line: bytes) -> None:
    stream.write(line)
    stream.flush()
    os.fsync(stream.fileno())
