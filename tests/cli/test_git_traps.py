"""What a model, a rival or a repository may do to git, and what must come of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.git.url import build_git_environment, parse_repo_url
from kakite.errors import UsageError
from kakite_testing.fake_providers import run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, kakite
from tests.cli.test_agent_run import FILES, calls, done, edit, plan, run_arguments, script
from tests.repositories import commit_file, git, make_remote


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return make_remote(tmp_path, FILES)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


def run(remote: Path, home: Path, *turns: dict[str, Any]) -> tuple[int, Any, str]:
    with run_scenario_server(script(*turns)) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json"), home=home)
        assert server.violations == ()
    return outcome.code, outcome.json, outcome.stderr


def shell(command: str) -> dict[str, Any]:
    return calls("run_command", {"command": command})


GREETING = "def greet():\n    return 'hello, world'"


def test_credentials_are_for_their_server_alone() -> None:
    settings = build_git_environment(
        parse_repo_url("http://u:secret@127.0.0.1:81/x.git"), {"PATH": os.environ["PATH"]}
    )
    for host, known in (("127.0.0.1:81", True), ("127.0.0.1:82", False), ("localhost:81", False)):
        asked = subprocess.run(
            ["git", "credential", "fill"],
            input=f"protocol=http\nhost={host}\n\n",
            env=settings,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert ("secret" in asked.stdout) is known, host


def test_a_password_may_come_from_a_variable() -> None:
    settings = build_git_environment(parse_repo_url("https://host/x.git"), {"KAKITE_GIT_TOKEN": "t0ken"})
    assert settings["KAKITE_GIT_PASSWORD"] == "t0ken"
    assert "KAKITE_GIT_TOKEN" not in settings


@pytest.mark.parametrize(
    "address", ["https://host/x.git?private_token=S3", "u:S3@host:x.git", "https://h/x#S3"]
)
def test_secrets_where_git_has_no_place_for_them_are_refused_unseen(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_repo_url(address)
    assert "S3" not in str(caught.value)


def test_a_password_in_an_ssh_address_is_dropped() -> None:
    assert parse_repo_url("ssh://git:S3@host:22/x.git").url == "ssh://git@host:22/x.git"


def test_what_git_tells_its_own_programs_does_not_reach_ours() -> None:
    told = {"GIT_DIR": "x", "GIT_OBJECT_DIRECTORY": "y", "GIT_NAMESPACE": "z", "GIT_CONFIG_COUNT": "1"}
    settings = build_git_environment(
        parse_repo_url("https://u:p@h/x.git"), {**told, "GIT_CONFIG_KEY_0": "http.proxy"}
    )
    assert not {"GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"} & set(settings)
    assert (settings["GIT_CONFIG_COUNT"], settings["GIT_CONFIG_KEY_0"]) == ("3", "http.proxy")


@pytest.mark.slow
def test_work_survives_a_model_that_removes_the_repository(remote: Path, home: Path) -> None:
    code, report, stderr = run(remote, home, plan(), edit(), shell("rm -rf .git"), done())
    assert code == 0, stderr
    assert report["pushed"]
    assert git(remote, "show", "topic:greet.py") == GREETING
    assert git(remote, "rev-parse", "topic~1") == git(remote, "rev-parse", "main")


@pytest.mark.slow
def test_a_persons_home_that_is_a_repository_is_not_worked_in(remote: Path, home: Path) -> None:
    git(home, "init", "--quiet")
    (home / "dotfile").write_text("mine", encoding="utf-8")
    git(home, "add", "dotfile")
    git(home, "commit", "--quiet", "--message=Mine")
    head, index = git(home, "rev-parse", "HEAD"), (home / ".git" / "index").read_bytes()
    run(remote, home, plan(), edit(), shell("rm -rf .git"), done())
    assert git(home, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(home, "rev-parse", "HEAD") == head
    assert (home / ".git" / "index").read_bytes() == index


@pytest.mark.slow
def test_a_rebase_that_the_model_left_half_done_does_not_undo_its_work(remote: Path, home: Path) -> None:
    mess = (
        "git checkout -q -b x && echo A > greet.py && git commit -qam A && "
        "git checkout -q topic && echo B > greet.py && git commit -qam B && git rebase x"
    )
    write = calls(
        "text_editor", {"command": "create", "path": "greet.py", "overwrite": True, "file_text": "GOOD\n"}
    )
    look = calls("text_editor", {"command": "view", "path": "greet.py"})
    code, report, stderr = run(remote, home, plan(), shell(mess), look, write, done())
    assert code == 0, stderr
    assert git(remote, "show", "topic:greet.py") == "GOOD"
    assert report["commit"] == git(remote, "rev-parse", "topic")
    assert "+GOOD" in report["diff"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "deed", ["git checkout -q -b other && git commit -qam x", "git checkout -q --orphan o"]
)
def test_work_on_another_branch_is_pushed_on_the_right_one(deed: str, remote: Path, home: Path) -> None:
    code, _report, stderr = run(remote, home, plan(), edit(), shell(deed), done())
    assert code == 0, stderr
    assert git(remote, "show", "topic:greet.py") == GREETING
    assert git(remote, "merge-base", "main", "topic") == git(remote, "rev-parse", "main")


@pytest.mark.slow
def test_files_that_nobody_edited_are_not_rewritten(tmp_path: Path, home: Path) -> None:
    # Stored with CR LF, though an attribute says that git should turn them: git would rewrite them.
    remote = make_remote(tmp_path, {**FILES, "crlf.txt": "one\r\ntwo\r\n"})
    commit_file(tmp_path, remote, "main", ".gitattributes", "* text=auto\n")
    code, _report, stderr = run(remote, home, plan(), edit(), done())
    assert code == 0, stderr
    assert git(remote, "diff", "--name-only", "main", "topic") == "greet.py"


@pytest.mark.slow
def test_a_repository_with_the_other_kind_of_hashes_works_too(tmp_path: Path, home: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "sha256")
    work = tmp_path / "sha256"
    (work / "greet.py").write_text(FILES["greet.py"], encoding="utf-8")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=First")
    code, _report, stderr = run(work, home, plan(), edit(), done())
    assert code == 0, stderr
    assert git(work, "show", "topic:greet.py") == GREETING


@pytest.mark.slow
def test_a_change_that_their_deletion_meets_is_not_settled_by_doing_nothing(
    tmp_path: Path, remote: Path, home: Path
) -> None:
    turns = [plan(), edit(), done(pause=2.0), *[done()] * 5]
    with run_scenario_server(script(*turns)) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json")
        program = subprocess.Popen(
            argv(*arguments), env=environment(home), cwd=home, stdout=subprocess.PIPE, encoding="utf-8"
        )
        while len(server.requests) < 2:
            assert program.poll() is None
        theirs = _delete(tmp_path, remote, "greet.py")
        stdout, _ = program.communicate(timeout=WITHIN)
    assert json.loads(stdout)["status"] == "conflict"
    assert git(remote, "rev-parse", "topic") == theirs


def _delete(place: Path, remote: Path, path: str) -> str:
    git(place, "clone", "--quiet", str(remote), "rival")
    rival = place / "rival"
    git(rival, "checkout", "--quiet", "-b", "topic")
    git(rival, "rm", "--quiet", path)
    git(rival, "commit", "--quiet", "--message=Gone")
    git(rival, "push", "--quiet", "origin", "topic")
    return git(rival, "rev-parse", "HEAD")


def test_what_cannot_work_is_said_before_the_model_is_asked(tmp_path: Path, remote: Path, home: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(remote), "own")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{remote}", "shallow")
    with run_scenario_server(script(plan())) as server:
        for repository, branch, named in (
            ("own", "main", "branch_checked_out"),
            ("shallow", "t", "shallow_repository"),
        ):
            more = ["--branch", branch, "--approve", "all", "--json"]
            outcome = kakite(*run_arguments(tmp_path / repository, server, *more), home=home)
            assert outcome.code == 3
            assert named in outcome.stderr
        assert server.requests == ()
