"""``kakite edit``, plain and over JSON lines."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Outcome, argv, environment, kakite
from tests.cli.terminal import Terminal
from tests.forking import run


def edit(*arguments: str, reply: str, folder: Path) -> Outcome:
    done = run(
        argv("edit", *arguments),
        given=reply.encode(),
        env=environment(folder.parent),
        cwd=folder,
        timeout=60,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def block(search: str, replace: str, path: str = "") -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    (place / "a.py").write_bytes(b"def f():\r\n\treturn 1\r\n")
    (place / "b.py").write_bytes(b"x = 1\n")
    return place


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_reply_is_applied_to_the_files_that_it_names(folder: Path) -> None:
    reply = "Here you are.\n" + block("return 1", "return 2", "a.py") + block("x = 1", "x = 2", "b.py")
    outcome = edit(reply=reply, folder=folder)
    assert outcome.code == 0, outcome.stderr
    assert contents(folder) == {"a.py": b"def f():\r\n\treturn 2\r\n", "b.py": b"x = 2\n"}


def test_a_reply_without_a_name_is_for_the_one_file_given(folder: Path) -> None:
    assert edit("b.py", reply=block("x = 1", "x = 2"), folder=folder).code == 0
    assert contents(folder)["b.py"] == b"x = 2\n"


@pytest.mark.parametrize(
    ("words", "what", "typed"),
    [((), "the model's reply", block("x = 1", "x = 2", "b.py")), (("--jsonl",), "requests", "")],
)
def test_at_a_terminal_it_says_that_it_reads_and_how_that_ends(
    words: tuple[str, ...], what: str, typed: str, folder: Path
) -> None:
    terminal = Terminal(argv("edit", *words), environment(folder.parent), folder)
    terminal.expect(f"reading {what} from your terminal")
    terminal.expect("Ctrl-D")
    terminal.press(f"{typed}\x04")
    assert terminal.wait() == 0
    assert contents(folder)["b.py"] == (b"x = 2\n" if typed else b"x = 1\n")


def test_one_edit_that_fails_leaves_every_file_as_it_was(folder: Path) -> None:
    before = contents(folder)
    reply = block("x = 1", "x = 2", "b.py") + block("return 7", "return 8", "a.py")
    outcome = edit("--json", reply=reply, folder=folder)
    assert outcome.code == 1
    assert contents(folder) == before
    assert outcome.json["ok"] is False
    (failure,) = outcome.json["failures"]
    assert (failure["index"], failure["path"]) == (1, "a.py")
    assert failure["code"] in {"near_miss", "not_found"}


def test_what_can_be_applied_is_applied_when_asked_for(folder: Path) -> None:
    reply = block("x = 1", "x = 2", "b.py") + block("nothing like it", "z", "a.py")
    outcome = edit("--partial", "--json", reply=reply, folder=folder)
    assert outcome.code == 1
    assert contents(folder)["b.py"] == b"x = 2\n"
    assert [failure["index"] for failure in outcome.json["failures"]] == [1]


def test_a_check_writes_nothing_and_a_diff_shows_the_change(folder: Path) -> None:
    before = contents(folder)
    outcome = edit("--check", "--diff", reply=block("x = 1", "x = 2", "b.py"), folder=folder)
    assert outcome.code == 0
    assert contents(folder) == before
    assert "-x = 1\n+x = 2\n" in outcome.stdout


def test_files_are_created_moved_and_deleted(folder: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Add File: new/c.py\n+y = 1\n*** Delete File: b.py\n"
        "*** Update File: a.py\n*** Move to: d.py\n@@\n def f():\n-\treturn 1\n+\treturn 2\n*** End Patch\n"
    )
    outcome = edit(reply=patch, folder=folder)
    assert outcome.code == 0, outcome.stderr
    assert contents(folder) == {"new/c.py": b"y = 1\n", "d.py": b"def f():\r\n\treturn 2\r\n"}


@pytest.mark.slow
def test_a_diff_adds_a_program_as_far_as_the_umask_lets_it(folder: Path) -> None:
    added = "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+ls\n"
    head = "diff --git a/{0} b/{0}\nnew file mode {1}\n"
    diff = "".join((head + added).format(*file) for file in (("run", "100755"), ("text", "100644")))
    outcome = edit(reply=diff, folder=folder)
    assert outcome.code == 0, outcome.stderr
    program, text = ((folder / name).stat().st_mode & 0o777 for name in ("run", "text"))
    assert program & 0o100
    assert text & 0o111 == 0
    assert program & 0o666 == text & 0o666


def test_nothing_outside_of_the_files_given_is_touched_or_created(folder: Path) -> None:
    before = contents(folder)
    for path in ("a.py", "c.py", "../evil.py", "/etc/evil.py"):
        reply = block("x = 1" if path == "a.py" else "", "evil", path)
        outcome = edit("b.py", reply=reply, folder=folder)
        assert outcome.code == 1, path
        assert ("below it: no `..`" in outcome.stderr) == path.endswith("evil.py"), outcome.stderr
    assert contents(folder) == before
    assert not (folder.parent / "evil.py").exists()


def test_a_file_that_exists_is_not_created_over(folder: Path) -> None:
    before = contents(folder)
    assert edit(reply="*** Begin Patch\n*** Add File: b.py\n+y\n*** End Patch\n", folder=folder).code == 1
    assert contents(folder) == before


def test_a_write_that_fails_takes_the_others_back(folder: Path) -> None:
    before = contents(folder)
    reply = block("x = 1", "x = 2", "b.py") + block("", "y = 1", ".git/hooks/pre-commit")
    outcome = edit(reply=reply, folder=folder)
    assert outcome.code == 1
    assert "write_denied" in outcome.stderr
    assert contents(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["a.py", "b.py"]])
def test_it_says_how_to_take_it_back_and_that_command_does(more: list[str], folder: Path) -> None:
    before = contents(folder)
    reply = block("return 1", "return 2", "a.py") + block("x = 1", "x = 2", "b.py")
    (told,) = (line for line in edit(*more, reply=reply, folder=folder).stderr.splitlines() if "undo" in line)
    way = told.removeprefix("undo it: kakite ").split()
    assert kakite(*way, "--yes", home=folder.parent, cwd=folder).code == 0
    assert contents(folder) == before
    assert "undo" not in edit("--check", *more, reply=reply, folder=folder).stderr


@pytest.mark.slow
def test_a_person_gets_a_hint_for_people_and_a_program_the_models(folder: Path) -> None:
    reply = block("x = 7", "x = 8", "b.py")
    told = edit(reply=reply, folder=folder).stderr
    assert "hint: if the file is right, correct SEARCH in the reply; else show the model the file" in told
    assert "as they stand in the text" not in told
    program = edit("--json", reply=reply, folder=folder).json["failures"][0]["hint"]
    assert program == "Check which of the two is right, and send the lines as they stand in the text"
    lines = edit("--jsonl", reply=json.dumps({"text": "x = 1\n", "reply": reply}) + "\n", folder=folder)
    assert json.loads(lines.stdout)["failures"][0]["hint"] == program


@pytest.mark.parametrize("reply", ["", "I did it.", "<<<<<<< SEARCH\na\n"])
def test_a_reply_that_holds_no_edits_is_refused_with_the_right_form(reply: str, folder: Path) -> None:
    outcome = edit("b.py", reply=reply, folder=folder)
    assert outcome.code == 1
    assert ">>>>>>> REPLACE" in outcome.stderr
    assert "hint: the reply must contain each edit like this:\n" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_file_named_on_the_command_line_that_is_not_there_is_an_error(folder: Path) -> None:
    outcome = edit("missing.py", reply=block("x", "y"), folder=folder)
    assert outcome.code == 1
    assert "file_not_found" in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reply", "code"),
    [
        (("b.py",), "I did it.", "no_edits"),
        (("b.py",), "<<<<<<< SEARCH\na\n", "marker_sequence"),
        (("missing.py",), block("x", "y"), "file_not_found"),
        (("sub",), block("x", "y"), "is_a_directory"),
        ((), block("", "x", ".git/config"), "write_denied"),
        (("--format", "odd"), block("x", "y"), "bad_usage"),
        (("locked.py",), block("x = 1", "x = 2"), "write_denied"),
    ],
)
def test_json_answers_in_the_same_shape_whatever_is_wrong(
    arguments: tuple[str, ...], reply: str, code: str, folder: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "locked.py").write_bytes(b"x = 1\n")
    (folder / "locked.py").chmod(0o444)
    before = contents(folder)
    outcome = edit("--json", *arguments, reply=reply, folder=folder)
    answer = outcome.json
    assert outcome.code == (2 if code == "bad_usage" else 1)
    assert (answer["ok"], answer["written"], answer["files"]) == (False, False, [])
    assert [failure["code"] for failure in answer["failures"]] == [code]
    assert set(answer["failures"][0]) == {"index", "code", "message", "hint", "candidates", "path"}
    assert contents(folder) == before


@pytest.mark.slow
def test_the_diff_is_a_reply_that_does_the_same(folder: Path, tmp_path: Path) -> None:
    (folder / "run.sh").write_bytes(b"echo 1\necho 2\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "gone.py").write_bytes(b"old\n")
    (folder / "kept.py").write_bytes(b"k\n")
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    patch = (
        "*** Begin Patch\n*** Update File: run.sh\n*** Move to: bin/go.sh\n@@\n-echo 1\n+echo 3\n"
        "*** Delete File: gone.py\n"
        "*** Add File: new.py\n+y\n*** Update File: kept.py\n*** Move to: kept/k.py\n*** End Patch\n"
    )
    outcome = edit("--diff", reply=patch, folder=folder)
    assert outcome.code == 0, outcome.stderr
    assert edit(reply=outcome.stdout, folder=again).code == 0, outcome.stdout
    assert contents(again) == contents(folder)
    assert {"bin/go.sh", "new.py", "kept/k.py"} <= contents(folder).keys()
    assert "--- /dev/null\n+++ b/new.py" in outcome.stdout
    assert "--- a/gone.py\n+++ /dev/null" in outcome.stdout
    assert (folder / "bin/go.sh").stat().st_mode & 0o777 == 0o755


def test_json_lines_take_no_files(folder: Path) -> None:
    outcome = edit("--jsonl", "a.py", reply="", folder=folder)
    assert outcome.code == 2
    assert "a.py" in outcome.stderr


def lines(folder: Path, *requests: Any) -> list[Any]:
    sent = "".join(
        (request if isinstance(request, str) else json.dumps(request)) + "\n" for request in requests
    )
    outcome = edit("--jsonl", reply=sent, folder=folder)
    assert outcome.code == 0, outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def test_each_line_is_answered_in_order_until_the_end_of_input(folder: Path) -> None:
    answers = lines(
        folder,
        {"id": 1, "text": "a\nb\n", "edits": [{"search": "b", "replace": "c"}]},
        "not json",
        {"id": [2], "text": "a", "edits": []},
        {"id": "3", "text": "a\na\n", "edits": [{"search": "a", "replace": "b"}]},
        {"id": 4, "text": "a\na\n", "edits": [{"search": "a", "replace": "b", "all": True}]},
        {"id": 5, "text_b64": "/w0KYQ0K", "edits": [{"search": "a", "replace": "b\nc"}]},
        {"id": 6, "text": "x = 1\n", "reply": block("x = 1", "x = 2")},
    )
    assert [answer["id"] for answer in answers] == [1, None, [2], "3", 4, 5, 6]
    assert [answer["ok"] for answer in answers] == [True, False, True, False, True, True, True]
    assert answers[0]["text"] == "a\nc\n"
    applied = answers[0]["applied"]
    assert applied == [{"index": 0, "line": 2, "lines": 1, "match": "exact", "forgiven": []}]
    assert answers[1]["failures"][0]["code"] == "bad_request"
    assert (answers[2]["text"], answers[2]["applied"], answers[2]["diff"]) == ("a", [], "")
    assert answers[3]["failures"][0]["code"] == "ambiguous"
    assert [found["line"] for found in answers[3]["failures"][0]["candidates"]] == [1, 2]
    assert answers[4]["text"] == "b\nb\n"
    assert answers[5]["text_b64"] == "/w0KYg0KYw0K"
    assert "text" not in answers[5]
    assert answers[6]["text"] == "x = 2\n"


@pytest.mark.slow
def test_an_edit_is_told_to_the_journal_and_can_be_undone(folder: Path) -> None:
    reply = block("return 1", "return 2", "a.py") + block("x = 1", "x = 2", "b.py")
    before = contents(folder)
    assert edit("--check", reply=reply, folder=folder).code == 0
    assert kakite("history", "--json", home=folder.parent, cwd=folder).json["writes"] == []
    assert edit(reply=reply, folder=folder).code == 0
    writes = kakite("history", "--json", home=folder.parent, cwd=folder).json["writes"]
    assert {write["path"] for write in writes} == {"a.py", "b.py"}
    assert {write["tool"] for write in writes} == {"kakite edit"}
    [run] = {write["run"] for write in writes}
    assert kakite("undo", "--run", run, "--yes", home=folder.parent, cwd=folder).code == 0
    assert contents(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["a file for the folder", "a damaged journal"])
def test_an_edit_goes_on_without_a_journal_that_cannot_be_used(broken: str, folder: Path) -> None:
    state = folder.parent / ".local" / "state"
    if broken == "a file for the folder":
        state.mkdir(parents=True, exist_ok=True)
        (state / "kakite").write_bytes(b"")
    else:
        assert edit(reply=block("x = 1", "x = 0", "b.py"), folder=folder).code == 0
        [journal] = state.rglob("*.sqlite")
        for file in journal.parent.glob("*.sqlite*"):
            file.unlink()
        journal.write_bytes(b"no journal" * 1000)
        (folder / "b.py").write_bytes(b"x = 1\n")
    outcome = edit(reply=block("x = 1", "x = 2", "b.py"), folder=folder)
    assert (outcome.code, outcome.stderr) == (0, "b.py edited\n")
    assert contents(folder)["b.py"] == b"x = 2\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--check",)])
def test_other_names_of_a_file_are_told_and_keep_the_old_text(words: tuple[str, ...], folder: Path) -> None:
    (folder / "other").hardlink_to(folder / "b.py")
    done = edit(*words, "b.py", reply=block("x = 1", "x = 2"), folder=folder)
    assert done.code == 0
    assert "b.py has 1 other name" in done.stderr
    assert contents(folder)["other"] == b"x = 1\n"
    assert "other name" not in edit("a.py", reply=block("return 1", "return 2"), folder=folder).stderr


@pytest.mark.slow
def test_an_edit_that_breaks_a_file_is_told_and_done(folder: Path) -> None:
    (folder / "broken.py").write_bytes(b"f(\nx = 1\n")
    reply = block("x = 1", "x = (1", "b.py") + block("x = 1", "x = 2", "broken.py")
    for options in (["--check", "--json"], ["--json"]):
        outcome = edit(*options, reply=reply, folder=folder)
        assert outcome.code == 0, outcome.stderr
        (problem,) = outcome.json["syntax"]
        assert (problem["path"], problem["line"], problem["language"]) == ("b.py", 1, "Python")
        assert "line 1 of b.py" in outcome.stderr
    assert (folder / "b.py").read_bytes() == b"x = (1\n"


@pytest.mark.slow
def test_commands_of_the_persons_settings_follow_an_edit(folder: Path) -> None:
    settings = folder.parent / ".config/kakite/kakite.yaml"
    settings.parent.mkdir(parents=True)
    ruff = Path(sys.executable).with_name("ruff")
    settings.write_text(
        f"after_edit:\n  '*.py':\n    - {ruff} format --no-cache --quiet {{file}}\n"
        f"    - {ruff} check --no-cache --quiet --output-format concise {{file}}\n",
        encoding="utf-8",
    )
    outcome = edit("--json", reply=block("x = 1", "import os\nx=[ 1,2 ]", "b.py"), folder=folder)
    assert outcome.code == 0, outcome.stderr
    assert (folder / "b.py").read_bytes() == b"import os\n\nx = [1, 2]\n"
    (finding,) = outcome.json["after_edit"]
    assert (finding["path"], finding["exit_code"]) == ("b.py", 1)
    assert "F401" in finding["output"]
    assert "F401" in outcome.stderr
    assert kakite("undo", "b.py", "--yes", home=folder.parent, cwd=folder).code == 0
    assert (folder / "b.py").read_bytes() == b"x = 1\n"


def test_a_file_in_the_folder_starts_no_command(folder: Path) -> None:
    (folder / "kakite.yaml").write_text("after_edit: {'*': 'touch {file}.ran'}\n", encoding="utf-8")
    assert edit(reply=block("x = 1", "x = 2", "b.py"), folder=folder).code == 0
    assert not (folder / "b.py.ran").exists()
