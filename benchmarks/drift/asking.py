"""How an engine is asked: this repository's in the same process, or a program by the JSON lines of
``kakite edit --jsonl``.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
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
    loss: bytes | None = None
    """The file with what the refused edit would lose."""
    sent: str = ""
    """The line that the answer is about, as it was sent."""


Ask = Callable[[Case], Answer]


def here() -> Ask:
    """Return the engine of this repository."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from kakite.edit import Edit, EditError, SourceText, apply

    def ask(case: Case) -> Answer:
        source = SourceText.from_bytes(case.text)
        edit = Edit(
            search=case.search,
            replace=case.replace,
            line=case.line,
            all=case.every,
            whole_lines=case.block,
        )
        try:
            return Answer(apply(source, [edit]).source.to_bytes())
        except EditError as error:
            told = error.failures[0]
        except Exception as error:  # noqa: BLE001  # counted: an engine must answer
            return Answer(None, f"crash: {type(error).__name__}")
        made = loss = None
        if told.suggestion is not None:
            made = source.replace(told.suggestion.changes).to_bytes()
            made, loss = (None, made) if told.suggestion.is_loss else (made, None)
        places = tuple(Place(each.line, each.lines, each.text) for each in told.candidates)
        return Answer(None, told.code, places, made, loss, told.sent)

    return ask


def written_as_block(case: Case) -> str:
    return f"<<<<<<< SEARCH\n{case.search}=======\n{case.replace}>>>>>>> REPLACE\n"


def program(command: list[str]) -> Ask:
    """Return a program that answers one line with one line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
    )

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command[0]} ended with {process.wait(10)}")
        return json.loads(line)

    def ask(case: Case) -> Answer:
        edit: dict[str, object] = {"search": case.search, "replace": case.replace}
        if case.line is not None:
            edit["line"] = case.line
        if case.every:
            edit["all"] = True
        text = base64.b64encode(case.text).decode()
        asked = {"reply": written_as_block(case)} if case.block else {"edits": [edit]}
        told = answer({"id": 1, "text_b64": text, **asked})
        if told["ok"]:
            return Answer(base64.b64decode(told["text_b64"]))
        failure = told["failures"][0]
        places = (Place(each["line"], each["lines"], each["text"]) for each in failure.get("candidates", ()))
        made: dict[str, bytes | None] = {}
        for name in ("suggestion", "loss"):
            if suggestion := failure.get(name):
                accepted = answer({"id": 2, "text_b64": text, "accept": suggestion["id"]})
                made[name] = base64.b64decode(accepted["text_b64"]) if accepted["ok"] else None
        suggested, loss = made.get("suggestion"), made.get("loss")
        return Answer(None, failure["code"], tuple(places), suggested, loss, failure.get("sent", ""))

    return ask
