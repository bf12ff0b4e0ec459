"""Rules for commands are enforced, and what cannot be judged is refused."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.answers import read_answer
from tests.bounds import WITHIN, little_work
from tests.lanes import examples

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
        "git\rstatus",
        "git\r/../bin/sh status",
        "git\vstatus",
        "git\x0cstatus",
        "git\x85status",
        "git\u2028status",
        "git\x00status",
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
        ("trap 'rm x' EXIT", "command_denied"),
        ("taskset 1 rm x", "command_denied"),
        ("setarch x86_64 rm x", "command_denied"),
        ("linux64 rm x", "command_denied"),
        ("rbash -c 'rm x'", "command_denied"),
        ("script -qc 'rm x' y", "command_denied"),
        ("chrt 1 rm x", "command_denied"),
        ("prlimit rm x", "command_denied"),
        ("runuser -u me rm x", "command_denied"),
        ("setpriv rm x", "command_denied"),
        ("ssh-agent rm x", "command_denied"),
        ("dbus-run-session rm x", "command_denied"),
        ("sg me rm", "command_denied"),
        ("choom -n 1 rm x", "command_denied"),
        ("strace rm x", "command_denied"),
        ("fakeroot rm x", "command_denied"),
        ("/lib64/ld-linux-x86-64.so.2 /bin/rm x", "command_denied"),
        ("git push --force", "command_denied"),
        ("git -C . push --force", "command_denied"),
        ("git -c a=b --no-pager push --force", "command_denied"),
        (["/usr/bin/git", "--git-dir", ".git", "push", "--force"], "command_denied"),
        ("git -C push log --force", "allowed"),
        ("git --shallow-file x push", "command_denied"),
        ("git submodule foreach make", "command_denied"),
        ("git -c alias.p=log p", "command_denied"),
        ("git rebase -x make", "command_denied"),
        (["find", ".", "-exec", "make", ";"], "command_denied"),
        ("git rebase main", "allowed"),
        ("find . -name x", "allowed"),
        ("curl", "allowed"),
        ("curl x", "command_denied"),
        ("$SHELL", "command_denied"),
    ],
)
def test_what_is_denied_does_not_run_under_another_spelling(command: str | list[str], said: str) -> None:
    assert verdict(DENY, command) == said


def test_what_is_asked_about_is_asked_about_whatever_git_is_told_before() -> None:
    rules = CommandRules(ask=("git push",))
    for command in ("git push", "git -C . push origin", "git -c a=b push", ["git", "-P", "push"]):
        assert "git push" in rules.get_approval_reason(command)
    for command in ("git -C push log", "git log push", ["git"], ["git", "-C"]):
        assert not rules.get_approval_reason(command)


@pytest.mark.parametrize(
    "command",
    [
        "git submodule foreach git push",
        "git submodule --quiet foreach 'make'",
        "git -c alias.p=push p",
        "git -C . -c Alias.p='!x' p",
        "git --config-env=alias.p=X p",
        "git --shallow-file x push",
        "git bisect run make",
        "git rebase -x make HEAD~1",
        "git rebase -ix make HEAD~1",
        "git rebase --exec=make HEAD~1",
        "git rebase --ex make HEAD~1",
        "git filter-branch --tree-filter make",
        "uv run git push",
        "npm exec git -- push; npm exec -- git push",
        "conda run -n x git -C y push origin",
        "uv run sh -c 'x; git push'",
        "uv run bash -lc 'git push'",
        ["find", ".", "-exec", "git", "push", ";"],
        ["find", ".", "-execdir", "make", ";"],
    ],
)
def test_what_may_run_what_is_asked_about_is_asked_about(command: str | list[str]) -> None:
    assert CommandRules(ask=("git push",)).get_approval_reason(command)


@pytest.mark.parametrize(
    "command",
    [
        "git -c user.name=x commit -m 'git push'",
        "git rebase main",
        "git bisect bad",
        "git submodule update",
        "grep -rn 'git push' .",
        "find . -name git",
        "uv run pytest -c x",
        "ls . -c",
    ],
)
def test_what_only_looks_like_it_is_not_asked_about(command: str) -> None:
    assert not CommandRules(ask=("git push",)).get_approval_reason(command)


def test_many_words_are_judged_in_little_time() -> None:
    with little_work():
        assert not CommandRules(ask=("git push",)).get_approval_reason(["git", *["git"] * 60_000])


def test_allowing_a_command_of_git_allows_no_options_before_it() -> None:
    rules = CommandRules(allow=("git log",))
    assert verdict(rules, "git -c core.pager=x log") == "command_denied"


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


_PIECES = [*"a- \t\r\n\v\f\x85\xa0\x1f%~é=\\", "'", '"', "'b ", "c' "]


@given(st.lists(st.sampled_from(_PIECES), max_size=8).map("".join))
@settings(max_examples=examples(150), deadline=None)
def test_a_shell_sees_the_very_words_that_were_judged(told: str) -> None:
    line = f"printf '<%s>' {told}"
    try:
        command = CommandRules(allow=("printf *",)).check(line)
    except ToolError:
        return
    assert isinstance(command, str)
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=WITHIN)
    words = shlex.split(line)[2:] or [""]
    assert done.stdout.decode() == "".join(f"<{word}>" for word in words)


@pytest.mark.anyio
async def test_a_carriage_return_does_not_bring_another_program_in(tmp_path: Path) -> None:
    program = tmp_path / "git\r" / "x"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch pwned\n", encoding="ascii")
    program.chmod(0o755)
    toolset = open_toolset(Workspace([tmp_path]), ["shell"], commands=CommandRules(allow=("git",)))
    result = await toolset.call(ToolCall(id="1", name="run_command", arguments={"command": "git\r/x"}))
    assert (result.is_error, result.code) == (True, "command_denied")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.anyio
async def test_quoted_text_of_several_lines_comes_through_as_it_is(tmp_path: Path) -> None:
    toolset = open_toolset(Workspace([tmp_path]), ["shell"], commands=CommandRules(allow=("printf",)))
    arguments = {"command": "printf 'a\nb\r' | printf %s '$HOME'; printf \"it's\""}
    result = await toolset.call(ToolCall(id="1", name="run_command", arguments=arguments))
    assert read_answer(result)["stdout"] == "$HOMEit's"
