"""Skips files that surely have no hit before a search reads them, by required literals and by ripgrep.

``Needles`` are texts of which every hit contains one; they are looked for in a file's bytes before decoding.
Where that cannot be decided, the answer is "perhaps": a file is skipped only if it surely has no hit.

ripgrep is used where it is installed, to find which of many files may have a hit. The results do not depend
on it: which files are looked at, how their bytes are decoded and what a hit is are decided here in any case.
It is started for some files at a time, reads them and ends.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from kakite.processes import UNTRUSTED_HOME, build_base_environment
from kakite.workspace import READ_LIMIT, get_inherited_path

MAX_NEEDLES = 50
_LONGEST = 200  # characters of a needle; what begins with it is found as well
WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
TWINS = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""Of ASCII letters the others that are equal to them where case is ignored."""


@dataclass(frozen=True, slots=True)
class Needles:
    """Texts of which every hit contains one; without any, nothing is known."""

    texts: tuple[str, ...] = ()
    ignore_case: bool = False
    _bytes: tuple[bytes, ...] = field(init=False)
    _wide: tuple[bytes, ...] = field(init=False)
    _cased: re.Pattern[bytes] | None = field(init=False)

    def __post_init__(self) -> None:
        """Write them in every encoding."""
        texts = [text.lower() for text in self.texts] if self.ignore_case else list(self.texts)
        put = object.__setattr__
        put(self, "_bytes", tuple(text.encode() for text in texts))
        put(self, "_wide", tuple(text.encode(encoding) for text in texts for encoding in WIDE))
        put(self, "_cased", _compile_any_case(texts) if texts and self.ignore_case else None)

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        return bool(self.texts)

    @property
    def shortest(self) -> int:
        """The length of the shortest needle; 0 without any."""
        return min(map(len, self.texts), default=0)

    @property
    def is_ascii(self) -> bool:
        """Return whether no other characters have to be looked for."""
        return all(map(str.isascii, self.texts))

    def can_match(self, data: bytes) -> bool:
        """Return whether a file with this content may have a hit."""
        if not self.texts:
            return True
        if self._cased is not None:
            return self._can_match_any_case(data, self._cased)
        if any(needle in data for needle in self._bytes):
            return True
        if b"\0" in data:  # text of two or four bytes a character, or binary, which is searched as bytes
            return any(needle in data for needle in self._wide)
        # Every encoding of bytes that we detect writes ASCII as ASCII, but for one more ``~`` of EUC-JP.
        return not (self.is_ascii or _is_utf8(data))

    def _can_match_any_case(self, data: bytes, cased: re.Pattern[bytes]) -> bool:
        if b"\0" in data:
            return True
        if data.isascii():
            lower = data.lower()
            return any(needle in lower for needle in self._bytes)
        return bool(cased.search(data)) or not _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _compile_any_case(texts: Sequence[str]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(b"".join(map(_compile_letter, text)) for text in texts))


def _compile_letter(letter: str) -> bytes:
    forms = {letter.lower(), letter.upper(), *TWINS.get(letter.lower(), "")}
    return b"(?:" + b"|".join(re.escape(form.encode()) for form in sorted(forms)) + b")"


def extract_needles(search: str, *, is_regex: bool, ignore_case: bool) -> Needles:
    """Return the needles of a search; line ends in it are line feeds."""
    options = _NeedleExtractor(search).read() if is_regex else (search,)
    pieces = [_find_longest_literal(option, ascii_only=ignore_case) for option in options]
    if not pieces or len(pieces) > MAX_NEEDLES or not all(pieces):
        return Needles()
    return Needles(tuple(dict.fromkeys(pieces)), ignore_case)


_BREAKS = re.compile(r"[\0\r\n~\ud800-\udfff]+")
_BREAKS_ASCII = re.compile(r"[\0\r\n~\x80-\U0010ffff]+")
"""What is not looked for: line ends, what no file or argument holds, and ``~``, which EUC-JP has twice."""


def _find_longest_literal(text: str, *, ascii_only: bool) -> str:
    """Return the longest part of a text that can be looked for as it is."""
    parts = (_BREAKS_ASCII if ascii_only else _BREAKS).split(text)
    return max(parts, key=len)[:_LONGEST]


