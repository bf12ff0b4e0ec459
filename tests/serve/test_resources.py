"""``--resources``: the files of the workspace, listed and read."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import BlobResourceContents, TextResourceContents
from tests.bounds import WITHIN
from tests.serve.test_server import server

from kakite.serve.resources import PAGE

pytestmark = pytest.mark.anyio


def uri(path: Path) -> str:
    return "file://" + quote(os.fsencode(path))


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_files_are_listed_and_read_by_their_address(era: str, tmp_path: Path) -> None:
    contents = {
        "a.txt": b"one\r\n",
        "b c/\xe8\xaa\x9e?#.md".encode("latin-1").decode(): b"x",
        "d.bin": b"\0\xff",
    }
    for name, data in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / ".gitignore").write_bytes(b"*.log\n")
    (tmp_path / "x.log").touch()
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), "--resources"), mode=era) as client:
            resources = (await client.list_resources()).resources
            listed = {each.uri: each for each in resources if each.uri.startswith("file:")}
            assert listed.keys() == {uri(tmp_path / name) for name in [*contents, ".gitignore"]}
            assert listed[uri(tmp_path / "a.txt")].size == 5
            (template,) = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "file:///{+path}"
            for name, data in contents.items():
                (found,) = (await client.read_resource(uri(tmp_path / name))).contents
                if isinstance(found, TextResourceContents):
                    assert found.text.encode() == data
                else:
                    assert isinstance(found, BlobResourceContents)
                    assert base64.b64decode(found.blob) == data


@pytest.mark.slow
async def test_what_is_not_in_the_workspace_is_no_resource(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.write_text("secret", encoding="utf-8")
    (root / "link").symlink_to(outside)
    (root / "x").write_text("x", encoding="ascii")
    strange = [
        "https://example.com/x",
        "file://elsewhere/x",
        "file:///",
        "x",
        "file:///%00",
        "file://[",
        uri(root / "x") + "?x=1",
        uri(root / "x") + "#y",
        uri(root / "none"),
    ]
    escaping = [uri(outside), uri(root / ".." / "outside"), uri(root / "link"), uri(root) + "/%2e%2e/outside"]
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(root), "--resources"), mode="auto") as client:
            for each in [*strange, *escaping]:
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(each)
                assert refused.value.error.code == -32602
                assert refused.value.error.data["uri"] == each


@pytest.mark.slow
async def test_many_files_come_in_pages(tmp_path: Path) -> None:
    for number in range(PAGE + 5):
        (tmp_path / f"{number:04}").touch()
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path), "--resources"), mode="auto") as client:
            first = await client.list_resources()
            assert first.next_cursor is not None
            second = await client.list_resources(cursor=first.next_cursor)
            with pytest.raises(MCPError):
                await client.list_resources(cursor="nonsense")
    files = [each for page in (first, second) for each in page.resources if each.uri.startswith("file:")]
    names = [each.name for each in files]
    assert names == [f"{number:04}" for number in range(PAGE + 5)]
    assert second.next_cursor is None


@pytest.mark.slow
async def test_without_the_option_no_file_is_a_resource(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with anyio.fail_after(WITHIN):
        async with Client(server("--root", str(tmp_path)), mode="auto") as client:
            listed = await client.list_resources()
            assert not [each.uri for each in listed.resources if each.uri.startswith("file:")]
            assert (await client.list_resource_templates()).resource_templates == []
            with pytest.raises(MCPError):
                await client.read_resource(uri(tmp_path / "a.txt"))
        async with Client(server("--root", str(tmp_path), "--read-only"), mode="auto") as client:
            assert client.server_capabilities.resources is None
