from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.errors import UsageError
from kakite.workspace import (
    Author,
    EditLog,
    FileWrite,
    Workspace,
    WorkspaceError,
    build_denylist,
    compute_version,
    openat2,
)
from kakite.workspace.write_denylist import DEFAULT_DENYLIST


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    opened = Workspace([root])
    yield opened
    opened.close()


def code_of(action: object) -> str:
    """Return the code of the WorkspaceError that this call raises."""
    assert callable(action)
    with pytest.raises(WorkspaceError) as caught:
        action()
    return caught.value.code


def test_what_was_written_is_read_back_with_its_version(workspace: Workspace) -> None:
    workspace.write("a/b.txt", b"\xff\r\nx", expected=None)
    file = workspace.read("a/b.txt")
    assert (file.path, file.data, file.version) == ("a/b.txt", b"\xff\r\nx", compute_version(b"\xff\r\nx"))


def test_an_absolute_path_beneath_the_root_is_the_same_file(workspace: Workspace, root: Path) -> None:
    workspace.write("x", b"1", expected=None)
    assert workspace.read(str(root / "x")).data == b"1"


def test_without_a_root_there_is_no_workspace() -> None:
    assert code_of(lambda: Workspace([])) == "no_root"


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "out", "out/secret", "loop", "/etc/hostname", ""]
)
@pytest.mark.parametrize("kernel", [True, False])
def test_no_path_leaves_the_workspace(
    path: str, kernel: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = root.parent / "secret"
    secret.write_bytes(b"secret")
    (root / "a").mkdir()
    (root / "out").symlink_to(root.parent)
    (root / "loop").symlink_to("loop")
    workspace = Workspace([root])
    if not kernel:
        monkeypatch.setattr(openat2, "_openat2", _refuse)
        monkeypatch.setattr(openat2, "has_openat2", lambda: False)
    codes = {
        code_of(lambda: workspace.read(path)),
        code_of(lambda: workspace.write(path, b"x", expected=None)),
        code_of(lambda: workspace.write(path, b"x", expected=compute_version(b"secret"))),
        code_of(lambda: workspace.walk(path, depth=2, limit=10)),
    }
    assert codes <= {"path_escapes", "bad_path", "is_a_directory", "not_a_directory", "file_exists"}
    assert secret.read_bytes() == b"secret"
    assert not (root.parent / "x").exists()
    workspace.close()


def _refuse(*_arguments: object) -> int:
    raise OSError(38, "no such system call")


def test_a_link_to_an_absolute_path_is_not_followed_for_writing(workspace: Workspace, root: Path) -> None:
    target = root.parent / "target"
    target.write_bytes(b"1")
    (root / "link").symlink_to(target)
    assert code_of(lambda: workspace.write("link", b"2", expected=compute_version(b"1"))) == "path_escapes"
    assert target.read_bytes() == b"1"


def test_an_edit_through_a_link_inside_changes_its_target_and_keeps_the_link(
    workspace: Workspace, root: Path
) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "real").write_bytes(b"1")
    (root / "link").symlink_to("folder/real")
    workspace.write("link", b"2", expected=compute_version(b"1"))
    assert (root / "link").is_symlink()
    assert (root / "folder" / "real").read_bytes() == b"2"


def test_a_hard_link_outside_keeps_its_content(workspace: Workspace, root: Path) -> None:
    outside = root.parent / "outside"
    outside.write_bytes(b"1")
    (root / "inside").hardlink_to(outside)
    workspace.write("inside", b"2", expected=compute_version(b"1"))
    assert (outside.read_bytes(), (root / "inside").read_bytes()) == (b"1", b"2")


def test_a_file_changed_by_someone_else_is_not_overwritten(workspace: Workspace, root: Path) -> None:
    (root / "x").write_bytes(b"1")
    version = workspace.read("x").version
    (root / "x").write_bytes(b"theirs")
    assert code_of(lambda: workspace.write("x", b"ours", expected=version)) == "stale"
    assert (root / "x").read_bytes() == b"theirs"
    assert [entry.name for entry in root.iterdir()] == ["x"]


