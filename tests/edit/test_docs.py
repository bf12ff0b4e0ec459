"""The page about the engine: every code is explained, and every example gives what it says."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from kakite.edit import Settings
from kakite.edit.edits import LEVELS
from kakite.edit.failures import FailureCode
from kakite.edit.jsonl import answer_line

PAGE = (Path(__file__).parents[2] / "docs" / "edit.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^(\{.*\})\n→ (\w+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("request_line", "code"), EXAMPLES)
def test_every_example_fails_as_the_page_says(request_line: str, code: str) -> None:
    assert json.loads(answer_line(request_line))["failures"][0]["code"] == code


@pytest.mark.parametrize(
    "name", [*get_args(FailureCode), *LEVELS, *(field.name for field in fields(Settings))]
)
def test_every_code_rung_and_setting_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE
