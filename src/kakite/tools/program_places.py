"""What the person's commands after an edit need to read, where the kernel confines the server.

A program that the person named lies in their home as often as in the system: pipx, cargo and npm install
there. It may be read with what it runs by, and nothing else of the home becomes readable.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_INTERPRETERS = 4
_FIRST_LINE = 512  # bytes; the kernel reads 256
_PROGRAMS = ("bin", "sbin", "libexec")
_BESIDE_THEM = ("lib", "lib64", "libexec")
_VENV_ABOVE = 3
_HOME_OF_TOOLCHAINS = {".cargo": ".rustup"}
"""Programs below the one start those below the other: ``~/.cargo/bin/rustfmt`` is a link to ``rustup``."""


_OF_MANY = ("/tmp", "/var/tmp", tempfile.gettempdir())  # noqa: S108 - never opened, nothing is put there


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlaces:
    """What a command needs."""

    command: tuple[str, ...]
    files: tuple[str, ...]
    """The program, and the interpreters that it is run by; empty where there is no such program."""
    readable: tuple[str, ...]
    """What has to be read besides the files, and what the person named: folders mostly."""


def places_of(
    command: Sequence[str], environ: Mapping[str, str], writable: Collection[str] = ()
) -> ProgramPlaces:
    """Return what a command needs, its program being looked for as when it is started.

    Nothing is followed from a program that lies in the ``writable`` folders: what a model can write there
    must not say what else is to be read.
    """
    path = environ.get("PATH", os.defpath)
    closed = _Closed.of(environ, writable)
    found = shutil.which(command[0], path=path)
    chain = tuple(_interpreted(found, path, closed)) if found else ()
    named = [file for word in command[1:] for file in _named_files(word)]
    readable = dict.fromkeys(place for file in chain for place in _around(file, closed))
    return ProgramPlaces(command=tuple(command), files=chain, readable=(*readable, *named))


@dataclass(frozen=True, slots=True)
class _Closed:
    """Folders that are never opened, nor those above them."""

    folders: tuple[str, ...]
    writable: tuple[str, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str], writable: Collection[str]) -> _Closed:
        own = [environ.get("HOME", ""), str(Path.home()), *_OF_MANY]
        roots = tuple(os.path.realpath(each) for each in writable)
        return cls(tuple(os.path.realpath(each) for each in own if each) + roots, roots)

    def may_open(self, folder: str) -> bool:
        return Path(folder).is_dir() and not any(_is_below(each, folder) for each in self.folders)

    def writes(self, file: str) -> bool:
        return any(_is_below(file, each) for each in self.writable)


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def _interpreted(program: str, path: str, closed: _Closed) -> Iterator[str]:
    """Yield a program, what its first line names, what the first line of that names."""
    found: str | None = str(Path.cwd() / program)
    for _ in range(_MOST_INTERPRETERS):
        if found is None:
            return
        yield found
        if closed.writes(found) or closed.writes(os.path.realpath(found)):
            return
        found = _interpreter(found, path)


def _interpreter(file: str, path: str) -> str | None:
    """Return what the first line of a script names, by ``env`` too."""
    try:
        with Path(file).open("rb") as script:
            first = script.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return None
    words = os.fsdecode(first.removeprefix(b"#!")).split() if first.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return shutil.which(words[0], path=path) if words else None


def _around(file: str, closed: _Closed) -> Iterator[str]:
    """Yield what a program is run with: itself, its folder, libraries beside it, the venv it lives in."""
    if closed.writes(file):
        return
    for name in dict.fromkeys((file, os.path.realpath(file))):
        yield name
        yield from (place for place in _beside(Path(name)) if closed.may_open(place))


def _beside(file: Path) -> Iterable[str]:
    folder = file.parent
    above = list(file.parents)
    places = [folder]
    if folder.name in _PROGRAMS and folder.parent != Path.home():
        places += [folder.parent / name for name in _BESIDE_THEM]
    places += [each for each in above[:_VENV_ABOVE] if (each / "pyvenv.cfg").is_file()]
    places += [each for each in above if each.name == "node_modules"][-1:]
    places += [
        each.parent / _HOME_OF_TOOLCHAINS[each.name] for each in above if each.name in _HOME_OF_TOOLCHAINS
    ]
    return map(str, places)


def _named_files(word: str) -> list[str]:
    """Return the file that the person named by its whole path, such as a script or settings."""
    return [
        each
        for each in re.split(r"=(?=/)", word, maxsplit=1)
        if each.startswith("/") and Path(each).is_file()
    ]
