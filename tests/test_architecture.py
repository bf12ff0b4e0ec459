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


PAGE = ROOT / "web" / "collab" / "src"


def rows(text: str) -> dict[str, dict[str, str]]:
    """Return the code map: for each folder its modules, each with its words."""
    parts = re.split(r"^### `([\w/]+)/`\n", text.partition("### Beside")[0], flags=re.MULTILINE)[1:]
    return {
        folder: dict(re.findall(r"^- `(\w+)`: (.+)$", told, re.MULTILINE))
        for folder, told in zip(parts[::2], parts[1::2], strict=True)
    }


def modules() -> dict[str, dict[str, Path]]:
    """Return what there is: for each folder with modules the file of each."""
    found: dict[str, dict[str, Path]] = {}
    for file in MODULES:
        folder = file.parent.relative_to(ROOT / "src" / "kakite").as_posix()
        if folder != "." and not file.stem.startswith("__"):
            found.setdefault(folder, {})[file.stem] = file
    found["web/collab"] = {file.stem: file for file in PAGE.glob("*.ts") if "." not in file.stem}
    return found


def gist(file: Path) -> str:
    """Return a module's first words: its docstring's first paragraph, or the first sentence of a long one."""
    told = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").replace("``", "`")
    said = " ".join(told.partition("\n\n")[0].split())
    first = re.match(r".*?[.](?= |$)", said)
    return (said if len(said) <= 120 or not first else first[0]).removesuffix(".")


def differences(told: dict[str, dict[str, str]], there: dict[str, dict[str, Path]]) -> list[str]:
    """Return what the map lacks, and what it names that is not there."""
    named = {f"{folder}/{name}" for folder, names in told.items() for name in names}
    real = {f"{folder}/{name}" for folder, names in there.items() for name in names}
    return [*(f"no row: {each}" for each in sorted(real - named)), *sorted(named - real)]


def test_the_code_map_names_every_module_and_no_other() -> None:
    assert differences(rows(ARCHITECTURE), modules()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- `exact`: ", "- `exactly`: ", ["no row: edit/exact", "edit/exactly"]),
        ("### `agent/durable/`\n", "### `agent/enduring/`\n", ["no row: agent/durable/blobs"]),
        ("- `unsent`: ", "- unsent: ", ["no row: web/collab/unsent"]),
    ],
)
def test_a_module_that_is_missing_in_the_map_or_misnamed_is_found(
    old: str, new: str, said: list[str]
) -> None:
    assert ARCHITECTURE.count(old) == 1
    found = differences(rows(ARCHITECTURE.replace(old, new)), modules())
    assert {*said} <= {*found}


def test_each_row_of_the_code_map_is_what_the_module_says_of_itself() -> None:
    told, wrong = rows(ARCHITECTURE), list[str]()
    for folder, files in modules().items():
        if folder != "web/collab":
            wanted = {name: gist(file) for name, file in files.items()}
            wrong += [
                f"{folder}: - `{name}`: {said}" for name, said in wanted.items() if told[folder][name] != said
            ]
    assert not wrong, "the rows should be:\n" + "\n".join(wrong)


def test_no_row_of_the_code_map_is_long() -> None:
    drawn = ARCHITECTURE.partition("## Code map")[2].partition("## Invariants")[0]
    assert max(len(line) for line in drawn.splitlines()) <= 180


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
    lengths = {
        f"{file.name}: {node.name}": node.end_lineno - node.lineno + 1
        for file in MODULES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert [name for name, length in lengths.items() if length > 60] == []
    assert sum(length > 50 for length in lengths.values()) <= 4
    assert sum(length > 40 for length in lengths.values()) / len(lengths) < 0.0035


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
