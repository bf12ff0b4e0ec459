"""A front of sessions may be killed at any moment: what it showed is there, and nothing is done twice."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.session.killed_fronts import (
    BusyModel,
    Death,
    Front,
    Place,
    Shown,
    busy_model,
    check_after_death,
    check_session,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

KILLS = 5
"""Of one session."""
IN_A_TURN = Death(2, 0)
"""Whatever is drawn, one kill of a session falls within a turn: at its second line, before most calls."""
_DONE = re.compile(r"Done: (?:run_command: echo (w\d+) >> log|text_editor: insert)")
"""A terminal shows a call so; of an edit its word is in the lines after it."""
_INSERTED = re.compile(r"\+w\d+$")
SESSIONS, PROOF = 2, 20
"""Sessions of each front, in CI and for a proof: 100 kills."""


class LineFront(Front):
    """``kakite chat -p`` with lines of JSON."""

    orders = ("go", "look", "go")

    def __init__(self, place: Place, *, go_on: bool) -> None:
        words = ["chat", "-p", "--input", "jsonl", "--output", "jsonl"]
        super().__init__(place, [*words, "--continue"] if go_on else words)

    def begin(self) -> bool:
        """Wait until it can be talked to; return whether it still lives."""
        return any(line["type"] == "session" for line in self._take())

    def prompt(self, text: str) -> bool:
        """Send a message; return whether it was answered."""
        self.send(json.dumps({"type": "prompt", "text": text}))
        for line in self._take():
            if line["type"] == "result" and "reason" in line:
                assert line["reason"] == "answered"
                self.shown.answered.append((text, line["text"]))
                return True
            assert line["type"] != "error", line
        return False

    def _take(self) -> Iterator[dict[str, Any]]:
        for line in map(json.loads, self.read()):
            if line["type"] == "result" and "id" in line:
                self.shown.results[line["id"]] = line["ok"]
            yield line


class EditorFront(Front):
    """``kakite acp``."""

    orders = ("go", "look", "/compact", "go")

    def __init__(self, place: Place, *, go_on: bool) -> None:
        super().__init__(place, ["acp"])
        self._go_on = go_on
        self._session = ""
        self._said = ""
        self._replayed: list[dict[str, Any]] = []

    def begin(self) -> bool:
        """Open the session; return whether it still lives."""
        if self._ask("initialize", protocolVersion=1) is None:
            return False
        where: dict[str, Any] = {"cwd": str(self.place.project), "mcpServers": []}
        if not self._go_on:
            opened = self._ask("session/new", **where)
            self._session = opened["sessionId"] if opened else ""
            return opened is not None
        self._session = self.place.record.id
        return self._ask("session/load", sessionId=self._session, **where) is not None

    def prompt(self, text: str) -> bool:
        """Send a message; return whether it was answered."""
        self._said = ""
        blocks = [{"type": "text", "text": text}]
        told = self._ask("session/prompt", sessionId=self._session, prompt=blocks)
        if told is None:
            return False
        assert told["stopReason"] == "end_turn"
        if not text.startswith("/"):
            self.shown.answered.append((text, self._said))
        return True

    def _ask(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Return the result of a request; None where the agent dies before it answers."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
        for line in map(json.loads, self.read()):
            if line.get("id") == method:
                assert "result" in line, line
                return line["result"]
            update = line["params"]["update"]
            match update["sessionUpdate"]:
                case "tool_call_update" if update["status"] in {"completed", "failed"}:
                    self.shown.results[update["toolCallId"]] = update["status"] == "completed"
                case "agent_message_chunk":
                    self._said += update["content"]["text"]
                case _:
                    continue
        return None


class TerminalFront(Front):
    """``kakite chat --plain`` at a terminal."""

    orders = ("go", "look", "go")

    def __init__(self, place: Place, *, go_on: bool) -> None:
        words = ["chat", "--plain"]
        super().__init__(place, [*words, "--continue"] if go_on else words, at_terminal=True)
        self._said: list[str] = []

    def begin(self) -> bool:
        """Wait until it can be talked to; return whether it still lives."""
        return any(line.startswith("Model: ") for line in self.read())

    def prompt(self, text: str) -> bool:
        """Send a message; return whether it was answered."""
        self.send(text)
        lines, answer = self.read(), f"done {text.partition(' ')[2]}"
        for line in lines:
            if found := _DONE.match(line):
                self.shown.results[found.group(1) or self._read_inserted(lines)] = True
            elif line == answer:
                self.shown.answered.append((text, line))
                return True
            assert not line.startswith("Error"), line
        return False

    def _read_inserted(self, lines: Iterator[str]) -> str:
        """Return the word of an edit, of which the change is shown."""
        return next((line[1:] for line in lines if _INSERTED.match(line)), "")


AnyFront = LineFront | EditorFront | TerminalFront


def drive(place: Place, front: type[AnyFront], drawn: random.Random) -> int:
    """Drive a session to its end, with kills in between; return how many turns those cut off."""
    shown = Shown()
    deaths = [Death(drawn.randint(1, 24), drawn.uniform(0, 0.06)) for _ in range(KILLS)]
    deaths[0] = IN_A_TURN  # taken last
    cut: set[int] = set()  # turns: one is found cut again where also who takes the session up is killed
    number, answered = 0, 0
    while answered < len(front.orders) or deaths:
        talking = front(place, go_on=place.has_session())
        talking.shown = shown
        try:
            if deaths[1:] and drawn.random() < 0.1:
                talking.arm(deaths.pop())  # while it opens
            alive = talking.begin()
            while alive and (answered < len(front.orders) or deaths):
                number += 1
                order = front.orders[number % len(front.orders)]
                if deaths[1:] or (deaths and order == "go"):
                    talking.arm(deaths.pop())
                alive = talking.prompt(order if order.startswith("/") else f"{order} {number}")
                answered += alive
        finally:
            talking.end()
        check_after_death(place, shown)
        if place.has_session() and (run := place.record.load()).phase == "chat":
            cut.add(len(run.points))
    closing = front(place, go_on=True)
    closing.shown = shown
    try:
        assert closing.begin()
        assert closing.prompt("go 1000")
    finally:
        closing.end()
    check_session(place, shown, len(cut))
    return len(cut)


@pytest.fixture(scope="module")
def model() -> Iterator[BusyModel]:
    with busy_model() as server:
        yield server


@pytest.mark.parametrize("front", [LineFront, EditorFront, TerminalFront])
def test_what_was_shown_is_kept_and_nothing_is_done_twice(
    tmp_path: Path, model: BusyModel, proof: bool, seed: int, front: type[AnyFront]
) -> None:
    drawn = random.Random(seed)
    cut = sum(
        drive(Place.make(tmp_path / str(number), model), front, drawn)
        for number in range(PROOF if proof else SESSIONS)
    )
    assert cut, "no kill fell within a turn"
