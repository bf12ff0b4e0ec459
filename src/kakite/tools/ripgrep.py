"""ripgrep, where it is installed: it tells which of many files may have a hit, and we search those.

So an answer does not depend on it: which files are looked at, what their bytes mean and what a hit is are
decided here in any case. It is started for some files at a time, reads them and ends: nothing of it stays.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from kakite.processes import base_environment
from kakite.tools.needles import TWINS, WIDE, Needles
from kakite.workspace import READ_LIMIT

PROGRAM = "rg"
ARGUMENTS_MOST = 512 * 1024  # bytes; Linux takes 2 MiB with the usual limits
_PATIENCE = 10.0  # s for one lot of files
_SHORTEST = 2  # characters: what is shorter is in nearly every file

_FLAGS = (
    *("--no-config", "--color=never", "--files-with-matches", "--null", "--no-messages", "--text"),
    *(
        "--no-ignore",
        "--hidden",
        "--encoding=none",
        "--case-sensitive",
        "--no-mmap",
        f"--max-filesize={READ_LIMIT}",
    ),
)


def find_ripgrep(environ: Mapping[str, str], avoided: Sequence[str] = ()) -> str | None:
    """Return the program, if there is one; never one that lies in, or is named from, the avoided folders."""
    for folder in environ.get("PATH", "").split(os.pathsep):
        if not folder.startswith("/"):
            continue
        program = shutil.which(PROGRAM, path=folder)
        if program is not None and not _lies_in(program, avoided):
            return program
    return None


def _lies_in(program: str, folders: Sequence[str]) -> bool:
    names = (os.path.normpath(program), os.path.realpath(program))
    return any(f"{name}/".startswith(folder.rstrip("/") + "/") for name in names for folder in folders)


def is_worth(needles: Needles) -> bool:
    """Return whether it can sort files out by these: others may be written in too many ways."""
    return needles.is_ascii and needles.shortest >= _SHORTEST


class Sifting:
    """One lot of files that it looks through, while we do something else."""

    def __init__(self, program: str, folder: int, needles: Needles, paths: Sequence[str]) -> None:
        """Start it. The paths lie below the opened folder."""
        self._paths = paths
        self._program = (program, *_FLAGS)
        self._working: subprocess.Popen[bytes] | None = None
        argv = (*self._program, f"--regexp={_pattern(needles)}", "--", *(f"./{path}" for path in paths))
        with suppress(OSError, ValueError):
            self._working = subprocess.Popen(
                argv,
                cwd=f"/proc/self/fd/{folder}",
                env=base_environment(os.environ, "/"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> Sifting:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program, if it has not yet ended."""
        if self._working is not None:
            if self._working.poll() is None:
                self._working.kill()
            self._working.communicate()

    def candidates(self) -> frozenset[str]:
        """Return those of the files that may have a hit: all of them, where the program is of no use."""
        if self._working is None:
            return frozenset(self._paths)
        try:
            out = self._working.communicate(timeout=_PATIENCE)[0]
        except subprocess.TimeoutExpired:
            return frozenset(self._paths)
        code = self._working.returncode
        # 2 says that something went wrong: with files that are gone or closed to us, or with the call.
        if code in {0, 1} or (code == 2 and _takes_flags(self._program)):
            return frozenset(os.fsdecode(path).removeprefix("./") for path in out.split(b"\0") if path)
        return frozenset(self._paths)


@cache
def _takes_flags(program: tuple[str, ...]) -> bool:
    """Return whether this program knows our options and patterns."""
    argv = (*program, f"--regexp={_pattern(Needles(('needle',)))}", "--", os.devnull)
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, capture_output=True, timeout=_PATIENCE, check=False)
        return done.returncode == 1
    return False


def _pattern(needles: Needles) -> str:
    """Return what finds the needles, in each encoding that a file can be in."""
    written = _in_any_case if needles.ignore_case else _exact
    forms = (written(text, encoding) for text in needles.texts for encoding in ("ascii", *WIDE))
    return f"(?-u:{'|'.join(forms)})"


def _exact(text: str, encoding: str) -> str:
    return _hex(text.encode(encoding))


def _in_any_case(text: str, encoding: str) -> str:
    return "".join(_cases(letter, encoding) for letter in text)


def _cases(letter: str, encoding: str) -> str:
    if not letter.isalpha():
        return _exact(letter, encoding)
    twins = TWINS.get(letter.lower(), "")
    own = [_exact(form, encoding) for form in (letter.lower(), letter.upper())]
    if encoding == "ascii":  # the twins are written in up to four bytes, which begin so in all encodings
        return f"(?:{'|'.join([*own, *([_ANY_OTHER] if twins else [])])})"
    return f"(?:{'|'.join([*own, *(_exact(form, encoding) for form in twins)])})"


_ANY_OTHER = r"[\x80-\xff][^\n]{0,3}"


def _hex(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)
