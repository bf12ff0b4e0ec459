"""Finds the files that the person's commands after an edit must read where Landlock confines the server.

A program that the person configured is often installed in their home: pipx, cargo and npm do so. The program
and what it needs to run become readable, and nothing else of the home.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAX_INTERPRETERS = 4
_FIRST_LINE = 512  # bytes; the kernel reads 256
_PROGRAMS = ("bin", "sbin", "libexec")
_BESIDE_THEM = ("lib", "lib64", "libexec")
_VENV_ABOVE = 3
_HOME_OF_TOOLCHAINS = {".cargo": ".rustup"}
"""Programs below the one start those below the other: ``~/.cargo/bin/rustfmt`` is a link to ``rustup``."""


_OF_MANY = ("/tmp", "/var/tmp", tempfile.gettempdir())  # noqa: S108 - never opened, nothing is put there


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAccess:
    """The access that a command needs."""

    command: tuple[str, ...]
    files: tuple[str, ...]
    """The program, and the interpreters that it is run by; empty where there is no such program."""
    readable: tuple[str, ...]
    """What has to be read besides the files, and what the person named: folders mostly."""


def find_command_access(
    command: Sequence[str], environ: Mapping[str, str], writable: Collection[str] = ()
) -> CommandAccess:
    """Return what a command needs, its program being looked for as when it is started.

    Nothing is followed from a program that lies in the ``writable`` folders: what a model can write there
    must not say what else is to be read.
    """
    path = environ.get("PATH", os.defpath)
    closed = _ClosedFolders.of(environ, writable)
    found = shutil.which(command[0], path=path)
    chain = tuple(_follow_shebangs(found, path, closed)) if found else ()
    named = [file for word in command[1:] for file in _find_named_files(word)]
    readable = dict.fromkeys(place for file in chain for place in _find_dependencies(file, closed))
    return CommandAccess(command=tuple(command), files=chain, readable=(*readable, *named))


@dataclass(frozen=True, slots=True)
class _ClosedFolders:
    """Folders that are never opened, nor those above them."""

    folders: tuple[str, ...]
    writable: tuple[str, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str], writable: Collection[str]) -> _ClosedFolders:
        own = [environ.get("HOME", ""), str(Path.home()), *_OF_MANY]
        roots = tuple(os.path.realpath(each) for each in writable)
        return cls(tuple(os.path.realpath(each) for each in own if each) + roots, roots)

    def can_open(self, folder: str) -> bool:
        return Path(folder).is_dir() and not any(_is_below(each, folder) for each in self.folders)

    def is_writable(self, file: str) -> bool:
        return any(_is_below(file, each) for each in self.writable)


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def _follow_shebangs(program: str, path: str, closed: _ClosedFolders) -> Iterator[str]:
    """Yield a program, what its first line names, what the first line of that names."""
    found: str | None = str(Path.cwd() / program)
    for _ in range(_MAX_INTERPRETERS):
        if found is None:
            return
        yield found
        if closed.is_writable(found) or closed.is_writable(os.path.realpath(found)):
            return
        found = _read_shebang(found, path)


def _read_shebang(file: str, path: str) -> str | None:
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


def _find_dependencies(file: str, closed: _ClosedFolders) -> Iterator[str]:
    """Yield what a program is run with: itself, its folder, libraries beside it, the venv it lives in."""
    if closed.is_writable(file):
        return
    for name in dict.fromkeys((file, os.path.realpath(file))):
        yield name
        yield from (place for place in _list_adjacent_folders(Path(name)) if closed.can_open(place))


def _list_adjacent_folders(file: Path) -> Iterable[str]:
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


def _find_named_files(word: str) -> list[str]:
    """Return the file that the person named by its whole path, such as a script or settings."""
    return [
        each
        for each in re.split(r"=(?=/)", word, maxsplit=1)
        if each.startswith("/") and Path(each).is_file()
    ]