def test_a_write_between_the_look_and_the_exchange_is_not_lost(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x").write_bytes(b"1")
    exchange = openat2.exchange

    def late(folder: int, one: str, other: str) -> bool:
        (root / "x").write_bytes(b"theirs")
        monkeypatch.setattr(openat2, "exchange", exchange)
        return exchange(folder, one, other)

    monkeypatch.setattr(openat2, "exchange", late)
    assert code_of(lambda: workspace.write("x", b"ours", expected=compute_version(b"1"))) == "stale"
    assert (root / "x").read_bytes() == b"theirs"
    assert [entry.name for entry in root.iterdir()] == ["x"]


def test_creating_never_replaces_a_file_that_exists(workspace: Workspace, root: Path) -> None:
    (root / "x").write_bytes(b"1")
    assert code_of(lambda: workspace.write("x", b"2", expected=None)) == "file_exists"
    assert (root / "x").read_bytes() == b"1"


@pytest.mark.linux
def test_mode_and_extended_attributes_survive_a_write(workspace: Workspace, root: Path) -> None:
    script = root / "run.sh"
    script.write_bytes(b"1")
    script.chmod(0o751)
    try:
        os.setxattr(script, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    workspace.write("run.sh", b"2", expected=compute_version(b"1"))
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert os.getxattr(script, "user.note") == b"kept"


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", "a/.GIT/hooks/x", ".mcp.json", ".ssh/id", "inner/config", ".envrc"),
        *(".dir-locals-2.el", ".mise/config.toml", "mise/config.toml", ".config/mise/config.toml"),
        *("mise.local.toml", ".mise.prod.toml", "crush.json", ".lazy.lua", ".direnvrc", ".bash_aliases"),
        *(".zlogin", ".config/systemd/user/x.service", ".config/fish/config.fish", ".devcontainer.json"),
    ],
)
def test_what_is_denied_cannot_be_written(path: str, workspace: Workspace, root: Path) -> None:
    (root / ".git").mkdir()
    (root / "inner").symlink_to(".git")
    assert code_of(lambda: workspace.write(path, b"x", expected=None)) == "write_denied"
    assert list((root / ".git").iterdir()) == []


_STARTED = """
    .config/starship.toml .config/powerline/config.json .config/liquidpromptrc .zsh_plugins.txt .editrc
    .oh-my-bash/custom/x.sh .config/sheldon/plugins.toml .local/share/omf/init.fish
    .local/share/fish/vendor_conf.d/x.fish .config/alacritty/alacritty.toml .config/alacritty.toml
    .alacritty.yml .config/ghostty/config .config/foot/foot.ini .config/rio/config.toml
    .local/share/konsole/x.profile .hyper.js .Xresources .urxvt/ext/x .tmux/plugins/tpm/tpm .tmuxp/x.yaml
    .config/waybar/config.jsonc .config/polybar/launch.sh .config/eww/eww.yuck .config/i3blocks/config
    .xmobarrc .conkyrc .config/dunst/dunstrc .config/rofi/config.rasi .config/river/init .fluxbox/startup
    .i3/config .config/xfce4/helpers.rc .local/share/gnome-shell/extensions/x/extension.js
    .config/pipewire/pipewire.conf .config/user-dirs.dirs .vnc/xstartup .fehbg .skhdrc .lessfilter
    .lesskey .config/bat/config .ripgreprc .curlrc .config/Kiro/User/settings.json
    .config/Windsurf/User/tasks.json .vscode-oss/extensions/x/main.js .vscode-insiders/x
    .config/dconf/user .local/share/nvim/site/plugin/x.lua .ideavimrc .nanorc .atom/init.coffee
    .config/lazygit/config.yml .lazygit.yml .tigrc .config/tig/config .config/gh-dash/config.yml
    .config/ranger/rc.conf .config/lf/lfrc .vifm/vifmrc .config/yazi/init.lua .config/mc/mc.ext.ini
    .mc.menu .mailcap .forward .qmail .qmail-list .courier-x .procmailrc .mailfilter .dovecot.sieve
    .mailrc .muttrc .config/neomutt/neomuttrc .config/aerc/aerc.conf .msmtprc .mbsyncrc .fetchmailrc
    .offlineimaprc .rhosts .shosts .k5login .google_authenticator .config/Yubico/u2f_keys .Xauthority
"""

