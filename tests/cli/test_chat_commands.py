"""``kakite chat`` at a real terminal: titles, models, efforts, messages for the next turn, pictures."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kakite_testing.fake_providers import run_scenario_server
from tests.cli.program import kakite
from tests.cli.screen import CTRL_D, ENTER, ESCAPE, UP
from tests.cli.test_chat_terminal import (
    CLEAR_LINE,
    WAIT,
    chatting,
    columns,
    expecting,
    home,
    project,
    run,
    script,
    wait_until,
)
from tests.cli.test_models import serving

__all__ = ["columns", "home", "project"]

pytestmark = pytest.mark.slow

TAB = "\t"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def paste(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def test_a_session_has_the_title_that_its_person_gives_it(home: Path, project: Path) -> None:
    turns = (run(WAIT), {"say": "Fine."}, {"say": "Again."})
    with run_scenario_server(script(*turns)) as server:
        with chatting(server, home, project, "--approve", "all") as screen:
            screen.press("hello there" + ENTER)
            screen.wait_for_bottom("run_command: while")
            screen.press("/rename Blue  paint\x07" + ENTER)
            screen.wait_for("The session is called: Blue paint")
            (project / "go").touch()
            screen.wait_for("Fine.")
            screen.press("/rename" + ENTER)
            screen.wait_for("The session is called: Blue paint", 2)
            screen.press(CTRL_D)
            assert screen.wait() == 0
        (listed,) = kakite("chat", "--list", "--output", "json", home=home, cwd=project).json
        assert listed["title"] == "Blue paint"
        with chatting(server, home, project, "--resume", "Blue paint") as screen:
            screen.wait_for("Going on with: Blue paint")
            screen.press(f"/rewind{ENTER}1{ENTER}c{ENTER}")
            screen.wait_for("/undo takes that back")
            screen.press(CLEAR_LINE + "another" + ENTER)
            screen.wait_for("Again.")
        (listed,) = kakite("chat", "--list", "--output", "json", home=home, cwd=project).json
    assert (listed["title"], listed["messages"]) == ("Blue paint", 1)


def test_a_model_is_chosen_from_those_that_can_be_reached(home: Path, project: Path) -> None:
    with (
        serving() as address,
        run_scenario_server(script({"say": "Hello."})) as server,
        chatting(server, home, project, OLLAMA_BASE_URL=address) as screen,
    ):
        screen.press("/model" + ENTER)
        screen.wait_for("1  openai:scripted")
        screen.wait_for("2  ollama:a-small-one")
        screen.wait_for("3  ollama:qwen3-coder")
        screen.wait_for_bottom("Which?")
        screen.press("3" + ENTER)
        screen.wait_for("The model is ollama:qwen3-coder.")
        screen.press("/model QWEN" + ENTER)
        screen.wait_for("1  ollama:qwen3-coder")
        screen.wait_for_bottom("Which?")
        screen.press(ENTER)
        screen.press("/model openai:scripted" + ENTER)
        screen.wait_for("The model is openai:scripted.", 2)


def test_how_much_the_model_thinks_is_set_and_stays(home: Path, project: Path) -> None:
    with run_scenario_server(script({"say": "One."}, {"say": "Two."}, {"say": "Three."})) as server:
        with chatting(server, home, project, "--effort", "low") as screen:
            screen.press("/effort" + ENTER)
            screen.wait_for("The effort is low.")
            screen.press("/effort deep" + ENTER)
            screen.wait_for("there is no level `deep`")
            screen.press("/model openai:gpt-5" + ENTER)
            screen.wait_for("The model is openai:gpt-5.")
            screen.press("one" + ENTER)
            screen.wait_for("One.")
            screen.wait_for_bottom("· /help")
            screen.press("/effort high" + ENTER)
            screen.wait_for("The effort is high.")
            screen.press(CTRL_D)
            assert screen.wait() == 0
        with chatting(server, home, project, "--continue") as screen:
            screen.press("/model openai:gpt-5" + ENTER)
            screen.wait_for("The model is openai:gpt-5.")
            screen.press("two" + ENTER)
            screen.wait_for("Two.")
            screen.wait_for_bottom("· /help")
            screen.press("/effort default" + ENTER)
            screen.wait_for("The effort is what the provider chooses.")
            screen.press("three" + ENTER)
            screen.wait_for("Three.")
        efforts = [json.loads(each.body).get("reasoning_effort") for each in server.requests]
    assert efforts == ["low", "high", None]


def test_what_waits_for_the_next_turn_is_shown_taken_back_and_sent(
    home: Path, project: Path, columns: int
) -> None:
    turns = (
        run(WAIT),
        {"say": "One."},
        expecting({"say": "Two."}, "second"),
        expecting({"say": "Three."}, "third"),
    )
    with run_scenario_server(script(*turns)) as server:
        with chatting(server, home, project, "--approve", "all", columns=columns) as screen:
            screen.press("begin" + ENTER)
            screen.wait_for_bottom("run_command: while")
            screen.press("second")
            screen.wait_for_bottom("Tab queues")
            screen.press(TAB)
            screen.wait_for_bottom("↳ next turn: second")
            screen.press("/queue third" + ENTER)
            screen.wait_for("next turn: third")
            screen.press("no" + TAB)
            screen.wait_for("next turn: no")
            screen.press(UP)
            screen.wait_until(lambda: "nextturn:no" not in screen.bottom, "taken back")
            screen.press(CLEAR_LINE + "!ls" + TAB)
            screen.wait_for("only messages for the model")
            screen.wait_for_bottom("› !ls")
            screen.press(CLEAR_LINE)
            (project / "go").touch()
            screen.wait_for("Three.")
            screen.wait_for_bottom("· /help")
            said = [line for line in screen.lines if line.startswith(("› ", "One", "Two", "Three"))]
            assert said[-5:] == ["One.", "› second", "Two.", "› third", "Three."]
        assert not server.violations


def test_what_waits_for_the_next_turn_comes_back_when_the_turn_is_stopped(home: Path, project: Path) -> None:
    with (
        run_scenario_server(script(run(f"touch begun; {WAIT}"))) as server,
        chatting(server, home, project, "--approve", "all") as screen,
    ):
        screen.press("begin" + ENTER)
        wait_until((project / "begun").exists)
        screen.press("first" + ENTER)
        screen.wait_for_bottom("… waits: first")
        for line in ("second", "third"):
            screen.press(line + TAB)
            screen.wait_for_bottom(f"next turn: {line}")
        screen.press(ESCAPE)
        screen.wait_for_bottom("› first second third")


def test_plain_lines_wait_for_the_next_turn_too(home: Path, project: Path) -> None:
    turns = (run(f"touch begun; {WAIT}"), {"say": "One."}, expecting({"say": "Two."}, "second"))
    with run_scenario_server(script(*turns)) as server:
        with chatting(server, home, project, "--approve", "all", "--plain") as screen:
            screen.press("begin" + ENTER)
            wait_until((project / "begun").exists)
            for line in ("second", "third"):
                screen.press(f"/queue {line}" + ENTER)
            screen.wait_for("It waits for the next turn.", 2)
            screen.press("/queue" + ENTER)
            screen.wait_for("Your message was: third")
            (project / "go").touch()
            screen.wait_for("Two.")
            screen.press("/queue" + ENTER)
            screen.wait_for("no message waits for the next turn")
        assert not server.violations


@pytest.mark.parametrize("form", ["plain", "escaped", "quoted", "address"])
def test_a_pasted_path_of_a_picture_sends_the_picture(home: Path, project: Path, form: str) -> None:
    picture = home / "my shot.png"
    picture.write_bytes(DOT)
    pasted = {
        "plain": str(picture),
        "escaped": str(picture).replace(" ", "\\ ") + " ",
        "quoted": f"'{picture}'",
        "address": picture.as_uri(),
    }[form]
    seen = expecting({"say": "A dot."}, "what is [picture 1: my shot.png]", "[image/png, 70 bytes]")
    with run_scenario_server(script(seen)) as server:
        with chatting(server, home, project) as screen:
            screen.press(paste("/etc/hosts") + paste(str(home / "none.png")))
            screen.wait_for_bottom("none.png")
            screen.press(CLEAR_LINE + "what is " + paste(pasted))
            screen.wait_for_bottom("› what is [picture 1: my shot.png]")
            screen.press(ENTER)
            screen.wait_for("A dot.")
        assert not server.violations
