"""``kakite undo`` and ``kakite history``, as a person uses them after a server has written."""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import subprocess
from pathlib import Path

import pytest

from kakite.workspace import Author, Workspace, ensure_state_folder, open_edit_log
from tests.bounds import WITHIN
from tests.cli.program import Outcome, argv, environment, kakite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that a server has edited in two runs."""
    place = tmp_path / "folder"
    place.mkdir()
    (place / "a").write_bytes(b"one\n")
    workspace = opened(place)
    first, second = Author(tool="text_editor", run="r1"), Author(tool="write_files", run="r2")
    workspace.write("a", b"two\n", expected=workspace.read("a").version, by=first)
    workspace.write("sub/b", b"new\n", expected=None, by=first)
    workspace.write("c", b"c\n", expected=None, by=second)
    workspace.close()
    return place


def opened(place: Path) -> Workspace:
    state = ensure_state_folder(environment(place.parent))
    return Workspace([place], history=open_edit_log(state, str(place)))


def run(*arguments: str, folder: Path, cwd: Path | None = None) -> Outcome:
    return kakite(*arguments, home=folder.parent, cwd=cwd or folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_last_edit_of_a_file_is_taken_back_and_its_diff_shown(folder: Path) -> None:
    outcome = run("undo", "a", "--yes", folder=folder)
    assert (outcome.code, outcome.stderr) == (0, "a put back\n")
    assert outcome.stdout == "--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-two\n+one\n"
    assert contents(folder)["a"] == b"one\n"


def test_without_a_name_the_last_edit_of_all_is_taken_back(folder: Path) -> None:
    assert run("undo", "--yes", folder=folder).code == 0
    assert sorted(contents(folder)) == ["a", "sub/b"]


def test_a_run_is_taken_back_from_a_folder_below(folder: Path) -> None:
    outcome = run("undo", "--run", "r1", "--yes", "--json", folder=folder, cwd=folder / "sub")
    assert outcome.code == 0, outcome.stderr
    told = {(file["path"], file["change"]) for file in outcome.json["files"]}
    assert (outcome.json["ok"], outcome.json["done"]) == (True, True)
    assert told == {("a", "put back"), ("sub/b", "removed")}
    assert contents(folder) == {"a": b"one\n", "c": b"c\n"}


def test_files_are_named_from_where_the_person_stands(folder: Path) -> None:
    assert run("undo", "b", "--yes", folder=folder, cwd=folder / "sub").code == 0
    assert sorted(contents(folder)) == ["a", "c"]


def test_a_check_shows_it_and_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    outcome = run("undo", "--run", "r1", "--check", folder=folder)
    assert outcome.code == 0
    assert "+one\n" in outcome.stdout
    assert contents(folder) == before


def test_nothing_is_taken_back_when_there_is_nobody_to_ask(folder: Path) -> None:
    before = contents(folder)
    outcome = run("undo", "a", folder=folder)
    assert outcome.code == 2
    assert "Kakite changed nothing: without a terminal it cannot ask you first" in outcome.stderr
    assert "hint: give --yes to undo without being asked, or --check" in outcome.stderr
    assert contents(folder) == before


def test_what_somebody_changed_since_is_refused_with_the_difference(folder: Path) -> None:
    (folder / "a").write_bytes(b"two\ntheirs\n")
    before = contents(folder)
    outcome = run("undo", "--run", "r1", "--yes", folder=folder)
    assert (outcome.code, outcome.stdout) == (1, "")
    assert "+theirs" in outcome.stderr
    assert outcome.stderr.startswith("error (stale)")  # before what looks as if it were being done
    assert "somebody changed this since then, so Kakite leaves it as it is: " in outcome.stderr
    outcome = run("undo", "a", "--yes", "--json", folder=folder)
    assert outcome.code == 1
    assert (outcome.json["ok"], outcome.json["error"]["code"]) == (False, "stale")
    assert [(file["path"], file["code"]) for file in outcome.json["files"]] == [("a", "stale")]
    assert contents(folder) == before


@pytest.mark.parametrize("arguments", [["nothing"], ["--run", "r9"], ["--root", "sub"]])
def test_where_nothing_can_be_undone_it_says_so(arguments: list[str], folder: Path) -> None:
    outcome = run("undo", *arguments, "--yes", folder=folder)
    assert outcome.code == 1
    assert "error (nothing_to_undo)" in outcome.stderr


def test_a_file_and_a_run_together_make_no_sense(folder: Path) -> None:
    assert run("undo", "a", "--run", "r1", folder=folder).code == 2


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1), (b"\x04", 130)])
def test_a_person_at_a_terminal_is_asked(answer: bytes, code: int, folder: Path) -> None:
    terminal, theirs = pty.openpty()
    program = subprocess.Popen(
        argv("undo", "a"),
        env=environment(folder.parent),
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = _until(terminal, b"[y/N]")
    assert b"+one" in shown
    os.write(terminal, answer)
    assert program.wait(timeout=WITHIN) == code
    os.close(terminal)
    assert contents(folder)["a"] == (b"one\n" if code == 0 else b"two\n")


def _until(terminal: int, wanted: bytes) -> bytes:
    shown = b""
    while wanted not in shown:
        assert select.select([terminal], [], [], WITHIN)[0], shown
        shown += os.read(terminal, 4096)
    return shown


def test_the_history_names_the_last_edits_and_who_made_them(folder: Path) -> None:
    run("undo", "c", "--yes", folder=folder)
    outcome = run("history", "--json", folder=folder)
    assert outcome.code == 0
    assert outcome.json["root"] == str(folder)
    told = [
        (each["path"], each["change"], each["tool"], each["run"], each["undone"])
        for each in outcome.json["writes"]
    ]
    assert told == [
        ("c", "created", "write_files", "r2", True),
        ("sub/b", "created", "text_editor", "r1", False),
        ("a", "edited", "text_editor", "r1", False),
    ]
    lines = run("history", "--limit", "2", folder=folder).stdout.splitlines()
    assert ["(undone)" in line for line in lines] == [True, False]
    assert "by write_files run r2" in lines[0]
    only = run("history", "b", "--json", folder=folder, cwd=folder / "sub").json["writes"]
    assert [each["path"] for each in only] == ["sub/b"]


def test_the_history_of_a_folder_is_that_of_all_below_it(folder: Path) -> None:
    assert len(run("history", ".", folder=folder).stdout.splitlines()) == 3
    (only,) = run("history", "sub", "--json", folder=folder).json["writes"]
    assert only["path"] == "sub/b"
    assert run("history", "sub", folder=folder, cwd=folder.parent).code == 0
    away = run("history", "folder/sub", folder=folder, cwd=folder.parent)
    assert [line.split()[2:4] for line in away.stdout.splitlines()] == [["created", "sub/b"]]
    nothing = run("history", "su", folder=folder)
    assert (nothing.stdout, nothing.stderr) == ("", "no edits of su are kept\n")


def test_a_folder_without_a_journal_has_no_history_and_gets_none(tmp_path: Path) -> None:
    outcome = kakite("history", "--json", home=tmp_path)
    assert (outcome.code, outcome.json) == (0, {"root": str(tmp_path), "writes": []})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_journal_is_named_with_a_way_on(folder: Path) -> None:
    (file,) = (folder.parent / ".local" / "state" / "kakite" / "history").glob("*.sqlite")
    file.write_bytes(b"no database" * 100)
    for command in (["history"], ["undo", "a", "--yes"]):
        outcome = run(*command, folder=folder)
        assert outcome.code == 3
        assert "error (history_failed)" in outcome.stderr
        assert f"{file}" in outcome.stderr
        assert "Traceback" not in outcome.stderr


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Return two folders that one server has edited, the second of them last."""
    first, second = tmp_path / "first", tmp_path / "second"
    for each in (first, second):
        each.mkdir()
    history = open_edit_log(ensure_state_folder(environment(tmp_path)), str(first))
    workspace = Workspace([first, second], history=history)
    workspace.write("a", b"a\n", expected=None, by=Author(tool="t", run="r"))
    workspace.write(f"{second}/b", b"b\n", expected=None, by=Author(tool="t", run="r"))
    workspace.close()
    return first, second


