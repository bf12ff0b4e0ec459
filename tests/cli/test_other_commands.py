"""``kakite doctor``, ``serve``, ``agent demo`` and what all commands have in common."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kakite import __version__
from tests.cli.program import environment, kakite
from tests.repositories import git


def test_the_version_is_told(tmp_path: Path) -> None:
    assert kakite("--version", home=tmp_path).stdout == f"kakite {__version__}\n"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (
            (),
            [
                "edit",
                "chat",
                "acp",
                "serve",
                "host",
                "agent",
                "review",
                "debate",
                "collab",
                "ci",
                "sandbox",
                "install",
                "models",
                "undo",
                "history",
                "doctor",
            ],
        ),
        (("agent",), ["run", "demo", "resume", "list", "worker", "submit"]),
    ],
)
def test_the_help_lists_what_is_needed_most_first(
    words: tuple[str, ...], first: list[str], tmp_path: Path
) -> None:
    shown = kakite(*words, "--help", home=tmp_path).stdout.partition("Commands")[2]
    assert re.findall(r"^│ ([a-z]+) ", shown, re.MULTILINE)[: len(first)] == first


@pytest.mark.parametrize("words", ["", "edit", "serve", "undo", "agent list", "agent worker", "debate ask"])
def test_the_help_names_what_is_typed_and_no_type_of_python(words: str, tmp_path: Path) -> None:
    shown = kakite(*words.split(), "--help", home=tmp_path).stdout
    assert "--help" in shown
    assert re.findall(r"<[a-z].*?>", shown) == []


def test_the_help_of_debates_says_where_their_options_stand(tmp_path: Path) -> None:
    told = " ".join(kakite("debate", "--help", home=tmp_path).stdout.split())
    assert "`kakite debate ask --help` shows its options, such as --transcript" in told


def test_doctor_tells_what_is_here_and_never_a_key(tmp_path: Path) -> None:
    outcome = kakite("doctor", "--json", home=tmp_path, env={"ANTHROPIC_API_KEY": "sk-ant-secret"})
    assert outcome.code == 0, outcome.stdout
    assert outcome.json["ok"]
    found = {(finding["topic"], finding["name"]): finding for finding in outcome.json["findings"]}
    assert found["programs", "git"]["state"] == "ok"
    assert found["sandboxes", "local"]["state"] == "ok"
    assert {("system", "path confinement"), ("system", "Landlock")} <= set(found)
    assert found["models", "anthropic"]["state"] == "ok"
    assert found["models", "openai"]["state"] == "optional"
    assert "OPENAI_API_KEY" in found["models", "openai"]["remedy"]
    assert "secret" not in outcome.stdout
    assert "secret" not in kakite("doctor", home=tmp_path, env={"ANTHROPIC_API_KEY": "sk-ant-secret"}).stdout


def test_doctor_tells_that_the_system_forbids_bubblewrap_and_what_allows_it(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    said = "bwrap: setting up uid map: Permission denied"  # Ubuntu 24.04, as it is installed
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}:{environment(tmp_path)['PATH']}"
    outcome = kakite("doctor", "--json", home=tmp_path, env={"PATH": path})
    (told,) = (each["told"] for each in outcome.json["findings"] if each["name"] == "bubblewrap")
    assert "uid map: Permission denied; this system forbids bubblewrap to make user namespaces" in told
    assert "AppArmor profile" in told
    assert "install bubblewrap" not in told


@pytest.mark.slow
def test_doctor_tells_each_extra_and_the_key_that_the_readme_names(tmp_path: Path) -> None:
    lacking = (
        "import runpy, sys; sys.modules['github'] = None; sys.argv = ['kakite', 'doctor', '--json'];"
        "runpy.run_module('kakite', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", lacking],
        env=environment(tmp_path),
        capture_output=True,
        timeout=90,
        check=False,
    )
    found = {(each["topic"], each["name"]): each for each in json.loads(done.stdout)["findings"]}
    extras = {name: each["state"] for (topic, name), each in found.items() if topic == "extras"}
    assert extras.pop("forges") == "optional"
    assert extras == dict.fromkeys(["agent", "collab", "debate", "temporal", "telemetry", "syntax"], "ok")
    expected = "pip install 'kakite[forges]', in the environment that has kakite"
    assert found["extras", "forges"]["remedy"] == expected
    assert "GEMINI_API_KEY" in found["models", "google"]["remedy"]


BROKEN = [
    ("model: openai:x\nhosts: [a\nx: 1\n", "`kakite.yaml` cannot be read: line 3: expected ',' or ']'", ""),
    ("# mine\n\nappprove: all\n", "`kakite.yaml`, line 3: there is no setting `appprove`", "`approve`?"),
    ("\napprove: never\n", "`kakite.yaml`, line 2: `approve`: it takes 'ask', 'edits' or 'all'", ""),
    (
        "text_editor_mcp:\n  enbled: no\n",
        "`kakite.yaml`, line 1: there is no setting `text_editor_mcp.enbled`",
        "did you mean `enabled`?",
    ),
    (
        "repositories:\n  /a/*:\n    sandbox: local\n    network: wide\n",
        "`kakite.yaml`, `repositories`, `/a/*`, line 4: `network`: it takes 'off'",
        "",
    ),
]


@pytest.mark.parametrize(("text", "told", "remedy"), BROKEN)
def test_doctor_names_a_broken_file_of_settings_with_its_line(
    text: str, told: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "kakite.yaml").write_text(text, encoding="utf-8")
    outcome = kakite("doctor", "--json", home=tmp_path, cwd=tmp_path)
    assert (outcome.code, outcome.json["ok"]) == (1, False), outcome.stderr
    (found,) = (each for each in outcome.json["findings"] if each["topic"] == "settings")
    assert (found["name"], found["state"]) == ("kakite.yaml", "broken")
    assert found["told"].startswith(told), found["told"]
    assert remedy in found["remedy"]
    assert "debates" not in {each["topic"] for each in outcome.json["findings"]}  # that needs the settings
    shown = kakite("doctor", home=tmp_path, cwd=tmp_path, env={"COLUMNS": "200"}).stdout
    assert "✗  kakite.yaml" in shown
    assert told in shown


def test_doctor_names_each_broken_file_of_settings(tmp_path: Path) -> None:
    own = tmp_path / ".config" / "kakite" / "kakite.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("modl: a\n", encoding="utf-8")
    lost = str(tmp_path / "lost.yaml")
    findings = kakite("doctor", "--json", home=tmp_path, env={"KAKITE_CONFIG": lost}).json["findings"]
    told = [each["told"] for each in findings if each["topic"] == "settings"]
    assert [each.partition(":")[0] for each in told] == [f"`{own}`, line 1", f"`{lost}` cannot be read"]


def test_doctor_cuts_no_path_in_two(tmp_path: Path) -> None:
    outcome = kakite("doctor", home=tmp_path, env={"COLUMNS": "40"})
    assert f"({sys.executable})" in outcome.stdout


def test_doctor_names_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    outcome = kakite("doctor", "--json", home=tmp_path, env={"PATH": str(tmp_path)})
    assert outcome.code == 1
    git = next(finding for finding in outcome.json["findings"] if finding["name"] == "git")
    assert (git["state"], git["remedy"]) == ("missing", "apt install git")


@pytest.mark.slow
def test_the_demo_does_the_whole_job_and_says_that_it_is_scripted(tmp_path: Path) -> None:
    outcome = kakite("agent", "demo", "--sandbox", "local", "--json", home=tmp_path)
    assert outcome.code == 0, outcome.stderr
    report = outcome.json
    assert (report["status"], report["pushed"]) == ("done", True)
    codes = [step["code"] for step in report["steps"] if not step["ok"]]
    assert codes == ["ambiguous"]
    # In the model's own sandbox, and once more on a clean checkout.
    assert [step["kind"] for step in report["steps"]][-4:] == ["rebase", "check", "check", "push"]
    assert "scripted" in outcome.stderr
    told = " ".join(outcome.stderr.replace("│", " ").split())
    assert "is an issue, and becomes a pushed branch with a page to review" in told  # nothing is cut off
    assert "What is real: git, the MCP server" in told  # there is no sandbox
    assert "forgiven: indentation" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_demo_in_a_sandbox_that_there_is_none_of_is_an_error_before_anything_else(tmp_path: Path) -> None:
    outcome = kakite("agent", "demo", "--sandbox", "nope", home=tmp_path)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error (")
    assert "nope" in outcome.stderr


@pytest.mark.slow
def test_the_demo_shows_the_issue_and_the_page_that_came_of_it(tmp_path: Path) -> None:
    outcome = kakite("agent", "demo", "--sandbox", "local", home=tmp_path)
    assert outcome.code == 0, outcome.stderr
    assert outcome.stderr.splitlines()[-1].endswith(": done (branch kakite/1-make-the-failing-tests-pass)")
    issue, _, page = outcome.stdout.partition("forge/issues/001")[2].partition("forge/pulls/001.md")
    assert "labels: [kakite:done]" in issue
    for told in ("draft: false", "state: open", "- [x] Run the tests", "`python3 -m unittest -q` went well"):
        assert told in page
    assert "git merge origin/kakite/1-make-the-failing-tests-pass\n" in page
    assert "--approve all --until-idle" in page


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["serve", "--root", "no/such/folder"], "file_not_found"),
        (["serve", "--root", ".", "--tools", "x"], "bad_usage"),
    ],
)
def test_a_server_that_cannot_serve_says_why(arguments: list[str], named: str, tmp_path: Path) -> None:
    outcome = kakite(*arguments, home=tmp_path)
    assert outcome.code != 0
    assert named in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_without_git_the_run_says_how_to_get_it(tmp_path: Path) -> None:
    model = ["--model", "openai:x", "--base-url", "http://127.0.0.1:9/v1", "--sandbox", "local"]
    model += ["--approve", "all"]
    nowhere = {"PATH": str(tmp_path / "nowhere")}
    git(tmp_path, "init", "--quiet")
    outcome = kakite("agent", "run", "t", "--repo", str(tmp_path), *model, home=tmp_path, env=nowhere)
    assert outcome.code == 3
    assert "git_missing" in outcome.stderr


def test_a_log_level_that_there_is_not_is_a_wrong_setting(tmp_path: Path) -> None:
    outcome = kakite("doctor", home=tmp_path, env={"KAKITE_LOG": "verbose"})
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "bad_setting" in outcome.stderr
    assert "Traceback" not in outcome.stderr
