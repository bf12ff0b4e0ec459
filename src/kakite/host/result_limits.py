"""Shortens results that are too long for a model: their head and tail stay, a private file has the whole."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from kakite.tools.toolset import ToolResult

MAX_RESULT_BYTES = 50 * 1024  # of UTF-8
MAX_RESULT_LINES = 2_000
RETENTION_SECONDS = 7 * 24 * 3600.0  # s after which a session's results are removed
MAX_FOLDER_BYTES = 256 * 1024 * 1024  # bytes of all files of a session together
_TAIL = 4  # one part in so many of what is shown is the end
_NOTE = 1024  # bytes kept free for what is said of the rest

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


def truncate_result(result: ToolResult, folder: Path) -> ToolResult:
    """Return the result with at most 50 KB and 2 000 lines of text.

    Of a longer one the head and the tail are kept, and the whole lies in a new file (mode 0600) of the
    folder, which is made (mode 0700) if it is missing and left alone if it is a link or somebody else's.
    Never raises: without a file, the text says that the rest is lost.
    """
    data = result.text.encode(errors="backslashreplace")
    lines = data.count(b"\n") + 1
    if len(data) <= MAX_RESULT_BYTES and lines <= MAX_RESULT_LINES:
        return result
    head, tail = _split_head_tail(data, MAX_RESULT_BYTES - _NOTE - len(os.fsencode(folder)))
    note = f"{len(data) - len(head) - len(tail):,} of {len(data):,} bytes"
    note = f"[… {note} ({lines:,} lines) are cut here; {_save_and_describe(data, folder)} …]"
    text = "\n".join([_decode(head).rstrip("\n"), note, _decode(tail).lstrip("\n")])
    return replace(result, text=text)


def remove_old_results(folder: Path) -> None:
    """Remove the results of sessions that ended long ago."""
    with suppress(OSError):
        for session in folder.iterdir():
            if time.time() - session.stat(follow_symlinks=False).st_mtime > RETENTION_SECONDS:
                shutil.rmtree(session, ignore_errors=True)


def _split_head_tail(data: bytes, room: int) -> tuple[bytes, bytes]:
    """Return as much of the beginning and of the end as is shown, whole lines where they are not too long."""
    lines = MAX_RESULT_LINES - 2
    tail = _take_last_lines(data, room // _TAIL, lines // _TAIL)
    rest = data[: len(data) - len(tail)]
    return _take_first_lines(rest, room - room // _TAIL, lines - lines // _TAIL), tail


def _take_first_lines(data: bytes, room: int, lines: int) -> bytes:
    head = data[:room]
    end = _find_nth_line_end(head, lines)
    if end is not None:
        return head[:end]
    cut = head.rfind(b"\n") + 1 if len(data) > room else len(head)
    return head[:cut] if cut > room // 2 else _drop_partial_character(head)


def _take_last_lines(data: bytes, room: int, lines: int) -> bytes:
    tail = data[-room:] if len(data) > room else data
    starts = tail.split(b"\n")
    if len(starts) > lines:
        return b"\n".join(starts[-lines:])
    cut = tail.find(b"\n") + 1 if len(data) > room else 0
    return tail[cut:] if 0 < cut < room // 2 else tail.lstrip(_CONTINUATION_BYTES)


def _find_nth_line_end(data: bytes, count: int) -> int | None:
    """Return the offset after the so-manieth line end."""
    at = -1
    for _ in range(count):
        at = data.find(b"\n", at + 1)
        if at < 0:
            return None
    return at + 1


_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def _drop_partial_character(data: bytes) -> bytes:
    return data.decode(errors="ignore").encode()


def _decode(data: bytes) -> str:
    return data.decode(errors="ignore")


def _save_and_describe(data: bytes, folder: Path) -> str:
    try:
        file = _save(data, folder)
    except OSError as error:
        log.warning("a long result could not be kept in %s: %s", folder, error)
        return f"the rest is lost, since no file could be written ({error.strerror or 'no reason given'})"
    return f"the whole is in {file}: read parts of it with a tool that reads files, or ask for less"


def _save(data: bytes, folder: Path) -> Path:
    name = f"result-{secrets.token_hex(6)}.txt"
    with _open_folder(folder) as place:
        if _measure_folder(place) + len(data) > MAX_FOLDER_BYTES:
            raise OSError(0, f"{MAX_FOLDER_BYTES >> 20} MiB are kept of this session already")
        written = os.open(name, _NEW, 0o600, dir_fd=place)
        try:
            with os.fdopen(written, "wb") as file:
                file.write(data)
        except OSError:
            os.unlink(name, dir_fd=place)
            raise
    return folder / name


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = os.open(folder, _FOLDER)
    try:
        status = os.fstat(place)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
            raise PermissionError(1, "its folder is somebody else's, or others may write there")
        yield place
    finally:
        os.close(place)


def _measure_folder(place: int) -> int:
    with os.scandir(place) as found:
        return sum(each.stat(follow_symlinks=False).st_size for each in found)
