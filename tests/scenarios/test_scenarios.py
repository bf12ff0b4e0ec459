"""Runs every scenario folder through the library, and, where its form allows, through the other faces.

These are ``kakite edit FILE…``, the JSON lines for what is about one file, and over MCP the tools: one edit
is a ``str_replace`` of ``text_editor``, several are its ``edit``, and a patch is an ``apply_patch``.

A folder holds ``about.txt`` (what it shows), ``input/``, ``edits.json`` (a list of edits) or ``reply.txt``
(a model's reply), and perhaps ``settings.json`` (fields of ``kakite.edit.MatchOptions``, for the library
alone). Then ``expected/`` with all files as they are afterwards, and perhaps ``match.json`` with the rung
of the first edit; or ``failure.json`` with the index, code and perhaps line of every failure.

What only some faces have stands in files of its own: ``syntax.json`` (what does not parse any more),
``after_edit.json`` (the person's commands, by file patterns; one undo leads back to ``input/``), and
``links.json`` (which files are further names of which). A folder with ``calls.json`` instead of edits is for
the tools alone: a list of calls, each with the code of its refusal and what its answer says, and of what
somebody else writes between them (``{"write": {path: text}}``).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from typer.testing import CliRunner, Result

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
from kakite.tools import EditorOptions, open_toolset, parse_after_edit_commands
from kakite.tools.editor.edit_formats import EditFormat
from kakite.workspace import Workspace

ROOT = Path(__file__).parent
SETTINGS, AFTER_EDIT, LINKS, CALLS = "settings.json", "after_edit.json", "links.json", "calls.json"
ALL = sorted(path for path in ROOT.iterdir() if path.is_dir() and path.name[0].isdigit())
FOLDERS = [folder for folder in ALL if not (folder / CALLS).exists()]
CALLED = [folder for folder in ALL if (folder / CALLS).exists()]
FOR_ENGINE = [folder for folder in FOLDERS if not (folder / AFTER_EDIT).exists()]


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


@pytest.mark.parametrize("folder", FOR_ENGINE, ids=lambda folder: folder.name)
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


def set_up(folder: Path, place: Path) -> dict[str, bytes]:
    """Write a scenario's files to another folder, and return them."""
    before = files(folder / "input")
    write_files(place, before)
    for name, other in optional(folder / LINKS, {}).items():
        (place / name).unlink()
        os.link(place / other, place / name)
    return before


def optional(path: Path, otherwise: Any) -> Any:
    return read_json(path) if path.exists() else otherwise


