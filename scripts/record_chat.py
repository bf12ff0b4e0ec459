"""The pictures of a conversation: ``kakite chat`` at a terminal, with a model that follows a script."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from pyte.screens import Char
from rich.style import Style
from rich.text import Text
from tests.cli.screen import CTRL_C, ENTER, Screen, open_screen

from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server

COLUMNS = 80
MODEL = "anthropic:claude-sonnet-5-5"
BEFORE = "def area(radius):\n    return 3.14 * radius**2\n"
IMPORTED = "import math\n\n\ndef area(radius):\n    return math.pi * radius**2\n"
# The tests wait until the picture's person has written something meanwhile.
TESTS = """\
import os, time, unittest
from calc import area

class AreaTest(unittest.TestCase):
    def test_area(self):
        while not os.path.exists("../written"):
            time.sleep(0.02)
        self.assertAlmostEqual(area(1), 3.14159265, 8)
"""


def _edit(old: str, new: str) -> dict[str, Any]:
    return _call("text_editor", command="str_replace", path="calc.py", old_str=old, new_str=new)


def _call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "arguments": arguments}]}


TURNS = (
    _call("text_editor", command="view", path="calc.py"),
    _edit(BEFORE, IMPORTED),
    _call("run_command", command="python3 -m unittest -q"),
    _edit("def area(radius):\n", 'def area(radius):\n    """Return the area of a circle."""\n'),
    {"say": "`area()` uses `math.pi` and has a docstring. The test passes."},
)


REQUEST = "area() in calc.py should use math.pi"
CHANGE = (*TURNS[:2], {"say": "`area()` uses `math.pi` now."})


@contextmanager
def serving(folder: Path, turns: Sequence[dict[str, Any]]) -> Generator[ScenarioServer]:
    """Yield a model that says this, for a folder with the file that it changes."""
    (folder / "calc.py").write_text(BEFORE, encoding="utf-8")
    with run_scenario_server(Scenario.parse(json.dumps({"title": "picture", "turns": turns}))) as server:
        yield server


@contextmanager
def _chatting(folder: Path) -> Generator[Screen]:
    """Yield the screen of a conversation in which the first message was sent."""
    (folder / "test_calc.py").write_text(TESTS, encoding="utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    home = folder.parent / "home"
    home.mkdir()
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "none", "LC_ALL": "C.UTF-8"}
    with serving(folder, TURNS) as server:
        words = ("--model", MODEL, "--base-url", server.anthropic_url, "--sandbox", "local")
        command = (str(Path(sys.executable).parent / "kakite"), "chat", *words)
        with open_screen(command, env, folder, COLUMNS, 60) as screen:
            screen.wait_for_bottom(MODEL)
            screen.wait_until(lambda: "●" not in screen.bottom, "ready")
            screen.press(REQUEST + ENTER)
            screen.wait_for_bottom("Allow this?")
            yield screen
            screen.press(CTRL_C)


def approval(folder: Path) -> Text:
    """Return the screen when the model wants to change a file."""
    with _chatting(folder) as screen:
        return _draw(screen)


def steering(folder: Path) -> Text:
    """Return a conversation that is steered while the tests run, and rewound at its end."""
    with _chatting(folder) as screen:
        screen.press("y" + ENTER)
        screen.wait_for("$ python3 -m unittest")
        screen.wait_for_bottom("Allow this?")
        screen.press("y" + ENTER)
        screen.wait_for_bottom("run_command: python3")
        screen.press("also write a docstring" + ENTER)
        screen.wait_for_bottom("waits: also write a docstring")
        (folder.parent / "written").touch()
        screen.wait_for("The model has your message.")
        screen.wait_for("Return the area of a circle")
        screen.wait_for_bottom("Allow this?")
        screen.press("y" + ENTER)
        screen.wait_for("The test passes.")
        screen.wait_for_bottom("· /help")
        screen.press("/rewind" + ENTER)
        screen.wait_for_bottom("Before which message?")
        screen.press("1" + ENTER)
        screen.wait_for_bottom("Bring back:")
        screen.press("f" + ENTER)
        screen.wait_for("/undo takes that back")
        screen.wait_for_bottom("· /help")
        return _draw(screen)


def _draw(screen: Screen) -> Text:
    """Return what stands at the terminal from the first message on, and the command above it."""
    return draw_from(screen, "›", f"$ kakite chat --model {MODEL}")


_CLOCK = re.compile(r"^\s*\d\d:\d\d [AP]M ")
"""A line of Claude Code that tells the time, which is another one each day."""


def draw_from(screen: Screen, begins: str, command: str, *, until: str = "") -> Text:
    """Return the command, and what stands at the terminal from this text on, to the line of the other."""
    rows = [row for each in screen.rows if not _CLOCK.search((row := _to_text(each)).plain)]
    first = next(at for at, row in enumerate(rows) if begins in row.plain)
    last = next((at for at, row in enumerate(rows) if until and until in row.plain), len(rows))
    # Between the line and the status line there is the rest of the screen, empty.
    part = [Text(""), *rows[first : last + 1]]
    shown = [row for before, row in pairwise(part) if row.plain or before.plain]
    return Text("\n").join([Text(command, style="bold"), Text(""), *shown])


def _to_text(row: Sequence[Char]) -> Text:
    text = Text()
    end = max((at for at, cell in enumerate(row, 1) if cell.data != " " or cell.bg != "default"), default=0)
    for style, cells in groupby(row[:end], _to_style):
        text.append("".join(cell.data for cell in cells), style)
    # How long a command took is another number each time.
    taken = re.search(r"  \d+\.\d s$", text.plain)
    if taken:
        text.right_crop(len(taken[0]))
    return text


_NAMES = {"brown": "yellow", "default": None}


def _to_style(cell: Char) -> Style:
    colours = [_NAMES.get(name, name) for name in (cell.fg, cell.bg)]
    foreground, background = (
        f"#{name}" if name and re.fullmatch(r"[0-9a-f]{6}", name) else name for name in colours
    )
    return Style(
        color=foreground and foreground.replace("bright", "bright_"),
        bgcolor=background and background.replace("bright", "bright_"),
        bold=cell.bold,
        italic=cell.italics,
        reverse=cell.reverse,
    )
