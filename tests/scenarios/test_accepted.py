"""Runs the scenarios whose refusal suggests what was meant, and accepts that, through every face.

Such a folder has, beside ``failure.json``, ``accepted/`` with all files as they are once the suggestion was
accepted.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.scenarios.test_scenarios import FOLDERS, files, operations, read_json, reply_of, write_files
from typer.testing import CliRunner

from kakite.cli.app import app
from kakite.edit import Edit, EditError, SourceText, SuggestionGoneError, accept, apply
from kakite.edit.jsonl_protocol import JsonlSession
from kakite.serve import build_server
from kakite.tools import open_toolset
from kakite.workspace import Workspace

SUGGESTED = [folder for folder in FOLDERS if (folder / "accepted").exists()]
ONE_FILE = [folder for folder in SUGGESTED if len(files(folder / "input")) == 1]
ONE_EDIT = [folder for folder in ONE_FILE if len(operations(folder)) == 1]


@pytest.mark.parametrize("folder", ONE_EDIT, ids=lambda folder: folder.name)
def test_the_library_accepts_what_it_suggests(folder: Path) -> None:
    (before,), (wanted,) = files(folder / "input").values(), files(folder / "accepted").values()
    source = SourceText.from_bytes(before)
    with pytest.raises(EditError) as refused:
        apply(source, operations(folder))
    (failure,) = refused.value.failures
    assert failure.suggestion is not None
    assert accept(source, failure.suggestion).source.to_bytes() == wanted
    for other in (wanted, before + before):
        with pytest.raises(SuggestionGoneError):
            accept(SourceText.from_bytes(other), failure.suggestion)


@pytest.mark.parametrize("folder", ONE_FILE, ids=lambda folder: folder.name)
def test_the_json_lines_accept_what_they_suggest(folder: Path) -> None:
    (before,), (wanted,) = files(folder / "input").values(), files(folder / "accepted").values()
    lines = JsonlSession()

    def ask(data: bytes, **request: object) -> dict[str, Any]:
        given = base64.b64encode(data).decode()
        return json.loads(lines.answer(json.dumps({"text_b64": given, **request})))

    (suggestion,) = [
        each["suggestion"] for each in ask(before, edits=read_json(folder / "edits.json"))["failures"]
    ]
    assert base64.b64decode(ask(before, accept=suggestion["id"])["text_b64"]) == wanted
    gone = ask(wanted, accept=suggestion["id"])
    assert gone["failures"][0]["code"] == "suggestion_gone"


@pytest.mark.parametrize("folder", SUGGESTED, ids=lambda folder: folder.name)
def test_the_command_accepts_what_it_suggests(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, wanted, place = files(folder / "input"), files(folder / "accepted"), tmp_path / "folder"
    write_files(place, before)
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def edit(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["edit", "--json", *arguments], input=reply_of(folder))
        assert done.exit_code in {0, 1}, done.output
        return json.loads(done.stdout)

    (suggestion,) = {each["suggestion"]["id"] for each in edit(*before)["failures"]}
    name = next(iter(before))
    (place / name).write_bytes(before[name] + b"\n")
    assert edit("--accept", suggestion)["failures"][0]["code"] == "suggestion_gone"
    (place / name).write_bytes(before[name])
    assert edit("--accept", suggestion)["ok"]
    assert files(place) == wanted
    assert edit("--accept", suggestion)["failures"][0]["code"] == "suggestion_gone"


@pytest.mark.anyio
@pytest.mark.parametrize("folder", SUGGESTED, ids=lambda folder: folder.name)
async def test_the_editor_over_mcp_accepts_what_it_suggests(folder: Path, tmp_path: Path) -> None:
    before, wanted = files(folder / "input"), files(folder / "accepted")
    write_files(tmp_path, before)
    name = next(iter(before))
    edits = [
        {"path": each.path or name, "old_str": each.search, "new_str": each.replace}
        for each in operations(folder)
        if isinstance(each, Edit)
    ]
    async with Client(build_server(open_toolset(Workspace([tmp_path])))) as client:

        async def call(**arguments: object) -> tuple[str, str]:
            result = await client.call_tool("text_editor", arguments)
            return (result.meta or {}).get("kakite/code", ""), str(result.content)

        code, told = await call(command="edit", path=name, edits=edits)
        assert code == read_json(folder / "failure.json")[0]["code"]
        (suggestion,) = re.findall(r'"suggestion": "(\w+)"', told)
        (tmp_path / name).write_bytes(before[name] + b"\n")
        assert (await call(command="accept", suggestion=suggestion))[0] == "suggestion_gone"
        (tmp_path / name).write_bytes(before[name])
        assert (await call(command="accept", suggestion="0123456789"))[0] == "suggestion_gone"
        assert (await call(command="accept", suggestion=suggestion))[0] == ""
        assert files(tmp_path) == wanted
        assert (await call(command="accept", suggestion=suggestion))[0] == "suggestion_gone"
