"""``kakite serve`` without ``--root``: the folders are those that the client names, and no others."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from tests.bounds import WITHIN
from tests.forking import COMMAND, run
from tests.serve.test_server import server, text

from kakite.serve.client_roots import MAX_ROOTS, add_client_roots
from kakite.serve.file_uris import build_file_uri, parse_file_uri
from kakite.serve.server import build_server
from kakite.tools import open_toolset
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "2026-07-28"]
Roots = list[str]


async def answering(roots: Roots) -> mcp_types.ListRootsResult:
    return mcp_types.ListRootsResult.model_validate({"roots": [{"uri": uri} for uri in roots]})


@asynccontextmanager
async def connected(
    roots: Roots | None, era: str, *arguments: str, folder: Path | None = None
) -> AsyncGenerator[Client]:
    """Start the program as a client does that has these roots; what is put into the list counts from then."""

    async def tell(context: Any) -> mcp_types.ListRootsResult:
        return await answering(roots or [])

    started = server(*arguments, cwd=folder)
    asked = tell if roots is not None else None
    with anyio.fail_after(WITHIN):
        async with Client(started, mode=era, list_roots_callback=asked) as client:
            yield client


async def read(client: Client, path: str | Path) -> tuple[str, str]:
    """Return what a file holds, or the code of why not."""
    result = await client.call_tool("read_files", {"path": str(path)})
    return text(result), str((result.meta or {}).get("kakite/code", ""))


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_the_folders_are_the_roots_of_the_client(era: str, tmp_path: Path) -> None:
    first, second, outside = (tmp_path / name for name in ("one two", "second", "outside"))
    for folder in (first, second, outside):
        folder.mkdir()
        (folder / "x").write_text(folder.name, encoding="ascii")
    (first / "link").symlink_to(outside)
    roots = [build_file_uri(str(first)), build_file_uri(str(second))]
    async with connected(roots, era, folder=outside) as client:
        assert (await client.list_tools()).tools
        assert await read(client, "x") == ("1 | one two", "")
        assert await read(client, second / "x") == ("1 | second", "")
        for beyond in (outside / "x", "../outside/x", "link/x", first / "link" / "x"):
            assert (await read(client, beyond))[1] == "path_escapes"
        edit = {"command": "create", "path": "new", "file_text": "new\n"}
        assert not (await client.call_tool("text_editor", edit)).is_error
        assert (first / "new").read_text(encoding="ascii") == "new\n"


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_list_that_changes_counts_from_the_next_call(era: str, tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("a", "b")}
    for name, folder in folders.items():
        (folder / "sub").mkdir(parents=True)
        (folder / "x").write_text(name, encoding="ascii")
        (folder / "sub" / "x").write_text(f"{name}/sub", encoding="ascii")
    roots = [build_file_uri(str(folders["a"]))]

    async def change(*now: Path) -> None:
        roots[:] = [build_file_uri(str(each)) for each in now]
        if era == "legacy":
            await client.session.send_notification(mcp_types.RootsListChangedNotification())

    async with connected(roots, era) as client:
        assert await read(client, "x") == ("1 | a", "")
        assert not (await client.call_tool("set_workspace", {"path": "sub"})).is_error
        assert await read(client, "x") == ("1 | a/sub", "")
        await change(folders["b"], folders["a"])
        assert await read(client, "x") == ("1 | a/sub", "")  # the chosen folder is still among them
        await change(folders["b"])
        assert (await read(client, "x"))[1] == "workspace_moved"
        assert (await read(client, folders["a"] / "x"))[1] == "workspace_moved"
        assert not (await client.call_tool("set_workspace", {"path": str(folders["b"])})).is_error
        assert await read(client, "x") == ("1 | b", "")
        assert (await read(client, folders["a"] / "x"))[1] == "path_escapes"
        await change()
        assert (await read(client, folders["b"] / "x"))[1] == "no_root"


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_roots_is_told_what_to_do_and_sees_no_file(era: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", encoding="ascii")
    async with connected(None, era, "--resources", folder=tmp_path) as client:
        assert (await client.list_tools()).tools
        result = await client.call_tool("read_files", {"path": "x"})
        assert result.is_error
        assert "Error (no_root)" in text(result)
        assert "--root" in text(result)
        assert (await read(client, tmp_path / "x"))[1] == "no_root"
        listed = await client.list_resources()
        assert [each.uri for each in listed.resources] == ["skill://kakite/SKILL.md"]
        (skill,) = (await client.read_resource("skill://kakite/SKILL.md")).contents
        assert isinstance(skill, mcp_types.TextResourceContents)
        with pytest.raises(MCPError) as refused:
            await client.read_resource(build_file_uri(str(tmp_path / "x")))
        assert refused.value.error.data["code"] == "no_root"


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_resources_are_those_of_the_roots(era: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for folder in (root, tmp_path):
        (folder / "x").write_text("x", encoding="ascii")
    async with connected([build_file_uri(str(root))], era, "--resources") as client:
        files = [each.uri for each in (await client.list_resources()).resources if "file:" in each.uri]
        # A list cannot ask in the newer era.
        assert files == ([build_file_uri(str(root / "x"))] if era == "legacy" else [])
        (found,) = (await client.read_resource(build_file_uri(str(root / "x")))).contents
        assert isinstance(found, mcp_types.TextResourceContents)
        assert found.text == "x"
        with pytest.raises(MCPError):
            await client.read_resource(build_file_uri(str(tmp_path / "x")))
        found = await client.complete(
            mcp_types.PromptReference(name="review_edit"), {"name": "path", "value": ""}
        )
        assert found.completion.values == (["x"] if era == "legacy" else [])
        assert (await client.get_prompt("review_edit")).messages  # it needs no folder


@pytest.mark.parametrize("options", [["--http", "127.0.0.1:0"], ["--landlock"]])
def test_where_no_client_can_name_them_in_time_the_folders_have_to_be_given(
    options: list[str], tmp_path: Path
) -> None:
    done = run(
        [*COMMAND, "serve", *options],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        given="",
        encoding="utf-8",
        timeout=WITHIN,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--root DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_without_folders_names_none(tmp_path: Path) -> None:
    done = run(
        [*COMMAND, "serve", "--print-config", "claude-code"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        cwd=tmp_path,
        encoding="utf-8",
        timeout=WITHIN,
        check=True,
    )
    assert json.loads(done.stdout)["mcpServers"]["kakite"]["args"][-1] == "serve"
    assert str(tmp_path) not in done.stdout


# Laws, in the process: whatever a client tells, nothing is read but beneath a root, where it first was.


@asynccontextmanager
async def in_process(roots: Roots, era: str) -> AsyncGenerator[Client]:
    async def tell(context: Any) -> mcp_types.ListRootsResult:
        return await answering(roots)

    ours = build_server(open_toolset(None))
    add_client_roots(ours, Workspace)
    async with Client(ours, mode=era, list_roots_callback=tell) as client:
        yield client


NAMES = ("a", "a/in", "b", "link", "none", "file")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.lists(st.sampled_from(NAMES), max_size=4)),
        st.tuples(st.just("swap"), st.sampled_from(["a", "b", "outside"])),
    ),
    min_size=1,
    max_size=6,
)


@given(steps=steps, era=st.sampled_from(ERAS))
def test_nothing_is_read_but_beneath_a_root_where_it_first_was(
    steps: Sequence[tuple[str, Any]], era: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(asyncio.wait_for(_follow(Path(place).resolve(), steps, era), WITHIN))


async def _follow(place: Path, steps: Sequence[tuple[str, Any]], era: str) -> None:
    for name in ("a", "a/in", "b", "outside"):
        (place / name).mkdir()
        (place / name / "x").write_text(name, encoding="ascii")
    (place / "file").touch()
    (place / "link").symlink_to(place / "b")
    roots: Roots = []
    first: dict[str, Path] = {}
    async with in_process(roots, era) as client:
        for step, argument in steps:
            if step == "swap":
                (place / "link").unlink()
                (place / "link").symlink_to(place / argument)
                continue
            roots[:] = [build_file_uri(str(place / name)) for name in argument]
            if era == "legacy":
                await client.session.send_notification(mcp_types.RootsListChangedNotification())
            real = {name: (place / name).resolve() for name in argument if (place / name).is_dir()}
            usable = [real[name] for name in real if first.setdefault(name, real[name]) == real[name]]
            for name in ("a", "a/in", "b", "outside"):
                seen, code = await read(client, place / name / "x")
                within = any((place / name).is_relative_to(root) for root in usable)
                assert (seen == f"1 | {name}") == within, (step, argument, name, seen)
                assert code == ("" if within else "path_escapes" if usable else "no_root")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("odd", ["file:///", "file:///none", "file://elsewhere/tmp", "file:///x%00y"])
async def test_what_is_no_project_on_this_machine_is_no_root(era: str, odd: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", encoding="ascii")
    with anyio.fail_after(WITHIN):
        async with in_process([odd], era) as client:
            assert (await read(client, tmp_path / "x"))[1] == "no_root"
        async with in_process([odd, build_file_uri(str(tmp_path))], era) as client:
            assert await read(client, "x") == ("1 | x", "")
            assert (await read(client, "/etc/passwd"))[1] == "path_escapes"


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_floods_or_fails_has_no_folders(era: str, tmp_path: Path) -> None:
    async def fail(context: Any) -> mcp_types.ErrorData:
        return mcp_types.ErrorData(code=-32000, message="I do not tell")

    ours = build_server(open_toolset(None))
    add_client_roots(ours, Workspace)
    with anyio.fail_after(WITHIN):
        async with in_process([build_file_uri(str(tmp_path))] * (MAX_ROOTS + 1), era) as client:
            assert (await read(client, tmp_path))[1] == "no_root"
        if era == "legacy":  # a client of the newer era gives up by itself
            async with Client(ours, mode=era, list_roots_callback=fail) as client:
                assert (await read(client, tmp_path))[1] == "no_root"


async def test_a_folder_that_was_made_anew_is_open_after_the_next_change(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with anyio.fail_after(WITHIN):
        async with in_process([build_file_uri(str(root))], "legacy") as client:
            assert (await read(client, "x"))[1] == "file_not_found"
            root.rmdir()
            assert (await read(client, "x"))[1] == "root_gone"
            (tmp_path / "other").mkdir()  # so that no new folder has the number of the old one
            root.mkdir()
            (root / "x").write_text("new", encoding="ascii")
            await client.session.send_notification(mcp_types.RootsListChangedNotification())
            assert await read(client, "x") == ("1 | new", "")


paths = st.binary(max_size=40).map(lambda data: "/" + os.fsdecode(data))


@given(path=paths)
def test_an_address_names_the_path_that_it_was_made_of(path: str) -> None:
    assert parse_file_uri(build_file_uri(path)) == path
