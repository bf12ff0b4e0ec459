"""What follows an edit: the person's formatter and linter, in the same step, and whether the file parses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import TIMES_OUT
from tests.tools.conftest import Desk

from kakite.tools import AfterEditCommand, open_toolset, parse_after_edit_commands
from kakite.workspace import Workspace

RUFF = Path(sys.executable).with_name("ruff")
FORMAT = f"{RUFF} format --no-cache --quiet {{file}}"
LINT = f"{RUFF} check --no-cache --quiet --output-format concise {{file}}"
PYTHON = f"{sys.executable} -c"

Making = Callable[..., Desk]

pytestmark = pytest.mark.anyio


@pytest.fixture
def desk_with(tmp_path: Path) -> Iterator[Making]:
    opened: list[Workspace] = []

    def make(commands: Mapping[str, Sequence[str]]) -> Desk:
        folder = tmp_path / "root"
        folder.mkdir(exist_ok=True)
        workspace = Workspace([folder])
        opened.append(workspace)
        toolset = open_toolset(workspace, ["editor", "files"], after_edit=parse_after_edit_commands(commands))
        return Desk(folder, toolset, workspace)

    yield make
    for workspace in opened:
        workspace.close()


async def test_a_formatter_and_the_edit_are_one_step(desk_with: Making) -> None:
    desk = desk_with({"*.py": [FORMAT]})
    desk.write("a.py", b"x = 1\ny = 2\n")
    result = await desk.call(
        "text_editor", command="str_replace", path="a.py", old_str="x = 1", new_str="x=[ 3,4 ]"
    )
    assert not result.is_error
    assert desk.read("a.py") == b"x = [3, 4]\ny = 2\n"
    assert "+x = [3, 4]" in result.details["diff"]
    assert "-x = 1" in result.details["diff"]
    assert "x=[ 3,4 ]" not in result.details["diff"]
    assert "after_edit" not in result.details
    await desk.done("text_editor", command="undo_edit", path="a.py")
    assert desk.read("a.py") == b"x = 1\ny = 2\n"


async def test_edits_before_and_behind_a_formatted_one_are_undone_one_by_one(desk_with: Making) -> None:
    desk = desk_with({"*.py": [FORMAT]})
    contents = [b"x = 1\n"]
    desk.write("a.py", contents[0])
    for old, new in [("x = 1", "x=2"), ("x = 2", "x =   3\ny=4"), ("y = 4", "y = 5")]:
        await desk.done("text_editor", command="str_replace", path="a.py", old_str=old, new_str=new)
        contents.append(desk.read("a.py"))
    assert contents[-1] == b"x = 3\ny = 5\n"
    for content in reversed(contents[:-1]):
        await desk.done("text_editor", command="undo_edit", path="a.py")
        assert desk.read("a.py") == content


async def test_a_new_file_is_formatted_and_undone_too(desk_with: Making) -> None:
    desk = desk_with({"/src/**/*.py": [FORMAT]})
    await desk.done("write_files", path=["src/a/b.py", "c.py"], content=["x=1\n", "x=1\n"], line_count=[1, 1])
    assert (desk.read("src/a/b.py"), desk.read("c.py")) == (b"x = 1\n", b"x=1\n")
    await desk.done("text_editor", command="undo_edit", path="src/a/b.py")
    assert not (desk.folder / "src").exists()


async def test_what_a_linter_finds_is_in_the_answer(desk_with: Making) -> None:
    desk = desk_with({"*.py": [FORMAT, LINT]})
    desk.write("a.py", b"x = 1\n")
    result = await desk.call(
        "text_editor", command="str_replace", path="a.py", old_str="x = 1", new_str="import os"
    )
    assert not result.is_error
    (finding,) = result.details["after_edit"]
    assert finding["exit_code"] == 1
    assert finding["path"] == "a.py"
    assert "F401" in finding["output"]
    assert "F401" in result.text
    assert desk.read("a.py") == b"import os\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"{RUFF} format --no-cache --no-such-option {{file}}", 2),
        ("/nowhere/formatter {file}", None),
        (f"{PYTHON} 'import os; os.kill(os.getpid(), 9)' {{file}}", 137),
    ],
    ids=["fails", "missing", "killed"],
)
async def test_a_formatter_that_fails_loses_no_edit(
    desk_with: Making, command: str, code: int | None
) -> None:
    desk = desk_with({"*.py": [command]})
    desk.write("a.py", b"x = 1\n")
    result = await desk.call("text_editor", command="str_replace", path="a.py", old_str="1", new_str="2")
    assert not result.is_error
    assert desk.read("a.py") == b"x = 2\n"
    assert [each["exit_code"] for each in result.details["after_edit"]] == [code]
    await desk.done("text_editor", command="undo_edit", path="a.py")
    assert desk.read("a.py") == b"x = 1\n"


async def test_a_command_that_does_not_end_is_stopped(
    desk_with: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = desk_with({"*.py": [f"{PYTHON} 'import time; print(1, flush=True); time.sleep(999)' {{file}}"]})
    for seconds in TIMES_OUT:
        monkeypatch.setattr("kakite.tools.after_write.MAX_COMMAND", seconds)
        result = await desk.call("text_editor", command="create", path=f"{seconds}.py", file_text="x = 2\n")
        (finding,) = result.details["after_edit"]
        assert finding["exit_code"] is None
        assert desk.read(f"{seconds}.py") == b"x = 2\n"
        if finding["output"].startswith("1"):
            return
    pytest.fail("it never began")


async def test_long_output_is_cut(desk_with: Making) -> None:
    desk = desk_with({"*.py": [f"{PYTHON} 'print(\"a\" * 10**6)' {{file}}"]})
    result = await desk.call("text_editor", command="create", path="a.py", file_text="x = 1\n")
    (finding,) = result.details["after_edit"]
    assert len(finding["output"]) < 5000
    assert finding["exit_code"] == 0


async def test_commands_get_no_key_and_the_path_as_one_word(
    desk_with: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sesame")
    script = "import os, sys; print(sorted(os.environ), sys.argv[1:], os.getcwd())"
    desk = desk_with({"*.py": [f"{PYTHON} '{script}' {{file}} x"]})
    name = "a b;$(touch c) 'd'.py"
    result = await desk.call("text_editor", command="create", path=name, file_text="x = 1\n")
    output = result.details["after_edit"][0]["output"]
    assert "ANTHROPIC" not in output
    assert repr([str(desk.folder / name), "x"]) in output
    assert str(desk.folder) in output.rpartition("]")[2]
    assert sorted(desk.content()) == [name]


async def test_a_file_that_a_command_removes_or_spoils_is_told(desk_with: Making) -> None:
    desk = desk_with(
        {
            "a.py": ["rm {file}"],
            "b.py": [f"{PYTHON} 'import sys; open(sys.argv[1], \"wb\").write(bytes(9))' {{file}}"],
        }
    )
    for name in ("a.py", "b.py"):
        result = await desk.call("text_editor", command="create", path=name, file_text="x = 1\n")
        assert not result.is_error
        assert name in result.text.split("\n", 2)[-1]
    await desk.done("text_editor", command="undo_edit", path="b.py")
    assert not (desk.folder / "b.py").exists()


async def test_a_preview_runs_nothing(desk_with: Making) -> None:
    desk = desk_with({"*": ["touch {file}.ran"]})
    desk.write("a.py", b"x = 1\n")
    await desk.done("text_editor", command="str_replace", path="a.py", old_str="1", new_str="2", preview=True)
    await desk.refused("text_editor", command="str_replace", path="a.py", old_str="7", new_str="2")
    assert sorted(desk.content()) == ["a.py"]
    await desk.done("text_editor", command="str_replace", path="a.py", old_str="1", new_str="2")
    assert sorted(desk.content()) == ["a.py", "a.py.ran"]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "b.pyi", False),
        ("/a/*.py", "a/b.py", True),
        ("/a/*.py", "c/a/b.py", False),
        ("web/**/*.ts", "web/x/y/z.ts", True),
        ("*", "any", True),
    ],
)
def test_patterns_are_those_of_gitignore(pattern: str, path: str, expected: bool) -> None:
    assert AfterEditCommand.of(pattern, "true {file}").matches(path) is expected


@pytest.mark.parametrize("command", ["", "  ", "ruff format", "{file}", "ruff 'format {file}"])
def test_a_command_without_the_file_is_none(command: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # settings name the field
        AfterEditCommand.of("*.py", command)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("text_editor", {"command": "str_replace", "old_str": "f(1)", "new_str": "f(1"}),
        ("text_editor", {"command": "insert", "insert_line": 1, "insert_text": "g("}),
        ("text_editor", {"command": "create", "file_text": "f(\n", "overwrite": True}),
        ("apply_diffs", {"search_content": "f(1)", "replace_content": "f(1", "start_line": 1}),
        ("write_files", {"content": "f(\n", "line_count": 1}),
        ("insert_contents", {"content": "g(", "line": 1}),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_an_edit_that_breaks_a_file_is_told_by_every_tool(
    desk: Desk, tool: str, arguments: dict[str, Any]
) -> None:
    desk.write("a.py", b"f(1)\nh()\n")
    await desk.done("text_editor", command="view", path="a.py")
    preview = await desk.call(tool, path="a.py", **arguments, preview=True)
    result = await desk.call(tool, path="a.py", **arguments)
    for answer in (preview, result):
        assert not answer.is_error
        (problem,) = answer.details["syntax"]
        assert (problem["path"], problem["language"]) == ("a.py", "Python")
        assert problem["line"] in {1, 2}
        assert f"line {problem['line']} " in answer.text
    assert b"(" in desk.read("a.py")
    again = await desk.call("text_editor", command="str_replace", path="a.py", old_str="h()", new_str="i()")
    assert "syntax" not in again.details


async def test_a_formatter_may_mend_what_did_not_parse(desk_with: Making) -> None:
    script = (
        'import sys; text = open(sys.argv[1]).read(); open(sys.argv[1], "w").write(text.replace("(", "()"))'
    )
    desk = desk_with({"*.py": [f"{PYTHON} '{script}' {{file}}"]})
    result = await desk.call("text_editor", command="create", path="a.py", file_text="f(\n")
    assert desk.read("a.py") == b"f()\n"
    assert "syntax" not in result.details
