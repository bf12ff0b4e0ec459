"""After an installation was taken out again, each file is what it was before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kakite.cli.install.clients import Place
from kakite.cli.install.plan import FileAccessError, InstallError, carry_out, plan_install
from kakite.errors import KakiteError
from tests.cli.install.program import person

SETTINGS = ".claude/settings.json"


@pytest.mark.parametrize("gone", ["MultiEdit", ""])
def test_what_was_installed_again_over_a_list_that_changed_goes_whole(tmp_path: Path, gone: str) -> None:
    """Else Claude Code stays without its own edit tools."""
    me = person(tmp_path)
    file = me.write(SETTINGS, "{}\n")
    me.install("claude")
    settings = json.loads(file.read_text("utf-8"))
    denied = sorted(each for each in settings["permissions"]["deny"] if each != gone)
    file.write_text(json.dumps({"permissions": {"deny": denied}}, indent=2), "utf-8")
    me.install("claude")
    me.uninstall("claude")
    assert not json.loads(file.read_text("utf-8")).get("permissions", {}).get("deny")


def test_a_link_in_circles_is_told(tmp_path: Path) -> None:
    me = person(tmp_path)
    (me.home / ".cursor").mkdir()
    (me.home / ".cursor" / "mcp.json").symlink_to("mcp.json")
    with pytest.raises(KakiteError):
        me.install("cursor")


def test_a_second_folder_of_a_client_takes_nothing_from_the_first(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.install("claude")
    environ = {**me.environ, "CLAUDE_CONFIG_DIR": str(me.home / "other")}
    place = Place(client="claude-code", scope="user", project=me.project, environ=environ)
    carry_out(plan_install(place, steers=True), environ)
    assert (me.home / ".claude.json").exists()


def test_a_number_that_is_none_is_no_reason_to_refuse(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.write(".codex/config.toml", "x = nan\n")
    me.install("codex")


@pytest.mark.parametrize("text", ["", " \n", "\ufeff\n"])
def test_a_blank_file_is_the_same_again(tmp_path: Path, text: str) -> None:
    me = person(tmp_path)
    file = me.write(".cursor/mcp.json", text)
    me.install("cursor")
    me.install("cursor")
    me.uninstall("cursor")
    assert file.read_bytes() == text.encode()


def test_an_item_that_was_there_before_stays(tmp_path: Path) -> None:
    me = person(tmp_path)
    file = me.write(SETTINGS, '{"permissions": {"deny": ["Write", "Read"]}}\n')
    me.install("claude")
    me.uninstall("claude")
    assert file.read_text("utf-8") == '{"permissions": {"deny": ["Write", "Read"]}}\n'


def test_a_file_that_is_none_keeps_nobody_waiting(tmp_path: Path) -> None:
    me = person(tmp_path)
    (me.home / ".cursor").mkdir()
    os.mkfifo(me.home / ".cursor" / "mcp.json")
    with pytest.raises(FileAccessError, match="no regular file"):
        me.install("cursor")


def test_a_file_that_is_read_only_is_not_replaced(tmp_path: Path) -> None:
    me = person(tmp_path)
    file = me.write(".cursor/mcp.json", "{}\n")
    file.chmod(0o444)
    with pytest.raises(FileAccessError, match="read-only"):
        me.install("cursor")
    assert file.read_text("utf-8") == "{}\n"


def test_a_server_that_is_null_is_somebodys(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.write(".cursor/mcp.json", '{"mcpServers": {"kakite": null}}')
    with pytest.raises(InstallError) as refused:
        me.install("cursor")
    assert refused.value.code == "server_exists"


def test_two_places_that_share_a_file_are_told_apart(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.write(".claude.json", "{}\n")
    me.install("claude")
    (me.project / ".mcp.json").symlink_to(me.home / ".claude.json")
    before = me.files()
    with pytest.raises(InstallError) as refused:
        me.install("claude", "project")
    assert refused.value.code == "client_file_unclear"
    assert me.files() == before
    me.uninstall("claude")
    assert (me.home / ".claude.json").read_text("utf-8") == "{}\n"
