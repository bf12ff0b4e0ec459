"""How an engine is asked: this repository's in the same process, or a program by the JSON lines of
``kakite edit --jsonl``.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import Case


@dataclass(frozen=True, slots=True)
class Place:
    """A place that an answer shows: its first line (1-based), how many lines it has, and those shown."""

    line: int
    lines: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine did: the file that it writes, or None and what it says."""

    written: bytes | None
    code: str = ""
    places: tuple[Place, ...] = ()
    suggested: bytes | None = None
    """The file as the answer's suggestion would make it."""


Ask = Callable[[Case], Answer]


def here() -> Ask:
    """Return the engine of this repository."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from kakite.edit import Edit, EditError, SourceText, apply

    def ask(case: Case) -> Answer:
        source = SourceText.from_bytes(case.text)
        edit = Edit(search=case.search, replace=case.replace, line=case.line, all=case.every)
        try:
            return Answer(apply(source, [edit]).source.to_bytes())
        except EditError as error:
            told = error.failures[0]
        except Exception as error:  # noqa: BLE001  # counted: an engine must answer
            return Answer(None, f"crash: {type(error).__name__}")
        made = None
        if told.suggestion is not None:
            made = source.replace(told.suggestion.changes).to_bytes()
        places = tuple(Place(each.line, each.lines, each.text) for each in told.candidates)
        return Answer(None, told.code, places, made)

    return ask


def program(command: list[str]) -> Ask:
    """Return a program that answers one line with one line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
    )

    def ask(case: Case) -> Answer:
        edit: dict[str, object] = {"search": case.search, "replace": case.replace}
        if case.line is not None:
            edit["line"] = case.line
        if case.every:
            edit["all"] = True
        request = {"id": 1, "text_b64": base64.b64encode(case.text).decode(), "edits": [edit]}
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command[0]} ended with {process.wait(10)}")
        return _read(case.text, json.loads(line))

    return ask


def _read(text: bytes, answer: dict[str, Any]) -> Answer:
    if answer["ok"]:
        return Answer(base64.b64decode(answer["text_b64"]))
    told = answer["failures"][0]
    places = (Place(each["line"], each["lines"], each["text"]) for each in told.get("candidates", ()))
    suggestion = told.get("suggestion") or {}
    made = patched(text, suggestion["diff"]) if suggestion.get("diff") else None
    return Answer(None, told["code"], tuple(places), made)


def patched(text: bytes, diff: str) -> bytes | None:
    """Return a text as a unified diff makes it; None if the diff is not of that text."""
    old = text.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    new: list[str] = []
    at = 0
    for line in _hunk_lines(diff):
        if line.startswith("@@"):
            start = int(line.split()[1].removeprefix("-").partition(",")[0])
            count = line.split()[1].partition(",")[2]
            start -= count != "0"
            new += old[at:start]
            at = start
        elif line.startswith("+"):
            new.append(line[1:])
        elif at >= len(old) or old[at].rstrip("\r\n") != line[1:].rstrip("\r\n"):
            return None
        else:
            if line.startswith(" "):
                new.append(old[at])
            at += 1
    return "".join([*new, *old[at:]]).encode("utf-8", "surrogateescape")


def _hunk_lines(diff: str) -> Iterable[str]:
    lines = diff.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for nth, line in enumerate(lines):
        if line.startswith(("--- ", "+++ ")) and nth < 2:
            continue
        if line.startswith("\\"):
            continue
        missing = nth + 1 < len(lines) and lines[nth + 1].startswith("\\")
        yield line if missing else line + "\n"
