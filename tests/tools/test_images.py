"""Pictures are shown as pictures, by their bytes, and only of a size that models take."""

from __future__ import annotations

import base64
from pathlib import Path

import mcp_types as mcp
import pytest
from mcp import Client
from tests.tools.conftest import Desk

from kakite.host.from_mcp import to_result
from kakite.tools.images import MAX_BYTES

pytestmark = pytest.mark.anyio

PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "image/gif": b"GIF89a\1\0\1\0",
    "image/webp": b"RIFF\x10\0\0\0WEBPVP8 ",
}


@pytest.mark.parametrize("mime", PICTURES)
async def test_a_picture_arrives_whole_over_mcp_and_in_the_host(
    client: Client, tmp_path: Path, mime: str
) -> None:
    (tmp_path / "x.txt").write_bytes(PICTURES[mime])
    answer = await client.call_tool("text_editor", {"command": "view", "path": "x.txt"})
    text, picture = answer.content
    assert isinstance(text, mcp.TextContent)
    assert isinstance(picture, mcp.ImageContent)
    assert (picture.mime_type, base64.b64decode(picture.data)) == (mime, PICTURES[mime])
    (image,) = to_result(answer).images
    assert (image.mime, base64.b64decode(image.data)) == (mime, PICTURES[mime])


async def test_a_picture_that_is_too_large_is_refused(desk: Desk) -> None:
    data = PICTURES["image/png"].ljust(MAX_BYTES, b"\0")
    desk.write("x.png", data)
    assert len((await desk.call("text_editor", command="view", path="x.png")).images) == 1
    desk.write("x.png", data + b"\0")
    assert (await desk.refused("text_editor", command="view", path="x.png"))[0] == "too_large"


@pytest.mark.parametrize("data", [b"\x89PNG\0\0\1", b"RIFF\x10\0\0\0WAVE", b"\0GIF89a"])
async def test_what_only_looks_like_a_picture_is_a_binary_file(desk: Desk, data: bytes) -> None:
    desk.write("x.png", data)
    assert (await desk.refused("text_editor", command="view", path="x.png"))[0] == "binary_file"


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        ("no base64!", "image/png"),
        (base64.b64encode(b"<svg onload=x>").decode(), "image/svg+xml"),
        (base64.b64encode(PICTURES["image/gif"].ljust(MAX_BYTES + 10, b"x")).decode(), "image/gif"),
    ],
)
async def test_what_is_no_picture_that_models_take_is_only_named_by_the_host(data: str, mime: str) -> None:
    block = mcp.ImageContent(type="image", data=data, mime_type=mime)
    result = to_result(mcp.CallToolResult(content=[block]))
    assert result.images == ()
    assert result.text.startswith(f"[image: {mime}, ")
