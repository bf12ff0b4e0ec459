"""Runs every scenario folder through the library, and, where its form allows, through the other faces.

These are ``kakite edit FILE…``, the JSON lines for what is about one file, and over MCP the tools: one edit
is a ``str_replace`` of ``text_editor``, several are its ``edit``, and a patch is an ``apply_patch``.

A folder holds ``about.txt`` (what it shows), ``input/``, ``edits.json`` (a list of edits) or ``reply.txt``
(a model's reply), and perhaps ``settings.json`` (fields of ``kakite.edit.MatchOptions``, for the library
alone). Then ``expected/`` with all files as they are afterwards, and perhaps ``match.json`` with the rung
of the first edit; or ``failure.json`` with the index, code and perhaps line of every failure.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from kakite.cli.app import app
from kakite.edit import (
    CreateFile,
    Edit,
    EditError,
    FormatError,
    MatchOptions,
    Operation,
    apply_to_files,
    parse,
)
from kakite.edit.jsonl_protocol import answer_line
from kakite.serve import build_server
from kakite.tools import EditorOptions, open_toolset
from kakite.workspace import Workspace

ROOT = Path(__file__).parent
SETTINGS = "settings.json"
FOLDERS = sorted(path for path in ROOT.iterdir() if path.is_dir() and path.name[0].isdigit())


def files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def operations(folder: Path) -> tuple[Operation, ...]:
    if (folder / "reply.txt").exists():
        return parse((folder / "reply.txt").read_bytes().decode())
    return tuple(Edit(**edit) for edit in read_json(folder / "edits.json"))


def settings(folder: Path) -> MatchOptions:
    return MatchOptions(**read_json(folder / SETTINGS)) if (folder / SETTINGS).exists() else MatchOptions()


def outcome(folder: Path, before: dict[str, bytes]) -> tuple[dict[str, bytes], list[dict[str, Any]], str]:
    """Return the files afterwards, the failures, and the rung of the first edit."""
    try:
        result = apply_to_files(before, operations(folder), settings=settings(folder))
    except EditError as error:
        failures = [{"index": one.index, "code": one.code, "line": one.line} for one in error.failures]
        return before, failures, ""
    except FormatError as error:
        return before, [{"index": -1, "code": error.code, "line": 0}], ""
    after = dict(before)
    levels: list[str] = []
    for change in result.files:
        after.pop(change.path, None)
        if change.after is not None:
            after[change.to or change.path] = change.after.to_bytes()
        if change.result is not None:
            levels += [match.level for match in change.result.matches]
    return after, [], levels[0] if levels else ""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_library_does_what_the_folder_says(folder: Path) -> None:
    before = files(folder / "input")
    after, failures, level = outcome(folder, before)
    if (folder / "failure.json").exists():
        expected = read_json(folder / "failure.json")
        shown = [
            {name: one[name] for name in wanted} for one, wanted in zip(failures, expected, strict=False)
        ]
        assert shown == expected, failures
        assert len(failures) == len(expected)
        return
    assert failures == []
    assert after == files(folder / "expected")
    if (folder / "match.json").exists():
        assert level == read_json(folder / "match.json")["match"]


def reply_of(folder: Path) -> bytes:
    if (folder / "reply.txt").exists():
        return (folder / "reply.txt").read_bytes()
    return json.dumps(read_json(folder / "edits.json")).encode()


def is_a_reply(folder: Path) -> bool:
    """Tell whether the scenario is a reply, or can be written as one in JSON."""
    if (folder / SETTINGS).exists():
        return False
    if (folder / "reply.txt").exists():
        return True
    edits = read_json(folder / "edits.json")
    return bool(edits) and all(set(edit) <= {"search", "replace", "line", "all", "path"} for edit in edits)


def write_files(root: Path, contents: dict[str, bytes]) -> None:
    for path, data in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


REPLIES = [folder for folder in FOLDERS if is_a_reply(folder)]


@pytest.mark.parametrize("folder", REPLIES, ids=lambda folder: folder.name)
def test_the_command_does_what_the_folder_says(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, expected = files(folder / "input"), folder / "expected"
    after = files(expected) if expected.exists() else before
    write_files(tmp_path, before)
    monkeypatch.chdir(tmp_path)
    names = [*(before | after), *created_by(folder)]
    done = CliRunner().invoke(app, ["edit", "--json", *dict.fromkeys(names)], input=reply_of(folder))
    assert files(tmp_path) == after
    answer = json.loads(done.stdout)
    if (folder / "failure.json").exists():
        assert not answer["ok"]
        found = [(one["index"], one["code"]) for one in answer["failures"]]
        assert found == [(one["index"], one["code"]) for one in read_json(folder / "failure.json")]
        return
    assert answer["ok"], answer
    assert done.exit_code == 0


def created_by(folder: Path) -> list[str]:
    try:
        return [one.path for one in operations(folder) if isinstance(one, CreateFile) and one.path]
    except FormatError:
        return []


def is_about_one_file(folder: Path) -> bool:
    before, expected = files(folder / "input"), folder / "expected"
    after = files(expected) if expected.exists() else before
    if (
        (folder / SETTINGS).exists()
        or len(before) != 1
        or list(before) != list(after)
        or "path" in folder.name
    ):
        return False
    try:
        return all(
            isinstance(one, Edit) and (not one.path or one.path in before) for one in operations(folder)
        )
    except FormatError:
        return True


SINGLE = [folder for folder in FOLDERS if is_about_one_file(folder)]


@pytest.mark.parametrize("folder", SINGLE, ids=lambda folder: folder.name)
def test_the_json_lines_do_what_the_folder_says(folder: Path) -> None:
    [data] = files(folder / "input").values()
    request: dict[str, Any] = {"id": folder.name, "text_b64": base64.b64encode(data).decode()}
    if (folder / "reply.txt").exists():
        request["reply"] = (folder / "reply.txt").read_bytes().decode()
    else:
        request["edits"] = read_json(folder / "edits.json")
    answer = json.loads(answer_line(json.dumps(request)))
    assert answer["id"] == folder.name
    if (folder / "failure.json").exists():
        found = [(one["index"], one["code"]) for one in answer["failures"]]
        assert found == [(one["index"], one["code"]) for one in read_json(folder / "failure.json")]
        return
    [expected] = files(folder / "expected").values()
    assert answer["ok"], answer
    assert base64.b64decode(answer["text_b64"]) == expected


BY_LINE = "tools that quote text take no line"
LIBRARY_ONLY = "the settings are the library's alone"
WITHOUT_TOOL = {
    "049_nul_bytes": "tools refuse binary files",
    "149_line_picks": BY_LINE,
    "150_line_off_by_a_few": BY_LINE,
    "151_line_in_the_middle": BY_LINE,
    "152_line_far_off_unique": BY_LINE,
    "153_line_out_of_range": BY_LINE,
    "312_line_names_no_place": BY_LINE,
    "313_line_names_one_place": BY_LINE,
    "207_settings_indentation_kept": LIBRARY_ONLY,
    "208_settings_indentation_strict": LIBRARY_ONLY,
    "209_settings_numbers_stripped": LIBRARY_ONLY,
    "210_settings_numbers_meant": LIBRARY_ONLY,
}
"""The scenarios that no tool can be asked for, and why not; so it is with replies that are no patches."""
CODES = {"bad_path": "path_escapes", "file_missing": "file_not_found"}
"""What the tools call the engine's refusals of paths: they have a folder."""


