"""After an installation was taken out again, each file is what it was before."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from kakite import state_files
from kakite.cli.install import plan as planning
from kakite.cli.install.clients import Place
from kakite.cli.install.plan import FileAccessError, InstallError, carry_out, plan_install, plan_uninstall
from kakite.errors import KakiteError
from tests.cli.install.program import Person, person
from tests.cli.program import kakite

SETTINGS = ".claude/settings.json"


@pytest.mark.parametrize("gone", ["NotebookEdit", ""])
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


@pytest.mark.parametrize("client", ["claude", "codex", "opencode", "pi"])
def test_line_ends_that_git_changed_are_no_change_of_yours(client: str, tmp_path: Path) -> None:
    """`core.autocrlf` writes a project's files so."""
    me = person(tmp_path)
    me.write("project/.mcp.json", '{\n  "mcpServers": {}\n}\n')
    me.install(client, "project")
    for file in me.project.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    changed = me.files()
    assert not me.install(client, "project").changes
    assert me.files() == changed
    me.uninstall(client, "project")
    left = [file.name for file in me.project.rglob("*") if file.is_file()]
    assert left == [".mcp.json"]
    assert (me.project / ".mcp.json").read_bytes() == b'{\r\n  "mcpServers": {}\r\n}\r\n'


@pytest.mark.parametrize(
    ("client", "environ", "name"),
    [
        ("gemini", "GEMINI_CLI_HOME", ".gemini/policies/kakite.toml"),
        ("opencode", "OPENCODE_CONFIG_DIR", "plugins/kakite.ts"),
    ],
)
def test_a_variable_moves_the_folder_of_a_client(
    client: str, environ: str, name: str, tmp_path: Path
) -> None:
    me = person(tmp_path)
    moved = {**me.environ, environ: str(me.home / "moved")}
    place = Place(client=client, scope="user", project=me.project, environ=moved)
    carry_out(plan_install(place, steers=True), moved)
    assert (me.home / "moved" / name).is_file()


def test_a_toml_that_lies_too_deep_is_told(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.write(".codex/config.toml", "a." * 3000 + "b = 1\n")
    before = me.files()
    with pytest.raises(KakiteError):
        me.install("codex")
    assert me.files() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes owners")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    """Else what `sudo kakite install` wrote is closed to the person."""
    me = person(tmp_path)
    file = me.write(".cursor/mcp.json", "{}")
    os.chown(file, 1234, 2345)
    me.install("cursor")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)
    me.uninstall("cursor")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


class _KilledError(BaseException):
    """Ends everything at once, as a signal does."""


def _kill_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End whoever writes: before the file of this number, the first one is 0."""
    real, count = state_files.replace, iter(range(1000))

    def replace(file: Path, data: bytes, *, mode: int = 0o600, **more: object) -> None:
        if next(count) >= number:
            raise _KilledError
        real(file, data, mode=mode, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(state_files, "replace", replace)


def _put_older(me: Person) -> None:
    """Turn what is installed into what an older program installed."""
    record = me.home / ".local/state/kakite/installs.json"
    for file in [record, *(path for path in me.home.rglob("*") if path.is_file() and path != record)]:
        data = file.read_bytes().replace(b"--root", b"--older").replace(b"All edits", b"Both edits")
        file.write_bytes(data)


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("client", ["claude", "codex", "opencode", "gemini"])
@pytest.mark.parametrize("step", ["install", "again", "uninstall"])
@pytest.mark.parametrize("next_step", ["install", "uninstall"])
def test_whenever_it_is_killed_the_next_run_goes_on(
    at: int, client: str, step: str, next_step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = person(tmp_path)
    me.write(".claude/settings.json", '{"permissions": {"deny": ["Read"]}}\n')
    me.write(".codex/config.toml", 'model = "x"')
    me.write(".gemini/settings.json", "{}")
    before = me.files()
    if step != "install":
        me.install(client)
    if step == "again":
        _put_older(me)
    with monkeypatch.context() as patched:
        _kill_at(at, patched)
        with suppress(_KilledError):
            me.uninstall(client) if step == "uninstall" else me.install(client)
    if next_step == "install":
        me.install(client)
    me.uninstall(client)
    assert me.files() == before


def test_what_could_not_be_taken_back_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, and stays full: what is written already must go with the next removal."""
    me = person(tmp_path)
    me.write(".claude.json", "{}\n")
    me.write(".claude/settings.json", "{}\n")
    before = me.files()
    real, count = state_files.replace, iter(range(1000))

    def replace(file: Path, data: bytes, **more: object) -> None:
        if file.name != "installs.json" and next(count) >= 1:
            raise OSError(28, "No space left on device")
        real(file, data, **more)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patched:
        patched.setattr(state_files, "replace", replace)
        with pytest.raises(FileAccessError) as refused:
            me.install("claude")
    assert "free some space" in refused.value.hint
    me.uninstall("claude")
    assert me.files() == before


def test_two_installations_at_once_remember_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = person(tmp_path)
    before = me.files()
    with state_files.lock_file(me.home / ".local/state/kakite/installs.lock", 0):
        monkeypatch.setattr(planning, "_LOCK_TIMEOUT", 0.01)
        with pytest.raises(FileAccessError):
            me.install("cursor")
    monkeypatch.undo()
    assert me.files() == before
    me.install("cursor")


def test_a_way_on_for_a_clients_file_is_not_that_of_the_state(tmp_path: Path) -> None:
    me = person(tmp_path)
    me.write(".cursor", "a file")
    with pytest.raises(FileAccessError) as refused:
        me.install("cursor")
    assert "XDG_STATE_HOME" not in refused.value.hint


@pytest.mark.parametrize("client", ["claude", "codex", "gemini"])
def test_what_was_installed_for_a_person_stays_when_a_project_in_the_home_folder_is_rid_of_it(
    client: str, tmp_path: Path
) -> None:
    me = Person(tmp_path / "project")
    me.home.mkdir()
    home = Person(me.home.parent)  # whose project is the other one's home
    me.install(client)
    installed = me.files()
    place = Place(client=home.place(client).client, scope="project", project=home.project, environ=me.environ)
    carry_out(plan_uninstall(place), me.environ)
    assert me.files() == installed
    me.uninstall(client)
    assert not me.files()


def test_a_folder_whose_name_is_no_text_is_a_project_as_well(tmp_path: Path) -> None:
    project = tmp_path / os.fsdecode(b"\xff")
    project.mkdir()
    for words in ((), ("--uninstall",)):
        done = kakite("install", "claude", "--scope", "project", "--yes", *words, home=tmp_path, cwd=project)
        assert done.code == 0, done.stderr
    assert not list(project.iterdir())
