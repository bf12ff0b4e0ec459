"""``kakite edit --accept``: what a refused reply suggested, applied by its id."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kakite.cli.suggestion_files import MAX_AGE_DAYS, MAX_COUNT, SuggestionFiles
from kakite.edit import Change, ChangeSet, EditFailure, SourceText
from kakite.edit.suggestions.model import BatchSuggestion, SuggestionGoneError, create_suggestion, refuse
from kakite.edit.types import FileChange, FilesResult
from tests.cli.program import Outcome, environment, kakite
from tests.cli.test_edit import block, edit

UTF16 = "a = 1\r\nb = 2\r\n".encode("utf-16")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    (place / "a.py").write_bytes(b"one\r\ntwo\n\xff three")
    (place / "b.py").write_bytes(UTF16)
    return place


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def kept(folder: Path, **more: str) -> SuggestionFiles:
    return SuggestionFiles(environment(folder.parent, **more), os.path.realpath(folder))


def near_miss(path: str, text: str, changes: ChangeSet) -> EditFailure:
    made = create_suggestion(text, changes)
    return EditFailure(index=0, code="near_miss", message="", hint="", path=path, suggestion=made)


def suggestion(folder: Path, **changed: tuple[str, str]) -> BatchSuggestion:
    """Return the suggestion to put one text in place of another, once in each of these files."""
    sources = {f"{name}.py": SourceText.from_bytes((folder / f"{name}.py").read_bytes()) for name in changed}
    failures: list[EditFailure] = []
    for name, (old, new) in changed.items():
        text = sources[f"{name}.py"].text
        start = text.index(old)
        changes = ChangeSet.of(len(text), [Change(start, start + len(old), new)])
        failures.append(near_miss(f"{name}.py", text, changes))
    (made,) = refuse(sources, FilesResult(files=(), failures=tuple(failures)), place=str(folder)).suggestions
    return made


def suggested(folder: Path, **changed: tuple[str, str]) -> str:
    made = suggestion(folder, **changed)
    assert kept(folder).add(made)
    return made.id


def accept(folder: Path, *arguments: str) -> Outcome:
    words = [each if each.startswith("-") else f"--accept={each}" for each in arguments]
    return kakite("edit", *words, home=folder.parent, cwd=folder)


def test_what_was_suggested_lands_in_all_files_and_can_be_undone(folder: Path) -> None:
    before = contents(folder)
    identity = suggested(folder, a=("two", "2"), b=("b = 2", "b = 3"))
    outcome = accept(folder, identity)
    assert outcome.code == 0, outcome.stderr
    assert contents(folder) == {
        "a.py": b"one\r\n2\n\xff three",
        "b.py": "a = 1\r\nb = 3\r\n".encode("utf-16"),
    }
    for name in ("a.py", "b.py"):
        assert kakite("undo", name, "--yes", home=folder.parent, cwd=folder).code == 0
    assert contents(folder) == before


def test_a_suggestion_is_accepted_once(folder: Path) -> None:
    identity = suggested(folder, a=("two", "2"))
    assert accept(folder, identity).code == 0
    (folder / "a.py").write_bytes(b"one\r\ntwo\n\xff three")
    outcome = accept(folder, identity, "--json")
    assert (outcome.code, outcome.json["failures"][0]["code"]) == (1, "suggestion_gone")
    assert b"two" in contents(folder)["a.py"]


def test_it_is_gone_once_a_file_changed_and_nothing_is_written(folder: Path) -> None:
    identity = suggested(folder, a=("two", "2"), b=("b = 2", "b = 3"))
    (folder / "b.py").write_bytes(UTF16 + "c".encode("utf-16-le"))
    before = contents(folder)
    outcome = accept(folder, identity, "--json")
    assert (outcome.code, outcome.json["failures"][0]["code"]) == (1, "suggestion_gone")
    assert contents(folder) == before
    (folder / "b.py").write_bytes(UTF16)
    assert accept(folder, identity).code == 0


def test_it_is_gone_once_a_file_is(folder: Path) -> None:
    identity = suggested(folder, a=("two", "2"))
    (folder / "a.py").unlink()
    assert accept(folder, identity, "--json").json["failures"][0]["code"] == "suggestion_gone"


@pytest.mark.parametrize("identity", ["0123456789", "../../x", "x" * 5000, "é"])
def test_an_id_that_nobody_knows_is_refused(folder: Path, identity: str) -> None:
    before = contents(folder)
    outcome = accept(folder, identity, "--json")
    assert (outcome.code, outcome.json["failures"][0]["code"]) == (1, "suggestion_gone")
    assert contents(folder) == before


def test_several_are_accepted_together_or_not_at_all(folder: Path) -> None:
    before = contents(folder)
    one, two, other = (
        suggested(folder, a=("two", "2")),
        suggested(folder, a=("three", "3"), b=("b = 2", "b = 3")),
        suggested(folder, a=("two\n", "II\n")),
    )
    assert accept(folder, one, "0123456789").code == 1
    collided = accept(folder, one, two, other, "--json")
    assert (collided.code, collided.json["failures"][0]["code"]) == (1, "overlap")
    assert contents(folder) == before
    outcome = accept(folder, one, two, one)
    assert outcome.code == 0, outcome.stderr
    assert contents(folder)["a.py"] == b"one\r\n2\n\xff 3"
    assert contents(folder)["b.py"] == "a = 1\r\nb = 3\r\n".encode("utf-16")


def test_a_check_writes_nothing_and_leaves_it_to_be_accepted(folder: Path) -> None:
    before = contents(folder)
    identity = suggested(folder, a=("two", "2"))
    outcome = accept(folder, identity, "--check", "--diff")
    assert outcome.code == 0, outcome.stderr
    assert "-two\n+2\n" in outcome.stdout
    assert contents(folder) == before
    document = accept(folder, identity, "--json").json
    assert (document["ok"], document["written"], document["failures"]) == (True, True, [])
    (file,) = document["files"]
    assert (file["path"], file["change"], file["applied"]) == ("a.py", "edited", [])
    assert "-two\n+2\n" in file["diff"]


def test_files_come_go_and_move_as_the_reply_said(folder: Path) -> None:
    sources = {name: SourceText.from_bytes(data) for name, data in contents(folder).items()}
    text = sources["a.py"].text
    changes = ChangeSet.of(len(text), [Change(0, 3, "1")])
    result = FilesResult(
        files=(
            FileChange(path="new/c.py", before=None, after=SourceText("new\n")),
            FileChange(path="b.py", before=sources["b.py"], after=sources["b.py"], to="d.py"),
        ),
        failures=(near_miss("a.py", text, changes),),
    )
    (made,) = refuse(sources, result).suggestions
    assert kept(folder).add(made)
    outcome = accept(folder, made.id)
    assert outcome.code == 0, outcome.stderr
    assert contents(folder) == {"a.py": b"1\r\ntwo\n\xff three", "d.py": UTF16}
    assert (folder / "new" / "c.py").read_bytes() == b"new\n"


def test_a_file_that_nobody_may_write_is_left_alone(folder: Path) -> None:
    identity = suggested(folder, a=("two", "2"))
    (folder / "a.py").chmod(0o444)
    outcome = accept(folder, identity, "--json")
    assert (outcome.code, outcome.json["failures"][0]["code"]) == (1, "write_denied")


def test_it_holds_for_its_own_folder_alone(folder: Path) -> None:
    identity = suggested(folder, a=("two", "2"))
    copy = folder.parent / "copy"
    copy.mkdir()
    (copy / "a.py").write_bytes(contents(folder)["a.py"])
    outcome = accept(copy, identity, "--json")
    assert (outcome.code, outcome.json["failures"][0]["code"]) == (1, "suggestion_gone")
    assert b"two" in contents(copy)["a.py"]


@pytest.mark.parametrize("other", [("a.py",), ("--jsonl",), ("--partial",)])
def test_it_takes_no_reply(folder: Path, other: tuple[str, ...]) -> None:
    identity = suggested(folder, a=("two", "2"))
    done = kakite("edit", "--accept", identity, *other, home=folder.parent, cwd=folder)
    assert done.code == 2
    assert b"two" in contents(folder)["a.py"]


def test_nobody_else_may_read_what_is_kept_and_it_does_not_stay_for_ever(folder: Path) -> None:
    identity = suggested(folder, a=("two", "2"))
    place = folder.parent / ".local" / "state" / "kakite" / "suggestions"
    (file,) = place.iterdir()
    assert (place.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert kept(folder).find(identity).id == identity
    old = file.stat().st_mtime - MAX_AGE_DAYS * 24 * 60 * 60 - 60
    os.utime(file, (old, old))
    with pytest.raises(SuggestionGoneError):
        kept(folder).find(identity)
    assert list(place.iterdir()) == []


def test_the_latest_are_kept_and_no_more_than_so_many(folder: Path) -> None:
    files = kept(folder)
    made = suggestion(folder, a=("two", "2"))
    place = folder.parent / ".local" / "state" / "kakite" / "suggestions"
    for number in range(MAX_COUNT + 5):
        one = BatchSuggestion(id=f"{number:010x}", files=made.files)
        assert files.add(one)
    assert len(list(place.iterdir())) == MAX_COUNT
    assert files.find(f"{MAX_COUNT + 4:010x}").files == made.files


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"root": 1}', b"\xff", b'{"root": "", "suggestion": {}}']
)
def test_a_damaged_file_is_no_suggestion(folder: Path, data: bytes) -> None:
    identity = suggested(folder, a=("two", "2"))
    (folder.parent / ".local" / "state" / "kakite" / "suggestions" / f"{identity}.json").write_bytes(data)
    with pytest.raises(SuggestionGoneError):
        kept(folder).find(identity)


def test_where_nothing_can_be_kept_nothing_is_said_to_be(folder: Path) -> None:
    (folder.parent / "file").write_text("", encoding="utf-8")
    made = suggestion(folder, a=("two", "2"))
    files = kept(folder, XDG_STATE_HOME=str(folder.parent / "file"))
    assert not files.add(made)
    with pytest.raises(SuggestionGoneError):
        files.find(made.id)


NOTED = b"def f():\r\n    # a note\r\n    return 1\r\n"
STALE = "def f():\n    return 1", "def f():\n    return 2"
"""Leaves out the comment, so that it is refused, and it is clear what it means."""


@pytest.fixture
def noted(folder: Path) -> Path:
    (folder / "f.py").write_bytes(NOTED)
    return folder


def test_a_reply_that_is_refused_suggests_what_it_meant_and_that_lands_whole(noted: Path) -> None:
    before = contents(noted)
    reply = block(*STALE, "f.py") + block("b = 2", "b = 3", "b.py") + block("", "new", "new.py")
    refused = edit(reply=reply, folder=noted)
    assert refused.code == 1
    assert contents(noted) == before
    assert "-    return 1" in refused.stderr
    (identity,) = {line.split()[-1] for line in refused.stderr.splitlines() if "--accept" in line}
    outcome = accept(noted, identity)
    assert outcome.code == 0, outcome.stderr
    assert "\nundo it: kakite undo --run " in outcome.stderr
    after = {
        "f.py": NOTED.replace(b"1", b"2"),
        "b.py": "a = 1\r\nb = 3\r\n".encode("utf-16"),
        "new.py": b"new\n",
    }
    assert contents(noted) == before | after


def test_after_a_part_was_applied_the_rest_is_suggested_for_what_is_there_then(noted: Path) -> None:
    (noted / "f.py").write_bytes(b"import os\r\n" + NOTED)
    reply = block("import os", "import io", "f.py") + block(*STALE, "f.py")
    refused = edit("--partial", "--json", reply=reply, folder=noted)
    assert (refused.code, refused.json["written"]) == (1, True)
    (failure,) = refused.json["failures"]
    assert set(failure["suggestion"]) == {"id", "line", "diff"}
    outcome = accept(noted, failure["suggestion"]["id"])
    assert outcome.code == 0, outcome.stderr
    assert contents(noted)["f.py"] == b"import io\r\n" + NOTED.replace(b"1", b"2")


def test_a_check_that_fails_suggests_too(noted: Path) -> None:
    refused = edit("--check", "--json", "--partial", reply=block(*STALE, "f.py"), folder=noted)
    assert contents(noted)["f.py"] == NOTED
    assert accept(noted, refused.json["failures"][0]["suggestion"]["id"]).code == 0
    assert contents(noted)["f.py"] == NOTED.replace(b"1", b"2")


def test_where_the_reply_would_also_create_another_file_nothing_is_suggested(noted: Path) -> None:
    reply = block(*STALE, "f.py") + block("", "new", "new.py")
    refused = edit("f.py", "--json", reply=reply, folder=noted)
    assert [failure["code"] for failure in refused.json["failures"]] == ["near_miss", "bad_path"]
    assert not any("suggestion" in failure for failure in refused.json["failures"])
