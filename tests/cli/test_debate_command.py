"""``kakite debate`` as a person runs it: with CLIs that answer and fail, at a real terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kakite.backoff import poll_with_backoff
from kakite.cli.debate.live_view import DebateLiveView
from kakite.debate.model import assign_letters
from kakite.debate.rounds import DebateStarted, DebateStopped, ReplyReceived, begin, on_reply
from kakite.debate.session import SessionUpdate
from kakite.debate.store import SqliteDebateStore
from kakite_testing.fake_clis import build_stub_command
from tests.bounds import WITHIN, little_work
from tests.cli.program import TIMEOUT, argv, environment, kakite
from tests.cli.terminal import Terminal
from tests.debate.arguing import answer, answered, failure, judging, terms
from tests.debate.courses import HOSTILE
from tests.forking import popen, run

pytestmark = pytest.mark.slow


def settings(home: Path, **kinds: str) -> dict[str, str]:
    """Let these stubs take part, each noting when it is asked."""
    known: dict[str, Any] = {}
    for name, kind in kinds.items():
        form = "claude" if name == "claude" else "codex"
        note = f'echo asked >> "{home}/{name}"; exec "$@"'
        known[name] = {"command": ["sh", "-c", note, "sh", *build_stub_command(form, kind)], "reader": form}
    file = home / "settings.yaml"
    file.write_text(json.dumps({"debate_participants": known}), encoding="utf-8")
    return {"KAKITE_CONFIG": str(file)}


def asked(home: Path, name: str) -> int:
    return (home / name).read_text(encoding="utf-8").count("asked")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_what_is_no_terminal_gets_plain_lines_and_no_question(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="wavers")
    done = kakite("debate", "Is it good?", home=tmp_path, env=env)
    assert done.code == 0, done.stderr
    for told in (
        *("Is it good?", "Round 1: each answers alone", "Round 2: each judges", "It depends."),
        *(
            "codex rejects what claude said",
            "$0.0200, estimated by claude; not known for codex",
            "claude accepts with changes what codex said",
            "They agree in part",
        ),
    ):
        assert told in done.stdout
    assert "\x1b" not in done.stdout
    assert "How do you want to continue?" not in done.stdout
    assert not (tmp_path / ".local/state/kakite/debates.sqlite").exists()


def test_json_tells_each_thing_that_happens_as_a_line(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="agrees", claude="agrees")
    done = kakite("debate", "Why?", "--json", "--transcript", "out", home=tmp_path, env=env)
    told = lines(done.stdout)
    kinds = [each["type"] for each in told]
    assert (kinds[0], kinds[-3:]) == ("begun", ["waiting", "turn", "ended"])
    assert [kinds.count(kind) for kind in ("asked", "replied", "round")] == [4, 4, 2]
    assert told[-2]["agreement"] == "agree"
    assert told[-2]["turn"]["codex_output"] == "It depends."
    assert [Path(file).suffix for file in told[-1]["transcript"]] == [".md", ".json", ".html"]
    assert all((tmp_path / file).is_file() for file in told[-1]["transcript"])


def test_flags_say_how_it_is_held(tmp_path: Path) -> None:
    env = settings(tmp_path, gemini="objects", claude="objects")
    flags = ["-p", "claude", "-p", "gemini", "--mode", "ensemble", "--order", "staged", "--rounds", "3"]
    done = kakite("debate", *flags, "Why?", "--json", home=tmp_path, env=env)
    told = lines(done.stdout)
    assert told[0]["sides"] == ["claude", "gemini"]
    assert (told[0]["mode"], told[0]["order"], told[0]["rounds"]) == ("ensemble", "staged", 3)
    assert [each["side"] for each in told if each["type"] == "asked"] == ["claude", "gemini"]


def test_a_budget_ends_it(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="objects")
    done = kakite("debate", "Why?", "--budget-asks", "3", "--json", home=tmp_path, env=env)
    assert lines(done.stdout)[-2]["ended_by"] == "budget"


def test_the_question_can_come_from_standard_input(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="agrees", claude="agrees")
    done = run(
        argv("debate", "-", "--rounds", "1", "--json"),
        env=environment(tmp_path, **env),
        cwd=tmp_path,
        given="Why?\nIn detail.\n",
        encoding="utf-8",
        timeout=TIMEOUT,
        check=True,
    )
    assert lines(done.stdout)[0]["topic"] == "Why?\nIn detail.\n"


def test_one_side_that_fails_takes_nothing_from_the_other_and_says_what_to_do(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="not_logged_in", claude="agrees")
    done = kakite("debate", "Why?", home=tmp_path, env=env)
    assert done.code == 0
    assert "no answer (not_logged_in)" in done.stdout
    assert "run `codex login`" in done.stdout
    assert "It depends." in done.stdout


def test_without_any_cli_it_says_how_to_install_them(tmp_path: Path) -> None:
    words = ("debate", "Why?", "--transcript", "said")
    done = kakite(*words, home=tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert (done.code, done.stdout) == (3, "")  # no round that nobody can take part in
    assert not (tmp_path / "said").exists()
    assert "error (nobody_answered)" in done.stderr
    assert "npm install -g @openai/codex" in done.stderr
    assert "npm install -g @anthropic-ai/claude-code" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["--rounds", "2"], "bad_usage", 2),
        (["Why?", "-p", "nobody", "-p", "codex"], "bad_participant", 1),
        (["Why?", "-p", "codex"], "bad_terms", 1),
        (["--resume", "nothing"], "kept_unknown", 1),
        (["--resume", "nothing", "Why?"], "bad_usage", 2),
        (["--delete", "nothing"], "kept_unknown", 1),
    ],
)
def test_errors_have_a_code(arguments: list[str], code: str, exit_code: int, tmp_path: Path) -> None:
    env = settings(tmp_path, codex="agrees", claude="agrees")
    done = kakite("debate", *arguments, home=tmp_path, env=env)
    assert f"error ({code})" in done.stderr, done.stderr
    assert done.code == exit_code


def test_a_transcript_that_cannot_be_written_is_known_before_anybody_is_asked(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="agrees", claude="agrees")
    (tmp_path / "file").write_bytes(b"")
    done = kakite("debate", "Why?", "--transcript", "file", home=tmp_path, env=env)
    assert (done.code, done.stdout) == (3, "")
    assert "error (io_failed)" in done.stderr
    assert not (tmp_path / "codex").exists()


def test_killed_in_mid_round_it_goes_on_and_no_answer_is_lost_or_asked_again(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="hangs")
    command = argv("debate", "Is it good?", "--json", "--keep")
    with popen(
        command, env=environment(tmp_path, **env), cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8"
    ) as program:
        assert program.stdout
        first = next(each for each in map(json.loads, program.stdout) if each["type"] == "replied")
        for _ in poll_with_backoff(WITHIN, threading.Event()):  # else claude may not have begun yet
            if (tmp_path / "claude").exists() and asked(tmp_path, "claude"):
                break
        program.kill()
    assert (first["side"], first["round"]) == ("codex", 1)
    listed = kakite("debate", "--list", "--json", home=tmp_path).json["debates"]
    assert [(each["status"], each["busy"]) for each in listed] == [("unfinished", False)]
    env = settings(tmp_path, codex="objects", claude="wavers")
    name = first["session"]
    done = kakite("debate", "--resume", name, "--json", "--transcript", "out", home=tmp_path, env=env)
    told = lines(done.stdout)
    assert next((each["side"], each["round"]) for each in told if each["type"] == "asked") == ("claude", 1)
    assert told[-1]["status"] == "ok"
    assert (asked(tmp_path, "codex"), asked(tmp_path, "claude")) == (2, 3)
    shape = json.loads((tmp_path / told[-1]["transcript"][1]).read_text(encoding="utf-8"))
    assert [len(held["replies"]) for held in shape["turns"][0]["rounds"]] == [2, 2]
    assert kakite("debate", "--delete", name, home=tmp_path).code == 0
    assert kakite("debate", "--list", "--json", home=tmp_path).json == {"debates": []}


def test_two_processes_do_not_hold_one_debate(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="hangs")
    command = argv("debate", "Is it good?", "--json", "--keep")
    with popen(
        command, env=environment(tmp_path, **env), cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8"
    ) as program:
        assert program.stdout
        try:
            begun = json.loads(next(program.stdout))
            done = kakite("debate", "--resume", begun["session"], "--json", home=tmp_path, env=env)
            assert [each["error"]["code"] for each in lines(done.stdout)] == ["kept_busy"]
            program.send_signal(signal.SIGINT)
            told = [json.loads(line) for line in program.stdout]
            assert program.wait(TIMEOUT) == 130
        finally:
            program.kill()
    assert told[-1]["interrupted"] is True


def test_a_person_decides_at_the_terminal(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="wavers")
    seen = Terminal(
        argv("debate", "Is it good?", "--transcript", "out"), environment(tmp_path, **env), tmp_path
    )
    seen.expect("Round 1: each answers alone")
    seen.expect("│ It depends.  70 % sure")  # beside the other
    seen.expect("codex rejects what claude said")
    seen.expect("They agree in part")
    seen.expect("How do you want to continue?")
    seen.answer("> ", "x\n")
    seen.expect("one of the keys")
    seen.answer("> ", "i\n")
    seen.answer("Your instruction (an empty line ends it): ", "\n")
    seen.answer("Your instruction (an empty line ends it): ", "Make it cheaper.\n\n")
    seen.expect("go on with an instruction")
    seen.expect("Round 3: each goes on as the person decided")
    seen.answer("> ", "1\n")
    seen.answer("Anything to add? (Enter: no; an empty line ends it) ", "\n")
    seen.expect("continue from codex's answer")
    seen.answer("> ", "q\n")
    assert seen.wait() == 0
    [text] = [file.read_text(encoding="utf-8") for file in (tmp_path / "out").glob("*.md")]
    assert "wrote out/" in seen.seen
    assert "Make it cheaper." in text
    assert "Traceback" not in seen.seen


def test_ctrl_c_keeps_what_was_said_and_says_how_to_go_on(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="hangs")
    seen = Terminal(
        argv("debate", "Is it good?", "--keep", "--transcript", "out"), environment(tmp_path, **env), tmp_path
    )
    seen.expect("✓ codex")
    seen.press("\x03")
    assert seen.wait() == 130
    assert "stopped; answers given: 1" in seen.seen
    assert "kakite debate --resume is-it-good-" in seen.seen
    assert len(list((tmp_path / "out").iterdir())) == 3
    assert "Traceback" not in seen.seen


def test_a_debate_that_is_gone_on_with_shows_where_it_stood(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="wavers")
    first = kakite("debate", "Is it good?", "--keep", home=tmp_path, env=env)
    name = first.stderr.rpartition("--resume ")[2].split("`")[0]
    command = argv("debate", "--resume", name)
    seen = Terminal(command, environment(tmp_path, **env), tmp_path)
    seen.expect("Is it good?")
    seen.expect("Round 2: each judges")
    seen.expect("rejects what claude said")
    seen.answer("> ", "q\n")
    assert seen.wait() == 0
    assert "continues it" not in seen.seen
    assert (asked(tmp_path, "codex"), asked(tmp_path, "claude")) == (2, 2)
    gone = {"KAKITE_DEBATE_PARTICIPANTS": '{"claude": {"timeout": "never"}}'}  # as if it were there no more
    shown = kakite("debate", "--resume", name, "--transcript", "out", home=tmp_path, env=gone)
    assert "They agree in part. The person ended it." in shown.stdout
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_what_was_said_in_a_round_that_broke_off_is_shown_when_it_goes_on(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="objects")
    said = ReplyReceived(side="codex", round=1, reply=answer("It was said before."))
    with SqliteDebateStore(tmp_path / ".local/state/kakite/debates.sqlite") as kept:
        for name, ends in (("open", []), ("over", [DebateStopped(why="person")])):
            for event in (DebateStarted(prompt="Is it good?", terms=terms(rounds=1)), said, *ends):
                kept.append(name, event)
    done = kakite("debate", "--resume", "open", home=tmp_path, env=env)
    for told in ("Round 1: each answers alone", "It was said before.", "It depends."):
        assert done.stdout.count(told) == 1, done.stdout
    shown = kakite("debate", "--resume", "over", home=tmp_path, env=env)
    assert "It was said before." in shown.stdout
    told = lines(kakite("debate", "--resume", "over", "--json", home=tmp_path, env=env).stdout)
    assert {each["session"] for each in told} == {"over"}


@pytest.mark.parametrize("flags", [["--rounds", "2"], ["--budget-asks", "4"], ["-p", "codex"]])
def test_a_kept_debate_takes_no_other_terms(flags: list[str], tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="objects")
    with SqliteDebateStore(tmp_path / ".local/state/kakite/debates.sqlite") as kept:
        kept.append("shop", DebateStarted(prompt="Is it good?", terms=terms()))
    done = kakite("debate", "--resume", "shop", *flags, home=tmp_path, env=env)
    assert done.code == 2
    assert "error (bad_usage)" in done.stderr
    assert not (tmp_path / "codex").exists()


@pytest.mark.parametrize("kind", ["hangs", "objects"])
def test_a_terminal_that_closes_ends_it_and_what_was_said_is_kept(kind: str, tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude=kind)
    flags = ("--keep", "--transcript", "out")
    command = ["sh", "-c", 'exec "$@" 2>errors', "sh", *argv("debate", "Is it good?", *flags)]
    seen = Terminal(command, environment(tmp_path, **env), tmp_path)
    seen.expect("✓ codex" if kind == "hangs" else "q  stop here")
    seen.hang_up()
    assert "Traceback" not in (tmp_path / "errors").read_text(encoding="utf-8")
    [kept] = kakite("debate", "--list", "--json", home=tmp_path).json["debates"]
    assert kept["busy"] is False
    assert kept["round"] == (1 if kind == "hangs" else 2)
    assert len(list((tmp_path / "out").iterdir())) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_takes_no_transcript(number: signal.Signals, tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="hangs")
    command = argv("debate", "Is it good?", "--json", "--transcript", "out")
    with popen(
        command, env=environment(tmp_path, **env), cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8"
    ) as program:
        assert program.stdout
        late = threading.Timer(TIMEOUT, program.kill)
        late.start()
        told = map(json.loads, program.stdout)
        next(each for each in told if each["type"] == "replied")
        program.send_signal(number)
        *_, last = told
        assert program.wait(TIMEOUT) == 130
        late.cancel()
    assert (last["type"], last["interrupted"]) == ("ended", True)
    assert all((tmp_path / file).is_file() for file in last["transcript"])
    assert len(last["transcript"]) == 3


def test_ctrl_c_while_the_transcript_is_written_takes_nothing_from_it(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="hangs")
    seen = Terminal(
        argv("debate", "Is it good?", "--transcript", "out"), environment(tmp_path, **env), tmp_path
    )
    seen.expect("✓ codex")
    seen.press("\x03")
    seen.expect("writing the transcript")
    seen.press("\x03\x03")
    seen.expect("stopped; answers given: 1")
    seen.press("\x03")  # it is about to exit: nor does this one end it otherwise
    assert seen.wait() == 130
    assert len(list((tmp_path / "out").iterdir())) == 3


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_who_stops_reading_ends_it_without_a_word(flags: list[str], tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="hangs")
    with popen(
        argv("debate", "Is it good?", *flags),
        env=environment(tmp_path, **env),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(TIMEOUT) == 1
        assert program.stderr.read() == ""


def test_a_repository_cannot_say_which_program_takes_part(tmp_path: Path) -> None:
    settings(tmp_path, codex="agrees", claude="agrees")
    (tmp_path / "settings.yaml").rename(tmp_path / "kakite.yaml")
    done = kakite("debate", "Why?", home=tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert "`debate_participants` is ignored" in done.stderr
    assert not (tmp_path / "codex").exists()


def test_the_end_of_the_input_leaves_the_debate_as_ctrl_c_does(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="agrees", claude="agrees")
    seen = Terminal(argv("debate", "Is it good?", "--keep"), environment(tmp_path, **env), tmp_path)
    seen.answer("> ", "\x04")
    assert seen.wait() == 130
    assert "--resume" in seen.seen


@pytest.mark.parametrize("name", ["my shop; rm -rf x", ""])
def test_how_to_go_on_can_be_pasted_whatever_the_name(name: str, tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="objects")
    with SqliteDebateStore(tmp_path / ".local/state/kakite/debates.sqlite") as kept:
        kept.append(name, DebateStarted(prompt="Is it good?", terms=terms()))
    listed = kakite("debate", "--list", home=tmp_path)
    assert (name or "(unnamed: '')") in listed.stdout
    done = kakite("debate", "--resume", name, home=tmp_path, env=env)
    pasted = done.stderr.partition("; `")[2].rpartition("` continues it")[0]
    assert shlex.split(pasted) == ["kakite", "debate", "--resume", name]


def test_when_the_budget_is_used_up_nothing_is_offered_that_is_refused(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="objects")
    command = argv("debate", "Is it good?", "--budget-asks", "2")
    seen = Terminal(command, environment(tmp_path, **env), tmp_path)
    seen.expect("The budget is used up")
    seen.answer("> ", "n\n")
    seen.expect("one of the keys")
    seen.answer("> ", "q\n")
    assert seen.wait() == 0
    assert "another round" not in seen.seen
    assert "continue from" not in seen.seen


def test_words_of_several_lines_are_taken_whole(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="objects")
    command = argv("debate", "Is it good?", "--rounds", "1", "--transcript", "out")
    seen = Terminal(command, environment(tmp_path, **env), tmp_path)
    seen.answer("> ", "e\n")
    seen.answer("The facts (an empty line ends them): ", "Rents double.\nShops close.\n\nWages do not.\n\n")
    seen.answer("> ", "i\n")
    seen.answer("Your instruction (an empty line ends it): ", "x" * 5000 + "\n")
    seen.expect("too long for a terminal")
    seen.answer("Your instruction (an empty line ends it): ", "Be short.\n\x04")
    seen.answer("> ", "q\n")
    assert seen.wait() == 0
    [file] = (tmp_path / "out").glob("*.json")
    decided = [turn["decision"] for turn in json.loads(file.read_text(encoding="utf-8"))["turns"]]
    assert [made and made["text"] for made in decided] == [
        None,
        "Rents double.\nShops close.\n\nWages do not.",
        "Be short.",
    ]


def test_of_a_long_answer_only_what_fits_is_laid_out_while_the_other_thinks() -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(file=nowhere, width=120, height=40, force_terminal=True, record=True)
        screen = DebateLiveView(console)
        debate = begin("Why?", terms())
        screen.on_event(SessionUpdate(session="", kind="begun", debate=debate))
        for side in debate.terms.names:
            screen.on_event(SessionUpdate(session="", kind="asked", debate=debate, side=side, round=1))
        debate = on_reply(debate, "codex", 1, answer("first rows\n\n" + "- *word* `code`\n" * 60_000))
        screen.on_event(SessionUpdate(session="", kind="replied", debate=debate, side="codex", round=1))
        with little_work():
            for _ in range(20):
                console.print(*screen.render_progress(12))
        screen.close()
        text = console.export_text()
    assert "first rows" in text
    assert "…" in text


def test_what_is_not_agreed_on_names_the_sides_behind_letters() -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(file=nowhere, width=120, record=True)
        debate = answered(begin("Why?", terms()))
        letter = assign_letters(debate, 2, "codex")["claude"]
        held = debate
        debate = answered(
            debate, lambda side: judging(held, side, {"claude": "reject"}, f"Answer {letter} has no price.")
        )
        DebateLiveView(console).show_turn(debate)
        text = console.export_text()
    assert f"codex, of claude: Answer {letter} (claude) has no price." in text


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_nothing_that_was_said_can_speak_to_the_terminal(width: int) -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(file=nowhere, width=width, height=40, force_terminal=True, record=True)
        screen = DebateLiveView(console)
        debate = answered(
            begin(f"Why? {HOSTILE}", terms()), lambda side: answer(f"{side} {HOSTILE}", HOSTILE)
        )
        debate = answered(
            debate,
            lambda side: (
                judging(debate, side, {"codex": "reject"}, HOSTILE)
                if side == "claude"
                else failure(message=HOSTILE, hint=HOSTILE, stderr_tail=HOSTILE)
            ),
        )
        screen.on_event(SessionUpdate(session="", kind="begun", debate=debate))
        screen.show_turn(debate)
        screen.close()
        text = console.export_text()
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "<script>" in "".join(text.split())


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("srve", "did you mean `kakite debate serve`? To debate this word: `kakite debate ask srve`"),
        ("status", "`kakite debate ask --list`"),
        ("list", "`kakite debate ask --list`"),
        ("stop", "Ctrl-C"),
        ("HELP", "`kakite debate --help`"),
        ("resume", "`kakite debate ask --resume NAME`"),
        ("doctor", "`kakite doctor`"),
        ("my-notes.md", "To debate this word: `kakite debate ask my-notes.md`"),
    ],
)
def test_one_word_that_looks_like_a_command_asks_nobody(word: str, instead: str, tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="wavers")
    for more in ((), ("--no-input",)):
        done = kakite("debate", word, *more, home=tmp_path, env=env)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert instead in done.stderr
    assert not (tmp_path / "codex").exists()


@pytest.mark.parametrize(
    "words", [("ask", "status"), ("about", "status"), ("status?",), ("書店の将来戦略について",)], ids=str
)
def test_what_was_meant_as_a_topic_is_debated(words: tuple[str, ...], tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects", claude="wavers")
    done = kakite("debate", *words, "--mode", "ensemble", home=tmp_path, env=env)
    assert done.code == 0, done.stderr
    assert (asked(tmp_path, "codex"), asked(tmp_path, "claude")) == (1, 1)
    assert words[-1] in done.stdout


def test_a_second_opinion_is_one_round_of_one_side(tmp_path: Path) -> None:
    env = settings(tmp_path, codex="objects")
    done = kakite("debate", "Is it good?", "--mode", "quick", "-p", "codex", "--json", home=tmp_path, env=env)
    assert done.code == 0, done.stderr
    assert [each["type"] for each in lines(done.stdout)].count("replied") == 1
    shown = kakite("debate", "Is it good?", "--mode", "quick", "-p", "codex", home=tmp_path, env=env)
    assert "codex answer once" in shown.stdout


def repository(home: Path) -> Path:
    """Return a repository with a commit and a change; two sides answer with what they are asked."""
    folder = home / "somewhere"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_text("a = 1\n", encoding="utf-8")
    (folder / "src/b.py").write_text("b = 1\n", encoding="utf-8")
    (folder / ".env").write_text("TOKEN=of-the-person\n", encoding="utf-8")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], env=environment(home), check=True, timeout=TIMEOUT)
    (folder / "src/a.py").write_text("a = 2\n", encoding="utf-8")
    (folder / ".env").write_text("TOKEN=of-the-person-too\n", encoding="utf-8")
    return folder


ECHOES = {
    "KAKITE_DEBATE_PARTICIPANTS": json.dumps(
        {name: {"command": ["cat"], "reader": "text"} for name in ("codex", "claude")}
    )
}


def test_each_side_is_shown_the_files_and_the_change_and_no_secret(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    flags = ["--repo", str(folder), "--diff", "HEAD", "--rounds", "1", "--json", "--transcript", "out"]
    done = kakite("debate", "Is it good?", *flags, home=tmp_path, env=ECHOES)
    assert done.code == 0, done.stderr
    said = [each["reply"]["text"] for each in lines(done.stdout) if each["type"] == "replied"]
    for text in said:
        assert '<file path="src/b.py">\nb = 1\n</file>' in text
        assert "-a = 1\n+a = 2" in text
        assert "of-the-person" not in text
        assert "somewhere" not in text
    assert len(said) == 2
    assert "not shown to any side" in done.stderr
    assert ".env" in done.stderr
    (file,) = (tmp_path / "out").glob("*.json")
    told = json.loads(file.read_text(encoding="utf-8"))["terms"]["files"]
    assert (told["count"], told["base"], told["left_out"]) == (2, "HEAD", [".env"])


def test_globs_say_which_files(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    flags = ["--files", "src/b*", "--rounds", "1", "--json"]
    done = kakite("debate", "Is it good?", *flags, home=tmp_path, cwd=folder, env=ECHOES)
    said = [each["reply"]["text"] for each in lines(done.stdout) if each["type"] == "replied"]
    assert ["src/a.py" in text or "src/b.py" not in text for text in said] == [False, False]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--repo", "nowhere"], "nowhere"),
        (["--repo", "somewhere", "--files", "*.rs"], "there are no files"),
        (["--repo", "somewhere", "--diff", "no-such-branch"], "no diff"),
        (["--repo", "somewhere", "--diff=--output=x"], "no diff"),
        (["--repo", "somewhere", "--diff", "HEAD", "--files", "src/b*"], "nothing has changed"),
    ],
)
def test_files_that_cannot_be_shown_begin_no_debate(flags: list[str], told: str, tmp_path: Path) -> None:
    repository(tmp_path)
    done = kakite("debate", "Is it good?", *flags, "--json", home=tmp_path, env=ECHOES)
    assert done.code == 1
    (error,) = lines(done.stdout)
    assert error["error"]["code"] == "bad_files"
    assert told in error["error"]["message"]


def test_a_kept_debate_goes_on_with_its_files_and_says_that_they_have_changed(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    flags = ["--repo", str(folder), "--keep", "--mode", "ensemble", "--json"]
    begun = lines(kakite("debate", "Is it good?", *flags, home=tmp_path, env=ECHOES).stdout)[-1]
    again = kakite("debate", "--resume", begun["session"], "--json", home=tmp_path, env=ECHOES)
    assert "every side can read 2 files" in again.stderr
    assert "have changed" not in again.stderr
    (folder / "src/b.py").write_text("b = 2\n", encoding="utf-8")
    again = kakite("debate", "--resume", begun["session"], "--json", home=tmp_path, env=ECHOES)
    assert "the files have changed since the debate began" in again.stderr
    refused = kakite("debate", "--resume", begun["session"], "--repo", ".", home=tmp_path, env=ECHOES)
    assert refused.code == 2


REVIEWER = """
import json, sys
asked = sys.stdin.read()
block = {"claim": "It is wrong.", "verdicts": {"A": "reject", "B": "reject"}, "position": "new"}
if "F1 (high)" in asked:
    block["support"] = {"F1": {"verdict": sys.argv[1], "reason": "I looked."}}
