"""``kakite host`` with files that are missing, broken, hostile, or those of other programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.hosted import SECRET, Hosted
from tests.host.test_connection import json_values
from tests.lanes import examples


@pytest.fixture
def project(tmp_path: Path) -> Hosted:
    return Hosted(tmp_path)


# Configurations that are none


def test_without_any_configuration_it_is_said_what_to_do(project: Hosted) -> None:
    outcome = project.host("tools")
    assert (outcome.code, outcome.stdout) == (0, "")
    assert ".pi/mcp-servers.json" in outcome.stderr
    assert project.host("tools", "--json").json == {"servers": [], "problems": []}
    checked = project.host("check", "--json")
    assert (checked.code, checked.json["servers"], checked.json["problems"]) == (0, [], [])
    assert any(each["file"] == str(project.file) and not each["there"] for each in checked.json["files"])
    assert project.host("accept", "--all", "--json").json == {"accepted": []}


def test_a_configuration_that_cannot_be_read_is_not_told_as_none(project: Hosted) -> None:
    project.file.parent.mkdir()
    project.file.write_text("{bad", encoding="utf-8")
    for words in (["tools"], ["accept"]):
        outcome = project.host(*words)
        assert (outcome.code, f"{project.file}:1: error: " in outcome.stderr) == (1, True), outcome.stderr
        assert "no servers are configured" not in outcome.stderr
        assert "nothing waits" not in outcome.stderr


def test_one_bad_entry_or_file_is_named_with_its_line_and_the_others_go_on(project: Hosted) -> None:
    project.write({"good": project.told("good")}, user=True)
    project.file.parent.mkdir()
    project.file.write_text(
        '{"servers": {\n"bad": {"command": 3},\n"also": {"command": "x"}}}', encoding="utf-8"
    )
    (project.folder / ".mcp.json").write_text('{"mcpServers": {\n"x": }', encoding="utf-8")
    outcome = project.host("check")
    assert outcome.code == 1
    assert f"{project.file}:2: error: " in outcome.stderr
    assert ".mcp.json:2: error: " in outcome.stderr
    assert "good" in outcome.stdout
    told = project.host("tools", "--json").json
    assert {server["name"]: server["state"] for server in told["servers"]} == {
        "good": "ready",
        "also": "needs_consent",
    }
    assert {(Path(each["file"]).name, each["line"], each["fatal"]) for each in told["problems"]} == {
        ("mcp-servers.json", 2, True),
        (".mcp.json", 2, True),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(project: Hosted) -> None:
    project.write({})
    project.file.chmod(0)
    outcome = project.host("check")
    assert (outcome.code, str(project.file) in outcome.stderr) == (1, True)


def test_a_file_that_is_none_is_named_and_not_waited_for(project: Hosted) -> None:
    project.file.parent.mkdir()
    os.mkfifo(project.file)
    (project.folder / ".mcp.json").mkdir()
    outcome = project.host("check")
    assert outcome.code == 1
    assert str(project.file) in outcome.stderr
    assert ".mcp.json" in outcome.stderr
    assert project.host("tools").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["tools"],
        ["check"],
        ["accept", "--all"],
        ["call", "a", "b"],
        ["import", "cursor"],
        ["logs"],
        ["rules", "add", "allow", "x"],
    ],
)
def test_a_project_that_is_no_folder_is_wrong_usage(words: list[str], project: Hosted) -> None:
    place = "no/such/folder" if "tools" in words else "file"
    (project.folder / "file").touch()
    outcome = project.host(*words, "--project", place)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert place in outcome.stderr


_KEYS = ["command", "args", "env", "url", "headers", "disabled", "autoApprove", "trusted", "lifecycle"]
_entries = st.dictionaries(
    st.text(max_size=5), st.dictionaries(st.sampled_from(_KEYS), json_values) | json_values
)


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(st.sampled_from(["servers", "mcpServers"]), _entries) | json_values)
def test_whatever_a_project_brings_it_starts_nothing_and_breaks_nothing(
    document: object, project: Hosted
) -> None:
    project.file.parent.mkdir(exist_ok=True)
    project.file.write_text(json.dumps(document), encoding="utf-8")
    outcome = project.host("tools", "--json")
    servers, problems = outcome.json["servers"], outcome.json["problems"]
    is_unreadable = not servers and any(problem["fatal"] for problem in problems)
    assert outcome.code == int(is_unreadable), outcome.stderr
    assert {server["state"] for server in servers} <= {"needs_consent", "disabled"}


# Taking over from other programs


CURSOR = json.dumps(
    {"mcpServers": {"one": {"command": "echo", "args": ["a"]}, "two": {"url": "http://127.0.0.1:9/"}}}
)
CLIENT_FILES = {
    "claude": (".claude.json", CURSOR),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", CURSOR),
    "cursor": (".cursor/mcp.json", CURSOR),
    "vscode": (".config/Code/User/mcp.json", CURSOR.replace("mcpServers", "servers")),
    "codex": (
        ".codex/config.toml",
        '[mcp_servers.one]\ncommand="echo"\nargs=["a"]\n[mcp_servers.two]\nurl="http://127.0.0.1:9/"\n',
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        json.dumps(
            {
                "mcp": {
                    "one": {"type": "local", "command": ["echo", "a"]},
                    "two": {"type": "remote", "url": "http://127.0.0.1:9/"},
                }
            }
        ),
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json", CURSOR),
}


@pytest.mark.parametrize("client", CLIENT_FILES)
def test_servers_of_other_programs_are_shown_and_taken_over_by_name(client: str, project: Hosted) -> None:
    name, text = CLIENT_FILES[client]
    theirs = project.home / name
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_text(text, encoding="utf-8")
    shown = project.host("import", client)
    assert (shown.code, project.file.exists()) == (0, False)
    assert "echo a" in shown.stdout
    assert "http://127.0.0.1:9/" in shown.stdout
    taken = project.host("import", client, "one", "--json").json
    assert (taken["servers"], taken["added"], taken["file"]) == (["one", "two"], ["one"], str(project.file))
    assert theirs.read_text(encoding="utf-8") == text


def test_what_was_taken_over_waits_for_consent_and_is_never_overwritten(project: Hosted) -> None:
    theirs = project.home / ".cursor" / "mcp.json"
    theirs.parent.mkdir()
    theirs.write_text(CURSOR, encoding="utf-8")
    assert project.host("import", "cursor", "one", "--json").json["added"] == ["one"]
    assert project.seen()["one"]["state"] == "needs_consent"
    again = project.host("import", "cursor", "--all", "--json").json
    assert (again["added"], again["present"]) == (["two"], ["one"])
    own = project.host("import", "cursor", "one", "--user", "--json").json
    assert (own["added"], own["file"]) == (["one"], str(project.user_file))
    missing = project.host("import", "cursor", "on")
    assert (missing.code, "one" in missing.stderr) == (2, True)


def test_a_program_that_has_no_servers_is_told(project: Hosted) -> None:
    outcome = project.host("import", "cursor")
    assert (outcome.code, "cursor has no servers" in outcome.stderr) == (0, True)


def test_a_state_folder_that_cannot_be_used_is_told_with_a_way_on(project: Hosted) -> None:
    (project.top / "file").write_text("in the way", encoding="utf-8")
    for words in (["rules"], ["tools"]):
        outcome = project.host(*words, env={"XDG_STATE_HOME": str(project.top / "file")})
        assert outcome.code == 3
        assert "state_unusable" in outcome.stderr
        assert "XDG_STATE_HOME" in outcome.stderr


def test_a_persons_key_is_not_copied_into_the_project_and_the_variable_to_set_is_named(
    project: Hosted,
) -> None:
    servers = {"mail": {"command": "x", "env": {"API_KEY": SECRET}}}
    (project.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    outcome = project.host("import", "claude", "--all")
    assert (outcome.code, "mail: set API_KEY" in outcome.stderr) == (0, True)
    assert SECRET not in outcome.stdout + outcome.stderr + project.file.read_text(encoding="utf-8")
    assert '"${API_KEY}"' in project.file.read_text(encoding="utf-8")
