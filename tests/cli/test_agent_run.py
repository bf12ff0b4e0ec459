"""``kakite agent run``, as a person or a program runs it, against a scripted model on the real wire."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.run.store import RunFolder
from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, kakite, skip_without, start_at_terminal
from tests.engines import Engine
from tests.forking import popen
from tests.git_server import git_server
from tests.repositories import commit_file, git, make_remote

KEY = "sk-proj-0123456789abcdef-this-is-the-key"
PLAN = '{"goal": "the greeting is right", "steps": ["edit"], "title": "Greet the world", "check": ""}'
FILES = {"greet.py": "def greet():\n    return 'hello'\n", "README.md": "# greet\n"}


def script(*turns: dict[str, Any]) -> Scenario:
    return Scenario.parse(json.dumps({"title": "test", "turns": list(turns)}))


def plan() -> dict[str, Any]:
    return {"say": PLAN}


def calls(tool: str, *several: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "arguments": arguments} for arguments in several], **more}


def edit(old: str = "'hello'", new: str = "'hello, world'", path: str = "greet.py") -> dict[str, Any]:
    arguments = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
    return calls("text_editor", arguments)


def done(**more: Any) -> dict[str, Any]:
    return {"say": "The greeting names the world.", **more}


def run_arguments(
    remote: Path, server: ScenarioServer, *more: str, model: str = "openai:scripted"
) -> list[str]:
    url = server.anthropic_url if model.startswith("anthropic") else server.openai_url
    fixed = [
        "--repo",
        str(remote),
        "--branch",
        "topic",
        "--model",
        model,
        "--base-url",
        url,
        "--sandbox",
        "local",
    ]
    return ["agent", "run", "Greet the world", *fixed, *more]


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return make_remote(tmp_path, FILES)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


def state_files(home: Path) -> list[Path]:
    return [file for file in (home / ".local" / "state" / "kakite").rglob("*") if file.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "stream"), [("openai:scripted", "--stream"), ("anthropic:scripted", "--no-stream")]
)
def test_a_task_becomes_a_pushed_branch(model: str, stream: str, remote: Path, home: Path) -> None:
    main = git(remote, "rev-parse", "main")
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    with run_scenario_server(script(plan(), edit(), done())) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json", stream, model=model)
        outcome = kakite(*arguments, home=home, env=keys)
        assert server.violations == ()
    assert outcome.code == 0, outcome.stderr
    report = outcome.json
    assert (report["status"], report["branch"], report["pushed"]) == ("done", "topic", True)
    assert report["commit"] == git(remote, "rev-parse", "topic")
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, world'"
    assert git(remote, "log", "-1", "--format=%s%n%b", "topic").startswith("Greet the world\nThe greeting")
    assert [step["kind"] for step in report["steps"]] == ["plan", "tool", "commit", "push"]
    assert report["usage"]["requests"] == 3
    assert git(remote, "rev-parse", "main") == main
    assert KEY not in outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_a_run_is_exported_as_a_trajectory_without_the_persons_keys(remote: Path, home: Path) -> None:
    looked = calls("run_command", {"command": f"echo {KEY}; exit 3"})
    with run_scenario_server(script(plan(), looked, edit(), done())) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json"), home=home)
    assert outcome.code == 0, outcome.stderr
    run_id = outcome.json["id"]
    exported = kakite("agent", "export", run_id, "--atif", "-", home=home, env={"OPENAI_API_KEY": KEY})
    assert exported.code == 0, exported.stderr
    assert KEY not in exported.stdout
    told = exported.json
    assert (told["schema_version"], told["session_id"]) == ("ATIF-v1.7", run_id)
    assert told["agent"]["model_name"] == "openai:scripted"
    steps = [step for step in told["steps"] if step["source"] == "agent"]
    assert [[call["function_name"] for call in step.get("tool_calls", [])] for step in steps] == [
        *([], ["run_command"], ["text_editor"], [])
    ]
    assert steps[1]["tool_calls"][0]["arguments"] == {"command": "echo [redacted]; exit 3"}
    [result] = steps[1]["observation"]["results"]
    assert result["source_call_id"] == steps[1]["tool_calls"][0]["tool_call_id"]
    assert result["extra"]["exit_code"] == 3
    assert told["final_metrics"]["extra"]["requests"] == 4
    assert "+    return 'hello, world'" in told["extra"]["patch"]


@pytest.mark.slow
def test_a_model_that_calls_by_text_does_the_same(remote: Path, home: Path) -> None:
    arguments = {
        "command": "str_replace",
        "path": "greet.py",
        "old_str": "'hello'",
        "new_str": "'hello, world'",
    }
    call = json.dumps({"tool": "text_editor", "arguments": arguments})
    turns = [plan(), {"say": f"I edit.\n\n```json\n{call}\n```"}]
    turns += [{"expect": {"last_contains": ["[result of `text_editor`]"]}, **done()}]
    with run_scenario_server(script(*turns)) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json"), home=home)
        assert server.violations == ()
        assert ["tools" in request.json for request in server.requests] == [True, True, False]
    assert outcome.json["status"] == "done"
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, world'"


@pytest.mark.slow
def test_the_report_for_a_person_shows_plan_calls_diff_branch_and_tokens(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit(), done(usage={"input": 1234, "output": 56}))) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all"), home=home)
    assert outcome.code == 0, outcome.stderr
    for expected in (
        "the greeting is right",
        "text_editor: str_replace greet.py",
        "+    return 'hello, world'",
        "topic",
        "1,234",
        "git diff origin/main...origin/topic\n",
        "git merge origin/topic\n",
    ):
        assert expected in outcome.stdout


@pytest.mark.slow
def test_a_command_that_fails_is_told_with_its_exit_code(remote: Path, home: Path) -> None:
    fails, works = calls("run_command", {"command": "exit 3"}), calls("run_command", {"command": "true"})
    with run_scenario_server(script(plan(), fails, works, edit(), done())) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all"), home=home)
    assert outcome.code == 0, outcome.stderr
    assert "! run_command: exit 3  exit 3  (" in outcome.stderr
    assert "✓ run_command: true  (" in outcome.stderr
    assert "  ! tool   run_command: exit 3 [exit 3]\n" in outcome.stdout
    assert "  ✓ tool   run_command: true\n" in outcome.stdout
    assert "\n✓ Done  " in outcome.stdout
    commit = git(remote, "rev-parse", "topic")
    assert f"✓ pushed topic ({commit[:10]})\n" in outcome.stderr


REFUSAL = "I'm sorry, but I can't help with that."


def test_a_refusal_in_place_of_a_plan_is_told_as_one(remote: Path, home: Path) -> None:
    with run_scenario_server(script({"say": REFUSAL}, done())) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all"), home=home)
    assert outcome.code == 1, outcome.stderr
    assert "Plan" not in outcome.stderr + outcome.stdout
    assert REFUSAL in outcome.stdout
    assert "! The model refused to continue; its work is kept  1 turns" in outcome.stdout
    assert "uncommitted" not in outcome.stderr


def test_uncommitted_work_is_told_before_a_run_and_looking_at_it_starts_no_program(
    tmp_path: Path, remote: Path, home: Path
) -> None:
    checkout = tmp_path / "checkout"
    git(tmp_path, "clone", "--quiet", str(remote), str(checkout))
    trap = f"echo >> {tmp_path}/sprung; cat"
    for setting in ("core.fsmonitor", "filter.a.b.clean", "filter.a.b.process"):
        git(checkout, "config", setting, trap)
    hook = checkout / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\n{trap}\n", encoding="utf-8")
    hook.chmod(0o755)
    (checkout / ".git" / "info" / "attributes").write_text("* filter=a.b\n", encoding="utf-8")
    (checkout / "greet.py").write_text("a = 1\n", encoding="utf-8")
    (checkout / "new").mkdir()
    for name in ("new/a\nb", "new/é"):
        (checkout / name).write_text("x", encoding="utf-8")
    index = (checkout / ".git" / "index").read_bytes()
    with run_scenario_server(script({"say": REFUSAL})) as server:
        outcome = kakite(*run_arguments(checkout, server, "--approve", "all"), home=home)
    told = "The run works on the last commit, without your uncommitted changes to 3 files.\n"
    assert outcome.stderr.startswith(told), outcome.stderr
    assert not (tmp_path / "sprung").exists()
    assert (checkout / ".git" / "index").read_bytes() == index


def test_nothing_is_kept_of_a_run_in_a_repository_without_a_commit(tmp_path: Path, home: Path) -> None:
    empty = tmp_path / "empty.git"
    git(tmp_path, "init", "--quiet", "--bare", str(empty))
    with run_scenario_server(script(plan())) as server:
        outcome = kakite(*run_arguments(empty, server, "--approve", "all"), home=home)
    assert (outcome.code, "(empty_repository)" in outcome.stderr) == (3, True), outcome.stderr
    assert "Continue with" not in outcome.stderr
    assert kakite("agent", "list", "--json", home=home).json == []
    assert list(runs(home).iterdir()) == []


@pytest.mark.slow
def test_the_persons_own_checkout_is_not_touched(tmp_path: Path, home: Path) -> None:
    remote = make_remote(tmp_path, FILES)
    own = tmp_path / "own"
    git(tmp_path, "clone", "--quiet", str(remote), "own")
    (own / "greet.py").write_text("work in progress", encoding="utf-8")
    (own / "new").write_text("not yet added", encoding="utf-8")
    before = _state(own)
    with run_scenario_server(script(plan(), edit(), done())) as server:
        outcome = kakite(*run_arguments(own, server, "--approve", "all", "--json"), home=home, cwd=own)
    assert outcome.code == 0, outcome.stderr
    assert _state(own) == before
    assert git(own, "show", "topic:greet.py") == "def greet():\n    return 'hello, world'"


def _state(checkout: Path) -> tuple[object, ...]:
    files = {file.name: file.read_bytes() for file in checkout.iterdir() if file.is_file()}
    return (
        files,
        (checkout / ".git" / "index").read_bytes(),
        (checkout / ".git" / "HEAD").read_bytes(),
        (checkout / ".git" / "config").read_bytes(),
        git(checkout, "rev-parse", "HEAD"),
        git(checkout, "stash", "list"),
    )


LOOK = "env; cat /proc/self/cmdline /proc/$PPID/cmdline .git/config ~/.netrc; git config --list; ls -a ~"


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["local", "bubblewrap"])
def test_no_key_reaches_what_the_model_runs(sandbox: str, remote: Path, home: Path) -> None:
    look = LOOK
    if sandbox == "bubblewrap":
        skip_without(sandbox)
        look += f"; cat /proc/*/environ {home}/.netrc {home}/.local/state/kakite/runs/*/*"
    keys = {"OPENAI_API_KEY": KEY, "GITHUB_TOKEN": KEY, "KAKITE_TOKEN": KEY, "DB_PASSWORD": KEY}
    (home / ".netrc").write_text(f"machine x password {KEY}\n", encoding="utf-8")
    with run_scenario_server(
        script(plan(), calls("run_command", {"command": look}), edit(), done())
    ) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json", "--sandbox", sandbox)
        outcome = kakite(*arguments, home=home, env=keys)
        told = b"".join(request.body for request in server.requests).decode()
    assert outcome.code == 0, outcome.stderr
    assert "PATH=" in told
    assert KEY not in told
    assert [file for file in state_files(home) if KEY.encode() in file.read_bytes()] == []


def test_credentials_in_an_address_stay_out_of_the_workspace_and_the_record(
    tmp_path: Path, home: Path
) -> None:
    # Nothing listens there: the clone fails, and neither the message nor a file may hold the password.
    address = f"http://person:{KEY}@127.0.0.1:9/x.git"
    arguments = [
        "--repo",
        address,
        "--model",
        "openai:x",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--sandbox",
        "local",
        "--approve",
        "all",
    ]
    outcome = kakite("agent", "run", "task", *arguments, home=home)
    assert outcome.code == 3
    assert "clone_failed" in outcome.stderr
    assert KEY not in outcome.stdout + outcome.stderr
    assert [file for file in state_files(home) if KEY.encode() in file.read_bytes()] == []


@pytest.mark.slow
def test_a_repository_behind_a_password_is_cloned_and_pushed_to(
    tmp_path: Path, remote: Path, home: Path
) -> None:
    git(remote, "config", "http.receivepack", "true")
    look = {"command": "git config --list --show-origin; git remote -v; env; cat .git/config .git/FETCH_HEAD"}
    seen = {"expect": {"tool_result": {"lacks": [KEY]}}, **edit()}
    with (
        git_server(tmp_path, username="person", password=KEY) as host,
        run_scenario_server(script(plan(), calls("run_command", look), seen, done())) as server,
    ):
        address = f"http://person:{KEY}@{host}/remote.git"
        fixed = [
            "--branch",
            "topic",
            "--model",
            "openai:x",
            "--base-url",
            server.openai_url,
            "--sandbox",
            "local",
        ]
        outcome = kakite(
            "agent", "run", "t", "--repo", address, *fixed, "--approve", "all", "--json", home=home
        )
        assert server.violations == ()
    assert outcome.code == 0, outcome.stderr
    assert outcome.json["repository"] == f"http://{host}/remote.git"
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, world'"
    assert KEY not in outcome.stdout + outcome.stderr
    assert [file for file in state_files(home) if KEY.encode() in file.read_bytes()] == []


def test_a_wrong_password_ends_at_once_without_a_question(tmp_path: Path, remote: Path, home: Path) -> None:
    with git_server(tmp_path, username="person", password="another") as host:
        fixed = ["--model", "openai:x", "--base-url", "http://127.0.0.1:9/v1", "--sandbox", "local"]
        fixed += ["--approve", "all"]
        outcome = kakite(
            "agent", "run", "t", "--repo", f"http://person:{KEY}@{host}/remote.git", *fixed, home=home
        )
    assert outcome.code == 3
    assert "clone_failed" in outcome.stderr
    assert KEY not in outcome.stdout + outcome.stderr


def test_nothing_that_acts_runs_when_nobody_can_be_asked(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit(), done())) as server:
        outcome = kakite(*run_arguments(remote, server, "--json"), home=home)
        assert len(server.requests) == 0  # and so nothing was paid for
    assert (outcome.code, outcome.json["status"]) == (2, "error")
    assert outcome.json["error"]["code"] == "nobody_to_ask"
    assert all(f"--approve {mode}" in outcome.stderr for mode in ("edits", "all"))
    assert git(remote, "branch", "--list", "topic") == ""
    assert state_files(home) == []


@pytest.mark.slow
def test_a_run_of_which_everything_would_be_asked_goes_on_only_where_somebody_is(
    remote: Path, home: Path
) -> None:
    with run_scenario_server(script(plan(), edit(), done())) as server:
        terminal = _Terminal(run_arguments(remote, server), home)
        terminal.expect("yes, only this call")
        terminal.press("\x03")
        assert terminal.wait() == 130
        run_id = kakite("agent", "list", "--json", home=home).json[0]["id"]
        refused = kakite("agent", "resume", run_id, home=home, env={"OPENAI_API_KEY": "k"})
        assert (refused.code, "nobody_to_ask" in refused.stderr) == (2, True)
        more = ("agent", "resume", run_id, "--approve", "edits", "--json")
        ended = kakite(*more, home=home, env={"OPENAI_API_KEY": "k"})
    assert ended.json["status"] == "done", ended.stderr
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, world'"


@pytest.mark.slow
def test_edits_may_be_allowed_while_commands_are_not(remote: Path, home: Path) -> None:
    refused = {"expect": {"tool_result": {"is_error": True, "contains": ["approval_required"]}}, **done()}
    turns = [plan(), edit(), calls("run_command", {"command": "touch ran"}), refused]
    with run_scenario_server(script(*turns)) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "edits", "--json"), home=home)
        assert server.violations == ()
    assert outcome.code == 0, outcome.stderr
    assert git(remote, "ls-tree", "--name-only", "topic").split() == ["README.md", "greet.py"]


@pytest.mark.slow
def test_someone_elses_push_is_rebased_onto(tmp_path: Path, remote: Path, home: Path) -> None:
    theirs = commit_file(tmp_path, remote, "topic", "README.md", "# theirs\n")
    with run_scenario_server(script(plan(), edit(), done(pause=2.0))) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json")
        running = _start(arguments, home)
        _wait_for(lambda: len(server.requests) >= 2)
        latest = commit_file(tmp_path, remote, "topic", "OTHER.md", "other\n")
        stdout, stderr = running.communicate(timeout=WITHIN)
    assert running.returncode == 0, stderr
    assert json.loads(stdout)["pushed"]
    assert git(remote, "rev-parse", "topic~1") == latest
    assert git(remote, "rev-parse", "topic~2") == theirs


@pytest.mark.slow
def test_a_conflict_is_given_back_to_the_model(tmp_path: Path, remote: Path, home: Path) -> None:
    resolve = {
        "expect": {"last_contains": ["conflict", "`greet.py`"], "last_lacks": ["README.md"]},
        **calls("text_editor", {"command": "view", "path": "greet.py"}),
    }
    mend = {
        "expect": {"tool_result": {"contains": ["<<<<<<<", "'good day'", "'hello, world'", ">>>>>>>"]}},
        **calls(
            "text_editor",
            {
                "command": "create",
                "path": "greet.py",
                "overwrite": True,
                "file_text": "def greet():\n    return 'good day, world'\n",
            },
        ),
    }
    turns = [plan(), edit(), done(pause=2.0), resolve, mend, done()]
    with run_scenario_server(script(*turns)) as server:
        running = _start(run_arguments(remote, server, "--approve", "all", "--json"), home)
        _wait_for(lambda: len(server.requests) >= 2)
        theirs = commit_file(tmp_path, remote, "topic", "greet.py", "def greet():\n    return 'good day'\n")
        stdout, stderr = running.communicate(timeout=WITHIN)
        assert server.violations == ()
    assert running.returncode == 0, stderr
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'good day, world'"
    assert git(remote, "rev-parse", "topic~1") == theirs
    assert "+    return 'good day, world'" in json.loads(stdout)["diff"]


@pytest.mark.slow
def test_a_conflict_that_is_not_resolved_is_not_pushed(tmp_path: Path, remote: Path, home: Path) -> None:
    turns = [plan(), edit(), done(pause=2.0), *[done()] * 5]
    with run_scenario_server(script(*turns)) as server:
        running = _start(run_arguments(remote, server, "--approve", "all", "--json"), home)
        _wait_for(lambda: len(server.requests) >= 2)
        theirs = commit_file(tmp_path, remote, "topic", "greet.py", "def greet():\n    return 'good day'\n")
        stdout, _stderr = running.communicate(timeout=WITHIN)
    assert running.returncode == 1
    assert json.loads(stdout)["status"] == "conflict"
    assert git(remote, "rev-parse", "topic") == theirs


@pytest.mark.slow
def test_a_failing_check_goes_back_to_the_model(remote: Path, home: Path) -> None:
    first = {"say": PLAN.replace('"check": ""', '"check": "grep -q moon greet.py"')}
    mended = edit("'hello, world'", "'hello, moon'")
    told = {"expect": {"last_contains": ["grep -q moon greet.py", "exit code"]}, **mended}
    with run_scenario_server(script(first, edit(), done(), told, done())) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json"), home=home)
        assert server.violations == ()
    assert outcome.code == 0, outcome.stderr
    assert [step["ok"] for step in outcome.json["steps"] if step["kind"] == "check"] == [
        False,
        True,
        True,
    ]  # the last one on a clean checkout
    assert outcome.json["findings"] == []


@pytest.mark.slow
def test_interrupted_it_leaves_no_process_says_how_to_resume_and_resumes(remote: Path, home: Path) -> None:
    turns = [plan(), edit(), calls("run_command", {"command": "echo $$; sleep 654"})]
    with run_scenario_server(script(*turns)) as server:
        running = _start(run_arguments(remote, server, "--approve", "all"), home)
        _wait_for(lambda: _processes("sleep 654"))
        running.send_signal(signal.SIGINT)
        _stdout, stderr = running.communicate(timeout=WITHIN)
        assert running.returncode == 130
        assert not _processes("sleep 654")
        assert not _processes(str(home))
        assert "Traceback" not in stderr
        resume = re.search(r"kakite (agent resume \w+)", stderr)
        assert resume
        rest = {"expect": {"tool_result": {"is_error": True, "contains": ["interrupted"]}}, **done()}
        server.play(script(rest))
        outcome = kakite(*resume[1].split(), "--base-url", server.openai_url, "--json", home=home)
        assert server.violations == ()
    assert outcome.code == 0, outcome.stderr
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, world'"


@pytest.mark.parametrize("given", [[], ["--repo", "."], ["--repo", "../.."]])
def test_in_a_folder_of_a_repository_its_repository_is_meant(given: list[str], home: Path) -> None:
    git(home, "init", "--quiet")
    below = home / "a" / "b"
    below.mkdir(parents=True)
    outside = ["--model", "openai:x", "--base-url", "http://127.0.0.1:9/v1", "--sandbox", "local"]
    outcome = kakite("agent", "run", "t", *given, *outside, "--approve", "all", home=home, cwd=below)
    assert (outcome.code, "(empty_repository)" in outcome.stderr) == (3, True), outcome.stderr
    assert f"`{home}`" in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made_by", "library", "extra"),
    [
        (
            "pipx_metadata.json",
            "pipx inject kakite 'mistralai>=3.1.0,<4'",
            "pipx runpip kakite install 'kakite[agent]'",
        ),
        (
            "uv-receipt.toml",
            f"uv pip install --python {sys.executable} 'mistralai>=3.1.0,<4'",
            f"uv pip install --python {sys.executable} 'kakite[agent]'",
        ),
        (
            "pyvenv.cfg",
            "pip install 'mistralai>=3.1.0,<4', in the environment that has kakite",
            "pip install 'kakite[agent]', in the environment that has kakite",
        ),
    ],
)
def test_a_library_that_is_missing_is_added_as_kakite_was_installed(
    made_by: str, library: str, extra: str, remote: Path, home: Path
) -> None:
    (home / made_by).touch()
    words = ["agent", "run", "t", "--repo", str(remote), "--model", "mistral:x", "--approve", "all"]
    for missing, way in (("mistralai", library), ("pydantic_ai", extra)):
        lacking = (
            f"import runpy, sys; sys.modules[{missing!r}] = None; sys.prefix = {str(home)!r};"
            f"sys.argv = ['kakite', *{words!r}]; "
            "runpy.run_module('kakite', run_name='__main__', alter_sys=True)"
        )
        command = [sys.executable, "-c", lacking]
        done = subprocess.run(
            command, env=environment(home), capture_output=True, timeout=90, check=False, encoding="utf-8"
        )
        assert (done.returncode, "(model_no_library)" in done.stderr) == (2, True), done.stderr
        assert f"hint: {way}\n" in done.stderr


@pytest.mark.slow
def test_an_address_without_its_v1_is_told_and_the_command_to_go_on_has_what_was_given(
    remote: Path, home: Path
) -> None:
    with run_scenario_server(script(plan(), edit(), done())) as server:
        bare = server.openai_url.removesuffix("/v1")
        begun = run_arguments(remote, server, "--approve", "all")
        begun[begun.index("--base-url") + 1] = bare
        outcome = kakite(*begun, home=home)
    assert (outcome.code, "(model_unknown)" in outcome.stderr) == (3, True), outcome.stderr
    assert f"below /v1: {bare}/v1\n" in outcome.stderr
    assert f" --model openai:scripted --base-url {bare}\n" in outcome.stderr


@pytest.mark.slow
def test_killed_outright_it_leaves_no_process_and_resumes(remote: Path, home: Path) -> None:
    with run_scenario_server(
        script(plan(), edit(), calls("run_command", {"command": "sleep 653"}))
    ) as server:
        running = _start(run_arguments(remote, server, "--approve", "all"), home)
        _wait_for(lambda: _processes("sleep 653"))
        running.kill()
        running.communicate(timeout=WITHIN)
        _wait_for(lambda: not _processes("sleep 653") and not _processes(str(home)))
        listed = kakite("agent", "list", "--json", home=home).json
        server.play(script(done()))
        outcome = kakite("agent", "resume", listed[0]["id"], "--json", home=home)
    assert outcome.code == 0, outcome.stderr
    assert outcome.json["pushed"]


@pytest.mark.slow
def test_a_model_that_cannot_be_reached_is_named_and_the_run_goes_on_later(remote: Path, home: Path) -> None:
    arguments = ["--repo", str(remote), "--branch", "topic", "--model", "openai:x", "--sandbox", "local"]
    nowhere = ["--base-url", "http://127.0.0.1:9/v1", "--json"]
    outcome = kakite("agent", "run", "t", *arguments, *nowhere, "--approve", "all", home=home)
    assert outcome.code == 3
    run_id = kakite("agent", "list", "--json", home=home).json[0]["id"]
    told = f"\nContinue with: kakite agent resume {run_id} --base-url http://127.0.0.1:9/v1\n"
    assert told in outcome.stderr
    assert "openai:x at http://127.0.0.1:9/v1" in outcome.stderr
    assert (outcome.json["status"], outcome.json["error"]["code"]) == ("error", "model_unreachable")
    assert (outcome.json["pushed"], outcome.json["commit"]) == (False, None)
    assert "failed: model_unreachable" in kakite("agent", "list", home=home).stdout
    assert "BRANCH" not in kakite("agent", "list", home=home).stdout  # heads are for terminals
    shown = kakite("agent", "show", run_id[:4], home=home)
    assert f"id         {run_id}\n" in shown.stdout
    assert "failed     model_unreachable\n" in shown.stdout
    logs = kakite("agent", "logs", run_id, home=home)
    assert (logs.code, f"kakite agent resume {run_id}" in logs.stderr) == (2, True), logs.stderr
    nothing = kakite("agent", "show", "nothing", home=home)
    assert (nothing.code, "(task_unknown)" in nothing.stderr) == (2, True)
    assert "workflow" not in f"{logs.stderr}{nothing.stderr}"
    with run_scenario_server(script(plan(), edit(), done())) as server:
        more = ["--base-url", server.openai_url, "--approve", "all", "--json"]
        assert kakite("agent", "resume", run_id[:5], *more, home=home).code == 0
    assert "failed" not in kakite("agent", "list", home=home).stdout


@pytest.mark.slow
def test_the_limit_of_turns_stops_a_run_which_then_goes_on(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit(), done())) as server:
        outcome = kakite(
            *run_arguments(remote, server, "--approve", "all", "--json", "--max-turns", "2"), home=home
        )
        assert (outcome.code, outcome.json["status"], outcome.json["pushed"]) == (1, "limit", False)
        again = kakite("agent", "resume", outcome.json["id"], "--max-turns", "9", "--json", home=home)
    assert (again.code, again.json["status"], again.json["pushed"]) == (0, "done", True)


def network_of(server: ScenarioServer) -> list[str]:
    """Return what commands said of their network, as the model was told it."""
    found = re.findall(r"network=(\w*)", json.dumps(server.requests[-1].json))
    return [word for word in found if word]


@pytest.mark.slow
def test_what_commands_reach_is_said_by_flags_and_may_be_said_anew(remote: Path, home: Path) -> None:
    skip_without("bubblewrap")
    tell = calls("run_command", {"command": "echo network=${KAKITE_NETWORK}; env | grep -c _PROXY= || true"})
    with run_scenario_server(script(plan(), tell, tell, edit(), done())) as server:
        flags = ["--network", "registries", "--hosts", "a.example,*.b.example", "--hosts", "c.example:81"]
        begin = run_arguments(remote, server, "--approve", "all", "--json", "--max-turns", "2", *flags)
        first = kakite(*begin, "--sandbox", "bubblewrap", home=home)
        assert first.json["status"] == "limit", first.stderr
        stored = RunFolder(runs(home) / first.json["id"]).load()
        assert stored.task.hosts == ("a.example", "*.b.example", "c.example:81")
        again = ["agent", "resume", first.json["id"], "--max-turns", "9", "--json"]
        wrong = kakite(*again, "--network", "all", home=home)
        assert (wrong.code, "bad_setting" in wrong.stderr) == (2, True)
        second = kakite(*again, "--network", "off", home=home)
    assert (second.json["status"], second.json["sandbox"]) == ("done", "bubblewrap"), second.stderr
    assert network_of(server) == ["registries", "off"]


def runs(home: Path) -> Path:
    return home / ".local" / "state" / "kakite" / "runs"


@pytest.mark.slow
@pytest.mark.timeout(900)  # may build the image
def test_a_run_goes_on_in_the_sandbox_that_it_was_begun_in(remote: Path, home: Path, docker: Engine) -> None:
    skip_without("bubblewrap")
    with run_scenario_server(script(plan(), edit(), edit(old="world", new="all"), done())) as server:
        begin = run_arguments(remote, server, "--approve", "all", "--json", "--max-turns", "2")
        first = kakite(*begin, "--sandbox", "auto", home=home).json
        assert (first["status"], first["sandbox"]) == ("limit", "bubblewrap")
        env = {"DOCKER_HOST": docker.environ["DOCKER_HOST"]}
        again = ["agent", "resume", first["id"], "--json", "--max-turns"]
        second = kakite(*again, "3", home=home, env=env).json
        assert (second["status"], second["sandbox"]) == ("limit", "bubblewrap")
        third = kakite(*again, "9", "--sandbox", "container", home=home, env=env).json
    assert (third["status"], third["sandbox"]) == ("done", "container")
    assert git(remote, "show", "topic:greet.py") == "def greet():\n    return 'hello, all'"


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["--repo", "no/such/place"], 2, "bad_repository"),
        (["--repo", ".", "--model", "openai:x"], 2, "model_no_key"),
        (["--repo", "."], 2, "model_missing"),
        (["--repo", ".", "--model", "opnai:x"], 2, "model_unknown_provider"),
        (["--repo", ".", "--branch", "a..b"], 2, "bad_branch"),
        (
            ["--repo", ".", "--model", "openai:x", "--base-url", "http://127.0.0.1:9", "--sandbox", "moon"],
            2,
            "unknown_sandbox",
        ),
        (["--repo", ".."], 2, "without a git repository"),
        (["--repo", ".", "--approve", "some"], 2, "error (bad_setting): `--approve`: it takes 'ask', "),
        (["--repo", ".", "--base-url", "127.0.0.1:9/v1"], 2, "`--base-url`: an address begins with http://"),
        (["--repo", ".", "--network", "all"], 2, "`--network`: "),
        (["--repo", ".", "--hosts", "a.example,https://b.example"], 2, "bad_setting"),
        (["--repo", ".", "--setup", "on"], 2, "bad_setting"),
    ],
)
def test_wrong_usage_is_named_before_anything_is_done(
    arguments: list[str], code: int, named: str, home: Path
) -> None:
    git(home, "init", "--quiet")
    outcome = kakite("agent", "run", "task", *arguments, home=home)
    assert (outcome.code, outcome.stdout) == (code, "")
    assert named in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert state_files(home) == []


def test_without_a_key_the_variables_and_the_demo_are_named(remote: Path, home: Path) -> None:
    outcome = kakite("agent", "run", "t", "--repo", str(remote), "--model", "anthropic:x", home=home)
    assert "ANTHROPIC_API_KEY" in outcome.stderr
    assert "kakite agent demo" in outcome.stderr


@pytest.mark.slow
def test_a_repositorys_own_settings_can_narrow_and_never_widen(remote: Path, home: Path) -> None:
    text = "approve: all\nbase_url: http://127.0.0.1:1/v1\nmax_turns: 2\n"
    (home / "kakite.yaml").write_text(text, encoding="utf-8")
    command = calls("run_command", {"command": "touch ran"})
    with run_scenario_server(script(plan(), command, done())) as server:
        own = {"KAKITE_APPROVE": "edits"}
        outcome = kakite(*run_arguments(remote, server, "--json"), home=home, env=own)
    assert outcome.json["status"] == "limit"
    assert outcome.json["steps"][-1]["code"] == "approval_required"
    assert "`approve` is ignored" in outcome.stderr


@pytest.mark.slow
def test_a_run_that_reached_a_limit_keeps_its_work_and_goes_on_when_more_is_allowed(
    remote: Path, home: Path
) -> None:
    turns = [plan(), edit(), edit("greet()", "greet(name)"), done(usage={"input": 700, "output": 70})]
    with run_scenario_server(script(*turns)) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json", "--budget-calls", "1")
        stopped = kakite(*arguments, home=home)
        assert stopped.code == 1
        assert (stopped.json["status"], stopped.json["reached"]) == ("budget", ["calls"])
        assert stopped.json["spent"]["calls"] == 1
        again = f"kakite agent resume {stopped.json['id']} --budget-calls 2"
        assert again in stopped.stderr
        ended = kakite(*again.split()[1:], "--json", home=home)
        assert server.violations == ()
    assert (ended.json["status"], ended.json["reached"], ended.json["spent"]["calls"]) == ("done", [], 2)
    assert ended.json["spent"]["tokens"] == 770
    assert git(remote, "show", "topic:greet.py").startswith("def greet(name):")


@pytest.mark.slow
def test_the_limit_of_a_day_holds_for_all_tasks_together(remote: Path, home: Path) -> None:
    turns = [plan(), edit(), done(usage={"input": 700, "output": 70}), plan(), edit(), done()]
    with run_scenario_server(script(*turns)) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json", "--daily-tokens", "700")
        first = kakite(*arguments, home=home)
        second = kakite(*arguments, "--branch", "other", home=home)
        third = kakite(*arguments, "--branch", "third", "--daily-tokens", "2000", home=home)
    assert (first.json["status"], second.json["status"], third.json["status"]) == ("done", "budget", "done")
    assert second.json["reached"] == ["daily_tokens"]
    assert second.json["usage"]["requests"] == 0


@pytest.mark.slow
def test_a_repositorys_own_settings_lower_a_limit_and_never_raise_it(remote: Path, home: Path) -> None:
    (home / "kakite.yaml").write_text("budget_calls: 1\ndaily_usd: 3\n", encoding="utf-8")
    with run_scenario_server(script(plan(), edit(), edit("greet()", "greet(name)"))) as server:
        limits = ("--budget-usd", "5", "--budget-minutes", "9")
        outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json", *limits), home=home)
    assert outcome.json["status"] == "budget"
    assert outcome.json["budget"] == {"usd": 5.0, "tokens": None, "seconds": 540.0, "calls": 1}
    assert outcome.json["daily"]["usd"] == 3.0
    (home / "kakite.yaml").write_text("daily_usd: 3\n", encoding="utf-8")
    with run_scenario_server(script(plan(), edit(), done())) as server:
        own = {"KAKITE_DAILY_USD": "2"}
        run = kakite(*run_arguments(remote, server, "--approve", "all", "--json"), home=home, env=own)
    assert run.json["daily"]["usd"] == 2.0


@pytest.mark.slow
def test_a_price_that_nobody_knows_is_said_once_and_stops_nothing(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit(), done(usage={"input": 700, "output": 70}))) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json", "--budget-usd", "0.01")
        outcome = kakite(*arguments, home=home)
    assert outcome.json["status"] == "done"
    assert outcome.stderr.count("No price is known for `openai:scripted`") == 1


@pytest.mark.slow
def test_a_model_that_goes_round_in_circles_is_told_and_then_stopped(remote: Path, home: Path) -> None:
    view = calls("text_editor", {"command": "view", "path": "greet.py"})
    turns = [plan(), view, view, view, {**view, "expect": {"last_contains": ["three times"]}}, view]
    with run_scenario_server(script(*turns, edit(), done())) as server:
        outcome = kakite(*run_arguments(remote, server, "--approve", "all", "--json"), home=home)
        assert (outcome.code, outcome.json["status"]) == (1, "stuck")
        ended = kakite("agent", "resume", outcome.json["id"], "--json", home=home)
        assert server.violations == ()
    assert ended.json["status"] == "done"


@pytest.mark.slow
def test_a_conversation_longer_than_the_model_takes_is_condensed_and_the_work_goes_on(
    remote: Path, home: Path
) -> None:
    much = calls("run_command", *({"command": f"seq {number}000 {number}900"} for number in range(11, 21)))
    after = {"last_contains": ["To save room", "Greet the world"]}
    turns = [plan(), much, {"say": "I counted."}, {**edit(), "expect": after}, done()]
    with run_scenario_server(script(*turns)) as server:
        arguments = run_arguments(remote, server, "--approve", "all", "--json", "--context-tokens", "9000")
        outcome = kakite(*arguments, home=home)
    assert outcome.json["status"] == "done", outcome.stderr


def test_an_unknown_setting_is_an_error_that_names_the_nearest(home: Path) -> None:
    git(home, "init", "--quiet")
    (home / "own.yaml").write_text("aprove: all\n", encoding="utf-8")
    outcome = kakite("agent", "run", "t", "--repo", ".", home=home, env={"KAKITE_CONFIG": "own.yaml"})
    assert outcome.code == 2
    assert "unknown_setting" in outcome.stderr
    assert "`approve`" in outcome.stderr


@pytest.mark.slow
def test_at_a_terminal_the_person_is_asked_and_sees_the_diff(remote: Path, home: Path) -> None:
    turns = [plan(), edit(), calls("run_command", {"command": "echo ran > proof"}), done()]
    with run_scenario_server(script(*turns)) as server:
        terminal = _Terminal(run_arguments(remote, server, "--json"), home)
        terminal.expect("+    return 'hello, world'")
        terminal.expect("yes, only this call")
        terminal.press("y\n")
        terminal.expect("echo ran > proof")
        terminal.expect("It runs on this machine, without a sandbox.")
        terminal.press("r\n")
        terminal.expect("Why not?")
        terminal.press("not needed\n")
        assert terminal.wait() == 0, terminal.seen
        told = server.requests[-1].body.decode()
    assert "not needed" in told
    assert git(remote, "ls-tree", "--name-only", "topic").split() == ["README.md", "greet.py"]


@pytest.mark.slow
def test_interrupted_at_the_question_it_ends_at_once(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit())) as server:
        terminal = _Terminal(run_arguments(remote, server), home)
        terminal.expect("yes, only this call")
        terminal.press("\x03")
        assert terminal.wait() == 130
    assert "kakite agent resume" in terminal.seen


class _Terminal:
    """A person at a terminal: reads what appears, presses keys."""

    def __init__(self, arguments: list[str], home: Path) -> None:
        self._screen, inner = pty.openpty()
        env = environment(home, TERM="xterm", COLUMNS="120", OPENAI_API_KEY="k")
        self._program = start_at_terminal(argv(*arguments), env, home, inner)
        self.seen = ""
        self._answered = 0

    def expect(self, text: str) -> None:
        deadline = time.monotonic() + WITHIN
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not appear in:\n{self.seen}"
            assert self._read(), f"ended without {text!r}:\n{self.seen}"

    def press(self, keys: str) -> None:
        """Press keys at the next prompt: what is typed before it counts for nothing."""
        while not self.seen[self._answered :].endswith(("> ", "Why not? ")):
            assert self._read(), f"ended without a prompt:\n{self.seen}"
        self._answered = len(self.seen)
        os.write(self._screen, keys.encode())

    def wait(self) -> int:
        while self._read():
            pass
        return self._program.wait(timeout=WITHIN)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], WITHIN)
        assert ready, self.seen
        try:
            data = os.read(self._screen, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))
        return bool(data)


def _start(arguments: list[str], home: Path) -> subprocess.Popen[str]:
    return popen(
        argv(*arguments),
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        select.select([], [], [], 0.02)


def _processes(marker: str) -> list[int]:
    """Return the processes whose command line holds the marker, without ourselves."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder.name.isdigit() and marker in words and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