def test_an_edit_in_a_second_root_is_taken_back_from_either(pair: tuple[Path, Path]) -> None:
    first, second = pair
    outcome = run("undo", "../second/b", "--check", "--json", folder=first)
    assert (outcome.code, [each["path"] for each in outcome.json["files"]]) == (0, [str(second / "b")])
    outcome = run("undo", "b", "--yes", "--json", folder=second)
    assert (outcome.code, [each["path"] for each in outcome.json["files"]]) == (0, ["b"])
    assert (contents(first), contents(second)) == ({"a": b"a\n"}, {})


def test_a_run_over_two_roots_is_taken_back_from_the_second(pair: tuple[Path, Path]) -> None:
    first, second = pair
    outcome = run("undo", "--run", "r", "--yes", folder=second)
    assert outcome.code == 0, outcome.stderr
    assert (contents(first), contents(second)) == ({}, {})


def test_an_edit_is_taken_back_when_the_other_root_is_gone(pair: tuple[Path, Path]) -> None:
    first, second = pair
    (first / "a").unlink()
    first.rmdir()
    assert run("undo", "b", "--yes", folder=second).code == 0
    assert contents(second) == {}


def test_the_history_of_a_second_root_is_known_there_and_told_with_that_of_its_own(
    pair: tuple[Path, Path],
) -> None:
    _, second = pair
    own = opened(second)
    own.write("b", b"c\n", expected=own.read("b").version)
    own.close()
    writes = run("history", "b", "--json", folder=second).json["writes"]
    assert [(each["path"], each["change"]) for each in writes] == [("b", "edited"), ("b", "created")]
    for _ in range(2):  # the last edit first, whichever journal tells of it
        assert run("undo", "b", "--yes", folder=second).code == 0
    assert contents(second) == {}


