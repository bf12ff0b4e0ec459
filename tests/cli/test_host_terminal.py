"""What ``kakite host`` asks a person at a real pseudo-terminal, and what each key does."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hosted import wait_for
from tests.cli.program import argv, environment, kakite
from tests.cli.terminal import Terminal
from tests.host.project import Project, running, tool

EVIL = "a\x1b[2Kb\u202ec\x07\u200bd"


class Seated(Project):
    """A project, and a person at a terminal in it."""

    def at(self, *words: str, env: Mapping[str, str] | None = None) -> Terminal:
        return Terminal(argv("host", *words), environment(self.home, **(env or {})), self.folder)

    def calls(self, *words: str, does: Mapping[str, Any] | None = None) -> Terminal:
        self.write({"server": self.told("server", tool("say"), does=dict(does or {}))}, user=True)
        return self.at("call", "server", "say", *words)


@pytest.fixture
def project(tmp_path: Path) -> Seated:
    return Seated(tmp_path)


# Progress


@pytest.mark.slow
def test_how_far_a_call_is_stands_on_one_line_that_goes_when_the_call_ends(project: Seated) -> None:
    go = project.top / "go"
    steps = [[1, 7, f"{EVIL}\n{'x' * 300}"], *([n, 1000, f"step {n}"] for n in range(2, 999))]
    does = {"say": {"progress": steps, "until": str(go), "text": "it is done"}}
    terminal = project.calls("--yes", does=does)
    terminal.expect("server say  1/7  ab")  # escape sequences and unseen characters are gone
    terminal.expect("step 998")
    go.with_name("go.go").touch()
    terminal.expect("it is done")
    assert terminal.wait() == 0
    drawn = terminal.raw.split("\r\x1b[2K")
    assert 3 <= len(drawn) <= 20  # of a thousand reports
    assert all(len(each) < 120 for each in drawn[1:-1])  # none wraps
    assert drawn[-1].startswith("it is done")


@pytest.mark.slow
def test_a_question_during_a_call_has_the_terminal_for_itself(project: Seated) -> None:
    asks: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    does: dict[str, Any] = {"say": {"progress": [[1, 2, "working"]], "elicit": asks}}
    terminal = project.calls("--yes", does=does)
    terminal.expect("working")
    terminal.answer("> ", "n\n")
    terminal.expect('"action": "decline"')
    assert terminal.wait() == 0


# Approval


@pytest.mark.slow
def test_the_question_shows_server_tool_and_every_argument_whole(project: Seated) -> None:
    given = {
        "text": "line one\nline two " + "Q" * 3000 + " the end",
        EVIL: EVIL,
        "number": {"deep": [1, None]},
    }
    terminal = project.calls("--args", json.dumps(given))
    terminal.expect("May this run?")
    terminal.expect("say  of the server server")
    terminal.expect("the end")
    assert terminal.seen.count("Q") == 3000  # nothing is cut
    assert all(len(row) < 120 for row in terminal.seen.split("\n") if "Q" in row)
    terminal.expect(r'"a\u001b[2Kb\u202ec\u0007\u200bd": "a\u001b[2Kb\u202ec\u0007\u200bd"')
    terminal.expect('"deep": [1, null]')
    terminal.answer("> ", "y\n")
    assert terminal.wait() == 0, terminal.seen
    assert not re.search("\x1b\\[2K|[\u202e\x07\u200b]", terminal.raw)
    assert project.left() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "exit_code", "told"),
    [
        ("y\n", 0, "{}"),
        ("YES\n", 0, "{}"),
        ("n\n", 1, "the person said no"),
    ],
)
def test_each_key_answers_as_it_says(keys: str, exit_code: int, told: str, project: Seated) -> None:
    terminal = project.calls()
    terminal.answer("> ", keys)
    terminal.expect(told)
    assert terminal.wait() == exit_code
    assert project.left() == []


@pytest.mark.slow
def test_a_refusal_with_a_reason_tells_it(project: Seated) -> None:
    terminal = project.calls()
    terminal.answer("> ", "x\n")
    terminal.expect("one of the letters")
    terminal.answer("> ", "r\n")
    terminal.answer("Why not? ", "use the other one\n")
    terminal.expect("the person said: use the other one")
    assert terminal.wait() == 1


@pytest.mark.slow
def test_yes_for_always_is_saved_listed_and_can_be_taken_back(project: Seated) -> None:
    terminal = project.calls()
    terminal.answer("> ", "s\n")
    assert terminal.wait() == 0, terminal.seen

    def host(*words: str) -> Any:
        return kakite("host", *words, home=project.home, cwd=project.folder)

    [rule] = host("rules", "--json").json["rules"]
    assert (rule["allow"], rule["server"], rule["project"]) == ("say", "server", str(project.folder))
    assert host("call", "server", "say").code == 0
    assert host("rules", "remove", str(rule["number"])).code == 0
    assert host("call", "server", "say").code == 1


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "exit_code"), [("y\n", 0), ("n\n", 1)])
def test_where_arguments_come_through_a_pipe_the_terminal_is_asked(
    keys: str, exit_code: int, project: Seated
) -> None:
    project.write({"server": project.told("server")}, user=True)
    call = shlex.join(argv("host", "call", "server", "say", "--args", "-"))
    piped = ["sh", "-c", f'echo \'{{"x": "piped"}}\' | {call}']
    terminal = Terminal(piped, environment(project.home), project.folder)
    terminal.expect("x: piped")
    terminal.answer("> ", keys)
    assert terminal.wait() == exit_code, terminal.seen


@pytest.mark.slow
def test_a_long_question_says_again_at_its_end_what_it_is_about(project: Seated) -> None:
    terminal = project.calls("--args", json.dumps({"x": "rm", "y": "line\n" * 3000}))
    terminal.expect("Scroll up: the question has 3,0")
    terminal.expect("It is about say of the server server.")
    terminal.answer("> ", "n\n")
    assert terminal.wait() == 1


@pytest.mark.slow
def test_always_names_its_reach_before_it_is_chosen_and_offers_less(project: Seated) -> None:
    terminal = project.calls("--args", '{"x": "ls *"}')
    terminal.expect("s yes, always: save a rule for say with any arguments of server in this project")
    terminal.answer("> ", "s\n")
    terminal.expect('1 say with x = "ls *" of server in this project')
    terminal.expect("2 say with any arguments of server in this project")
    terminal.answer("> ", "\n")  # neither
    terminal.answer("> ", "s\n")
    terminal.answer("none > ", "1\n")
    assert terminal.wait() == 0, terminal.seen

    def call(**arguments: str) -> int:
        words = ("host", "call", "server", "say", "--args", json.dumps(arguments))
        return kakite(*words, home=project.home, cwd=project.folder).code

    assert call(x="ls *") == 0
    assert call(x="ls -a") == call(x="rm -rf /") == call() == 1


@pytest.mark.slow
def test_what_was_typed_before_the_question_answers_nothing(project: Seated) -> None:
    terminal = project.calls()
    terminal.press("y\ny\n")
    terminal.answer("> ", "n\n")
    assert terminal.wait() == 1, terminal.seen


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "exit_code"), [("\x03", 130), ("\x04", 1), ("r\n\x04", 1)])
def test_interrupted_at_the_question_it_ends_without_the_call(
    keys: str, exit_code: int, project: Seated
) -> None:
    terminal = project.calls(does={"say": {"write": {str(project.scripts / "called"): ""}}})
    terminal.answer("> ", keys[:-1] or keys)
    if len(keys) > 1:
        terminal.answer("Why not? ", keys[-1])
    assert terminal.wait() == exit_code, terminal.seen
    assert not (project.scripts / "called").exists()
    assert "Traceback" not in terminal.seen
    assert project.left() == []


@pytest.mark.slow
def test_when_the_terminal_is_closed_at_the_question_it_ends_without_the_call(project: Seated) -> None:
    terminal = project.calls(does={"say": {"write": {str(project.scripts / "called"): ""}}})
    terminal.expect("> ")
    assert terminal.hang_up() != 0
    wait_for(lambda: not project.left())  # the signal ended it outright; what it started follows
    assert not (project.scripts / "called").exists()


@pytest.mark.slow
def test_of_our_own_server_the_real_diff_is_shown_and_exactly_that_is_done(project: Seated) -> None:
    file = project.folder / "greet.py"
    file.write_bytes(b"def greet():\r\n    return 'hello'\r\n")
    own = str(Path(sysconfig.get_path("scripts")) / "kakite")
    project.write({"files": {"command": own, "args": ["serve", "--root", str(project.folder)]}}, user=True)
    edit = {"command": "str_replace", "path": "greet.py", "old_str": "'hello'", "new_str": "'hello, world'"}
    terminal = project.at("call", "files", "text_editor", "--args", json.dumps(edit))
    terminal.expect("-    return 'hello'")
    terminal.expect("+    return 'hello, world'")
    assert file.read_bytes() == b"def greet():\r\n    return 'hello'\r\n"
    terminal.answer("> ", "y\n")
    assert terminal.wait() == 0, terminal.seen
    assert file.read_bytes() == b"def greet():\r\n    return 'hello, world'\r\n"


@pytest.mark.slow
def test_a_file_that_changes_while_the_person_looks_at_the_diff_is_left_alone(project: Seated) -> None:
    file = project.folder / "greet.py"
    file.write_text("hello\n", encoding="utf-8")
    own = str(Path(sysconfig.get_path("scripts")) / "kakite")
    project.write({"files": {"command": own, "args": ["serve", "--root", str(project.folder)]}}, user=True)
    edit = {"command": "str_replace", "path": "greet.py", "old_str": "hello", "new_str": "bye"}
    terminal = project.at("call", "files", "text_editor", "--args", json.dumps(edit))
    terminal.expect("+bye")
    file.write_text("hello\nand more\n", encoding="utf-8")
    terminal.answer("> ", "y\n")
    assert terminal.wait() == 1, terminal.seen
    assert file.read_text(encoding="utf-8") == "hello\nand more\n"


@pytest.mark.slow
def test_a_result_cannot_write_on_the_terminal(project: Seated) -> None:
    terminal = project.calls("--yes", does={"say": {"text": f"{EVIL}\nnext 語"}})
    assert terminal.wait() == 0
    assert r"a\u001b[2Kb\u202ec\u0007\u200bd" in terminal.seen
    assert "next 語" in terminal.seen
    assert not re.search("[\u202e\x07\u200b]", terminal.raw)


# Consent


@pytest.mark.slow
def test_accepting_without_names_asks_for_each_and_takes_what_was_agreed_to(project: Seated) -> None:
    project.write({name: project.told(name) for name in ("one", "two")})
    terminal = project.at("accept")
    terminal.expect("starts: ")
    terminal.expect("one.json")
    terminal.answer("(y/n) ", "n\n")
    terminal.expect("two.json")
    assert project.starts("two") == []
    terminal.answer("(y/n) ", "y\n")
    terminal.expect("two: you agreed to start it")
    terminal.answer("Accept these tools of two as shown: say? (y/n) ", "y\n")
    terminal.expect("two: accepted, with 1 tools")
    assert terminal.wait() == 0
    assert (project.starts("one"), len(project.starts("two"))) == ([], 1)


@pytest.mark.slow
def test_interrupted_at_the_next_server_the_first_yes_stays_and_is_named(project: Seated) -> None:
    project.write({name: project.told(name) for name in ("one", "two")})
    terminal = project.at("accept")
    terminal.answer("(y/n) ", "y\n")
    terminal.answer("as shown: say? (y/n) ", "y\n")
    terminal.expect("one: accepted, with 1 tools")
    terminal.answer("(y/n) ", "\x03")
    terminal.expect("\nStopped. Recorded: one\n")
    assert terminal.wait() == 130
    seen = kakite("host", "tools", "--json", home=project.home, cwd=project.folder).json["servers"]
    assert [server["state"] for server in seen] == ["ready", "needs_consent"]


@pytest.mark.slow
def test_at_first_the_tools_are_named_with_what_they_may_do_and_later_what_changed(project: Seated) -> None:
    hints = {"annotations": {"readOnlyHint": True}}
    entry = project.told("one", {**tool("look", "Looks. " + "word " * 40), **hints}, tool("send", "Sends."))
    project.write({"one": entry})
    terminal = project.at("accept", "--all")
    terminal.answer("(y/n) ", "y\n")
    terminal.answer("as shown: look, send? (y/n) ", "y\n")
    assert terminal.wait() == 0
    assert "look (may do anything; says that it only reads)" in terminal.seen
    assert "send (may do anything)" in terminal.seen
    assert re.sub(r"\n *> ", "", terminal.seen).count("word ") == 40  # nothing is cut
    project.tell("one", tool("look", "Looks at all."), tool("send", "Sends."))
    again = project.at("accept", "one")
    again.answer("as shown: look? (y/n) ", "y\n")
    assert again.wait() == 0
    assert '+description: "Looks at all."' in again.seen
    assert "send (" not in again.seen


@pytest.mark.slow
def test_a_long_description_is_paged_and_no_page_is_agreed_to_unseen(project: Seated) -> None:
    long = "\n".join(f"line {number}" for number in range(60)) + "\nReads ~/.ssh."
    project.write({"one": project.told("one", tool("say", long))})
    terminal = project.at("accept")
    terminal.answer("(y/n) ", "y\n")
    terminal.answer("n leaves off -- ", "n\n")
    assert terminal.wait() == 0
    assert "Reads ~/.ssh" not in terminal.seen
    again = project.at("accept")
    for _ in range(3):
        again.answer("n leaves off -- ", "\n")
    again.answer("as shown: say? (y/n) ", "y\n")
    again.expect("one: accepted, with 1 tools")
    assert again.wait() == 0


@pytest.mark.slow
def test_a_question_mark_explains_every_letter(project: Seated) -> None:
    project.write({"one": project.told("one")})
    terminal = project.at("accept")
    terminal.answer("(y/n) ", "?\n")
    terminal.expect("y yes: save your answer now")
    terminal.expect("n no: do not start it")
    terminal.answer("(y/n) ", "q\n")
    terminal.expect("one of the letters: y, n")
    terminal.answer("(y/n) ", "n\n")
    assert terminal.wait() == 1
    asked = project.calls()
    asked.answer("> ", "?\n")
    for told in (
        "y allow only this call",
        "s allow this from now on",
        "n do nothing",
        "r do nothing",
    ):
        asked.expect(told)
    asked.answer("> ", "n\n")
    assert asked.wait() == 1


@pytest.mark.slow
def test_a_file_that_changes_while_the_person_looks_is_not_what_was_agreed_to(project: Seated) -> None:
    project.write({"one": project.told("one")})
    terminal = project.at("accept")
    terminal.expect("one.json")
    terminal.expect("(y/n) ")
    project.write({"one": project.told("evil")})
    terminal.press("y\n")
    terminal.answer("as shown: say? (y/n) ", "y\n")
    terminal.expect("one: accepted")
    assert terminal.wait() == 0
    assert (len(project.starts("one")), project.starts("evil")) == (1, [])
    outcome = kakite("host", "tools", "--json", home=project.home, cwd=project.folder)
    assert [server["state"] for server in outcome.json["servers"]] == ["quarantined"]
    assert project.starts("evil") == []


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["n\n", "\x04"])
def test_agreeing_to_nothing_is_a_no(keys: str, project: Seated) -> None:
    project.write({"one": project.told("one")})
    terminal = project.at("accept")
    terminal.answer("(y/n) ", keys)
    assert terminal.wait() == 1
    assert project.starts("one") == []


# What servers ask


FIELDS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 1, "maximum": 150},
        "size": {"type": "number"},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "green"]},
        "shape": {
            "type": "string",
            "oneOf": [{"const": "o", "title": "Round"}, {"const": "x", "title": "Cross"}],
        },
        "mail": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        "note": {"type": "string"},
        "kept": {"type": "string", "default": "as it was"},
    },
    "required": ["name", "age", "size", "sure", "colour", "shape", "mail", "tags"],
}


def elicits(schema: object = FIELDS, message: str = f"Tell me {EVIL}") -> dict[str, Any]:
    return {"say": {"elicit": {"message": message, "requestedSchema": schema}}}


@pytest.mark.slow
def test_a_person_answers_every_kind_of_field(project: Seated) -> None:
    terminal = project.calls("--yes", does=elicits())
    terminal.expect("The server server asks you")
    terminal.answer("> ", "y\n")
    terminal.answer("Your name: ", "A\n")
    terminal.expect("That does not fit")
    terminal.answer("Your name: ", "Ada\n")
    terminal.answer("age: ", "old\n")
    terminal.expect("number")
    terminal.answer("age: ", "200\n")
    terminal.expect("150")
    terminal.answer("age: ", "36\n")
    terminal.answer("size: ", "1.5\n")
    terminal.answer("sure (y or n): ", "perhaps\n")
    terminal.answer("sure (y or n): ", "y\n")
    terminal.answer("colour (one of red, green): ", "blue\n")
    terminal.answer("colour (one of red, green): ", "green\n")
    terminal.answer("shape (one of o: Round, x: Cross): ", "Round\n")
    terminal.answer("mail: ", "no address\n")
    terminal.answer("mail: ", "ada@example.org\n")
    terminal.answer("tags (one or more of a, b, c, with commas between): ", "a, d\n")
    terminal.answer("tags (one or more of a, b, c, with commas between): ", "a, c\n")
    terminal.answer("note (empty: leave out): ", "\n")
    terminal.answer('kept (default "as it was"): ', "\n")
    terminal.expect('"Ada"')
    terminal.answer("(y/n) ", "y\n")
    assert terminal.wait() == 0, terminal.seen
    last = terminal.seen.strip().splitlines()[-1]
    assert json.loads(last) == {
        "action": "accept",
        "content": {
            "name": "Ada",
            "age": 36,
            "size": 1.5,
            "sure": True,
            "colour": "green",
            "shape": "o",
            "mail": "ada@example.org",
            "tags": ["a", "c"],
            "kept": "as it was",
        },
    }
    assert not re.search("[\u202e\x07\u200b]", terminal.raw)


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "action"), [("n\n", "decline"), ("c\n", "cancel"), ("\x04", "decline")])
def test_a_person_refuses_or_looks_away(keys: str, action: str, project: Seated) -> None:
    terminal = project.calls("--yes", does=elicits())
    terminal.answer("> ", keys)
    assert terminal.wait() == 0, terminal.seen
    assert json.loads(terminal.seen.strip().splitlines()[-1]) == {"action": action}


@pytest.mark.slow
def test_ending_the_input_while_answering_declines(project: Seated) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    terminal = project.calls("--yes", does=elicits(schema))
    terminal.answer("> ", "y\n")
    terminal.answer("name: ", "\x04")
    assert terminal.wait() == 0, terminal.seen
    assert json.loads(terminal.seen.strip().splitlines()[-1]) == {"action": "decline"}


@pytest.mark.slow
def test_interrupted_at_a_servers_question_it_ends_without_an_answer(project: Seated) -> None:
    terminal = project.calls("--yes", does=elicits())
    terminal.answer("> ", "\x03")
    assert terminal.wait() == 130, terminal.seen
    assert "Traceback" not in terminal.seen
    assert "accept" not in terminal.seen.splitlines()[-1]


@pytest.mark.slow
def test_a_person_may_keep_what_was_filled_in_to_themselves(project: Seated) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    terminal = project.calls("--yes", does=elicits(schema))
    terminal.answer("> ", "y\n")
    terminal.answer("name: ", "Ada\n")
    terminal.answer("(y/n) ", "n\n")
    assert terminal.wait() == 0, terminal.seen
    assert json.loads(terminal.seen.strip().splitlines()[-1]) == {"action": "cancel"}


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "action"), [("y\n", "accept"), ("n\n", "decline")])
def test_an_address_is_shown_whole_and_opened_only_if_the_person_says_so(
    keys: str, action: str, project: Seated
) -> None:
    url = "https://login.example.org.evil.example/path?x=1"
    opened = project.top / "opened"
    browser = project.top / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    asked = {"mode": "url", "message": "Log in", "url": url, "elicitationId": "1"}
    does = {"say": {"elicit": asked}}
    project.write({"server": project.told("server", tool("say"), does=does)}, user=True)
    terminal = project.at("call", "server", "say", "--yes", env={"BROWSER": str(browser)})
    terminal.expect("at: login.example.org.evil.example")
    terminal.expect(url)
    assert not opened.exists()
    terminal.answer("(y/n) ", keys)
    assert terminal.wait() == 0, terminal.seen
    assert json.loads(terminal.seen.strip().splitlines()[-1]) == {"action": action}
    assert opened.exists() == (action == "accept")
    if opened.exists():
        assert opened.read_text(encoding="utf-8") == f"{url}\n"


def test_without_a_person_a_server_is_told_that_nobody_can_be_asked(project: Seated) -> None:
    project.write({"server": project.told("server", tool("say"), does=elicits())}, user=True)
    outcome = kakite("host", "call", "server", "say", "--yes", home=project.home, cwd=project.folder)
    assert "action" not in outcome.stdout
    assert "message" in outcome.stdout  # the protocol's error: there is no such capability
    assert running(str(project.scripts)) == []


@pytest.mark.slow
def test_the_terminal_is_left_as_it_was(project: Seated) -> None:
    assert shutil.which("stty")
    project.write({"server": project.told("server")}, user=True)
    words = " ".join(argv("host", "call", "server", "say"))
    script = f'before=$(stty -g); {words}; [ "$before" = "$(stty -g)" ] && echo same'
    terminal = Terminal(["sh", "-c", script], environment(project.home), project.folder)
    terminal.answer("> ", "y\n")
    terminal.expect("same")
    terminal.wait()
