"""Real files of many types, for the groups that draw from all of them.

They are what this machine has: the standard library, what pip installed (Python, Rust, Go, C, CSS,
JavaScript, HTML, …), npm's own files, headers, documentation and completions below `/usr`. More are read from
folders that are named (`--files`), for example a clone in Ruby or Java. Which of them are taken follows
from their names alone.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from corpus import Source

ENDINGS = {
    "python": "py",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts tsx",
    "vue": "vue",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "c++": "cpp hpp cc",
    "ruby": "rb",
    "php": "php",
    "kotlin": "kt",
    "yaml": "yaml yml",
    "toml": "toml",
    "json": "json",
    "html": "html",
    "xml": "xml",
    "css": "css scss",
    "markdown": "md",
    "rst": "rst",
    "shell": "sh bash",
    "make": "mk",
    "cmake": "cmake",
    "proto": "proto",
    "perl": "pl pm",
    "sql": "sql",
    "lua": "lua",
}
TYPES = {ending: name for name, endings in ENDINGS.items() for ending in endings.split()}
"""Ending of a name to type."""
CODE = (
    "python",
    "javascript",
    "typescript",
    "go",
    "rust",
    "java",
    "c",
    "c++",
    "ruby",
    "shell",
    "php",
    "perl",
)
_SLASHES, _HASH = ("//", ""), ("#", "")
COMMENTS = {
    **dict.fromkeys(
        ("javascript", "typescript", "go", "rust", "java", "c", "c++", "php", "kotlin"), _SLASHES
    ),
    **dict.fromkeys(("python", "ruby", "shell", "perl", "yaml", "toml", "make", "cmake"), _HASH),
    **dict.fromkeys(("html", "xml", "markdown"), ("<!--", " -->")),
    "css": ("/*", " */"),
    "sql": ("--", ""),
    "lua": ("--", ""),
    "proto": ("//", ""),
}
"""How a comment begins and ends."""
PER_TYPE = 60
SMALLEST, LARGEST, LONGEST_LINE = 400, 40_000, 300
_LEFT_OUT = {"__pycache__", "node_modules/.cache", ".git", "locale", "zoneinfo", "fonts", "icons", "man"}


def roots() -> list[Path]:
    """Return the folders that are looked through on every machine."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    usr = [
        Path("/usr/include"),
        *(Path("/usr/share") / name for name in ("doc", "perl", "git-core", "cmake")),
    ]
    return [library, packages, *usr, Path("/usr/share/bash-completion")]


class Files(list[Source]):
    """Files, by type as well."""

    def __init__(self, types: dict[str, list[Source]]) -> None:
        super().__init__(source for sources in types.values() for source in sources)
        self.types = types
        self.names = sorted(types)

    def pick(self, rng: Random, *types: str) -> Source:
        """Draw a file; each type (of those named, if they are here) is as likely as each other."""
        names = [name for name in types if name in self.types] or self.names
        return rng.choice(self.types[rng.choice(names)])


@cache
def load(folders: tuple[Path, ...] = ()) -> Files:
    """Return files by type, those of ``folders`` first."""
    found: dict[str, list[Path]] = {}
    for folder in (*folders, *roots()):
        for path in _files(str(folder)):
            kind = type_of(path)
            if kind:
                found.setdefault(kind, []).append(Path(path))
    here = tuple(str(folder) for folder in folders)
    chosen: dict[str, list[Source]] = {}
    for kind, paths in sorted(found.items()):
        first = [path for path in paths if str(path).startswith(here)] if here else []
        others = sorted({*paths} - {*first}, key=_order)
        sources = list(_read([*sorted(first, key=_order), *others], kind))
        if len(sources) >= 3:
            chosen[kind] = sources
    return Files(chosen)


def type_of(path: str) -> str:
    """Return the type of a file by its name, empty if none of ours."""
    name = Path(path).name
    if name in {"Makefile", "GNUmakefile"} or name.startswith("Makefile."):
        return "make"
    if "/bash-completion/completions/" in path:
        return "shell"
    return TYPES.get(name.rpartition(".")[2], "") if "." in name else ""


def _files(folder: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            continue
        if entry.is_dir():
            if entry.name not in _LEFT_OUT:
                yield from _files(entry.path)
        elif "." in entry.name or entry.name == "Makefile" or "bash-completion" in folder:
            yield entry.path


def _order(path: Path) -> tuple[str, str]:
    """Order files by the end of their names, the same on most machines; the whole path settles ties."""
    return hashlib.sha256("/".join(path.parts[-3:]).encode()).hexdigest(), str(path)


def _read(paths: list[Path], kind: str) -> Iterator[Source]:
    count = 0
    per_folder: dict[str, int] = {}
    for path in paths:
        folder = "/".join(path.parts[-4:-1])
        if per_folder.get(folder, 0) >= 6:
            continue
        source = _source(path, kind)
        if source is not None:
            per_folder[folder] = per_folder.get(folder, 0) + 1
            yield source
            count += 1
            if count == PER_TYPE:
                return


def _source(path: Path, kind: str) -> Source | None:
    try:
        if not SMALLEST <= path.stat().st_size <= LARGEST:
            return None
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    lines = tuple(text.removesuffix("\n").split("\n"))
    strange = any(char in text for char in "\r\f\v\0\x1c\x1d\x1e\x85\u2028\u2029\ufeff")
    if strange or len(lines) < 20 or max(map(len, lines)) > LONGEST_LINE:
        return None
    return Source(path.name, kind, lines)
