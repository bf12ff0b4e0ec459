"""Finds transcripts of coding agents, and reads them line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kakite.cli.replay.claude_code import is_claude_code, read_claude_code
from kakite.cli.replay.codex import is_codex, read_codex
from kakite.cli.replay.json_values import Json
from kakite.cli.replay.pi import is_pi, read_pi
from kakite.cli.replay.recorded_edit import RecordedEdit
from kakite.errors import UsageError

_MAX_LINE = 64 * 1024 * 1024  # bytes; a longer line is passed over
_MAX_HEAD = 20  # lines that may stand before one that tells whose transcript it is


@dataclass(frozen=True, slots=True)
class TranscriptSource:
    """A program whose transcripts are read."""

    name: str
    folder: str
    """Where it keeps them, below the home folder."""
    variable: str
    """The environment variable that names another folder instead of the first part of ``folder``."""
    matches: Callable[[Json], bool]
    read: Callable[[Iterable[Json]], Iterator[RecordedEdit]]

    def get_folder(self, environ: Mapping[str, str]) -> tuple[str, Path]:
        """Return where its transcripts are, as a person writes it, and the path."""
        *first, last = self.folder.split("/")
        if own := environ.get(self.variable):
            return f"${self.variable}/{last}", Path(own) / last
        return f"~/{self.folder}", Path(environ.get("HOME", "/"), *first, last)


CLIENTS = (
    TranscriptSource(
        "claude-code", ".claude/projects", "CLAUDE_CONFIG_DIR", is_claude_code, read_claude_code
    ),
    TranscriptSource("codex", ".codex/sessions", "CODEX_HOME", is_codex, read_codex),
    TranscriptSource("pi", ".pi/agent/sessions", "PI_CODING_AGENT_DIR", is_pi, read_pi),
)


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
        found += sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    return list(dict.fromkeys(found))


def read_log(path: Path, counts: LineCounts) -> tuple[TranscriptSource | None, Iterator[RecordedEdit]]:
    """Return whose transcript a file is, and its edits, which are read as they are asked for."""
    entries = _iter_entries(path, counts)
    head: list[Json] = []
    for entry in entries:
        head.append(entry)
        for client in CLIENTS:
            if client.matches(entry):
                return client, client.read(_chain(head, entries))
        if len(head) >= _MAX_HEAD:
            break
    counts.unknown_files += 1
    return None, iter(())


def _chain(head: Iterable[Json], rest: Iterable[Json]) -> Iterator[Json]:
    yield from head
    yield from rest


def _iter_entries(path: Path, counts: LineCounts) -> Iterator[Json]:
    try:
        with path.open("rb") as file:
            while line := file.readline(_MAX_LINE):
                counts.lines += 1
                if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                    counts.long_lines += 1
                    while (rest := file.readline(_MAX_LINE)) and not rest.endswith(b"\n"):
                        pass
                elif (entry := _parse_line(line)) is not None:
                    yield entry
                elif line.strip():
                    counts.bad_lines += 1
    except OSError:
        counts.unreadable_files += 1


def _parse_line(line: bytes) -> Json | None:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("Json", value) if isinstance(value, dict) else None