class _UnsupportedSyntaxError(Exception):
    """Something in an expression that is not understood here."""


_QUANTIFIER = re.compile(r"(?:([*?+])|\{([0-9]+)(?:,[0-9]*)?\})[?+]?")
_GROUP = re.compile(r"\((?:\?(?::|>|P?<[A-Za-z_]\w*>|(<?[=!])))?(?![?*])")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\]\[\\])*\]", re.DOTALL)
_NOTHING_OF_ITS_OWN = frozenset("dDwWsSbBAZntrfv123456789")
"""After a backslash: classes, places, blanks, and what a group has found."""


class _NeedleExtractor:
    """Reads an expression, as far as it says which text every hit contains."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> tuple[str, ...]:
        """Return texts of which every hit contains one; none if that is not known."""
        try:
            options = self._read_alternatives()
        except (_UnsupportedSyntaxError, RecursionError):
            return ()
        return options if self._at == len(self._pattern) else ()

    def _read_alternatives(self) -> tuple[str, ...]:
        """Return those of what stands between bars, up to the end of the group."""
        found = [self._read_sequence()]
        while self._accept("|"):
            found.append(self._read_sequence())
        return tuple(text for texts in found for text in texts) if all(found) else ()

    def _read_sequence(self) -> tuple[str, ...]:
        """Return those of the part of a sequence that says most."""
        best: tuple[str, ...] = ()
        run = ""
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            literal, inner = self._read_atom()
            least, is_repeated = self._read_quantifier()
            if literal and not is_repeated:
                run += literal
                continue
            if literal and least:
                run, inner = "", (run + literal,)
            elif not least:
                inner = ()
            best = max(best, (run,) if run else (), inner, key=_rank)
            run = ""
        return max(best, (run,) if run else (), key=_rank)

    def _read_atom(self) -> tuple[str, tuple[str, ...]]:
        """Read one element; return its letter if it is one, and the texts of which one is in it."""
        sign = self._pattern[self._at]
        if sign == "(":
            return "", self._read_group()
        if sign == "[":
            self._skip(_CLASS)
            return "", ()
        self._at += 1
        if sign in ".^$":
            return "", ()
        if sign in "*+?{":
            raise _UnsupportedSyntaxError
        return (self._read_escape(), ()) if sign == "\\" else (sign, ())

    def _read_escape(self) -> str:
        sign = self._pattern[self._at : self._at + 1]
        self._at += 1
        if sign and sign in _NOTHING_OF_ITS_OWN:
            if sign.isdigit() and self._pattern[self._at : self._at + 1].isdigit():
                raise _UnsupportedSyntaxError
            return ""
        if not sign or sign.isalnum() or not sign.isascii():
            raise _UnsupportedSyntaxError
        return sign

    def _read_group(self) -> tuple[str, ...]:
        around = self._skip(_GROUP)[1]
        inner = self._read_alternatives()
        if not self._accept(")"):
            raise _UnsupportedSyntaxError
        return () if around else inner  # what is looked at before or behind need not be in the hit

    def _read_quantifier(self) -> tuple[int, bool]:
        """Return how often the element is there at least, and whether that is said."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            if self._pattern.startswith("{", self._at):
                raise _UnsupportedSyntaxError  # inexact matching, for one
            return 1, False
        self._at = found.end()
        if _QUANTIFIER.match(self._pattern, self._at):
            raise _UnsupportedSyntaxError
        return (int(found[1] == "+") if found[1] else min(int(found[2][:9]), 1)), True

    def _skip(self, what: re.Pattern[str]) -> re.Match[str]:
        found = what.match(self._pattern, self._at)
        if found is None:
            raise _UnsupportedSyntaxError
        self._at = found.end()
        return found

    def _accept(self, sign: str) -> bool:
        is_there = self._pattern.startswith(sign, self._at)
        self._at += is_there
        return is_there


def _rank(texts: tuple[str, ...]) -> tuple[int, int]:
    return (min(map(len, texts), default=0), -len(texts))


PROGRAM = "rg"
MAX_ARGUMENTS = 512 * 1024  # bytes; Linux takes 2 MiB with the usual limits
FIRST_ARGUMENTS = 64 * 1024
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
    """Return the program, if there is one; never one that lies in, or is named from, the avoided folders.

    Nor one in the home, where that is not the person's.
    """
    if environ.get(UNTRUSTED_HOME) and (home := environ.get("HOME")):
        avoided = (*avoided, home)
    for folder in environ.get("PATH", "").split(os.pathsep):
        if not folder.startswith("/"):
            continue
        program = shutil.which(PROGRAM, path=folder)
        if program is not None and not _is_within(program, avoided):
            return program
    return None


def _is_within(program: str, folders: Sequence[str]) -> bool:
    names = (os.path.normpath(program), os.path.realpath(program))
    return any(f"{name}/".startswith(folder.rstrip("/") + "/") for name in names for folder in folders)


def can_prefilter(needles: Needles) -> bool:
    """Return whether it can sort files out by these: others may be written in too many ways."""
    return needles.is_ascii and needles.shortest >= _SHORTEST


class RipgrepRun:
    """One lot of files that it looks through, while we do something else."""

    def __init__(self, program: str, folder: int, needles: Needles, paths: Sequence[str]) -> None:
        """Start it. The paths lie below the opened folder."""
        self._paths = paths
        self._program = (program, *_FLAGS)
        self._working: subprocess.Popen[bytes] | None = None
        argv = (*self._program, f"--regexp={_build_pattern(needles)}", "--", *(f"./{path}" for path in paths))
        with suppress(OSError, ValueError):
            self._working = subprocess.Popen(
                argv,
                cwd=get_inherited_path(folder),
                env=build_base_environment(os.environ, "/"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> RipgrepRun:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program, if it has not yet ended."""
        if self._working is not None:
            if self._working.poll() is None:
                self._working.kill()
            self._working.communicate()

    def collect_candidates(self) -> frozenset[str]:
        """Return those of the files that may have a hit: all of them, where the program is of no use."""
        if self._working is None:
            return frozenset(self._paths)
        try:
            out = self._working.communicate(timeout=_PATIENCE)[0]
        except subprocess.TimeoutExpired:
            return frozenset(self._paths)
        code = self._working.returncode
        # 2 says that something went wrong: with files that are gone or closed to us, or with the call.
        if code in {0, 1} or (code == 2 and _is_compatible(self._program)):
            return frozenset(os.fsdecode(path).removeprefix("./") for path in out.split(b"\0") if path)
        return frozenset(self._paths)


@cache
def _is_compatible(program: tuple[str, ...]) -> bool:
    """Return whether this program knows our options and patterns."""
    argv = (*program, f"--regexp={_build_pattern(Needles(('needle',)))}", "--", os.devnull)
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, capture_output=True, timeout=_PATIENCE, check=False)
        return done.returncode == 1
    return False


def _build_pattern(needles: Needles) -> str:
    """Return what finds the needles, in each encoding that a file can be in."""
    written = _encode_any_case if needles.ignore_case else _encode_exact
    forms = (written(text, encoding) for text in needles.texts for encoding in ("ascii", *WIDE))
    return f"(?-u:{'|'.join(forms)})"


def _encode_exact(text: str, encoding: str) -> str:
    return _hex(text.encode(encoding))


def _encode_any_case(text: str, encoding: str) -> str:
    return "".join(_encode_letter(letter, encoding) for letter in text)


def _encode_letter(letter: str, encoding: str) -> str:
    if not letter.isalpha():
        return _encode_exact(letter, encoding)
    twins = TWINS.get(letter.lower(), "")
    own = [_encode_exact(form, encoding) for form in (letter.lower(), letter.upper())]
    if encoding == "ascii":  # the twins are written in up to four bytes, which begin so in all encodings
        return f"(?:{'|'.join([*own, *([_ANY_OTHER] if twins else [])])})"
    return f"(?:{'|'.join([*own, *(_encode_exact(form, encoding) for form in twins)])})"


_ANY_OTHER = r"[\x80-\xff][^\n]{0,3}"


def _hex(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)