_RUN_OR_SECRET = [
    ".local/share/systemd/user/x.service",
    ".local/share/dbus-1/services/x.service",
    ".config/sway/config",
    ".config/i3/config",
    ".config/hypr/hyprland.conf",
    ".config/openbox/autostart",
    ".xserverrc",
    ".xmonad/xmonad.hs",
    ".local/share/applications/x.desktop",
    ".direnv/bin/x",
    ".envrc.local",
    ".envrc.private",
    ".rvmrc",
    ".autoenv",
    ".autoenv.zsh",
    ".autoenv_leave.zsh",
    ".bashrc.d/x",
    ".oh-my-zsh/custom/x.zsh",
    ".p10k.zsh",
    ".zimrc",
    ".zpreztorc",
    ".mkshrc",
    ".xonshrc",
    ".config/nushell/config.nu",
    ".config/powershell/profile.ps1",
    ".inputrc",
    ".config/zsh/.zshrc",
    ".config/elvish/rc.elv",
    ".helix/languages.toml",
    ".config/helix/config.toml",
    ".doom.d/init.el",
    ".config/doom/init.el",
    ".spacemacs",
    ".kakrc",
    ".config/micro/init.lua",
    ".theia/tasks.json",
    ".config/Code/User/settings.json",
    ".config/VSCodium/User/tasks.json",
    "Library/Application Support/Kiro/User/settings.json",
    "Library/Application Support/Sublime Text/Packages/User/x.py",
    ".config/Cursor/User/settings.json",
    ".vscode-server/data/Machine/settings.json",
    ".lvimrc",
    ".config/kak/kakrc",
    ".claude.json",
    ".config/Claude/claude_desktop_config.json",
    ".amp/settings.json",
    ".config/amp/settings.json",
    ".codeium/windsurf/mcp_config.json",
    ".config/github-copilot/mcp.json",
    ".github/hooks/x.json",
    ".vibe/config.toml",
    ".kimi/x",
    ".iflow/x",
    ".rovodev/x",
    ".openhands/setup.sh",
    ".clinerules/hooks/x",
    ".pdbrc",
    ".ghci",
    ".iex.exs",
    ".perldb",
    ".byebugrc",
    ".rdbgrc",
    ".octaverc",
    ".gdbearlyinit",
    ".Renviron",
    ".julia/config/startup.jl",
    ".jupyter/jupyter_notebook_config.py",
    ".psqlrc",
    ".local/lib/python3.11/site-packages/x.pth",
    ".hgrc",
    ".config/jj/config.toml",
    ".venv/bin/activate",
    "venv/bin/python",
    "env/bin/activate.fish",
    ".pgpass",
    ".my.cnf",
    ".dockercfg",
    ".config/glab-cli/config.yml",
    ".config/rclone/rclone.conf",
    ".boto",
    ".s3cfg",
    ".terraformrc",
    ".password-store/x",
    *_STARTED.split(),
    ".bash_completion",
    ".local/share/bash-completion/completions/x",
    ".asdfrc",
    ".config/quickshell/shell.qml",
    ".config/uwsm/env",
    ".local/share/nautilus/scripts/x",
    ".config/mimeapps.list",
    ".config/gammastep/hooks/x",
    ".config/mpv/scripts/x.lua",
    ".config/qutebrowser/config.py",
    ".weechat/python/autoload/x.py",
    ".task/hooks/on-add.x",
    ".ocamlinit",
    ".sbclrc",
    ".mongoshrc.js",
    ".stumpwmrc",
    ".zed_server/x",
    ".vagrant.d/Vagrantfile",
]


@pytest.mark.parametrize("path", _RUN_OR_SECRET)
def test_what_programs_run_at_a_start_or_a_login_and_keys_cannot_be_written(
    path: str, workspace: Workspace
) -> None:
    for name in (path, f"a/{path}", path.upper()):
        assert code_of(lambda name=name: workspace.write(name, b"x", expected=None)) == "write_denied"


