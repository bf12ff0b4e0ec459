"""What is promised of the code's shape: names, sizes, and what importing loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {
    file: folder for folder in (ROOT / "src", ROOT / "testing/src") for file in sorted(folder.rglob("*.py"))
}
MODULES = [file for file in SOURCES if "demo/project" not in file.as_posix()]
NAMED = {
    ".".join(file.relative_to(SOURCES[file]).with_suffix("").parts).removesuffix(".__init__"): file
    for file in MODULES
}

BANNED = re.compile(r"(Utils?|Helpers?|Misc)$")


def test_no_class_has_a_name_that_says_nothing() -> None:
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert not BANNED.search(node.name), f"{file.name}: {node.name}"


def test_functions_stay_small() -> None:
    lengths = {
        f"{file.name}: {node.name}": node.end_lineno - node.lineno + 1
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert [name for name, length in lengths.items() if length > 60] == []
    assert sum(length > 50 for length in lengths.values()) <= 4
    assert sum(length > 40 for length in lengths.values()) / len(lengths) < 0.0035


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports = {name: _imported(name, file) for name, file in NAMED.items()}
    assert sum(map(len, imports.values())) > 1000
    told = [
        f"  {importer} imports {imported}, line {line}"
        for circle in _circles(imports)
        for importer in circle
        for imported, line in sorted(imports[importer].items())
        if imported in circle
    ]
    assert not told, "modules import each other in circles:\n" + "\n".join(told)


def test_the_check_for_circles_finds_them_whatever_else_imports_what() -> None:
    imports = {
        "a": {"b": 1, "x": 2},
        "b": {"c": 1},
        "c": {"a": 1, "d": 1},
        "d": {"e": 1},
        "e": {"d": 1, "f": 1},
        "f": {},
        "x": {"f": 1},
    }
    assert _circles(imports) == [["a", "b", "c"], ["d", "e"]]


def _imported(importer: str, file: Path) -> dict[str, int]:
    """Return the modules of ours that a module imports anywhere, also for types alone, and the first line."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: imports are to be absolute"
            module = node.module or ""
            whole = (f"{module}.{alias.name}" for alias in node.names)
            names = [name if name in NAMED else module for name in whole]
        else:
            continue
        for name in names:
            if name in NAMED and name != importer:
                found[name] = min(node.lineno, found.get(name, node.lineno))
    return found


def _circles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one module, each sorted."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        seen, waiting = set[str](), [start]
        while waiting:
            new = set(imports[waiting.pop()]) - seen
            seen |= new
            waiting.extend(new)
        reached[start] = seen
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in imports
        if name in reached[name]
    }
    return [list(circle) for circle in sorted(found)]


@pytest.mark.parametrize(
    "module",
    ["kakite", "kakite.edit", "kakite.cli.app"],
)
def test_importing_kakite_loads_nothing_else(module: str) -> None:
    heavy = [
        "pydantic",
        "pydantic_ai",
        "mcp",
        "rich",
        "yaml",
        "rapidfuzz",
        "charset_normalizer",
        "openai",
        "anthropic",
    ]
    code = f"import sys, {module}; print(' '.join(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8", timeout=60
    )
    assert done.stdout.split() == []


def test_nothing_in_the_repository_names_a_machines_folders_or_a_package_index() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, encoding="utf-8")
    machine = re.compile(
        r"/(root|work|home/\w+)/(?!\.)[\w-]+/|pypi\.org/simple|files\.pythonhosted|registry\.npmjs"
    )
    for name in listed.stdout.splitlines():
        file = ROOT / name
        if (
            file.suffix in {".md", ".py", ".toml", ".yaml", ".lock", ""}
            and file.is_file()
            and name != "tests/test_architecture.py"
        ):
            assert not machine.search(file.read_text(encoding="utf-8", errors="replace")), name


def test_every_text_file_is_read_and_written_in_an_encoding_that_is_named() -> None:
    """Ruff sees that of `open`, and of a path only where it knows that it is one."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, check=True, encoding="utf-8"
    )
    found = [
        f"{name}:{node.lineno}"
        for name in listed.stdout.splitlines()
        if (ROOT / name).is_file()
        and re.search(r"\.(?:read|write)_text\(", text := (ROOT / name).read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"read_text", "write_text"}
        and "encoding" not in {each.arg for each in node.keywords}
        and len(node.args) < (1 if node.func.attr == "read_text" else 2)
    ]
    assert found == []
