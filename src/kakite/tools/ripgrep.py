"""ripgrep, where it is installed: it tells which of many files may have a hit, and we search those.

So an answer does not depend on it: which files are looked at, what their bytes mean and what a hit is are
decided here in any case. It is started for some files at a time, reads them and ends: nothing of it stays.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from kakite.processes import base_environment
from kakite.tools.needles import TWINS, Needles
from kakite.workspace import READ_LIMIT

PROGRAM = "rg"
ARGUMENTS_MOST = 512 * 1024  # bytes; Linux takes 2 MiB with the usual limits
_PATIENCE = 10.0  # s for one lot of files
_SHORTEST = 2  # characters: what is shorter is in nearly every file
_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")

_FLAGS = (
    *("--no-config", "--color=never", "--files-with-matches", "--null", "--no-messages", "--text"),
    *("--no-ignore", "--hidden", "--encoding=none", "--case-sensitive", f"--max-filesize={READ_LIMIT}"),
)

_REST = r"[\x80-\xBF]"
_END = r"(?:[^\x80-\xBF]|$)"
_PERHAPS = "|".join(
    (
        r"\x00",
        r"[\xC0\xC1\xF5-\xFF]",
        rf"[\xC2-\xDF]{_END}",
        rf"[\xE0-\xEF]{_REST}?{_END}",
        rf"[\xF0-\xF4]{_REST}{{0,2}}{_END}",
        r"\xE0[\x80-\x9F]|\xED[\xA0-\xBF]|\xF0[\x80-\x8F]|\xF4[\x90-\xBF]",
        rf"(?:^|[\x00-\x7F]){_REST}",
        rf"[\xC2-\xDF]{_REST}{{2}}|[\xE0-\xEF]{_REST}{{3}}|[\xF0-\xF4]{_REST}{{4}}",
    )
)
"""What no UTF-8 has, or no text in it: a file with that may hold the needles in another form."""


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
    """Return whether it can sort files out by these."""
    return needles.shortest >= _SHORTEST


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
    forms = (
        _any_case(text) if needles.ignore_case else _META.sub(r"\\\g<0>", text) for text in needles.texts
    )
    return "|".join((*forms, f"(?-u:{_PERHAPS})"))


def _any_case(text: str) -> str:
    return "".join(_cases(letter) for letter in text)


def _cases(letter: str) -> str:
    if not letter.isalpha():
        return _META.sub(r"\\\g<0>", letter)
    return f"[{letter.lower()}{letter.upper()}{TWINS.get(letter.lower(), '')}]"
