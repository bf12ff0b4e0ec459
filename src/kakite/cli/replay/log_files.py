"""Finds transcripts of coding agents, and reads them line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kakite.cli.replay.aider import CHAT, REQUESTS, is_chat, is_request, read_chat, read_requests
from kakite.cli.replay.claude_code import is_claude_code, read_claude_code
from kakite.cli.replay.codex import is_codex, read_codex
from kakite.cli.replay.json_values import Json
from kakite.cli.replay.opencode import DATABASES, find_sessions, iter_files, list_database, read_opencode
from kakite.cli.replay.pi import is_pi, read_pi
from kakite.cli.replay.recorded_edit import RecordedEdit
from kakite.errors import UsageError

_MAX_LINE = 64 * 1024 * 1024  # bytes; a longer line is passed over
_MAX_BEGINNING = 4096  # bytes of a text that are looked at for what it is
_MAX_HEAD = 20  # lines that may stand before one that tells whose transcript it is


Reader = Callable[[Iterable[Json]], Iterator[RecordedEdit]]


@dataclass(frozen=True, slots=True)
class TranscriptSource:
    """A program whose transcripts are read."""

    name: str
    folder: str = ""
    """Where it keeps them, below the home folder; empty: in each project."""
    variable: str = ""
    """The environment variable that names another folder instead of all but the last part of ``folder``."""

    def get_folder(self, environ: Mapping[str, str]) -> tuple[str, Path]:
        """Return where its transcripts are, as a person writes it, and the path."""
        *first, last = self.folder.split("/")
        if own := environ.get(self.variable):
            return f"${self.variable}/{last}", Path(own) / last
        return f"~/{self.folder}", Path(environ.get("HOME", "/"), *first, last)


CLAUDE_CODE = TranscriptSource("claude-code", ".claude/projects", "CLAUDE_CONFIG_DIR")
CODEX = TranscriptSource("codex", ".codex/sessions", "CODEX_HOME")
PI = TranscriptSource("pi", ".pi/agent/sessions", "PI_CODING_AGENT_DIR")
OPENCODE = TranscriptSource("opencode", ".local/share/opencode", "XDG_DATA_HOME")
AIDER = TranscriptSource("aider")

CLIENTS = (CLAUDE_CODE, CODEX, PI, OPENCODE)
"""The clients that keep their transcripts in one place."""

_LINES: tuple[tuple[TranscriptSource, Callable[[Json], bool], Reader], ...] = (
    (CLAUDE_CODE, is_claude_code, read_claude_code),
    (CODEX, is_codex, read_codex),
    (PI, is_pi, read_pi),
)
"""Whose transcripts are lines of JSON, how one is told, and what reads it."""


@dataclass(slots=True)
class LineCounts:
    """What was read of transcripts, and what was not."""

    lines: int = 0
    bad_lines: int = 0
    """Lines that are no JSON object, such as one that was cut off."""
    long_lines: int = 0
    unknown_files: int = 0
    """Files that are no transcript of a client that is known."""
    unreadable_files: int = 0


def find_logs(paths: Iterable[str]) -> list[Path]:
    """Return the files, and of folders all transcripts in them.

    Raises:
        UsageError: there is no such file or folder.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise UsageError(f"there is no file or folder `{path}`", hint="give transcripts or their folders")
        found += _find_in(path) if path.is_dir() else [path]
    return list(dict.fromkeys(found))


def _find_in(folder: Path) -> list[Path]:
    own = [*sorted(folder.glob(DATABASES)), *find_sessions(folder)]
    if own:  # beside which opencode keeps copies of whole projects
        return own
    names = ("*.jsonl", REQUESTS, CHAT)  # of aider's logs the one that tells more comes first
    return [path for name in names for path in sorted(folder.rglob(name))]


Log = tuple[TranscriptSource, Iterator[RecordedEdit]]
"""Whose transcript it is, and its edits, which are read as they are asked for."""


def read_logs(path: Path, counts: LineCounts) -> Iterator[Log]:
    """Yield the transcripts in a file or folder: one, those of many sessions, or none that is known."""
    try:
        yield from _read_logs(path, counts)
    except OSError:
        counts.unreadable_files += 1


def _read_logs(path: Path, counts: LineCounts) -> Iterator[Log]:
    if path.is_dir():
        yield OPENCODE, read_opencode(_count_parts(iter_files(path, _MAX_LINE), counts))
        return
    with path.open("rb") as file:
        head = file.read(_MAX_BEGINNING)
    if head.startswith(b"SQLite format 3\0"):
        for parts in list_database(path, _MAX_LINE):
            yield OPENCODE, read_opencode(_count_parts(parts, counts))
    elif any(is_chat(line) for line in _split(head)):
        yield AIDER, read_chat(_iter_texts(path, counts))
    elif is_request(head.decode("utf-8", "replace")):
        yield AIDER, read_requests(_iter_texts(path, counts))
    else:
        yield from _read_lines(path, counts)


def _split(head: bytes) -> list[str]:
    return head.decode("utf-8", "replace").split("\n")


def _count_parts(parts: Iterable[Json | None], counts: LineCounts) -> Iterator[Json]:
    try:
        for part in parts:
            counts.lines += 1
            if part is None:
                counts.bad_lines += 1
            else:
                yield part
    except OSError:
        counts.unreadable_files += 1


def _read_lines(path: Path, counts: LineCounts) -> Iterator[Log]:
    entries = _iter_entries(path, counts)
    head: list[Json] = []
    for entry in entries:
        head.append(entry)
        for client, matches, read in _LINES:
            if matches(entry):
                yield client, read(_chain(head, entries))
                return
        if len(head) >= _MAX_HEAD:
            break
    counts.unknown_files += 1


def _chain(head: Iterable[Json], rest: Iterable[Json]) -> Iterator[Json]:
    yield from head
    yield from rest


def _iter_entries(path: Path, counts: LineCounts) -> Iterator[Json]:
    for line in _iter_lines(path, counts):
        if (entry := _parse_line(line)) is not None:
            yield entry
        elif line.strip():
            counts.bad_lines += 1


def _iter_texts(path: Path, counts: LineCounts) -> Iterator[str]:
    for line in _iter_lines(path, counts):
        yield line.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


def _iter_lines(path: Path, counts: LineCounts) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(_MAX_LINE):
                counts.lines += 1
                if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                    counts.long_lines += 1
                    while (rest := file.readline(_MAX_LINE)) and not rest.endswith(b"\n"):
                        pass
                else:
                    yield line
    except OSError:
        counts.unreadable_files += 1


def _parse_line(line: bytes) -> Json | None:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("Json", value) if isinstance(value, dict) else None
