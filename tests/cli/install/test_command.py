"""``kakite install``, as a person uses it: what it shows, asks, writes, and takes out again."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from kakite.cli.install.clients import CLIENTS, load_skill
from kakite.cli.install.plan import InstallError, carry_out, plan_install
from tests.cli.install.program import Person, Scope, person
from tests.cli.program import argv, environment, kakite
from tests.cli.terminal import Terminal

SCOPES: tuple[Scope, ...] = ("user", "project")


@pytest.fixture
def me(tmp_path: Path) -> Person:
    return person(tmp_path / "home")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scope", SCOPES)
def test_nothing_is_left_where_nothing_was(client: str, scope: Scope, me: Person) -> None:
    before = me.files()
    assert me.install(client, scope).changes
    assert me.files() != before
    assert not me.install(client, scope).changes
    assert me.uninstall(client, scope).changes
    assert me.files() == before
    assert not me.uninstall(client, scope).changes


@pytest.mark.parametrize("client", CLIENTS)
def test_a_projects_files_name_no_folder_of_this_machine(client: str, me: Person) -> None:
    for steers in (True, False):
        plan = me.install(client, "project", steers=steers)
        for each in plan.files:
            assert each.path.is_relative_to(me.project)
            assert str(me.home).encode() not in (each.after or b"")
            assert os.fsencode(Path(argv()[0]).parent) not in (each.after or b"")


def test_what_is_installed_for_all_clients_goes_with_each(me: Person) -> None:
    before = me.files()
    for client in CLIENTS:
        me.install(client)
    for client in CLIENTS:
        me.uninstall(client)
    assert me.files() == before


def test_a_dry_run_shows_a_diff_and_writes_nothing(me: Person) -> None:
    settings = me.write(".claude/settings.json", '{\n  "model": "opus"\n}\n')
    before = me.files()
    done = kakite("install", "claude", "--dry-run", home=me.home)
    assert done.code == 0, done.stderr
    assert f"+++ b{settings}" in done.stdout
    assert '+  "permissions": {' in done.stdout
    assert me.files() == before
    told = kakite("install", "claude", "--dry-run", "--json", home=me.home).json
    assert (told["client"], told["written"]) == ("claude-code", False)
    assert [each["change"] for each in told["files"]] == ["created", "changed", "created"]
    assert me.files() == before


def test_secrets_beside_the_place_are_not_shown(me: Person) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    me.write(".cursor/mcp.json", json.dumps({"mcpServers": {"o": {"env": {"API_KEY": secret}}}}, indent=2))
    done = kakite("install", "cursor", "--dry-run", home=me.home)
    assert "kakite" in done.stdout
    assert secret not in done.stdout


def test_without_a_terminal_it_does_not_write_unasked(me: Person) -> None:
    before = me.files()
    done = kakite("install", "codex", home=me.home)
    assert (done.code, "--yes" in done.stderr) == (2, True)
    assert me.files() == before
    assert kakite("install", "codex", "--yes", home=me.home).code == 0
    assert me.files() != before
    assert kakite("install", "codex", "--yes", "--uninstall", home=me.home).code == 0
    assert me.files() == before


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_at_a_terminal_it_asks_first(answer: str, code: int, me: Person) -> None:
    terminal = Terminal(argv("install", "zed"), environment(me.home), me.project)
    terminal.expect("context_servers")
    terminal.answer("Write 1 file? [y/N]: ", f"{answer}\r")
    assert terminal.wait() == code
    assert (me.home / ".config/zed/settings.json").exists() == (code == 0)


def test_a_server_of_the_same_name_is_not_overwritten(me: Person) -> None:
    me.write(".gemini/settings.json", '{\n  "mcpServers": {\n    "kakite": {"command": "mine"}\n  }\n}\n')
    me.write(".codex/config.toml", '[mcp_servers.kakite]\ncommand = "mine"\n')
    before = me.files()
    for client in ("gemini", "codex"):
        done = kakite("install", client, "--yes", "--json", home=me.home)
        assert (done.code, done.json["error"]["code"]) == (1, "server_exists")
        me.uninstall(client)
    assert me.files() == before


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("claude", ".claude.json", '{\n  "a": 1,\n  oops\n}'),
        ("codex", ".codex/config.toml", "a = 1\n\noops\n"),
        ("zed", ".config/zed/settings.json", '{\n  // one\n  "a" 1\n}'),
    ],
)
def test_a_broken_file_is_named_with_its_line(client: str, file: str, text: str, me: Person) -> None:
    place = me.write(file, text)
    before = me.files()
    done = kakite("install", client, "--yes", "--json", home=me.home)
    assert (done.code, done.json["error"]["code"]) == (1, "client_file_broken")
    assert f"{place}:3:" in done.json["error"]["message"]
    assert me.files() == before


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("claude", ".claude.json", '{"mcpServers": []}'),
        ("gemini", ".gemini/settings.json", '{"a": 1, "a": 2}'),
        ("codex", ".codex/config.toml", 'mcp_servers = {o = {command = "o"}}\n'),
    ],
)
def test_a_file_with_no_clear_place_is_left(client: str, file: str, text: str, me: Person) -> None:
    me.write(file, text)
    before = me.files()
    with pytest.raises(InstallError) as raised:
        me.install(client)
    assert raised.value.code == "client_file_unclear"
    assert me.files() == before


def test_a_link_is_written_through_and_the_mode_stays(me: Person) -> None:
    real = me.write("dotfiles/mcp.json", '{\r\n  "mcpServers": {}\r\n}')
    real.chmod(0o640)
    link = me.home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    before = me.files()
    me.install("cursor")
    assert link.is_symlink()
    assert (real.stat().st_mode & 0o777) == 0o640
    assert b"kakite" in real.read_bytes()
    assert real.read_bytes().count(b"\n") == real.read_bytes().count(b"\r\n")
    me.uninstall("cursor")
    assert link.is_symlink()
    assert me.files() == before


def test_a_file_that_changes_while_you_are_asked_is_left(me: Person) -> None:
    me.write(".claude/settings.json", "{}")
    plan = plan_install(me.place("claude"), steers=True)
    me.write(".claude/settings.json", '{"model": "opus"}')
    before = me.files()
    with pytest.raises(InstallError) as raised:
        carry_out(plan, me.environ)
    assert raised.value.code == "changed_meanwhile"
    assert me.files() == before


def test_what_a_person_changed_of_ours_is_not_removed(me: Person) -> None:
    me.install("vscode", "project")
    file = me.project / ".vscode/mcp.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"serve"', '"serve", "--read-only"'), "utf-8")
    before = me.files()
    with pytest.raises(InstallError) as raised:
        me.uninstall("vscode", "project")
    assert raised.value.code == "entry_changed"
    assert me.files() == before


def test_built_in_tools_stay_if_asked_also_afterwards(me: Person) -> None:
    me.write(".claude/settings.json", '{\n  "permissions": {\n    "deny": ["Edit"]\n  }\n}\n')
    before = me.files()
    me.install("claude")
    denied = json.loads((me.home / ".claude/settings.json").read_bytes())["permissions"]["deny"]
    assert denied == ["Edit", "NotebookEdit", "Write"]
    me.install("claude", steers=False)
    assert me.files().keys() - before.keys() == {".claude.json"}
    me.uninstall("claude")
    assert me.files() == before


@pytest.mark.parametrize("scope", ["user", "project"])
def test_opencode_gets_a_plugin_in_place_of_the_server(scope: Scope, me: Person) -> None:
    folder = ".config/opencode" if scope == "user" else "project/.opencode"
    before = me.files()
    me.install("opencode", scope, steers=False)
    me.install("opencode", scope)
    plugin = me.files()[f"{folder}/plugins/kakite.ts"]
    assert plugin is not None
    assert b"__" not in plugin.replace(b"__proto__", b"")
    assert not [name for name in me.files() if name.endswith("opencode.json")]
    me.uninstall("opencode", scope)
    assert me.files() == before


@pytest.mark.parametrize("text", ["mine\n", ""])
def test_a_skill_of_your_own_is_not_overwritten(text: str, me: Person) -> None:
    me.write(".agents/skills/kakite/SKILL.md", text)
    before = me.files()
    with pytest.raises(InstallError) as raised:
        me.install("codex")
    assert raised.value.code == "own_file_exists"
    me.uninstall("codex")
    assert me.files() == before


def test_another_machine_removes_what_came_with_the_project(me: Person, tmp_path: Path) -> None:
    me.write("project/.mcp.json", '{\n  "mcpServers": {\n    "o": {"command": "o"}\n  }\n}\n')
    before = me.files()
    me.install("claude", "project")
    (me.home / ".local/state/kakite/installs.json").unlink()
    me.uninstall("claude", "project")
    left = {name: data for name, data in me.files().items() if ".claude" not in name}
    assert left == before


def test_a_later_version_takes_the_place_of_what_was_installed(me: Person) -> None:
    me.write(".codex/config.toml", 'model = "x"')
    before = me.files()
    me.install("codex")
    record = me.home / ".local/state/kakite/installs.json"
    for file in (record, me.home / ".codex/config.toml"):  # as an older program wrote them
        text = file.read_text(encoding="utf-8").replace("--root", "--older")
        file.write_text(text, encoding="utf-8")
    me.install("codex")
    config = tomllib.loads((me.home / ".codex/config.toml").read_text(encoding="utf-8"))
    assert config["mcp_servers"]["kakite"]["args"][-3:] == ["serve", "--root", "."]
    me.uninstall("codex")
    assert me.files() == before


def test_what_cannot_be_written_is_told_and_the_rest_taken_back(me: Person) -> None:
    me.write(".claude/settings.json", "{}")
    (me.home / ".claude/skills").symlink_to("/proc")  # where not even root can make a folder
    before = me.files()
    done = kakite("install", "claude", "--yes", "--json", home=me.home)
    assert (done.code, done.json["error"]["code"]) == (3, "client_file_failed")
    assert me.files() == before


def test_wrong_words_are_explained(me: Person) -> None:
    assert "did you mean `cursor`" in kakite("install", "curser", home=me.home).stderr
    assert kakite("install", "zed", "--scope", "all", home=me.home).code == 2


@pytest.mark.parametrize(
    ("client", "variable", "name"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("copilot", "COPILOT_HOME", "mcp-config.json"),
        ("pi", "PI_CODING_AGENT_DIR", "extensions/kakite/index.ts"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
    ],
)
def test_folders_of_the_clients_are_where_their_variables_say(
    client: str, variable: str, name: str, me: Person, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    done = kakite("install", client, "--yes", home=me.home, env={variable: str(elsewhere)})
    assert done.code == 0, done.stderr
    assert (elsewhere / name).is_file()
    assert (elsewhere / name).stat().st_mode & 0o077 == 0


def test_a_file_that_you_made_anew_is_yours(me: Person) -> None:
    me.install("cursor")
    me.write(".cursor/mcp.json", "{}")
    before = me.files()
    me.install("cursor")
    me.uninstall("cursor")
    assert me.files() == before


def test_a_skill_that_was_there_already_stays(me: Person) -> None:
    me.write(".agents/skills/kakite/SKILL.md", load_skill())
    before = me.files()
    me.install("codex")
    me.uninstall("codex")
    assert me.files() == before


def test_a_program_that_asks_for_json_sees_what_is_asked(me: Person) -> None:
    told = kakite("install", "zed", "--json", home=me.home)
    assert (told.code, told.json["error"]["code"]) == (2, "bad_usage")
    assert "context_servers" in told.stderr
