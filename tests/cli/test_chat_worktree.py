"""``kakite chat --worktree``: a git worktree of the session's own, beside the person's checkout."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kakite_testing.fake_providers import run_scenario_server
from tests.cli.program import Outcome, kakite, skip_without
from tests.cli.test_chat import KEY, arguments, script
from tests.repositories import git

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = Person\n\temail = person@localhost\n", encoding="utf-8"
    )
    return folder


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "project"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.py").write_text("a = 1\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=First")
    return folder


def run_command(line: str) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}


def commit(message: str, *paths: str) -> dict[str, Any]:
    named = {"paths": list(paths)} if paths else {}
    return {"calls": [{"tool": "commit", "arguments": {"message": message, **named}}]}


def chat(
    home: Path, project: Path, turns: list[dict[str, Any]], *more: str, sandbox: str = "local"
) -> Outcome:
    with run_scenario_server(script(*turns)) as server:
        words = [*arguments(server, "-p", "go on", "--approve", "all", "--output", "jsonl", *more)]
        words[words.index("--sandbox") + 1] = sandbox
        return kakite(*words, home=home, cwd=project, env={"OPENAI_API_KEY": KEY})


def read_session(done: Outcome) -> dict[str, Any]:
    assert done.code == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[0])


def manage(home: Path, project: Path, *more: str) -> Outcome:
    return kakite("chat", *more, home=home, cwd=project)


def test_the_work_is_on_a_branch_beside_the_checkout(home: Path, project: Path) -> None:
    (project / "mine").write_text("not committed\n", encoding="utf-8")
    (project / "a.py").write_text("a = 'mine'\n", encoding="utf-8")
    turns = [run_command("cat a.py; ls; echo b > b.py"), commit("Add b"), {"say": "Done."}]
    with run_scenario_server(script(*turns)) as server:
        done = kakite(
            *arguments(server, "-p", "Add a b, please", "--approve", "all", "--worktree"),
            home=home,
            cwd=project,
            env={"OPENAI_API_KEY": KEY},
        )
    assert (done.code, done.stdout) == (0, "Done.\n"), done.stderr
    assert "2 uncommitted files are not in it" in done.stderr
    listed = json.loads(manage(home, project, "--list", "--output", "json").stdout)[0]
    branch, folder = listed["branch"], Path(listed["worktree"])
    assert branch.startswith("kakite/add-a-b-please-")
    assert listed["folder"] == str(project)
    assert not folder.is_relative_to(project)
    assert git(project, "show", "--format=%s %an", "--name-only", branch).split() == [
        "Add",
        "b",
        "Person",
        "b.py",
    ]
    assert git(project, "status", "--porcelain") == "M a.py\n?? mine"
    assert git(project, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert (folder / "a.py").read_text(encoding="utf-8") == "a = 1\n"


def test_a_session_goes_back_to_its_worktree_and_is_removed_with_it(home: Path, project: Path) -> None:
    first = read_session(
        chat(
            home, project, [run_command("echo b > b.py"), {"say": "Done."}], "--worktree", "--branch", "topic"
        )
    )
    session, folder = first["id"], Path(first["folder"])
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/topic"
    again = read_session(chat(home, project, [run_command("echo c > c.py"), {"say": "Done."}], "--continue"))
    assert (again["id"], again["folder"]) == (session, str(folder))
    inside = read_session(chat(home, folder, [{"say": "Hello."}], "--resume", session))
    assert inside["folder"] == str(folder)
    assert "[worktree topic]" in manage(home, project, "--list").stdout
    # What is not committed is not removed.
    kept = manage(home, project, "--rm", session)
    assert kept.code == 0
    assert "2 files in it are not committed" in kept.stderr
    assert (folder / "c.py").exists()
    other = read_session(
        chat(home, project, [commit("Both", "."), {"say": "Done."}], "--worktree", "--branch", "topic")
    )
    assert other["folder"] == str(folder)
    gone = manage(home, project, "--rm", other["id"])
    assert "The branch `topic` stays" in gone.stderr
    assert not folder.exists()
    assert git(project, "log", "-1", "--format=%s", "topic") == "Both"
    assert git(project, "worktree", "list").count("\n") == 0


def test_a_worktree_that_nothing_was_done_in_goes_with_its_branch(home: Path, project: Path) -> None:
    session = read_session(chat(home, project, [{"say": "Hello."}], "--worktree"))
    gone = manage(home, project, "--rm", session["id"])
    assert "on which nothing was done" in gone.stderr
    assert git(project, "branch", "--list") == "* main"
    assert not Path(session["folder"]).exists()


def test_a_session_that_cannot_begin_leaves_no_worktree(home: Path, project: Path) -> None:
    done = kakite(
        *("chat", "-p", "hi", "--worktree", "--model", "nosuch:model", "--sandbox", "local"),
        home=home,
        cwd=project,
    )
    assert done.code != 0
    assert git(project, "branch", "--list") == "* main"
    assert git(project, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("prepare", "more", "told"),
    [
        ("rm -rf .git", ("--worktree",), "is in no git repository"),
        ("rm -rf .git; git init -q", ("--worktree",), "has no commit yet"),
        ("true", ("--worktree", "--branch", "main"), "is checked out in"),
        ("true", ("--worktree", "--branch", "a..b"), "is not a valid branch name"),
        ("true", ("--branch", "topic"), "needs --worktree"),
        ("true", ("--worktree", "--resume", "0000"), "works where it worked"),
    ],
)
def test_what_makes_no_sense_is_told(
    home: Path, project: Path, prepare: str, more: tuple[str, ...], told: str
) -> None:
    subprocess.run(["sh", "-c", prepare], cwd=project, env={"PATH": os.environ["PATH"]}, check=True)
    done = chat(home, project, [{"say": "x"}], *more)
    assert done.code in {2, 3}
    assert told in done.stderr


ATTEMPTS = (
    "echo x >> {git}/config",
    "echo x > {git}/hooks/pre-commit",
    "echo x > {git}/worktrees/*/HEAD",
    "echo x > {git}/refs/heads/main",
    "git config core.fsmonitor 'touch {canary}'",
    "git -C {project} status; echo x > {project}/a.py",
    "echo x > {other}/a.py",
    "rm -f .git; echo gitdir: /tmp/evil > .git",
    "mv .git away; git init -q .",
    "git update-ref refs/heads/main HEAD~0; git branch -f main; git branch evil",
    "git add . && git commit -qm evil",
    "git worktree remove --force {other}; git worktree prune",
    "mount -o remount,bind,rw {git}; echo x >> {git}/config",
    "ln -s {git}/config link; echo x >> link",
    "ls {project} {other} {home} && touch {canary}",
)


def test_commands_reach_neither_the_repository_nor_other_checkouts(
    home: Path, project: Path, tmp_path: Path
) -> None:
    skip_without("bubblewrap")
    canary = home / "canary"
    other = read_session(chat(home, project, [{"say": "Hello."}], "--worktree", "--branch", "other"))[
        "folder"
    ]
    names = {"git": project / ".git", "project": project, "other": other, "home": home, "canary": canary}
    turns = [run_command(attempt.format(**names)) for attempt in ATTEMPTS]
    looks = [run_command("git status --short && git log --oneline && git diff"), {"say": "I could not."}]
    before = _look(project, Path(other))
    done = chat(home, project, [*turns, *looks], "--worktree", "--branch", "mine", sandbox="bubblewrap")
    folder = Path(read_session(done)["folder"])
    results = [json.loads(line) for line in done.stdout.splitlines()]
    last = [each for each in results if each["type"] == "result" and "tool" in each][-1]
    assert last["ok"], last
    assert "First" in str(last)
    assert not canary.exists()
    after = _look(project, Path(other))
    new = {
        name
        for name in after.keys() - before.keys()
        if not name.startswith((".git/worktrees/mine", ".git/refs/heads/mine", ".git/logs/refs/heads/mine"))
    }
    assert new == set()
    assert {name for name in before if before[name] != after.get(name)} == set()
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/mine"
    assert git(folder, "log", "--format=%s") == "First"


def _look(project: Path, other: Path) -> dict[str, bytes]:
    """Return all files of the person's checkout, its repository, and another worktree."""
    return {
        f"{name}{path.relative_to(root)}": path.read_bytes()
        for name, root in (("", project), ("other: ", other))
        for path in root.rglob("*")
        if path.is_file()
    }