def test_a_damaged_journal_of_another_project_is_in_nobodys_way(folder: Path) -> None:
    (folder.parent / ".local" / "state" / "kakite" / "history" / "other.sqlite").write_bytes(b"no" * 999)
    assert run("undo", "a", "--yes", folder=folder).code == 0


def test_a_file_without_edits_is_named_where_others_have_some(folder: Path) -> None:
    outcome = run("history", "nope", folder=folder)
    assert (outcome.code, outcome.stderr) == (0, "no edits of nope are kept\n")


@pytest.mark.parametrize("command", [["history"], ["undo", "x/y"], ["undo"]])
def test_a_root_that_is_not_there_is_wrong_usage(command: list[str], folder: Path) -> None:
    outcome = run(*command, "--root", str(folder / "nonexistent"), folder=folder)
    assert outcome.code == 2
    assert "/nonexistent` is not a folder" in outcome.stderr
    assert "view" not in outcome.stderr


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("a",), ["sub/b", "c"]),
        (("sub",), ["a", "c"]),
        (("--run", "r1"), ["c"]),
        (("--all",), []),
        (("nothing",), ["a", "sub/b", "c"]),
    ],
)
def test_edits_are_forgotten(words: tuple[str, ...], left: list[str], folder: Path) -> None:
    done = run("history", "forget", *words, "--yes", "--json", folder=folder)
    assert done.code == 0
    told = json.loads(done.stdout)
    assert (told["ok"], told["forgotten"]) == (True, 3 - len(left))
    writes = json.loads(run("history", "--json", folder=folder).stdout)["writes"]
    assert sorted(write["path"] for write in writes) == sorted(left)


@pytest.mark.parametrize("words", [(), ("a", "--all"), ("--run", "r1", "--all")])
def test_what_to_forget_has_to_be_said_once(words: tuple[str, ...], folder: Path) -> None:
    assert run("history", "forget", *words, "--yes", folder=folder).code == 2
    assert len(json.loads(run("history", "--json", folder=folder).stdout)["writes"]) == 3


def test_nothing_is_forgotten_without_a_yes(folder: Path) -> None:
    assert run("history", "forget", "--all", folder=folder).code == 2  # nobody can be asked
    assert len(json.loads(run("history", "show", "--json", folder=folder).stdout)["writes"]) == 3


@pytest.mark.parametrize(("days", "count"), [("31", 3), ("29", 0)])
def test_a_setting_says_how_long_edits_are_kept(days: str, count: int, folder: Path) -> None:
    for file in (folder.parent / ".local/state/kakite/history").glob("*.sqlite"):
        database = sqlite3.connect(file)
        database.execute("UPDATE entry SET time = time - 30 * 24 * 60 * 60")
        database.commit()
        database.close()
    settings = folder.parent / ".config/kakite/kakite.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"history_days: {days}\n", encoding="ascii")
    (folder / "kakite.yaml").write_text("history_days: 1\n", encoding="ascii")  # a repository's says nothing
    served = kakite("serve", "--root", ".", home=folder.parent, cwd=folder)  # its input is empty: it ends
    assert served.code == 0
    assert len(json.loads(run("history", "--json", folder=folder).stdout)["writes"]) == count
