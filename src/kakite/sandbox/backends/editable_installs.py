"""Finds the folders of a checkout that editable installs of the Python on ``PATH`` import from.

``pip install -e`` writes the path of the checkout into an interpreter's ``site-packages``. Programs that work
in another copy of the project would import the checkout all the same.
"""

from __future__ import annotations

import ast
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SITES = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
_FINDERS = ("__editable__*_finder.py", "_editable_impl_*.py")
"""What setuptools and the library ``editables`` write where a path would show too much."""
_MAX_SIZE = 1 << 20  # bytes of such a file


def find_import_roots(checkout: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders, relative to the checkout, that editable installs put on ``sys.path``. Blocks.

    Only of the interpreters on ``PATH``. Without any such install there is none.
    """
    top = checkout.resolve()
    roots = [
        root.relative_to(top).as_posix()
        for site in _iter_sites(environ)
        for root in _iter_roots(site)
        if root.is_relative_to(top)
    ]
    return tuple(dict.fromkeys(roots))


def _iter_sites(environ: Mapping[str, str]) -> Iterator[Path]:
    prefixes = [Path(entry).parent for entry in environ.get("PATH", "").split(os.pathsep) if entry]
    for prefix in dict.fromkeys(prefixes):
        for pattern in _SITES:
            with suppress(OSError):
                yield from sorted(prefix.glob(pattern))


def _iter_roots(site: Path) -> Iterator[Path]:
    for file in sorted(site.glob("*.pth")):
        for line in _read(file).splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield _resolve(site / line.strip())
    for pattern in _FINDERS:
        for file in sorted(site.glob(pattern)):
            for name, place in _iter_mapped_modules(_read(file)):
                yield from _find_root(name, place)


def _iter_mapped_modules(source: str) -> Iterator[tuple[str, str]]:
    """Yield the modules that a finder maps, and where each lies: the literals of its source."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict() as mapping)
                | ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict() as mapping)
            ):
                yield from _iter_texts(zip(mapping.keys, mapping.values, strict=True))
            case ast.Call(func=ast.Attribute(attr="map_module"), args=[name, place]):
                yield from _iter_texts([(name, place)])
            case _:
                pass


def _iter_texts(pairs: Iterable[tuple[ast.expr | None, ast.expr]]) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        match pair:
            case (ast.Constant(value=str(name)), ast.Constant(value=str(place))):
                yield name, place
            case _:
                pass


def _find_root(name: str, place: str) -> Iterator[Path]:
    """Yield the folder in which the module has this name; none where the mapping renames it."""
    path = _resolve(Path(place))
    path = path.parent if path.name == "__init__.py" else path.with_name(path.name.removesuffix(".py"))
    words = name.split(".")
    if list(path.parts[-len(words) :]) == words:
        yield path.parents[len(words) - 1]


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path


def _read(file: Path) -> str:
    with suppress(OSError, ValueError):
        if file.stat().st_size <= _MAX_SIZE:
            return file.read_text(encoding="utf-8")
    return ""