elif sys.argv[1] == "confirm":
    block["findings"] = [{"file": "src/a.py", "line": 1, "severity": "high", "problem": "It is 2."}]
print("I looked.\\n```json\\n" + json.dumps(block) + "\\n```")
"""


def test_a_review_leaves_findings_with_their_support(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
    for words in (["checkout", "-qb", "feature"], ["commit", "-qam", "second"]):
        subprocess.run([*git, *words], env=environment(tmp_path), check=True, timeout=TIMEOUT)
    (tmp_path / "reviewer.py").write_text(REVIEWER, encoding="utf-8")
    known = {
        name: {"command": [sys.executable, str(tmp_path / "reviewer.py"), opinion], "reader": "text"}
        for name, opinion in {"codex": "confirm", "claude": "reject"}.items()
    }
    env = {"KAKITE_DEBATE_PARTICIPANTS": json.dumps(known)}
    flags = ["--review", "feature", "--diff", "feature~1", "--repo", str(folder)]
    done = kakite("debate", *flags, home=tmp_path, env=env)
    assert done.code == 0, done.stderr
    assert "F1: high, src/a.py:1: It is 2." in done.stdout
    assert "(supported by codex; rejected by claude)" in " ".join(done.stdout.split())
    told = lines(kakite("debate", *flags, "Look at the 2.", "--json", home=tmp_path, env=env).stdout)
    assert told[0]["topic"].endswith("Look at the 2.")
    (found,) = told[-2]["findings"]
    assert (found["supported_by"], found["rejected_by"]) == (["codex"], ["claude"])


PATCHER = """
import sys
asked = sys.stdin.read()
if "<decision" in asked and sys.argv[1] == "edits":
    print("I change a.\\n\\nsrc/a.py\\n<<<<<<< SEARCH\\na = 2\\n=======\\na = 3\\n>>>>>>> REPLACE")
