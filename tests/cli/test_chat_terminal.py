"""``kakite chat`` as a person uses it: at a real terminal, with a scripted model on the real wire."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.session.mailbox import MailAnswer, Mailbox
from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, skip_without
from tests.cli.screen import (
    ALT_ENTER,
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    CTRL_O,
    ENTER,
    ESCAPE,
    SHIFT_TAB,
    UP,
    Screen,
    open_screen,
)
from tests.repositories import git

pytestmark = pytest.mark.slow

KEY = "sk-proj-0123456789abcdef-this-is-the-key"
CLEAR_LINE = "\x15"
"""Ctrl-U."""
WAIT = "while [ ! -e go ]; do sleep 0.05; done"


def script(*turns: dict[str, Any]) -> Scenario:
    return Scenario.parse(json.dumps({"title": "test", "turns": list(turns)}))


def run(command: str) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": command}}]}


def edit(old: str, new: str) -> dict[str, Any]:
    arguments = {"command": "str_replace", "path": "a.py", "old_str": old, "new_str": new}
    return {"calls": [{"tool": "text_editor", "arguments": arguments}]}


def expecting(turn: dict[str, Any], *texts: str) -> dict[str, Any]:
    return {**turn, "expect": {"last_contains": list(texts)}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n", encoding="utf-8")
    return folder


@pytest.fixture(params=[80, 60])
def columns(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@contextmanager
def chatting(
    server: ScenarioServer, home: Path, project: Path, *more: str, columns: int = 80, **env: str
) -> Generator[Screen]:
    words = ["--model", "openai:scripted", "--base-url", server.openai_url, "--sandbox", "local"]
    environ = environment(home, OPENAI_API_KEY=KEY, **env)
    with open_screen(argv("chat", *words, *more), environ, project, columns) as screen:
        screen.wait_for("/help lists what you can do")
        if "--plain" not in more and env.get("TERM") != "dumb":
            screen.wait_for_bottom("openai:scripted")  # before that the terminal changes what is typed
            screen.wait_until(lambda: "●" not in screen.bottom, "ready")
        yield screen


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_change_is_made_steered_rewound_and_resumed(home: Path, project: Path, columns: int) -> None:
    turns = (
        edit("1", "2"),
        run(WAIT),
        expecting({"say": "It is **2**, and I stopped early."}, "stop early"),
        expecting({"say": "We spoke of a."}, "what now"),
    )
    with run_scenario_server(script(*turns)) as server:
        with chatting(server, home, project, columns=columns) as screen:
            screen.press("make a 2" + ENTER)
            screen.wait_for("+a = 2")
            screen.wait_for_bottom("Allow this?")
            screen.wait_for_bottom("or write why not")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
            screen.press("y" + ENTER)
            screen.wait_for("✓ text_editor: str_replace a.py")
            screen.wait_for("$ while")
            screen.wait_for_bottom("Allow this?")
            screen.press("y" + ENTER)
            screen.wait_until(lambda: "Allow" not in screen.bottom, "no question")
            screen.press("please stop early" + ENTER)
            screen.wait_for("› please stop early")
            (project / "go").touch()
            screen.wait_for("It is 2, and I stopped early.")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
            (project / "go").unlink()
            screen.wait_for_bottom("· /help")
            screen.press("/rewind" + ENTER)
            screen.wait_for_bottom("Before which message?")
            screen.press("1" + ENTER)
            screen.wait_for("changed  a.py")
            screen.wait_for_bottom("Bring back:")
            screen.press("f" + ENTER)
            screen.wait_for("1 file; /undo")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
            screen.press(CTRL_D)
            assert screen.wait() == 0
            assert "Go on with: kakite chat --resume" in "\n".join(screen.lines)
        with open_screen(
            argv("chat", "--resume"), environment(home, OPENAI_API_KEY=KEY), project, columns
        ) as screen:
            screen.wait_for("Which? (number)")
            assert "make a 2" in "\n".join(screen.lines)
            screen.press("1" + ENTER)
            screen.wait_for("Going on with: make a 2")
            screen.wait_for("› please stop early")
            screen.wait_for("It is 2, and I stopped early.")
            screen.wait_for_bottom("· /help")
            screen.press("what now" + ENTER)
            screen.wait_for("We spoke of a.")
            screen.press("/quit" + ENTER)
            assert screen.wait() == 0
        assert not server.violations
    assert KEY.encode() not in screen.raw


def test_a_rewind_is_taken_back_by_another_process_and_leaves_something_to_see_and_commit(
    home: Path, project: Path
) -> None:
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=First")
    for key in ("name", "email"):
        git(project, "config", f"user.{key}", "person@localhost")
    again = expecting({"say": "We made it 2."}, "what now")
    with run_scenario_server(script(edit("1", "2"), {"say": "It is 2."}, again)) as server:
        with chatting(server, home, project) as screen:
            screen.press("/mode edits" + ENTER)
            screen.press("make a 2" + ENTER)
            screen.wait_for("It is 2.")
            screen.wait_for_bottom("· /help")
            screen.press(f"/rewind{ENTER}1{ENTER}b{ENTER}")
            screen.wait_for("1 file; /undo")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
            screen.wait_for_bottom("› make a 2")
            screen.press(CLEAR_LINE + "/diff" + ENTER)
            screen.wait_for("Nothing has changed.")
            screen.press(CTRL_D)
            assert screen.wait() == 0
        with chatting(server, home, project, "--continue") as screen:
            screen.press("/undo" + ENTER)
            screen.wait_for("Taken back: 1 file and the conversation.")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
            screen.press(f"/rewind{ENTER}1{ENTER}c{ENTER}")
            screen.wait_for("Back to before: make a 2 (/undo takes that back)")
            screen.wait_for_bottom("› make a 2")
            screen.press(CLEAR_LINE + "/diff" + ENTER)
            screen.wait_for("+a = 2")
            screen.press("/commit Let a be 2" + ENTER)
            screen.wait_for("on `main`: Let a be 2")
            screen.press("/undo" + ENTER)
            screen.wait_for("Taken back: the conversation.")
            screen.press("what now" + ENTER)
            screen.wait_for("We made it 2.")
            screen.wait_for_bottom("· /help")
            screen.press("/undo" + ENTER)
            screen.wait_for("there is no rewind to take back")
        assert not server.violations
    assert "make a 2" in server.requests[-1].body.decode()


@pytest.mark.parametrize("plain", [False, True])
def test_the_last_lines_of_a_command_stand_below_it_while_it_runs(
    home: Path, project: Path, plain: bool
) -> None:
    line = f"for n in 1 2 3 4; do printf 'row \\033[31m%s\\n' $n; done; touch begun; {WAIT}"
    with run_scenario_server(script(run(line), {"say": "It is made."})) as server:
        more = ["--plain"] if plain else []
        with chatting(server, home, project, "--approve", "all", *more) as screen:
            screen.press("make it" + ("\n" if plain else ENTER))
            if not plain:
                screen.wait_for_bottom("row 4")
                assert [n for n in "1234" if f"row{n}" in screen.bottom] == ["2", "3", "4"]
            wait_until((project / "begun").exists)
            (project / "go").touch()
            screen.wait_for("It is made.")
            assert "row 4" not in "\n".join(screen.lines)
            assert (b"row 4" in screen.raw) == (not plain)
        assert not server.violations


def test_an_answer_typed_ahead_stands_below_what_its_question_is_about(home: Path, project: Path) -> None:
    turns = (expecting(edit("1", "2"), "make a 2"), {"say": "It is 2."})
    with run_scenario_server(script(*turns)) as server, chatting(server, home, project) as screen:
        screen.press("/mode edits" + ENTER)
        screen.press("make a 2" + ENTER)
        screen.wait_for("It is 2.")
        screen.wait_for_bottom("· /help")
        screen.press(f"/rewind{ENTER}1{ENTER}f{ENTER}")
        screen.wait_for("1 file; /undo")
        order = ("1  make a 2", "Before which message?", "changed  a.py", "Bring back:", "Back to before:")
        at = [next(row for row, line in enumerate(screen.lines) if text in line) for text in order]
        assert at == sorted(at), "\n".join(screen.lines)


def test_what_is_written_and_answered_on_the_page_happens_at_the_terminal(home: Path, project: Path) -> None:
    turns = ({"say": "Hello."}, expecting(edit("1", "2"), "make a 2"), {"say": "It is 2."})
    with run_scenario_server(script(*turns)) as server, chatting(server, home, project) as screen:
        screen.press("hello" + ENTER)
        screen.wait_for("Hello.")
        (folder,) = (home / ".local" / "state" / "kakite" / "runs").iterdir()
        mailbox = Mailbox(folder)
        mailbox.put_message("make a 2")
        screen.wait_for("Written on the page:")
        screen.wait_for("› make a 2")
        screen.wait_for_bottom("Allow this?")
        wait_until(lambda: mailbox.find_question() is not None)
        asked = mailbox.find_question() or {}
        assert "+a = 2" in asked["text"]
        mailbox.put_answer(asked["digest"], MailAnswer(answer="yes"))
        screen.wait_for("It is 2.")
        assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
        screen.wait_until(lambda: "Allow" not in screen.bottom, "no question")


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C])
def test_a_key_stops_the_turn_with_its_processes_and_ctrl_c_twice_leaves(
    home: Path, project: Path, key: str
) -> None:
    with (
        run_scenario_server(script(run("echo $$ > pid; exec sleep 1000"), {"say": "Fine."})) as server,
        chatting(server, home, project, "--approve", "all") as screen,
    ):
        screen.press("wait" + ENTER)
        wait_until(
            lambda: (project / "pid").exists() and (project / "pid").read_text(encoding="utf-8").strip() != ""
        )
        screen.press(key)
        screen.wait_for("Interrupted.")
        process = Path(f"/proc/{(project / 'pid').read_text(encoding='utf-8').strip()}")
        wait_until(lambda: not process.exists())
        screen.press("go on" + ENTER)
        screen.wait_for("Fine.")
        screen.press("x")  # what stands below is drawn anew: it may be from before the turn
        screen.wait_for_bottom("› x")
        screen.wait_for_bottom("/help")
        screen.press(BACKSPACE)
        screen.wait_until(lambda: "› x" not in screen.bottom, "an empty line")
        screen.press(CTRL_C)
        screen.wait_for("Press Ctrl-C again to leave.")
        screen.press(CTRL_C)
        assert screen.wait() == 0


def test_what_was_being_typed_answers_no_question(home: Path, project: Path) -> None:
    with (
        run_scenario_server(
            script(run(WAIT), run("touch done"), expecting({"say": "Bye."}, "any thought"))
        ) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("begin" + ENTER)
        screen.wait_for_bottom("Allow this? y yes")
        screen.press("y" + ENTER)
        screen.wait_until(lambda: "Allow" not in screen.bottom, "no question")
        screen.press("any thou")
        screen.wait_for_bottom("› any thou")
        (project / "go").touch()
        screen.wait_for_bottom("First send or clear your line")
        screen.press("ght" + ENTER)
        screen.wait_for("› any thought")
        screen.wait_for_bottom("Allow this? y yes")
        assert not (project / "done").exists()
        screen.press("y" + ENTER)
        screen.wait_for("Bye.")
        assert (project / "done").exists()


def test_a_mode_that_is_set_while_the_model_works_stays(home: Path, project: Path) -> None:
    with (
        run_scenario_server(script(run(WAIT), edit("1", "2"), {"say": "Fine."})) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("begin" + ENTER)
        screen.wait_for_bottom("Allow this? y yes")
        screen.press("y" + ENTER)
        screen.wait_until(lambda: "Allow" not in screen.bottom, "no question")
        screen.press(SHIFT_TAB)
        screen.wait_for_bottom("edits · openai:scripted")
        (project / "go").touch()
        screen.wait_for("Fine.")
        screen.wait_for_bottom("· /help")
        assert "edits·openai:scripted" in screen.bottom
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"


def test_names_are_completed(home: Path, project: Path, columns: int) -> None:
    commands = project / ".agents/commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("---\ndescription: Look it over\n---\nReview it.\n", encoding="utf-8")
    (project / "日本語.txt").write_text("x", encoding="utf-8")
    with (
        run_scenario_server(script(expecting({"say": "Fine."}, "Review it."))) as server,
        chatting(server, home, project, columns=columns) as screen,
    ):
        screen.press("/pl")
        screen.wait_for_bottom("Plan first")
        screen.press(CTRL_C)
        screen.press("see @日")
        screen.wait_for_bottom("日本語.txt")
        screen.press("\t")
        screen.wait_for_bottom("› see @日本語.txt")
        screen.press(ENTER + "x")
        screen.wait_for_bottom("› see @日本語.txtx")
        screen.press(CTRL_C)
        screen.press("/review" + ENTER)
        screen.wait_for("Fine.")
        screen.wait_for_bottom("· /help")
        screen.press(SHIFT_TAB)
        screen.wait_for_bottom("edits · openai:scripted")
        screen.press(SHIFT_TAB)
        screen.wait_for_bottom("plan · openai:scripted")
        screen.press(SHIFT_TAB)
        screen.wait_for_bottom("ask · openai:scripted")
        screen.press("one" + ALT_ENTER + "two")
        screen.wait_until(lambda: any(line.startswith("› one") for line in screen.lines), "one")
        screen.wait_until(lambda: any(line == "  two" for line in screen.lines), "two")


def test_an_own_command_is_seen_by_the_model_without_secrets(home: Path, project: Path) -> None:
    reply = {
        "say": "I saw it.",
        "expect": {"last_contains": ["mine 3", "what is that", "Exit code: 3"], "last_lacks": [KEY]},
    }
    with (
        run_scenario_server(script(reply)) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("!echo mine $((1+2)); printf '\\377\\n'; echo $OPENAI_API_KEY; exit 3" + ENTER)
        screen.wait_for("exit 3; the model gets this with your next message")
        screen.press("!echo $$ > pid; exec sleep 1000" + ENTER)
        wait_until(
            lambda: (project / "pid").exists() and (project / "pid").read_text(encoding="utf-8").strip() != ""
        )
        screen.press(CTRL_C)
        screen.wait_for("Your command was stopped.")
        wait_until(
            lambda: not Path(f"/proc/{(project / 'pid').read_text(encoding='utf-8').strip()}").exists()
        )
        screen.press("what is that" + ENTER)
        screen.wait_for("I saw it.")
        assert not server.violations


@pytest.mark.parametrize("how", ["--plain", "dumb"])
def test_plain_lines_do_the_same(home: Path, project: Path, how: str) -> None:
    more = ["--plain"] if how == "--plain" else []
    env: dict[str, Any] = {} if more else {"TERM": "dumb"}
    with (
        run_scenario_server(script(edit("1", "2"), {"say": "- **two**"}, {"say": "Bye."})) as server,
        chatting(server, home, project, *more, **env) as screen,
    ):
        screen.press("make a 2\n")
        screen.wait_for("Allow this? y yes")
        screen.press("y\n")
        screen.wait_for("- **two**")
        screen.press("/diff\n")
        screen.wait_for("-a = 1", 2)
        screen.press("/rewind\n")
        screen.wait_for("Before which message?")
        screen.press("1\n")
        screen.wait_for("Bring back:")
        screen.press("b\n")
        screen.wait_for("Back to before: make a 2")
        assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
        screen.press("two \\\nlines\n")
        screen.wait_for("Bye.")
        screen.press(CTRL_D)
        assert screen.wait() == 0
    assert b"\x1b" not in screen.raw


def test_no_text_of_the_model_reaches_the_terminal_raw(home: Path, project: Path) -> None:
    evil = "\x1b]0;owned\x07 &#27;]0;owned [a](http://x.invalid/\x1b]0;owned) `\x9b31m` \x1b[31mred\n\nEnd."
    with (
        run_scenario_server(script({"say": evil})) as server,
        chatting(server, home, project, NO_COLOR="1") as screen,
    ):
        screen.press("speak" + ENTER)
        screen.wait_for("owned")
        screen.wait_for("End.")
    assert b"\x1b]0;owned" not in screen.raw
    assert "\x9b".encode() not in screen.raw
    assert b"\x1b[31m" not in screen.raw


def test_what_is_typed_while_text_streams_is_sent(home: Path, project: Path) -> None:
    text = "\n\n".join(f"paragraph {number}" for number in range(400))
    with (
        run_scenario_server(script({"say": text})) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("speak" + ENTER)
        for number in range(3):
            screen.wait_for(f"paragraph {(number + 1) * 100}")
            screen.press("/cost" + ENTER)
            screen.wait_for("at work", number + 1)
    assert "\n/cost" not in "\n".join(screen.lines), "what is typed is echoed by nobody else"


def test_what_waits_for_the_model_stands_at_the_line(home: Path, project: Path, columns: int) -> None:
    with (
        run_scenario_server(script(run(WAIT), expecting({"say": "Fine."}, "and this"))) as server,
        chatting(server, home, project, "--approve", "all", columns=columns) as screen,
    ):
        screen.press("begin" + ENTER)
        screen.wait_for_bottom("run_command: while")
        screen.press("and this" + ENTER)
        screen.wait_for_bottom("… waits: and this")
        (project / "go").touch()
        screen.wait_for("The model has your message.")
        screen.wait_for("Fine.")
        screen.wait_until(lambda: "waits:" not in screen.bottom, "nothing waits")


def test_what_is_typed_while_it_starts_is_sent(home: Path, project: Path) -> None:
    with run_scenario_server(script(expecting({"say": "Fine."}, "hello there", "and this"))) as server:
        words = ["--model", "openai:scripted", "--base-url", server.openai_url, "--sandbox", "local"]
        with open_screen(argv("chat", *words), environment(home, OPENAI_API_KEY=KEY), project) as screen:
            screen.press("hello there" + ENTER + "and this" + ENTER)
            screen.wait_for("Fine.")
            assert not server.violations


def test_thoughts_are_folded_to_a_line(home: Path, project: Path) -> None:
    thinking = {"think": "hmm, \x1b[2Jwhat is it", "say": "It is 1."}
    with (
        run_scenario_server(script(thinking)) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("what is a" + ENTER)
        screen.wait_for("thought for ")
        screen.wait_for(" s (Ctrl-O shows all)")
        screen.wait_for("It is 1.")
        screen.wait_for_bottom("· /help")
        screen.press(CTRL_O)
        screen.wait_for("what is it")
    assert b"\x1b[2Jwhat" not in screen.raw
    with (
        run_scenario_server(script(thinking)) as server,
        chatting(server, home, project, "--plain") as screen,
    ):
        screen.press("what is a\n")
        screen.wait_for("It is 1.")
        assert "thought for" not in "\n".join(screen.lines)
        screen.press("/last\n")
        screen.wait_for("what is it")


def test_the_last_answer_is_copied_and_what_fills_the_context_is_shown(home: Path, project: Path) -> None:
    with (
        run_scenario_server(script({"say": "It is **日本**."})) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("/copy" + ENTER)
        screen.wait_for("there is no answer yet")
        screen.press("what is a" + ENTER)
        screen.wait_for("It is 日本")
        screen.wait_for_bottom("· /help")
        screen.press("/copy" + ENTER)
        screen.wait_for("Copied 13 characters")
        screen.press("/context" + ENTER)
        screen.wait_for("tokens")
        for name in ("instructions", "tools", "messages", "replies", "results", "in all"):
            screen.wait_for(name)
    sent = base64.b64encode("It is **日本**.".encode()).decode()
    assert f"\x1b]52;c;{sent}\x07".encode() in screen.raw
    assert b"\x1b]9;" not in screen.raw


@pytest.mark.parametrize("how", ["bell", "desktop"])
def test_the_terminal_tells_when_it_is_the_persons_move(home: Path, project: Path, how: str) -> None:
    asks = {"ask_person": {"question": "Which?", "choices": [{"label": "x"}, {"label": "y"}]}}
    turns = (
        edit("1", "2"),
        {"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in asks.items()]},
        {"say": "Fine."},
    )
    with (
        run_scenario_server(script(*turns)) as server,
        chatting(server, home, project, KAKITE_NOTIFY=how) as screen,
    ):
        screen.press("go" + ENTER)
        screen.wait_for_bottom("Allow this? y yes")
        assert screen.raw.count(b"a question waits\x07") == (how == "desktop")
        assert b"\x07" in screen.raw
        screen.press("y" + ENTER)
        screen.wait_for_bottom("Type a number")
        screen.press("1" + ENTER)
        screen.wait_for("Fine.")
        told = b"\x1b]9;Kakite: the turn has ended\x07" if how == "desktop" else b"\x07"
        screen.wait_until(lambda: screen.raw.count(told) >= (1 if how == "desktop" else 3), "told")


def test_a_line_that_was_begun_before_a_question_with_choices_is_no_answer(home: Path, project: Path) -> None:
    asks = {
        "tool": "ask_person",
        "arguments": {"question": "Which?", "choices": [{"label": "x"}, {"label": "y"}]},
    }
    turns = (run(f"touch begun; {WAIT}"), {"calls": [asks]}, {"say": "Fine."})
    with (
        run_scenario_server(script(*turns)) as server,
        chatting(server, home, project, "--approve", "all") as screen,
    ):
        screen.press("go" + ENTER)
        wait_until((project / "begun").exists)
        screen.press("1")
        screen.wait_for_bottom("› 1")
        (project / "go").touch()
        screen.wait_for_bottom("First send or clear your line")
        screen.press(ENTER)
        screen.wait_for_bottom("Type a number")
        screen.press("2" + ENTER)
        screen.wait_for("Fine.")
        last = json.loads(server.requests[-1].body)["messages"]
    answers = [message["content"] for message in last if message["role"] == "tool"]
    assert answers[-1].strip() == "y"
    assert any(message["role"] == "user" and "1" in str(message["content"]) for message in last)


@pytest.mark.parametrize("how", ["line", "plain"])
def test_what_was_typed_for_a_withdrawn_question_answers_no_other(
    home: Path, project: Path, how: str
) -> None:
    skip_without("bubblewrap")
    fetch = "import urllib.request as r; r.urlopen('http://{}.invalid/')"
    one, two = (f'python3 -c "{fetch.format(name)}"' for name in ("one", "two"))
    command = f"{one} 2>/dev/null & {WAIT}; kill $!; {two} 2>&1 | tail -1"
    told = expecting({"say": "Fine."}, "the person said no to two.invalid:80")
    flags = ["--approve", "all", "--sandbox", "bubblewrap", "--network", "registries"]
    if how == "plain":
        flags.append("--plain")
    with (
        run_scenario_server(script(run(command), told)) as server,
        chatting(server, home, project, *flags) as screen,
    ):
        screen.press("go" + ENTER)
        screen.wait_for("wants to reach one.invalid:80")
        screen.wait_for("Type a number")
        screen.press("1")
        screen.wait_for_bottom("› 1" if how == "line" else "1")
        (project / "go").touch()
        screen.wait_for("wants to reach two.invalid:80")
        screen.press(ENTER)
        if how == "line":
            screen.wait_for_bottom("Type a number")
        else:  # what was there before stays
            screen.wait_for("Type a number", 2)
        screen.press("2" + ENTER)
        screen.wait_for("Fine.")
    assert server.violations == ()


def test_a_question_about_a_host_is_answered_on_the_page(home: Path, project: Path) -> None:
    skip_without("bubblewrap")
    fetch = "import urllib.request as r; r.urlopen('http://one.invalid/')"
    told = expecting({"say": "Fine."}, "the person said no to one.invalid:80")
    flags = ("--approve", "all", "--sandbox", "bubblewrap", "--network", "registries")
    with run_scenario_server(script(run(f'python3 -c "{fetch}" 2>&1 | tail -1'), told)) as server:
        with chatting(server, home, project, *flags) as screen:
            screen.press("go" + ENTER)
            screen.wait_for("wants to reach one.invalid:80")
            (folder,) = (home / ".local" / "state" / "kakite" / "runs").iterdir()
            mailbox = Mailbox(folder)
            wait_until(lambda: mailbox.find_question() is not None)
            asked = mailbox.find_question()
            assert asked is not None
            assert asked["kind"] == "question"
            mailbox.put_answer(asked["digest"], MailAnswer(answer="answer", reason="no"))
            screen.wait_for("Fine.")
        assert not server.violations


def test_commands_in_the_background_are_looked_at_and_stopped(home: Path, project: Path) -> None:
    command = "echo tick; echo $$ > pid; exec sleep 1000"
    start = {
        "calls": [{"tool": "run_command", "arguments": {"command": command, "background": True}}],
    }
    with (
        run_scenario_server(
            script(start, {"say": "It runs."}, expecting({"say": "I see."}, "tick", "$ echo tick"))
        ) as server,
        chatting(server, home, project, "--approve", "all") as screen,
    ):
        screen.press("/tasks" + ENTER)
        screen.wait_for("No command runs in the background.")
        screen.press("begin" + ENTER)
        screen.wait_for("It runs.")
        screen.wait_for_bottom("1 in background")
        pid = project / "pid"
        wait_until(lambda: pid.exists() and pid.read_text(encoding="utf-8").strip() != "")
        screen.press("/tasks" + ENTER)
        screen.wait_for("runs: echo tick")
        screen.wait_for("(the model gets this with your next message)")
        job = next(line.split()[0] for line in screen.lines if " runs: echo tick" in line)
        screen.press("what is it" + ENTER)
        screen.wait_for("I see.")
        screen.wait_for_bottom("· /help")
        screen.press(f"/tasks stop {job}" + ENTER)
        screen.wait_for("stopped: echo tick")
        wait_until(lambda: not Path(f"/proc/{pid.read_text(encoding='utf-8').strip()}").exists())
        screen.wait_until(lambda: "inbackground" not in screen.bottom, "nothing runs")
        screen.press("/tasks stop no" + ENTER)
        screen.wait_for("makes no sense")
        assert not server.violations


def test_a_session_goes_on_as_a_copy(home: Path, project: Path) -> None:
    with (
        run_scenario_server(
            script({"say": "Hello."}, expecting({"say": "In the copy."}, "two"), {"say": "Before."})
        ) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("/fork" + ENTER)
        screen.wait_for("there is nothing to copy yet")
        screen.press("one" + ENTER)
        screen.wait_for("Hello.")
        screen.wait_for_bottom("· /help")
        screen.press("/fork" + ENTER)
        screen.wait_for("This is a copy.")
        screen.wait_for("Going on with: one")
        screen.press("two" + ENTER)
        screen.wait_for("In the copy.")
        screen.press(CTRL_D)
        assert screen.wait() == 0
    sessions = list((home / ".local/state/kakite/runs").iterdir())
    assert len(sessions) == 2


def test_commands_that_come_with_kakite_send_a_message(home: Path, project: Path) -> None:
    with (
        run_scenario_server(
            script(expecting({"say": "Written."}, "Write the file `AGENTS.md`", "be brief"))
        ) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("/rev")
        screen.wait_for_bottom("Review uncommitted changes")
        screen.press(CTRL_C)
        screen.press("/init be brief" + ENTER)
        screen.wait_for("Written.")
        assert not server.violations


def test_what_checkers_say_after_an_edit_is_told_to_the_model_and_shown(home: Path, project: Path) -> None:
    heard = {"tool_result": {"is_error": False, "contains": ["grep", "1:a = 2"]}}
    with (
        run_scenario_server(script(edit("1", "2"), {"say": "I see.", "expect": heard})) as server,
        chatting(
            server,
            *(home, project, "--approve", "edits"),
            KAKITE_AFTER_EDIT='{"*.py": "grep -n 2 {file}"}',
        ) as screen,
    ):
        screen.press("make a 2" + ENTER)
        screen.wait_for("I see.")
        screen.wait_for("grep -n 2 '{file}': 1:a = 2")
        assert not server.violations


def test_the_line_is_written_in_an_editor(home: Path, project: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "and more" >> "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    git(project, "init", "--quiet")
    lines = "\n".join(f"line {number}" for number in range(1, 13))
    reply = expecting({"say": "Fine."}, f"begun @no/such.py {lines}\nand more")
    with (
        run_scenario_server(script(reply)) as server,
        chatting(server, home, project, EDITOR=str(editor)) as screen,
    ):
        screen.press(f"begun @no/such.py \x1b[200~{lines}\x1b[201~")
        screen.wait_for_bottom("[pasted text 1: 12 lines]")
        screen.press("\x18\x05")
        screen.wait_for_bottom("and more")
        assert not server.requests
        screen.press(ENTER)
        screen.wait_for("! no/such.py: there is no such file")
        screen.wait_for("… 5 more lines")
        screen.wait_for("Fine.")
        screen.wait_for_bottom("· /help")
        screen.press("/compact" + ENTER)
        screen.wait_for("There was nothing to shorten")
        screen.press("/export" + ENTER)
        screen.wait_for("`git status` may show the file as new")
        assert not server.violations


def test_the_text_is_as_wide_as_the_window_is_now(home: Path, project: Path) -> None:
    words = " ".join(["日本語", *(f"word{number}" for number in range(100))])
    with (
        run_scenario_server(script({"say": f"{words} end1"}, {"say": f"{words} end2"})) as server,
        chatting(server, home, project, columns=100) as screen,
    ):
        screen.press("speak" + ENTER)
        screen.wait_for("end1")
        wide = max(len(line) for line in screen.lines if "word" in line)
        screen.resize(60, 40)
        screen.press("again" + ENTER)
        screen.wait_for("end2")
        later = screen.lines[next(at for at, line in enumerate(screen.lines) if "again" in line) :]
        narrow = max(len(line) for line in later if "word" in line)
    assert 80 < wide <= 100
    assert 40 < narrow <= 60


def test_a_model_that_does_not_answer_is_told_and_the_conversation_stays(home: Path, project: Path) -> None:
    failing = {"error": {"status": 401, "type": "invalid_api_key", "message": "who are you"}}
    with (
        run_scenario_server(script(failing, {"say": "Better."})) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("hi" + ENTER)
        screen.wait_for("✗")
        screen.wait_for_bottom("/help")
        screen.press("again" + ENTER)
        screen.wait_for("Better.")


def test_kakite_alone_begins_a_conversation_where_a_model_is_set(home: Path, project: Path) -> None:
    environ = environment(home, OPENAI_API_KEY=KEY)
    with open_screen(argv(), environ, project) as screen:
        screen.wait_for("Usage: kakite")
        screen.wait()
    with open_screen(argv(), {**environ, "KAKITE_MODEL": "openai:x"}, project) as screen:
        screen.wait_for_bottom("ask · openai:x")
        screen.press(CTRL_D)
        assert screen.wait() == 0
    state = home / ".local/state/kakite/runs"
    assert not list(state.iterdir()), "a session in which nothing was said leaves nothing"


def test_a_worktree_is_worked_in_and_committed_to(home: Path, project: Path, columns: int) -> None:
    git(project, "init", "--quiet")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message=First")
    for key in ("name", "email"):
        git(project, "config", f"user.{key}", "person@localhost")
    (project / "mine").touch()
    commit = {"calls": [{"tool": "commit", "arguments": {"message": "Make a 2"}}]}
    turns = (edit("1", "2"), commit, {"say": "Done."}, edit("2", "3"), {"say": "And 3."})
    more = ("--worktree", "--branch", "topic", "--approve", "edits")
    with (
        run_scenario_server(script(*turns)) as server,
        chatting(server, home, project, *more, columns=columns) as screen,
    ):
        screen.wait_for("uncommitted file")
        screen.press("make a 2" + ENTER)
        screen.wait_for("Commit 1 file: Make a 2")
        screen.wait_for("+a = 2")
        screen.wait_for_bottom("Allow this?")
        assert git(project, "log", "--format=%s", "topic") == "First"
        screen.press("y" + ENTER)
        screen.wait_for("Done.")
        screen.wait_for_bottom("· /help")
        screen.press("now 3" + ENTER)
        screen.wait_for("And 3.")
        screen.wait_for_bottom("· /help")
        screen.press("/commit Make a 3" + ENTER)
        screen.wait_for("on `topic`: Make a 3")
        assert git(project, "log", "--format=%s", "topic").split("\n") == ["Make a 3", "Make a 2", "First"]
        assert git(project, "show", "topic:a.py") == "a = 3"
        assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
        screen.press(CTRL_D)
        screen.wait_for("Go on with: kakite chat --resume")


def test_a_letter_answers_with_enter_alone_and_any_other_line_is_the_reason(
    home: Path, project: Path
) -> None:
    reasons = ("should use tau instead", "also name it x.txt", "no, use tau")
    heard = [
        {**edit("1", "2"), "expect": {"tool_result": {"is_error": True, "contains": [reason]}}}
        for reason in reasons
    ]
    saved = {**run("ls"), "expect": {"tool_result": {"is_error": False}}}
    with (
        run_scenario_server(script(edit("1", "2"), *heard, saved, {"say": "Fine."})) as server,
        chatting(server, home, project) as screen,
    ):
        screen.press("make a 2" + ENTER)
        for number, reason in enumerate(reasons):
            screen.wait_for("+a = 2", number + 1)
            screen.wait_for_bottom("or write why not")
            for letter in reason:
                screen.press(letter)
                screen.wait_for_bottom(letter)
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
            screen.press(ENTER)
            screen.wait_for(f"› {reason}")
        screen.wait_for("+a = 2", len(reasons) + 1)
        screen.wait_for_bottom("or write why not")
        screen.press("s" + ENTER)
        screen.wait_for("kakite host rules remove 1")
        screen.wait_for("$ ls")
        screen.wait_for_bottom("or write why not")
        screen.press(UP)
        screen.wait_for_bottom("› no, use tau")
        screen.press(CTRL_C)
        assert not server.violations
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"


def test_what_no_request_has_carried_comes_back_into_the_line(home: Path, project: Path) -> None:
    turns = (run(WAIT), expecting({"say": "Fine."}, "first\nsecond"))
    with (
        run_scenario_server(script(*turns)) as server,
        chatting(server, home, project, "--approve", "all") as screen,
    ):
        screen.press("begin" + ENTER)
        screen.wait_for_bottom("run_command: while")
        screen.press("first" + ENTER + "second" + ENTER)
        screen.wait_for_bottom("… waits: second")
        screen.press(UP)
        screen.wait_for_bottom("› second")
        screen.wait_until(lambda: "waits:second" not in screen.bottom, "one message waits")
        screen.press(ESCAPE)
        screen.wait_for("Interrupted.")
        screen.wait_for_bottom("› first second")
        assert "Themodelhasyourmessage" not in screen.text
        screen.press(ENTER)
        screen.wait_for("Fine.")
        assert not server.violations
        screen.wait_for_bottom("· /help")
        screen.press("/rew" + ENTER)
        screen.wait_for("did you mean `/rewind`?")
        screen.wait_for_bottom("› /rew")
        screen.press("ind" + ENTER)
        screen.wait_for_bottom("Before which message?")
        screen.press("2" + ENTER)
        screen.wait_for_bottom("Bring back:")
        screen.press("c" + ENTER)
        screen.wait_for("Back to before: first second")
        screen.wait_for_bottom("› first second")
        screen.press(SHIFT_TAB * 4)
        screen.wait_for_bottom("all · openai:scripted")
        screen.press(CTRL_C + CTRL_D)
        assert screen.wait() == 0
    environ = environment(home, OPENAI_API_KEY=KEY)
    with open_screen(argv("chat", "--continue"), environ, project) as screen:
        screen.wait_for_bottom("openai:scripted")
        assert "ask·openai" not in screen.text
        screen.wait_for("The mode is all: the model does everything without asking you.")
        screen.wait_for_bottom("all · openai:scripted")
        screen.wait_for("› begin")
