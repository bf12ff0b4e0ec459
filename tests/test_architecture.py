"""What the documents promise of the code's shape."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "kakite").rglob("*.py"))
MODULES = [file for file in SOURCES if "demo/project" not in file.as_posix()]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

BANNED = re.compile(
    r"(Manager|Helper|Utils?|Handler|Service|Processor|Wrapper|Engine|Impl|Base[A-Z]\w*|Abstract\w*)$"
)


def test_every_invariant_names_a_test_that_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ARCHITECTURE)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_every_folder_and_file_that_the_code_map_names_exists() -> None:
    for folder, text in re.findall(r"^\| `(\w+)/` \| (.*) \|$", ARCHITECTURE, re.MULTILINE):
        place = ROOT / "src" / "kakite" / folder
        assert place.is_dir()
        for name in re.findall(r"`([a-z_]+/?)`", text):
            assert (place / name).is_dir() or (place / f"{name}.py").is_file(), f"{folder}/{name}"


def test_every_part_is_in_the_code_map() -> None:
    parts = {place.name for place in (ROOT / "src" / "kakite").iterdir() if (place / "__init__.py").is_file()}
    assert parts == set(re.findall(r"^\| `(\w+)/` \|", ARCHITECTURE, re.MULTILINE))


def test_no_class_has_a_name_that_says_nothing() -> None:
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert not BANNED.search(node.name), f"{file.name}: {node.name}"


def test_files_stay_under_500_lines_unless_the_architecture_says_why() -> None:
    excused = set(re.findall(r"^\| `([\w/.]+\.py)` \| \d+ \|", ARCHITECTURE, re.MULTILINE))
    large = {
        file.relative_to(ROOT / "src" / "kakite").as_posix()
        for file in MODULES
        if len(file.read_text(encoding="utf-8").splitlines()) > 500
    }
    assert large == excused


def test_functions_stay_small() -> None:
    lengths = [
        node.end_lineno - node.lineno + 1
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    assert sum(length > 50 for length in lengths) / len(lengths) < 0.03


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
