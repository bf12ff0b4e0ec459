"""What a server says in a result reaches the model: pictures, links, resources, structured content."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.from_mcp import to_result

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


def result_of(*blocks: mcp.ContentBlock, **more: Any) -> mcp.CallToolResult:
    return mcp.CallToolResult(content=list(blocks), **more)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (mcp.TextContent(type="text", text="plain"), "plain"),
        (mcp.ImageContent(type="image", data=PNG, mime_type="image/png"), "[image: image/png, 30 bytes]"),
        (mcp.AudioContent(type="audio", data="AAAA", mime_type="audio/wav"), "[audio: audio/wav, 3 bytes]"),
        (
            mcp.ResourceLink(
                type="resource_link",
                name="log",
                title="The log",
                uri="file:///var/log/x",
                mime_type="text/plain",
                description="of today",
            ),
            "[resource: The log file:///var/log/x, text/plain]: of today",
        ),
        (
            mcp.EmbeddedResource(
                type="resource", resource=mcp.TextResourceContents(uri="demo://a", text="inside")
            ),
            "inside",
        ),
        (
            mcp.EmbeddedResource(
                type="resource",
                resource=mcp.BlobResourceContents(uri="demo://b", mime_type="application/zip", blob="AAAA"),
            ),
            "[resource: demo://b, application/zip, 3 bytes]",
        ),
    ],
)
def test_every_kind_of_content_says_what_it_is_and_where(block: mcp.ContentBlock, text: str) -> None:
    assert to_result(result_of(block)).text == text


def test_a_picture_goes_along_also_as_a_resource() -> None:
    blob = mcp.BlobResourceContents(uri="demo://c", mime_type="image/png", blob=PNG)
    found = to_result(
        result_of(
            mcp.ImageContent(type="image", data=PNG, mime_type="image/jpeg"),
            mcp.EmbeddedResource(type="resource", resource=blob),
        )
    )
    assert [(each.mime, each.data) for each in found.images] == [("image/png", PNG)] * 2


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), values, max_size=3), st.sampled_from(["", " ", "said"]))
def test_structured_content_is_never_lost(structured: dict[str, Any], said: str) -> None:
    found = to_result(result_of(mcp.TextContent(type="text", text=said), structured_content=structured))
    assert found.details == {"structured": structured}
    if said.strip():
        assert found.text == said
    else:
        assert json.loads(found.text) == structured
