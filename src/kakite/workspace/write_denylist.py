"""Lists the names that tools may never write, whoever asks."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from kakite.errors import UsageError
from kakite.workspace.atomic_file import FileSlot
from kakite.workspace.errors import WorkspaceError

DEFAULT_DENYLIST = (
    # version control
    ".git",
    ".hg",
    ".hgrc",
    ".config/hg",
    ".svn",
    ".jj",
    ".config/jj",
    ".sl",
    ".bzr",
    ".gitmodules",
    ".gitconfig",
    ".config/git",
    ".husky",
    # keys
    ".ssh",
    ".gnupg",
    ".git-credentials",
    ".netrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".aws",
    ".azure",
    ".boto",
    ".s3cfg",
    ".kube",
    ".docker/config.json",
    ".dockercfg",
    ".config/containers/auth.json",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/rclone",
    ".terraformrc",
    ".terraform.d",
    ".password-store",
    ".vault-token",
    ".local/share/keyrings",
    # agents
    ".pi",
    ".claude",
    ".claude.json",
    ".config/Claude",
    "Library/Application Support/Claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".windsurf",
    ".codeium",
    ".kiro",
    ".roo",
    ".amazonq",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".config/opencode",
    ".crush",
    "crush.json",
    ".crush.json",
    ".config/crush",
    ".aider.conf.yml",
    ".goose",
    ".config/goose",
    ".kilocode",
    ".kilo",
    ".augment",
    ".copilot",
    ".config/github-copilot",
    ".github/hooks",
    ".qwen",
    ".continue",
    ".trae",
    ".junie",
    ".factory",
    ".amp",
    ".config/amp",
    ".vibe",
    ".kimi",
    ".iflow",
    ".rovodev",
    ".codebuddy",
    ".clinerules/hooks",
    ".openhands/setup.sh",
    ".openhands/pre-commit.sh",
    ".mcp.json",
    ".config/mcp",
    ".config/kakite",
    "kakite.yaml",
    # editors
    ".vscode",
    "*.code-workspace",
    ".config/Code/User",
    ".config/VSCodium/User",
    ".config/Cursor/User",
    "Library/Application Support/Code/User",
    "Library/Application Support/VSCodium/User",
    "Library/Application Support/Cursor/User",
    ".vscode-server",
    ".cursor-server",
    ".theia",
    ".idea",
    ".devcontainer",
    ".devcontainer.json",
    ".zed",
    ".config/zed",
    ".fleet",
    ".vs",
    ".lapce",
    ".exrc",
    ".vim",
    ".vimrc",
    ".gvimrc",
    ".config/vim",
    ".lvimrc",
    ".ycm_extra_conf.py",
    ".config/nvim",
    ".config/lvim",
    ".nvim.lua",
    ".nvimrc",
    ".lazy.lua",
    ".helix",
    ".config/helix",
    ".kakrc",
    ".config/kak",
    ".config/micro",
    ".config/sublime-text",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".emacs",
    ".emacs.d",
    ".config/emacs",
    ".doom.d",
    ".config/doom",
    ".spacemacs",
    ".spacemacs.d",
    # environments of folders
    ".envrc",
    ".envrc.local",
    ".envrc.private",
    ".direnvrc",
    ".direnv",
    ".config/direnv",
    ".autoenv*",
    ".shadowenv.d",
    ".rvmrc",
    "mise.toml",
    ".mise.toml",
    "mise.*.toml",
    ".mise.*.toml",
    ".mise",
    "mise/config.toml",
    "mise/config.*.toml",
    "mise/conf.d",
    ".config/mise",
    ".config/mise.toml",
    ".rtx.toml",
    ".venv/bin",
    "venv/bin",
    "bin/activate",
    "bin/activate.*",
    # debuggers and other programs with a prompt
    ".gdbinit",
    ".gdbearlyinit",
    ".config/gdb",
    ".lldbinit",
    ".irbrc",
    ".config/irb",
    ".pryrc",
    ".config/pry",
    ".byebugrc",
    ".rdbgrc",
    ".rdbgrc.rb",
    ".pdbrc",
    ".ipython",
    ".jupyter",
    ".local/lib/python*",
    ".Rprofile",
    ".Renviron",
    ".julia/config",
    ".juliarc.jl",
    ".ghci",
    ".ghc/ghci.conf",
    ".iex.exs",
    ".perldb",
    ".octaverc",
    ".psqlrc",
    ".sqliterc",
    # shells
    ".bashrc",
    ".bashrc.d",
    ".bash_aliases",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".config/bash",
    ".profile",
    ".inputrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".config/zsh",
    ".oh-my-zsh",
    ".p10k.zsh",
    ".zimrc",
    ".zpreztorc",
    ".zprezto",
    ".kshrc",
    ".mkshrc",
    ".yashrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".config/fish",
    ".xonshrc",
    ".config/xonsh",
    ".config/nushell",
    ".elvish",
    ".config/elvish",
    ".config/powershell",
    ".tmux.conf",
    ".config/tmux",
    ".screenrc",
    ".byobu",
    ".config/zellij",
    ".config/kitty",
    ".wezterm.lua",
    ".config/wezterm",
    ".local/bin",
    # the desktop and the start of a session
    ".xprofile",
    ".xinitrc",
    ".xserverrc",
    ".xsession",
    ".xsessionrc",
    ".xbindkeysrc",
    ".xmonad",
    ".config/xmonad",
    ".config/sway",
    ".config/i3",
    ".config/hypr",
    ".config/niri",
    ".config/openbox",
    ".config/labwc",
    ".config/awesome",
    ".config/bspwm",
    ".config/sxhkd",
    ".config/qtile",
    ".pam_environment",
    ".config/environment.d",
    ".config/systemd",
    ".local/share/systemd",
    ".local/share/dbus-1",
    ".local/share/applications",
    ".config/autostart",
    ".config/plasma-workspace",
    ".config/lxsession",
    ".hammerspoon",
    "Library/LaunchAgents",
)
"""Names that tools may not write, nor anything below them; ``*`` stands for anything.