def is_patch(folder: Path) -> bool:
    reply = folder / "reply.txt"
    return reply.exists() and reply.read_bytes().startswith(b"*** Begin Patch")


def is_for_tools(folder: Path) -> bool:
    return folder.name not in WITHOUT_TOOL and (is_patch(folder) or not (folder / "reply.txt").exists())


def to_call(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the tool that a scenario asks for, and with which arguments."""
    if is_patch(folder):
        return "apply_patch", {"patch": (folder / "reply.txt").read_bytes().decode()}
    first = next(iter(files(folder / "input")))
    names = {"search": "old_str", "replace": "new_str", "all": "replace_all", "path": "path"}
    edits = [{names[key]: value for key, value in edit.items()} for edit in read_json(folder / "edits.json")]
    if len(edits) == 1:
        return "text_editor", {"command": "str_replace", "path": first, **edits[0]}
    return "text_editor", {"command": "edit", "path": first, "edits": edits}


FOR_TOOLS = [folder for folder in FOLDERS if is_for_tools(folder)]


@pytest.mark.anyio
@pytest.mark.parametrize("folder", FOR_TOOLS, ids=lambda folder: folder.name)
async def test_the_tools_over_mcp_do_what_the_folder_says(folder: Path, tmp_path: Path) -> None:
    before, expected = files(folder / "input"), folder / "expected"
    write_files(tmp_path, before)
    tool, arguments = to_call(folder)
    options = EditorOptions(format="patch" if is_patch(folder) else "quote")
    async with Client(build_server(open_toolset(Workspace([tmp_path]), editor=options))) as client:
        result = await client.call_tool(tool, arguments)
    assert files(tmp_path) == (files(expected) if expected.exists() else before)
    code = read_json(folder / "failure.json")[0]["code"] if (folder / "failure.json").exists() else ""
    found = (result.meta or {}).get("kakite/code", "")
    assert (result.is_error, found) == (bool(code), CODES.get(code, code)), result.content


def test_only_what_has_no_tool_is_left_out() -> None:
    edits = {folder.name: folder / "edits.json" for folder in FOLDERS if (folder / "edits.json").exists()}
    by_line = {name for name, file in edits.items() if any("line" in edit for edit in read_json(file))}
    library = {folder.name for folder in FOLDERS if (folder / SETTINGS).exists()}
    assert {name for name, why in WITHOUT_TOOL.items() if why == BY_LINE} == by_line
    assert {name for name, why in WITHOUT_TOOL.items() if why == LIBRARY_ONLY} == library
    assert WITHOUT_TOOL.keys() - by_line - library == {"049_nul_bytes"}


def test_there_are_many_scenarios_and_each_says_what_it_is_about() -> None:
    assert len(FOLDERS) >= 150
    assert all((folder / "about.txt").read_text(encoding="utf-8").strip() for folder in FOLDERS)
