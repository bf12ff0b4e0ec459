"""What tools may not write, whoever asks."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from kakite.errors import UsageError
from kakite.workspace.failures import WorkspaceError
from kakite.workspace.place import Place

DENIED = (
    ".git",
    ".hg",
    ".svn",
    ".jj",
    ".sl",
    ".bzr",
    ".ssh",
    ".gnupg",
    ".pi",
    ".vscode",
    "*.code-workspace",
    ".idea",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".windsurf",
    ".kiro",
    ".roo",
    ".amazonq",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".crush",
    "crush.json",
    ".crush.json",
    ".config/crush",
    ".config/opencode",
    ".aider.conf.yml",
    ".goose",
    ".config/goose",
    ".kilocode",
    ".augment",
    ".copilot",
    ".qwen",
    ".continue",
    ".trae",
    ".junie",
    ".factory",
    ".mcp.json",
    ".husky",
    ".envrc",
    ".direnvrc",
    ".config/direnv",
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
    ".devcontainer",
    ".devcontainer.json",
    ".zed",
    ".config/zed",
    ".fleet",
    ".vs",
    ".exrc",
    ".vim",
    ".vimrc",
    ".gvimrc",
    ".config/nvim",
    ".nvim.lua",
    ".nvimrc",
    ".lazy.lua",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".emacs",
    ".emacs.d",
    ".config/emacs",
    ".gdbinit",
    ".lldbinit",
    ".irbrc",
    ".pryrc",
    ".Rprofile",
    ".ipython",
    ".gitmodules",
    ".gitconfig",
    ".config/git",
    ".git-credentials",
    ".netrc",
    ".pypirc",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".config/gcloud",
    ".config/gh",
    ".bashrc",
    ".bash_aliases",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".config/fish",
    ".tmux.conf",
    ".config/tmux",
    ".screenrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".config/environment.d",
    ".config/systemd",
    ".config/autostart",
    ".config/plasma-workspace",
    "Library/LaunchAgents",
    ".config/kakite",
    ".config/mcp",
    ".local/bin",
    "kakite.yaml",
)
"""Names that tools may not write, nor anything below them; ``*`` stands for anything.

What version control, editors, agents and shells take from there can run code on the person's machine when
they merely open or enter the folder, start a shell, a debugger or another program of their own there, or log
in, and keys. No claim that nothing else can: a build script runs once the person builds (and ``.npmrc``
counts then), hooks of ``.pre-commit-config.yaml`` once they commit; those are files that people have edited.
"""

_HINT = "leave it to the person: what is there can run code on their machine, or is secret"


def names_denied(*, besides: Iterable[str] = (), without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names that are denied, with others besides, and without some of them.

    Raises:
        UsageError: one is empty, or is to be let go and is none of them.
    """
    names = (*DENIED, *besides)
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
                if self._denies(name.casefold()):
                    what = "" if name == path else f": `{name}` is protected"
                    told = f"`{path}` may not be written by tools{what}"
                    raise WorkspaceError("write_denied", path, told, hint=_HINT)

    def _denies(self, name: str) -> bool:
        return name in self._names or any(
            name.count("/") == each.count("/") and fnmatchcase(name, each) for each in self._patterns
        )


def check_repositories(places: Collection[Place], said: Iterable[str]) -> None:
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
    def has(name: str) -> bool:
        if f"{key}/{name}".casefold() in coming:
            return True
        try:
            os.stat(f"{above}/{name}", dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))
