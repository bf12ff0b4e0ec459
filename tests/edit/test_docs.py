"""The page about the engine: every code is explained, and every example gives what it says."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

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

PAGE = (Path(__file__).parents[2] / "docs" / "edit.md").read_text(encoding="utf-8")
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
