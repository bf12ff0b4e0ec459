"""Git commands that throw work away are refused, in whatever line they stand; all others are let go."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import little_work

from kakite.tools import CommandRules, ToolCall, ToolError, bind_call, open_toolset
from kakite.tools.shell.command_rules import check_git
from kakite.workspace import Workspace

LOSSES = [
    "git reset --hard",
    "git reset --har HEAD~1",
    "git reset -q --hard origin/main",
    "git clean -fd",
    "git clean -xdf .",
    "git clean -d --force",
    "git checkout -- .",
    "git checkout .",
    "git checkout -f main",
    "git restore .",
    "git restore --staged --worktree :/",
    "git switch --discard-changes main",
    "git push --force",
    "git push -f origin x",
    "git push -uf origin x",
    "git push --force-with-lease=x origin x",
    "git push origin +x",
    "git push origin :x",
    "git push --delete origin x",
    "git push -d origin x",
    "git push --mirror",
    "git -C sub -c a.b=c --no-pager reset --hard",
    "/usr/bin/git reset --hard",
    "git stash clear",
    "git stash drop",
    "git stash drop stash@{1}",
    "git worktree remove --force .",
    "git worktree remove -f x",
    "git checkout-index -f -a",
    "git checkout-index --all --force",
    "git read-tree -u --reset HEAD",
    "git read-tree --reset -u HEAD",
    "git reset --h",
    "git -c clean.requireForce=false clean -d",
    "git clean -fd -enode",
    "git rm -rf .",
    "git rm -r --force --quiet ./",
    "git checkout -- ././",
    "git checkout -- ../",
    "git checkout HEAD~1 -- $PWD",
    "git checkout ${PWD}/",
    "git checkout -- **",
    "git checkout -- ./**/*",
    "git restore -- :!x",
    "git restore :^x :!y",
    "git --shallow-file x reset --hard",
    "git push -f -onightly",
    "git push --forc origin x",
    "git submodule foreach git reset --hard",
    "git bisect run git reset --hard",
    "find . -exec git reset --hard ;",
]
HARMLESS = [
    "git status",
    "git reset --soft HEAD~1",
    "git reset --keep HEAD~1",
    "git reset HEAD a.txt",
    "git clean -n",
    "git clean -fdn",
    "git checkout -b fix",
    "git checkout -- a.txt",
    "git restore a.txt",
    "git restore --staged .",
    "git switch main",
    "git push",
    "git push -u origin fix",
    "git push origin HEAD:fix",
    "git commit -m 'never git push --force; or git reset --hard'",
    "git log -- .",
    "git commit -m 'do not\ngit reset --hard'",
    'git commit -m "it\'s not\ngit reset --hard"',
    'echo "$(date)" && git commit -m "never; git reset --hard"',
    "git commit -m 'see `git reset --hard` and $(git reset --hard)'",
    "ls # don't; git reset --hard",
    "git stash",
    "git stash list",
    "git stash pop",
    "git worktree remove x",
    "git checkout-index -f a.txt",
    "git read-tree HEAD",
    "git read-tree -m -u HEAD",
    "git add .",
    "grep -rn 'git reset --hard' docs",
    "echo git reset --hard",
    "# git push -f",
    "git push --dry-run -f",
    "git push -nf",
    "git push -od origin x",
    "git clean --help -f",
    "git clean -n -enode -f",
    "git rm -rf build",
    "git rm -r --cached .",
    "git rm -rfn .",
    "git checkout -bf",
    "git checkout -",
    "git restore src :!src/x",
    "git checkout -- .git* ./a.txt",
    "git submodule foreach git status",
    "git -c alias.x=log x",
    "find . -exec git log -- {} +",
    "git commit -F - <<'EOF'\nfix: do not\ngit reset --hard is bad\nEOF",
    'git commit -F - <<-"END-1"\nit\'s\n\tgit reset --hard\n\tEND-1\nls',
    'git commit -m "$(cat <<\'EOF\'\ngit reset --hard\n\ndon\'t "x"\nEOF\n)"',
    'git commit -m "$(cat <<EOF\ngit reset --hard\nEOF\n)" && ls',
    "cat > run.sh <<EOF\ngit clean -fd\nEOF",
    "cat <<A <<B\ngit clean -fd\nA\ngit clean -fd\nB\nls",
    "grep '>' x",
    "ls",
    "'",
    "",
]


@pytest.mark.parametrize("line", LOSSES)
def test_what_throws_work_away_is_refused_with_a_way_on(line: str) -> None:
    for command in (line, line.split()):
        with pytest.raises(ToolError) as caught:
            check_git(command, ())
        assert caught.value.code == "command_denied"
        assert caught.value.hint


@pytest.mark.parametrize("line", HARMLESS)
def test_what_throws_nothing_away_is_let_go(line: str) -> None:
    check_git(line, ())


@given(
    st.sampled_from(LOSSES),
    st.sampled_from(
        [
            "cd x && {}",
            "{} 2>&1 | tail",
            "make\n{}",
            "x=$({})",
            "`{}`",
            "if {}; then ls; fi",
            "GIT_DIR=x {}",
            "sudo -u x {}",
            "timeout 5 {}",
            "sh -c '{}'",
            "env sh -c 'ls; {}'",
            "({})",
            "! {} || true",
            "ls & {} >/dev/null",
            "# Let's start over\n{}",
            "ls # it's old\n{}",
            "cat <<EOF\ndon't\nEOF\n{}",
            "cat <<EOF\ndon't\nEOF\n{}\ncat <<EOF\ncan't\nEOF",
            "echo don't; {}",
            'echo "$({})"',
            'echo "x $(echo "a"; {}) y"',
            'echo "`{}`"',
            "echo a#b'x'#; {}",
            "echo 'a # b'\n{}",
            "ls \\\n  -a; {}",
            "2>/dev/null {}",
            "</dev/null >>log 2>&1 {}",
            "&>x {}",
            "function f {{ {}; }}",
            "coproc {}",
            "find . -exec {} \\;",
            "git submodule foreach '{}'",
            "git rebase -x '{}' HEAD~1",
            "git rebase --exec='{}' HEAD~1",
            "git bisect run sh -c '{}'",
            "git -c alias.x='!{}' x",
            "sh <<EOF\n{}\nEOF",
            "cat <<'EOF' | /bin/bash -s\n{}\nEOF",
            "sh <<< '{}'",
            "cat <<EOF > x\n$({})\nEOF",
            "cat <<EOF\nEOF\n{}",
            "echo $((1<<n))\n{}",
            "cat <<A <<B\nA\nB\n{}",
            "echo '>' && {}",
            "echo a >'x y' && {}",
        ]
    ),
)
def test_it_is_found_wherever_it_stands_in_a_line(loss: str, around: str) -> None:
    with pytest.raises(ToolError):
        check_git(around.format(loss), ())


@pytest.mark.parametrize(
    "line",
    [
        "git reset -q 2>/dev/null --hard",
        "git 2>&1 reset --hard",
        "git -c alias.x='reset --hard' x",
        "git -c Alias.x='reset --hard' -C y x",
        "git reset $'--hard'",
        'git checkout -- "$PWD"',
        'git checkout -- "$(pwd)"',
        "git checkout -- '**'",
        "git checkout -- ':(top,glob)**'",
        "git restore -- ':!x'",
    ],
)
def test_it_is_found_however_its_words_are_written(line: str) -> None:
    with pytest.raises(ToolError):
        check_git(line, ())


@pytest.mark.slow
def test_a_long_line_is_judged_in_little_time() -> None:
    texts = "x" * 30_000 + "<<a " * 10_000 + "\n" + "a\n" * 10_000
    pieces = ("<<a\n", "a <<b\na\n", '"$(', "2> ", "--x=", "alias.x=", "git -c alias.")
    for line in (texts, *(piece * (50_000 // len(piece)) for piece in pieces)):
        with little_work(), suppress(ToolError):
            check_git(line, ())


@given(st.text())
def test_any_line_is_judged_without_another_error(line: str) -> None:
    check_git(f"ls {line.replace('git', '')}", ())


def test_a_rule_that_spells_it_out_lets_it_through() -> None:
    check_git("git clean -fd", ("git clean -fd",))
    for rules in (("git clean",), ("*",), ("git clean *",), ("git reset --hard",)):
        with pytest.raises(ToolError):
            check_git("git clean -fd", rules)


async def code_of(folder: Path, rules: CommandRules, command: str | list[str]) -> str:
    workspace = Workspace([folder])
    toolset = open_toolset(workspace, ["shell"], commands=rules)
    result = await toolset.call(ToolCall(id="1", name="run_command", arguments={"command": command}))
    workspace.close()
    return result.code


@pytest.mark.anyio
async def test_what_a_rule_asks_about_runs_only_after_a_yes(tmp_path: Path) -> None:
    rules = CommandRules(ask=("touch *",))
    assert await code_of(tmp_path, rules, "touch a") == "approval_required"
    assert await code_of(tmp_path, rules, "ls; touch a") == "approval_required"
    assert await code_of(tmp_path, rules, ["env", "touch", "a"]) == "approval_required"
    assert await code_of(tmp_path, rules, "$(echo touch) a") == "approval_required"  # who knows what that is
    assert await code_of(tmp_path, rules, "ls") == ""
    assert not (tmp_path / "a").exists()
    asked: list[str] = []

    async def answer(question: str, _form: object) -> dict[str, str] | None:
        asked.append(question)
        return {} if len(asked) > 1 else None

    with bind_call(elicit=answer):
        assert await code_of(tmp_path, rules, "touch a") == "denied"
        assert not (tmp_path / "a").exists()
        assert await code_of(tmp_path, rules, "touch a") == ""
    assert (tmp_path / "a").exists()
    assert "touch a" in asked[0]


@pytest.mark.anyio
async def test_among_rules_what_is_denied_wins_and_what_is_asked_about_is_not_refused(tmp_path: Path) -> None:
    rules = CommandRules(allow=("ls",), ask=("touch *",), deny=("touch b",))
    assert await code_of(tmp_path, rules, "touch b") == "command_denied"
    assert await code_of(tmp_path, rules, "touch a") == "approval_required"
    assert await code_of(tmp_path, rules, "pwd") == "command_denied"
    assert await code_of(tmp_path, rules, "ls") == ""