What version control, editors, agents and shells take from there can run code on the person's machine when
they merely open or enter the folder, start a shell, a debugger or another program of their own there, or log
in, and keys. No claim that nothing else can: a build script runs once the person builds (and ``.npmrc``
counts then), hooks of ``.pre-commit-config.yaml`` once they commit; those are files that people have edited.
"""

_HINT = "leave it to the person: files there can run code on their machine, or are secret"


def build_denylist(*, besides: Iterable[str] = (), without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names that are denied, with others besides, and without some of them.

    Raises:
        UsageError: one is empty, or is to be let go and is none of them.
    """
    names = (*DEFAULT_DENYLIST, *besides)
    let_go = {name.strip("/").casefold() for name in without}
    unknown = sorted(let_go - {name.strip("/").casefold() for name in names})
    if unknown:
        hint = f"the names are {', '.join(names)}"
        raise UsageError(f"tools may write `{unknown[0]}` anyway, or it is part of another name", hint=hint)
    if not all(name.strip("/") for name in names):
        raise UsageError("a name that tools may not write is empty", hint="leave --deny-write out")
    return tuple(name for name in names if name.strip("/").casefold() not in let_go)


class DenyList:
    """Names of files and folders that may not be written, in any case of their letters."""

    def __init__(self, names: Iterable[str]) -> None:
        """Take names, or several joined by ``/``; ``*`` stands for anything within one."""
        folded = {name.strip("/").casefold() for name in names}
        self._names = {name for name in folded if "*" not in name}
        self._patterns = sorted(folded - self._names)
        self._longest = max((name.count("/") + 1 for name in folded), default=0)

    def check(self, relative: str, path: str) -> None:
        """Raise ``write_denied`` if the path goes through one of the names."""
        parts = [part for part in relative.split("/") if part not in {"", "."}]
        for start in range(len(parts)):
            for end in range(start + 1, min(start + self._longest, len(parts)) + 1):
                name = "/".join(parts[start:end])
                if self._is_denied(name.casefold()):
                    what = "" if name == path else f": `{name}` is protected"
                    told = f"`{path}` may not be written by tools{what}"
                    raise WorkspaceError("write_denied", path, told, hint=_HINT)

    def _is_denied(self, name: str) -> bool:
        return name in self._names or any(
            name.count("/") == each.count("/") and fnmatchcase(name, each) for each in self._patterns
        )


def check_repositories(places: Collection[FileSlot], said: Iterable[str]) -> None:
    """Raise ``write_denied`` if git would run what is written: in a folder that it takes for a repository.

    It takes any folder for one that holds ``HEAD``, ``objects`` and ``refs``, whatever its name, and obeys
    the ``config`` there.
    """
    coming = {place.key.casefold() for place in places}
    for place, path in zip(places, said, strict=True):
        above, key = ".", place.key
        for _ in range(place.path.count("/") + 1):
            key = key.rpartition("/")[0]
            if _is_repository(place.folder, above, key, coming):
                raise WorkspaceError(
                    "write_denied",
                    path,
                    f"git takes the folder of `{path}`, or one above, for a repository, or would then",
                    hint=_HINT,
                )
            above += "/.."


def _is_repository(folder: int, above: str, key: str, coming: Collection[str]) -> bool:
    def has_name(name: str) -> bool:
        if f"{key}/{name}".casefold() in coming:
            return True
        try:
            os.stat(f"{above}/{name}", dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    return has_name("HEAD") and (has_name("commondir") or (has_name("objects") and has_name("refs")))
