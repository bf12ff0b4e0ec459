"""Finds how Kakite was installed, and the command that adds a package to it. Imports nothing heavy."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote


def get_install_command(package: str) -> str:
    """Return what adds a package to the environment that Kakite runs in, by what made that environment."""
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx inject kakite {quote(package)}"
    if Path(sys.prefix, "uv-receipt.toml").exists():  # `uv tool`
        return f"uv pip install --python {quote(sys.executable)} {quote(package)}"
    return f"pip install {quote(package)}, in the environment that has kakite"


def get_extra_install_command(extra: str) -> str:
    """Return what adds an extra of Kakite: it installs no other version and takes no extra away."""
    package = f"kakite[{extra}]"
    if Path(sys.prefix, "pipx_metadata.json").exists():
        # Some pipx inject nothing that is there already; `pipx install --force` drops other extras.
        return f"pipx runpip kakite install {quote(package)}"
    return get_install_command(package)