@pytest.mark.slow
def test_ending_the_input_at_the_question_interrupts_the_run(remote: Path, home: Path) -> None:
    with run_scenario_server(script(plan(), edit())) as server:
        terminal = _Terminal(run_arguments(remote, server), home)
        terminal.expect("yes, only this call")
        terminal.press("\x04")
        assert terminal.wait() == 130, terminal.seen
    assert "kakite agent resume" in terminal.seen


def test_commands_import_the_run_s_copy_not_the_editable_install(remote: Path, home: Path) -> None:
    checkout, packages = home / "checkout", home / "venv/lib/python3.11/site-packages"
    git(home, "clone", "--quiet", str(remote), str(checkout))
    packages.mkdir(parents=True)
    (packages / "greet.pth").write_text(f"{checkout}\n", encoding="utf-8")
    program = f"import sys; sys.path.append({str(checkout)!r}); import greet; print(greet.__file__)"
    command = calls("run_command", {"command": [sys.executable, "-c", program], "cwd": ".git"})
    with run_scenario_server(script(plan(), edit(), command, done())) as server:
        arguments = run_arguments(checkout, server, "--approve", "all", "--no-push", "--json")
        path = f"{home / 'venv/bin'}:{os.environ['PATH']}"
        outcome = kakite(*arguments, home=home, env={"PATH": path})
    assert outcome.code == 0, outcome.stderr
    told = json.loads(server.requests[-1].body)["messages"]
    assert f"/runs/{outcome.json['id']}/task/project/greet.py" in str(told)