@pytest.mark.parametrize(
    "path",
    [
        *(".npmrc", ".pre-commit-config.yaml", "mise/x", ".config/nextest.toml", "a.lua", ".envrc.example"),
        *(".task/x", ".config/other", ".tool-versions", ".nvmrc", "mpv/x"),
        *(".env", ".openhands/microagents/x.md", ".clinerules/x.md", "bin/x", ".config/other.toml"),
        *(
            "User/x",
            "src/User/x",
            ".vscodeignore",
            ".vscode-test.mjs",
            "tmux/x",
            "style.less",
            "forward",
            ".qmailx",
        ),
        *(".github/copilot-instructions.md", ".venv/x", "activate", ".local/lib/x", ".editorconfig"),
    ],
)
def test_what_people_edit_every_day_can_be_written(path: str, workspace: Workspace, root: Path) -> None:
    workspace.write(path, b"x", expected=None)
    assert (root / path).read_bytes() == b"x"


def test_what_is_no_regular_file_is_not_read_and_does_not_block(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert code_of(lambda: workspace.read("pipe")) == "not_a_file"
    assert code_of(lambda: workspace.read(".")) == "is_a_directory"


def test_undo_brings_back_the_content_before_and_removes_what_was_created(
    workspace: Workspace, root: Path
) -> None:
    first = workspace.write("x", b"1", expected=None)
    workspace.write("x", b"2", expected=first.version)
    workspace.undo("x")
    assert (root / "x").read_bytes() == b"1"
    workspace.undo("x")
    assert not (root / "x").exists()
    assert code_of(lambda: workspace.undo("x")) == "nothing_to_undo"


def test_undo_refuses_when_the_file_changed_since(workspace: Workspace, root: Path) -> None:
    workspace.write("x", b"1", expected=None)
    (root / "x").write_bytes(b"theirs")
    assert code_of(lambda: workspace.undo("x")) == "stale"
    assert (root / "x").read_bytes() == b"theirs"


def test_a_listing_is_sorted_names_folders_and_does_not_enter_git(workspace: Workspace, root: Path) -> None:
    for name in ("b/c/deep", "a", ".git/config"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    listed = [(entry.path, entry.is_folder) for entry in workspace.walk(".", depth=2, limit=99)]
    assert listed == [(".git", True), ("a", False), ("b", True), ("b/c", True)]


@given(data=st.lists(st.binary(max_size=200), min_size=1, max_size=6))
def test_undoing_every_write_leads_back_through_every_state(
    data: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("law")
    workspace = Workspace([root])
    version: str | None = None
    for content in data:
        version = workspace.write("x", content, expected=version).version
    for content in reversed(data):
        assert workspace.read("x").data == content
        workspace.undo("x")
    assert list(root.iterdir()) == []
    workspace.close()


PIECES = [
    "..",
    ".",
    "a",
    "link",
    "out",
    "in",
    "/",
    "//",
    "/etc",
    "~",
    "*",
    "\0",
    "\n",
    "\ud800",
    "\udcff",
    "é",
    "a" * 300,
]
ODD_PATHS = st.text(st.characters(), max_size=40) | st.lists(st.sampled_from(PIECES), max_size=6).map(
    "/".join
)


@given(path=ODD_PATHS, beneath_root=st.booleans())
def test_any_path_is_a_file_of_the_workspace_or_a_named_failure(
    path: str, beneath_root: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("law")
    root, outside = base / "root", base / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"secret")
    (root / "in").mkdir(parents=True)
    (root / "out").symlink_to(outside)
    (root / "link").symlink_to("in/target")
    before = set(root.parent.iterdir())
    workspace = Workspace([root])
    named = f"{root}/{path}" if beneath_root else path
    for action in _everything(workspace, named):
        try:
            action()
        except WorkspaceError:
            assert list(root.rglob("?*.kakite")) == []
    workspace.close()
    assert set(root.parent.iterdir()) == before
    assert [(file.name, file.read_bytes()) for file in outside.iterdir()] == [("a", b"secret")]


def _everything(workspace: Workspace, path: str) -> Iterator[Callable[[], object]]:
    yield lambda: workspace.plan_undo(path)
    yield lambda: workspace.write(path, b"x", expected=None)
    yield lambda: workspace.write_all(
        [FileWrite(path=each, data=b"", expected=None) for each in (f"{path}2", "new")]
    )
    yield lambda: _same(workspace.read(path).data, b"x")
    yield lambda: workspace.is_folder(path)
    yield lambda: workspace.walk(path, depth=3, limit=10, ignored=False)
    yield lambda: list(workspace.find_files(path))
    yield lambda: workspace.remove(path, expected=compute_version(b"x"))
    yield lambda: workspace.undo(path)
    yield lambda: workspace.undo_run(path)


def _same(one: bytes, other: bytes) -> None:
    assert one == other


@pytest.mark.parametrize("kept", [True, False])
def test_threads_may_read_list_and_write_at_the_same_time(kept: bool, root: Path, tmp_path: Path) -> None:
    (root / "x").write_bytes(b"0")
    workspace = Workspace([root], history=EditLog(tmp_path / "h.sqlite") if kept else None)

    def count() -> None:
        times = 0
        while times < 20:
            file = workspace.read("x")
            with suppress(WorkspaceError):
                workspace.write("x", str(int(file.data) + 1).encode(), expected=file.version)
                times += 1
            assert [found.path for found in workspace.find_files()] == ["x"]

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(count) for _ in range(4)]:
            done.result(timeout=60)
    assert workspace.read("x").data == b"80"
    workspace.close()


def test_the_names_that_are_denied_are_those_of_the_documentation() -> None:
    docs = Path(__file__).parents[2] / "docs" / "tools.md"
    _, _, told = docs.read_text(encoding="utf-8").partition("`write_denied` is for these names")
    told, _, _ = told.partition("\n\nVersion control,")
    told = told.partition(":\n\n")[2]
    assert re.findall("`([^`]+)`", told) == list(DEFAULT_DENYLIST)


@pytest.mark.parametrize("path", [".github/workflows/ci.yml", ".pre-commit-config.yaml", "CLAUDE.md", ".vsx"])
def test_what_people_ask_for_can_be_written(path: str, workspace: Workspace, root: Path) -> None:
    workspace.write(path, b"x", expected=None)
    assert (root / path).read_bytes() == b"x"


@pytest.mark.parametrize(
    "path",
    ["x.code-workspace", "a/X.Code-Workspace", ".config/git/config", "a/.LOCAL/bin/x", ".gemini/x", ".Netrc"],
)
def test_names_with_a_star_and_of_several_parts_are_denied(path: str, workspace: Workspace) -> None:
    assert code_of(lambda: workspace.write(path, b"", expected=None)) == "write_denied"


@pytest.mark.parametrize("path", [".config/x", ".local/share/bin", "bin/.npmrc", "code-workspace", "a.git/x"])
def test_names_that_only_resemble_those_can_be_written(path: str, workspace: Workspace, root: Path) -> None:
    workspace.write(path, b"x", expected=None)
    assert (root / path).read_bytes() == b"x"


def test_another_list_is_taken_as_it_is_given(root: Path) -> None:
    workspace = Workspace([root], denied=["*.lock", "a/b"])
    for path in ("x.lock", "a/b", "y/A/b/c"):
        assert code_of(lambda path=path: workspace.write(path, b"", expected=None)) == "write_denied"
    for path in (".git/x", "a/c", "b"):
        workspace.write(path, b"x", expected=None)
        assert (root / path).read_bytes() == b"x"
    workspace.close()


_REPOSITORY = ["HEAD", "config", "objects/x", "refs/x"]


@pytest.mark.parametrize("names", [*permutations(_REPOSITORY), ("commondir", "HEAD"), ("HEAD", "commondir")])
@pytest.mark.parametrize("within", ["", "lib/"])
def test_no_write_completes_a_repository_or_changes_one(
    names: tuple[str, ...], within: str, workspace: Workspace, root: Path
) -> None:
    codes: list[str] = []
    for name in names:
        try:
            workspace.write(within + name, b"ref: refs/heads/x\n", expected=None)
        except WorkspaceError as error:
            codes.append(error.code)
    assert set(codes) == {"write_denied"}
    assert not _is_repository(root / within)
    together = [FileWrite(path=f"new/{within}{name}", data=b"x", expected=None) for name in names]
    assert code_of(lambda: workspace.write_all(together)) == "write_denied"
    assert not (root / "new").exists()


def _is_repository(folder: Path) -> bool:
    there = {entry.name for entry in folder.iterdir()}
    return "HEAD" in there and ("commondir" in there or {"objects", "refs"} <= there)


@pytest.mark.parametrize("path", ["b.git/config", "b.git/hooks/x", "by/config", "b.git/HEAD"])
def test_a_repository_that_is_there_is_left_alone(path: str, workspace: Workspace, root: Path) -> None:
    for name in ("objects", "refs"):
        (root / "b.git" / name).mkdir(parents=True)
    (root / "b.git" / "HEAD").write_bytes(b"ref: refs/heads/x")
    (root / "by").symlink_to("b.git")
    expected = compute_version(b"ref: refs/heads/x") if path.endswith("HEAD") else None
    assert code_of(lambda: workspace.write(path, b"", expected=expected)) == "write_denied"
    workspace.write("beside", b"", expected=None)


@pytest.mark.linux
def test_magic_links_beneath_a_root_lead_nowhere() -> None:
    workspace = Workspace(["/proc/self"])
    for path in ("cwd/x", "root/etc/passwd", "exe", "fd/0"):
        assert code_of(lambda path=path: workspace.read(path)) == "path_escapes"
    workspace.close()


def test_names_are_added_to_those_denied_and_let_go(root: Path) -> None:
    workspace = Workspace([root], denied=build_denylist(besides=["secrets"], without=[".VSCode"]))
    workspace.write(".vscode/tasks.json", b"", expected=None)
    for path in ("a/secrets/x", ".git/x"):
        assert code_of(lambda path=path: workspace.write(path, b"", expected=None)) == "write_denied"
    workspace.close()


@pytest.mark.parametrize(("besides", "without"), [([], ["vscode"]), ([], [""]), (["/"], [])])
def test_a_name_that_changes_nothing_is_wrong_usage(besides: list[str], without: list[str]) -> None:
    with pytest.raises(UsageError):
        build_denylist(besides=besides, without=without)


def test_a_root_given_through_a_link_is_named_by_either_name(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "sub").mkdir(parents=True)
    (real / "sub" / "x").write_bytes(b"1")
    link.symlink_to(real)
    workspace = Workspace([link])
    for root in (real, link):
        file = workspace.read(f"{root}/sub/x")
        assert (file.path, file.data) == ("sub/x", b"1")
        workspace.write(f"{root}/sub/x", b"1", expected=file.version)
        assert [entry.path for entry in workspace.walk(str(root), depth=1, limit=9)] == ["sub"]
        assert workspace.canonicalize(f"{root}/sub/../sub/x") == f"{real}/sub/x"
    assert workspace.roots == (str(real),)
    assert [workspace.canonicalize(path) for path in ("a/b", "/elsewhere", f"{link}x")] == [
        f"{real}/a/b",
        "/elsewhere",
        f"{link}x",
    ]
    with pytest.raises(WorkspaceError) as caught:
        workspace.read(f"{link}/../real/sub/x")
    assert caught.value.code == "path_escapes"


def test_a_view_names_everything_from_its_folder_on(root: Path) -> None:
    (root / "sub" / "deep").mkdir(parents=True, exist_ok=True)
    (root / "sub" / "deep" / "x").write_bytes(b"1")
    (root / "y").write_bytes(b"2")
    workspace = Workspace([root])
    view = workspace.at("sub")
    assert (view.folder, view.roots) == (f"{root}/sub", workspace.roots)
    assert view.read("deep/x").data == view.read(f"{root}/sub/deep/x").data == b"1"
    assert view.at("deep").read("x").data == b"1"
    assert [file.path for file in view.walk_files()] == ["deep/x"]
    assert (view.to_relative("sub/deep/x"), view.to_relative(f"{root}/y")) == ("deep/x", f"{root}/y")
    assert view.find("nothing") is None
    view.write("new", b"3", expected=None)
    assert (root / "sub" / "new").read_bytes() == b"3"
    view.undo("new")
    assert not (root / "sub" / "new").exists()
    assert workspace.at(str(root)).read("y").data == workspace.at("sub/..").read("y").data == b"2"


@pytest.mark.parametrize("path", ["../y", "{root}/y", "deep/../../y", "{root}", "..", "{root}/subx"])
def test_a_view_names_nothing_outside_of_its_folder(root: Path, path: str) -> None:
    (root / "sub" / "deep").mkdir(parents=True, exist_ok=True)
    (root / "subx").mkdir()
    (root / "y").write_bytes(b"2")
    view = Workspace([root]).at("sub")
    path = path.format(root=root)
    calls: list[Callable[[], object]] = [
        lambda: view.read(path),
        lambda: view.is_folder(path),
        lambda: view.get_mode(path),
        lambda: view.at(path),
        lambda: view.walk(path, depth=1, limit=9),
        lambda: view.write(path, b"3", expected=None),
        lambda: view.check_writable(path),
        lambda: view.plan_undo(path),
        lambda: view.amend(path, b"2"),
        lambda: list(view.walk_files(path)),
    ]
    for call in calls:
        with pytest.raises(WorkspaceError) as caught:
            call()
        assert (caught.value.code, caught.value.path) == ("path_escapes", path)
    assert (root / "y").read_bytes() == b"2"


@pytest.mark.parametrize(
    ("path", "code"), [("y", "not_a_directory"), ("no", "file_not_found"), ("", "bad_path")]
)
def test_a_view_is_of_a_folder(root: Path, path: str, code: str) -> None:
    (root / "y").write_bytes(b"2")
    with pytest.raises(WorkspaceError) as caught:
        Workspace([root]).at(path)
    assert caught.value.code == code


def test_a_view_undoes_a_move_out_of_its_folder_whole(root: Path) -> None:
    (root / "sub").mkdir(exist_ok=True)
    (root / "sub" / "x").write_bytes(b"1")
    workspace = Workspace([root])
    file = workspace.read("sub/x")
    workspace.write_all(
        [
            FileWrite(path="sub/x", data=None, expected=file.version),
            FileWrite(path="y", data=b"1", expected=None),
        ],
        by=Author(tool="move", run="one"),
    )
    view = workspace.at("sub")
    undoing = view.plan_undo("x")
    assert [each.key for each in undoing] == [f"{root}/sub/x", f"{root}/y"]
    view.apply_undo(undoing)
    assert (root / "sub" / "x").read_bytes() == b"1"
    assert not (root / "y").exists()


@pytest.fixture
def linked(root: Path, tmp_path: Path) -> Path:
    """Return the root with absolute links: into it, out of it, and in a circle."""
    (root / "real/inner").mkdir(parents=True)
    (root / "real/x").write_bytes(b"1")
    (root / "in").symlink_to(root / "real")
    (root / "real/file").symlink_to(root / "in" / "x")
    (root / "real/inner/up").symlink_to("../file")
    (root / "out").symlink_to(tmp_path)
    (root / "round").symlink_to(root / "round")
    (root / "git").symlink_to(root / ".git")
    return root


@pytest.mark.parametrize("path", ["in/x", "real/file", "in/file", "in/inner/../x", "in/inner/up", "./in//x"])
def test_absolute_links_that_lead_beneath_a_root_are_followed(
    path: str, linked: Path, workspace: Workspace
) -> None:
    file = workspace.read(path)
    assert (file.data, file.path) == (b"1", "real/x")
    workspace.write(path, b"2", expected=file.version)
    assert (linked / "real/x").read_bytes() == b"2"
    assert (linked / "in").is_symlink()
    assert (linked / "real/file").is_symlink()
    workspace.undo(path)
    workspace.write("in/new/y", b"", expected=None)
    assert (linked / "real/new/y").exists()
    assert {entry.path for entry in workspace.walk("in", depth=1, limit=9)} == {"file", "inner", "new", "x"}
    assert [found.path for found in workspace.find_files("in")] == ["real/new/y", "real/x"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("out/x", "path_escapes"),
        ("round", "path_escapes"),
        ("round/x", "path_escapes"),
        ("in/../../x", "path_escapes"),
        ("git/config", "write_denied"),
    ],
)
def test_absolute_links_lead_nowhere_else(path: str, code: str, linked: Path, workspace: Workspace) -> None:
    (linked / ".git").mkdir()
    assert code_of(lambda: workspace.write(path, b"x", expected=None)) == code
    if code == "path_escapes":
        assert code_of(lambda: workspace.read(path)) == code
