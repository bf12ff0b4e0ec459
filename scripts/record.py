"""The pictures of a terminal in the documentation: recorded from real runs by ``make record``.

Each is what a command printed, as SVG with no font or script from elsewhere. What differs from run to run
(ids, times) stays as it was on that day.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

PICTURES = Path(__file__).parent.parent / "docs/pictures"
KAKITE = str(Path(sys.executable).with_name("kakite"))
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


def printed(words: Sequence[str], folder: Path, given: str = "") -> str:
    """Return what a command prints on a terminal, with its colours."""
    more = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [KAKITE, *words],
        cwd=folder, input=given.encode(), env={**os.environ, **more},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
    )  # fmt: skip
    return settled(done.stdout.decode())


def settled(text: str) -> str:
    """Return what is left to read at the end: lines that were drawn over are gone."""
    left: list[str] = []
    for line in text.split("\n"):
        left = left[: len(left) - line.count("\x1b[1A")]
        shown = re.sub(r"\x1b\[(?:\?25[lh]|1A)", "", line.rpartition("\x1b[2K")[2])
        left.append(shown.rpartition("\r")[2])
    return "\n".join(left)


def draw(name: str, title: str, text: str) -> None:
    """Write a picture of a terminal with this text."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(text), soft_wrap=True)
    svg = console.export_svg(title=title, theme=DIMMED_MONOKAI, code_format=FRAME, unique_id=name)
    (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")


def edits(folder: Path) -> str:
    """Return a drifting edit that lands, and one that is stale."""
    file = folder / "greet.py"
    file.write_text(GREET, encoding="utf-8")
    shown: list[str] = []
    for name, reply in (("reply", DRIFTED), ("stale", STALE)):
        before = file.read_text(encoding="utf-8")
        shown += [f"\x1b[1m$ cat {name}.txt\x1b[0m", *reply.splitlines()]
        shown += [f"\x1b[1m$ kakite edit < {name}.txt\x1b[0m", printed(["edit", "greet.py"], folder, reply)]
        if (after := file.read_text(encoding="utf-8")) != before:
            shown += ["\x1b[1m$ cat greet.py\x1b[0m", after]
    return "\n".join(shown)


def task(folder: Path) -> str:
    """Return an issue that becomes a branch, without the report that follows."""
    lines = printed(["agent", "demo"], folder).split("\n")
    return "\n".join(lines[: next(n for n, line in enumerate(lines) if "The report" in line)])


def main() -> None:
    """Record all pictures."""
    with tempfile.TemporaryDirectory() as name:
        draw("terminal-edit", "kakite edit", edits(Path(name)))
        draw("terminal-task", "kakite agent demo", f"\x1b[1m$ kakite agent demo\x1b[0m\n{task(Path(name))}")


if __name__ == "__main__":
    main()
