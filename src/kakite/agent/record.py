"""Runs on disk: stored after every settled step, so that another process can go on with them."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from kakite.agent.lines import NOTHING_NEW, line_of, run_of
from kakite.agent.run import Run
from kakite.errors import KakiteError, UsageError

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,80}")


class RecordError(KakiteError):
    """A stored run cannot be used.

    Codes: ``run_unknown``, ``run_busy``, ``run_unreadable``.
    """

    code = "run_unreadable"
    exit_code = 2


class Records:
    """The runs below one folder, a folder each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def new(self) -> Record:
        """Return the record of a new run; nothing is written yet."""
        return Record(self._folder / secrets.token_hex(4))

    def find(self, run_id: str) -> Record:
        """Return the record of this run.

        Raises:
            RecordError: there is none.
        """
        record = Record(self._folder / run_id)
        if not _ID.fullmatch(run_id) or not record.file.exists():
            raise RecordError(
                f"there is no run `{run_id}`",
                hint="`kakite agent list` shows which there are",
                code="run_unknown",
            )
        return record

    def all(self) -> list[Record]:
        """Return all records, the latest first."""
        records = [Record(folder) for folder in self._folder.iterdir()]
        return sorted(
            (record for record in records if record.file.exists()),
            key=lambda record: record.file.stat().st_mtime,
            reverse=True,
        )


class Record:
    """One run's folder: ``run.json``, the mirror of its repository, and the task folder of its sandbox.

    ``run.json`` has a line for each time that the run was stored, see ``kakite.agent.lines``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self.file = folder / "run.json"
        self.mirror = folder / "mirror.git"
        self.task = folder / "task"
        self._stored: tuple[Run, int] | None = None
        """What stands in the file, and how many bytes of it count."""

    def save(self, run: Run) -> None:
        """Store the run: whole after a power cut, or the one before is."""
        before, size = self._stored or (None, 0)
        line = line_of(run, before)
        if line == NOTHING_NEW:
            return
        self._stored = None  # should this fail, all of it is written the next time
        if before is None:
            self._replace(line)
        else:
            self._append(line, size)
        self._stored = run, size + len(line)

    def load(self) -> Run:
        """Return the run as it was stored last.

        Raises:
            RecordError: it was written by another version, or by something else.
        """
        data = self.file.read_bytes()
        try:
            run, size = run_of(data)
        except (ValueError, LookupError, TypeError) as error:
            raise RecordError(f"`{self.file}` is not a run that this version knows") from error
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

    def failure(self) -> str:
        """Return the code of the error that the run has failed with; empty for none."""
        try:
            return (self.folder / "failed").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the run for this process alone.

        Raises:
            RecordError: another process is working on it.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with (self.folder / "lock").open("w", encoding="utf-8") as lock:
            if not any(_is_taken(lock, fcntl.LOCK_EX) for _ in _attempts()):
                raise RecordError(
                    f"another process is working on run `{self.id}`",
                    hint="wait for it, or stop it",
                    code="run_busy",
                )
            yield

    def busy(self) -> bool:
        """Tell whether a process is working on the run."""
        try:
            with (self.folder / "lock").open(encoding="utf-8") as lock:
                return not _is_taken(lock, fcntl.LOCK_SH)
        except OSError:
            return False

    def remove(self) -> None:
        """Remove all of a run in which nothing was done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def discard_work(self) -> None:
        """Remove the repository's copies of a run that needs them no more; what was said and done stays."""
        shutil.rmtree(self.mirror, ignore_errors=True)
        shutil.rmtree(self.task, ignore_errors=True)


def branch_name(branch: str | None, task: str, run_id: str) -> str:
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
        raise UsageError(f"`{branch}` is no name for a branch", code="bad_branch")
    return branch


def _is_taken(lock: TextIO, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _attempts() -> Iterator[int]:
    """Yield a few times: who only looks whether a run is busy holds its lock for a moment as well."""
    for attempt in range(5):
        if attempt:
            time.sleep(0.02)
        yield attempt


def _write(stream: BinaryIO, line: bytes) -> None:
    stream.write(line)
    stream.flush()
    os.fsync(stream.fileno())