def warnings(folder: Path, found: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return what was found not to parse, and what the scenario says of it."""
    wanted = optional(folder / "syntax.json", [])
    return [{name: each[name] for name in ("path", "line", "language")} for each in found], wanted


REPLIES = [folder for folder in FOLDERS if is_a_reply(folder)]


@pytest.mark.parametrize("folder", REPLIES, ids=lambda folder: folder.name)
def test_the_command_does_what_the_folder_says(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, expected = set_up(folder, tmp_path), folder / "expected"
    after = files(expected) if expected.exists() else before
    monkeypatch.chdir(tmp_path)
    if (folder / AFTER_EDIT).exists():
        monkeypatch.setenv("KAKITE_AFTER_EDIT", json.dumps(read_json(folder / AFTER_EDIT)))
    names = dict.fromkeys([*(before | after), *created_by(folder)])
    if (folder / LINKS).exists():
        checked = run_command("edit", "--check", *names, reply=reply_of(folder))
        assert all(f"{name} has 1 other name" in checked.stderr for name in linked(folder))
        assert files(tmp_path) == before
    done = run_command("edit", "--json", *names, reply=reply_of(folder))
    assert files(tmp_path) == after
    answer = json.loads(done.stdout)
    if (folder / "failure.json").exists():
        assert not answer["ok"]
        found = [(one["index"], one["code"]) for one in answer["failures"]]
        assert found == [(one["index"], one["code"]) for one in read_json(folder / "failure.json")]
        return
    assert answer["ok"], answer
    assert done.exit_code == 0
    found, wanted = warnings(folder, answer["syntax"])
    assert found == wanted
    if (folder / AFTER_EDIT).exists():
        assert run_command("undo", "--yes", next(iter(names))).exit_code == 0
        assert files(tmp_path) == before


def run_command(*arguments: str, reply: bytes = b"") -> Result:
    return CliRunner().invoke(app, [*arguments], input=reply)


def linked(folder: Path) -> set[str]:
    """Return the files that have another name."""
    return set(optional(folder / LINKS, {}).values())


def created_by(folder: Path) -> list[str]:
    try:
        return [one.path for one in operations(folder) if isinstance(one, CreateFile) and one.path]
    except FormatError:
        return []


def is_about_one_file(folder: Path) -> bool:
    before, expected = files(folder / "input"), folder / "expected"
    after = files(expected) if expected.exists() else before
    if (
        folder not in FOR_ENGINE
        or (folder / SETTINGS).exists()
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
BINARY = "tools refuse binary files"
REPLY = "tools are called: of replies they take the patches of codex alone"
LIBRARY_ONLY = "the settings are the library's alone"
WITHOUT_TOOL = {
    "049_nul_bytes": BINARY,
    "149_line_picks": BY_LINE,
    "150_line_off_by_a_few": BY_LINE,
    "151_line_in_the_middle": BY_LINE,
    "152_line_far_off_unique": BY_LINE,
    "153_line_out_of_range": BY_LINE,
    "312_line_names_no_place": BY_LINE,
    "313_line_names_one_place": BY_LINE,
    "172_reply_aider": REPLY,
    "173_reply_aider_two_blocks": REPLY,
    "174_reply_five_markers": REPLY,
    "175_reply_cline": REPLY,
    "176_reply_roo": REPLY,
    "177_reply_escaped_markers": REPLY,
    "178_reply_unescaped_marker": REPLY,
    "179_reply_unfinished": REPLY,
    "180_reply_without_edits": REPLY,
    "181_reply_new_file": REPLY,
    "182_reply_new_file_exists": REPLY,
    "183_reply_deletion": REPLY,
    "184_reply_seed_json": REPLY,
    "185_reply_seed_json_far_line": REPLY,
    "186_reply_old_str": REPLY,
    "187_reply_broken_json": REPLY,
    "188_reply_udiff": REPLY,
    "189_reply_udiff_scope": REPLY,
    "190_reply_udiff_lost_blank": REPLY,
    "191_reply_udiff_new_and_gone": REPLY,
    "192_reply_udiff_two_hunks": REPLY,
    "201_reply_path_outside": REPLY,
    "202_reply_crlf": REPLY,
    "305_suggested_over_files": REPLY,
    "324_reply_stale_block": REPLY,
    "357_reply_udiff_number": REPLY,
    "358_reply_udiff_no_line_end": REPLY,
    "359_reply_one_line_without_indentation": REPLY,
    "343_reply_tool_calls": REPLY,
    "344_reply_invoke": REPLY,
    "345_reply_call_of_another_tool": REPLY,
    "207_settings_indentation_kept": LIBRARY_ONLY,
    "208_settings_indentation_strict": LIBRARY_ONLY,
    "209_settings_numbers_stripped": LIBRARY_ONLY,
    "210_settings_numbers_meant": LIBRARY_ONLY,
}
"""The scenarios that no tool can be asked for, and why not."""
CODES = {"bad_path": "path_escapes", "file_missing": "file_not_found"}
"""What the tools call the engine's refusals of paths: they have a folder."""


def is_patch(folder: Path) -> bool:
    reply = folder / "reply.txt"
    return reply.exists() and reply.read_bytes().startswith(b"*** Begin Patch")


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


FOR_TOOLS = [folder for folder in FOLDERS if folder.name not in WITHOUT_TOOL]


@pytest.mark.anyio
@pytest.mark.parametrize("folder", FOR_TOOLS, ids=lambda folder: folder.name)
async def test_the_tools_over_mcp_do_what_the_folder_says(folder: Path, tmp_path: Path) -> None:
    before, expected = set_up(folder, tmp_path), folder / "expected"
    tool, arguments = to_call(folder)
    async with client_of(folder, tmp_path, tool) as client:
        if (folder / LINKS).exists():
            shown = await client.call_tool(tool, {**arguments, "preview": True})
            assert details(shown)["other_names"] == dict.fromkeys(linked(folder), 1)
            assert files(tmp_path) == before
        result = await client.call_tool(tool, arguments)
        assert files(tmp_path) == (files(expected) if expected.exists() else before)
        code = optional(folder / "failure.json", [{"code": ""}])[0]["code"]
        assert refusal(result) == CODES.get(code, code), result.content
        found, wanted = warnings(folder, details(result).get("syntax", []))
        assert found == wanted
        if (folder / AFTER_EDIT).exists():
            undo = {"command": "undo_edit", "path": arguments["path"]}
            assert not (await client.call_tool("text_editor", undo)).is_error
            assert files(tmp_path) == before


FORMATS: dict[str, EditFormat] = {"apply_patch": "patch", "edit_lines": "anchors"}


def client_of(folder: Path, place: Path, *tools: str) -> Client:
    """Return a client of a server that offers these tools, with the person's commands of a scenario."""
    chosen: list[EditFormat] = [FORMATS[tool] for tool in tools if tool in FORMATS]
    commands = parse_after_edit_commands(optional(folder / AFTER_EDIT, {}))
    offered = open_toolset(
        Workspace([place]), editor=EditorOptions(format=chosen[0] if chosen else "quote"), after_edit=commands
    )
    return Client(build_server(offered))


def refusal(result: CallToolResult) -> str:
    """Return the code of a refusal, empty if it is none."""
    code = (result.meta or {}).get("kakite/code", "")
    assert result.is_error == bool(code)
    return code


def details(result: CallToolResult) -> dict[str, Any]:
    return (result.meta or {}).get("kakite/details", {})


@pytest.mark.anyio
@pytest.mark.parametrize("folder", CALLED, ids=lambda folder: folder.name)
async def test_the_calls_of_tools_do_what_the_folder_says(folder: Path, tmp_path: Path) -> None:
    set_up(folder, tmp_path)
    steps = read_json(folder / CALLS)
    tools = [step["tool"] for step in steps if "tool" in step]
    async with client_of(folder, tmp_path, *tools) as client:
        for step in steps:
            before = files(tmp_path)
            if "write" in step:
                write_files(tmp_path, {path: text.encode() for path, text in step["write"].items()})
                continue
            result = await client.call_tool(step["tool"], step["arguments"])
            said = "".join(part.text for part in result.content if isinstance(part, TextContent))
            assert refusal(result) == step.get("code", ""), said
            assert [words for words in step.get("says", []) if words not in said] == [], said
            assert files(tmp_path) == before or not result.is_error
    assert files(tmp_path) == files(folder / "expected")


def test_only_what_has_no_tool_is_left_out() -> None:
    """A scenario that is left out has what no tool takes, and none is left out that is not there."""
    takes: dict[str, Callable[[Path], bool]] = {
        BY_LINE: lambda folder: any("line" in edit for edit in optional(folder / "edits.json", [])),
        REPLY: lambda folder: (folder / "reply.txt").exists() and not is_patch(folder),
        LIBRARY_ONLY: lambda folder: (folder / SETTINGS).exists(),
        BINARY: lambda folder: any(b"\0" in data for data in files(folder / "input").values()),
    }
    assert [name for name, why in WITHOUT_TOOL.items() if not takes[why](ROOT / name)] == []


def test_there_are_many_scenarios_and_each_says_what_it_is_about() -> None:
    assert len(ALL) >= 150
    assert all((folder / "about.txt").read_text(encoding="utf-8").strip() for folder in ALL)
