"""What tools may not write, whoever asks."""

from __future__ import annotations

DENIED = (
    ".git",
    ".hg",
    ".svn",
    ".ssh",
    ".gnupg",
    ".pi",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".cursor",
    ".mcp.json",
    ".husky",
    ".envrc",
    ".devcontainer",
    ".zed",
    ".vs",
    ".gitmodules",
    "kakite.yaml",
)
"""Names that tools may not write, nor anything below them.

What version control, editors, agents and hooks of the shell take from there can run code on the person's
machine when they merely open or enter the folder, and keys. No claim that nothing else can: a build script
runs once the person builds.
"""
