"""The rule that an answer for always makes of a command."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.policy.matchers import MatchResult, match_all, suggest_command_prefix

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1, max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_a_rule_fits_the_command_that_it_was_made_of(argv: list[str]) -> None:
    line = " ".join(map(shlex.quote, argv))
    prefix = suggest_command_prefix(line)
    assert prefix is None or match_all(prefix, line) is MatchResult.YES


@given(st.lists(WORDS, min_size=1, max_size=3), st.sampled_from([";", "&&", "||", "|", "\n", "&"]), WORDS)
def test_a_rule_never_fits_two_commands(argv: list[str], operator: str, other: str) -> None:
    line = " ".join(map(shlex.quote, argv))
    prefix = suggest_command_prefix(line)
    joined = f"{line} {operator} {shlex.quote(other)}"
    assert prefix is None or match_all(prefix, joined) is MatchResult.NO
    assert suggest_command_prefix(joined) is None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pytest -q tests", "pytest"),
        ("git diff a.py", "git diff"),
        ("git -C .. push", "git -C .. push"),
        ("python -m pytest -x", "python -m pytest"),
        ("python3 a.py 1", "python3 a.py 1"),
        ("bash -c ls", "bash -c ls"),
        ("rm -rf build", "rm -rf build"),
        ("make", "make"),
        ("ls '*.py'", "ls"),
        ("rm '*.py'", "rm '[*].py'"),
    ],
)
def test_how_much_a_rule_allows(command: str, words: str) -> None:
    prefix = suggest_command_prefix(command)
    assert prefix is not None
    assert prefix.words == words


@pytest.mark.parametrize("command", ["a; b", "a | b", "echo $(x)", "", "écho", ["", "x"], 3, None])
def test_what_has_no_safe_beginning_makes_no_rule(command: object) -> None:
    assert suggest_command_prefix(command) is None
