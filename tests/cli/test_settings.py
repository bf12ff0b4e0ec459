"""Settings: which layer wins, and that a repository's own file never widens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kakite.cli.settings import ConfigError, Settings, load_settings
from tests.lanes import examples

ORDER = ["off", "registries", "open"]
HOSTS = ["a.example", "*.b.example", "c.example:8080"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(folder: Path, **variables: str) -> Settings:
    return load_settings({}, {"XDG_CONFIG_HOME": str(folder / "config"), **variables})


def test_without_being_asked_programs_get_no_network_and_dependencies_are_installed(folder: Path) -> None:
    found = load(folder)
    assert (found.network, found.hosts, found.setup) == ("off", (), "auto")


def test_hosts_are_a_list_in_a_file_and_separated_by_commas_in_a_variable(folder: Path) -> None:
    (folder / "own.yaml").write_text("hosts: [a.example, '*.b.example']\n", encoding="utf-8")
    assert load(folder, KAKITE_CONFIG="own.yaml").hosts == ("a.example", "*.b.example")
    assert load(folder, KAKITE_HOSTS="a.example, c.example:8080,").hosts == ("a.example", "c.example:8080")


@pytest.mark.parametrize("host", ["https://a.example", "a b", "*", "a/b", "127.1", "a:99999", "*.127.0.0.1"])
def test_what_is_no_host_is_refused(folder: Path, host: str) -> None:
    with pytest.raises(ConfigError):
        load(folder, KAKITE_HOSTS=host)


LAYER = st.tuples(st.sampled_from(ORDER), st.sets(st.sampled_from(HOSTS)), st.sampled_from(["auto", "off"]))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(own=LAYER, theirs=LAYER)
def test_a_repositorys_file_never_opens_a_network_adds_a_host_or_installs(
    folder: Path, own: tuple[str, set[str], str], theirs: tuple[str, set[str], str]
) -> None:
    assert Path.cwd() == folder
    assert "KAKITE_NETWORK" not in os.environ
    lines = f"network: {theirs[0]!r}\nhosts: {sorted(theirs[1])}\nsetup: {theirs[2]!r}\n"
    (folder / "kakite.yaml").write_text(lines, encoding="utf-8")
    (folder / "config/kakite").mkdir(parents=True, exist_ok=True)
    lines = f"network: {own[0]!r}\nhosts: {sorted(own[1])}\nsetup: {own[2]!r}\n"
    (folder / "config/kakite/kakite.yaml").write_text(lines, encoding="utf-8")
    found = load(folder)
    assert ORDER.index(found.network) == min(ORDER.index(own[0]), ORDER.index(theirs[0]))
    assert set(found.hosts) == (theirs[1] if theirs[1] <= own[1] else own[1])
    assert found.setup == ("off" if "off" in {own[2], theirs[2]} else "auto")


def own(folder: Path, text: str) -> None:
    (folder / "config/kakite").mkdir(parents=True, exist_ok=True)
    (folder / "config/kakite/kakite.yaml").write_text(text, encoding="utf-8")


def test_without_being_asked_there_is_kakites_own_editor_and_no_further_server(folder: Path) -> None:
    editor = load(folder).text_editor_mcp
    assert (editor.enabled, editor.on_failure, editor.mcp_server.command) == (True, "continue", ())
    assert load(folder).servers == ()


def test_of_the_editors_block_each_layer_changes_only_what_it_says(folder: Path) -> None:
    own(folder, "text_editor_mcp: {mcp_server: {command: [npx, -y, other]}}\n")
    (folder / "more.yaml").write_text("text_editor_mcp: {mcp_server: {name: other}}\n", encoding="utf-8")
    editor = load(
        folder,
        KAKITE_CONFIG="more.yaml",
        TEXT_EDITOR_MCP_ENABLED="false",
        KAKITE_TEXT_EDITOR_MCP="{on_failure: fail}",
    ).text_editor_mcp
    assert (editor.enabled, editor.on_failure) == (False, "fail")
    assert (editor.mcp_server.name, editor.mcp_server.command) == ("other", ("npx", "-y", "other"))


@pytest.mark.parametrize(("said", "enabled"), [("false", False), ("0", False), ("true", True), ("1", True)])
def test_the_editor_is_turned_on_and_off_by_the_environment(folder: Path, said: str, enabled: bool) -> None:
    assert load(folder, TEXT_EDITOR_MCP_ENABLED=said).text_editor_mcp.enabled is enabled


def test_our_own_variable_of_the_editor_goes_over_the_other(folder: Path) -> None:
    found = load(folder, TEXT_EDITOR_MCP_ENABLED="false", KAKITE_TEXT_EDITOR_MCP="true")
    assert found.text_editor_mcp.enabled


def test_the_edit_format_is_one_word_or_one_for_each_pattern_of_models(folder: Path) -> None:
    own(folder, "edit_format: {'*kimi*': quote, 'openai:*': patch}\nrequire_read: yes\n")
    found = load(folder)
    assert found.edit_format == {"*kimi*": "quote", "openai:*": "patch"}
    assert found.require_read
    assert load(folder, KAKITE_EDIT_FORMAT="anchors").edit_format == "anchors"
    assert load(folder, KAKITE_EDIT_FORMAT="{glm*: anchors}").edit_format == {"glm*": "anchors"}
    with pytest.raises(ConfigError):
        load(folder, KAKITE_EDIT_FORMAT="{glm*: words}")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["model: 2024-13-45", "hosts: " + "[" * 3000, "a: b: c", "\0"])
def test_a_file_that_is_no_yaml_is_told_as_such_wherever_it_lies(folder: Path, text: str) -> None:
    for file in (folder / "kakite.yaml", folder / "config/kakite/kakite.yaml"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load(folder)
        assert caught.value.code == "unreadable_config"
        file.unlink()


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("text_editor_mcp: {enabeld: false}", "enabled"),
        ("text_editor_mcp: {mcp_server: {comand: [x]}}", "command"),
        ("repositories: {x: {aprove: all}}", "approve"),
        ("repositorys: {}", "repositories"),
    ],
)
def test_an_unknown_key_of_a_block_is_told_with_the_nearest_one(folder: Path, text: str, near: str) -> None:
    own(folder, text)
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert caught.value.code == "unknown_setting"
    assert near in caught.value.hint


@pytest.mark.parametrize(
    "variables",
    [
        {"TEXT_EDITOR_MCP_ENABLED": "perhaps"},
        {"KAKITE_TEXT_EDITOR_MCP": "{on_failure: never}"},
        {"KAKITE_TEXT_EDITOR_MCP": "{mcp_server: {command: npx -y x}}"},
        {"KAKITE_TEXT_EDITOR_MCP": "{"},
        {"KAKITE_TEXT_EDITOR_MCP": "[1]"},
    ],
)
def test_an_editor_that_makes_no_sense_is_refused(folder: Path, variables: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        load(folder, **variables)


def some_of(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return blocks that have some of these keys."""
    return st.fixed_dictionaries(dict[str, st.SearchStrategy[Any]](), optional=values)


