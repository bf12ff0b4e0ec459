"""Keeps what servers write to stderr, in files of bounded size."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

FILE_LIMIT = 1024 * 1024
"""Bytes of one file; the one before it is kept too."""

_MAX_LINE_BYTES = 64 * 1024  # bytes that are kept back until their line ends
_EDGE = 8 * 1024  # bytes of a longer line that may be the first half of a secret, and are left out
_CUT = b" [the rest of a long line is left out]\n"

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def get_log_file(state: Path, name: str) -> Path:
    """Return where the server of that name writes; the older half lies beside it, with ``.1`` behind it."""
    if _SAFE_NAME.fullmatch(name):
        return state / "logs" / f"{name}.log"
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
    return state / "logs" / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:40]}-{digest}.log"


class StderrLog:
    """Appends to a server's file, and begins a new one when it is full. Never raises: it is only a log.

    Whole lines are written, so that ``hide`` finds what was sent in two parts; of a line of more than 64 KiB
    the beginning.
    """

    def __init__(
        self, file: Path, *, limit: int = FILE_LIMIT, hide: Callable[[str], str] = lambda text: text
    ) -> None:
        self._file = file
        self._limit = limit
        self._hide = hide
        self._rest: bytes = b""
        self._skips = False
        """Whether the rest of the line that comes is left out."""
        self._descriptor = -1
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append the bytes; those of a line that has not ended yet wait for its end."""
        if self._skips:
            _, end, data = data.partition(b"\n")
            self._skips = not end
        data = self._rest + data
        whole = data.rfind(b"\n") + 1
        self._write_redacted(data[:whole])
        self._rest = data[whole:]
        if len(self._rest) > _MAX_LINE_BYTES:
            self._write_redacted(self._rest, cut=True)
            self._rest, self._skips = b"", True

    def close(self) -> None:
        """Write what waits and close the file; the next write opens it again."""
        rest, self._rest, self._skips = self._rest, b"", False
        self._write_redacted(rest)
        self._close_file()

    def _write_redacted(self, data: bytes, *, cut: bool = False) -> None:
        data = self._hide(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        if cut:
            data = data[:-_EDGE] + _CUT
        try:
            for begin in range(0, len(data), self._limit):
                self._append(data[begin : begin + self._limit])
        except OSError:
            self._close_file()

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _append(self, data: bytes) -> None:
        if self._descriptor < 0:
            self._open()
        if self._size + len(data) > self._limit:
            self._close_file()
            self._file.replace(self._file.with_name(f"{self._file.name}.1"))
            self._open()
        self._size += os.write(self._descriptor, data)

    def _open(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._file, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