else:
    print("It is fine.")
"""


def patching(home: Path) -> dict[str, str]:
    """Return two sides of which the second one can write edits."""
    (home / "patcher.py").write_text(PATCHER, encoding="utf-8")
    known = {
        name: {"command": [sys.executable, str(home / "patcher.py"), kind], "reader": "text"}
        for name, kind in {"codex": "words", "claude": "edits"}.items()
    }
    return {"KAKITE_DEBATE_PARTICIPANTS": json.dumps(known)}


def test_a_debate_can_end_in_a_patch_that_git_takes(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    flags = ["--repo", str(folder), "--outcome", "patch", "--rounds", "1", "--json", "--transcript", "out"]
    done = kakite("debate", "What should a be?", *flags, home=tmp_path, env=patching(tmp_path))
    assert done.code == 0, done.stderr
    (made,) = [each for each in lines(done.stdout) if each["type"] == "patch"]
    assert (made["side"], "-a = 2\n+a = 3" in made["diff"]) == ("claude", True)
    assert "the edits of codex cannot be applied" in done.stderr
    assert (folder / "src/a.py").read_text(encoding="utf-8") == "a = 2\n"
    (file,) = (tmp_path / "out").glob("*.patch")
    subprocess.run(["git", "-C", str(folder), "apply", str(file)], check=True, timeout=TIMEOUT)
    assert (folder / "src/a.py").read_text(encoding="utf-8") == "a = 3\n"


@pytest.mark.parametrize(("said", "text"), [("y", "a = 3\n"), ("n", "a = 2\n"), ("", "a = 2\n")])
def test_a_person_applies_the_patch_or_does_not(said: str, text: str, tmp_path: Path) -> None:
    folder = repository(tmp_path)
    flags = ["--repo", str(folder), "--outcome", "patch", "--rounds", "1"]
    env = environment(tmp_path, **patching(tmp_path))
    seen = Terminal(argv("debate", "What should a be?", *flags), env, tmp_path)
    seen.answer("[y/N]: ", f"{said}\n")
    assert seen.wait() == 0
    assert (folder / "src/a.py").read_text(encoding="utf-8") == text


def test_without_files_there_is_nothing_to_patch(tmp_path: Path) -> None:
    done = kakite("debate", "Why?", "--outcome", "patch", home=tmp_path, env=patching(tmp_path))
    assert done.code == 2
    assert "--repo" in done.stderr