EDITOR = some_of(
    enabled=st.booleans(),
    on_failure=st.sampled_from(["continue", "fail"]),
    mcp_server=some_of(command=st.sampled_from([["mine"], ["theirs"]]), name=st.just("n")),
)
SERVERS = st.lists(st.sampled_from(["docs", "tickets"]), unique=True)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mine=EDITOR, theirs=EDITOR, servers=st.tuples(SERVERS, SERVERS))
def test_a_repositorys_file_never_names_a_command_or_a_server_nor_turns_the_editor_on_or_off(
    folder: Path, mine: dict[str, object], theirs: dict[str, object], servers: tuple[list[str], list[str]]
) -> None:
    own(folder, json.dumps({"text_editor_mcp": mine, "servers": servers[0]}))
    before = load(folder)
    (folder / "kakite.yaml").write_text(
        json.dumps(
            {"text_editor_mcp": theirs, "servers": servers[1], "repositories": {"*": {"approve": "all"}}}
        ),
        encoding="utf-8",
    )
    after = load_settings({}, {"XDG_CONFIG_HOME": str(folder / "config")}, repository="https://x.example/a")
    (folder / "kakite.yaml").unlink()
    assert after.text_editor_mcp.enabled == before.text_editor_mcp.enabled
    assert after.text_editor_mcp.mcp_server == before.text_editor_mcp.mcp_server
    assert after.text_editor_mcp.on_failure in {before.text_editor_mcp.on_failure, "fail"}
    assert set(after.servers) <= set(before.servers)
    assert after.approve == "ask"


def test_a_file_of_the_persons_own_has_settings_for_some_repositories(folder: Path) -> None:
    section = "repositories:\n  https://git.example/team/*: {approve: all, servers: [docs]}\n"
    own(folder, f"approve: edits\n{section}")
    environ = {"XDG_CONFIG_HOME": str(folder / "config")}
    ours = load_settings({}, environ, repository="https://git.example/team/app.git")
    other = load_settings({}, environ, repository="https://git.example/other/app.git")
    assert (ours.approve, ours.servers) == ("all", ("docs",))
    assert (other.approve, other.servers) == ("edits", ())
    assert (
        load_settings({"approve": "ask"}, environ, repository="https://git.example/team/a").approve == "ask"
    )


def test_hooks_come_from_the_persons_own_files_alone(folder: Path) -> None:
    (folder / "kakite.yaml").write_text("hooks: [{event: turn_end, command: [evil]}]\n", encoding="utf-8")
    assert load(folder).hooks == ()
    (folder / "config/kakite").mkdir(parents=True)
    own = "hooks:\n- event: before_call\n  command: [check, it]\n  tools: run_*\n"
    (folder / "config/kakite/kakite.yaml").write_text(own, encoding="utf-8")
    (hook,) = load(folder).hooks
    assert (hook.event, hook.command, hook.tools, hook.timeout) == (
        "before_call",
        ("check", "it"),
        "run_*",
        10,
    )
    with pytest.raises(ConfigError):
        load(folder, KAKITE_HOOKS="[{event: sometimes, command: [x]}]")


def test_commands_for_edited_files_come_from_the_persons_own_files_alone(folder: Path) -> None:
    (folder / "kakite.yaml").write_text("after_edit: {'*.py': 'black {file}'}\n", encoding="utf-8")
    assert load(folder).after_edit == {}
    (folder / "config/kakite").mkdir(parents=True)
    own = "after_edit:\n  '*.py': ['ruff format {file}', 'ruff check {file}']\n  '*.go': gofmt -w {file}\n"
    (folder / "config/kakite/kakite.yaml").write_text(own, encoding="utf-8")
    expected = {"*.py": ["ruff format {file}", "ruff check {file}"], "*.go": ["gofmt -w {file}"]}
    assert load(folder).after_edit == expected
    assert load(folder, KAKITE_AFTER_EDIT="'*': indent {file}").after_edit == {"*": ["indent {file}"]}


@pytest.mark.parametrize(
    "value", ["x", "'*': gofmt", "'*': ''", "'*': 3", "'*': \"a 'b {file}\"", "'': a {file}"]
)
def test_what_is_no_command_for_edited_files_is_refused(folder: Path, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(folder, KAKITE_AFTER_EDIT=value)
    assert refused.value.code == "bad_setting"
