"""Rules for commands are enforced, and what cannot be judged is refused."""

from __future__ import annotations

import pytest

from kakite.errors import UsageError
from kakite.tools import CommandRules, ToolCall, ToolError, open_toolset
from kakite.workspace import Workspace

ALLOW = CommandRules(allow=("git status", "git diff", "pytest", "npm run *", "ls"))
DENY = CommandRules(deny=("rm", "git push", "curl *"))


def verdict(rules: CommandRules, command: str | list[str]) -> str:
    try:
        rules.check(command)
    except ToolError as error:
        return error.code
    return "allowed"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short",
        ["git", "diff", "a b"],
        "pytest -q 'tests/x y.py' && git diff",
        "npm run build | ls -l",
        "git diff 'a $b; c'",
        'pytest -k "a b"',
        ["ls", "*", "$HOME", ";"],
    ],
)
def test_what_a_rule_allows_may_run(command: str | list[str]) -> None:
    assert verdict(ALLOW, command) == "allowed"


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git",
        "npm run",
        "./git status",
        "/tmp/pytest",
        "gitstatus",
        "pytest; rm -rf .",
        "pytest && make",
        "pytest | sh",
        "pytest || rm x",
        "pytest & rm x",
        "pytest\nrm x",
        "pytest $(rm x)",
        "pytest `rm x`",
        'pytest "$(rm x)"',
        'pytest "`rm x`"',
        "pytest > ../x",
        "pytest < x",
        "(pytest)",
        "{ pytest; }",
        "pytest *",
        "PATH=. pytest",
        "! pytest",
        "if pytest; then ls; fi",
        "git\\ status",
        "pytest 'unfinished",
        "",
        ";",
        "''",
        "env pytest",
        ["sh", "-c", "pytest"],
        ["", "x"],
    ],
)
def test_what_no_rule_allows_or_nobody_can_judge_is_refused(command: str | list[str]) -> None:
    assert verdict(ALLOW, command) == "command_denied"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("make test", "allowed"),
        ("git pull", "allowed"),
        ("echo 'rm x'", "allowed"),
        ("rm x", "command_denied"),
        ("/bin/rm x", "command_denied"),
        ("ls; rm x", "command_denied"),
        ("'r'm x", "command_denied"),
        ("r''m x", "command_denied"),
        ("A=1 rm x", "command_denied"),
        ("env rm x", "command_denied"),
        ("sh -c 'rm x'", "command_denied"),
        (["xargs", "rm"], "command_denied"),
        (["/usr/bin/env", "rm"], "command_denied"),
        ("git push --force", "command_denied"),
        ("curl", "allowed"),
        ("curl x", "command_denied"),
        ("$SHELL", "command_denied"),
    ],
)
def test_what_is_denied_does_not_run_under_another_spelling(command: str | list[str], said: str) -> None:
    assert verdict(DENY, command) == said


def test_denying_wins_over_allowing() -> None:
    rules = CommandRules(allow=("git *",), deny=("git push",))
    assert verdict(rules, "git push") == "command_denied"
    assert verdict(rules, "git pull") == "allowed"


def test_without_rules_everything_runs() -> None:
    assert verdict(CommandRules(), "a | b > $(c)") == "allowed"


def test_an_allowed_program_may_be_one_that_runs_others() -> None:
    assert verdict(CommandRules(allow=("timeout 5 pytest",)), "timeout 5 pytest -q") == "allowed"


@pytest.mark.parametrize("rule", ["", "  ", "'unfinished"])
def test_a_rule_that_says_nothing_is_wrong_usage(rule: str) -> None:
    with pytest.raises(UsageError):
        CommandRules(allow=(rule,))


@pytest.mark.anyio
async def test_a_denied_command_is_not_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("root")
    toolset = open_toolset(Workspace([folder]), ["shell"], commands=CommandRules(deny=("touch",)))
    call = ToolCall(id="1", name="run_command", arguments={"command": "true; touch x"})
    result = await toolset.call(call)
    assert (result.is_error, result.code) == (True, "command_denied")
    assert not (folder / "x").exists()
