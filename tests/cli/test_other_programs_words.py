"""Words that other programs use for our commands and options: the error names ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.program import kakite


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("serve --root . --port 8000", "--http"),
        ("collab . --port 8000", "--http"),
        ("agent web --port=8000", "--http"),
        ("serve --cwd .", "--root"),
        ("host list", "'tools'"),
        ("agent ls", "'list'"),
        ("agent delete x", "'rm'"),
        ("version", "'--version'"),
    ],
)
def test_the_error_names_our_word(line: str, ours: str, tmp_path: Path) -> None:
    done = kakite(*line.split(), home=tmp_path)
    told = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())
    assert done.code == 2
    assert "Did you mean" in told or "Possible options" in told, told
    assert ours in told.partition("No such")[2], told


@pytest.mark.parametrize("line", ["edit --port 1 x", "undo --port 1", "host nonsense"])
def test_no_option_is_named_that_the_command_does_not_have(line: str, tmp_path: Path) -> None:
    done = kakite(*line.split(), home=tmp_path)
    assert done.code == 2
    assert "--http" not in done.stderr
