"""Who is offered the page that shows an edit, and what its results then carry besides."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.client.extension import advertise
from tests.bounds import WITHIN
from tests.forking import COMMAND, AsyncProgram, can_fork, open_kakite
from tests.serve.test_server import server, text
from tests.serve.test_streamable_http import serving

from kakite.edit import Change, ChangeSet, EditFailure, EditSuggestion
from kakite.edit.errors.model import Candidate
from kakite.serve.edit_app import EXTENSION, MIME, URI, describe_refusal

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "2026-07-28"]
SHOWS = {EXTENSION: {"mimeTypes": [MIME]}}
EDITING = {
    *("text_editor", "write_files", "insert_contents", "apply_diffs", "search_and_replace", "move_file"),
    "delete_file",
}
BARE = """
import runpy
import kakite.serve.edit_app as app
app.add_edit_app = lambda server: None
runpy.run_module("kakite", run_name="__main__")
"""
"""The program as it is without the page."""
REFUSED = {
    "command": "str_replace",
    "path": "a",
    "old_str": "value = compute(2)",
    "new_str": "value = measure(2)",
}
FILE = "import os\n\ndef main():\n    value = compute(1)\n    return value\n"


@asynccontextmanager
async def piped(command: Sequence[str]) -> AsyncGenerator[asyncio.subprocess.Process | AsyncProgram]:
    """Start a server whose bytes are to be seen."""
    if [*command[:2]] == COMMAND[1:] and can_fork(os.environ):
        started = await open_kakite(command[2:], os.environ, Path.cwd(), is_told=True)
    else:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, *command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
    try:
        yield started
    finally:
        if started.stdin:
            started.stdin.close()
        await started.wait()


async def speak(
    command: Sequence[str], folder: Path, era: str, extensions: Any, *options: str
) -> list[bytes]:
    """Return all that the server writes to a client that asks for all there is."""
    capabilities = {"extensions": extensions} if extensions is not None else {}
    info = {"name": "a client", "version": "1"}
    meta: Any = {
        "io.modelcontextprotocol/protocolVersion": era,
        "io.modelcontextprotocol/clientInfo": info,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    shake: Any = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
    asked: list[tuple[str, Any]] = [
        ("initialize", shake) if era == "legacy" else ("server/discover", {}),
        ("tools/list", {}),
        ("tools/call", {"name": "text_editor", "arguments": REFUSED}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": URI}),
    ]
    lines: list[bytes] = []
    async with (
        asyncio.timeout(WITHIN),
        piped([*command, "serve", "--root", str(folder), *options]) as started,
    ):
        assert started.stdin
        assert started.stdout
        for number, (method, params) in enumerate(asked):
            given = params if era == "legacy" else {**params, "_meta": meta}
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
            started.stdin.write(json.dumps(frame).encode() + b"\n")
            while not lines or json.loads(lines[-1]).get("id") != number:
                lines.append(await started.stdout.readline())
                assert lines[-1]
            if method == "initialize":
                started.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("extensions", "options"),
    [
        (None, []),
        ({EXTENSION: {}}, ["--resources"]),
        ({EXTENSION: {"mimeTypes": ["text/html"]}}, ["--tools", "editor"]),
    ],
    ids=str,
)
async def test_who_shows_no_pages_gets_the_bytes_that_there_were_before(
    era: str, extensions: Any, options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(FILE.encode())
    told = await speak(["-m", "kakite"], tmp_path, era, extensions, *options)
    assert told == await speak(["-c", BARE], tmp_path, era, extensions, *options)
    shown = await speak(["-m", "kakite"], tmp_path, era, SHOWS, *options)
    assert EXTENSION in json.loads(shown[0])["result"]["capabilities"]["extensions"]
    assert all(one != other for one, other in zip(told[:3], shown[:3], strict=True))


@asynccontextmanager
async def showing(folder: Path, era: str, *options: str) -> AsyncGenerator[Client]:
    """Connect a client that shows pages."""
    extensions = [advertise(name, settings) for name, settings in SHOWS.items()]
    with anyio.fail_after(WITHIN):
        started = server("--root", str(folder), *options)
        async with Client(started, mode=era, extensions=extensions) as client:
            yield client


def details(result: mcp.CallToolResult) -> dict[str, Any]:
    return (result.meta or {}).get("kakite/details", {})


@pytest.mark.slow
@pytest.mark.parametrize("era", [*ERAS, "auto"])
async def test_who_shows_pages_finds_one_at_each_tool_that_edits(era: str, tmp_path: Path) -> None:
    async with showing(tmp_path, era) as client:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools if "ui" in (tool.meta or {})} == EDITING
        named = {(tool.meta or {})["ui"]["resourceUri"] for tool in listed.tools if tool.name in EDITING}
        assert named == {URI}
        if era != "legacy":
            assert listed.cache_scope == "private"
        if era == "auto":
            assert EXTENSION in (client.server_capabilities.extensions or {})
        (page,) = (await client.read_resource(URI)).contents
        assert isinstance(page, mcp.TextResourceContents)
        assert (page.uri, page.mime_type, page.text[:15]) == (URI, MIME, "<!DOCTYPE html>")
        assert URI not in {each.uri for each in (await client.list_resources()).resources}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--read-only"], set[str]()),
        (["--tools", "search,shell"], set[str]()),
        (["--tools", "editor", "--edit-format", "patch"], {"text_editor", "apply_patch"}),
        (["--tools", "files"], {*EDITING - {"text_editor"}, "accept_suggestion"}),
    ],
    ids=["read only", "no editor", "patches", "files"],
)
async def test_what_edits_nothing_has_no_page(options: list[str], names: set[str], tmp_path: Path) -> None:
    async with showing(tmp_path, "auto", *options) as client:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed if "ui" in (tool.meta or {})} == names
        if not names:
            with pytest.raises(MCPError):
                await client.read_resource(URI)


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_refusal_brings_what_the_file_has_and_what_lands_instead(era: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(FILE.encode())
    async with showing(tmp_path, era) as client:
        refused = await client.call_tool("text_editor", REFUSED)
        (failure,), (suggestion,) = details(refused)["failures"], details(refused)["suggestions"]
        assert (failure["code"], failure["line"]) == ("near_miss", 4)
        assert (failure["found"].strip(), failure["sent"]) == ("value = compute(1)", "value = compute(2)")
        assert suggestion["id"] in text(refused)
        accepted = {"command": "accept", "suggestion": suggestion["id"]}
        done = await client.call_tool("text_editor", accepted)
    assert not done.is_error
    assert details(done)["diff"] == suggestion["diff"]
    assert (tmp_path / "a").read_text(encoding="utf-8") == FILE.replace("compute", "measure")


@pytest.mark.slow
async def test_every_tool_that_suggests_brings_what_it_suggests(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(FILE.encode())
    diff = {
        "path": "a",
        "search_content": "    return value",
        "replace_content": "    return 1",
        "start_line": 2,
    }
    replacing = {"path": "a", "search": "    value = compute(2)", "replace": "    value = 2"}
    async with showing(tmp_path, "auto") as client:
        for tool, arguments in (("apply_diffs", diff), ("search_and_replace", replacing)):
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error, tool
            (suggestion,) = details(refused)["suggestions"]
            assert suggestion["id"] in text(refused)
    patch = "*** Begin Patch\n*** Update File: a\n@@\n-    value = compute(2)\n+    value = 2\n*** End Patch"
    async with showing(tmp_path, "auto", "--tools", "editor", "--edit-format", "patch") as client:
        refused = await client.call_tool("apply_patch", {"patch": patch})
        assert details(refused)["failures"]


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_over_http_each_client_gets_what_it_can_show(era: str, tmp_path: Path) -> None:
    extensions = [advertise(name, settings) for name, settings in SHOWS.items()]
    with serving(tmp_path) as started, anyio.fail_after(WITHIN):
        (tmp_path / "root" / "a").write_bytes(FILE.encode())
        async with (
            Client(started.url, mode=era, extensions=extensions) as shows,
            Client(started.url, mode=era) as other,
        ):
            for client, names in ((shows, EDITING), (other, set[str]()), (shows, EDITING)):
                listed = await client.list_tools(cache_mode="bypass")
                assert {tool.name for tool in listed.tools if "ui" in (tool.meta or {})} == names
                refused = await client.call_tool("text_editor", REFUSED)
                assert bool(details(refused)) == bool(names)


failing = st.builds(
    EditFailure,
    index=st.integers(0, 99),
    code=st.just("not_found"),
    message=st.text(max_size=40).map(lambda told: told * 200),
    hint=st.text(max_size=40).map(lambda told: told * 200),
    found=st.text(max_size=40).map(lambda told: told * 200),
    sent=st.text(max_size=40).map(lambda told: told * 200),
    candidates=st.lists(
        st.builds(Candidate, line=st.just(1), lines=st.just(1), score=st.just(1.0), text=st.just("x" * 9999)),
        max_size=9,
    ).map(tuple),
    suggestion=st.none()
    | st.builds(
        EditSuggestion,
        id=st.uuids().map(str),
        line=st.just(1),
        diff=st.integers(0, 99_999).map(lambda count: "+x\n" * count),
        changes=st.just(ChangeSet.of(0, [Change(0, 0, "x")])),
    ),
)


@given(failures=st.lists(failing, max_size=60))
def test_what_a_refusal_brings_has_a_bound(failures: list[EditFailure]) -> None:
    told = describe_refusal(failures)
    assert len(json.dumps(told, ensure_ascii=False)) < 1_000_000
    for each in told["failures"]:
        assert any(each["message"] == failure.message[:2000] for failure in failures)
