"""The page about the engine: every code is explained, and every example gives what it says."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import kakite.edit
from kakite.edit import (
    CreateFile,
    DeleteFile,
    Edit,
    EditError,
    MatchOptions,
    MoveFile,
    apply,
    apply_to_files,
)
from kakite.edit.errors.model import FailureCode
from kakite.edit.jsonl_protocol import answer_line
from kakite.edit.types import LEVELS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "edit.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = re.findall(r"^(\{.*\})\n→ (\w+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("request_line", "code"), EXAMPLES)
def test_every_example_fails_as_the_page_says(request_line: str, code: str) -> None:
    assert json.loads(answer_line(request_line))["failures"][0]["code"] == code


@pytest.mark.parametrize(("request_line", "text"), re.findall(r'^(\{.*\})\n→ (".*")$', PAGE, re.MULTILINE))
def test_every_example_that_lands_gives_what_the_page_says(request_line: str, text: str) -> None:
    assert json.loads(answer_line(request_line)).get("text") == json.loads(text)


KINDS = {kind.__name__: kind for kind in (Edit, CreateFile, DeleteFile, MoveFile)}
FILES = {"src/a.py": "a = 1\n", "src/b.py": "b = 1\n"}


@pytest.mark.parametrize(("operation", "code"), re.findall(r"^(\{.*\})\n⇒ (\w+)$", PAGE, re.MULTILINE))
def test_every_example_over_files_fails_as_the_page_says(operation: str, code: str) -> None:
    [(kind, arguments)] = json.loads(operation).items()
    with pytest.raises(EditError) as refused:
        apply_to_files(FILES, [KINDS[kind](**arguments)])
    assert [failure.code for failure in refused.value.failures] == [code]


def test_the_example_of_too_much_takes_too_much() -> None:
    assert apply("x = 'a  b'\n" * 9999, [Edit(search="x = 'a b'", replace="y")], partial=True).failures[
        0
    ].code == ("too_much")


def test_every_code_has_an_example() -> None:
    shown = set(re.findall(r"^[→⇒] (\w+)$", PAGE, re.MULTILINE))
    assert shown | {"too_much"} == set(get_args(FailureCode))


@pytest.mark.parametrize(
    "name", [*get_args(FailureCode), *LEVELS, *(field.name for field in fields(MatchOptions))]
)
def test_every_code_rung_and_setting_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


# --- names


def spans(page: str) -> list[str]:
    """Return the code within the sentences of a page."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", page))


def has(name: str) -> bool:
    """Tell whether a dotted name leads to a module, or to what stands in one."""
    found: object = kakite
    for at, part in enumerate(name.split(".")[1:], start=2):
        if not hasattr(found, part):
            try:
                import_module(".".join(name.split(".")[:at]))
            except ImportError:
                return part in getattr(found, "__dataclass_fields__", ())
        found = getattr(found, part)
    return True


def names_of(code: str) -> Iterator[str]:
    """Yield what code imports of kakite, and what it takes of a module that it imported."""
    tree = ast.parse(code)
    modules: dict[str, str] = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and (each.module or "").partition(".")[0] == "kakite":
            for alias in each.names:
                modules[alias.asname or alias.name] = f"{each.module}.{alias.name}"
        elif isinstance(each, ast.Import):
            for alias in each.names:
                if alias.name.partition(".")[0] == "kakite":
                    modules[alias.asname or "kakite"] = alias.name if alias.asname else "kakite"
                    yield alias.name
    yield from modules.values()
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) in modules:
            yield f"{modules[ast.unparse(each.value)]}.{each.attr}"


LIBRARY = sorted(
    page
    for page in ROOT.glob("docs/*.md")
    if re.search(r"^(from|import) kakite", page.read_text("utf-8"), re.M)
)
"""The pages that show how Kakite is used in Python."""


@pytest.mark.parametrize("file", LIBRARY, ids=lambda file: file.name)
def test_every_name_of_kakite_in_the_code_of_a_page_exists(file: Path) -> None:
    page = file.read_text(encoding="utf-8")
    code = [text for language, text in FENCE.findall(page) if language == "python"]
    named = {name for each in code for name in names_of(each)}
    named |= {each for each in spans(page) if re.fullmatch(r"kakite(?:\.[A-Za-z_]\w*)+", each)}
    endings = (".yaml", ".toml", ".json", ".service")
    assert [each for each in sorted(named) if not each.endswith(endings) and not has(each)] == []


def names_in_sentences(page: str) -> set[str]:
    """Return the classes, and the functions that are called, that the sentences about the engine name."""
    found: set[str] = set()
    for span in spans(page):
        found |= {*re.findall(r"(?<![\w.{\"'/])([A-Z][a-z]+(?:[A-Z][a-z]+)*(?:\.[a-z_]+)?)(?=\(|$)", span)}
        found |= {*re.findall(r"^([a-z_]+)(?=\()", span)}
    return found - {"File", "Patch", "True"}  # words of a patch, and Python's


def test_every_class_and_function_that_the_sentences_name_is_exported() -> None:
    named = names_in_sentences(PAGE)
    assert {"Edit", "EditFailure.suggestion", "MatchOptions", "SourceText.from_bytes", "accept"} <= named
    assert [each for each in sorted(named) if not has(f"kakite.edit.{each}")] == []
    assert [each for each in named if each.partition(".")[0] not in kakite.edit.__all__] == []


def test_every_source_file_that_the_page_names_is_there() -> None:
    named = {each for each in spans(PAGE) if re.fullmatch(r"[\w/]+\.py", each)}
    assert "work_budget.py" in named
    files = [
        path.relative_to(ROOT).as_posix()
        for top in ("src", "benchmarks", "tests")
        for path in (ROOT / top).rglob("*.py")
    ]
    assert [each for each in named if not any(f"/{path}".endswith(f"/{each}") for path in files)] == []


def test_a_name_that_is_not_there_is_found() -> None:
    gone = "from kakite.edit import Settings\nimport kakite.edit as e\ne.Failure()\nimport kakite.missing"
    assert [each for each in names_of(gone) if not has(each)] == [
        "kakite.missing",
        "kakite.edit.Settings",
        "kakite.edit.Failure",
    ]
    assert names_in_sentences("`apply(text, settings=Settings(...))` has `Failure.suggestion`") == {
        "apply",
        "Settings",
        "Failure.suggestion",
    }
