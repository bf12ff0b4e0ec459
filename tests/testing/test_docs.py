"""What docs/models.md shows, runs; what it lists, is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kakite.models import errors
from kakite.models.providers import PROVIDERS
from kakite.models.scripted_model import Scenario

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_script_is_one() -> None:
    (script,) = [each for each in blocks("yaml") if "turns:" in each]
    assert len(Scenario.parse(script).turns) == 5


@pytest.mark.parametrize("code", [code for code in blocks("python") if "environ=os.environ" not in code])
def test_the_examples_run(code: str) -> None:
    exec(compile(code, "docs/models.md", "exec"), {})


@pytest.mark.parametrize("kind", errors.KINDS, ids=lambda kind: kind.code)
def test_every_code_is_in_the_table(kind: errors.ModelErrorKind) -> None:
    assert re.search(rf"^\| `{kind.code}` \|.*\| {'yes' if kind.retryable else 'no'} \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_is_listed(name: str) -> None:
    assert f"`{name}`" in PAGE
