"""After an installation was taken out again, each file is what it was before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kakite.cli.install.clients import Place
from kakite.cli.install.plan import carry_out, plan_install
from kakite.errors import KakiteError
from tests.cli.install.program import person

SETTINGS = ".claude/settings.json"


@pytest.mark.parametrize("gone", ["MultiEdit", ""])
def test_what_was_installed_again_over_a_list_that_changed_goes_whole(tmp_path: Path, gone: str) -> None:
    """Else Claude Code stays without its own edit tools."""
    me = person(tmp_path)
    file = me.write(SETTINGS, "{}\n")
    me.install("claude")
    settings = json.loads(file.read_text())
    denied = sorted(each for each in settings["permissions"]["deny"] if each != gone)
    file.write_text(json.dumps({"permissions": {"deny": denied}}, indent=2))
    me.install("claude")
    me.uninstall("claude")
    assert not json.loads(file.read_text()).get("permissions", {}).get("deny")


def test_an_empty_file_is_empty_again(tmp_path: Path) -> None:
    me = person(tmp_path)
    file = me.write(".cursor/mcp.json", "")
    me.install("cursor")
    me.uninstall("cursor")
    assert file.read_bytes() == b""


def test_a_file_of_blanks_takes_an_entry_like_an_empty_one(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.write(".cursor/mcp.json", " \n")
    me.install("cursor")


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
