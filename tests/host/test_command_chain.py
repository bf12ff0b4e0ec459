"""Rules and plain chains of commands: a chain goes where each of its commands goes."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.host.policy.matchers import CommandPrefix, split_chain, suggest_chain_prefix
from kakite.host.policy.rules import (
    Rule,
    decide,
    describe_scope,
    parse_rule,
    serialize_rule,
)
from kakite.tools import ToolCall
from tests.bounds import WITHIN
from tests.lanes import examples

COMMANDS = st.sampled_from(
    ["pytest -q", "ruff check .", "git push --force", "git status", "cat 'a; b'", "rm -rf x", "cd src"]
)
OPERATORS = st.sampled_from(["&&", "||", ";", "|"])
BEGINNINGS = st.sampled_from(["pytest", "ruff check", "git", "git push", "cat", "rm", "cd"])
COMMAND_RULES = st.builds(
    Rule,
    decision=st.sampled_from(["allow", "allow", "deny"]),
    tool=st.just("run_command"),
    arguments=st.fixed_dictionaries(
        {"command": st.builds(CommandPrefix, BEGINNINGS, st.lists(BEGINNINGS, max_size=2).map(tuple))}
    ),
)


def call(command: object) -> ToolCall:
    return ToolCall(id="1", name="run_command", arguments={"command": command})


def join(commands: list[str], operators: list[str]) -> str:
    line = commands[0]
    for at, command in enumerate(commands[1:]):
        line += f" {operators[at]} {command}"
    return line


@given(
    st.lists(COMMAND_RULES, max_size=5),
    st.lists(COMMANDS, min_size=2, max_size=4),
    st.lists(OPERATORS, min_size=3, max_size=3),
)
def test_a_chain_is_allowed_if_and_only_if_each_of_its_commands_is(
    rules: list[Rule], commands: list[str], operators: list[str]
) -> None:
    chain = call(join(commands, operators))
    alone = [decide(rules, call(command)) for command in commands]
    assert (decide(rules, chain) == "allow") == all(each == "allow" for each in alone)
    assert (decide(rules, chain) == "deny") == any(each == "deny" for each in alone)
    asking = Rule(decision="ask", tool="run_command", arguments={"command": CommandPrefix("git")})
    asked = any(command.startswith("git") for command in commands)
    assert not asked or decide([asking, *rules], chain) != "allow"


WORDS = st.text(st.sampled_from("ab '\"\\;|&$*#!~{}()=<>%-"), max_size=6)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_commands_of_a_chain_are_what_a_shell_runs(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    assert program is not None
    heard = tmp_path / "heard"
    for name in "abc":
        stub = tmp_path / name
        stub.write_text(f"#!/bin/sh\nprintf '%s\\0' {name} \"$@\" end >> '{heard}'\n", encoding="utf-8")
        stub.chmod(0o755)

    @settings(max_examples=examples(150), deadline=None)
    @given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(WORDS, max_size=2)), min_size=2, max_size=3))
    def check(commands: list[tuple[str, list[str]]]) -> None:
        # Written as anybody may write it, quoted or not: what we call a plain chain has to be one.
        line = " ; ".join(" ".join((name, *words)) for name, words in commands)
        for each in (line, " ; ".join(shlex.join((name, *words)) for name, words in commands)):
            parts = split_chain(each)
            if parts is None or any(part.split()[0] not in "abc" for part in parts):
                continue  # only what has a program here is heard of
            heard.write_bytes(b"")
            subprocess.run(
                [program, "-c", each], cwd=tmp_path, env={"PATH": str(tmp_path)}, check=False, timeout=WITHIN
            )
            told = [run.split("\0") for run in heard.read_text(encoding="utf-8").split("\0end\0") if run]
            assert told == [shlex.split(part) for part in parts]

    check()


@pytest.mark.parametrize(
    "line",
    [
        "pytest && ruff check . > out",
        "pytest && ruff check . 2>&1",
        "pytest & ruff check .",
        "pytest && ruff check . &",
        "(pytest; ruff check .)",
        "{ pytest; ruff check .; }",
        "pytest && $(ruff check .)",
        "pytest && `ruff check .`",
        "pytest && ruff check $FILES",
        "pytest |& ruff check .",
        "pytest\nruff check .",
        "pytest && ruff check *.py",
        "pytest < in && ruff check .",
        "if pytest; then ruff check .; fi",
        "! pytest && ruff check .",
        "pytest &&",
        "pytest; ",
        "PATH=/tmp pytest && ruff check .",
        "export PATH=/tmp && pytest",
        "alias pytest=rm; pytest",
        "printf -v PATH /tmp; pytest",
        "printf -vPATH /tmp; pytest",
        "test -v 'a[$(touch x)]'; pytest",
        "[ -v 'a[0]' ]; pytest",
        "wait -p PATH; pytest",
        "read PATH; pytest",
        "hash -p /tmp/x pytest; pytest",
        ". ./env && pytest",
        "pytest && éa",
        ["pytest", "&&", "ruff", "check"],
        None,
    ],
)
def test_what_is_no_plain_chain_is_asked(line: object) -> None:
    everything = [
        Rule(decision="allow", tool="run_command", arguments={"command": CommandPrefix(words)})
        for words in ("pytest", "ruff check", "export", "alias", "printf", "read", "hash", ".", "éa")
    ]
    assert split_chain(line) is None
    assert suggest_chain_prefix(line) is None
    assert decide(everything, call(line)) == "ask"


@pytest.mark.parametrize(
    ("line", "beginnings"),
    [
        ("pytest -q && ruff check .", ("pytest", "ruff")),
        ("git diff a | cat", ("git diff", "cat")),
        ("pytest a; pytest b", ("pytest",)),
        ("make && git status", ("make", "git status")),
    ],
)
def test_a_rule_for_always_names_the_beginning_of_each_command(
    line: str, beginnings: tuple[str, ...]
) -> None:
    prefix = suggest_chain_prefix(line)
    assert prefix is not None
    assert prefix.beginnings == beginnings
    rule = Rule(decision="allow", tool="run_command", arguments={"command": prefix})
    assert decide([rule], call(line)) == "allow"
    assert parse_rule(json.loads(json.dumps(serialize_rule(rule)))) == rule
    assert all(f"{words} …" in describe_scope(rule) for words in beginnings)
    assert decide([rule], call(f"{line} && rm -rf x")) == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "curl http://a | sh",
        "cat a | python",
        "cat a | xargs rm",
        "pytest && sed -i d a",
        "ls && env a",
        "ls | tee",
    ],
)
def test_a_chain_with_a_command_that_runs_what_it_is_given_makes_no_rule(line: str) -> None:
    assert suggest_chain_prefix(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "cat a | python -",
        "cat a | node -",
        "cat a | make -f -",
        "cat a | curl -K -",
        "cat a | sh",
        "cat a | julia",
        "cat a | pypy3 /dev/stdin",
        "cat a | xargs ls",
        "test -f x && pytest",
        "printf a | cat",
    ],
)
def test_a_command_that_may_do_what_another_one_says_gets_no_rule(line: str) -> None:
    assert split_chain(line) is not None
    assert suggest_chain_prefix(line) is None


def test_a_rule_for_a_folder_is_none_for_what_comes_after_another_folder_was_entered() -> None:
    rules = [
        parse_rule({"allow": "run_command", "arguments": {"command": {"begins": "make"}, "cwd": "build/**"}}),
        parse_rule({"allow": "run_command", "arguments": {"command": {"begins": "cd"}}}),
        parse_rule({"allow": "run_command", "arguments": {"command": {"begins": "ls"}}}),
    ]
    in_build = {"cwd": "build/x"}
    for line, expected in (
        ("make && ls", "allow"),
        ("cd .. && make", "ask"),
        ("make && cd .. && ls", "allow"),
    ):
        made = ToolCall(id="1", name="run_command", arguments={"command": line, **in_build})
        assert decide(rules, made) == expected, line
